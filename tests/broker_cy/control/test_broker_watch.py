"""A node detects immediately that the process of another broker has ended, and mistakes nothing else for that. The file
is long because the same watch distinguishes all kinds of ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from uuid import UUID

import pytest

from broker_cy.client.address import Address
from broker_cy.client.outgoing import MACHINE
from broker_cy.control.watch import broker_watch
from broker_cy.control.watch.broker_watch import BrokerWatch
from broker_cy.controller.pulse import LIVENESS
from broker_cy.metadata.image import BrokerImage, Endpoint, ImageDelta, MetadataImage
from broker_cy.wire import codec, messages

WAIT_S = 20.0
OWN, OTHER = 1, 2
OTHER_HOST = "127.0.0.2"


class Listening:
    """A process that listens on ports of an address, and says nothing. A connection to any other than 127.0.0.1 has
    that at its own end, as if it came from another host.
    """

    def __init__(self, ports: int = 1, host: str = "127.0.0.1") -> None:
        self.host = host
        self.ports = [0] * ports
        self.writers: list[asyncio.StreamWriter] = []
        self.accepted = 0
        self._servers: list[asyncio.Server] = []

    async def start(self) -> None:
        for index, port in enumerate(self.ports):
            server = await asyncio.start_server(self._accept, self.host, port)
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
    """The reports of a watch."""

    def __init__(self) -> None:
        self.suspected: list[int] = []
        self.cleared: list[int] = []
        self.dead: list[dict[int, int]] = []
        self.refused: list[tuple[int, int, bool]] = []
        self.silent: list[tuple[int, int]] = []
        self.leaders_gone: list[tuple[int, int]] = []

    def note_dead(self, epochs: Mapping[int, int]) -> None:
        self.dead.append(dict(epochs))


def broker(ports: list[int], epoch: int = 7, *, fenced: bool = False, host: str = "127.0.0.1") -> BrokerImage:
    names = ["PLAINTEXT", "OUTSIDE"]
    return BrokerImage(
        broker_id=OTHER,
        epoch=epoch,
        incarnation_id=UUID(int=epoch),
        listeners={name: Endpoint(host, port, 0) for name, port in zip(names, ports, strict=False)},
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
async def watching(process: Listening, interval_ms: int = 0) -> AsyncIterator[tuple[BrokerWatch, Notes]]:
    """A watch that is connected to the process."""
    await process.start()
    notes = Notes()
    watch = BrokerWatch(
        OWN,
        asyncio.get_running_loop(),
        "PLAINTEXT",
        MACHINE,
        MACHINE,
        lambda broker_id, epoch: notes.suspected.append(broker_id),
        notes.cleared.append,
        notes.note_dead,
        lambda broker_id, epoch, is_new: notes.refused.append((broker_id, epoch, is_new)),
        lambda leader_id, epoch: notes.leaders_gone.append((leader_id, epoch)),
        lambda broker_id, epoch: notes.silent.append((broker_id, epoch)),
        broker_interval_ms=interval_ms or None,
        leader_interval_ms=interval_ms,
    )
    show(watch, broker(process.ports, host=process.host))
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


def test_a_broker_that_was_never_reached_is_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, only clients notice that a broker advertises a wrong address."""
    monkeypatch.setattr(broker_watch, "RETRY_S", 0.01)

    def named() -> list[str]:
        records = [each for each in caplog.records if "not reached at the address" in each.getMessage()]
        return [str(getattr(each, "fields")["address"]) for each in records]  # noqa: B009

    async def work() -> None:
        nobody = Listening()
        await nobody.start()
        nobody.end()
        process = Listening()
        async with watching(process) as (watch, _):
            for before in range(1, broker_watch.UNREACHED + 3):
                process.hang_up()
                await until(lambda: process.accepted > before)  # noqa: B023
            assert not named()
            show(watch, broker(nobody.ports, epoch=8))
            await until(lambda: bool(named()))
            # Once for each registration.
            await asyncio.sleep(0.1)
            assert named() == [f"127.0.0.1:{nobody.ports[0]}"]

    with caplog.at_level(logging.WARNING):
        asyncio.run(work())


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


def test_a_process_on_another_host_is_refused_and_not_dead() -> None:
    """If this fails, one host alone decides that a broker on another one is dead, or says nothing of it."""

    async def work() -> None:
        process = Listening(2, OTHER_HOST)
        async with watching(process) as (watch, notes):
            process.end()
            await until(lambda: notes.refused != [])
            assert (notes.refused, notes.dead, watch.dead) == ([(OTHER, 7, True)], [], {})
            assert (watch.refused, watch.cut) == ({OTHER: 7}, {OTHER: 7})
            # It is said again, for a controller that has to decide alone.
            await until(lambda: len(notes.refused) > 1)
            assert notes.refused[1] == (OTHER, 7, False)
            # A process listens there again: whether it is another one is not known.
            again = Listening(2, OTHER_HOST)
            again.ports = process.ports
            await again.start()
            await until(lambda: watch.refused == {})
            assert (notes.dead, watch.cut) == ([], {OTHER: 7})
            show(watch, broker(process.ports, 8, host=OTHER_HOST))
            assert watch.cut == {}
            again.end()

    asyncio.run(work())


def test_only_a_controller_of_this_kind_is_told() -> None:
    """If this fails, Kafka's controllers get unknown fields, or ours do not learn which brokers refuse connections."""

    async def work() -> None:
        for is_ours in (True, False):
            process, leader = Listening(host=OTHER_HOST), Answering(is_ours=is_ours)
            await leader.start()
            async with watching(process) as (watch, notes):
                process.end()
                await until(lambda notes=notes: notes.refused != [])  # type: ignore[misc]
                assert watch.reports == {}
                watch.lead(3, 5, Address("127.0.0.1", leader.ports[0]))
                said = len(notes.refused)
                if is_ours:
                    await until(lambda watch=watch: watch.reports == {OTHER: 7})  # type: ignore[misc]
                    assert len(notes.refused) > said, "no node is asked to report it to the new controller"
                await until(lambda leader=leader: leader.questions == 1)  # type: ignore[misc]
                await until(lambda notes=notes, said=said: len(notes.refused) > said + 1)  # type: ignore[misc]
                assert watch.reports == ({OTHER: 7} if is_ours else {})
            leader.end()

    asyncio.run(work())


def test_the_kind_of_a_broker_is_known() -> None:
    """If this fails, a controller waits for reports of brokers that send none."""

    async def work() -> None:
        process = Answering(is_ours=False)
        async with watching(process, 100) as (watch, _):
            await until(lambda: watch.strangers == {OTHER})
        process = Answering()
        async with watching(process, 100) as (watch, _):
            await until(lambda: process.questions > 1)
            assert watch.strangers == frozenset()

    asyncio.run(work())


def test_the_parent_of_a_shard_is_certain() -> None:
    """If this fails, a shard that has ended is fenced late, or the next incarnation is confused with the one that
    ended.
    """

    async def work() -> None:
        process = Listening()
        async with watching(process) as (watch, notes):
            watch.process_ended(OTHER, 6)
            assert notes.dead == []
            watch.process_ended(OTHER, 7)
            watch.process_ended(OTHER, 7)
            assert notes.dead == [{OTHER: 7}]
            # A node that becomes the active controller later fences it as well.
            assert watch.dead == {OTHER: 7}
            process.end()
            await asyncio.sleep(0)
            show(watch, broker(process.ports, 8))
            assert watch.dead == {}
            assert notes.dead == [{OTHER: 7}]

    asyncio.run(work())


def test_the_quorum_learns_that_its_leader_has_gone() -> None:
    """If this fails, the metadata have no leader until the fetch timeout after a controller was killed."""

    async def work() -> None:
        process, leader = Listening(), Listening()
        await leader.start()
        async with watching(process) as (watch, notes):
            watch.lead(3, 5, Address("127.0.0.1", leader.ports[0]))
            watch.lead(3, 5, Address("127.0.0.1", leader.ports[0]))
            await until(lambda: leader.accepted == 1)
            # Another leader is watched instead.
            watch.lead(-1, 6, None)
            watch.lead(3, 7, Address("127.0.0.1", leader.ports[0]))
            await until(lambda: leader.accepted == 2)
            leader.hang_up()
            await until(lambda: leader.accepted == 3)
            assert notes.leaders_gone == []
            leader.end()
            await until(lambda: notes.leaders_gone != [])
            assert (notes.leaders_gone, notes.suspected, watch.dead) == ([(3, 7)], [], {})

    asyncio.run(work())


class Answering(Listening):
    """A node that answers ApiVersions as one of this kind, or as another one, while it does not stand still."""

    def __init__(self, *, is_ours: bool = True) -> None:
        super().__init__()
        self.runs = asyncio.Event()
        self.runs.set()
        self.questions = 0
        self.is_ours = is_ours

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self.writers.append(writer)
        feature = messages.ApiVersionsResponse.SupportedFeatureKey(name=LIVENESS, min_version=1, max_version=1)
        response = messages.ApiVersionsResponse(supported_features=[feature] if self.is_ours else [])
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                request = await reader.readexactly(size)
                self.questions += 1
                await self.runs.wait()
                body = request[4:8] + codec.encode(response, 3)
                writer.write(len(body).to_bytes(4, "big") + body)


def test_a_broker_that_stands_still_is_silent() -> None:
    """If this fails, clients wait for a leader that stands still until its session ends."""

    async def work() -> None:
        process = Answering()
        async with watching(process, 100) as (watch, notes):
            await until(lambda: process.questions > 3)
            assert (notes.silent, watch.silent) == ([], {})
            process.runs.clear()
            await until(lambda: notes.silent != [])
            assert (notes.silent, watch.silent, notes.dead) == ([(OTHER, 7)], {OTHER: 7}, [])
            # It is fenced, continues, and is unfenced: the same incarnation is watched again.
            show(watch, broker(process.ports, fenced=True))
            assert watch.silent == {}
            process.runs.set()
            asked = process.questions
            show(watch, broker(process.ports))
            await until(lambda: process.questions > asked + 2)
            assert watch.silent == {}

    asyncio.run(work())


def test_a_leader_of_the_quorum_that_stands_still_is_given_up() -> None:
    """If this fails, the metadata have no leader until the fetch timeout ends."""

    async def work() -> None:
        process, leader = Listening(), Answering()
        await leader.start()
        async with watching(process, 100) as (watch, notes):
            watch.lead(3, 5, Address("127.0.0.1", leader.ports[0]))
            await until(lambda: leader.questions > 3)
            leader.runs.clear()
            await until(lambda: notes.leaders_gone != [])
            assert (notes.leaders_gone, notes.silent) == ([(3, 5)], [])
            leader.runs.set()
        leader.end()

    asyncio.run(work())


def test_a_broker_of_another_kind_has_only_its_session() -> None:
    """If this fails, brokers of Kafka in a cluster are fenced by rules that they do not know."""

    async def work() -> None:
        process = Answering(is_ours=False)
        async with watching(process, 100) as (_, notes):
            await until(lambda: process.questions == 1)
            process.runs.clear()
            # A node of this kind would be silent by the time at which another one is.
            other = Answering()
            async with watching(other, 100) as (_, others):
                await until(lambda: other.questions > 1)
                other.runs.clear()
                await until(lambda: others.silent != [])
                other.runs.set()
            assert (process.questions, notes.silent) == (1, [])
            process.runs.set()

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
    """If this fails, a broker whose address this node cannot reach is fenced repeatedly."""

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
    """If this fails, a clean shutdown is reported as a death, and connection attempts to stopped brokers never end."""

    async def work() -> None:
        process = Listening()
        async with watching(process) as (watch, notes):
            show(watch, broker(process.ports, fenced=True))
            process.end()
            # A second broker joins immediately: the end of the first would have been noticed before it.
            other = Listening()
            await other.start()
            show(watch, broker(other.ports, 9))
            await until(lambda: notes.cleared == [OTHER, OTHER])
            other.end()
            await until(lambda: notes.dead != [])
            assert notes.dead == [{OTHER: 9}]
            assert notes.suspected == [OTHER]

    asyncio.run(work())
