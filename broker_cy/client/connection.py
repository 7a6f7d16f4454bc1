"""One TCP connection to a broker. Requests are pipelined; answers come in the order of their requests, as Kafka sends
them.
"""

from __future__ import annotations

import asyncio
import contextlib

from broker_cy.client.address import Address
from broker_cy.client.answer_reader import AnswerReader
from broker_cy.client.deadline import Deadline
from broker_cy.client.exchange import SIZE_BYTES, Exchange, ExchangeError
from broker_cy.client.outgoing import Outgoing

# Requests of one connection that have no answer yet; further ones wait for their turn. A broker reads no further
# request of a connection while it processes one, so that more depth gains little, and requests that wait here can still
# be cancelled.
IN_FLIGHT_MAX = 8


class ConnectionFailed(Exception):
    """The connection could not be made or broke; the text says why. `sent`: whether the request may have arrived."""

    def __init__(self, reason: str, *, sent: bool = False) -> None:
        super().__init__(reason)
        self.sent = sent


class ConnectionRefused(ConnectionFailed):
    """No process listens at the address. A name with several addresses may fail as ConnectionFailed instead."""


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

    def __init__(self, reader: AnswerReader, writer: asyncio.StreamWriter, client_id: str) -> None:
        self._reader = reader
        self._writer = writer
        self._exchange: Exchange[asyncio.Future[memoryview]] = Exchange(client_id)
        self._free = asyncio.Semaphore(IN_FLIGHT_MAX)
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
                try:
                    await self._writer.drain()
                    return await answer
                finally:
                    # Nobody else waits for it: an error that it got later would be reported as one that was ignored.
                    answer.cancel()
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
        answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        try:
            self._write(api_key, version, body, answer)
        except BaseException:
            self._free.release()
            raise
        return answer

    def _write(self, api_key: int, version: int, body: bytes, answer: asyncio.Future[memoryview] | None = None) -> None:
        if self.closed is not None:
            raise ConnectionFailed(self.closed)
        # Two writes where the body is large: joining them would copy it.
        self._writer.writelines((self._exchange.head(api_key, version, len(body), answer), body))

    async def _read_answers(self) -> None:
        exchange = self._exchange
        try:
            while True:
                size = exchange.answer_bytes(await self._reader.read_exactly(SIZE_BYTES))
                data = await self._reader.read_exactly(size)
                answer, body = exchange.take(memoryview(data))
                self._free.release()
                if not answer.done():
                    answer.set_result(body)
        except ExchangeError as error:
            self.close(str(error))
        except asyncio.IncompleteReadError:
            self.close("the broker closed the connection")
        except OSError as error:
            self.close(reason_of(error))

    def close(self, reason: str = "closed by the client") -> None:
        """Drop the connection; waiting requests fail with ConnectionFailed and `reason`."""
        if self.closed is not None:
            return
        self.closed = reason
        self._writer.transport.abort()
        for answer in self._exchange.abandon():
            self._free.release()
            if not answer.done():
                answer.set_exception(ConnectionFailed(reason, sent=True))
        if self._task is not asyncio.current_task():
            self._task.cancel()

    async def ended(self, timeout_s: float | None = None) -> None:
        """Wait until the connection is closed by either side, `timeout_s` at most."""
        await asyncio.wait((self._task,), timeout=timeout_s)

    @property
    def is_local(self) -> bool:
        """Whether this host is at both ends."""
        own, other = (self._writer.get_extra_info(name) for name in ("sockname", "peername"))
        return bool(own and other and own[0] == other[0])

    async def wait_closed(self) -> None:
        """Wait until the socket and the reading task are closed, after `close`."""
        with contextlib.suppress(asyncio.CancelledError, OSError):
            await self._task
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


async def open_connection(address: Address, client_id: str, deadline: Deadline, outgoing: Outgoing) -> Connection:
    """Open a connection to `address`. Raises ConnectionFailed and TimedOut."""
    try:
        async with asyncio.timeout_at(deadline.at):
            reader, writer = await outgoing.connect(address.host, address.port)
    except TimeoutError:
        raise TimedOut(sent=False) from None
    except OSError as error:
        # One name can have several addresses: asyncio joins their errors.
        kind = ConnectionRefused if isinstance(error, ConnectionRefusedError) else ConnectionFailed
        raise kind(reason_of(error)) from None
    return Connection(reader, writer, client_id)
