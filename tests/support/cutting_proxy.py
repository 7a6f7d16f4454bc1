"""A TCP proxy on loopback that cuts connections on command, in the middle of a transfer."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine
from typing import Any

_CHUNK_BYTES = 65_536


class CuttingProxy:
    """Forwards bytes between clients and `upstream`; rules determine when a connection is cut.

    Clients that learn the broker's address from metadata would bypass a proxy, so the broker must advertise the proxy's
    address (`advertised.listeners`): take the port first, start the broker, then call `connect_to`.

    `cut_requests_after(n)`: once, the connection that carries the n-th byte to the broker: a request is torn in the
    middle. `cut_answers_after(n)`: once, the connection that carries the n-th byte back: the broker executed the
    request, and the client never receives the response. `cut_now()`: every open connection.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cutting-proxy", daemon=True)
        self._thread.start()
        self._upstream: tuple[str, int] | None = None
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._request_bytes_left: int | None = None
        self._answer_bytes_left: int | None = None
        self.cuts = 0
        self._server = self._call(self._listen())
        self.port: int = self._server.sockets[0].getsockname()[1]

    def _call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0)

    def connect_to(self, host: str, port: int) -> None:
        self._upstream = (host, port)

    def cut_requests_after(self, count: int) -> None:
        """Cut the connection that carries the `count`-th byte to the broker from now on; once."""
        self._request_bytes_left = count

    def cut_answers_after(self, count: int) -> None:
        """Cut the connection that carries the `count`-th byte from the broker from now on; once."""
        self._answer_bytes_left = count

    def cut_now(self) -> None:
        async def cut() -> None:
            for pair in list(self._pairs):
                self._cut(pair)

        self._call(cut())

    def close(self) -> None:
        async def end() -> None:
            self._server.close()
            for pair in list(self._pairs):
                self._cut(pair)
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self._call(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def _cut(self, pair: tuple[asyncio.StreamWriter, asyncio.StreamWriter]) -> None:
        self._pairs.discard(pair)
        for writer in pair:
            sock = writer.get_extra_info("socket")
            if sock is not None:
                # A reset, not a clean close: as when a cable is pulled or a host crashes.
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self._upstream is not None
        try:
            up_reader, up_writer = await asyncio.open_connection(*self._upstream)
        except OSError:
            writer.transport.abort()
            return
        pair = (writer, up_writer)
        self._pairs.add(pair)
        await asyncio.gather(
            self._pump(reader, up_writer, pair, "_request_bytes_left"),
            self._pump(up_reader, writer, pair, "_answer_bytes_left"),
        )
        self._pairs.discard(pair)

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        pair: tuple[asyncio.StreamWriter, asyncio.StreamWriter],
        budget: str,
    ) -> None:
        try:
            while data := await source.read(_CHUNK_BYTES):
                left: int | None = getattr(self, budget)
                if left is not None:
                    if len(data) >= left:
                        setattr(self, budget, None)
                        sink.write(data[:left])
                        with contextlib.suppress(OSError):
                            await sink.drain()
                        self.cuts += 1
                        self._cut(pair)
                        return
                    setattr(self, budget, left - len(data))
                sink.write(data)
                await sink.drain()
        except (OSError, ConnectionError):
            pass
        finally:
            # A clean close on one side is passed on to the other.
            with contextlib.suppress(OSError):
                sink.close()
