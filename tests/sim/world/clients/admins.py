"""An administrator: it creates, deletes and creates again, trims, adds partitions and alters settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from tests.history.operations import Delete
from tests.sim.world.clients.base import GONE, RETRIABLE, Client, Spot, place_of
from tests.sim.world.wire import Lost

if TYPE_CHECKING:
    from tests.sim.world.world import World

NEVER = 1 << 62
TOPIC_RESOURCE = 2
SET = 0
PARTITIONS_MAX = 4
# Topics that live as long as the world, and one that is compacted.
STABLE = {"t0": 2, "t1": 1, "c0": 1}
VOLATILE = ("v0", "v1")
# Kafka does not permit segments below 1 MiB: they are rolled by time.
SEGMENT_MS = ("100", "1000", "604800000")


class Admin(Client):
    # Further errors of CreateTopics and CreatePartitions: no broker is left for the replicas while the only one stops.
    may_refuse_create = frozenset({ErrorCode.INVALID_REPLICATION_FACTOR})
    # Whether Metadata shows changes immediately.
    sees_at_once = True
    # Whether it pauses before another attempt to create the topics of the world.
    pauses_when_refused = False

    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.acts = [self._toggle, self._trim, self._trim, self._alter, self._grow, self._restart_topic]
        # While groups settle, topics stay as they are.
        self.calm_acts = [self._trim, self._alter]

    def settings_of(self, topic: str) -> dict[str, str]:
        settings = {"segment.ms": self.draw.choice(SEGMENT_MS), "max.message.bytes": "20000"}
        if topic[0] == "c":
            settings |= {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
        return settings

    def replication_of(self, topic: str) -> int:
        return 1

    async def begin(self) -> None:
        for topic, partitions in STABLE.items():
            while topic not in await self._topics():
                if not await self._create(topic, partitions) and self.pauses_when_refused:
                    await self.back_off()

    async def step(self) -> None:
        act = self.draw.choice(self.calm_acts if self.world.settles else self.acts)
        try:
            await act()
            self.successes += 1
        except Lost:
            await self.back_off()

    async def _topics(self) -> dict[str, UUID]:
        await self.look()
        return {spot.topic: spot.topic_id for spot in self.spots}

    async def _create(self, topic: str, partitions: int, replicas: list[int] | None = None) -> bool:
        """Create it, with partition 0 at `replicas` if these are given. Returns whether it was created."""
        settings = self.settings_of(topic)
        Config = m.CreateTopicsRequest.CreatableTopicConfig
        Assignment = m.CreateTopicsRequest.CreatableReplicaAssignment
        created = m.CreateTopicsRequest.CreatableTopic(
            name=topic,
            num_partitions=partitions if replicas is None else -1,
            replication_factor=self.replication_of(topic) if replicas is None else -1,
            assignments=[] if replicas is None else [Assignment(partition_index=0, broker_ids=replicas)],
            configs=[Config(name=name, value=value) for name, value in settings.items()],
        )
        try:
            answer = (await self.once(m.CreateTopicsRequest(topics=[created]), 7)).topics[0]
        except Lost:
            return False
        code = ErrorCode(answer.error_code)
        allowed = {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.UNKNOWN_SERVER_ERROR}
        assert code in RETRIABLE | self.may_refuse_create | allowed, (
            f"{self.name}: CreateTopics of {topic}: {code.name} {answer.error_message}"
        )
        if code is ErrorCode.NONE and self.sees_at_once:
            known = await self._topics()
            assert known.get(topic) == answer.topic_id, f"{topic} was created as {answer.topic_id}, and is {known}"
        return code is ErrorCode.NONE

    async def _delete(self, topic: str, topic_id: UUID) -> None:
        for partition in range(PARTITIONS_MAX):
            self.world.recorder.add(Delete(place_of(topic, topic_id, partition), NEVER, self.world.recorder.now()))
        state = m.DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=topic_id)
        answer = await self.once(m.DeleteTopicsRequest(topics=[state], timeout_ms=5_000), 6)
        code = ErrorCode(answer.responses[0].error_code)
        if code is ErrorCode.NONE and self.sees_at_once:
            assert (await self._topics()).get(topic) != topic_id, f"{topic} was deleted, and is still listed"
        elif code is not ErrorCode.NONE:
            assert code in RETRIABLE | GONE | {ErrorCode.UNKNOWN_SERVER_ERROR}, f"DeleteTopics: {code.name}"

    async def _toggle(self) -> None:
        topic = self.draw.choice(VOLATILE)
        found = (await self._topics()).get(topic)
        if found is None:
            await self._create(topic, self.draw.randint(1, 2))
        else:
            await self._delete(topic, found)

    async def _restart_topic(self) -> None:
        """Delete a topic and recreate it immediately."""
        topic = self.draw.choice(VOLATILE)
        if (found := (await self._topics()).get(topic)) is not None:
            await self._delete(topic, found)
        await self._create(topic, 1)

    async def _some_spot(self, kinds: str) -> Spot | None:
        await self.look()
        spots = [spot for spot in self.spots if spot.topic[0] in kinds]
        return self.draw.choice(spots) if spots else None

    async def _trim(self) -> None:
        # The request has only a name, so that of a volatile topic it could reach the next life.
        spot = await self._some_spot("t")
        if spot is None:
            return
        offset = self.draw.choice([-1, self.draw.randint(0, 200)])
        if offset < 0 and not self.draw.chance(0.2):
            return
        await self.delete_before(spot, offset)

    async def delete_before(self, spot: Spot, offset: int) -> None:
        """Delete the records before an offset, or before the high watermark if it is -1. Raises Lost."""
        # The high watermark is any offset.
        end = offset if offset >= 0 else NEVER
        self.world.trimming(spot)
        self.world.recorder.add(Delete(spot.place, end, self.world.recorder.now()))
        part = m.DeleteRecordsRequest.DeleteRecordsPartition(partition_index=spot.partition, offset=offset)
        topic = m.DeleteRecordsRequest.DeleteRecordsTopic(name=spot.topic, partitions=[part])
        process = self.world.sites[self.host].ends
        answer: Any = await self.once(m.DeleteRecordsRequest(topics=[topic], timeout_ms=5_000), 2)
        result = answer.topics[0].partitions[0]
        code = ErrorCode(result.error_code)
        assert code in RETRIABLE | GONE | {ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE}, f"DeleteRecords: {code.name}"
        # The answer of a process that was killed since may be on its way for long, and a kill may undo a deletion.
        if code is ErrorCode.NONE and process == self.world.sites[self.host].ends:
            self.world.trimmed(self.host, spot, result.low_watermark)

    async def _alter(self) -> None:
        spot = await self._some_spot("tvc")
        if spot is None:
            return
        Resource = m.IncrementalAlterConfigsRequest.AlterConfigsResource
        config = m.IncrementalAlterConfigsRequest.AlterableConfig(
            name="segment.ms", config_operation=SET, value=self.draw.choice(SEGMENT_MS)
        )
        resource = Resource(resource_type=TOPIC_RESOURCE, resource_name=spot.topic, configs=[config])
        answer = await self.once(m.IncrementalAlterConfigsRequest(resources=[resource]), 1)
        code = ErrorCode(answer.responses[0].error_code)
        assert code in RETRIABLE | GONE | {ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR}, f"alter: {code.name}"

    async def _grow(self) -> None:
        """Give a volatile topic another partition."""
        spot = await self._some_spot("v")
        if spot is None:
            return
        count = 1 + sum(each.topic == spot.topic for each in self.spots)
        if count > PARTITIONS_MAX:
            return
        topic = m.CreatePartitionsRequest.CreatePartitionsTopic(name=spot.topic, count=count, assignments=None)
        answer = await self.once(m.CreatePartitionsRequest(topics=[topic], timeout_ms=5_000), 3)
        code = ErrorCode(answer.results[0].error_code)
        allowed = {ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS, ErrorCode.UNKNOWN_SERVER_ERROR}
        assert code in RETRIABLE | GONE | allowed | self.may_refuse_create, f"CreatePartitions: {code.name}"
