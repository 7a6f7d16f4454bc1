"""An administrator that prefers a partition with lost records to one without a leader. It allows and forbids unclean
elections for one topic, and elects leaders for leaderless partitions (ElectLeaders of type UNCLEAN).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker_cy.controller.elections import UNCLEAN
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from tests.sim.world.clients.admins import SET, TOPIC_RESOURCE
from tests.sim.world.clients.base import GONE, RETRIABLE
from tests.sim.world.clients.cluster_admins import ClusterAdmin

if TYPE_CHECKING:
    from tests.sim.world.world import World

TOPIC, PARTITIONS = "u0", 3
SETTING = "unclean.leader.election.enable"
# The partition has a leader, or no replica that could become one.
REFUSED = frozenset({ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE})


class UncleanAdmin(ClusterAdmin):
    takes_unclean = True

    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.acts = [self._allow, self._elect_uncleanly, self._elect_uncleanly, self._elect_uncleanly]

    def settings_of(self, topic: str) -> dict[str, str]:
        more = {"min.insync.replicas": "1", SETTING: self.draw.choice(["false", "true"])}
        return super().settings_of(topic) | more

    def replication_of(self, topic: str) -> int:
        return 3

    async def begin(self) -> None:
        while TOPIC not in await self._topics():
            if not await self._create(TOPIC, PARTITIONS):
                await self.back_off()

    async def _allow(self) -> None:
        Resource = m.IncrementalAlterConfigsRequest.AlterConfigsResource
        value = self.draw.choice(["false", "true"])
        config = m.IncrementalAlterConfigsRequest.AlterableConfig(name=SETTING, config_operation=SET, value=value)
        resource = Resource(resource_type=TOPIC_RESOURCE, resource_name=TOPIC, configs=[config])
        answer: Any = await self.once(m.IncrementalAlterConfigsRequest(resources=[resource]), 1)
        self._check("IncrementalAlterConfigs", answer.responses[0].error_code)

    async def _elect_uncleanly(self) -> None:
        """Elect leaders for the partitions that have none, according to the broker that answers."""
        answer: Any = await self.once(m.MetadataRequest(topics=None, allow_auto_topic_creation=False), 13)
        parts = [
            part.partition_index
            for topic in answer.topics
            for part in topic.partitions
            if topic.name == TOPIC and part.leader_id < 0
        ]
        if not parts:
            return
        asked = m.ElectLeadersRequest.TopicPartitions(topic=TOPIC, partitions=parts)
        request = m.ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=[asked], timeout_ms=5_000)
        answer = await self.once(request, 2)
        self._check("ElectLeaders", answer.error_code)
        for each in answer.replica_election_results:
            for found in each.partition_result:
                code = ErrorCode(found.error_code)
                assert code in RETRIABLE | GONE | REFUSED | {ErrorCode.NONE}, f"{self.name}: ElectLeaders: {code.name}"
                if code is ErrorCode.NONE:
                    self.world.note(f"{self.name}: {TOPIC}-{found.partition_id} has a leader that may lack records")
