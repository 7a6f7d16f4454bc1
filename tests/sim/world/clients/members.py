"""A member of a classic consumer group: it joins, reads the stable topics, commits and leaves. It also hangs with and
without heartbeats, ends without leaving, rejoins with other subscriptions, and repeats requests of past generations.
The invariants are in tests.sim.world.groups.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from tests.sim.world.clients.base import GONE, GROUP, RETRIABLE, Spot
from tests.sim.world.clients.readers import EARLIEST, Fetcher
from tests.sim.world.groups import LATE_US, REBALANCE_MS, SESSION_MS, SIZE_MAX
from tests.sim.world.wire import Lost

if TYPE_CHECKING:
    from tests.sim.world.world import World

# Each of the two phases of a rebalance ends within the rebalance timeout, and one may have begun before. Slow links
# need some more time.
JOIN_TIMEOUT_S = (2 * REBALANCE_MS + SESSION_MS) / 1000 + 2.0
# The newest version of JoinGroup, and older ones: without the type of protocol, without instance ids, and without
# MEMBER_ID_REQUIRED.
JOIN_VERSIONS, STATIC_JOIN_VERSIONS = (9, 9, 9, 6, 4, 3), (9, 9, 5)
PAST_MAX = 20
# The member must join again.
REJOIN = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.FENCED_INSTANCE_ID,
        # The first commit may come from a member of a group that was deleted in the meantime.
        ErrorCode.GROUP_ID_NOT_FOUND,
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
        self.join_version = self.draw.choice(JOIN_VERSIONS)
        # The life of the group in which it joined, and memberships before.
        self.life = 0
        # The process of the broker that gave it its newest assignment.
        self.process = -1
        self.past: deque[tuple[int, str, int]] = deque(maxlen=PAST_MAX)

    async def begin(self) -> None:
        await self.find_coordinator(self.group, GROUP)

    async def step(self) -> None:
        if self.generation < 0 and not await self._join():
            return await self.back_off()
        act = self.draw.random()
        if act < 0.04:
            return await self._leave()
        if act < 0.07:
            return await self._hang(self.draw.choice([0.5, 2 * SESSION_MS / 1000]))
        if act < 0.09:
            return self._crash()
        if act < 0.12:
            # It rejoins with its current state: another subscription, or a cooperative rebalance.
            return self._end_generation()
        try:
            if act < 0.2 and self.past:
                return await self._late(self.draw.choice(list(self.past)))
            if self.positions and self.draw.chance(0.8):
                await self.poll(list(self.positions), self.draw.choice([0, 50]))
            if act < 0.6:
                await self._commit()
            else:
                await self._beat()
        except Lost:
            await self.back_off()
        return None

    async def finish(self) -> None:
        await self._leave()

    # --- the membership

    def _react(self, code: ErrorCode) -> bool:
        """Adopt the membership in an answer; returns whether the request succeeded."""
        groups = self.world.groups
        if code is ErrorCode.NONE:
            self.successes += self.generation >= 0
            return True
        if code is ErrorCode.GROUP_MAX_SIZE_REACHED:
            # It was refused in time.
            self.successes += 1
            self._end_generation()
            self.member_id = ""
            return False
        if code in REJOIN:
            if code is ErrorCode.UNKNOWN_MEMBER_ID and self.instance_id is None:
                groups.check_dropped(self.group, self.name, self.host)
            self._end_generation()
            if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_ID_NOT_FOUND):
                self.member_id = ""
            return False
        assert code in RETRIABLE, f"{self.name}: {code.name}"
        return False

    def _end_generation(self) -> None:
        """The member has to join again. Its requests of before may still be on their way."""
        if self.generation >= 0:
            self.past.append((self.life, self.member_id, self.generation))
        self.generation = -1
        self.world.groups.silent(self.group, self.name, self.world.time.now_us)

    async def _beat(self) -> ErrorCode:
        """Send a heartbeat. Raises Lost."""
        sent_us, life, generation = self.world.time.now_us, self.life, self.generation
        code = await self._heartbeat(self.member_id, generation)
        if self._react(code):
            self.world.groups.check_goes_on(self.group, life, generation, self.host, sent_us)
            self.world.groups.heard(self.group, self.name, sent_us)
        return code

    async def _heartbeat(self, member_id: str, generation: int) -> ErrorCode:
        request = m.HeartbeatRequest(
            group_id=self.group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=self.instance_id,
        )
        return ErrorCode((await self.once(request, 4)).error_code)

    async def _hang(self, seconds: float) -> None:
        """Send nothing. Raises AssertionError if the session continues nevertheless."""
        began_us, life, member_id, generation = self.world.time.now_us, self.life, self.member_id, self.generation
        ends_us = began_us + SESSION_MS * 1000 + LATE_US
        self.world.groups.silent(self.group, self.name, began_us)
        self._expires(ends_us)
        await asyncio.sleep(seconds)
        sent_us = self.world.time.now_us
        with suppress(Lost):
            code = await self._heartbeat(member_id, generation)
            if sent_us > ends_us and self.world.sites[self.host].is_calm_since(began_us):
                assert code is not ErrorCode.NONE, f"{self.name} sent nothing for {seconds} s, and is a member"
            elif sent_us < ends_us and life == self.life:
                # It came back in time.
                self.world.groups.member_came(self.group, life, generation, self.host, ends_us)
            self._react(code)

    def _crash(self) -> None:
        """End without leaving, and begin again: a static member may take its own place."""
        if self.instance_id is None:
            self._expires(self.world.time.now_us + SESSION_MS * 1000 + LATE_US)
        self._end_generation()
        self.member_id = ""
        self.hang_up()

    def _expires(self, at_us: int) -> None:
        self.world.groups.member_went(self.group, self.life, self.generation, self.host, at_us)

    async def _leave(self) -> None:
        if self.member_id:
            self.world.groups.silent(self.group, self.name, self.world.time.now_us)
            identity = m.LeaveGroupRequest.MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
            try:
                answer = await self.once(m.LeaveGroupRequest(group_id=self.group, members=[identity]), 5)
                if not answer.error_code and not answer.members[0].error_code:
                    self._expires(self.world.time.now_us)
            except Lost:
                await self.back_off()
        self._end_generation()
        self.member_id = ""

    async def _late(self, past: tuple[int, str, int]) -> None:
        """A request of a generation that is over arrives late. Raises Lost, and AssertionError if it succeeds."""
        life, member_id, generation = past
        if not self.world.groups.is_over(self.group, life, generation):
            return
        kind = self.draw.choice(["heartbeat", "commit", "sync"] if self.spots else ["heartbeat", "sync"])
        if kind == "heartbeat":
            codes = {await self._heartbeat(member_id, generation)}
        elif kind == "commit":
            request = self._commit_request({self.draw.choice(self.spots): 0}, member_id, generation)
            answer = await self.once(request, 9)
            codes = {ErrorCode(part.error_code) for topic in answer.topics for part in topic.partitions}
        else:
            answer = await (await self.connected()).send(
                self._sync_request(member_id, generation, "all", []), 5, JOIN_TIMEOUT_S
            )
            codes = {ErrorCode(answer.error_code)}
        if kind == "heartbeat" and self.process != self.world.sites[self.host].ends:
            # The group may be loading, which lets every heartbeat pass.
            return
        if self.world.groups.is_over(self.group, life, generation):
            assert ErrorCode.NONE not in codes, f"{self.name}: a late {kind} of {past} is accepted"

    # --- joining

    async def _join(self) -> bool:
        await self.look()
        protocols = [("all", b""), ("other", b"." * self.draw.randrange(3))]
        if self.draw.chance(0.3):
            protocols.reverse()
        request = m.JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[
                m.JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=content) for name, content in protocols
            ],
        )
        self.life = self.world.groups.life(self.group)
        process = self.world.sites[self.host].ends
        began_us = self.world.time.now_us
        try:
            if self.member_id and self.draw.chance(0.05):
                return await self._join_twice(request)
            channel = await self.connected()
            began_us = self.world.time.now_us
            joined = await channel.send(request, self.join_version, JOIN_TIMEOUT_S)
            if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                # Some never come back with the member id that they were given.
                self.member_id = joined.member_id if self.draw.chance(0.9) else ""
                return False
            if not self._react(ErrorCode(joined.error_code)):
                return False
            self.member_id = joined.member_id
            # Static members stay beyond the limit. They are known by their ids: answers before version 5 do not say it.
            dynamic = sum(not each.member_id.startswith("static") for each in joined.members)
            assert dynamic <= SIZE_MAX, f"{self.group} has {dynamic} members"
            # A leader that has replaced itself in a stable group leaves the assignment as it is (KIP-814).
            shares = joined.leader == joined.member_id and not (self.join_version >= 9 and joined.skip_assignment)
            if shares and self.instance_id is None and process == self.world.sites[self.host].ends:
                self.world.groups.lead(self.group, joined.generation_id, self.member_id, self.host)
            if self.draw.chance(0.06) and not await self._dawdle(joined.generation_id):
                return False
            assignments = self._share(joined) if shares else []
            began_us = self.world.time.now_us
            synced = await channel.send(
                self._sync_request(self.member_id, joined.generation_id, joined.protocol_name, assignments),
                5,
                JOIN_TIMEOUT_S,
            )
            if not self._react(ErrorCode(synced.error_code)):
                if synced.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                    self.world.groups.unled(self.group, joined.generation_id, joined.member_id, self.host)
                return False
            self.generation, self.process = joined.generation_id, process
            self.world.groups.assigned(self.group, self.life, self.generation)
            return await self._take_over(json.loads(bytes(synced.assignment)))
        except Lost:
            self._check_waited(began_us)
            if self.generation >= 0:
                # It does not know the group's positions in its partitions, and has those of an earlier generation.
                self._end_generation()
            return False

    def _check_waited(self, began_us: int) -> None:
        """A request from `began_us` was not answered. Raises AssertionError if nothing explains that."""
        passed_us = self.world.time.now_us - began_us
        is_calm = self.world.sites[self.host].is_calm_since(began_us)
        assert not is_calm or passed_us < (JOIN_TIMEOUT_S - 0.1) * 1e6, f"{self.name} got no answer for {passed_us} us"

    async def _join_twice(self, request: Any) -> bool:
        """Join, and again over another connection: both are answered. Raises Lost."""
        began_us = self.world.time.now_us
        first = (await self.connected()).send(request, self.join_version, JOIN_TIMEOUT_S)
        second = self.new_channel()
        await second.open()
        answer = await second.send(request, self.join_version, JOIN_TIMEOUT_S)
        try:
            await first
        except Lost:
            self._check_waited(began_us)
        finally:
            second.close()
        self._react(ErrorCode(answer.error_code))
        # Its part of this generation is left to the sync timeout.
        self._end_generation()
        return False

    async def _dawdle(self, generation: int) -> bool:
        """Do not sync for a while, or never: with heartbeats, without, or as a process that has ended. Returns whether
        to continue. Raises Lost.
        """
        how = self.draw.randrange(3)
        if how == 0:
            self._crash()
            return False
        for _ in range(self.draw.choice([1, 4, 2 * REBALANCE_MS // 500])):
            await asyncio.sleep(0.5)
            if how == 1 and await self._heartbeat(self.member_id, generation) is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
                return False
        return True

    def _sync_request(self, member_id: str, generation: int, protocol: str, assignments: list[Any]) -> Any:
        return m.SyncGroupRequest(
            group_id=self.group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=protocol,
            assignments=assignments,
        )

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
            owner = self.instance_id or self.member_id
            self.world.groups.own(self.group, self.life, self.generation, spot.place, owner)
        positions: dict[Spot, int] = {}
        for spot in mine:
            offset = await self._fetched(spot)
            if offset is None:
                self._end_generation()
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
        groups = self.world.groups
        life, acknowledged = groups.life(self.group), groups.committed(self.group, spot.place)
        answer = (await self.once(m.OffsetFetchRequest(groups=[group], require_stable=True), 9)).groups[0]
        codes = {ErrorCode(answer.error_code)}
        if answer.topics:
            codes.add(ErrorCode(answer.topics[0].partitions[0].error_code))
        codes.discard(ErrorCode.NONE)
        if codes:
            assert codes <= RETRIABLE | GONE | REJOIN, f"{self.name}: OffsetFetch: {codes}"
            return None
        found = int(answer.topics[0].partitions[0].committed_offset)
        groups.check_fetched(self.group, life, spot.place, found, acknowledged)
        return found if found >= 0 else await self.offset_of(spot, EARLIEST)

    def _commit_request(self, positions: dict[Spot, int], member_id: str, generation: int) -> Any:
        Topic = m.OffsetCommitRequest.OffsetCommitRequestTopic
        Part = m.OffsetCommitRequest.OffsetCommitRequestPartition
        return m.OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=generation,
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
        life = self.world.groups.life(self.group)
        answer = await self.once(self._commit_request(positions, self.member_id, self.generation), 9)
        codes = [ErrorCode(part.error_code) for topic in answer.topics for part in topic.partitions]
        for (spot, at), code in zip(positions.items(), codes, strict=True):
            if code is ErrorCode.NONE:
                self.world.groups.commit(self.group, life, spot.place, at)
        for code in codes:
            if code not in self._unknown:
                self._react(code)

    @property
    def _unknown(self) -> frozenset[ErrorCode]:
        """Errors of a commit to a topic that the coordinator's broker does not know yet; the leader of it does."""
        return GONE if self.world.plan.is_cluster else frozenset()


class StaticMember(Member):
    """A member with an instance id (KIP-345): it restarts without leaving, and takes over from itself."""

    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.instance_id = name
        self.join_version = self.draw.choice(STATIC_JOIN_VERSIONS)

    async def step(self) -> None:
        if self.generation >= 0 and self.draw.chance(0.15):
            return await self._restart()
        return await super().step()

    async def _restart(self) -> None:
        """Join as a new process would. Raises AssertionError if the one before can still commit."""
        self._end_generation()
        before, self.member_id = self.member_id, ""
        if not await self._join() or not self.positions:
            return
        try:
            answer = await self.once(self._commit_request(dict(self.positions), before, self.generation), 9)
        except Lost:
            return
        codes = {ErrorCode(part.error_code) for topic in answer.topics for part in topic.partitions}
        assert codes <= RETRIABLE | REJOIN | self._unknown, (
            f"{self.name}: a commit of {before}, which was replaced: {codes}"
        )
