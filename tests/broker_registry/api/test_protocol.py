"""Connections of the registry: slow and greedy clients, and the certificates of clients."""

from __future__ import annotations

import ssl
from functools import partial
from pathlib import Path

import pytest

from broker_cy.http import bounds
from broker_cy.http.bounds import HEAD_BYTES_MAX
from broker_cy.http.tls import ReloadingContext, ServerSettings
from broker_cy.security.tls.stores import StoreSettings
from broker_registry.api.protocol import PIPELINED_MAX, QuickProtocol
from broker_registry.api.quick import Peer, Requests, Short
from tests.support.certificates import Authority
from tests.support.http_connections import GET, SHORT_S, exchange, run, served


class Seen:
    """Notes the requests that may be answered at once, and answers none of them."""

    def __init__(self) -> None:
        self.peers: list[Peer] = []

    def __call__(self, request: Short, peer: Peer) -> None:
        self.peers.append(peer)


def sent(data: bytes, seen: Seen | None = None) -> bytes:
    """Return the answer to the bytes, b"" if the connection is only closed."""

    async def scenario() -> bytes:
        connections = partial(QuickProtocol, quick=seen or Seen(), requests=Requests())
        async with served(connections=connections) as port:
            try:
                return await exchange(port, data)
            except ConnectionError:
                return b""

    found: bytes = run(scenario)
    return found


@pytest.mark.parametrize(
    ("data", "limit"),
    [
        (b"", "HEAD_S"),
        (b"GET / HT", "HEAD_S"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: ", "HEAD_S"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc", "BODY_S"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "BODY_S"),
    ],
)
def test_a_client_that_does_not_finish_is_closed(data: bytes, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a few clients that send nothing hold all connections."""
    monkeypatch.setattr(bounds, limit, SHORT_S)
    assert sent(data) == b""


def test_requests_after_a_slow_start_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the times of a client that sends all it has to end its connection."""
    monkeypatch.setattr(bounds, "BODY_S", bounds.HEAD_S)
    body = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
    assert sent(body).endswith(b"none")


@pytest.mark.parametrize("line", [b"X-Many: 1\r\n", b"X-Long: " + b"x" * 1_000 + b"\r\n"])
def test_a_head_is_bounded(line: bytes) -> None:
    """If this fails, one client fills the memory with headers."""
    assert sent(b"GET / HTTP/1.1\r\nHost: a\r\n" + line * (32 * HEAD_BYTES_MAX // len(line))) == b""


def test_requests_that_wait_are_bounded() -> None:
    """If this fails, one client fills the memory with requests whose answers it does not wait for."""
    found = sent(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n" * (PIPELINED_MAX + 10))
    assert b"400 Bad Request" in found


def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, clients take all files that the process may open."""
    monkeypatch.setattr(bounds, "CONNECTIONS_MAX", 0)
    assert sent(GET) == b""


def test_the_peer_has_its_address_and_its_certificate(tmp_path: Path) -> None:
    """If this fails, a request that is answered immediately is answered for no client, or for another one."""
    seen = Seen()
    sent(GET, seen)
    assert seen.peers == [Peer("127.0.0.1")]
    authority, seen = Authority(), Seen()
    holder = authority.issue("alice")
    key, trusted = holder.write_pem(tmp_path / "alice.pem"), authority.write_pem(tmp_path / "authority.pem")
    stores = StoreSettings("PEM", str(key), truststore_type="PEM", truststore_location=str(trusted))
    context = ssl.create_default_context(cadata=authority.pem)
    context.load_cert_chain(key)

    async def scenario() -> bytes:
        tls = ReloadingContext.of_settings(ServerSettings(stores, asks=True, requires=True))
        connections = partial(QuickProtocol, quick=seen, requests=Requests())
        async with served(tls, connections) as port:
            return await exchange(port, GET, context)

    assert run(scenario).endswith(holder.der)
    assert seen.peers == [Peer("127.0.0.1", holder.der)]
