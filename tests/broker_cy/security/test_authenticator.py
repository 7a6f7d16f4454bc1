"""The states before a connection is served, with the order of Kafka's SaslServerAuthenticator."""

from __future__ import annotations

import struct
from functools import partial

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.security.authenticator import (
    AGAIN_NS_MIN,
    Admitted,
    Answer,
    Authenticator,
    Mechanisms,
    Outcome,
    Refused,
    Session,
    State,
)
from broker_cy.security.sasl.exchange import Done
from broker_cy.wire import codec, frame, messages
from broker_cy.wire.api_keys import ApiKey
from broker_cy.wire.codec import Message
from tests.broker_cy.security.exchanges import client, server

HANDSHAKE, VERSIONS, AUTHENTICATE = ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS, ApiKey.SASL_AUTHENTICATE
NAMES = ("PLAIN", "SCRAM-SHA-256")
LOGIN = b"\0alice\0alice-secret"


def versions(version: int, request: messages.ApiVersionsRequest | None) -> messages.ApiVersionsResponse:
    code = 0
    if request is None:
        code = ErrorCode.UNSUPPORTED_VERSION
    elif version >= 3 and not request.client_software_name:
        code = ErrorCode.INVALID_REQUEST
    return messages.ApiVersionsResponse(error_code=code)


def authenticator(lifetime_ms: int = 0) -> Authenticator:
    begin = {name: partial(server, name) for name in NAMES}
    return Authenticator(Mechanisms(begin, dict.fromkeys(NAMES, lifetime_ms)), versions)


def request(key: int, version: int, message: Message, correlation_id: int = 5) -> bytes:
    tags = b"\0" if frame.request_header_version(key, version) >= 2 else b""
    return struct.pack(">hhih", key, version, correlation_id, 2) + b"me" + tags + codec.encode(message, version)


def handshake(mechanism: str = "PLAIN", version: int = 1) -> bytes:
    return request(HANDSHAKE, version, messages.SaslHandshakeRequest(mechanism=mechanism))


def api_versions(version: int = 4) -> bytes:
    message = messages.ApiVersionsRequest()
    if version >= 3:
        message = messages.ApiVersionsRequest(client_software_name="x", client_software_version="1")
    return request(VERSIONS, version, message)


def token(data: bytes, version: int = 2) -> bytes:
    return request(AUTHENTICATE, version, messages.SaslAuthenticateRequest(auth_bytes=data))


def answered(outcome: Outcome, version: int) -> Message:
    """The message of a frame, whose size and correlation id are checked."""
    size, correlation_id = struct.unpack(">ii", outcome.payload[:8])
    assert (size, correlation_id) == (len(outcome.payload) - 4, 5)
    at = 8 + (frame.response_header_version(outcome.key, version) >= 1)
    return codec.decode(frame.response_class(outcome.key), version, outcome.payload[at:])


def admitted(of: Authenticator, data: bytes = LOGIN, version: int = 2, now_ns: int = 0) -> Admitted:
    assert isinstance(of.take(handshake(), now_ns), Answer)
    outcome = of.take(token(data, version), now_ns)
    assert isinstance(outcome, Admitted), outcome
    return outcome


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_login(version: int) -> None:
    """If this fails, no client gets in."""
    of = authenticator(lifetime_ms=60_000)
    assert isinstance(of.take(api_versions(), 0), Answer)
    answer = of.take(handshake(), 0)
    assert answered(answer, 1) == messages.SaslHandshakeResponse(mechanisms=list(NAMES))
    outcome = of.take(token(LOGIN, version), 0)
    assert isinstance(outcome, Admitted)
    assert outcome.session == Session("PLAIN", "alice", 60_000)
    assert outcome.session.principal == "User:alice"
    lifetime = 60_000 if version >= 1 else 0
    assert answered(outcome, version) == messages.SaslAuthenticateResponse(session_lifetime_ms=lifetime)


def test_a_login_in_two_steps() -> None:
    """If this fails, SCRAM does not work in SaslAuthenticate requests, or in tokens of their own (KIP-43)."""
    at_client = client("SCRAM-SHA-256", "alice", "alice-secret")
    of = authenticator()
    of.take(handshake("SCRAM-SHA-256"), 0)
    response = answered(of.take(token(at_client.first()), 0), 2)
    assert isinstance(response, messages.SaslAuthenticateResponse)
    final = at_client.step(response.auth_bytes)
    assert final is not None
    outcome = of.take(token(final), 0)
    assert isinstance(outcome, Admitted)
    raw, at_client = authenticator(), client("SCRAM-SHA-256", "alice", "alice-secret")
    raw.take(handshake("SCRAM-SHA-256", 0), 0)
    challenge = raw.take(at_client.first(), 0)
    assert isinstance(challenge, Answer)
    assert challenge.key == -1
    assert int.from_bytes(challenge.payload[:4]) == len(challenge.payload) - 4
    final = at_client.step(challenge.payload[4:])
    assert final is not None
    done = raw.take(final, 0)
    assert isinstance(done, Admitted)
    assert at_client.step(done.payload[4:]) is None
    assert at_client.is_complete


def test_plain_without_headers_is_answered_with_an_empty_token() -> None:
    """If this fails, clients of Kafka 0.10 wait for an answer to their token."""
    of = authenticator()
    of.take(handshake(version=0), 0)
    outcome = of.take(LOGIN, 0)
    assert isinstance(outcome, Admitted)
    assert outcome.payload == bytes(4)


@pytest.mark.parametrize("key", [key for key in ApiKey if key not in (HANDSHAKE, VERSIONS)])
def test_nothing_else_is_read_before_the_login(key: ApiKey) -> None:
    """If this fails, a client that is not logged in reaches a handler, or the reader of a large message."""
    frame_of_it = struct.pack(">hhih", key, 0, 5, 2) + b"me" + b"\xff" * 50
    for before in ((), (api_versions(),)):
        of = authenticator()
        for data in before:
            of.take(data, 0)
        outcome = of.take(frame_of_it, 0)
        assert isinstance(outcome, Refused)
        assert outcome.reason == f"{key.name} before the login"
        # As in Kafka, only a failure with a mechanism or a password is delayed; this connection holds nothing worth a
        # timer.
        assert (outcome.payload, outcome.is_delayed) == (b"", False)
        assert isinstance(of.take(handshake(), 0), Refused)
    if key == AUTHENTICATE:
        return
    of = authenticator()
    of.take(handshake(), 0)
    outcome = of.take(frame_of_it, 0)
    assert isinstance(outcome, Refused)
    assert outcome.reason == f"{key.name} in place of SaslAuthenticate"


def test_api_versions_once() -> None:
    """If this fails, a client that is not logged in keeps the broker busy with the same question."""
    of = authenticator()
    of.take(api_versions(), 0)
    outcome = of.take(api_versions(), 0)
    assert isinstance(outcome, Refused)
    assert not outcome.is_delayed
    of = authenticator()
    of.take(handshake(), 0)
    assert isinstance(of.take(api_versions(), 0), Refused)


def test_api_versions_that_cannot_be_answered_may_be_asked_again() -> None:
    """If this fails, a client of a future version cannot log in (KIP-511); or it may ask without end."""
    of = authenticator()
    unknown = struct.pack(">hhih", VERSIONS, 99, 5, 2) + b"me" + b"\0whatever"
    invalid = request(VERSIONS, 4, messages.ApiVersionsRequest())
    response = answered(of.take(unknown, 0), 0)
    assert isinstance(response, messages.ApiVersionsResponse)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    response = answered(of.take(invalid, 0), 4)
    assert isinstance(response, messages.ApiVersionsResponse)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert isinstance(of.take(api_versions(2), 0), Answer)
    assert isinstance(of.take(handshake(), 0), Answer)
    of = authenticator()
    outcomes = [of.take(unknown, 0) for _ in range(20)]
    assert isinstance(outcomes[-1], Refused)


def test_a_mechanism_that_is_not_enabled() -> None:
    """If this fails, the client does not learn which mechanisms there are, or gets in with another one."""
    of = authenticator()
    outcome = of.take(handshake("SCRAM-SHA-512"), 0)
    assert isinstance(outcome, Refused)
    assert answered(outcome, 1) == messages.SaslHandshakeResponse(
        error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=list(NAMES)
    )
    assert isinstance(of.take(token(LOGIN), 0), Refused)


@pytest.mark.parametrize(
    "data",
    [b"", b"\x60\x82\x02", b"x" * 9, struct.pack(">hhih", 99, 0, 5, 0), struct.pack(">hhih", -1, 0, 5, 0), b"\0" * 3],
)
def test_what_is_no_request_is_refused(data: bytes) -> None:
    """If this fails, a client of GSSAPI without SaslHandshake waits for an answer, or stops the broker."""
    outcome = authenticator().take(data, 0)
    assert isinstance(outcome, Refused)
    assert "no Kafka request" in outcome.reason


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">hhih", HANDSHAKE, 1, 5, 2) + b"me" + b"\x7f\xff",
        struct.pack(">hhih", HANDSHAKE, 9, 5, 2) + b"me",
        struct.pack(">hhih", HANDSHAKE, 1, 5, 500) + b"me",
        struct.pack(">hhih", VERSIONS, 4, 5, 2) + b"me\0\x02x\x021" + b"\xff\xff\xff\xff\x0f",
    ],
)
def test_malformed_requests_end_the_connection_at_once(data: bytes) -> None:
    """If this fails, connections of port scanners are kept."""
    outcome = authenticator().take(data, 0)
    assert isinstance(outcome, Refused)
    assert not outcome.is_delayed


def test_a_request_has_few_elements() -> None:
    """If this fails, half a megabyte of a client that is not logged in becomes many (CVE-2022-34917)."""
    for count, is_taken in ((1_000, True), (1_001, False)):
        tags = b"".join(
            b"%c%c%c\0" % (0x80 | (tag & 0x7F), 0x80 | (tag >> 7 & 0x7F), tag >> 14) for tag in range(9, 9 + count)
        )
        length = bytes([0x80 | (count & 0x7F), count >> 7])
        data = struct.pack(">hhih", VERSIONS, 4, 5, 2) + b"me\0\x02x\x021" + length + tags
        assert isinstance(authenticator().take(data, 0), Answer) == is_taken


def test_a_failed_login() -> None:
    """If this fails, the client gets no answer, or one that says which part was wrong."""
    of = authenticator()
    of.take(handshake("SCRAM-SHA-256"), 0)
    outcome = of.take(token(b"n,,n=alice"), 0)
    assert isinstance(outcome, Refused)
    assert (outcome.user, outcome.mechanism, outcome.again) == ("", "SCRAM-SHA-256", False)
    assert answered(outcome, 2) == messages.SaslAuthenticateResponse(
        error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
        error_message="Authentication failed during authentication due to invalid credentials with SASL mechanism "
        "SCRAM-SHA-256",
    )
    assert of.state is State.FAILED


def test_a_failed_login_without_headers_has_no_answer() -> None:
    """If this fails, a client of Kafka 0.10 interprets an error as a token."""
    of = authenticator()
    of.take(handshake(version=0), 0)
    outcome = of.take(b"\0alice\0wrong", 0)
    assert isinstance(outcome, Refused)
    assert (outcome.payload, outcome.is_delayed) == (b"", True)


def test_a_second_handshake_in_place_of_a_token() -> None:
    """If this fails, a client restarts its exchange as often as it likes."""
    of = authenticator()
    of.take(handshake(), 0)
    outcome = of.take(handshake(), 0)
    assert isinstance(outcome, Refused)
    response = answered(outcome, 1)
    assert isinstance(response, messages.SaslHandshakeResponse)
    assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE


# --- logging in again


def test_logging_in_again() -> None:
    """If this fails, connections end when their session does, although the client can log in again (KIP-368)."""
    of = authenticator(60_000)
    admitted(of)
    assert of.may_begin_again(1)
    outcome = admitted(of, now_ns=1)
    assert outcome.again
    assert not of.may_begin_again(AGAIN_NS_MIN)
    assert of.may_begin_again(AGAIN_NS_MIN + 1)


def test_old_clients_do_not_log_in_again() -> None:
    """If this fails, a client that knows no session gets other answers than with Kafka."""
    of = authenticator(60_000)
    admitted(of, version=0)
    assert not of.may_begin_again(10 * AGAIN_NS_MIN)


def test_another_user_cannot_take_over() -> None:
    """If this fails, a connection changes its user, and decisions about the first user stay in effect."""
    of = authenticator()
    admitted(of)
    of.take(handshake(), 5)
    outcome = of.take(token(b"\0J\xc3\xbcrgen\0x"), 5)
    assert isinstance(outcome, Refused)
    assert outcome.again
    response = answered(outcome, 2)
    assert isinstance(response, messages.SaslAuthenticateResponse)
    assert response.error_message == (
        "Cannot change principals during re-authentication from User.alice: User.J\xfcrgen"
    )
    assert of.session == Session("PLAIN", "alice", 0)


def test_another_mechanism_cannot_take_over() -> None:
    """If this fails, a client moves from a strong mechanism to a weak one."""
    of = authenticator()
    admitted(of)
    assert isinstance(of.take(handshake("SCRAM-SHA-256"), 5), Answer)
    outcome = of.take(token(b"n,,n=alice,r=x"), 5)
    assert isinstance(outcome, Refused)
    assert (outcome.payload, outcome.is_delayed) == (b"", True)


def test_a_wrong_password_when_logging_in_again() -> None:
    """If this fails, an attacker who has taken over a connection keeps it."""
    of = authenticator()
    admitted(of)
    of.take(handshake(), 5)
    outcome = of.take(token(b"\0alice\0wrong"), 5)
    assert isinstance(outcome, Refused)
    assert of.state is State.FAILED


@pytest.mark.parametrize(
    ("now_ms", "limit_ms", "lifetime_ms"), [(0, 0, 5_000), (4_999, 0, 1), (0, 1_000, 1_000), (4_500, 1_000, 500)]
)
def test_a_session_ends_with_its_credential(now_ms: int, limit_ms: int, lifetime_ms: int) -> None:
    """If this fails, a delegation token that has expired still serves, or its client does not learn when to renew."""

    class Expiring:
        def step(self, data: bytes) -> Done:
            return Done(b"", "bob", 5_000, "id")

    of = Authenticator(Mechanisms({"PLAIN": Expiring}, {"PLAIN": limit_ms}), versions)
    of.take(handshake(), 0)
    outcome = of.take(token(b""), 0, now_ms)
    assert isinstance(outcome, Admitted)
    assert outcome.session == Session("PLAIN", "bob", lifetime_ms, "id")
    assert answered(outcome, 2) == messages.SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms)
    late = Authenticator(Mechanisms({"PLAIN": Expiring}, {"PLAIN": limit_ms}), versions)
    late.take(handshake(), 0)
    refused = late.take(token(b""), 0, 5_000)
    assert isinstance(refused, Refused)
    assert refused.reason == "the credential has expired"
