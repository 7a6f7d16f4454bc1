"""Several brokers in one thread, under virtual time: a loop, workers and a network in memory, as seams."""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from broker_cy.config import BrokerConfig
from broker_cy.core.clock import ManualClock
from broker_cy.core.randomness import Randomness
from broker_cy.server.connections.sockets import Buffers
from broker_cy.server.connections.transport import ObjectTransport, Transport
from broker_cy.server.lifecycle import BrokerServer
from broker_cy.server.seams import Seams
from tests.broker_cy.server.memory_link import MemoryLink

FIRST_FD = 1_000_000


class Sources(selectors._BaseSelectorImpl):
    """Reports what is ready in memory. If nothing is, the time until the next timer passes at once."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.clock = clock
        self.links: dict[int, MemoryLink] = {}
        self.acceptors: dict[int, MemoryAcceptor] = {}
        self.waited_ns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = []
        for fd, key in list(self.get_map().items()):
            events = 0
            if fd in self.acceptors:
                events = selectors.EVENT_READ if self.acceptors[fd].waiting else 0
            elif fd in self.links:
                link = self.links[fd]
                events = selectors.EVENT_READ * link.is_readable | selectors.EVENT_WRITE * (link.room > 0)
            if events & key.events:
                found.append((key, events & key.events))
        if not found:
            assert timeout is not None, "nothing can happen any more"
            self.clock.advance_ns(int(timeout * 1e9) + (1 if timeout > 0 else 0))
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, over `Sources` and a clock that stands still."""

    def __init__(self, clock: ManualClock) -> None:
        self.sources = Sources(clock)
        self.clock = clock
        super().__init__(self.sources)

    def time(self) -> float:
        return self.clock.monotonic()


class InlineExecutor(Executor):
    """Does the work when it is submitted, in the same thread."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(work(*arguments, **named))
        except BaseException as error:
            future.set_exception(error)
        return future


class InlineWorkers:
    def pool(self, name: str, workers_max: int) -> Executor:
        return InlineExecutor()


class MemoryIncoming:
    def __init__(self, link: MemoryLink, fd: int, sources: Sources, port: int) -> None:
        self.host, self.port = "10.0.0.1", port
        self._link, self._fd, self._sources = link, fd, sources

    def admit(self) -> Transport:
        self._sources.links[self._fd] = self._link
        return ObjectTransport(self._link, self._fd)

    def refuse(self) -> None:
        self._link.close()


class MemoryAcceptor:
    def __init__(self, host: str, port: int, fd: int) -> None:
        self.host, self.port, self.fd = host, port, fd
        self.waiting: list[MemoryIncoming] = []

    def accept(self) -> MemoryIncoming:
        if not self.waiting:
            raise BlockingIOError
        return self.waiting.pop(0)

    def close(self) -> None:
        self.fd = -1


class World:
    """`broker(number)` is a broker that was built with this world; `connect` reaches it. One loop and one clock."""

    def __init__(self, path: Path, seed: int = 0) -> None:
        self.path = path
        self.clock = ManualClock()
        self.loop = VirtualLoop(self.clock)
        self.draw = random.Random(seed)
        self.acceptors: dict[tuple[str, int], MemoryAcceptor] = {}
        self.fds = FIRST_FD

    def listen(self, name: str, host: str, port: int, backlog: int, buffers: Buffers) -> MemoryAcceptor:
        self.fds += 1
        acceptor = MemoryAcceptor(host, port, self.fds)
        self.acceptors[host, port] = self.loop.sources.acceptors[self.fds] = acceptor
        return acceptor

    def own_name(self) -> str:
        return "world"

    def broker(self, number: int) -> BrokerServer:
        config = BrokerConfig.from_properties(
            {
                "node.id": str(number),
                "log.dirs": str(self.path / f"data-{number}"),
                "listeners": f"PLAINTEXT://10.0.0.{number}:9092",
            }
        )
        return BrokerServer(config, Seams(self.clock, Randomness(self.draw), self.loop, InlineWorkers(), self))

    def connect(self, number: int) -> MemoryLink:
        link = MemoryLink()
        self.fds += 1
        acceptor = self.acceptors[f"10.0.0.{number}", 9092]
        acceptor.waiting.append(MemoryIncoming(link, self.fds, self.loop.sources, 4000 + self.fds - FIRST_FD))
        return link

    def run_until(self, condition: Callable[[], bool], limit_s: float = 60.0) -> None:
        """Let virtual time pass until the condition is true; AssertionError after `limit_s` of it."""

        async def wait() -> None:
            end = self.loop.time() + limit_s
            while not condition():
                assert self.loop.time() < end, "the condition did not come true"
                await asyncio.sleep(0.001)

        self.loop.run_until_complete(wait())
