"""The parts of the machine that outgoing connections need, passed in by their creator: consoles pass MACHINE, brokers
pass their own seams (network.seams).

Deadlines use the time of the running loop, which its owner controls.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from broker_cy.client.login import ClientLogin
from broker_cy.core.classes import dataclass
from broker_cy.core.clock import MACHINE_CLOCK, Clock

if TYPE_CHECKING:
    import ssl

# The timeout of a TLS handshake: Kafka's clients wait as long for a connection.
HANDSHAKE_TIMEOUT_S: Final = 10.0


async def is_own(host: str) -> bool:
    """Whether this machine has each address of the host: a socket to such an address has it at both ends."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
        for family, kind, _, _, address in found:
            with socket.socket(family, kind) as probe:
                # Sends nothing.
                probe.connect((address[0], 9, *address[2:]))
                if probe.getsockname()[0] != address[0]:
                    return False
    except OSError:
        return False
    return bool(found)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """`connect(protocol, host, port)`, with a fourth argument for TLS, connects to an address and gives the protocol a
    transport; it raises OSError on failure. `clock` measures how long a computation has blocked the loop.
    `is_own(host)`: whether all addresses of the host certainly belong to this machine. `login`, if any, is the login of
    each connection. `tls()` returns its TLS context; it is called each time, because a node may replace certificates.
    """

    connect: Callable[..., Awaitable[None]]
    clock: Clock
    is_own: Callable[[str], Awaitable[bool]] = is_own
    login: ClientLogin | None = None
    tls: Callable[[], ssl.SSLContext] | None = None

    async def open(self, protocol: asyncio.BufferedProtocol, host: str, port: int) -> None:
        """Connect, with TLS if configured. Raises OSError."""
        if self.tls is None:
            await self.connect(protocol, host, port)
        else:
            await self.connect(protocol, host, port, self.tls())


async def connect(protocol: asyncio.BufferedProtocol, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
    """Connect by TCP, and with TLS if it is given. Raises OSError."""
    loop = asyncio.get_running_loop()
    if tls is None:
        await loop.create_connection(lambda: protocol, host, port)
    else:
        await loop.create_connection(
            lambda: protocol, host, port, ssl=tls, server_hostname=host, ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S
        )


MACHINE: Final = Outgoing(connect, MACHINE_CLOCK)
