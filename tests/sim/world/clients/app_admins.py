"""The administrator of a cluster with an application of broker_streams: it creates the topics of its results, and moves
replicas and leaders, also of internal topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from tests.sim.world.clients.base import RETRIABLE, Spot, place_of
from tests.sim.world.clients.cluster_admins import REFUSED, ClusterAdmin
from tests.sim.world.instances import APPLICATION, OUTPUTS

if TYPE_CHECKING:
    from tests.sim.world.world import World

# The source to which a partition is added: the other one has more.
GROWN = "t1"


class AppAdmin(ClusterAdmin):
    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.acts = [self._alter]
        if len(self.nodes) > 2:
            self.acts += [self._reassign, self._reassign, self._cancel, self._elect, self._elect]
        self._grows = self.draw.chance(0.3)
        if self._grows:
            self.acts.append(self._grow_source)

    def replication_of(self, topic: str) -> int:
        return len(self.nodes)

    async def look(self) -> None:
        answer: Any = await self.ask(m.MetadataRequest(topics=None, allow_auto_topic_creation=False), 13)
        self.spots = [
            Spot(each.name, each.topic_id, index, place_of(each.name, each.topic_id, index))
            for each in answer.topics
            if each.name[0] in "tc" or each.name in OUTPUTS or each.name.startswith(f"{APPLICATION}-")
            for index in sorted(part.partition_index for part in each.partitions)
            if not each.error_code
        ]

    async def _some_spot(self, kinds: str) -> Spot | None:
        await self.look()
        return self.draw.choice(self.spots) if self.spots else None

    async def begin(self) -> None:
        await super().begin()
        for topic, partitions in OUTPUTS.items():
            while topic not in await self._topics():
                if not await self._create(topic, partitions):
                    await self.back_off()

    async def _grow_source(self) -> None:
        """Add a partition, which changes no internal topic. Raises Lost."""
        topic = m.CreatePartitionsRequest.CreatePartitionsTopic(name=GROWN, count=2, assignments=None)
        answer = await self.once(m.CreatePartitionsRequest(topics=[topic], timeout_ms=5_000), 3)
        code = ErrorCode(answer.results[0].error_code)
        allowed = {ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS, *RETRIABLE, *REFUSED}
        assert code in allowed, f"{self.name}: CreatePartitions: {code.name}"
        if code in (ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS):
            self.acts.remove(self._grow_source)
