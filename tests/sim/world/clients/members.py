"""A member of a classic consumer group: it joins, reads the stable topics, commits and leaves.

Checked here: nobody owns a partition twice in one generation, and an acknowledged commit is found later.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from tests.sim.world.clients.base import GONE, GROUP, RETRIABLE, Spot
from tests.sim.world.clients.readers import EARLIEST, Fetcher
from tests.sim.world.wire import Lost

if TYPE_CHECKING:
    from tests.sim.world.world import World

SESSION_MS, REBALANCE_MS = 6_000, 8_000
JOIN_TIMEOUT_S = 20.0
# The member must join again.
REJOIN = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)


class Member(Fetcher):
    takes_volatile = False

    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.group = f"group-{host}"
        self.committed = True
        self.instance_id: str | None = None
        self.member_id = ""
        self.generation = -1

    async def begin(self) -> None:
        await self.find_coordinator(self.group, GROUP)

    async def step(self) -> None:
        if self.generation < 0 and not await self._join():
            return await self.back_off()
        choice = self.draw.random()
        if choice < 0.04:
            return await self._leave()
        if choice < 0.07:
            # It hangs, and its session ends; or it comes back in time.
            return await asyncio.sleep(self.draw.choice([1.0, 2 * SESSION_MS / 1000]))
        try:
            if self.positions:
                await self.poll(list(self.positions), self.draw.choice([0, 50]))
            if choice < 0.6:
                await self._commit()
            else:
                request = m.HeartbeatRequest(
                    group_id=self.group,
                    generation_id=self.generation,
                    member_id=self.member_id,
                    group_instance_id=self.instance_id,
                )
                self._react(ErrorCode((await self.once(request, 4)).error_code))
        except Lost:
            await self.back_off()
        return None

    async def finish(self) -> None:
        await self._leave()

    def _react(self, code: ErrorCode) -> bool:
        """Take over what an answer says about the membership; returns whether the request succeeded."""
        if code is ErrorCode.NONE:
            self.successes += self.generation >= 0
            return True
        if code in REJOIN:
            self.generation = -1
            if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                self.member_id = ""
            return False
        assert code in RETRIABLE, f"{self.name}: {code.name}"
        return False

    async def _leave(self) -> None:
        if self.member_id:
            identity = m.LeaveGroupRequest.MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
            try:
                await self.once(m.LeaveGroupRequest(group_id=self.group, members=[identity]), 5)
            except Lost:
                await self.back_off()
        self.member_id, self.generation = "", -1

    # --- joining

    async def _join(self) -> bool:
        await self.look()
        protocol = m.JoinGroupRequest.JoinGroupRequestProtocol(name="all", metadata=b"")
        request = m.JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[protocol],
        )
        try:
            channel = await self.connected()
            joined = await channel.send(request, 9, JOIN_TIMEOUT_S)
            if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = joined.member_id
                return False
            if not self._react(ErrorCode(joined.error_code)):
                return False
            self.member_id = joined.member_id
            # A leader that has replaced itself in a stable group leaves the assignment as it is (KIP-814).
            shares = joined.leader == joined.member_id and not joined.skip_assignment
            assignments = self._share(joined) if shares else []
            synced = await channel.send(
                m.SyncGroupRequest(
                    group_id=self.group,
                    generation_id=joined.generation_id,
                    member_id=self.member_id,
                    group_instance_id=self.instance_id,
                    protocol_type="consumer",
                    protocol_name="all",
                    assignments=assignments,
                ),
                5,
                JOIN_TIMEOUT_S,
            )
            if not self._react(ErrorCode(synced.error_code)):
                return False
            self.generation = joined.generation_id
            return await self._take_over(json.loads(bytes(synced.assignment)))
        except Lost:
            return False

    def _share(self, joined: Any) -> list[Any]:
        """The leader's part: partitions in turns."""
        members = sorted(each.member_id for each in joined.members)
        shares: dict[str, list[list[Any]]] = {each: [] for each in members}
        for at, spot in enumerate(self.spots):
            shares[members[at % len(members)]].append([spot.topic, spot.partition])
        return [
            m.SyncGroupRequest.SyncGroupRequestAssignment(member_id=each, assignment=json.dumps(share).encode())
            for each, share in shares.items()
        ]

    async def _take_over(self, share: list[list[Any]]) -> bool:
        """Begin with the assigned partitions where the group has committed. Raises Lost."""
        by_name = {(spot.topic, spot.partition): spot for spot in self.spots}
        mine = [by_name[topic, partition] for topic, partition in share if (topic, partition) in by_name]
        for spot in mine:
            self.world.groups.own(self.group, self.generation, spot.place, self.instance_id or self.member_id)
        positions: dict[Spot, int] = {}
        for spot in mine:
            offset = await self._fetched(spot)
            if offset is None:
                self.generation = -1
                return False
            positions[spot] = offset
        self.assign(positions, unknown=True)
        return True

    async def _fetched(self, spot: Spot) -> int | None:
        """The committed offset, or the start of the partition; None if it cannot be read."""
        topic = m.OffsetFetchRequest.OffsetFetchRequestTopics(name=spot.topic, partition_indexes=[spot.partition])
        group = m.OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id=self.group, member_id=self.member_id, member_epoch=self.generation, topics=[topic]
        )
        acknowledged = self.world.groups.committed(self.group, spot.place)
        answer = (await self.once(m.OffsetFetchRequest(groups=[group], require_stable=True), 9)).groups[0]
        codes = {ErrorCode(answer.error_code)}
        if answer.topics:
            codes.add(ErrorCode(answer.topics[0].partitions[0].error_code))
        codes.discard(ErrorCode.NONE)
        if codes:
            assert codes <= RETRIABLE | GONE | REJOIN, f"{self.name}: OffsetFetch: {codes}"
            return None
        found = int(answer.topics[0].partitions[0].committed_offset)
        self.world.groups.check_fetched(self.group, spot.place, found, acknowledged)
        return found if found >= 0 else await self.offset_of(spot, EARLIEST)

    def _commit_request(self, positions: dict[Spot, int], member_id: str) -> Any:
        Topic = m.OffsetCommitRequest.OffsetCommitRequestTopic
        Part = m.OffsetCommitRequest.OffsetCommitRequestPartition
        return m.OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=member_id,
            group_instance_id=self.instance_id,
            topics=[
                Topic(name=spot.topic, partitions=[Part(partition_index=spot.partition, committed_offset=at)])
                for spot, at in positions.items()
            ],
        )

    async def _commit(self) -> None:
        """Commit all positions. Raises Lost."""
        positions = dict(self.positions)
        if not positions:
            return
        answer = await self.once(self._commit_request(positions, self.member_id), 9)
        codes = [ErrorCode(part.error_code) for topic in answer.topics for part in topic.partitions]
        for (spot, at), code in zip(positions.items(), codes, strict=True):
            if code is ErrorCode.NONE:
                self.world.groups.commit(self.group, spot.place, at)
        for code in codes:
            self._react(code)


class StaticMember(Member):
    """A member with an instance id (KIP-345): it restarts without leaving, and takes over from itself."""

    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.instance_id = name

    async def step(self) -> None:
        if self.generation >= 0 and self.draw.chance(0.15):
            return await self._restart()
        return await super().step()

    async def _restart(self) -> None:
        """Join as a new process would. Raises AssertionError if the one before can still commit."""
        before, self.member_id, self.generation = self.member_id, "", -1
        if not await self._join() or not self.positions:
            return
        try:
            answer = await self.once(self._commit_request(dict(self.positions), before), 9)
        except Lost:
            return
        codes = {ErrorCode(part.error_code) for topic in answer.topics for part in topic.partitions}
        assert codes <= RETRIABLE | REJOIN, f"{self.name}: a commit of {before}, which was replaced: {codes}"
