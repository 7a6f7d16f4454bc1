"""What outgoing connections need of the machine, handed in by whoever makes them: consoles take MACHINE, brokers what
they were given (server.seams).

Deadlines are on the time of the running loop, which whoever runs the loop controls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from broker_cy.core.clock import MACHINE_CLOCK, Clock


@dataclass(frozen=True, slots=True)
class Outgoing:
    """`connect(protocol, host, port)` connects to an address, of which the protocol gets a transport, and raises
    OSError if that fails; `clock` measures how long a computation has kept the loop.
    """

    connect: Callable[[asyncio.BufferedProtocol, str, int], Awaitable[None]]
    clock: Clock


async def connect(protocol: asyncio.BufferedProtocol, host: str, port: int) -> None:
    """Connect by TCP. Raises OSError."""
    await asyncio.get_running_loop().create_connection(lambda: protocol, host, port)


MACHINE: Final = Outgoing(connect, MACHINE_CLOCK)
