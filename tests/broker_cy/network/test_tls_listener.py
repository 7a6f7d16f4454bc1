"""Listeners with TLS: every byte arrives, for all sizes and slow peers, and handshakes do not delay other clients."""

from __future__ import annotations

import asyncio
import builtins
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker_cy.config.tls import TlsSettings
from broker_cy.core.config_def.types import ConfigError
from broker_cy.metrics.events import CertificateRefused
from broker_cy.metrics.login_counts import TlsCounts
from broker_cy.network.tls_listeners import TlsListeners
from broker_cy.wire import codec, messages
from broker_cy.wire.frame import ApiKey
from broker_cy.wire.records import Record, encode_batch
from tests.broker_cy.connections.harness import (
    DEADLINE_S,
    RawClient,
    fetch_from,
    fetch_request,
    produce_request,
    produce_to,
)
from tests.support import needs
from tests.support.certificates import Holder

needs.require(needs.tls)
from broker_cy.network import handshakes  # noqa: E402
from tests.broker_cy.network.tls_harness import HEARTBEAT_VERSION, TlsHarness  # noqa: E402

# The most that the connection reads in one call and in one turn of the loop, and the most that a TLS record holds.
BUFFER_BYTES, READ_TURN_BYTES, RECORD_BYTES = 262_144, 1_048_576, 16_384


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[TlsHarness]:
    made = TlsHarness(tmp_path)
    yield made
    made.close()


def heartbeat(client: RawClient) -> bytes:
    request = messages.HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    return client.encode(request, ApiKey.HEARTBEAT, HEARTBEAT_VERSION)


def batch_of(size: int) -> bytes:
    return encode_batch([Record(0, 1_700_000_000_000, b"k", bytes(each % 251 for each in range(size)), [])])


@pytest.mark.parametrize("newest", ["TLSv1.2", "TLSv1.3"])
def test_records_come_back_as_they_were(harness: TlsHarness, newest: str) -> None:
    """If this fails, records are lost or damaged on their way through TLS."""
    harness.topic("t")
    client = harness.client(newest)
    sizes = (1, 16_000, 16_384, 70_000, 3_000_000)
    batches = [batch_of(size) for size in sizes]
    for number, batch in enumerate(batches):
        assert produce_to(client, "t", batch).base_offset == number
    found = fetch_from(client, "t", 0).records
    assert len(found) == sum(map(len, batches))
    at = 0
    for batch in batches:
        # All but the offset and the epoch, which the broker writes.
        assert found[at + 16 : at + len(batch)] == batch[16:]
        at += len(batch)
    client.close()


class Shared:
    """A socket with TLS that one thread sends to while another one receives: the library allows one call at a time."""

    def __init__(self, socket: ssl.SSLSocket) -> None:
        self._socket = socket
        self._lock = threading.Lock()
        socket.setblocking(False)

    def sendall(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                with self._lock:
                    view = view[self._socket.send(view[:RECORD_BYTES]) :]
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                select.select([], [self._socket], [], DEADLINE_S)

    def recv(self, size: int) -> bytes:
        while True:
            try:
                with self._lock:
                    return self._socket.recv(size)
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                select.select([self._socket], [], [], DEADLINE_S)

    def close(self) -> None:
        self._socket.close()


def test_pipelined_requests_are_all_answered(harness: TlsHarness) -> None:
    """If this fails, a client waits forever for the answers to requests that were decrypted and then left: the socket
    does not report them.
    """

    def hold() -> None:
        harness.released = asyncio.Event()

    def release() -> None:
        assert harness.released is not None
        harness.released.set()

    client = harness.client()
    client.socket = cast(Any, Shared(cast(Any, client.socket)))
    number = 20_000
    for held in (False, True):
        if held:
            harness.on_loop(hold)
        before = client.correlation_id
        frames = b"".join(heartbeat(client) for _ in range(number))
        # The broker reads no further than it handles, so that this ends only if the test receives answers.
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(client.send, frames)
            if held:
                harness.wait_until(lambda: any(not connection.queue for connection in harness.core.connections))
                harness.on_loop(release)
            for expected in range(before + 1, before + number + 1):
                found, _ = client.receive(ApiKey.HEARTBEAT, HEARTBEAT_VERSION, messages.HeartbeatResponse)
                assert found == expected
            sending.result(DEADLINE_S)
    client.close()


@pytest.mark.parametrize("holds", [True, False])
def test_what_the_socket_does_not_report_is_handled(harness: TlsHarness, holds: bool) -> None:
    """If this fails, the last requests of a burst are handled only when the client sends another: they are decrypted,
    or received and not decrypted, when the broker stops to read, and the socket is empty.
    """

    def hold() -> None:
        harness.released = asyncio.Event()

    def release() -> None:
        assert harness.released is not None
        harness.released.set()

    client = harness.client()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    client.socket = cast(Any, Shared(cast(Any, client.socket)))
    if holds:
        harness.on_loop(hold)
    # As many whole records as fill the buffer, or a turn of the loop, and a smaller one.
    size = (BUFFER_BYTES if holds else READ_TURN_BYTES) + RECORD_BYTES // 2
    frame = heartbeat(client)
    number = size // len(frame)
    frames = frame + b"".join(heartbeat(client) for _ in range(number - 1))
    is_sent = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        # The loop stands still until all of it is on its way, or as much as the kernel holds.
        harness.loop.call_soon_threadsafe(is_sent.wait, 0.5)
        sending = pool.submit(client.send, frames)
        sending.add_done_callback(lambda _: is_sent.set())
        if holds:
            harness.wait_until(lambda: any(each.pending for each in harness.core.connections))
            harness.on_loop(release)
        for expected in range(1, number + 1):
            found, _ = client.receive(ApiKey.HEARTBEAT, HEARTBEAT_VERSION, messages.HeartbeatResponse)
            assert found == expected
        sending.result(DEADLINE_S)
    client.close()


def test_a_slow_reader_gets_every_byte(harness: TlsHarness) -> None:
    """If this fails, bytes that did not fit into the socket buffer are lost or sent twice."""
    harness.topic("t")
    client = harness.client()
    for _ in range(4):
        produce_to(client, "t", batch_of(1_000_000))
    expected = fetch_from(client, "t", 0).records
    client.close()
    slow = harness.client()
    slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32_768)
    for _ in range(5):
        slow.send(slow.encode(fetch_request("t", 0, 0), ApiKey.FETCH, 11))
    harness.wait_until(lambda: any(connection.queue for connection in harness.core.connections))
    for number in range(1, 6):
        found, response = slow.receive(ApiKey.FETCH, 11, messages.FetchResponse)
        assert found == number
        assert response.responses[0].partitions[0].records == expected
    slow.close()


def test_half_of_a_record_is_enough(harness: TlsHarness) -> None:
    """If this fails, a broker that waits for the rest of a request waits for more ciphertext than will arrive: OpenSSL
    already holds a part of it.
    """
    harness.topic("t")
    client = harness.plain_client()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context(cadata=harness.authority.pem)
    session = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    while True:
        try:
            session.do_handshake()
            break
        except ssl.SSLWantReadError:
            client.send(outgoing.read())
            incoming.write(client.socket.recv(65_536))
    client.send(outgoing.read())
    frame = client.encode(produce_request("t", 0, batch_of(86_000)), ApiKey.PRODUCE, 9)
    session.write(frame)
    data = outgoing.read()
    # The first TLS record of the request, and 14 KB of the second. Some 70 KB of the request cannot be decrypted yet.
    at = RECORD_BYTES + 22 + 14_000
    client.send(data[:at])
    harness.wait_until(lambda: sum(each.bytes_in for each in harness.core.connections) == RECORD_BYTES)
    client.send(data[at:])
    answer = b""
    while len(answer) < 4 or len(answer) < 4 + int.from_bytes(answer[:4]):
        try:
            answer += session.read(65_536)
        except ssl.SSLWantReadError:
            incoming.write(client.socket.recv(65_536))
    response = codec.decode(messages.ProduceResponse, 9, answer[9:])
    assert response.responses[0].partition_responses[0].error_code == 0
    client.close()


def test_bad_handshakes_bother_nobody(harness: TlsHarness) -> None:
    """If this fails, clients without TLS, or clients that begin a handshake and leave, delay other clients or exhaust
    the allowed connections.
    """
    harness.topic("t")
    good = harness.client()
    plain = harness.plain_client()
    plain.send(heartbeat(plain))
    assert plain.is_closed()
    for sent in (
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        bytes(300),
        b"\x16\x03\x01\x00\x04\x01\xff\xff\xff",
    ):
        with harness.connect() as stranger:
            if sent:
                stranger.sendall(sent)
            stranger.shutdown(socket.SHUT_WR)
            while stranger.recv(4096):
                pass
    slow = [harness.connect() for _ in range(20)]
    for each in slow:
        each.sendall(b"\x16\x03\x01\x02\x00\x01")
    assert produce_to(good, "t", batch_of(100)).error_code == 0
    harness.wait_until(lambda: len(harness.handshakes.begun) == 20)
    for each in slow:
        each.close()
    harness.wait_until(lambda: not harness.handshakes.open)
    assert harness.counts.handshakes == {("PLAINTEXT", True): 1, ("PLAINTEXT", False): 26}
    # Those that left before anything was decided were not refused.
    assert sum(harness.refusals().values()) == 4
    assert harness.on_loop(lambda: harness.admission.total) == 1
    good.close()
    harness.wait_until(lambda: harness.admission.total == 0)


@pytest.mark.parametrize("newest", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize(
    "sent",
    [b"\x17\3\3\0\x20" + bytes(32), b"\x16\3\3\0\4\1\0\0\0", bytes(64), b"\x17\3\3\xff\xff" + bytes(70_000)],
)
def test_what_was_not_encrypted_ends_the_connection(harness: TlsHarness, newest: str, sent: bytes) -> None:
    """If this fails, changed bytes in transit stop the broker, or go unnoticed."""
    harness.topic("t")
    client = harness.client(newest)
    assert produce_to(client, "t", batch_of(100_000)).error_code == 0
    assert len(fetch_from(client, "t", 0).records) > 100_000
    with socket.socket(fileno=client.socket.detach()) as below:
        below.settimeout(DEADLINE_S)
        with suppress(ConnectionError):
            below.sendall(sent)
            while below.recv(4096):
                pass
    harness.wait_until(lambda: not harness.core.connections)
    other = harness.client()
    assert produce_to(other, "t", batch_of(100)).error_code == 0
    other.close()


def test_a_slow_handshake_ends(tmp_path: Path) -> None:
    """If this fails, a client that sends nothing, or half a handshake, holds a connection forever."""
    # The bytes of the half handshake have to come within it, also on a busy machine.
    harness = TlsHarness(tmp_path, timeout_s=1.0)
    try:
        silent, half = harness.connect(), harness.connect()
        half.sendall(b"\x16\x03\x01\x02\x00\x01")
        assert silent.recv(1) == b""
        # If the broker has unread bytes at the timeout, the close resets the connection.
        with suppress(ConnectionResetError):
            assert half.recv(1) == b""
        harness.wait_until(lambda: harness.admission.total == 0)
        # The client that sent nothing is not counted as a failed handshake.
        assert harness.refusals() == {"it was not finished in time": 1}
        silent.close()
        half.close()
    finally:
        harness.close()


def test_the_oldest_handshake_gives_way(harness: TlsHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, half-open handshakes exhaust memory, or lock all other clients out."""
    monkeypatch.setattr(handshakes, "BEGUN_MAX", 3)

    def begun(number: int) -> bool:
        return len(harness.handshakes.begun) == number

    half = [harness.connect() for _ in range(4)]
    for number, each in enumerate(half[:3], 1):
        each.sendall(b"\x16\x03\x01\x02\x00\x01")
        harness.wait_until(partial(begun, number))
    harness.wait_until(lambda: not any(each.is_with_worker for each in harness.handshakes.begun))
    half[3].sendall(b"\x16\x03\x01\x02\x00\x01")
    assert half[0].recv(1) == b""
    harness.client().close()
    for each in half:
        each.close()


def test_a_build_without_tls_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the error does not say why a listener with TLS does not start."""
    real = builtins.__import__

    def without(name: str, *args: Any) -> Any:
        if name == "broker_cy.network.handshakes":
            raise ModuleNotFoundError(name, name="broker_cy.core.openssl")
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", without)
    config: Any = SimpleNamespace(tls=SimpleNamespace(listeners={"SSL": None}))
    loop: Any = None
    with pytest.raises(ConfigError, match="listener SSL uses TLS, and this build has no TLS"):
        TlsListeners(config, loop, TlsCounts(), lambda: ThreadPoolExecutor(1), ["SSL"], None)


def peer_of(harness: TlsHarness) -> bytes:
    """The certificate that the listener shows now."""
    client = harness.client()
    assert isinstance(client.socket, ssl.SSLSocket)
    found = client.socket.getpeercert(binary_form=True)
    client.close()
    assert found is not None
    return found


def test_a_certificate_is_exchanged(harness: TlsHarness) -> None:
    """If this fails, the certificate of a broker ends, or its key is stolen, and only a restart helps; or the exchange
    ends the connections that are open.
    """
    harness.topic("t")
    before = harness.client()
    tls, authority, node = harness.listener.tls, harness.authority, harness.node
    assert tls is not None
    first = peer_of(harness)
    second = authority.issue("broker")
    stores = tls.settings.stores._replace(keystore_location=str(second.write_pem(harness.files / "second.pem")))
    harness.on_loop(lambda: node.apply(harness.all_with(tls.settings._replace(stores=stores))))
    assert peer_of(harness) == second.der != first
    third = authority.issue("broker")
    third.write_pem(harness.files / "second.pem")
    harness.on_loop(node.look)
    assert peer_of(harness) == third.der
    assert [each.TYPE for each in harness.events] == ["certificate_exchanged"] * 2
    assert produce_to(before, "t", batch_of(100)).error_code == 0
    before.close()


def test_a_certificate_that_does_not_fit_is_refused(harness: TlsHarness) -> None:
    """If this fails, a new certificate makes a broker unreachable, or changes its identity."""
    tls, authority, node = harness.listener.tls, harness.authority, harness.node
    assert tls is not None
    first = peer_of(harness)

    def stored(holder: Holder, **settings: Any) -> TlsSettings:
        path = holder.write_pem(harness.files / "other.pem")
        stores = tls.settings.stores._replace(keystore_location=str(path))
        return harness.all_with(tls.settings._replace(stores=stores, **settings))

    other_name, fewer_names = authority.issue("other"), authority.issue("broker", hosts=("localhost",))
    for holder, message in (
        (other_name, "DistinguishedName does not match"),
        (fewer_names, "SubjectAltNames do not match"),
    ):
        settings = stored(holder)
        with pytest.raises(ConfigError, match=message):
            harness.on_loop(partial(node.check, settings, validate_only=True))
        harness.on_loop(partial(node.apply, settings))
        assert peer_of(harness) == first
    (harness.files / "broken.pem").write_text("nothing")
    broken = tls.settings.stores._replace(keystore_location=str(harness.files / "broken.pem"))
    with pytest.raises(ConfigError, match="No private key found"):
        harness.on_loop(lambda: node.check(harness.all_with(tls.settings._replace(stores=broken))))
    assert len(harness.events) == 3  # validate-only requests are not reported
    harness.events.clear()
    # A file that became invalid: the previous certificate stays in use.
    (harness.files / "broker.pem").write_text("nothing")
    harness.on_loop(node.look)
    harness.on_loop(node.look)
    assert peer_of(harness) == first
    (refused,) = harness.events
    assert isinstance(refused, CertificateRefused)
    assert (refused.listener, refused.subject) == ("PLAINTEXT", tls.identity.certificate.subject)
    assert "No private key found" in refused.reason
    allowed = stored(other_name, allows_dn_changes=True, allows_san_changes=True)
    harness.on_loop(lambda: node.apply(allowed))
    assert peer_of(harness) == other_name.der
