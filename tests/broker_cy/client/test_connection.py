"""One connection to a broker that breaks, and whose requests wait for their turn."""

from __future__ import annotations

import asyncio
import gc
import struct

import pytest

from broker_cy.client.address import Address
from broker_cy.client.connection import IN_FLIGHT_MAX, Connection, ConnectionFailed, open_connection
from broker_cy.client.deadline import Deadline
from broker_cy.client.outgoing import Outgoing
from broker_cy.core.clock import MACHINE_CLOCK
from broker_cy.wire.api_keys import ApiKey


class Peer(asyncio.Transport):
    """The transport of a connection, and the broker behind it: answers come when the test says so."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.connection = connection
        self.requests: list[bytes] = []
        self.breaks = False  # as soon as something is sent
        self.is_aborted = False
        connection.connection_made(self)

    def is_closing(self) -> bool:
        return self.is_aborted

    def writelines(self, list_of_data: object) -> None:
        assert isinstance(list_of_data, tuple)
        self.requests.append(b"".join(list_of_data))
        if self.breaks:
            self.connection.connection_lost(ConnectionResetError(104, "Connection reset by peer"))

    def abort(self) -> None:
        self.is_aborted = True
        asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)

    def answer(self, number: int, body: bytes) -> None:
        correlation_id = self.requests[number][8:12]
        frame = struct.pack(">i", 4 + len(body)) + correlation_id + body
        self.connection.get_buffer(len(frame))[: len(frame)] = frame
        self.connection.buffer_updated(len(frame))


async def connected() -> tuple[Connection, Peer]:
    made: list[Peer] = []

    async def connect(protocol: asyncio.BufferedProtocol, host: str, port: int) -> None:
        assert isinstance(protocol, Connection)
        made.append(Peer(protocol))

    connection = await open_connection(Address("b", 1), "test", Deadline(30), Outgoing(connect, MACHINE_CLOCK))
    return connection, made[0]


def test_a_connection_that_breaks_while_a_request_is_sent() -> None:
    """If this fails, the log of a broker shows an error with a traceback for such a connection, beside its cause."""
    reported: list[object] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        connection, peer = await connected()
        peer.breaks = True
        with pytest.raises(ConnectionFailed, match="connection reset by peer"):
            await connection.exchange(ApiKey.METADATA, 1, b"", Deadline(30))
        with pytest.raises(ConnectionFailed, match="connection reset by peer"):
            await connection.send_only(ApiKey.PRODUCE, 3, b"", Deadline(30))
        await connection.ended()
        await connection.wait_closed()
        # A future reports an exception that was never retrieved when the garbage collector frees it.
        gc.collect()

    asyncio.run(scenario())
    assert reported == []


def test_requests_wait_for_their_turn_and_can_be_cancelled_meanwhile() -> None:
    """If this fails, a cancelled caller also loses the turn of the next caller, which then waits forever."""

    async def scenario() -> None:
        connection, peer = await connected()
        asked = [
            asyncio.create_task(connection.exchange(ApiKey.METADATA, 1, b"%d" % number, Deadline(30)))
            for number in range(IN_FLIGHT_MAX + 3)
        ]
        await asyncio.sleep(0)
        assert len(peer.requests) == IN_FLIGHT_MAX
        first, second, third = asked[IN_FLIGHT_MAX:]
        first.cancel()
        await asyncio.wait((first,))
        peer.answer(0, b"zero")
        second.cancel()  # it has just got its turn
        await asyncio.wait((second,))
        await asyncio.sleep(0)
        assert len(peer.requests) == IN_FLIGHT_MAX + 1
        assert peer.requests[-1].endswith(b"%d" % (IN_FLIGHT_MAX + 2))
        for number in range(1, IN_FLIGHT_MAX + 1):
            peer.answer(number, b"%d" % number)
        assert bytes(await asked[0]) == b"zero"
        assert bytes(await third) == b"%d" % IN_FLIGHT_MAX
        assert connection.closed is None

    asyncio.run(scenario())


def test_all_that_wait_learn_of_the_end() -> None:
    """If this fails, requests that wait for their turn wait until their own timeouts."""

    async def scenario() -> None:
        connection, peer = await connected()
        asked = [
            asyncio.create_task(connection.exchange(ApiKey.METADATA, 1, b"", Deadline(30)))
            for _ in range(IN_FLIGHT_MAX + 2)
        ]
        await asyncio.sleep(0)
        assert not connection.eof_received()
        for each in asked:
            with pytest.raises(ConnectionFailed, match="the broker closed the connection"):
                await each
        assert peer.is_aborted

    asyncio.run(scenario())
