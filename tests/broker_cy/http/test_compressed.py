"""Files are compressed once, and not sent again to a browser that has them."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import StreamingResponse

from broker_cy.http.compressed import Compressed

PREFIXES = ("/assets/",)
BODY = b"const a = 1;" * 100


async def application(scope: Any, receive: Any, send: Any) -> None:
    assert not any(name.startswith(b"if-") for name, _ in scope["headers"])
    headers = [(b"content-type", b"text/javascript"), (b"etag", b"theirs"), (b"content-length", b"%d" % len(BODY))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": BODY})


def get(app: Compressed, *headers: tuple[bytes, bytes], query: bytes = b"") -> tuple[int, dict[bytes, bytes], bytes]:
    sent: list[Any] = []

    async def run() -> None:
        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            raise AssertionError("a GET has no body")

        given = [(b"accept-encoding", b"gzip, br"), *headers]
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/assets/vendor/a.js",
            "query_string": query,
            "headers": given,
        }
        await app(scope, receive, send)

    asyncio.run(run())
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


def test_a_browser_that_has_a_file_does_not_receive_it_again() -> None:
    """If this fails, each page with a chart loads half a megabyte, or uses a file of the previous version."""
    app = Compressed(application, PREFIXES)
    status, headers, body = get(app)
    assert (status, gzip.decompress(body)) == (200, BODY)
    assert headers[b"cache-control"] == b"no-cache"
    status, again, body = get(app, (b"if-none-match", headers[b"etag"]))
    assert (status, body) == (304, b"")
    assert again[b"etag"] == headers[b"etag"]
    assert b"content-length" not in again
    status, _, body = get(app, (b"if-none-match", b'"another"'))
    assert (status, gzip.decompress(body)) == (200, BODY)


def test_versioned_files_are_kept() -> None:
    """If this fails, a browser asks for two dozen files with each page."""
    _, headers, _ = get(Compressed(application, PREFIXES), query=b"m=1.5")
    assert b"immutable" in headers[b"cache-control"]


def test_files_are_compressed_before_anybody_asks() -> None:
    """If this fails, the first visitor waits for the page's scripts to be compressed."""
    asked: list[str] = []

    async def counting(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope["path"])
        await application(scope, receive, send)

    app = Compressed(counting, PREFIXES)
    asyncio.run(app.prepare(["/assets/vendor/a.js?m=1.5", "/assets/vendor/a.js"]))
    assert len(asked) == 2
    for query in (b"", b"m=1.5"):
        status, _, body = get(app, query=query)
        assert (status, gzip.decompress(body)) == (200, BODY)
    assert len(asked) == 2


def test_many_first_visitors_have_a_file_compressed_once() -> None:
    """If this fails, tabs that reconnect after a restart repeat the work of the first one."""
    asked: list[str] = []

    async def counting(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope["path"])
        await application(scope, receive, send)

    app = Compressed(counting, PREFIXES)

    async def run() -> None:
        await asyncio.gather(*(app.prepare(["/assets/a.js"]) for _ in range(5)))

    asyncio.run(run())
    assert asked == ["/assets/a.js"]


def test_an_answer_that_is_streamed_is_prepared() -> None:
    """If this fails, the dashboard is busy forever after its start, because a streaming application keeps checking
    whether its client has disconnected.
    """

    async def streaming(scope: Any, receive: Any, send: Any) -> None:
        async def chunks() -> AsyncIterator[bytes]:
            yield BODY

        await StreamingResponse(chunks(), media_type="text/javascript")(scope, receive, send)

    async def run() -> None:
        async with asyncio.timeout(30):
            await Compressed(streaming, PREFIXES).prepare(["/assets/a.js"])

    asyncio.run(run())
