"""A node notices at once that the process of another broker has ended, and takes nothing else for that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from uuid import UUID

from broker_cy.metadata.image import BrokerImage, Endpoint, ImageDelta, MetadataImage
from broker_cy.server.metadata.broker_watch import BrokerWatch

WAIT_S = 20.0
OWN, OTHER = 1, 2


class Listening:
    """A process that listens on loopback ports, and says nothing."""

    def __init__(self, ports: int = 1) -> None:
        self.ports = [0] * ports
        self.writers: list[asyncio.StreamWriter] = []
        self.accepted = 0
        self._servers: list[asyncio.Server] = []

    async def start(self) -> None:
        for index, port in enumerate(self.ports):
            server = await asyncio.start_server(self._accept, "127.0.0.1", port)
            self.ports[index] = server.sockets[0].getsockname()[1]
            self._servers.append(server)

    async def _accept(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self.writers.append(writer)

    def hang_up(self) -> None:
        """Close all connections, and listen on."""
        for writer in self.writers:
            writer.transport.abort()
        self.writers.clear()

    def close(self, index: int = 0) -> None:
        """Listen no longer on one of the ports."""
        self._servers[index].close()

    def end(self) -> None:
        for server in self._servers:
            server.close()
        self.hang_up()


class Notes:
    """What a watch reports."""

    def __init__(self) -> None:
        self.suspected: list[int] = []
        self.cleared: list[int] = []
        self.dead: list[dict[int, int]] = []

    def note_dead(self, epochs: Mapping[int, int]) -> None:
        self.dead.append(dict(epochs))


def broker(ports: list[int], epoch: int = 7, *, fenced: bool = False) -> BrokerImage:
    names = ["PLAINTEXT", "OUTSIDE"]
    return BrokerImage(
        broker_id=OTHER,
        epoch=epoch,
        incarnation_id=UUID(int=epoch),
        listeners={name: Endpoint("127.0.0.1", port, 0) for name, port in zip(names, ports, strict=False)},
        features={},
        rack=None,
        fenced=fenced,
        in_controlled_shutdown=False,
        log_dirs=(),
        cordoned_log_dirs=None,
    )


def show(watch: BrokerWatch, found: BrokerImage) -> None:
    image = MetadataImage()
    image.brokers[OTHER] = found
    watch.apply(ImageDelta.between(MetadataImage(), image), image)


@asynccontextmanager
async def watching(process: Listening) -> AsyncIterator[tuple[BrokerWatch, Notes]]:
    """A watch that is connected to the process."""
    await process.start()
    notes = Notes()
    watch = BrokerWatch(
        OWN,
        asyncio.get_running_loop(),
        "PLAINTEXT",
        notes.suspected.append,
        notes.cleared.append,
        notes.note_dead,
    )
    show(watch, broker(process.ports))
    try:
        await until(lambda: notes.cleared == [OTHER])
        yield watch, notes
    finally:
        await watch.stop()
        process.end()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.005)


def test_a_process_that_has_ended_is_dead() -> None:
    """If this fails, clients wait for a killed leader until its session ends."""

    async def work() -> None:
        process = Listening(2)
        async with watching(process) as (watch, notes):
            process.end()
            await until(lambda: notes.dead != [])
            assert notes.dead == [{OTHER: 7}]
            assert notes.suspected == [OTHER]
            assert notes.cleared == [OTHER]  # when it was connected
            # Remembered for the next active controller, until the broker has registered again.
            assert watch.dead == {OTHER: 7}
            show(watch, broker(process.ports, 8))
            assert watch.dead == {}

    asyncio.run(work())


def test_a_process_that_answers_on_any_listener_is_not_dead() -> None:
    """If this fails, a broker is fenced while its process runs, because one of its connections broke."""

    async def work() -> None:
        process = Listening(2)
        async with watching(process) as (watch, notes):
            process.hang_up()
            await until(lambda: len(notes.cleared) == 2)
            assert (notes.suspected, process.accepted, notes.dead) == ([OTHER], 2, [])
            # The inter-broker listener is closed, and the other one is not.
            process.close()
            process.hang_up()
            await until(lambda: process.accepted == 4)  # two probes
            assert (notes.suspected, notes.dead, watch.dead) == ([OTHER] * 2, [], {})

    asyncio.run(work())


def test_a_process_that_is_ending_may_still_accept() -> None:
    """If this fails, a killed broker is left to its session if its last act was to accept a connection."""

    async def work() -> None:
        process = Listening()
        async with watching(process) as (watch, notes):
            process.hang_up()
            await until(lambda: process.accepted == 2)
            process.end()
            await until(lambda: notes.dead != [])
            assert (notes.dead, watch.dead) == ([{OTHER: 7}], {OTHER: 7})

    asyncio.run(work())


def test_a_broker_that_was_never_reached_is_not_dead() -> None:
    """If this fails, a broker whose address this node cannot reach is fenced again and again."""

    async def work() -> None:
        process = Listening()
        async with watching(process) as (watch, notes):
            process.end()
            await until(lambda: notes.dead != [])
            # It registers again, at an address that refuses this node.
            show(watch, broker(process.ports, 8))
            await asyncio.sleep(0)
            again = Listening()
            again.ports = process.ports
            await again.start()
            await until(lambda: again.accepted == 1)
            assert notes.dead == [{OTHER: 7}]
            assert watch.dead == {}
            again.end()

    asyncio.run(work())


def test_a_fenced_broker_is_not_watched() -> None:
    """If this fails, an orderly stop is reported as a death, and brokers that are gone are connected to for ever."""

    async def work() -> None:
        process = Listening()
        async with watching(process) as (watch, notes):
            show(watch, broker(process.ports, fenced=True))
            process.end()
            # A second broker at once: by then the first would have been noticed.
            other = Listening()
            await other.start()
            show(watch, broker(other.ports, 9))
            await until(lambda: notes.cleared == [OTHER, OTHER])
            other.end()
            await until(lambda: notes.dead != [])
            assert notes.dead == [{OTHER: 9}]
            assert notes.suspected == [OTHER]

    asyncio.run(work())
