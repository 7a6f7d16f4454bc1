"""An administrator of a cluster: as one of a single broker, and it moves partitions between brokers and leadership to
preferred replicas. Which broker answers is up to the router, so what was done may not be seen at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from tests.sim.world.clients.admins import Admin
from tests.sim.world.clients.base import GONE, RETRIABLE
from tests.sim.world.cluster import node_of

if TYPE_CHECKING:
    from tests.sim.world.world import World

PREFERRED = 0
# The controller could not do it now, or there was nothing to do.
REFUSED = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.REASSIGNMENT_IN_PROGRESS,
    }
)


class ClusterAdmin(Admin):
    may_refuse_create = REFUSED
    sees_at_once = False
    pauses_when_refused = True

    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.nodes = [node_of(each) for each, machine in world.machines.items() if machine.is_broker]
        self.acts = [*self.acts, *2 * (self._reassign, self._reassign, self._cancel, self._elect)]

    def settings_of(self, topic: str) -> dict[str, str]:
        settings = super().settings_of(topic)
        # Below the broker's two: a record that one replica alone has survives only if power is never lost unsynced.
        if topic == "t1" and self.world.keeps_unsynced:
            settings["min.insync.replicas"] = "1"
        return settings

    def replication_of(self, topic: str) -> int:
        if topic[0] != "v":
            return 3
        # A power cut may take the only copy of what was acknowledged.
        return max(self.draw.choice([1, 2, 3]), 1 if self.world.keeps_unsynced else 2)

    def _check(self, what: str, code: int) -> None:
        found = ErrorCode(code)
        assert found in RETRIABLE | GONE | REFUSED | {ErrorCode.NONE}, f"{self.name}: {what}: {found.name}"

    async def _alter_replicas(self, replicas: list[int] | None) -> None:
        """Begin a reassignment of some partition, or cancel it. Raises Lost."""
        spot = await self._some_spot("tcv")
        if spot is None:
            return
        part = m.AlterPartitionReassignmentsRequest.ReassignablePartition(
            partition_index=spot.partition, replicas=replicas
        )
        topic = m.AlterPartitionReassignmentsRequest.ReassignableTopic(name=spot.topic, partitions=[part])
        answer: Any = await self.once(m.AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=5_000), 0)
        self._check("AlterPartitionReassignments", answer.error_code)
        for each in answer.responses:
            for found in each.partitions:
                self._check("AlterPartitionReassignments", found.error_code)

    async def _reassign(self) -> None:
        # Fewer than min.insync.replicas would refuse every record.
        await self._alter_replicas(self.draw.sample(self.nodes, self.draw.choice([2, 3, 3])))

    async def _cancel(self) -> None:
        await self._alter_replicas(None)

    async def _elect(self) -> None:
        answer: Any = await self.once(
            m.ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None, timeout_ms=5_000), 2
        )
        self._check("ElectLeaders", answer.error_code)
        for each in answer.replica_election_results:
            for found in each.partition_result:
                self._check("ElectLeaders", found.error_code)
