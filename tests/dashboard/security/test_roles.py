"""Access by role and scope: the one function that decides."""

from __future__ import annotations

import pytest

from dashboard.security.roles import LOOPBACK, PASSWORD, Identity, Need, Role, Scope, decide

ORDERS = Scope(clusters=("prod*",), topics=("orders*", "audit"), groups=("billing-?",))


def identity(role: Role, scope: Scope | None = None) -> Identity:
    return Identity("anna", role, scope or Scope(), PASSWORD, "10.0.0.1")


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("needed", list(Role))
def test_a_role_includes_the_roles_below_it_and_nothing_above(role: Role, needed: Role) -> None:
    """If this fails, a viewer can change a cluster, or an admin cannot look at it."""
    reason = decide(identity(role), Need(needed))
    assert (reason == "") is (role >= needed)
    if reason:
        assert "anna" in reason
        assert role.text in reason
        assert needed.text in reason


@pytest.mark.parametrize(
    ("need", "allowed"),
    [
        (Need(Role.VIEWER), True),
        (Need(Role.VIEWER, "prod-1"), True),
        (Need(Role.VIEWER, "test"), False),
        (Need(Role.VIEWER, "Prod-1"), False),
        (Need(Role.VIEWER, "prod-1", ("orders-eu",)), True),
        (Need(Role.VIEWER, "prod-1", ("orders-eu", "payments")), False),
        (Need(Role.VIEWER, "prod-1", ("ORDERS",)), False),
        (Need(Role.VIEWER, "prod-1", ("my-orders",)), False),
        (Need(Role.VIEWER, "prod-1", ("orders", "audit"), ("billing-1",)), True),
        (Need(Role.VIEWER, "prod-1", ("orders",), ("billing-10",)), False),
        (Need(Role.VIEWER, "prod-1", ("orders\n.payments",)), True),
        (Need(Role.ADMIN, "prod-1", ("orders",)), False),
    ],
)
def test_a_request_needs_every_name_that_it_is_about(need: Need, allowed: bool) -> None:
    """If this fails, a user reads or changes topics and groups outside of their patterns."""
    assert (decide(identity(Role.OPERATOR, ORDERS), need) == "") is allowed


def test_nobody_may_do_anything() -> None:
    """If this fails, a request without login is allowed."""
    assert "not logged in" in decide(None, Need(Role.VIEWER))


@pytest.mark.parametrize("role", [None, 0, 1, "viewer"])
def test_an_unknown_need_is_refused(role: object) -> None:
    """If this fails, a page that does not name its role is open to all users."""
    assert decide(identity(Role.ADMIN), Need(role))  # type: ignore[arg-type]


def test_no_patterns_see_nothing() -> None:
    """If this fails, a user whose patterns were all removed sees everything."""
    scope = Scope(topics=())
    assert not scope.sees_topic("orders")
    assert not scope.sees_topic("")
    assert not scope.sees_everything


def test_scopes_are_equal_by_content() -> None:
    """If this fails, the same frame is encoded once for each viewer instead of once for each scope."""
    assert Scope(topics=("b", "a", "a")) == Scope(topics=("a", "b"))
    assert hash(Scope(topics=("b", "a"))) == hash(Scope(topics=("a", "b")))
    assert Scope(topics=("a", "*")) == Scope()
    assert Scope(unmasked=True) != Scope()
    assert Scope().sees_everything


def test_roles_are_read_from_text() -> None:
    """If this fails, a file with a wrong role is accepted, or the error does not list the valid roles."""
    assert Role.parse("operator") is Role.OPERATOR
    for wrong in ("", "Admin", "root", "3"):
        with pytest.raises(ValueError, match="viewer, operator, admin"):
            Role.parse(wrong)


def test_an_identity_does_not_print_its_session() -> None:
    """If this fails, logs contain the nonce by which a session is found."""
    assert "nonce" not in repr(Identity("anna", Role.ADMIN, Scope(), LOOPBACK, ""))
