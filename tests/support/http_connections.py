"""An HTTP server in the loop of a test, on one of the protocols of programs, and a client that sends bytes."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from broker_cy.http.bounds import HEAD_BYTES_MAX, certificate_of
from broker_cy.http.protocol import BoundedProtocol

WAIT_S = 30.0
# Shorter than any wait of a test, and not 0: the head of a request must be able to arrive.
SHORT_S = 0.2
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the certificate of the client, or with 1 MB for /large."""
    while (await receive()).get("more_body"):
        pass
    body = b"x" * (1 << 20) if scope["path"] == "/large" else certificate_of(scope) or b"none"
    await send(
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-length", str(len(body)).encode()), (b"connection", b"close")],
        }
    )
    await send({"type": "http.response.body", "body": body})


@contextlib.asynccontextmanager
async def served(
    tls: ssl.SSLContext | None = None, connections: Callable[..., Any] = BoundedProtocol
) -> AsyncIterator[int]:
    """Serve `echo`; the value is the port."""
    config = uvicorn.Config(echo, h11_max_incomplete_event_size=HEAD_BYTES_MAX, log_level="error")
    state, loop = ServerState(), asyncio.get_running_loop()
    server = await loop.create_server(lambda: connections(config, state, {}, loop), "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for each in list(state.connections):
            each.transport.abort()
        await asyncio.gather(*state.tasks, return_exceptions=True)


async def exchange(port: int, data: bytes, client: ssl.SSLContext | None = None) -> bytes:
    """Send bytes, and return what the server sends until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
    try:
        writer.write(data)
        return await asyncio.wait_for(reader.read(), WAIT_S)
    finally:
        writer.close()


def run(make: Callable[[], Awaitable[Any]]) -> Any:
    async def whole() -> Any:
        return await make()

    return asyncio.run(whole())
