"""An operator of groups of the consumer protocol: the same acts, and it describes them by ConsumerGroupDescribe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from tests.sim.world.clients.operators import Operator

if TYPE_CHECKING:
    from tests.sim.world.world import World


class Manager(Operator):
    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.group = self.draw.choice([f"consumers-{host}", f"mixed-{host}"])

    async def _describe(self) -> None:
        """Raises Lost, and AssertionError if two members have one partition, or if an epoch is ahead of another."""
        found = (await self.once(m.ConsumerGroupDescribeRequest(group_ids=[self.group]), 1)).groups[0]
        self._allow("ConsumerGroupDescribe", ErrorCode(found.error_code))
        assert found.assignment_epoch <= found.group_epoch, f"{self.group}: {found.assignment_epoch} is assigned"
        owners: dict[tuple[object, int], str] = {}
        for member in found.members:
            epochs = f"{member.member_id} has epoch {member.member_epoch} of {found.assignment_epoch}"
            assert member.member_epoch <= found.assignment_epoch, f"{self.group}: {epochs}"
            for topic in member.assignment.topic_partitions:
                for partition in topic.partitions:
                    owner = owners.setdefault((topic.topic_id, partition), member.member_id)
                    names = f"{owner} and {member.member_id}"
                    assert owner == member.member_id, f"{self.group}: {names} have {topic.topic_name}-{partition}"
