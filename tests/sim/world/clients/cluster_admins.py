"""An administrator of a cluster. Like the one of a single broker, but it also moves partitions between brokers, even
away from those that are down, and leadership to preferred replicas. The router chooses the broker that answers, so a
change may not be visible immediately.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from tests.sim.world.clients.admins import Admin
from tests.sim.world.clients.base import GONE, RETRIABLE, Spot
from tests.sim.world.cluster import node_of
from tests.sim.world.wire import Lost

if TYPE_CHECKING:
    from tests.sim.world.machine import Machine
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


class Moved(NamedTuple):
    """A partition of a topic that was moved away from a broker that was down."""

    spot: Spot
    machine: Machine


class ClusterAdmin(Admin):
    may_refuse_create = REFUSED
    sees_at_once = False
    pauses_when_refused = True

    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.nodes = [node_of(each) for each, machine in self.cluster.machines.items() if machine.is_broker]
        self.acts = [*self.acts, *2 * (self._reassign, self._reassign, self._cancel, self._elect)]
        self._moved: Moved | None = None

    async def step(self) -> None:
        moved = self._moved
        if self.world.settles:
            return await super().step()
        if moved is not None and moved.machine.is_started:
            act = self._create_again
        elif moved is None and self._down() and self.draw.chance(0.4):
            act = self._move_away
        else:
            return await super().step()
        try:
            await act()
            self.successes += 1
        except Lost:
            await self.back_off()
        return None

    def _down(self) -> list[Machine]:
        return [each for each in self.cluster.machines.values() if each.is_broker and each.server is None]

    async def _some_spot(self, kinds: str) -> Spot | None:
        """Not of a topic that was moved away from a broker that is still down."""
        spot = await super()._some_spot(kinds)
        is_moved = spot is not None and self._moved is not None and spot.topic_id == self._moved.spot.topic_id
        return None if is_moved else spot

    def settings_of(self, topic: str) -> dict[str, str]:
        settings = super().settings_of(topic)
        # Below the broker's two: a record that one replica alone has survives only if power is never lost unsynced.
        if topic == "t1" and self.world.keeps_single:
            settings["min.insync.replicas"] = "1"
        return settings

    def replication_of(self, topic: str) -> int:
        if topic[0] != "v":
            return 3
        # A power cut may take the only copy of acknowledged records.
        return max(self.draw.choice([1, 2, 3, 3]), 1 if self.world.keeps_single else 2)

    def _check(self, what: str, code: int) -> None:
        found = ErrorCode(code)
        assert found in RETRIABLE | GONE | REFUSED | {ErrorCode.NONE}, f"{self.name}: {what}: {found.name}"

    async def _alter_replicas(self, replicas: list[int] | None) -> None:
        """Begin a reassignment of some partition, or cancel it. Raises Lost."""
        spot = await self._some_spot("tcv")
        if spot is not None:
            await self._alter_spot(spot, replicas)

    async def _alter_spot(self, spot: Spot, replicas: list[int] | None) -> None:
        """The same, for this partition."""
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

    async def _move_away(self) -> None:
        """Move a volatile topic away from a broker that is down, where others have it, too."""
        gone = self.draw.choice(self._down())
        others = [node for node in self.nodes if node != node_of(gone.host)]
        at = await self._spots_on(node_of(gone.host))
        if at:
            moved = self.draw.choice(at)
            self._moved = Moved(moved, gone)
            for spot in at:
                if spot.topic_id == moved.topic_id:
                    await self._alter_spot(spot, others)

    async def _spots_on(self, node: int) -> list[Spot]:
        """The partitions of volatile topics that have a replica on this broker and on another one."""
        await self.look()
        answer: Any = await self.once(m.MetadataRequest(topics=None, allow_auto_topic_creation=False), 13)
        there = {
            (topic.topic_id, part.partition_index)
            for topic in answer.topics
            for part in topic.partitions
            if node in part.replica_nodes and len(part.replica_nodes) > 1
        }
        return [each for each in self.spots if each.topic[0] == "v" and (each.topic_id, each.partition) in there]

    async def _create_again(self) -> None:
        """Recreate the topic; that broker, which is back, leads it. Its leftovers of the old topic do not belong to the
        new one.
        """
        assert self._moved is not None
        spot, machine = self._moved
        await self._delete(spot.topic, spot.topic_id)
        first = node_of(machine.host)
        await self._create(spot.topic, 1, [first, *(node for node in self.nodes if node != first)])
        self._moved = None

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
