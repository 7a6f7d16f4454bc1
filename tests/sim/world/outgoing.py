"""A node's connections to others over the simulated network, as asyncio transports: protocols use them like those of an
event loop.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from tests.sim.world import disks

if TYPE_CHECKING:
    from tests.sim.world.loop import SimLoop
    from tests.sim.world.network import Connection
    from tests.sim.world.world import World


class Process(Protocol):
    """The process of a broker or of another program: `outgoing` has its connections to others."""

    host: str
    loop: SimLoop | None
    outgoing: dict[Outgoing, None]

    @property
    def world(self) -> World: ...


class Outgoing(asyncio.Transport):
    """One connection of `machine` to a listener, and its receiver (network.Receiver)."""

    def __init__(self, machine: Process, protocol: asyncio.BufferedProtocol, host: str, port: int) -> None:
        super().__init__()
        assert machine.loop is not None
        self._machine = machine
        self._loop = machine.loop
        self._host, self._port = host, port
        loop = machine.loop.as_loop
        self._protocol = protocol
        self._opened: asyncio.Future[Connection | None] = loop.create_future()
        self._connection: Connection | None = None
        # Bytes that have arrived and were not read; None is the end.
        self._inbox: deque[bytes | None] = deque()
        self._is_made = self._is_paused = self._is_closing = False

    async def open(self) -> None:
        """Raises ConnectionRefusedError."""
        self._machine.outgoing[self] = None
        self._machine.world.network.connect(self._machine.host, self._host, self, self._done, self._port)
        try:
            connection = await self._opened
        except BaseException:
            # A connection that opens later is closed, too.
            self._is_closing = True
            self._machine.outgoing.pop(self, None)
            if self._connection is not None:
                self._connection.close()
            raise
        if connection is None:
            self._machine.outgoing.pop(self, None)
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))

    def _done(self, connection: Connection | None) -> None:
        """The answer to the attempt has arrived."""
        if self._is_closing:
            if connection is not None:
                connection.close()
            return
        self._connection = connection
        self._loop.arrived(self._settle)

    def _settle(self) -> None:
        """As in an event loop, the protocol gets the connection before any data that arrives over it."""
        if self._opened.done():
            return
        if self._connection is not None:
            self._is_made = True
            self._protocol.connection_made(self)
        self._opened.set_result(self._connection)
        if self._inbox:
            self._loop.arrived(self._deliver)

    def end(self, *, silently: bool) -> None:
        """The process has ended, alone or with its machine. If `silently`, its peers learn of it after its restart."""
        self._is_closing = True
        if self._connection is None:
            return
        if silently:
            network = self._machine.world.network
            network.orphans.setdefault(self._machine.host, []).append(self._connection.close)
        else:
            self._connection.close()

    # --- network.Receiver

    def received(self, data: bytes) -> None:
        self._arrived(data)

    def lost(self, reason: str) -> None:
        self._arrived(None)

    def _arrived(self, what: bytes | None) -> None:
        if not self._is_closing:
            self._inbox.append(what)
            self._loop.arrived(self._deliver)

    def _deliver(self) -> None:
        # The attempt may also have ended without a connection that the protocol knows: its deadline was over.
        if not self._is_made:
            return
        while self._inbox and not self._is_paused and not self._is_closing:
            what = self._inbox.popleft()
            if what is None:
                self._protocol.eof_received()
            else:
                self._read(what)

    def _read(self, data: bytes) -> None:
        """Hand over the received bytes, in as many pieces as the protocol has room for."""
        left = memoryview(data)
        while left and not self._is_closing:
            room = memoryview(self._protocol.get_buffer(len(left)))
            taken = min(len(room), len(left))
            room[:taken] = left[:taken]
            self._protocol.buffer_updated(taken)
            left = left[taken:]

    # --- asyncio.Transport

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        world = self._machine.world
        hosts = {"sockname": self._machine.host, "peername": self._host}
        return (world.address(hosts[name]), self._port) if name in hosts else default

    def is_closing(self) -> bool:
        return self._is_closing

    def write(self, data: Any) -> None:
        # A process that has ended sends nothing, whatever its `finally` blocks do.
        if not self._is_closing and self._connection is not None and not disks.current.is_dead:
            self._connection.send(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self._loop.arrived(self._deliver)

    def can_write_eof(self) -> bool:
        return False

    def abort(self) -> None:
        if self._is_closing or disks.current.is_dead:
            return
        self._is_closing = True
        self._machine.outgoing.pop(self, None)
        if self._connection is not None:
            self._connection.close()
        self._loop.call_soon(self._protocol.connection_lost, None)

    close = abort
