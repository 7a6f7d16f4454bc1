"""An operator who describes the consumer group, removes static members, and deletes the group and its offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from tests.sim.world.clients.base import GONE, GROUP, RETRIABLE, Client
from tests.sim.world.groups import ARRIVES_US
from tests.sim.world.wire import Lost

if TYPE_CHECKING:
    from tests.sim.world.world import World

# Nothing was deleted.
REFUSED = frozenset(
    {
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)
# A record that could not be written is undone.
UNWRITTEN = frozenset({ErrorCode.UNKNOWN_SERVER_ERROR})
# In a cluster, the record was written before another broker became the coordinator; this one may have the record.
MOVED = frozenset({ErrorCode.NOT_COORDINATOR})


class Operator(Client):
    takes_volatile = False

    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.group = f"group-{host}"
        # Nothing was deleted.
        self.refused = REFUSED - MOVED if world.plan.is_cluster else REFUSED

    async def begin(self) -> None:
        await self.find_coordinator(self.group, GROUP)

    async def step(self) -> None:
        acts = [self._describe, self._delete_group, self._delete_group, self._delete_offset, self._remove_member]
        try:
            await self.draw.choice(acts)()
            self.successes += 1
        except Lost:
            await self.back_off()

    def _allow(self, what: str, code: ErrorCode, *more: ErrorCode) -> None:
        assert code in RETRIABLE | REFUSED | UNWRITTEN | GONE | {ErrorCode.NONE, *more}, f"{what}: {code.name}"

    async def _describe(self) -> None:
        found = (await self.once(m.DescribeGroupsRequest(groups=[self.group]), 6)).groups[0]
        self._allow("DescribeGroups", ErrorCode(found.error_code))
        ids = [each.member_id for each in found.members]
        assert len(set(ids)) == len(ids), f"{self.group} has members twice: {ids}"
        instances = [each.group_instance_id for each in found.members if each.group_instance_id]
        assert len(set(instances)) == len(instances), f"{self.group} has static members twice: {instances}"
        self._allow("ListGroups", ErrorCode((await self.once(m.ListGroupsRequest(), 5)).error_code))

    async def _delete_group(self) -> None:
        groups = self.world.groups
        if (deletion := groups.deleting(self.group)) is None:
            return
        answer = await self.once(m.DeleteGroupsRequest(groups_names=[self.group]), 2)
        code = ErrorCode(answer.results[0].error_code)
        self._allow("DeleteGroups", code)
        if code is ErrorCode.NONE:
            groups.check_was_empty(self.group, deletion, self.host)
            groups.deleted(self.group)
        elif code in self.refused:
            groups.refused(self.group, deletion)

    async def _delete_offset(self) -> None:
        await self.look()
        if not self.spots:
            return
        spot = self.draw.choice(self.spots)
        if (deletion := self.world.groups.deleting(self.group, spot.place)) is None:
            return
        part = m.OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=spot.partition)
        topic = m.OffsetDeleteRequest.OffsetDeleteRequestTopic(name=spot.topic, partitions=[part])
        answer = await self.once(m.OffsetDeleteRequest(group_id=self.group, topics=[topic]), 0)
        codes = {ErrorCode(answer.error_code)}
        codes |= {ErrorCode(part.error_code) for each in answer.topics for part in each.partitions}
        for code in codes:
            self._allow("OffsetDelete", code)
        if codes & self.refused:
            self.world.groups.refused(self.group, deletion)
        elif codes == {ErrorCode.NONE}:
            self.world.groups.deleted(self.group, spot.place)

    async def _remove_member(self) -> None:
        """Remove a static member, as `kafka-consumer-groups.sh` and Streams do: it begins again."""
        names = [client.name for client in self.world.all_clients if client.name.startswith("static")]
        names = [name for name in names if name.endswith(self.host)]
        if not names:
            return
        name = self.draw.choice(names)
        self.world.groups.silent(self.group, name, self.world.time.now_us + ARRIVES_US)
        identity = m.LeaveGroupRequest.MemberIdentity(member_id="", group_instance_id=name)
        answer = await self.once(m.LeaveGroupRequest(group_id=self.group, members=[identity]), 5)
        self.world.groups.silent(self.group, name, self.world.time.now_us)
        codes = [ErrorCode(answer.error_code), *(ErrorCode(each.error_code) for each in answer.members)]
        for code in codes:
            self._allow("LeaveGroup", code, ErrorCode.UNKNOWN_MEMBER_ID)
