"""HTTP/2 and HTTP/1.1 on the same port, against clients of h2 and httpx."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import h2.config
import h2.connection
import h2.events
import httpx
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from broker_cy.http.http2 import SwitchingProtocol

LARGE = 3 << 20


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the version, the path and the body; /large answers with LARGE bytes, /fail fails."""
    if scope["path"] == "/fail":
        raise ZeroDivisionError
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"x-version", scope["http_version"].encode())]}
    )
    if scope["path"] == "/large":
        for _ in range(LARGE >> 16):
            await send({"type": "http.response.body", "body": b"x" * (1 << 16), "more_body": True})
    await send({"type": "http.response.body", "body": scope["path"].encode() + b" " + body})


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[int]:
    config, state, loop = uvicorn.Config(app, log_level="critical"), ServerState(), asyncio.get_running_loop()
    config.load()
    server = await loop.create_server(lambda: SwitchingProtocol(config, state, {}, loop), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for each in list(state.connections):
            each.shutdown()
        for task in list(state.tasks):
            task.cancel()


def run(app: Any, job: Callable[[int], Awaitable[None]]) -> None:
    async def work() -> None:
        async with asyncio.timeout(30), served(app) as port:
            await job(port)

    asyncio.run(work())


def test_both_versions_are_served_on_one_port() -> None:
    """If this fails, ksqlDB's Java client, which begins with HTTP/2, gets no answer, or curl gets none."""

    async def job(port: int) -> None:
        for version in ("1.1", "2"):
            is_two = version == "2"
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", http1=not is_two, http2=is_two) as client:
                found = await asyncio.gather(*(client.post(f"/a%2F{n}?q=1", content=b"y" * n) for n in range(20)))
            assert {each.headers["x-version"] for each in found} == {version}
            assert [each.text for each in found] == [f"/a/{n} " + "y" * n for n in range(20)]

    run(echo, job)


def test_bodies_beyond_the_windows_arrive_whole() -> None:
    """If this fails, flow control stops a large request or answer for ever, or drops a part of it."""

    async def job(port: int) -> None:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", http1=False, http2=True) as client:
            sent = await client.post("/up", content=b"z" * LARGE)
            assert len(sent.content) == LARGE + len("/up ")
            assert len((await client.get("/large")).content) == LARGE + len("/large ")

    run(echo, job)


def test_an_application_that_fails_resets_its_stream_only() -> None:
    """If this fails, one failed request ends the others of its connection."""

    async def job(port: int) -> None:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", http1=False, http2=True) as client:
            failed, other = await asyncio.gather(client.get("/fail"), client.get("/other"), return_exceptions=True)
            assert isinstance(failed, httpx.RemoteProtocolError)
            assert isinstance(other, httpx.Response)
            assert other.text == "/other "

    run(echo, job)


def test_a_reset_of_the_client_reaches_the_application() -> None:
    """If this fails, a push query goes on after its client has gone."""
    gone: asyncio.Event

    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.set()

    async def job(port: int) -> None:
        nonlocal gone
        gone = asyncio.Event()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        client = h2.connection.H2Connection(h2.config.H2Configuration())
        client.initiate_connection()
        request = [(":method", "GET"), (":path", "/"), (":scheme", "http"), (":authority", "a")]
        client.send_headers(1, request, end_stream=True)
        writer.write(client.data_to_send())
        body = b""
        while body != b"begun":
            for event in client.receive_data(await reader.read(1 << 16)):
                if isinstance(event, h2.events.DataReceived):
                    body += event.data or b""
        client.reset_stream(1)
        writer.write(client.data_to_send())
        await gone.wait()
        writer.close()

    run(wait, job)


def test_what_is_no_http_is_refused() -> None:
    """If this fails, bytes that only begin like the preface hold a connection, or end the server."""

    async def job(port: int) -> None:
        for sent in (b"PRI * HTTP/2.0\r\n\r\nXX", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * 100):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            writer.write_eof()
            await reader.read()
            writer.close()
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            assert (await client.get("/")).status_code == 200

    run(echo, job)
