"""Both halves of GSSAPI's exchange over contexts that need no Kerberos, and a login that waits for their calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from broker_cy.security.authenticator import Admitted, Answer, Authenticator, Busy, Mechanisms, Outcome, Refused, State
from broker_cy.security.kerberos import PrincipalRules
from broker_cy.security.sasl.exchange import Challenge, Done, Failed, LoginFailed, ServerStep, Work
from broker_cy.security.sasl.gssapi import TOKEN_BYTES_MAX, GssapiClient, GssapiServer, GssError
from broker_cy.wire import messages
from tests.broker_cy.security.exchanges import FakeContext
from tests.broker_cy.security.test_authenticator import answered, handshake, token, versions

USER_OF = PrincipalRules(("RULE:[2:$1-$2](.*-admin)s/-.*//L", "DEFAULT"), "X").user_of


def done(step: ServerStep) -> Challenge | Done | Failed:
    """The step, with its calls made."""
    assert isinstance(step, Work)
    found = step.run()
    assert not isinstance(found, Work)
    return found


def steps(server: GssapiServer, tokens: Sequence[bytes]) -> Challenge | Done | Failed:
    *before, last = tokens
    for each in before:
        assert isinstance(done(server.step(each)), Challenge)
    return done(server.step(last))


def server(context: FakeContext | None = None) -> GssapiServer:
    return GssapiServer(lambda: context or FakeContext(1), USER_OF)


@pytest.mark.parametrize(("legs", "server_speaks_last"), [(1, True), (2, True), (3, True), (2, False), (3, False)])
def test_both_halves(legs: int, server_speaks_last: bool) -> None:
    """If this fails, clients of this project and its brokers do not understand each other."""
    at_server = server(FakeContext(legs, speaks_last=server_speaks_last))
    context = FakeContext(legs if server_speaks_last else legs - 1, speaks_last=not server_speaks_last)
    at_client = GssapiClient(lambda: context)
    sent = at_client.first()
    for _ in range(10):
        step = done(at_server.step(sent))
        assert not isinstance(step, Failed), step
        answer = at_client.step(step.token)
        if isinstance(step, Done):
            assert (step.user, answer, at_client.is_complete) == ("alice", None, True)
            return
        assert not at_client.is_complete
        assert answer is not None
        sent = answer
    raise AssertionError("an exchange without end")


LAYER = b"proof\x01\x00\x00\x00"


@pytest.mark.parametrize("wanted", [LAYER, LAYER + b"somebody@X", b"proof\x01\x00\xff\xff" + b"kafka@host"])
def test_an_authorization_id_has_no_effect(wanted: bytes) -> None:
    """If this fails, a client with a ticket can choose its own name; or clients that send the service name are
    rejected.
    """
    assert steps(server(), (b"ctx", b"", wanted)) == Done(b"", "alice")
    assert steps(server(FakeContext(1, "Carol/admin@X")), (b"ctx", b"", wanted)) == Done(b"", "carol")


def test_a_context_that_the_client_ends() -> None:
    """If this fails, clients without mutual authentication wait for an answer."""
    at_server = server(FakeContext(1, speaks_last=False))
    assert done(at_server.step(b"ctx")) == Challenge(b"proof\x01\x00\x00\x00")
    assert done(at_server.step(LAYER)) == Done(b"", "alice")


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [
        ((b"nothing of Kerberos",), "Invalid token"),
        ((b"ctx", b"x"), "after the last one"),
        ((b"ctx", b"ctx"), "after the last one"),
        ((b"ctx", b"", b""), "Message Integrity"),
        ((b"ctx", b"", b"\x01\0\0\0"), "Message Integrity"),
        ((b"ctx", b"", b"proof"), "security layer"),
        ((b"ctx", b"", b"proof\x01\0\0"), "security layer"),
        ((b"ctx", b"", b"proof\x00\0\0\0"), "security layer"),
        ((b"ctx", b"", b"proof\x02\0\0\0"), "security layer"),
        ((b"ctx", b"", b"proof\x03\0\0\0"), "security layer"),
    ],
)
def test_who_proves_nothing_is_refused(tokens: Sequence[bytes], reason: str) -> None:
    """If this fails, a client is let in without a ticket, or without the proof that it has the key of its ticket."""
    at_server = server()
    failed = steps(at_server, tokens)
    assert isinstance(failed, Failed)
    assert reason in failed.reason
    # The client learns the text that is the same for each reason.
    assert failed.text is None
    assert isinstance(at_server.step(LAYER), Failed)


def test_a_context_that_does_not_go_on() -> None:
    """If this fails, a client keeps a connection with empty tokens until its deadline."""
    context = FakeContext(2)
    context.step = lambda token: b""  # type: ignore[method-assign]
    failed = done(server(context).step(b"ctx"))
    assert isinstance(failed, Failed)
    assert "does not go on" in failed.reason


@pytest.mark.parametrize("principal", ["alice@OTHER", "alice\\/admin@X", "a/b/c@X"])
def test_a_principal_that_no_rule_fits(principal: str) -> None:
    """If this fails, users of a realm that is trusted for something else are users of the cluster."""
    failed = steps(server(FakeContext(1, principal)), (b"ctx", b"", LAYER))
    assert isinstance(failed, Failed)
    assert failed.user == principal


def test_a_token_is_not_too_long() -> None:
    """If this fails, a client that is not logged in keeps threads busy with long tokens."""
    assert isinstance(server().step(b"x" * (TOKEN_BYTES_MAX + 1)), Failed)


@pytest.mark.parametrize(
    "answers",
    [
        (b"no token",),
        (b"ctx", b"\x01\0\0\0"),
        (b"ctx", b"proof"),
        (b"ctx", b"proof\x01\0\0"),
        (b"ctx", b"proof\x06\0\0\0"),  # only integrity and confidentiality
        (b"ctx", b"proof\x01\0\0\0", b"x"),
        (b"ctx", b"proof\x01\0\0\0", b"", b""),
    ],
)
def test_a_server_that_proves_nothing(answers: Sequence[bytes]) -> None:
    """If this fails, our client sends records to a server that does not know the key of the service."""
    client = GssapiClient(lambda: FakeContext(1))
    client.first()
    *before, last = answers
    for each in before:
        client.step(each)
    with pytest.raises(LoginFailed):
        client.step(last)


def test_a_client_without_a_ticket() -> None:
    """If this fails, the user does not learn why the login failed."""

    def begin() -> FakeContext:
        raise GssError("Client not found in Kerberos database")

    with pytest.raises(LoginFailed, match="Kerberos: Client not found"):
        GssapiClient(begin).first()


# --- the state of a connection that waits for calls


def authenticator(begin: Callable[[], FakeContext] = lambda: FakeContext(1)) -> Authenticator:
    return Authenticator(Mechanisms({"GSSAPI": lambda: GssapiServer(begin, USER_OF)}, {"GSSAPI": 60_000}), versions)


def finished(of: Authenticator, outcome: Outcome) -> Outcome:
    assert isinstance(outcome, Busy)
    assert (of.state, outcome.payload) == (State.BUSY, b"")
    return of.finish(outcome.run())


@pytest.mark.parametrize("version", [0, 1])
def test_a_login_with_calls(version: int) -> None:
    """If this fails, no client logs in with GSSAPI, in SaslAuthenticate requests or in tokens of their own."""
    of = authenticator()
    assert isinstance(of.take(handshake("GSSAPI", version), 0), Answer)
    outcome: Outcome | None = None
    for data in (b"ctx", b"", LAYER):
        outcome = finished(of, of.take(token(data) if version else data, 0))
    assert isinstance(outcome, Admitted)
    assert outcome.session.user == "alice"
    assert of.state is State.COMPLETE
    if version:
        assert answered(outcome, 2) == messages.SaslAuthenticateResponse(session_lifetime_ms=60_000)


def test_a_failure_of_a_call() -> None:
    """If this fails, the client gets Kerberos' error text, or its connection stays open."""
    of = authenticator()
    of.take(handshake("GSSAPI"), 0)
    outcome = finished(of, of.take(token(b"x"), 0))
    assert isinstance(outcome, Refused)
    assert (of.state, outcome.is_delayed, outcome.mechanism) == (State.FAILED, True, "GSSAPI")
    assert "Invalid token" in outcome.reason
    assert b"Invalid token" not in outcome.payload
    assert b"invalid credentials with SASL mechanism GSSAPI" in outcome.payload


def test_nothing_is_taken_while_calls_run() -> None:
    """If this fails, a second token reaches a context that another thread uses."""
    of = authenticator()
    of.take(handshake("GSSAPI"), 0)
    assert isinstance(of.take(token(b"ctx"), 0), Busy)
    outcome = of.take(token(b""), 0)
    assert isinstance(outcome, Refused)
    assert not outcome.is_delayed


def test_another_principal_when_logging_in_again() -> None:
    """If this fails, a session continues with the permissions of another user."""
    principals = ["alice@X", "bob@X"]
    of = authenticator(lambda: FakeContext(1, principals.pop(0)))
    outcome: Outcome | None = None
    for round_s in (0, 2):
        of.take(handshake("GSSAPI"), round_s * 1_000_000_000)
        for data in (b"ctx", b"", LAYER):
            outcome = finished(of, of.take(token(data), 0))
    assert isinstance(outcome, Refused)
    assert b"Cannot change principals" in outcome.payload
