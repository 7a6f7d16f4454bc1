"""The guard on a real socket, with the server's handling of chunked bodies, upgrades and raw paths."""

from __future__ import annotations

import http.client
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from dashboard.security.guard import BODY_BYTES_MAX
from dashboard.security.users import remove_user
from tests.dashboard.security.kit import add_user
from tests.dashboard.security.server import Server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path) as running:
        yield running


def chunked(parts: list[bytes]) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def test_chunked_bodies_are_bounded(server: Server) -> None:
    """If this fails, a body without Content-Length evades the limit."""
    lines = ["POST /change HTTP/1.1", f"Origin: {server.origin}", "Transfer-Encoding: chunked", "Connection: close"]
    part = b"x" * (256 << 10)
    count = BODY_BYTES_MAX // len(part)
    allowed = server.exchange(lines, chunked([part] * count))
    assert allowed.startswith(b"HTTP/1.1 200")
    assert allowed.endswith(b"%d bytes" % BODY_BYTES_MAX)
    refused = server.exchange(lines, chunked([part] * count + [b"x"]))
    assert refused.startswith(b"HTTP/1.1 413")
    assert b"content-security-policy" in refused


def test_a_large_announced_body_is_not_read(server: Server) -> None:
    """If this fails, the server waits for gigabytes before it refuses them."""
    lines = ["POST /change HTTP/1.1", f"Origin: {server.origin}", f"Content-Length: {1 << 40}"]
    assert server.exchange(lines, b"x" * 100).startswith(b"HTTP/1.1 413")


def test_a_client_that_sends_a_large_body_reads_why_it_is_refused(server: Server) -> None:
    """If this fails, a user who sends a file that is too large sees a reset connection instead of the limit."""
    for headers in ({}, {"Transfer-Encoding": "chunked"}):
        client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        parts = (b"x" * (1 << 20) for _ in range(24))
        body = parts if headers else b"".join(parts)
        client.request(
            "POST",
            "/change",
            body,
            {"Origin": server.origin, "Cookie": server.cookie(), **headers},
            encode_chunked=bool(headers),
        )
        answer = client.getresponse()
        assert (answer.status, answer.headers["content-type"]) == (413, "application/json")
        assert json.loads(answer.read()) == {"error": f"the body has more than {BODY_BYTES_MAX:,} bytes"}
        client.close()


def test_raw_paths_are_refused(server: Server) -> None:
    """If this fails, the server hides a trick from the guard by decoding the path first."""
    for path in (
        "/assets/%2e%2e/%2e%2e/etc/passwd",
        "/assets/..%2f..%2fetc/passwd",
        "//etc/passwd",
        "/a%5c..",
        "/../x",
    ):
        answer = server.exchange([f"GET {path} HTTP/1.1", "Connection: close"])
        assert answer.startswith(b"HTTP/1.1 400"), path
    assert server.exchange(["GET /topics HTTP/1.1", "Connection: close"]).startswith(b"HTTP/1.1 200")


def test_two_hosts_are_refused(server: Server) -> None:
    """If this fails, a proxy and the dashboard can read different hosts."""
    answer = server.exchange(["GET /topics HTTP/1.1", "Host: evil.example", "Connection: close"])
    assert answer.startswith(b"HTTP/1.1 400")


def test_sockets_are_refused_before_the_upgrade(server: Server) -> None:
    """If this fails, another site can open the live socket, or a client can without a login."""
    url = f"ws://127.0.0.1:{server.port}/live"
    cookie = {"Cookie": server.cookie()}
    for origin, headers, status in (
        (Origin(server.origin), {}, 401),
        (Origin("http://evil.example"), cookie, 403),
        (None, cookie, 403),
    ):
        with pytest.raises(InvalidStatus) as caught, connect(url, origin=origin, additional_headers=headers):
            pass
        assert caught.value.response.status_code == status


def test_refused_sockets_are_not_logged_as_errors(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, each tab whose login has ended fills the log with errors of the server."""
    log = logging.getLogger("uvicorn.error")
    with Server(tmp_path) as server:
        log.addHandler(caplog.handler)
        url = f"ws://127.0.0.1:{server.port}/live"
        for origin, status, text in ((server.origin, 401, b"log in"), ("http://evil.example", 403, b"Origin")):
            with pytest.raises(InvalidStatus) as caught, connect(url, origin=Origin(origin)):
                pass
            assert caught.value.response.status_code == status
            assert text in (caught.value.response.body or b"")
            assert caught.value.response.headers["X-Content-Type-Options"] == "nosniff"
    # The server has exited, so its log is complete.
    log.removeHandler(caplog.handler)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_socket_closes_when_the_user_is_removed(server: Server) -> None:
    """If this fails, a removed user watches the cluster for as long as the tab is open."""
    url = f"ws://127.0.0.1:{server.port}/live"
    with connect(url, origin=Origin(server.origin), additional_headers={"Cookie": server.cookie()}) as live:
        live.send("hello")
        assert live.recv(30) == "anna: 5"
        add_user(server.users_path, "ben")
        remove_user(server.users_path, "anna")
        live.send("hello")
        with pytest.raises(ConnectionClosed) as caught:
            live.recv(30)
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1008
        assert "removed" in caught.value.rcvd.reason


def test_messages_of_every_size_arrive_in_their_order(server: Server) -> None:
    """If this fails, panels show nothing, or a patch reaches a tab before the data that it changes."""
    url = f"ws://127.0.0.1:{server.port}/live"
    with connect(url, origin=Origin(server.origin), additional_headers={"Cookie": server.cookie()}) as live:
        for text in ("", "é" * 63, "x" * 1_000):
            live.send(text)
            live.ping()
        assert [live.recv(30) for _ in range(3)] == ["anna: 0", "anna: 63", "anna: 1000"]
