"""The metrics listener with tokens and TLS: access for each client, and files that change."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import uvloop

from broker_cy.client.address import Address
from broker_cy.network.sockets import ListenError
from broker_cy.telemetry import metrics_access, metrics_http
from broker_cy.telemetry.metrics_access import CERTIFICATE, KEY, NAMES, TOKEN_FILE, MetricsAccess, access_of
from broker_cy.telemetry.metrics_http import MetricsServer
from tests.support.certificates import Authority

DEADLINE_S = 60.0
TOKEN, OTHER = "first-token-of-the-test", "second-token-of-the-test"
PAGE = b"a_metric 1\n"


def settings(**values: object) -> dict[str, Any]:
    names = {"tokens": TOKEN_FILE, "certificate": CERTIFICATE, "key": KEY}
    return dict.fromkeys(NAMES) | {names[name]: str(value) for name, value in values.items()}


class Time:
    """A clock on which each look at the files is due."""

    now_s = 0.0

    def __call__(self) -> float:
        self.now_s += metrics_access.LOOK_S
        return self.now_s


def write(path: Path, content: str) -> Path:
    """Replace a file, as tools do that deploy secrets."""
    new = path.with_suffix(".new")
    new.write_text(content)
    os.replace(new, path)
    return path


async def ask(
    server: MetricsServer, target: str, token: str | None = None, context: ssl.SSLContext | None = None
) -> tuple[int, bytes, bytes]:
    """Status, headers and body."""
    host, _, port = server.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    try:
        header = f"Authorization: Bearer {token}\r\n" if token is not None else ""
        writer.write(f"GET {target} HTTP/1.1\r\nHost: broker\r\nConnection: close\r\n{header}\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        return int(head.split(b" ")[1]), head, body
    finally:
        writer.close()


def serving(access: MetricsAccess | None, work: Callable[[MetricsServer], Awaitable[None]]) -> None:
    async def page(_: frozenset[str] | None) -> bytes:
        return PAGE

    async def main() -> None:
        async with asyncio.timeout(DEADLINE_S):
            address = Address("127.0.0.1", 0)
            loop = asyncio.get_running_loop()
            server = MetricsServer.bind(loop, *address, page, lambda: ["the broker is fenced"], access)
            server.start()
            try:
                await work(server)
            finally:
                await server.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def test_only_who_has_a_token_gets_metrics_and_details(tmp_path: Path) -> None:
    tokens = write(tmp_path / "tokens", f"# of Prometheus\n{TOKEN}\n\n{OTHER}\n")

    async def work(server: MetricsServer) -> None:
        for token in (TOKEN, OTHER):
            assert (await ask(server, "/metrics", token))[::2] == (200, PAGE)
            assert (await ask(server, "/readyz", token))[::2] == (503, b"the broker is fenced\n")
        for wrong in (None, "", TOKEN[:-1], TOKEN + "x", "# of Prometheus"):
            status, head, body = await ask(server, "/metrics", wrong)
            assert status == 401
            assert b"WWW-Authenticate: Bearer" in head
            assert PAGE not in body
            assert (await ask(server, "/readyz", wrong))[::2] == (503, b"not ready\n")
            assert (await ask(server, "/healthz", wrong))[::2] == (200, b"ok\n")

    serving(MetricsAccess(settings(tokens=tokens), Time()), work)


def test_tokens_are_replaced_without_a_restart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tokens = write(tmp_path / "tokens", TOKEN)
    access = MetricsAccess(settings(tokens=tokens), Time())
    write(tokens, OTHER)
    access.refresh()
    assert access.allows(f"Bearer {OTHER}")
    assert access.allows(f"bearer  {OTHER} ")
    assert not access.allows(f"Bearer {TOKEN}")
    assert not access.allows(f"Basic {OTHER}")
    # An invalid file is ignored, and its content is not logged.
    write(tokens, "short")
    access.refresh()
    tokens.unlink()
    access.refresh()
    assert access.allows(f"Bearer {OTHER}")
    assert "line 1 is no token" in caplog.text
    assert "No such file" in caplog.text
    assert "short" not in caplog.text


def test_pages_are_served_over_tls_only_and_certificates_are_replaced(tmp_path: Path) -> None:
    first, second = Authority("first"), Authority("second")
    file = first.issue("broker").write_pem(tmp_path / "certificate.pem")

    async def work(server: MetricsServer) -> None:
        trusted = ssl.create_default_context(cadata=first.pem)
        assert (await ask(server, "/metrics", context=trusted))[::2] == (200, PAGE)
        old = ssl.create_default_context(cadata=first.pem)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        assert (await ask(server, "/healthz", context=old))[0] == 200
        host, _, port = server.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: broker\r\n\r\n")
        assert PAGE not in await reader.read()
        writer.close()
        # The new one counts for the next connection.
        os.replace(second.issue("broker").write_pem(tmp_path / "next.pem"), file)
        with pytest.raises(ssl.SSLCertVerificationError):
            await ask(server, "/metrics", context=trusted)
        trusted = ssl.create_default_context(cadata=second.pem)
        assert (await ask(server, "/metrics", context=trusted))[::2] == (200, PAGE)

    serving(MetricsAccess(settings(certificate=file), Time()), work)


def test_peers_that_never_end_a_handshake_keep_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_http, "HANDSHAKES_PER_S", 10_000)
    authority = Authority()
    file = authority.issue("broker").write_pem(tmp_path / "certificate.pem")

    async def work(server: MetricsServer) -> None:
        host, _, port = server.address.rpartition(":")
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(2 * metrics_http.CONNECTIONS_MAX)]
        for _, writer in silent[::2]:
            writer.write(b"\x16\x03\x01\x02\x00\x01")
        trusted = ssl.create_default_context(cadata=authority.pem)
        assert (await ask(server, "/metrics", context=trusted))[::2] == (200, PAGE)
        for _, writer in silent:
            writer.close()

    serving(MetricsAccess(settings(certificate=file), Time()), work)


def broken(tmp_path: Path) -> dict[str, tuple[Mapping[str, Any], str]]:
    """Settings that are rejected, and a part of the reason."""
    tokens, empty, binary = tmp_path / "tokens", tmp_path / "empty", tmp_path / "binary"
    tokens.write_text("a token with spaces in it")
    empty.write_text("# nothing\n")
    binary.write_bytes(b"\xff\xfe" * 20)
    file = Authority().issue("broker").write_pem(tmp_path / "certificate.pem")
    certificate = tmp_path / "certificate-only.pem"
    certificate.write_text(file.read_text().partition("-----END PRIVATE KEY-----\n")[2])
    other = Authority().issue("other").write_pem(tmp_path / "other.pem")
    return {
        "no file": (settings(tokens=tmp_path / "missing"), "cannot be read: No such file"),
        "no token": (settings(tokens=empty), "there is no token in it"),
        "spaces": (settings(tokens=tokens), "line 1 is no token"),
        "binary": (settings(tokens=binary), "is no text"),
        "no certificate": (settings(certificate=empty), CERTIFICATE),
        "no key": (settings(certificate=certificate), CERTIFICATE),
        "key of another one": (settings(certificate=certificate, key=other), "key values mismatch"),
        "key alone": (settings(key=other), f"{CERTIFICATE} is not set"),
    }


@pytest.mark.parametrize(
    "case",
    ["no file", "no token", "spaces", "binary", "no certificate", "no key", "key of another one", "key alone"],
)
def test_what_does_not_fit_is_refused_at_the_start(case: str, tmp_path: Path) -> None:
    wrong, reason = broken(tmp_path)[case]
    with pytest.raises(ListenError, match=r"brokercy\.metrics") as error:
        access_of(wrong, Time())
    assert reason in str(error.value)
    assert "a token with" not in str(error.value)


def test_without_these_settings_everybody_reads_everything() -> None:
    assert access_of(settings(), Time()) is None
