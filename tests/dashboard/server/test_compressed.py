"""Assets are compressed once, and not sent again to a browser that has them."""

from __future__ import annotations

import asyncio
import gzip
from typing import Any

from dashboard.compressed import Compressed

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
    """If this fails, each page with a chart loads half a megabyte, or shows a file of the version before."""
    app = Compressed(application)
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
    _, headers, _ = get(Compressed(application), query=b"m=1.5")
    assert b"immutable" in headers[b"cache-control"]
