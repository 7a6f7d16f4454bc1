"""A SASL listener receives frames that no client sends: before, during and after the login."""

from __future__ import annotations

import socket
import struct
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import codec, frame, messages
from broker_cy.wire.api_keys import ApiKey
from broker_cy.wire.codec import Message
from tests.support.broker import target_is_kafka
from tests.support.raw_wire import receive_frame
from tests.support.sasl_broker import ALICE, PASSWORD, SaslBroker
from tests.support.wait import until

TIMEOUT_S = 60.0
DELAY_MS = 300
RECEIVE_BYTES = 100_000
LOGIN = f"\0{ALICE}\0{PASSWORD}".encode()
LOG_IN_WITHIN_MS = 1_000
SESSION_MS = 3_000
pytestmark = pytest.mark.skipif(target_is_kafka(), reason="about our own settings")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    with_login = SaslBroker(
        tmp_path_factory.mktemp("frames"),
        {
            "connection.failed.authentication.delay.ms": str(DELAY_MS),
            # No login of these tests fails because the machine is busy.
            "brokercy.authentication.timeout.ms": "600000",
            "listener.name.sasl_plaintext.sasl.server.max.receive.size": str(RECEIVE_BYTES),
            "listener.name.sasl_plaintext.plain.connections.max.reauth.ms": str(SESSION_MS),
            "brokercy.metrics.listener": "127.0.0.1:0",
        },
    )
    with_login.start()
    yield with_login
    with_login.close()


class Client:
    def __init__(self, broker: SaslBroker, *, has_login: bool = True) -> None:
        port = broker.port if has_login else broker.open_port
        self.sock = socket.create_connection((broker.host, port), TIMEOUT_S)

    def send(self, key: int, version: int, request: Message | bytes) -> None:
        tags = b"\0" if frame.request_header_version(key, version) >= 2 else b""
        body = request if isinstance(request, bytes) else codec.encode(request, version)
        data = struct.pack(">hhih", key, version, 7, 3) + b"raw" + tags + body
        self.sock.sendall(struct.pack(">i", len(data)) + data)

    def receive(self, key: int, version: int) -> Message:
        data = receive_frame(self.sock)
        assert data[:4] == struct.pack(">i", 7)
        at = 4 + (frame.response_header_version(key, version) >= 1)
        return codec.decode(frame.response_class(key), version, data[at:])

    def ask(self, key: int, version: int, request: Message) -> Message:
        self.send(key, version, request)
        return self.receive(key, version)

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> messages.SaslHandshakeResponse:
        found = self.ask(ApiKey.SASL_HANDSHAKE, version, messages.SaslHandshakeRequest(mechanism=mechanism))
        assert isinstance(found, messages.SaslHandshakeResponse)
        return found

    def token(self, data: bytes, version: int = 2) -> messages.SaslAuthenticateResponse:
        found = self.ask(ApiKey.SASL_AUTHENTICATE, version, messages.SaslAuthenticateRequest(auth_bytes=data))
        assert isinstance(found, messages.SaslAuthenticateResponse)
        return found

    def log_in(self) -> messages.SaslAuthenticateResponse:
        assert self.handshake().error_code == 0
        found = self.token(LOGIN)
        assert found.error_code == 0
        return found

    def is_closed(self) -> bool:
        try:
            return self.sock.recv(1) == b""
        except ConnectionError:
            return True


def pause(seconds: float) -> None:
    """Let this much time pass by the clock that the broker measures."""
    until_s = time.monotonic() + seconds
    until(lambda: time.monotonic() > until_s, "time", TIMEOUT_S)


METADATA = messages.MetadataRequest(topics=None)


@pytest.mark.parametrize(
    "key", [ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SASL_AUTHENTICATE, ApiKey.ENVELOPE]
)
@pytest.mark.parametrize("is_in_login", [False, True])
def test_nothing_is_served_before_the_login(broker: SaslBroker, key: ApiKey, is_in_login: bool) -> None:
    """If this fails, clients read and write without a login, for example through the C handlers, which bypass other
    checks.
    """
    client = Client(broker)
    if is_in_login:
        client.handshake()
        if key == ApiKey.SASL_AUTHENTICATE:
            return
    client.send(key, frame.api_versions(key)[1], b"\xff" * 100)
    assert client.is_closed()


def test_pipelined_requests_are_not_served_either(broker: SaslBroker) -> None:
    """If this fails, a request after a wrong password is handled while the login's answer is delayed."""
    client = Client(broker)
    client.send(ApiKey.SASL_HANDSHAKE, 1, messages.SaslHandshakeRequest(mechanism="PLAIN"))
    client.send(ApiKey.SASL_AUTHENTICATE, 2, messages.SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"))
    for _ in range(50):
        client.send(ApiKey.METADATA, 12, METADATA)
    client.receive(ApiKey.SASL_HANDSHAKE, 1)
    refused = client.receive(ApiKey.SASL_AUTHENTICATE, 2)
    assert isinstance(refused, messages.SaslAuthenticateResponse)
    assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.is_closed()


def test_requests_behind_a_right_password_are_served(broker: SaslBroker) -> None:
    """If this fails, a client that does not wait for the answer to its login hangs."""
    client = Client(broker)
    client.send(ApiKey.SASL_HANDSHAKE, 1, messages.SaslHandshakeRequest(mechanism="PLAIN"))
    client.send(ApiKey.SASL_AUTHENTICATE, 2, messages.SaslAuthenticateRequest(auth_bytes=LOGIN))
    client.send(ApiKey.METADATA, 12, METADATA)
    client.receive(ApiKey.SASL_HANDSHAKE, 1)
    client.receive(ApiKey.SASL_AUTHENTICATE, 2)
    assert client.receive(ApiKey.METADATA, 12).brokers  # type: ignore[attr-defined]


def test_a_failure_closes_the_connection(broker: SaslBroker) -> None:
    """If this fails, one connection can try many passwords."""
    client = Client(broker)
    client.handshake()
    found = client.token(b"\0alice\0wrong")
    assert found.error_message == "Authentication failed: Invalid username or password"
    assert client.is_closed()
    client = Client(broker)
    assert client.handshake("GSSAPI").error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert client.is_closed()


@pytest.mark.full
def test_a_failure_is_answered_later(broker: SaslBroker) -> None:
    """If this fails, passwords can be guessed at the speed of the network."""
    # The event loop's clock has a resolution of one millisecond.
    least_s = (DELAY_MS - 1) / 1000
    client = Client(broker)
    client.handshake()
    began = time.monotonic()
    client.token(b"\0alice\0wrong")
    assert time.monotonic() - began >= least_s
    client = Client(broker)
    began = time.monotonic()
    client.handshake("GSSAPI")
    assert time.monotonic() - began >= least_s


def test_the_old_handshake_is_followed_by_tokens(broker: SaslBroker) -> None:
    """If this fails, clients of Kafka 0.10 cannot log in; a token is shorter than a header."""
    client = Client(broker)
    assert client.handshake(version=0).mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    client.sock.sendall(struct.pack(">i", len(LOGIN)) + LOGIN)
    assert receive_frame(client.sock) == b""
    assert client.ask(ApiKey.METADATA, 12, METADATA).brokers  # type: ignore[attr-defined]
    short = Client(broker)
    short.handshake(version=0)
    short.sock.sendall(struct.pack(">i", 3) + b"\0a\0")
    assert short.is_closed()


def test_large_frames_before_the_login(broker: SaslBroker) -> None:
    """If this fails, a client that cannot log in exhausts the broker's memory (CVE-2022-34917)."""
    client = Client(broker)
    client.sock.sendall(struct.pack(">ihhih", RECEIVE_BYTES + 1, ApiKey.API_VERSIONS, 0, 7, -1))
    assert client.is_closed()
    client = Client(broker)
    client.handshake()
    data = b"x" * (RECEIVE_BYTES - 100)
    # In pieces: the broker buffers the received ones.
    whole = (
        struct.pack(">ihhih", 16 + len(data), ApiKey.SASL_AUTHENTICATE, 1, 7, 2)
        + b"me"
        + struct.pack(">i", len(data))
        + data
    )
    for at in range(0, len(whole), 30_000):
        client.sock.sendall(whole[at : at + 30_000])
        time.sleep(0)
    found = client.receive(ApiKey.SASL_AUTHENTICATE, 1)
    assert isinstance(found, messages.SaslAuthenticateResponse)
    assert found.error_message == "Invalid SASL/PLAIN response: it is too long"


@pytest.mark.parametrize("has_login", [False, True])
def test_api_versions_with_many_tags(broker: SaslBroker, has_login: bool) -> None:
    """If this fails, 4 MB from an anonymous client take 166 MB of memory and block other clients (CVE-2022-34917)."""
    for count, is_served in ((900, True), (20_000, False)):
        tags = b"".join(
            bytes([0x80 | tag & 0x7F, 0x80 | tag >> 7 & 0x7F, tag >> 14]) + b"\0" for tag in range(9, 9 + count)
        )
        length = bytes([0x80 | count & 0x7F, 0x80 | count >> 7 & 0x7F, count >> 14])
        client = Client(broker, has_login=has_login)
        client.send(ApiKey.API_VERSIONS, 4, b"\x02x\x021" + length + tags)
        if is_served:
            assert client.receive(ApiKey.API_VERSIONS, 4).error_code == 0  # type: ignore[attr-defined]
        else:
            assert client.is_closed()


def test_who_does_not_log_in_is_disconnected(tmp_path: Path) -> None:
    """If this fails, connections of clients that never log in stay open, and many of them exhaust the connection
    limit.
    """
    broker = SaslBroker(tmp_path, {"brokercy.authentication.timeout.ms": str(LOG_IN_WITHIN_MS)})
    try:
        broker.start()
        clients = [Client(broker) for _ in range(3)]
        handshake = messages.SaslHandshakeRequest(mechanism="SCRAM-SHA-256")
        clients[1].send(ApiKey.SASL_HANDSHAKE, 1, handshake)
        clients[2].sock.sendall(b"\0\0")
        for client in clients:
            # On a busy machine the connection ends before the handshake has its answer.
            while not client.is_closed():
                pass
    finally:
        broker.close()


def test_many_half_open_logins_do_not_slow_others(broker: SaslBroker) -> None:
    """If this fails, clients that only connect keep other clients from logging in."""
    waiting = [Client(broker) for _ in range(500)]
    for client in waiting[::2]:
        client.sock.sendall(struct.pack(">i", 90_000) + b"\0" * 5_000)
    client = Client(broker)
    client.log_in()
    assert client.ask(ApiKey.METADATA, 12, METADATA).brokers  # type: ignore[attr-defined]
    for each in waiting:
        each.sock.close()


def test_logging_in_again(broker: SaslBroker) -> None:
    """If this fails, a session ends although the client reauthenticates, or continues although it does not
    (KIP-368).
    """
    client = Client(broker)
    assert client.log_in().session_lifetime_ms == SESSION_MS
    idle = Client(broker)
    idle.log_in()
    ended = time.monotonic() + SESSION_MS / 1000
    for _ in range(3):
        # At least a second after the previous login.
        pause(1.05)
        assert client.log_in().session_lifetime_ms == SESSION_MS
        assert client.ask(ApiKey.METADATA, 12, METADATA).brokers  # type: ignore[attr-defined]
    until(lambda: time.monotonic() > ended + 0.1, "the end of the session", TIMEOUT_S)
    idle.send(ApiKey.METADATA, 12, METADATA)
    assert idle.is_closed()


def test_logging_in_again_after_the_session(broker: SaslBroker) -> None:
    """If this fails, a client that reauthenticates late has to reconnect, although Kafka accepts it."""
    client = Client(broker)
    client.log_in()
    pause(SESSION_MS / 1000 + 0.1)
    client.log_in()
    assert client.ask(ApiKey.METADATA, 12, METADATA).brokers  # type: ignore[attr-defined]


def test_logging_in_again_at_once_is_refused(broker: SaslBroker) -> None:
    """If this fails, a client keeps the broker busy with logins. As in Kafka, a second login within a second fails."""

    def refused() -> Client | None:
        """A client whose third login is refused; None if the busy machine let a second pass before it."""
        client = Client(broker)
        client.log_in()
        began = time.monotonic()
        client.log_in()
        code = client.handshake().error_code
        if code == ErrorCode.NONE and time.monotonic() - began >= 1:
            return None
        assert code == ErrorCode.ILLEGAL_SASL_STATE
        return client

    client = until(refused, "a login within a second", TIMEOUT_S)
    assert client.token(LOGIN).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.ask(ApiKey.METADATA, 12, METADATA).brokers  # type: ignore[attr-defined]


def test_nothing_is_served_while_a_client_logs_in_again(broker: SaslBroker) -> None:
    """If this fails, a client whose second login fails is still served."""
    client = Client(broker)
    client.log_in()
    client.handshake()
    client.send(ApiKey.METADATA, 12, METADATA)
    assert client.is_closed()
    client = Client(broker)
    client.log_in()
    client.handshake()
    refused = client.token(b"\0admin\0admin-secret")
    assert refused.error_message == "Cannot change principals during re-authentication from User.alice: User.admin"
    assert client.is_closed()


def test_listeners_without_sasl_refuse_logins(broker: SaslBroker) -> None:
    """If this fails, a client with the wrong protocol waits for an answer."""
    client = Client(broker, has_login=False)
    assert client.handshake().error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.token(LOGIN).error_message == "SaslAuthenticate request received after successful authentication"


def test_logins_at_the_same_time(broker: SaslBroker) -> None:
    """If this fails, two clients get each other's answers."""
    results: list[int] = []

    def one() -> None:
        client = Client(broker)
        client.log_in()
        results.append(client.ask(ApiKey.METADATA, 12, METADATA).error_code)  # type: ignore[attr-defined]

    threads = [threading.Thread(target=one) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert results == [0] * 20


def test_metrics(broker: SaslBroker) -> None:
    """If this fails, an operator does not see that a client tries passwords. The tests above produced the numbers."""
    address = broker.stdout().partition("http://")[2].split("/")[0]
    page = urllib.request.urlopen(f"http://{address}/metrics", timeout=TIMEOUT_S).read().decode()
    counts = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in page.splitlines() if line[:1] != "#"}
    label = 'listener="SASL_PLAINTEXT"'
    for result in ("success", "failure"):
        assert counts[f'broker_cy_authentications_total{{{label},result="{result}"}}'] > 0
        assert counts[f'broker_cy_reauthentications_total{{{label},result="{result}"}}'] > 0
    assert counts[f"broker_cy_expired_sessions_total{{{label}}}"] > 0
