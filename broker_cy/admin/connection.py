"""One TCP connection to a broker. Requests are pipelined; answers come in the order of their requests, as Kafka sends
them.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections import deque

from broker_cy.admin.address import Address
from broker_cy.admin.deadline import Deadline
from broker_cy.wire import frame

# Requests of one connection that have no answer yet; further ones wait for their turn. A broker reads no further
# request of a connection while it processes one, so that more depth gains little, and requests that wait here can still
# be cancelled.
IN_FLIGHT_MAX = 8
# A larger size cannot be that of an answer. Fetch answers stay below fetch limits plus one batch; the largest
# others, the offsets of thousands of groups, are asked for in pieces.
ANSWER_BYTES_MAX = 256 << 20
# Bytes that the stream buffers before it stops reading the socket.
STREAM_LIMIT_BYTES = 1 << 20

_HEADER = struct.Struct(">hhih")
_SIZE = struct.Struct(">i")
_CORRELATION_ID_MASK = 0x7FFFFFFF


class ConnectionFailed(Exception):
    """The connection could not be made or broke; the text says why. `sent`: whether the request may have arrived."""

    def __init__(self, reason: str, *, sent: bool = False) -> None:
        super().__init__(reason)
        self.sent = sent


class TimedOut(Exception):
    """No answer before the deadline. `sent`: whether the request may have arrived."""

    def __init__(self, *, sent: bool) -> None:
        super().__init__()
        self.sent = sent


def reason_of(error: OSError) -> str:
    """Return the reason given by the operating system, in a few words."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused: no process listens there"
    if error.strerror:
        return error.strerror[0].lower() + error.strerror[1:]
    return str(error) or type(error).__name__


class Connection:
    """Created by `open_connection`; used by any number of tasks of one loop. It is never reopened."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str) -> None:
        self._reader = reader
        self._writer = writer
        self._client_id = client_id.encode()
        self._correlation_id = 0
        self._free = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._waiting: deque[tuple[int, bool, asyncio.Future[memoryview]]] = deque()
        self.closed: str | None = None
        self._task = asyncio.create_task(self._read_answers())

    async def exchange(self, api_key: int, version: int, body: bytes, deadline: Deadline) -> memoryview:
        """Send a request and wait for the body of its answer, which follows the header.

        Raises ConnectionFailed and TimedOut. A connection with an overdue answer is closed: the next requests would
        wait behind it. Cancelling a task that waits does not affect the connection.
        """
        sent = False
        try:
            async with asyncio.timeout_at(deadline.at):
                await self._free.acquire()
                answer = self._send(api_key, version, body)
                sent = True
                await self._writer.drain()
                return await answer
        except TimeoutError:
            if sent:
                self.close("an answer did not arrive in time")
            raise TimedOut(sent=sent) from None
        except OSError as error:
            self.close(reason_of(error))
            raise ConnectionFailed(reason_of(error), sent=sent) from None

    async def send_only(self, api_key: int, version: int, body: bytes, deadline: Deadline) -> None:
        """Send a request that has no answer (Produce with acks=0). Raises as `exchange`."""
        try:
            async with asyncio.timeout_at(deadline.at):
                self._write(api_key, version, body)
                await self._writer.drain()
        except TimeoutError:
            raise TimedOut(sent=True) from None
        except OSError as error:
            self.close(reason_of(error))
            raise ConnectionFailed(reason_of(error), sent=True) from None

    def _send(self, api_key: int, version: int, body: bytes) -> asyncio.Future[memoryview]:
        """Write the request. The caller's slot is released when the answer arrives or the connection ends."""
        try:
            correlation_id = self._write(api_key, version, body)
        except BaseException:
            self._free.release()
            raise
        answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._waiting.append((correlation_id, frame.response_header_version(api_key, version) == 1, answer))
        return answer

    def _write(self, api_key: int, version: int, body: bytes) -> int:
        if self.closed is not None:
            raise ConnectionFailed(self.closed)
        correlation_id = self._correlation_id
        self._correlation_id = (correlation_id + 1) & _CORRELATION_ID_MASK
        header = _HEADER.pack(api_key, version, correlation_id, len(self._client_id)) + self._client_id
        if frame.request_header_version(api_key, version) == 2:
            header += b"\0"
        # Two writes where the body is large: joining them would copy it.
        size = _SIZE.pack(len(header) + len(body))
        self._writer.writelines((size, header, body))
        return correlation_id

    async def _read_answers(self) -> None:
        try:
            while True:
                (size,) = _SIZE.unpack(await self._reader.readexactly(_SIZE.size))
                if not 4 <= size <= ANSWER_BYTES_MAX:
                    return self.close(f"the broker sent a frame of {size} bytes: is this a Kafka listener without TLS?")
                data = await self._reader.readexactly(size)
                if not self._waiting:
                    return self.close("the broker sent an answer without a request")
                correlation_id, flexible, answer = self._waiting.popleft()
                self._free.release()
                if int.from_bytes(data[:4], "big") != correlation_id:
                    return self._fail(answer, "the broker sent an answer to another request")
                # No broker sends a tag in a header yet, and this client could not decode one.
                if flexible and (size < 5 or data[4]):
                    return self._fail(answer, "the broker sent an answer with an unknown header")
                if not answer.done():
                    answer.set_result(memoryview(data)[5 if flexible else 4 :])
        except asyncio.IncompleteReadError:
            self.close("the broker closed the connection")
        except OSError as error:
            self.close(reason_of(error))

    def _fail(self, answer: asyncio.Future[memoryview], reason: str) -> None:
        if not answer.done():
            answer.set_exception(ConnectionFailed(reason, sent=True))
        self.close(reason)

    def close(self, reason: str = "closed by the client") -> None:
        """Drop the connection; waiting requests fail with ConnectionFailed and `reason`."""
        if self.closed is not None:
            return
        self.closed = reason
        self._writer.transport.abort()
        while self._waiting:
            answer = self._waiting.popleft()[2]
            self._free.release()
            if not answer.done():
                answer.set_exception(ConnectionFailed(reason, sent=True))
        if self._task is not asyncio.current_task():
            self._task.cancel()

    async def wait_closed(self) -> None:
        """Wait until the socket and the reading task are closed, after `close`."""
        with contextlib.suppress(asyncio.CancelledError, OSError):
            await self._task
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


async def open_connection(address: Address, client_id: str, deadline: Deadline) -> Connection:
    """Open a connection to `address`. Raises ConnectionFailed and TimedOut."""
    try:
        async with asyncio.timeout_at(deadline.at):
            reader, writer = await asyncio.open_connection(address.host, address.port, limit=STREAM_LIMIT_BYTES)
    except TimeoutError:
        raise TimedOut(sent=False) from None
    except OSError as error:
        # One name can have several addresses: asyncio joins their errors.
        raise ConnectionFailed(reason_of(error)) from None
    return Connection(reader, writer, client_id)
