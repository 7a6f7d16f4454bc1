"""Logins of requests: headers, passwords, tokens, what is kept, and delays."""

from __future__ import annotations

import asyncio
import base64

import pytest

from broker_cy.http.limits import FREE_FAILURES
from broker_cy.http.logins import (
    KEPT_S,
    LOGIN_BYTES_MAX,
    Basic,
    Bearer,
    Delayed,
    Logins,
    NotLoggedIn,
    Unchecked,
    User,
    parse_authorization,
)
from broker_cy.security.sasl.oauthbearer import Accepted, Rejected

ADDRESS = "10.0.0.1"


def basic(user: str, password: str) -> list[bytes]:
    return [b"Basic " + base64.b64encode(f"{user}:{password}".encode())]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (basic("alice", "a:b"), Basic("alice", "a:b")),
        ([b"bAsIc " + base64.b64encode("jürgen:pä".encode())], Basic("jürgen", "pä")),
        ([b"Bearer abc.def.ghi"], Bearer("abc.def.ghi")),
        ([], None),
        ([b""], None),
        ([b"Basic"], None),
        ([b"Basic !!!"], None),
        ([b"Basic " + base64.b64encode(b"alice")], None),
        ([b"Basic " + base64.b64encode(b":password")], None),
        ([b"Basic " + base64.b64encode(b"\xff\xfe:x")], None),
        ([b"Bearer "], None),
        ([b"Bearer \xff"], None),
        ([b"Digest username=a"], None),
        ([*basic("alice", "a"), *basic("bob", "b")], None),
        ([b"Bearer " + b"x" * LOGIN_BYTES_MAX], None),
    ],
)
def test_headers(values: list[bytes], expected: Basic | Bearer | None) -> None:
    """If this fails, a malformed login is one, or the login of a client is another's."""
    assert parse_authorization(values) == expected


class FakeUsers:
    """One user, whose password may change."""

    def __init__(self) -> None:
        self.password = "right"
        self.stamp = 0
        self.checks = 0
        self.error: Exception | None = None

    def version(self) -> int:
        return self.stamp

    async def check(self, name: str, password: str) -> User | None:
        self.checks += 1
        if self.error is not None:
            raise self.error
        return User(name, frozenset({"reader"})) if (name, password) == ("alice", self.password) else None


class Rig:
    """Logins with a clock that the test moves."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.users = FakeUsers()
        self.expires_s = 2_000.0
        self.judged = 0
        self.logins = Logins(self.users, self.judge, now_s=lambda: self.now_s, wall_s=lambda: self.now_s)

    def judge(self, token: str) -> Accepted | Rejected:
        self.judged += 1
        return Accepted(token, int(self.expires_s * 1_000)) if token == "carol" else Rejected("a wrong signature")

    def user(self, values: list[bytes], address: str = ADDRESS) -> str:
        return asyncio.run(self.logins.user_of(values, address)).name


def test_an_accepted_password_counts_for_a_while() -> None:
    """If this fails, each request costs a check, or a password counts after it was changed."""
    rig = Rig()
    assert [rig.user(basic("alice", "right")) for _ in range(3)] == ["alice"] * 3
    assert rig.users.checks == 1
    rig.users.password = "new"
    rig.now_s += KEPT_S - 1
    assert rig.user(basic("alice", "right")) == "alice"
    rig.now_s += 1
    with pytest.raises(NotLoggedIn):
        rig.user(basic("alice", "right"))


def test_a_source_that_says_so_is_asked_at_once() -> None:
    """If this fails, a user who was removed from the file still has access."""
    rig = Rig()
    assert rig.user(basic("alice", "right")) == "alice"
    rig.users.password, rig.users.stamp = "new", 1
    with pytest.raises(NotLoggedIn):
        rig.user(basic("alice", "right"))
    assert rig.user(basic("alice", "new")) == "alice"


def test_wrong_passwords_are_delayed() -> None:
    """If this fails, passwords can be tried as fast as the network allows, or one client locks others out."""
    rig = Rig()
    for _ in range(FREE_FAILURES):
        with pytest.raises(NotLoggedIn):
            rig.user(basic("alice", "wrong"))
    checks = rig.users.checks
    with pytest.raises(Delayed) as caught:
        rig.user(basic("alice", "right"))
    assert caught.value.wait_s == 1
    assert rig.users.checks == checks
    # Another address, and another user of this one.
    assert rig.user(basic("alice", "right"), "10.0.0.2") == "alice"
    with pytest.raises(NotLoggedIn):
        rig.user(basic("bob", "wrong"))
    rig.now_s += 1
    assert rig.user(basic("alice", "right")) == "alice"


def test_a_password_that_cannot_be_checked_is_no_failure() -> None:
    """If this fails, users are locked out because the brokers were away."""
    rig = Rig()
    rig.users.error = Unchecked("no broker answers")
    for _ in range(2 * FREE_FAILURES):
        with pytest.raises(Unchecked):
            rig.user(basic("alice", "right"))
    rig.users.error = None
    assert rig.user(basic("alice", "right")) == "alice"


def test_a_token_counts_until_it_expires() -> None:
    """If this fails, a token opens the program after its end, or each request costs a signature."""
    rig = Rig()
    rig.expires_s = rig.now_s + 10
    assert [rig.user([b"Bearer carol"]) for _ in range(2)] == ["carol"] * 2
    assert rig.judged == 1
    rig.now_s += 10
    rig.user([b"Bearer carol"])
    assert rig.judged == 2
    with pytest.raises(NotLoggedIn, match="a wrong signature"):
        rig.user([b"Bearer mallory"])


def test_a_login_of_another_kind_is_none() -> None:
    """If this fails, a program that demands tokens takes passwords."""
    rig = Rig()
    only_tokens = Logins(None, rig.judge, now_s=lambda: 0.0, wall_s=lambda: 0.0)
    with pytest.raises(NotLoggedIn, match="of another kind"):
        asyncio.run(only_tokens.user_of(basic("alice", "right"), ADDRESS))
    with pytest.raises(NotLoggedIn, match="no login"):
        asyncio.run(only_tokens.user_of([], ADDRESS))
