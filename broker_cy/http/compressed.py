"""Files that never change while the program runs, compressed once. Those that pages load can be compressed at startup,
so that the first visitor does not wait.

Starlette's own middleware compresses them again for each request, at several milliseconds for a large script. A browser
keeps versioned files for a year, and revalidates the others before each use (ETag).
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import logging
from collections.abc import Iterable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from broker_cy.core.classes import NamedTuple
from broker_cy.http.own_requests import collected, get_scope, no_body

_LOG = logging.getLogger(__name__)

# Everything that a browser loads from the dashboard is about 3 MB compressed.
STORED_BYTES_MAX = 64 << 20
BODY_BYTES_MIN = 500
_YEAR = b"public, max-age=31536000, immutable"
_KINDS = (b"text/", b"application/javascript", b"application/json", b"image/svg")


class _Stored(NamedTuple):
    headers: list[tuple[bytes, bytes]]
    body: bytes
    etag: bytes


class Compressed:
    """Answers requests for files below `prefixes` from memory after the first one; everything else passes through.

    Addresses with a query, and those below `versioned`, change with the contents of their file.
    """

    def __init__(self, app: ASGIApp, prefixes: tuple[str, ...], versioned: tuple[str, ...] = ()) -> None:
        self._app = app
        self._prefixes = prefixes
        self._versioned = versioned
        self._stored: dict[tuple[str, bool], _Stored] = {}
        # Held while a file is compressed: one at a time, so that many first visitors do not multiply the work.
        self._compressing = asyncio.Lock()
        self._bytes = 0

    async def prepare(self, addresses: Iterable[str]) -> None:
        """Compress these files, one after the other in a thread. A file that cannot be loaded is logged, and compressed
        when a browser requests it.
        """
        for address in addresses:
            path, _, query = address.partition("?")
            answer = await self._answer(get_scope(path, query), no_body())
            if isinstance(answer, list) and answer[0].get("status") != 200:
                _LOG.warning("%s cannot be prepared: status %s", address, answer[0].get("status"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or not scope["path"].startswith(self._prefixes):
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if b"gzip" not in headers.get(b"accept-encoding", b"") or b"range" in headers:
            await self._app(scope, receive, send)
            return
        stored = await self._answer(scope, receive)
        if isinstance(stored, list):
            for message in stored:
                await send(message)
            return
        if headers.get(b"if-none-match") == stored.etag:
            kept = [each for each in stored.headers if each[0] not in (b"content-length", b"content-encoding")]
            await send({"type": "http.response.start", "status": 304, "headers": kept})
            await send({"type": "http.response.body", "body": b""})
            return
        await send({"type": "http.response.start", "status": 200, "headers": stored.headers})
        await send({"type": "http.response.body", "body": stored.body})

    async def _answer(self, scope: Scope, receive: Receive) -> _Stored | list[Message]:
        """Return a file compressed, from memory if possible; or the messages of an answer that is not worth
        compressing.
        """
        # The query is not part of the key: it only names the version, and a client may send any query.
        place = (scope["path"], bool(scope["query_string"]))
        if (stored := self._stored.get(place)) is not None:
            return stored
        async with self._compressing:
            if (stored := self._stored.get(place)) is not None:
                return stored
            # The stored answer is complete: the browser's conditional headers are left out.
            plain = {**scope, "headers": [(n, v) for n, v in scope["headers"] if not n.startswith(b"if-")]}
            answer = await collected(self._app, plain, receive)
            if not _is_worth_it(answer):
                return answer
            is_versioned = place[1] or place[0].startswith(self._versioned)
            stored = await asyncio.to_thread(_compress, answer, is_versioned)
            if self._bytes + len(stored.body) <= STORED_BYTES_MAX:
                self._stored[place] = stored
                self._bytes += len(stored.body)
            return stored


def _is_worth_it(answer: list[Message]) -> bool:
    start, body = answer
    kind = dict(start.get("headers", [])).get(b"content-type", b"")
    return start.get("status") == 200 and kind.startswith(_KINDS) and len(body["body"]) >= BODY_BYTES_MIN


def _compress(answer: list[Message], is_versioned: bool) -> _Stored:
    start, message = answer
    body = gzip.compress(message["body"], 9, mtime=0)
    etag = b'"' + hashlib.sha256(body).hexdigest()[:32].encode() + b'"'
    replaced = (
        b"content-length",
        b"cache-control",
        b"content-encoding",
        b"vary",
        b"etag",
        b"last-modified",
        b"accept-ranges",
    )
    headers = [(name, value) for name, value in start["headers"] if name.lower() not in replaced]
    headers += [
        (b"content-encoding", b"gzip"),
        (b"etag", etag),
        (b"vary", b"accept-encoding"),
        (b"content-length", str(len(body)).encode()),
        # The address of a versioned file changes with its contents.
        (b"cache-control", _YEAR if is_versioned else b"no-cache"),
    ]
    return _Stored(headers, body, etag)
