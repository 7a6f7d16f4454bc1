"""Connections of the HTTP server: TLS, certificates of clients, files that change, and slow or greedy clients."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from broker_cy.http import bounds
from broker_cy.http.bounds import HEAD_BYTES_MAX
from broker_cy.http.protocol import BoundedProtocol
from broker_cy.http.tls import LOOK_S, ReloadingContext, ServerSettings
from broker_cy.security.tls.stores import StoreError, StoreSettings
from tests.support.certificates import Authority
from tests.support.http_connections import GET, SHORT_S, WAIT_S, exchange, run, served


def client_of(authority: Authority, key: Path | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.pem)
    if key is not None:
        context.load_cert_chain(key)
    return context


def stores(key: Path, trusted: Path | None = None) -> StoreSettings:
    return StoreSettings(
        keystore_type="PEM",
        keystore_location=str(key),
        truststore_type="PEM",
        truststore_location=None if trusted is None else str(trusted),
    )


def test_a_certificate_of_a_client_reaches_the_application(tmp_path: Path) -> None:
    """If this fails, a client with a certificate has no identity, or one without is let in where it is required."""
    authority, other = Authority(), Authority("Other Authority")
    server = authority.issue("server").write_pem(tmp_path / "server.pem")
    trusted = authority.write_pem(tmp_path / "authority.pem")
    holder = authority.issue("alice")
    key, foreign = holder.write_pem(tmp_path / "alice.pem"), other.issue("mallory").write_pem(tmp_path / "mallory.pem")

    async def scenario(requires: bool) -> list[bytes]:
        settings = ServerSettings(stores(server, trusted), asks=True, requires=requires)
        found = []
        async with served(ReloadingContext.of_settings(settings)) as port:
            for own in (key, None, foreign):
                try:
                    answer = await exchange(port, GET, client_of(authority, own))
                except (ssl.SSLError, ConnectionError):
                    answer = b""
                found.append(answer.partition(b"\r\n\r\n")[2] or b"refused")
        return found

    assert run(lambda: scenario(True)) == [holder.der, b"refused", b"refused"]
    assert run(lambda: scenario(False)) == [holder.der, b"none", b"refused"]


def test_an_exchanged_certificate_is_shown_without_a_restart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, a program shows an expired certificate until it is restarted, or none after a bad change."""
    authority = Authority()
    path, now_s = tmp_path / "server.pem", 0.0
    first, second = authority.issue("server"), authority.issue("server")
    first.write_pem(path)
    context = ReloadingContext.of_settings(ServerSettings(stores(path)), lambda: now_s)

    async def scenario() -> list[bytes | None]:
        nonlocal now_s
        found = []
        async with served(context) as port:
            for write in (lambda: None, lambda: second.write_pem(path), lambda: path.write_text("no key")):
                write()
                now_s += LOOK_S
                _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client_of(authority))
                found.append(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
                writer.close()
        return found

    assert run(scenario) == [first.der, second.der, second.der]
    assert "the certificate that was read before stays in use" in caplog.text


def test_https_needs_a_key_and_authorities(tmp_path: Path) -> None:
    """If this fails, a server starts without TLS, or trusts every holder of a public certificate."""
    with pytest.raises(StoreError, match="https needs a key and a certificate"):
        ReloadingContext.of_settings(ServerSettings(StoreSettings()))
    key = Authority().issue("server").write_pem(tmp_path / "server.pem")
    with pytest.raises(StoreError, match="certificates of clients need"):
        ReloadingContext.of_settings(ServerSettings(stores(key), asks=True))


@pytest.mark.parametrize(
    ("data", "limit"),
    [
        (b"", "HEAD_S"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: ", "HEAD_S"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc", "BODY_S"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "BODY_S"),
    ],
)
def test_a_client_that_does_not_finish_is_closed(data: bytes, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a few clients that send nothing hold all connections."""
    monkeypatch.setattr(bounds, limit, SHORT_S)

    async def scenario() -> bytes:
        async with served() as port:
            try:
                return await exchange(port, data)
            except ConnectionError:
                return b""

    assert run(scenario) == b""


def test_a_client_that_does_not_read_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, clients that never read an answer keep it in memory."""
    monkeypatch.setattr(bounds, "SEND_S", SHORT_S)

    async def scenario() -> bool:
        loop = asyncio.get_running_loop()
        closed: asyncio.Future[None] = loop.create_future()
        lost = BoundedProtocol.connection_lost

        def noted(self: BoundedProtocol, error: Exception | None) -> None:
            lost(self, error)
            closed.set_result(None)

        monkeypatch.setattr(BoundedProtocol, "connection_lost", noted)
        async with served() as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
            # More answers than the buffers of both sockets hold.
            writer.write(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            await asyncio.wait_for(closed, WAIT_S)
            writer.close()
        return closed.done()

    assert run(scenario)


def test_a_head_is_bounded() -> None:
    """If this fails, one client fills the memory with headers."""

    async def scenario() -> bytes:
        async with served() as port:
            flood = b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X-Many: 1\r\n" * (2 * HEAD_BYTES_MAX // 11)
            try:
                return await exchange(port, flood)
            except ConnectionError:
                return b"HTTP/1.1 400"

    assert run(scenario).startswith(b"HTTP/1.1 400")


def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, clients take all files that the process may open."""
    monkeypatch.setattr(bounds, "CONNECTIONS_MAX", 1)

    async def scenario() -> tuple[bytes, bytes]:
        async with served() as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\n")
            try:
                further = await exchange(port, GET)
            except ConnectionError:
                further = b""
            writer.write(b"Host: a\r\n\r\n")
            first = await asyncio.wait_for(reader.read(), WAIT_S)
            writer.close()
            return further, first

    further, first = run(scenario)
    assert further == b""
    assert first.endswith(b"none")
