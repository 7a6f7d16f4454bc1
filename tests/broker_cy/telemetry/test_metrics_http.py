"""The metrics listener with peers that are silent, slow or many: monitoring is never locked out."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from broker_cy.telemetry import metrics_http
from broker_cy.telemetry.metrics_http import CONNECTIONS_MAX, MetricsServer
from broker_cy.telemetry.node_pages import Pages

DEADLINE_S = 60.0
REQUEST = b"GET /healthz HTTP/1.1\r\nHost: broker\r\n\r\n"
PAGE = b"a_metric 1\n"


class Listener:
    """A MetricsServer on a free port, and connections to it."""

    def __init__(self, page: Callable[[], Awaitable[bytes]] | None = None) -> None:
        self.page = page
        bound = socket.create_server(("127.0.0.1", 0), backlog=256)
        bound.setblocking(False)
        self.port = bound.getsockname()[1]
        self.server = MetricsServer(asyncio.get_running_loop(), bound, self.render, list)
        self.writers: list[asyncio.StreamWriter] = []

    async def render(self, topics: frozenset[str] | None) -> bytes:
        return PAGE if self.page is None else await self.page()

    async def __aenter__(self) -> Listener:
        self.server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for writer in self.writers:
            writer.close()
        await self.server.stop()

    async def connect(self, host: str = "127.0.0.1") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(host, 0))
        self.writers.append(writer)
        return reader, writer

    async def until_open(self, count: int) -> None:
        while len(self.server._peers) != count:
            await asyncio.sleep(0.001)


async def answer_of(reader: asyncio.StreamReader) -> bytes:
    """Return the body of a response with status 200."""
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    (length,) = (line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return await reader.readexactly(int(length.split(b":")[1]))


async def is_closed(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read(1) == b""
    except ConnectionResetError:
        return True


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await main()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(bounded())


@pytest.mark.parametrize("sent", [b"", b"GET /met", REQUEST[:-1]])
def test_peers_that_never_finish_a_request(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, CONNECTIONS_MAX idle sockets block monitoring for as long as they like."""
    # On a busy machine, unfinished requests would time out before all peers are connected.
    monkeypatch.setattr(metrics_http, "REQUEST_S", 2 * DEADLINE_S)

    async def main() -> None:
        async with Listener() as listener:
            first = None
            for count in range(CONNECTIONS_MAX):
                reader, writer = await listener.connect()
                writer.write(sent)
                await listener.until_open(count + 1)
                if first is None:
                    first = reader
                    (peer,) = listener.server._peers
                    # The clock of a loop has milliseconds: the others wait for less time than the first one.
                    while peer.waits_since is None or asyncio.get_running_loop().time() <= peer.waits_since:
                        await asyncio.sleep(0.001)
            for _ in range(3):
                reader, writer = await listener.connect()
                writer.write(REQUEST)
                assert await answer_of(reader) == b"ok\n"
            assert first is not None
            assert await is_closed(first)
            assert len(listener.server._peers) == CONNECTIONS_MAX

    run(main)


def test_a_flood_from_one_host_leaves_the_others_alone() -> None:
    """The connection that a monitoring system keeps open between two scrapes is not the one that is closed."""

    async def main() -> None:
        async with Listener() as listener:
            reader, writer = await listener.connect("127.0.0.2")
            writer.write(REQUEST)
            await answer_of(reader)
            for _ in range(3 * CONNECTIONS_MAX):
                _, flooding = await listener.connect()
                flooding.write(b"GET ")
            await listener.until_open(CONNECTIONS_MAX)
            writer.write(REQUEST)
            assert await answer_of(reader) == b"ok\n"

    run(main)


def test_a_request_that_comes_in_drips(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline is that of the whole request: another byte does not extend it."""
    monkeypatch.setattr(metrics_http, "REQUEST_S", 0.2)

    async def main() -> None:
        async with Listener() as listener:
            reader, writer = await listener.connect()
            closed = asyncio.ensure_future(is_closed(reader))
            writer.write(b"GET /metrics HTTP/1.1\r\nX: ")
            while not closed.done():
                writer.write(b"x")
                await asyncio.sleep(0.01)
            assert closed.result()

    run(main)


def test_a_connection_may_idle_between_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scrapes are seconds apart, which is longer than one request may take."""
    # The first request has to come within it, also on a busy machine.
    monkeypatch.setattr(metrics_http, "REQUEST_S", 1.0)

    async def main() -> None:
        async with Listener() as listener:
            kept, writer = await listener.connect()
            writer.write(REQUEST)
            await answer_of(kept)
            # Another connection, which is closed after REQUEST_S, serves as the clock.
            silent, _ = await listener.connect()
            assert await is_closed(silent)
            writer.write(REQUEST)
            assert await answer_of(kept) == b"ok\n"

    run(main)


def test_peers_that_do_not_read_their_answers() -> None:
    async def main() -> None:
        async def page() -> bytes:
            return bytes(16 << 20)

        async with Listener(page) as listener:
            for _ in range(CONNECTIONS_MAX):
                _, writer = await listener.connect()
                writer.write(REQUEST.replace(b"/healthz", b"/metrics"))
            await listener.until_open(CONNECTIONS_MAX)
            while not all(peer.waits_since is not None for peer in listener.server._peers):
                await asyncio.sleep(0.001)
            reader, writer = await listener.connect()
            writer.write(REQUEST)
            assert await answer_of(reader) == b"ok\n"

    run(main)


def test_requests_that_are_being_answered_are_not_cut_off() -> None:
    """One more connection is closed instead."""

    async def main() -> None:
        rendering = asyncio.Event()
        begun = 0

        async def page() -> bytes:
            nonlocal begun
            begun += 1
            await rendering.wait()
            return PAGE

        async with Listener(page) as listener:
            readers = []
            for _ in range(CONNECTIONS_MAX):
                reader, writer = await listener.connect()
                writer.write(REQUEST.replace(b"/healthz", b"/metrics"))
                readers.append(reader)
            while begun < CONNECTIONS_MAX:
                await asyncio.sleep(0.001)
            late, _ = await listener.connect()
            assert await is_closed(late)
            rendering.set()
            assert [await answer_of(reader) for reader in readers] == [PAGE] * CONNECTIONS_MAX

    run(main)


def test_the_page_of_a_share_group_needs_one_name_and_the_token() -> None:
    """If this fails, records in flight are served without a login, or a group whose name has a blank is not found."""

    async def main() -> None:
        async def mirrors() -> bytes:
            return b"{}"

        async def share_group(name: str) -> bytes:
            return name.encode()

        async with Listener() as listener:
            server = listener.server
            assert (await server.respond("GET", "/share-groups?group=g"))[0] == 404
            server._pages = Pages(share_group, mirrors)
            assert await server.respond("GET", "/share-groups?group=a%20b") == (200, metrics_http.JSON, b"a b")
            for target in ("/share-groups", "/share-groups?group=a&group=b"):
                assert (await server.respond("GET", target))[0] == 400
            assert (await server.respond("GET", "/share-groups?group=g", is_trusted=False))[0] == 401

    run(main)
