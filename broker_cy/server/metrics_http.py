"""`/metrics`, `/healthz` and `/readyz` over HTTP/1.1, on a port of their own.

healthz is 200 while the loop runs. readyz is 200 once the broker accepts clients and its coordinators are loaded, and
503 before that and while it stops; the body says what is missing. `/metrics?topic=NAME` (again for more) tells of the
partitions of these topics only. GET and HEAD only. Bounds: CONNECTIONS_MAX peers, of
which each has IDLE_S to send its next request, and request heads of what h11 takes (16 KiB).
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import socket
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs

import h11

from broker_cy.metrics.exposition import CONTENT_TYPE

LOGGER = logging.getLogger("broker_cy.server.metrics")

CONNECTIONS_MAX = 32
IDLE_S = 60.0
READ_BYTES = 65_536
TEXT = "text/plain; charset=utf-8"
# Below this a page is sent as it is.
GZIP_BYTES_MIN = 4_096

Answer = tuple[int, str, bytes]


class MetricsServer:
    """Serves `page()` at /metrics and `missing()`, what a broker that is not ready lacks, at /readyz."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        bound: socket.socket,
        page: Callable[[frozenset[str] | None], Awaitable[bytes]],
        missing: Callable[[], list[str]],
    ) -> None:
        self._loop = loop
        self._socket = bound
        self._page = page
        self._missing = missing
        self._server: asyncio.Server | None = None
        self._peers: set[asyncio.Task[None]] = set()
        self._starting: asyncio.Task[None] | None = None
        host, port = bound.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def start(self) -> None:
        """Accept from now on."""
        self._starting = self._loop.create_task(self._listen())

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, sock=self._socket)

    async def stop(self) -> None:
        """Accept no more, and leave those that are being served."""
        if self._starting is not None:
            await self._starting
        if self._server is not None:
            self._server.close()
        for peer in list(self._peers):
            peer.cancel()
        await asyncio.gather(*self._peers, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._peers) >= CONNECTIONS_MAX:
            writer.close()
            return
        self._peers.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, h11.RemoteProtocolError, TimeoutError):
            pass  # the peer is gone, slow, or speaks no HTTP
        except Exception:
            LOGGER.exception("serving metrics failed")
        finally:
            self._peers.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http = h11.Connection(h11.SERVER)
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                data = await asyncio.wait_for(reader.read(READ_BYTES), IDLE_S)
                http.receive_data(data)
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.EndOfMessage):
                await self._answer(http, writer, request)
                if http.our_state is h11.MUST_CLOSE:
                    return
                http.start_next_cycle()
            elif not isinstance(event, h11.Data):
                return

    async def _answer(self, http: h11.Connection, writer: asyncio.StreamWriter, request: h11.Request) -> None:
        status, content_type, body = await self.respond(request.method.decode(), request.target.decode())
        headers = [("Content-Type", content_type), ("Connection", "keep-alive")]
        accepted = dict(request.headers).get(b"accept-encoding", b"")
        if len(body) >= GZIP_BYTES_MIN and b"gzip" in accepted:
            body = await self._loop.run_in_executor(None, lambda: gzip.compress(body, 1))
            headers.append(("Content-Encoding", "gzip"))
        headers.append(("Content-Length", str(len(body))))
        if status == 405:
            headers.append(("Allow", "GET, HEAD"))
        writer.write(http.send(h11.Response(status_code=status, headers=headers)) or b"")
        if request.method != b"HEAD":
            writer.write(http.send(h11.Data(data=body)) or b"")
        writer.write(http.send(h11.EndOfMessage()) or b"")
        await asyncio.wait_for(writer.drain(), IDLE_S)

    async def respond(self, method: str, target: str) -> Answer:
        """(status, content type, body) of a request."""
        if method not in ("GET", "HEAD"):
            return 405, TEXT, f"{method} is not served; GET and HEAD are\n".encode()
        path, _, query = target.partition("?")
        if path == "/metrics":
            topics = parse_qs(query, keep_blank_values=True).get("topic")
            return 200, CONTENT_TYPE, await self._page(None if topics is None else frozenset(topics))
        if path == "/healthz":
            return 200, TEXT, b"ok\n"
        if path == "/readyz":
            missing = self._missing()
            return (503, TEXT, "".join(f"{each}\n" for each in missing).encode()) if missing else (200, TEXT, b"ok\n")
        return 404, TEXT, b"not found; there are /metrics, /healthz and /readyz\n"
