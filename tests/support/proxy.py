"""A proxy for a broker that parses the requests; it runs in the test's event loop.

The broker behind it must advertise the proxy's port, or clients would bypass it: see `behind`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from pathlib import Path
from types import TracebackType
from typing import Self

from broker_cy.wire import frame
from tests.support.broker import QUICK, BrokerProcess

_SIZE = struct.Struct(">i")


class Upstream:
    """The connection to the broker for one client connection; opened by the first request."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def forward(self, request: bytes) -> bytes:
        """Return the broker's response to a request; both are without their size."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address)
        reader, writer = self._streams
        writer.write(_framed(request))
        return await _read_frame(reader)

    async def close(self) -> None:
        if self._streams is not None:
            await _abort(self._streams[1])


class Proxy:
    """Answers each request with what `answer` returns. Start the broker with `behind` before entering the proxy's
    context; call `close` if the context is never entered.
    """

    def __init__(self) -> None:
        # Bound from now on, so that no other program takes the port while the broker starts.
        self._bound = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._bound.getsockname()[1]
        self.upstream = ("", 0)
        # Exceptions of `answer`; the proxy's exit fails if any occurred.
        self.errors: list[Exception] = []
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def answer(self, api_key: int, version: int, request: bytes, upstream: Upstream) -> bytes | None:
        """Return the response to a request, or None for no response; both are without their size."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, sock=self._bound)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        assert self.errors == []

    def close(self) -> None:
        """Release the port."""
        self._bound.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        upstream = Upstream(self.upstream)
        try:
            while True:
                request = await _read_frame(reader)
                api_key, version, *_ = frame.parse_request_header(request)
                response = await self.answer(api_key, version, request, upstream)
                if response is not None:
                    writer.write(_framed(response))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        except Exception as error:
            self.errors.append(error)
        finally:
            await _abort(writer)
            await upstream.close()


def behind(proxy: Proxy, directory: Path) -> BrokerProcess:
    """Start a broker that advertises the address of the proxy."""
    settings = {**QUICK, "advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}
    try:
        broker = BrokerProcess(directory, settings).start()
    except BaseException:
        proxy.close()
        raise
    proxy.upstream = (broker.host, broker.port)
    return broker


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = _SIZE.unpack(await reader.readexactly(4))
    return await reader.readexactly(size)


def _framed(data: bytes) -> bytes:
    return _SIZE.pack(len(data)) + data


async def _abort(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
