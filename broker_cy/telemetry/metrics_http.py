"""Serves `/metrics`, `/healthz` and `/readyz` over HTTP/1.1, on a separate port.

`/healthz` answers 200 while the loop runs. `/readyz` answers 200 while the broker is in service and its coordinators
are loaded, and 503 before that, while it is fenced and during the stop; the body lists the reasons.
`/metrics?topic=NAME`, which may be repeated, restricts the partition metrics to these topics. A broker also serves
`/share-groups?group=NAME`, the records of a share group in flight, and `/mirrors`, the mirrors that it leads. Only GET
and HEAD are served. With a MetricsAccess, /metrics, /share-groups and /mirrors need a token, and all pages are served
over TLS.

Bounds: CONNECTIONS_MAX connections; a request of at most 16 KiB before its body (h11), which must be complete REQUEST_S
after its first byte; IDLE_S between two requests and for the peer to read an answer. When all connections are taken, a
new one replaces one that waits for its peer: of the host with the most connections, the one that has waited longest.
With TLS, as many connections again may be in their handshake, which has REQUEST_S; the oldest one of them is ended for
a new one, and at most HANDSHAKES_PER_S begin in a second, because they run in the loop. So neither silent nor slow
peers can keep a monitoring system out.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs

import h11

from broker_cy.core.classes import dataclass
from broker_cy.metrics.exposition import CONTENT_TYPE
from broker_cy.network.sockets import open_socket

if TYPE_CHECKING:
    import ssl

    from broker_cy.telemetry.metrics_access import MetricsAccess
    from broker_cy.telemetry.node_pages import Pages

LOGGER = logging.getLogger("broker_cy.server.metrics")

CONNECTIONS_MAX = 32
REQUEST_S = 5.0
IDLE_S = 60.0
HANDSHAKES_PER_S = 200
READ_BYTES = 65_536
TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
# Smaller pages are sent uncompressed.
GZIP_BYTES_MIN = 4_096

Answer = tuple[int, str, bytes]
AUTHENTICATE = ("WWW-Authenticate", 'Bearer realm="metrics"')
BACKLOG = 16
T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Peer:
    """A connection. `waits_since` is the loop's time at which it began to wait for its peer, None while it does not."""

    task: asyncio.Task[None]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    host: str
    waits_since: float | None


class MetricsServer:
    """Serves `page()` at /metrics, `missing()`, which prevents the broker from being ready, at /readyz, and
    `pages` at /share-groups and /mirrors.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        bound: socket.socket,
        page: Callable[[frozenset[str] | None], Awaitable[bytes]],
        missing: Callable[[], list[str]],
        access: MetricsAccess | None = None,
        pages: Pages | None = None,
    ) -> None:
        self._loop = loop
        self._pages = pages
        self._access = access
        # Connections in their TLS handshake, the oldest one first, and their sockets.
        self._handshakes: dict[asyncio.Task[None], socket.socket] = {}
        self._socket = bound
        self._page = page
        self._missing = missing
        self._server: asyncio.Server | None = None
        self._peers: set[_Peer] = set()
        self._starting: asyncio.Task[None] | None = None
        host, port = bound.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        scheme = "http" if access is None or access.context is None else "https"
        self.url = f"{scheme}://{self.address}/metrics"

    @classmethod
    def bind(
        cls,
        loop: asyncio.AbstractEventLoop,
        host: str,
        port: int,
        page: Callable[[frozenset[str] | None], Awaitable[bytes]],
        missing: Callable[[], list[str]],
        access: MetricsAccess | None = None,
        pages: Pages | None = None,
    ) -> MetricsServer:
        """Listen on an address, without accepting yet. Raises ListenError."""
        bound = open_socket("brokercy.metrics.listener", host, port, BACKLOG)
        return cls(loop, bound, page, missing, access, pages)

    def start(self) -> None:
        """Accept from now on."""
        self._starting = self._loop.create_task(self._listen())

    async def _listen(self) -> None:
        if self._access is not None and self._access.context is not None:
            await self._accept_tls(self._access)
        else:
            self._server = await asyncio.start_server(self._accept, sock=self._socket)

    async def stop(self) -> None:
        """Stop accepting connections, and close the open ones."""
        if self._starting is not None:
            if self._access is not None and self._access.context is not None:
                self._starting.cancel()
            await asyncio.wait([self._starting])
        if self._server is not None:
            self._server.close()
        else:
            self._socket.close()
        tasks = [*self._handshakes, *(peer.task for peer in self._peers)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._peers) >= CONNECTIONS_MAX and not self._make_room():
            writer.close()
            return
        host = writer.get_extra_info("peername")[0]
        peer = _Peer(task, reader, writer, host, self._loop.time())
        self._peers.add(peer)
        try:
            await self._serve(peer)
        except (OSError, h11.RemoteProtocolError, TimeoutError):
            pass  # the peer closed the connection, is too slow, or does not speak HTTP
        except Exception:
            LOGGER.exception("serving metrics failed")
        finally:
            self._peers.discard(peer)
            writer.close()

    def _make_room(self) -> bool:
        """Close a connection that waits for its peer, if any; return whether one was closed."""
        waiting = [(peer.waits_since, peer) for peer in self._peers if peer.waits_since is not None]
        if not waiting:
            return False
        by_host = Counter(peer.host for peer in self._peers)
        _, longest = min(waiting, key=lambda entry: (-by_host[entry[1].host], entry[0]))
        self._peers.discard(longest)
        longest.writer.transport.abort()
        longest.task.cancel()
        return True

    # ---- TLS ----

    async def _accept_tls(self, access: MetricsAccess) -> None:
        """Accept connections, and begin their handshakes with the current files, until it is cancelled."""
        while True:
            try:
                accepted, _ = await self._loop.sock_accept(self._socket)
            except OSError as error:
                LOGGER.warning("accepting a connection to the metrics listener failed: %s", error)
                await asyncio.sleep(1 / HANDSHAKES_PER_S)
                continue
            access.refresh()
            assert access.context is not None
            if len(self._handshakes) >= CONNECTIONS_MAX:
                self._end_handshake(next(iter(self._handshakes)))
            task = self._loop.create_task(self._shake_hands(accepted, access.context))
            self._handshakes[task] = accepted
            task.add_done_callback(self._end_handshake)
            await asyncio.sleep(1 / HANDSHAKES_PER_S)

    async def _shake_hands(self, accepted: socket.socket, context: ssl.SSLContext) -> None:
        def protocol() -> asyncio.StreamReaderProtocol:
            return asyncio.StreamReaderProtocol(asyncio.StreamReader(), self._accept)

        # A client that does not speak TLS, or closes, gets no answer.
        with suppress(OSError, TimeoutError):
            await self._loop.connect_accepted_socket(protocol, accepted, ssl=context, ssl_handshake_timeout=REQUEST_S)

    def _end_handshake(self, task: asyncio.Task[None]) -> None:
        accepted = self._handshakes.pop(task, None)
        if accepted is not None and not task.done():
            # Its transport sees the end, and closes the socket.
            with suppress(OSError):
                accepted.shutdown(socket.SHUT_RDWR)

    # ---- requests ----

    async def _serve(self, peer: _Peer) -> None:
        http = h11.Connection(h11.SERVER)
        # A fresh connection has no reason to wait with its request.
        deadline = self._loop.time() + REQUEST_S
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                data = await self._wait(peer, peer.reader.read(READ_BYTES), deadline)
                if http.their_state is h11.IDLE and not http.trailing_data[0]:
                    deadline = self._loop.time() + REQUEST_S
                http.receive_data(data)
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.EndOfMessage):
                await self._answer(http, peer, request)
                if http.our_state is h11.MUST_CLOSE:
                    return
                http.start_next_cycle()
                peer.waits_since = self._loop.time()
                deadline = self._loop.time() + (REQUEST_S if http.trailing_data[0] else IDLE_S)
            elif not isinstance(event, h11.Data):
                return

    async def _wait(self, peer: _Peer, what: Coroutine[Any, Any, T], deadline: float) -> T:
        """Wait for the peer until `deadline`, on the loop's clock. Raises TimeoutError."""
        if peer.waits_since is None:
            peer.waits_since = self._loop.time()
        async with asyncio.timeout_at(deadline):
            return await what

    async def _answer(self, http: h11.Connection, peer: _Peer, request: h11.Request) -> None:
        peer.waits_since = None
        writer = peer.writer
        received = dict(request.headers)
        is_trusted = self._is_trusted(received.get(b"authorization"))
        status, content_type, body = await self.respond(request.method.decode(), request.target.decode(), is_trusted)
        headers = [("Content-Type", content_type), ("Connection", "keep-alive")]
        accepted = received.get(b"accept-encoding", b"")
        if len(body) >= GZIP_BYTES_MIN and b"gzip" in accepted:
            body = await self._loop.run_in_executor(None, lambda: gzip.compress(body, 1, mtime=0))
            headers.append(("Content-Encoding", "gzip"))
        headers.append(("Content-Length", str(len(body))))
        if status == 405:
            headers.append(("Allow", "GET, HEAD"))
        if status == 401:
            headers.append(AUTHENTICATE)
        writer.write(http.send(h11.Response(status_code=status, headers=headers)) or b"")
        if request.method != b"HEAD":
            writer.write(http.send(h11.Data(data=body)) or b"")
        writer.write(http.send(h11.EndOfMessage()) or b"")
        await self._wait(peer, writer.drain(), self._loop.time() + IDLE_S)

    def _is_trusted(self, authorization: bytes | None) -> bool:
        if self._access is None:
            return True
        self._access.refresh()
        return self._access.allows(None if authorization is None else authorization.decode("latin-1"))

    async def respond(self, method: str, target: str, is_trusted: bool = True) -> Answer:
        """(status, content type, body) of a request."""
        if method not in ("GET", "HEAD"):
            return 405, TEXT, f"{method} is not supported; use GET or HEAD\n".encode()
        path, _, query = target.partition("?")
        if path in ("/metrics", "/share-groups", "/mirrors") and not is_trusted:
            return 401, TEXT, b"a token of brokercy.metrics.token.file is needed (Authorization: Bearer TOKEN)\n"
        if path == "/mirrors" and self._pages is not None:
            return 200, JSON, await self._pages.mirrors()
        if path == "/share-groups" and self._pages is not None:
            groups = parse_qs(query, keep_blank_values=True).get("group", ())
            if len(groups) != 1:
                return 400, TEXT, b"name one share group: /share-groups?group=NAME\n"
            return 200, JSON, await self._pages.share_group(groups[0])
        if path == "/metrics":
            topics = parse_qs(query, keep_blank_values=True).get("topic")
            return 200, CONTENT_TYPE, await self._page(None if topics is None else frozenset(topics))
        if path == "/healthz":
            return 200, TEXT, b"ok\n"
        if path == "/readyz":
            missing = self._missing()
            if missing and not is_trusted:
                return 503, TEXT, b"not ready\n"
            return (503, TEXT, "".join(f"{each}\n" for each in missing).encode()) if missing else (200, TEXT, b"ok\n")
        more = "" if self._pages is None else ", /share-groups, /mirrors"
        return 404, TEXT, f"not found; the pages are /metrics{more}, /healthz and /readyz\n".encode()
