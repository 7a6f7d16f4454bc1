"""One connection to a broker that breaks."""

from __future__ import annotations

import asyncio
import gc

import pytest

from broker_cy.client.address import Address
from broker_cy.client.answer_reader import AnswerReader
from broker_cy.client.connection import ConnectionFailed, open_connection
from broker_cy.client.deadline import Deadline
from broker_cy.client.outgoing import Outgoing, Streams
from broker_cy.core.clock import MACHINE_CLOCK
from broker_cy.wire.api_keys import ApiKey


class Broken(asyncio.StreamWriter):
    """The connection breaks as soon as something was sent."""

    async def drain(self) -> None:
        raise ConnectionResetError("Connection lost")


async def connect(host: str, port: int) -> Streams:
    loop = asyncio.get_running_loop()
    reader = AnswerReader(1 << 16, loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport, _ = await loop.create_connection(lambda: protocol, host, port)
    return reader, Broken(transport, protocol, reader, loop)


def test_a_connection_that_breaks_while_a_request_is_sent() -> None:
    """If this fails, the log of a broker shows an error with a traceback for such a connection, beside its cause."""
    reported: list[object] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context))
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
        connection = await open_connection(address, "test", Deadline(30), Outgoing(connect, MACHINE_CLOCK))
        with pytest.raises(ConnectionFailed, match="Connection lost"):
            await connection.exchange(ApiKey.METADATA, 1, b"", Deadline(30))
        await connection.wait_closed()
        server.close()
        # A future whose error nobody has read reports it when it is collected.
        gc.collect()

    asyncio.run(scenario())
    assert reported == []
