"""The clients of a cluster that mirrors topics of another one, and the administrator of the latter."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from broker_cy.core import mirror_settings as mirror
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from tests.history.operations import Fate, Place, Read, Recorder, Send
from tests.sim.world.clients.admins import SET, TOPIC_RESOURCE
from tests.sim.world.clients.base import GONE, RETRIABLE, Client, Spot, place_of
from tests.sim.world.clients.cluster_admins import ClusterAdmin
from tests.sim.world.clients.producers import BY_ID, Sender, result_of
from tests.sim.world.clients.readers import LastReader, Reader
from tests.sim.world.cluster import CLUSTER
from tests.sim.world.wire import Lost

if TYPE_CHECKING:
    from tests.sim.world.mirrors import Mirrors
    from tests.sim.world.world import World

# The topics that are mirrored, and their partitions: those that live as long as the world, and keep all records.
TOPICS = {"t0": 2, "t1": 1}
# The links of the second cluster to the first one, and of the first one to the second.
LINK, BACK = "source", "target"
DELETE = 1
# The answers to changes of settings, besides success.
UNSURE = RETRIABLE | GONE | {ErrorCode.UNKNOWN_SERVER_ERROR}


def promoted_place(topic: str, partition: int) -> Place:
    """The name in the history of what was written to a promoted partition."""
    return f"{topic}@promoted", partition


def mirrors_of(world: World) -> Mirrors:
    assert world.mirrors is not None
    return world.mirrors


def source_id(world: World, topic: str) -> Any:
    """The id of a topic of the first cluster, if a node knows it."""
    for machine in world.clusters[CLUSTER].machines.values():
        if machine.server is not None and machine.is_started:
            for each in machine.server.broker.image.topics:
                if each.name == topic:
                    return each.topic_id
    return None


class Change(NamedTuple):
    """A setting of a topic; None deletes it."""

    topic: str
    name: str
    value: str | None


async def alter(client: Client, change: Change) -> bool:
    """Whether the change was answered with success. Raises Lost."""
    config = m.IncrementalAlterConfigsRequest.AlterableConfig(
        name=change.name, config_operation=SET if change.value is not None else DELETE, value=change.value
    )
    resource = m.IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=change.topic, configs=[config]
    )
    answer = await client.once(m.IncrementalAlterConfigsRequest(resources=[resource]), 1)
    code = ErrorCode(answer.responses[0].error_code)
    assert code in UNSURE | {ErrorCode.NONE}, f"{client.name}: {change}: {code.name}"
    return code is ErrorCode.NONE


class _Admin(ClusterAdmin):
    """The administrator of a cluster of one node or three, without topics that come and go."""

    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.acts = [self._alter]
        if len(self.nodes) > 2:
            self.acts += [self._reassign, self._reassign, self._cancel, self._elect, self._elect]

    def replication_of(self, topic: str) -> int:
        return len(self.nodes)


class SourceAdmin(_Admin):
    """The administrator of the first cluster: it deletes records, and moves replicas and leaders."""

    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        if world.copies is None:
            self.acts.append(self._trim)
        elif self.draw.chance(0.6):
            # In the other worlds the copy has all records.
            self.acts += [self._trim_copied, self._trim_copied]

    async def _trim_copied(self) -> None:
        """Delete records of a topic that is copied, maybe before they were copied."""
        copies = self.world.copies
        assert copies is not None
        spot = await self._some_spot("t")
        if spot is None or not self.draw.chance(0.6):
            return
        end = copies.keep((spot.topic, spot.partition))
        if end > 0:
            offset = end if self.draw.chance(0.5) else self.draw.randint(1, end)
            copies.deleting((spot.topic, spot.partition), offset)
            await self.delete_before(spot, offset)


class MirrorAdmin(_Admin):
    """The administrator of the second cluster: it creates, pauses and resumes the mirrors, and promotes them at the
    planned time.
    """

    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.acts += [self._pause, self._resume, self._trim_mirror]

    def settings_of(self, topic: str) -> dict[str, str]:
        return super().settings_of(topic) | {mirror.LINK: LINK}

    async def begin(self) -> None:
        for topic, partitions in TOPICS.items():
            while topic not in await self._topics():
                if not await self._create(topic, partitions):
                    await self.back_off()

    async def step(self) -> None:
        if 0 < self.world.plan.promote_us <= self.world.time.now_us and self._left():
            try:
                self.successes += await self._promote(self._left()[0])
            except Lost:
                await self.back_off()
            return
        await super().step()

    async def finish(self) -> None:
        while self.world.plan.promote_us and self._left():
            await self._persist(self._promote, self._left()[0])
        for topic in self._left():
            await self._persist(self._set_paused, topic)

    async def _persist(self, act: Any, topic: str) -> None:
        while True:
            try:
                if await act(topic):
                    return
            except Lost:
                pass
            await self.back_off()

    def _left(self) -> list[str]:
        return [topic for topic in TOPICS if topic not in mirrors_of(self.world).promoted]

    async def _promote(self, topic: str) -> bool:
        """Raises Lost."""
        mirrors_of(self.world).promoting.add(topic)
        is_done = await alter(self, Change(topic, mirror.LINK, None))
        if is_done:
            mirrors_of(self.world).promoted.add(topic)
        return is_done

    async def _set_paused(self, topic: str, value: str = "false") -> bool:
        return await alter(self, Change(topic, mirror.PAUSED, value))

    async def _pause(self) -> None:
        await self._set_paused(self.draw.choice(list(TOPICS)), "true")

    async def _resume(self) -> None:
        await self._set_paused(self.draw.choice(list(TOPICS)))

    async def _trim_mirror(self) -> None:
        """Ask to delete records of a mirror, which is refused."""
        spot = await self._some_spot("t")
        if spot is None or spot.topic in mirrors_of(self.world).promoting:
            return
        part = m.DeleteRecordsRequest.DeleteRecordsPartition(partition_index=spot.partition, offset=-1)
        topic = m.DeleteRecordsRequest.DeleteRecordsTopic(name=spot.topic, partitions=[part])
        answer: Any = await self.once(m.DeleteRecordsRequest(topics=[topic], timeout_ms=5_000), 2)
        code = ErrorCode(answer.topics[0].partitions[0].error_code)
        assert code in RETRIABLE | GONE | {ErrorCode.POLICY_VIOLATION}, f"{self.name}: DeleteRecords: {code.name}"


def _mirrored(client: Client) -> list[Spot]:
    """The partitions that are mirrors for sure, with the names of their sources."""
    found = []
    for spot in client.spots:
        topic_id = source_id(client.world, spot.topic) if spot.topic in TOPICS else None
        if topic_id is not None and spot.topic not in mirrors_of(client.world).promoting:
            found.append(replace(spot, place=place_of(spot.topic, topic_id, spot.partition)))
    return found


class MirrorReader(Reader):
    """Reads mirrors: what it gets is a part of the history of the source. It ends with the promotion, after which
    transactions that the source may commit are aborted here.
    """

    takes_volatile = takes_unclean = False

    async def look(self) -> None:
        await super().look()
        self.spots = _mirrored(self)

    async def step(self) -> None:
        promoting = mirrors_of(self.world).promoting
        if any(spot.topic in promoting for spot in self.positions):
            self.assign({spot: at for spot, at in self.positions.items() if spot.topic not in promoting})
        if promoting.issuperset(TOPICS):
            self.successes += 1
            return await self.back_off()
        return await super().step()

    async def _take(self, spot: Spot, part: Any, epoch: int) -> list[Read]:
        if spot.topic in mirrors_of(self.world).promoting:
            return []
        return await super()._take(spot, part, epoch)


class LastMirrorReader(LastReader):
    """Reads all mirrors that were not promoted to their ends."""

    async def look(self) -> None:
        await super().look()
        self.spots = _mirrored(self)


class PromotedReader(LastReader):
    """Reads all promoted topics to their ends; `reads` is not a part of the history."""

    def __init__(self, world: World, name: str, host: str, *, committed: bool) -> None:
        super().__init__(world, name, host, committed=committed)
        self.recorder = Recorder()

    async def look(self) -> None:
        await super().look()
        promoted = mirrors_of(self.world).promoted
        self.spots = [
            replace(spot, place=promoted_place(spot.topic, spot.partition))
            for spot in self.spots
            if spot.topic in promoted
        ]

    @property
    def reads(self) -> list[Read]:
        return [read for each in self.recorder.operations for read in getattr(each, "records", ())]


class MirrorWriter(Sender):
    """Writes to mirrors, which is refused, and to promoted topics, which is not."""

    takes_volatile = False

    async def look(self) -> None:
        await super().look()
        self.spots = [
            replace(spot, place=promoted_place(spot.topic, spot.partition))
            for spot in self.spots
            if spot.topic in TOPICS
        ]

    async def begin(self) -> None:
        # Before its first mirror, a cluster gives out ids that its source may have given out, too (docs/mirror.md).
        while not self.spots:
            await self.look()
            if not self.spots:
                await self.back_off()
        await self.new_identity(m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0))

    async def step(self) -> None:
        if not self.spots or self.draw.chance(0.1):
            await self.look()
        if not self.spots:
            return await self.back_off()
        spot = self.draw.choice(self.spots)
        mirrors = mirrors_of(self.world)
        was_promoted = spot.topic in mirrors.promoted
        batch = self.some_batch(spot)
        try:
            code, base_offset = result_of(await self.once(batch.request(-1, timeout_ms=self.timeout_ms), BY_ID))
        except Lost:
            code, base_offset = ErrorCode.REQUEST_TIMED_OUT, -1
        if code is ErrorCode.NONE:
            assert spot.topic in mirrors.promoting, f"{self.name}: the mirror {spot.place} takes {batch.values}"
            return self.settle(batch, Fate.ACKED, base_offset)
        if code is ErrorCode.INVALID_REQUEST:
            # It was not written: the next batch has the same sequence. A leader that has lost its leadership may not
            # know of the promotion.
            self.sequences[spot] -= len(batch.values)
            self.successes += not was_promoted
            for value, key in batch.values:
                self.recorder.add(Send(value, spot.place, Fate.REFUSED, None, None, key))
            return await self.back_off()
        assert code in RETRIABLE | GONE, f"{self.name}: {code.name} for {batch.values} in {spot.place}"
        self.settle(batch, Fate.UNKNOWN)
        return await self.begin()


class Reverser(Client):
    """Makes mirrors of the topics of the first cluster that were promoted in the second one."""

    async def begin(self) -> None:
        self.left = sorted(mirrors_of(self.world).promoted)

    async def step(self) -> None:
        try:
            if not self.left or await alter(self, Change(self.left[0], mirror.LINK, BACK)):
                del self.left[:1]
                self.successes += 1
        except Lost:
            await self.back_off()

    async def finish(self) -> None:
        while self.left:
            await self.step()
            await self.back_off()
