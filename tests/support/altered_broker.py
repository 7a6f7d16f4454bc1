"""A proxy that alters the responses of a real broker, for states that one broker alone cannot be in.

It runs in the test's event loop. The broker behind it must advertise the proxy's port, or clients would bypass it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from types import TracebackType
from typing import Any

from broker_cy.wire import codec, frame, messages
from broker_cy.wire.api_keys import ApiKey

_SIZE = struct.Struct(">i")
Alter = Callable[[Any], None]


class AlteredBroker:
    """Forwards requests. `alter` maps an API to a function that alters each response, as long as it is set; `answers`
    has functions that answer requests of APIs that the broker does not offer. Set `upstream`, the broker's address,
    before it is entered; `close` is needed if it never was.
    """

    def __init__(self) -> None:
        # Bound from now on, so that no other program takes the port while the broker starts.
        self._bound = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._bound.getsockname()[1]
        self.upstream = ("", 0)
        self.alter: dict[ApiKey, Alter] = {}
        self.answers: dict[ApiKey, Callable[[], Any]] = {}
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.errors: list[Exception] = []

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> AlteredBroker:
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
        up_writer: asyncio.StreamWriter | None = None
        try:
            up_reader, up_writer = await asyncio.open_connection(*self.upstream)
            while True:
                request = await _read_frame(reader)
                api_key, version, correlation_id, *_ = frame.parse_request_header(request)
                api = ApiKey(api_key)
                if api in self.answers:
                    tags = bytes(frame.response_header_version(api, version))
                    body = codec.encode(self.answers[api](), version)
                    writer.write(_framed(_SIZE.pack(correlation_id) + tags + body))
                    continue
                up_writer.write(_framed(request))
                writer.write(_framed(self._altered(api, version, await _read_frame(up_reader))))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        except Exception as error:
            self.errors.append(error)
        finally:
            for each in (writer, up_writer):
                if each is not None:
                    each.transport.abort()
                    with contextlib.suppress(OSError):
                        await each.wait_closed()

    def _altered(self, api: ApiKey, version: int, answer: bytes) -> bytes:
        alter = self._offer if api is ApiKey.API_VERSIONS else self.alter.get(api)
        if alter is None:
            return answer
        # The correlation id, and the byte of tagged fields if the header has one.
        header = 4 + frame.response_header_version(api, version)
        message = codec.decode(frame.response_class(api), version, answer[header:])
        alter(message)
        return answer[:header] + codec.encode(message, version)

    def _offer(self, message: Any) -> None:
        """Offer the APIs that are answered here, too."""
        for api in self.answers:
            low, high = frame.api_versions(api)
            message.api_keys.append(
                messages.ApiVersionsResponse.ApiVersion(api_key=int(api), min_version=low, max_version=high)
            )


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = _SIZE.unpack(await reader.readexactly(4))
    return await reader.readexactly(size)


def _framed(data: bytes) -> bytes:
    return _SIZE.pack(len(data)) + data
