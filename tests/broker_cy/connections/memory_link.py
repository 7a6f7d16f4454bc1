"""A server core and its connections without sockets, threads or real time, on a loop that the test runs."""

from __future__ import annotations

import asyncio
import errno
import os
import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from broker_cy.broker.broker import Broker
from broker_cy.broker.registry import Registration, registrations
from broker_cy.connections.answers import ServerCore
from broker_cy.connections.connection import Connection
from broker_cy.core.clock import ManualClock
from broker_cy.core.randomness import Randomness
from broker_cy.events.log_events import LogEvents
from broker_cy.handlers import fetch, produce
from broker_cy.network.transport import ObjectTransport
from broker_cy.replica.partition import Partition
from broker_cy.replica.partition_table import PartitionTable
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.wire.frame import ApiKey
from tests.broker_cy.connections.harness import SETTINGS
from tests.sim import power_loop


class MemoryLoop(power_loop.Loop):
    """Each turn reports the links that are ready, in an order that is drawn."""

    def __init__(self, draw: random.Random) -> None:
        super().__init__(power_loop.Work(draw))
        self.draw = draw
        self.links: dict[int, MemoryLink] = {}
        self.readers: dict[int, Callable[[], None]] = {}
        self.writers: dict[int, Callable[[], None]] = {}

    def add_reader(self, fd: int, callback: Callable[[], None]) -> None:
        self.readers[fd] = callback

    def remove_reader(self, fd: int) -> None:
        self.readers.pop(fd, None)

    def add_writer(self, fd: int, callback: Callable[[], None]) -> None:
        self.writers[fd] = callback

    def remove_writer(self, fd: int) -> None:
        self.writers.pop(fd, None)

    def run(self) -> None:
        """Run turns until nothing is ready and nothing waits, timers excepted."""
        while True:
            ready = [(self.readers, fd) for fd in self.readers if self.links[fd].is_readable]
            ready += [(self.writers, fd) for fd in self.writers if self.links[fd].room > 0]
            self.draw.shuffle(ready)
            if not ready and not self.soon and not self.work.waiting:
                return
            for callbacks, fd in ready:
                if fd in callbacks:
                    callbacks[fd]()
            self.turn()
            self.work.one()


class MemoryLink:
    """The broker's end of a connection: the peer sends by `arrive`, and `sent` has what it received. A call reads or
    writes at most `step` bytes, and all calls together write at most `room`.
    """

    def __init__(self, step: int = 1 << 30) -> None:
        self.step = step
        self.room = 1 << 40
        self.waiting = bytearray()
        self.ended = False
        self.sent = bytearray()
        self.is_closed = False

    @property
    def is_readable(self) -> bool:
        return bool(self.waiting) or self.ended

    def arrive(self, data: bytes) -> None:
        self.waiting += data

    def recv_into(self, room: memoryview) -> int:
        assert not self.is_closed
        part = bytes(self.waiting[: min(self.step, len(room))])
        if not part:
            return 0 if self.ended else -errno.EAGAIN
        room[: len(part)] = part
        del self.waiting[: len(part)]
        return len(part)

    def send(self, data: memoryview, more: bool) -> int:
        assert not self.is_closed
        size = min(self.step, self.room, len(data))
        if size == 0:
            return -errno.EAGAIN
        self.room -= size
        self.sent += data[:size]
        return size

    def send_file(self, fd: int, position: int, size: int) -> int:
        size = min(self.step, self.room, size)
        if size == 0:
            return -errno.EAGAIN
        return self.send(memoryview(os.pread(fd, size, position)), False)

    def close(self) -> None:
        self.is_closed = True


class MemoryBroker:
    """A server core with Produce and Fetch and one partition of topic `t`, on a loop that the test runs."""

    def __init__(self, path: Path, seed: int = 0, extra: dict[ApiKey, Callable[[Any, Any], Any]] | None = None) -> None:
        """`extra` are handlers in addition to Produce and Fetch."""
        draw = random.Random(seed)
        self.clock = ManualClock()
        self.loop = MemoryLoop(draw)
        loop: Any = self.loop
        table = PartitionTable()
        registry = {int(key): registrations()[int(key)] for key in (ApiKey.PRODUCE, ApiKey.FETCH)}
        for key, function in (extra or {}).items():
            registry[int(key)] = Registration(key, 0, 13, 0, function, asyncio.iscoroutinefunction(function), "")
        broker = cast(Broker, SimpleNamespace(transactions=None, authorization=None))
        self.core = ServerCore(loop, self.clock, LogEvents(self.clock), broker, table, registry)
        produce.install(self.core)
        fetch.install(self.core, 100, 120_000, Randomness(draw))
        directory = path / "t-0"
        directory.mkdir()
        log = Log.create(str(directory), "t", 0, LogConfig(), self.clock.wall_ms())
        partition = Partition(self.core, "t", 0, UUID(int=draw.getrandbits(128), version=4), log, 0)
        partition.configure(SETTINGS)
        table.add(partition)

    def connect(self, link: MemoryLink) -> Connection:
        fd = 1_000_000 + len(self.loop.links)
        self.loop.links[fd] = link
        return Connection(
            self.core, ObjectTransport(link, fd), "PLAINTEXT", "10.0.0.1", 4000 + len(self.loop.links), "b"
        )
