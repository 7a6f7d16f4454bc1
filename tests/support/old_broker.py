"""A proxy that makes a broker look old, slow or unresponsive to its clients; it runs in the test's event loop.

The broker behind it must advertise the proxy's port, or clients would bypass it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from types import TracebackType

from broker_cy.wire import codec, frame, messages
from broker_cy.wire.api_keys import ApiKey

_SIZE = struct.Struct(">i")
_UNSUPPORTED_VERSION = 35


class OldBroker:
    """Offers only versions `{api key: (low, high)}` and ApiVersions 0, and forwards every other request.

    While `silent` is set, requests are read and never answered. `seen` counts requests by (api key, version). Set
    `upstream`, the broker's address, before it is entered; `close` is needed if it never was.
    """

    def __init__(self, versions: dict[int, tuple[int, int]]) -> None:
        # Bound from now on, so that no other program takes the port while the broker starts.
        self._bound = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._bound.getsockname()[1]
        self.upstream = ("", 0)
        self.versions = {**versions, int(ApiKey.API_VERSIONS): (0, 0)}
        self.silent = False
        self.seen: dict[tuple[int, int], int] = {}
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> OldBroker:
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

    def close(self) -> None:
        """Release the port."""
        self._bound.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        up_reader: asyncio.StreamReader | None = None
        up_writer: asyncio.StreamWriter | None = None
        try:
            while True:
                request = await _read_frame(reader)
                api_key, version, correlation_id, _, _ = frame.parse_request_header(request)
                self.seen[api_key, version] = self.seen.get((api_key, version), 0) + 1
                if self.silent:
                    continue
                if api_key == ApiKey.API_VERSIONS:
                    writer.write(_framed(struct.pack(">i", correlation_id) + self._offer(version)))
                    continue
                low, high = self.versions.get(api_key, (0, -1))
                assert low <= version <= high, f"{ApiKey(api_key).name} {version} was not offered"
                if up_writer is None or up_reader is None:
                    up_reader, up_writer = await asyncio.open_connection(*self.upstream)
                up_writer.write(_framed(request))
                writer.write(_framed(await _read_frame(up_reader)))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            for each in (writer, up_writer):
                if each is not None:
                    each.transport.abort()
                    with contextlib.suppress(OSError):
                        await each.wait_closed()

    def _offer(self, version: int) -> bytes:
        """The response of a broker that knows only version 0, also to requests of another version."""
        ranges = [
            messages.ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in sorted(self.versions.items())
        ]
        error_code = 0 if version == 0 else _UNSUPPORTED_VERSION
        return codec.encode(messages.ApiVersionsResponse(error_code=error_code, api_keys=ranges), 0)


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = _SIZE.unpack(await reader.readexactly(4))
    return await reader.readexactly(size)


def _framed(data: bytes) -> bytes:
    return _SIZE.pack(len(data)) + data
