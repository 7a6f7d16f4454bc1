"""Which client sends a request: logins, certificates, paths that need none, and what is said about refusals."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from broker_cy.client.errors import ClientError
from broker_cy.http.limits import FREE_FAILURES
from broker_registry.api.app import App, Sender
from broker_registry.errors import RegistryError
from broker_registry.security.access import Access
from broker_registry.security.guard import NOTES_BURST, Guard
from broker_registry.security.settings import Method, SecuritySettings
from broker_registry.store.state import State
from tests.broker_registry.api.support import Reply, call, service_with
from tests.support.certificates import Authority

PASSWORD = "correct horse"


def no_client(*_: Any) -> Any:
    raise AssertionError("no broker is reached")


class Rig:
    """A guard with the users alice (role reader) and bob (no role)."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.now_s = 0.0
        file = directory / "users"
        file.write_text(f"alice: {PASSWORD},reader\nbob: {PASSWORD}\n")
        found = {"method": Method.BASIC, "realm": 'a"b', "users_file": str(file), **settings}
        self.guard = Guard(SecuritySettings(**found), no_client, now_s=lambda: self.now_s, wall_s=lambda: self.now_s)
        asyncio.run(self.guard._open())

    def access(
        self, *login: bytes, path: str = "subjects", certificate: bytes | None = None, address: str = "10.0.0.1"
    ) -> Access:
        sender = Sender(tuple(path.split("/")), login, address, certificate)
        return asyncio.run(self.guard.access_of(sender))

    def refused(self, *login: bytes, **more: Any) -> RegistryError:
        with pytest.raises(RegistryError) as caught:
            self.access(*login, **more)
        return caught.value

    def get(self, path: str, *login: bytes) -> Reply:
        app = App(service_with(State()), self.guard)
        return call(app, "GET", path, headers=[(b"authorization", each) for each in login])


def basic(user: str, password: str = PASSWORD) -> bytes:
    return b"Basic " + base64.b64encode(f"{user}:{password}".encode())


def test_the_login_names_the_principal(tmp_path: Path) -> None:
    """If this fails, the ACLs of a user have no effect, or apply to another user."""
    assert Rig(tmp_path).access(basic("alice")).principal == "User:alice"


def test_a_login_that_counts_is_known_at_once(tmp_path: Path) -> None:
    """If this fails, GETs are answered immediately for clients that did not log in, or for none that did."""
    rig = Rig(tmp_path, roles=frozenset({"reader"}), skip_paths=("/_health",))

    def known(*login: bytes, certificate: bytes | None = None, path: str = "subjects") -> str | None:
        found = rig.guard.known_access_of(Sender((path,), login, "10.0.0.1", certificate))
        return None if found is None else str(found.principal)

    assert known(basic("alice")) is None
    assert rig.access(basic("alice")).principal == "User:alice"
    assert known(basic("alice")) == "User:alice"
    assert rig.refused(basic("bob")).code == 40101
    for login in ((), (basic("alice", "x"),), (basic("bob"),), (basic("alice"), basic("alice"))):
        assert known(*login) is None
    assert known(path="_health") == "None"
    authority = Authority()
    certificate = authority.issue("alice").der
    rig = Rig(tmp_path, method=Method.NONE, users_file=None, certificate_rules="DEFAULT")
    assert known(certificate=certificate) == "User:CN=alice,OU=Tests,O=Broker"
    assert known() is None
    assert known(certificate=b"none") is None
    rig = Rig(tmp_path, certificate_rules="DEFAULT")
    assert known(certificate=certificate) is None


def test_answers_to_wrong_logins(tmp_path: Path) -> None:
    """If this fails, clients do not learn which login is wanted, or whether a user exists."""
    rig = Rig(tmp_path)
    wrong = [rig.get("/subjects"), rig.get("/subjects", basic("alice", "x")), rig.get("/subjects", basic("nobody"))]
    for reply in wrong:
        assert reply.error == (401, 40101)
        assert reply.body == {"error_code": 40101, "message": "Unauthorized"}
        assert reply.headers[b"www-authenticate"] == b'Basic realm="a\\"b", charset="UTF-8"'
    assert rig.get("/no/such/path").error == (401, 40101)
    assert rig.get("/subjects", basic("alice")).status == 200


def test_many_wrong_logins_are_delayed(tmp_path: Path) -> None:
    """If this fails, passwords can be guessed at the speed of the network."""
    rig = Rig(tmp_path)
    for _ in range(FREE_FAILURES):
        assert rig.get("/subjects", basic("alice", "x")).status == 401
    reply = rig.get("/subjects", basic("alice"))
    assert reply.error == (429, 429)
    assert reply.headers[b"retry-after"] == b"1"


def test_a_user_needs_one_of_the_roles(tmp_path: Path) -> None:
    """If this fails, every user of a shared file may use the registry."""
    rig = Rig(tmp_path, roles=frozenset({"reader", "admin"}))
    assert rig.access(basic("alice")).principal == "User:alice"
    assert rig.refused(basic("bob")).code == 40101


def test_paths_without_a_login(tmp_path: Path) -> None:
    """If this fails, health checks need a password, or a path that looks like one of theirs opens all."""
    rig = Rig(tmp_path, skip_paths=("/_health", "/v1/*", "/"))
    for path in ("_health", "v1/metadata/id", "v1", ""):
        assert rig.access(path=path).principal is None
    for path in ("subjects", "_health/x", "x/_health", "contexts/_health", "v1x", "_health/../subjects"):
        assert rig.refused(path=path).code == 40101, path
    assert rig.get("/_health").status == 503
    for path in ("/v1%2F..%2Fsubjects", "/_health%2F..%2F..%2Fsubjects", "/contexts/.a/_health"):
        assert rig.get(path).status == 401, path
    everywhere = Rig(tmp_path, skip_paths=("/*",), has_anonymous=True)
    assert everywhere.access().principal == "User:ANONYMOUS"


def test_a_certificate_names_the_principal(tmp_path: Path) -> None:
    """If this fails, clients with certificates have another principal than at the brokers."""
    authority = Authority()
    rig = Rig(tmp_path, method=Method.NONE, users_file=None, certificate_rules="RULE:^CN=(.*?),.*$/$1/L")
    assert rig.access(certificate=authority.issue("ALICE").der).principal == "User:alice"
    assert rig.refused().code == 40101
    assert rig.refused(certificate=b"no certificate").code == 40101
    both = Rig(tmp_path, certificate_rules="DEFAULT")
    certificate = authority.issue("alice").der
    assert both.access(basic("bob"), certificate=certificate).principal == "User:CN=alice,OU=Tests,O=Broker"
    assert both.refused(certificate=certificate).code == 40101
    assert both.refused(basic("bob")).code == 40101


def test_a_registry_without_logins_is_open(tmp_path: Path) -> None:
    """If this fails, a registry on a developer's machine asks for a login."""
    rig = Rig(tmp_path, method=Method.NONE, users_file=None)
    assert rig.access().sees_everything
    assert rig.guard.challenge == ""


def test_a_body_is_not_read_before_the_login(tmp_path: Path) -> None:
    """If this fails, clients that are not logged in fill the memory."""
    rig = Rig(tmp_path)
    app = App(service_with(State()), rig.guard)
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        raise AssertionError("the body was read")

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": "/subjects/a/versions", "raw_path": b"/subjects/a/versions",
        "query_string": b"", "headers": [(b"content-length", b"16000000")], "client": ("10.0.0.1", 1), "state": {},
    }  # fmt: skip
    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == 401


def test_refusals_are_logged_and_do_not_fill_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, an operator sees no attack, or one client writes the log full, or forges lines of it."""
    rig = Rig(tmp_path)
    rig.refused(basic("alice", "wrong password"))
    assert "refused a request from 10.0.0.1: unknown user or wrong password" in caplog.text
    assert "wrong password " not in caplog.text
    sender = Sender(("subjects", "a\nforged line"), (), "10.0.0.3", None)
    access = Access("User:alice", "10.0.0.3", None)
    for _ in range(2 * NOTES_BURST):
        rig.guard.denied(sender, access, RegistryError(40301, "denied on a\nforged line"))
    lines = [each.getMessage() for each in caplog.records if "10.0.0.3" in each.getMessage()]
    assert len(lines) == NOTES_BURST
    assert not any("\n" in each for each in lines)


def test_a_file_of_users_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    """If this fails, a registry starts with a login that no client has."""
    with pytest.raises(ClientError, match=r"brokercy.registry.users.file: .*cannot read"):
        Rig(tmp_path, users_file=str(tmp_path / "none"))
