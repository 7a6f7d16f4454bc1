"""Requests of a program to its own application, without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope


def get_scope(path: str, query: str = "") -> Scope:
    """Return the scope of a request that the program sends to its own application."""
    return {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": path, "raw_path": path.encode(), "root_path": "", "query_string": query.encode(),
        "headers": [(b"host", b"localhost")], "client": None, "server": None, "state": {},
    }  # fmt: skip


def no_body() -> Receive:
    """Return the receiving side of a request without a body, whose client stays connected until it has the answer."""
    parts: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        if not parts:
            # An application that streams waits here for the client to disconnect, until its answer is complete.
            await asyncio.get_running_loop().create_future()
        return parts.pop()

    return receive


async def collected(app: ASGIApp, scope: Scope, receive: Receive) -> list[Message]:
    """Return the start and the whole body of an answer."""
    start: MutableMapping[str, Any] = {}
    parts: list[bytes] = []

    async def take(message: Message) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
        elif message["type"] == "http.response.body":
            parts.append(message.get("body", b""))

    await app(scope, receive, take)
    return [start, {"type": "http.response.body", "body": b"".join(parts)}]
