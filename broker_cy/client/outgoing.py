"""What outgoing connections need of the machine, handed in by whoever makes them: consoles take MACHINE, brokers what
they were given (server.seams).

Deadlines are on the time of the running loop, which whoever runs the loop controls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from broker_cy.client.answer_reader import AnswerReader
from broker_cy.core.clock import MACHINE_CLOCK, Clock

# Bytes that the stream buffers before it stops reading the socket.
STREAM_LIMIT_BYTES: Final = 1 << 20

Streams: TypeAlias = tuple[AnswerReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """`connect(host, port)` connects to an address, and raises OSError if that fails; `clock` measures how long a
    computation has kept the loop.
    """

    connect: Callable[[str, int], Awaitable[Streams]]
    clock: Clock


async def connect(host: str, port: int) -> Streams:
    """Connect by TCP. Raises OSError."""
    loop = asyncio.get_running_loop()
    reader = AnswerReader(STREAM_LIMIT_BYTES, loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport, _ = await loop.create_connection(lambda: protocol, host, port)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


MACHINE: Final = Outgoing(connect, MACHINE_CLOCK)
