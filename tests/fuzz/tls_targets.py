"""Bytes that a client sends to a TLS listener: the first bytes, changes of any later bytes in transit, and correctly
encrypted records whose contents no client sends.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import socket
import ssl
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from broker_cy.core.openssl import FAILED, SHAKEN, TlsContext, TlsSession
from broker_cy.security.tls.stores import StoreSettings, load_identity, load_trusted
from broker_cy.wire import messages
from broker_cy.wire.api_keys import ApiKey
from tests.broker_cy.connections.harness import DEADLINE_S
from tests.broker_cy.network.tls_harness import TlsHarness
from tests.fuzz.mutator import Mutator
from tests.fuzz.target import Target
from tests.support.certificates import Authority
from tests.support.tls_records import ALERT, APPLICATION_DATA, HANDSHAKE, KEY_UPDATE, KEY_UPDATE_REQUESTED, RecordClient

SOCKET_BYTES = 1 << 20
ROUNDS_MAX = 20


class Refusal(Exception):
    """The input was refused, as most mutants are."""


@functools.cache
def authority() -> Authority:
    return Authority()


@functools.cache
def directory() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


@functools.cache
def pem(name: str) -> str:
    return str(authority().issue(name).write_pem(Path(directory().name) / f"{name}.pem"))


@functools.cache
def server_context() -> TlsContext:
    """A context like that of a listener that requests certificates."""
    settings = StoreSettings(
        keystore_type="PEM",
        keystore_location=pem("broker"),
        truststore_type="PEM",
        truststore_certificates=authority().pem,
    )
    identity = load_identity(settings, lambda path: Path(path).read_bytes())
    assert identity is not None
    trusted = load_trusted(settings, lambda path: Path(path).read_bytes())
    return TlsContext(is_server=True, chain=identity.chain, key=identity.key, trusted=trusted, asks=True)


@functools.cache
def client_context(newest: ssl.TLSVersion, has_certificate: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority().pem)
    context.maximum_version = newest
    if has_certificate:
        context.load_cert_chain(pem("alice"))
    return context


# The alternatives that the first byte of an input selects.
KINDS = [(newest, has) for newest in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3) for has in (False, True)]


class Client:
    """Python's half of a handshake; a target can change its bytes."""

    def __init__(self, kind: int) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = client_context(*KINDS[kind % len(KINDS)])
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def flight(self, received: bytes) -> bytes:
        """The client's next bytes."""
        if received:
            self.incoming.write(received)
        with contextlib.suppress(ssl.SSLError):
            self.tls.do_handshake()
        return self.outgoing.read()


@contextlib.contextmanager
def pair() -> Iterator[tuple[socket.socket, TlsSession]]:
    """A client, and the listener's session for it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        for each in (ours, theirs):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
        yield ours, TlsSession(server_context(), theirs.fileno())


def received(sock: socket.socket) -> bytes:
    with contextlib.suppress(BlockingIOError, ConnectionError):
        return sock.recv(SOCKET_BYTES)
    return b""


# --- the first bytes


def hello_corpus() -> list[bytes]:
    return [Client(kind).flight(b"") for kind in range(len(KINDS))]


def run_hello(data: bytes) -> None:
    """No handshake is complete after the client's first message."""
    with pair() as (ours, session):
        with contextlib.suppress(BlockingIOError):
            ours.send(data)
        outcome = session.shake()
        assert outcome != SHAKEN
        assert session.peer_certificate is None
        if outcome == FAILED:
            assert session.failure
            raise Refusal


# --- a whole handshake, with changes in transit: the kind, then (flight, place, byte to add) of each change

CHANGE = struct.Struct(">BHB")


def flights_corpus() -> list[bytes]:
    return [bytes([kind]) + CHANGE.pack(9, 0, 0) for kind in range(len(KINDS))]


def mutate_flights(mutator: Mutator, data: bytes, other: bytes) -> bytes:
    """Select another kind, and change the first three flights, mostly the later ones and near their start."""
    r = mutator.bits(64)
    out = bytes([r % len(KINDS)])
    for number in range(r >> 8 & 3):
        s = mutator.bits(40)
        place = s >> 8 & (0x3F if s & 0x80 else 0x7FF)
        out += CHANGE.pack((s & 0x7F) % 3, place, (s >> 24 & 0xFF) if number else 1 << (s >> 24 & 7))
    return out


def run_flights(data: bytes) -> None:
    """A completed handshake means that both sides saw the same bytes, and that the certificate is the client's."""
    kind = data[0] % len(KINDS) if data else 0
    changes = [CHANGE.unpack_from(data, at) for at in range(1, len(data) - CHANGE.size + 1, CHANGE.size)]
    client = Client(kind)
    with pair() as (ours, session):
        answer = b""
        for number in range(ROUNDS_MAX):
            flight = bytearray(client.flight(answer))
            for of_flight, place, value in changes:
                if of_flight == number and flight:
                    flight[place % len(flight)] = (flight[place % len(flight)] + value) & 0xFF
            ours.send(flight)
            outcome = session.shake()
            if outcome == FAILED:
                assert session.failure
                raise Refusal
            if outcome == SHAKEN:
                assert (session.peer_certificate is not None) == KINDS[kind][1]
                return
            answer = received(ours)
            if not answer:
                # The server waits for more bytes of a changed record.
                raise Refusal


# --- records behind a handshake: (type, size, content) of each


RECORD = struct.Struct(">BH")
HEARTBEAT = struct.pack(">hhih", ApiKey.HEARTBEAT, 0, 7, -1) + struct.pack(">hih", 0, 1, 0)


class CountingHarness(TlsHarness):
    handled = 0

    async def _heartbeat(self, _context: Any, _request: Any) -> Any:
        self.handled += 1
        return messages.HeartbeatResponse()


@functools.cache
def harness() -> CountingHarness:
    # Its messages about each connection are not checked.
    logging.disable()
    return CountingHarness(Path(directory().name))


def close_harness() -> None:
    if harness.cache_info().currsize:
        harness().close()
    if directory.cache_info().currsize:
        directory().cleanup()


def records_corpus() -> list[bytes]:
    whole = struct.pack(">i", len(HEARTBEAT)) + HEARTBEAT
    halves = [(APPLICATION_DATA, whole[:7]), (APPLICATION_DATA, whole[7:])]
    sent = [
        [(APPLICATION_DATA, whole)],
        halves,
        [halves[0], (HANDSHAKE, KEY_UPDATE), halves[1]],
        [(HANDSHAKE, KEY_UPDATE_REQUESTED), *halves],
        [(APPLICATION_DATA, b""), *halves],
        [(APPLICATION_DATA, whole * 3), (ALERT, b"\x01\0")],
    ]
    return [b"".join(RECORD.pack(kind, len(content)) + content for kind, content in each) for each in sent]


def run_records(data: bytes) -> None:
    """The connection is served or ends, and the listener serves the next one, which belongs to the next input."""
    with socket.create_connection(("127.0.0.1", harness().listener.port), DEADLINE_S) as sock:
        client = RecordClient(sock, harness().authority.pem, Path(directory().name))
        out = b""
        at = 0
        while at + RECORD.size <= len(data):
            kind, size = RECORD.unpack_from(data, at)
            content = data[at + RECORD.size : at + RECORD.size + size]
            out += client.record(content, kind)
            if kind == HANDSHAKE and content in (KEY_UPDATE, KEY_UPDATE_REQUESTED):
                client.update()
            at += RECORD.size + size
        before = harness().handled
        with contextlib.suppress(ConnectionError):
            sock.sendall(out)
            sock.shutdown(socket.SHUT_WR)
            # A connection that does not end raises TimeoutError.
            while sock.recv(65_536):
                pass
        if harness().handled == before:
            raise Refusal


TARGETS = {
    target.name: target
    for target in (
        Target("tls_hello", hello_corpus, run_hello, (Refusal,), 12_000),
        Target("tls_flights", flights_corpus, run_flights, (Refusal,), 3_000, mutate_flights),
        Target("tls_records", records_corpus, run_records, (Refusal,), 1_500, close=close_harness),
    )
}
