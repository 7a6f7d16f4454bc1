"""The ASGI application of a server: logins, routes, errors, answers that go on."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Final

from starlette.types import Receive, Scope, Send

from broker_cy.client.errors import ClientError
from broker_sql.server.api import info, inserts, ksql, query, websocket
from broker_sql.server.api.requests import JSON, V1, Answer, Request, Streamed, Whole, preferred, segments_of
from broker_sql.server.api.router import Router
from broker_sql.server.errors import ApiError, Code
from broker_sql.server.security import Guard
from broker_sql.server.service import Service

MESSAGE_BYTES_MAX: Final = 1 << 20
"""The bound of a message of a WebSocket."""
_POLICY: Final = 1008

_log = logging.getLogger(__name__)


def routes() -> Router:
    router = Router()
    for room in (info, ksql, query, inserts):
        room.add_routes(router)
    return router


class App:
    """See the module."""

    def __init__(self, service: Service, guard: Guard) -> None:
        self.service = service
        # Why the service could not be opened.
        self.failure: ClientError | None = None
        self._guard = guard
        self._router = routes()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._run_service(receive, send)
        elif scope["type"] == "websocket":
            await self._run_socket(scope, receive, send)
        else:
            await self._run_request(scope, receive, send)

    async def _run_service(self, receive: Receive, send: Send) -> None:
        """Open the service before the first request, and close it after the last one."""
        await receive()
        try:
            async with self.service:
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except ClientError as error:
            self.failure = error
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.shutdown.complete"})

    async def _run_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        content_type = V1
        try:
            request = _request_of(scope, receive)
            request.user = await self._user_of(scope, request.segments)
            handler = self._router.find(request)
            answer = await handler(self.service, request)
            if isinstance(answer, Streamed):
                await _send_streamed(answer, receive, send, http_version=scope.get("http_version", "1.1"))
                return
            if isinstance(answer, Whole):
                await _send_body(send, 200, answer.body, [(b"content-type", answer.content_type.encode())])
                return
            content_type = answer.content_type or preferred(request.accept, (V1, JSON))
        except ApiError as error:
            answer = Answer(error.to_json(), error.status, headers=tuple(error.headers))
        except ConnectionResetError:
            return
        except Exception:
            _log.exception("%s %s", scope["method"], scope["path"])
            failed = ApiError(Code.SERVER_ERROR, "Internal server error; the log of the server says why")
            answer = Answer(failed.to_json(), failed.status)
        await _send(send, answer, content_type, is_head=scope["method"] == "HEAD")

    async def _run_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        segments = segments_of(scope.get("raw_path") or scope["path"].encode())
        try:
            await self._user_of(scope, segments)
            if segments != ("ws", "query"):
                raise ApiError(Code.NOT_FOUND, f"The path {scope['path']} does not exist")
        except ApiError as error:
            # The server answers the handshake with 403.
            await send({"type": "websocket.close", "code": _POLICY, "reason": error.message[:120]})
            return
        await websocket.run(self.service, scope, receive, send)

    async def _user_of(self, scope: Scope, segments: tuple[str, ...]) -> str | None:
        client = scope.get("client")
        values = [value for name, value in scope["headers"] if name == b"authorization"]
        return await self._guard.user_of(segments, values, str(client[0]) if client else "")


def _request_of(scope: Scope, receive: Receive) -> Request:
    raw_path = scope.get("raw_path") or scope["path"].encode()
    client = scope.get("client")
    return Request(
        scope["method"],
        segments_of(raw_path),
        dict(scope["headers"]),
        receive,
        scope.get("http_version", "1.1"),
        peer=str(client[0]) if client else "",
    )


async def _send(send: Send, answer: Answer, content_type: str, *, is_head: bool) -> None:
    headers = [(b"content-type", content_type.encode()), *answer.headers]
    await _send_body(send, answer.status, answer.encode(), headers, is_head=is_head)


async def _send_body(
    send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]], *, is_head: bool = False
) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": b"" if is_head else body})


async def _send_streamed(answer: Streamed, receive: Receive, send: Send, *, http_version: str) -> None:
    """Send the parts as they come, until they end or the client goes."""
    headers = [(b"content-type", answer.content_type.encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    sending = asyncio.ensure_future(_send_parts(answer.parts, send))
    watched = [sending] if answer.reads_body else [sending, asyncio.ensure_future(_gone(receive))]
    try:
        await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in watched:
            each.cancel()
        await asyncio.gather(*watched, return_exceptions=True)
        with contextlib.suppress(Exception):
            await answer.parts.aclose()  # type: ignore[attr-defined]
    if not sending.cancelled() and (error := sending.exception()) is not None:
        raise error


async def _send_parts(parts: AsyncIterator[bytes], send: Send) -> None:
    async for part in parts:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
