"""The parts of the machine that a broker needs, passed in by its creator: no module below reads the machine's clock or
randomness, makes threads or opens sockets by itself. So a simulation can run several real brokers in one thread.

The disk is not an object here, because writes and sendfile are C calls on the data path. The modules that touch files
are listed in tests/broker_cy/test_seams.py, most of them in `storage`. All of them work below the directories that the
configuration names, so each broker has its own. A simulation replaces the calls themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol, TypeVar

from broker_cy.core.classes import NamedTuple
from broker_cy.core.clock import MACHINE_CLOCK, Clock
from broker_cy.core.randomness import MACHINE_RANDOMNESS, Randomness
from broker_cy.network.sockets import Buffers, SocketNetwork
from broker_cy.network.transport import Transport

if TYPE_CHECKING:
    import ssl

T = TypeVar("T")


class Incoming(Protocol):
    """A client that arrived; the broker decides whether to keep it. Exactly one of the methods is called."""

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    def admit(self) -> Transport: ...
    def refuse(self) -> None: ...


class Acceptor(Protocol):
    """One listening address; `fd` is the descriptor that the loop watches, -1 once it is closed."""

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def fd(self) -> int: ...
    def accept(self) -> Incoming:
        """Raises BlockingIOError if no client waits, and other OSErrors."""

    def close(self) -> None: ...


class Network(Protocol):
    """The network to clients and to other nodes."""

    def listen(self, name: str, host: str, port: int, backlog: int, buffers: Buffers) -> Acceptor:
        """Listen for the listener `name`; an empty host means all addresses, port 0 any port. Raises ListenError."""

    async def connect(
        self, protocol: asyncio.BufferedProtocol, host: str, port: int, tls: ssl.SSLContext | None = None
    ) -> None:
        """Connect to another node, which may refuse; `protocol` gets the transport. Raises OSError."""

    async def addresses(self, host: str) -> list[str]:
        """Return the addresses of a host, as peers of connections have them. Raises OSError if it has none."""

    def own_name(self) -> str:
        """Return the name under which others reach this machine, if a listener has no address of its own."""


class Workers(Protocol):
    """Executors for work that must not run on the loop."""

    def pool(self, name: str, workers_max: int) -> Executor:
        """Return an executor that runs up to `workers_max` calls at a time. The broker shuts it down."""

    def run_all(self, jobs: Sequence[tuple[str, Callable[[], T]]], threads: int) -> Iterator[T | Exception]:
        """Run jobs, each with the name of its group, `threads` of a group at a time. They begin now. Yields their
        results, or exceptions, in the order of jobs, and blocks until each is known.
        """


class ThreadWorkers:
    """Threads of this process."""

    def pool(self, name: str, workers_max: int) -> Executor:
        return ThreadPoolExecutor(workers_max, thread_name_prefix=name)

    def run_all(self, jobs: Sequence[tuple[str, Callable[[], T]]], threads: int) -> Iterator[T | Exception]:
        pools = {group: ThreadPoolExecutor(threads, thread_name_prefix="load") for group, _ in jobs}
        # Before the first result is requested: the caller may have other work to do.
        futures = [pools[group].submit(job) for group, job in jobs]
        return _results(futures, pools.values())


def _results(futures: Sequence[Future[T]], pools: Collection[ThreadPoolExecutor]) -> Iterator[T | Exception]:
    try:
        for future in futures:
            try:
                yield future.result()
            except Exception as error:
                yield error
    finally:
        for pool in pools:
            pool.shutdown(wait=True, cancel_futures=True)


class Seams(NamedTuple):
    """The seams of one broker. `loop.time()` is on the same scale as `clock.monotonic()`, and `loop` is asyncio's
    running loop while it runs callbacks and tasks.
    """

    clock: Clock
    randomness: Randomness
    loop: asyncio.AbstractEventLoop
    workers: Workers
    network: Network


def of_the_machine(loop: asyncio.AbstractEventLoop) -> Seams:
    """Return the machine's seams for the broker of this process, which runs on `loop`."""
    return Seams(MACHINE_CLOCK, MACHINE_RANDOMNESS, loop, ThreadWorkers(), SocketNetwork())
