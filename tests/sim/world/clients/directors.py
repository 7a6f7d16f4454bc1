"""A manager of streams groups: besides the acts of a manager, it deletes internal topics, and commits offsets in groups
without members, which makes a classic group out of one that does not exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from tests.sim.world.clients.base import GONE, RETRIABLE
from tests.sim.world.clients.managers import Manager
from tests.sim.world.clients.streams_threads import INTERNAL, LASTING, VIEWS, WORDS
from tests.sim.world.wire import Lost

if TYPE_CHECKING:
    from tests.sim.world.world import World

NO_TOPIC_ID = UUID(int=0)
# A commit from outside is refused while the group has members.
HAS_MEMBERS = ErrorCode.UNKNOWN_MEMBER_ID


class Director(Manager):
    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.application = self.draw.choice([WORDS, VIEWS])
        self.group = f"{self.application}-{host}"

    async def step(self) -> None:
        if self.world.settles or self.draw.chance(0.6):
            return await super().step()
        try:
            await self.draw.choice([self._delete_internal, self._reset_offset])()
            self.successes += 1
        except Lost:
            await self.back_off()
        return None

    async def _describe(self) -> None:
        """Raises Lost, and AssertionError if two threads have one active task, or if an epoch is ahead of another."""
        found = (await self.once(m.StreamsGroupDescribeRequest(group_ids=[self.group]), 0)).groups[0]
        self._allow("StreamsGroupDescribe", ErrorCode(found.error_code))
        assert found.assignment_epoch <= found.group_epoch, f"{self.group}: {found.assignment_epoch} is assigned"
        owners: dict[tuple[str, int], str] = {}
        for member in found.members:
            epochs = f"{member.member_id} has epoch {member.member_epoch} of {found.assignment_epoch}"
            assert member.member_epoch <= found.assignment_epoch, f"{self.group}: {epochs}"
            for each in member.assignment.active_tasks:
                for partition in each.partitions:
                    owner = owners.setdefault((each.subtopology_id, partition), member.member_id)
                    names = f"{owner} and {member.member_id}"
                    assert owner == member.member_id, f"{self.group}: {names} have {each.subtopology_id}_{partition}"

    async def _delete_internal(self) -> None:
        """Delete an internal topic: the coordinator creates it again. Raises Lost."""
        name = self.draw.choice(sorted(INTERNAL[self.application]))
        state = m.DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=NO_TOPIC_ID)
        answer = await self.once(m.DeleteTopicsRequest(topics=[state], timeout_ms=5_000), 6)
        code = ErrorCode(answer.responses[0].error_code)
        assert code in RETRIABLE | GONE | {ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR}, f"DeleteTopics: {code.name}"

    async def _reset_offset(self) -> None:
        """Begin again at the first record. Raises Lost, and AssertionError if the group had a member."""
        await self.look()
        spots = [spot for spot in self.spots if spot.topic == LASTING[self.application][1]]
        if not spots:
            return
        groups, spot = self.world.groups, self.draw.choice(spots)
        if (deletion := groups.deleting(self.group, spot.place)) is None:
            return
        Topic = m.OffsetCommitRequest.OffsetCommitRequestTopic
        part = m.OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=spot.partition, committed_offset=0)
        request = m.OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[Topic(name=spot.topic, partitions=[part])],
        )
        answer = await self.once(request, 9)
        code = ErrorCode(answer.topics[0].partitions[0].error_code)
        self._allow("OffsetCommit", code, HAS_MEMBERS)
        if code is ErrorCode.NONE:
            groups.check_was_empty(self.group, deletion, self.host)
            groups.deleted(self.group, spot.place)
        elif code in self.refused | {HAS_MEMBERS}:
            groups.refused(self.group, deletion)
