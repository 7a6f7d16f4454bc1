"""A member of a consumer group (KIP-848): by heartbeats it joins, learns its partitions, gives some of them up, and
leaves. It also hangs, ends without leaving, changes its subscription, repeats joins that were not answered, and commits
late. The invariants are in tests.sim.world.owners and tests.sim.world.groups.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from broker_cy.coordinator.pattern import Pattern
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from tests.history.operations import Place
from tests.sim.world.clients.base import GONE, GROUP, RETRIABLE, Spot
from tests.sim.world.clients.readers import EARLIEST, Fetcher
from tests.sim.world.groups import ARRIVES_US, LATE_US, REBALANCE_MS, SESSION_MS
from tests.sim.world.owners import Mark
from tests.sim.world.wire import Lost

if TYPE_CHECKING:
    from tests.sim.world.world import World

Piece = tuple[UUID, int]
JOIN, LEAVE, LEAVE_FOR_A_WHILE = 0, -1, -2
UNCHANGED_MS = -1
NAMES = (("t0", "t1", "c0"), ("t0", "t1", "c0"), ("t0", "t1"), ("t0",), ("c0", "t1"))
REGEXES = ("t.*", "[tc]0", "t0|c0")
# The first expression of a process loads the library: no broker of the world reads it from its disk.
Pattern(REGEXES[0])
PAST_MAX = 20
# It is no member any more, and has to join again.
DROPPED = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
        # In a full group, the size is checked first.
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    }
)


class Past(NamedTuple):
    """A membership, or an epoch of it, that is over since `at_us`."""

    life: int
    member_id: str
    epoch: int
    pieces: frozenset[Piece]
    at_us: int


class Consumer(Fetcher):
    takes_volatile = False
    # Whether epochs of its group never begin again, but by a deletion.
    has_lasting_epochs = True

    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.group = f"consumers-{host}"
        self.committed = True
        self.instance_id: str | None = None
        self.processes = 0
        self.member_id = ""
        # 0: not a member.
        self.epoch = 0
        self.life = 0
        # Its assigned partitions, and those that it has to give up.
        self.owned: set[Piece] = set()
        self.revoking: set[Piece] = set()
        self.known: dict[Piece, Spot] = {}
        # It sends everything with its next heartbeat, because an answer may be lost; or only what it owns.
        self.is_full = self.reports = False
        # The time of the first heartbeat without an answer since the last answer, and since when it may have to give
        # partitions up.
        self.unanswered_us: int | None = None
        self.revokes_us: int | None = None
        self.names: tuple[str, ...] | None = None
        self.regex: str | None = None
        self.past: deque[Past] = deque(maxlen=PAST_MAX)

    async def begin(self) -> None:
        await self.find_coordinator(self.group, GROUP)
        self._new_process()

    async def step(self) -> None:
        try:
            if not self.epoch:
                if not await self._join():
                    await self.back_off()
                return
            await self._act(self.draw.random())
        except Lost:
            await self.back_off()

    async def _act(self, act: float) -> None:
        """Raises Lost."""
        if act < 0.03:
            await self._leave()
        elif act < 0.06:
            await self._hang(self.draw.choice([0.5, 2 * SESSION_MS / 1000]))
        elif act < 0.08:
            self._crash()
        elif act < 0.11:
            await self._resubscribe()
        elif act < 0.16 and self.past:
            await self._late(self.draw.choice(list(self.past)))
        elif act < 0.2:
            await self._beat_and_commit()
        else:
            await self._find_positions()
            if self.positions and self.draw.chance(0.8):
                await self.poll(list(self.positions), self.draw.choice([0, 50]))
            if act < 0.55:
                await self._commit()
            else:
                await self._beat()

    async def finish(self) -> None:
        try:
            await self._leave()
        except Lost:
            await self.back_off()

    def _new_process(self) -> None:
        """Begin again without a membership, under another member id."""
        self.processes += 1
        self.member_id = f"{self.name}-{self.processes}"
        self._subscribe()

    def _subscribe(self) -> None:
        """Read other topics from the next heartbeat on."""
        self.regex = self.draw.choice(REGEXES) if self.draw.chance(0.25) else None
        self.names = None if self.regex else self.draw.choice(NAMES)
        self.is_full = True

    async def _resubscribe(self) -> None:
        """Raises Lost."""
        self._subscribe()
        await self._beat()

    # --- the membership

    def _over(self) -> None:
        """It is no member any more, and stops reading."""
        self._note_past()
        self.world.owners.gone(self.group, self.name)
        self.epoch, self.is_full = 0, True
        self.owned, self.revoking = set(), set()
        self.unanswered_us = self.revokes_us = None
        self.assign({}, unknown=True)

    def _note_past(self) -> None:
        if self.epoch > 0:
            pieces = frozenset(self.owned | self.revoking)
            self.past.append(Past(self.life, self.member_id, self.epoch, pieces, self.world.time.now_us))

    def _request(self, epoch: int, **more: Any) -> Any:
        return m.ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.instance_id,
            **more,
        )

    def _full(self, epoch: int) -> Any:
        return self._request(
            epoch,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=list(self.names or ()),
            subscribed_topic_regex=self.regex or "",
            topic_partitions=_topics(self.owned | self.revoking),
        )

    async def _join(self) -> bool:
        """Whether it is a member now. Raises Lost."""
        await self._look()
        self.life = self.world.groups.life(self.group)
        channel, mark = await self.connected(), self.world.owners.mark(self.group, self.host)
        sent = channel.send(self._full(JOIN), 1)
        if self.draw.chance(0.05):
            # The request arrives, and its answer does not.
            await asyncio.sleep(self.draw.choice([0.001, 0.01]))
            self.hang_up()
        try:
            answer = await sent
        except Lost:
            self._not_answered()
            raise
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            assert answer.member_id == self.member_id, f"{self.name} is {answer.member_id}"
            self._answered(answer, mark)
            return True
        if code in RETRIABLE:
            self._not_answered()
            return False
        self._refused(code, answer.error_message)
        return False

    def _not_answered(self) -> None:
        """A join may arrive later, and begin another membership of this member id."""
        self.world.owners.unsure(self.group, self.name, self.world.time.now_us + ARRIVES_US)
        if self.draw.chance(0.1):
            self._new_process()

    def _refused(self, code: ErrorCode, message: str | None) -> None:
        """A join was refused. Raises AssertionError unless that is possible."""
        assert code is ErrorCode.GROUP_MAX_SIZE_REACHED, f"{self.name} cannot join: {code.name}: {message}"
        # It was refused in time.
        self.successes += 1

    async def _beat(self) -> ErrorCode:
        """Send a heartbeat, after giving up what it should not have, and follow the answer. Raises Lost."""
        request, mark = self._heartbeat(), self.world.owners.mark(self.group, self.host)
        try:
            answer = await self.once(request, 1)
        except Lost:
            self._maybe(mark.sent_us)
            raise
        return self._heard(answer, mark)

    async def _beat_and_commit(self) -> None:
        """Send a heartbeat, and a commit before its answer has come. Raises Lost."""
        channel = await self.connected()
        request, mark = self._heartbeat(), self.world.owners.mark(self.group, self.host)
        sent = channel.send(request, 1)
        try:
            await self._commit()
        finally:
            try:
                answer = await sent
            except Lost:
                self._maybe(mark.sent_us)
            else:
                if self.epoch:
                    self._heard(answer, mark)

    def _heartbeat(self) -> Any:
        if self.revoking and self.draw.chance(0.8):
            self._release()
        if self.is_full:
            return self._full(self.epoch)
        request = self._request(self.epoch, rebalance_timeout_ms=UNCHANGED_MS, topic_partitions=None)
        if self.reports or self.draw.chance(0.2):
            request.topic_partitions = _topics(self.owned | self.revoking)
        return request

    def _heard(self, answer: Any, mark: Mark) -> ErrorCode:
        """Follow the answer to a heartbeat."""
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            self._answered(answer, mark)
        elif code in RETRIABLE:
            self._maybe(mark.sent_us)
        else:
            self._dropped(code, mark)
        return code

    def _maybe(self, sent_us: int) -> None:
        """A heartbeat may have had effect, without an answer."""
        self.is_full = True
        if self.unanswered_us is None:
            self.unanswered_us = sent_us

    def _dropped(self, code: ErrorCode, mark: Mark) -> None:
        """Raises AssertionError if the member cannot have been removed."""
        assert code in DROPPED, f"{self.name}: {code.name}"
        since_us = self.revokes_us if self.revokes_us is not None else self.unanswered_us
        is_slow = since_us is not None and self.world.time.now_us - since_us >= REBALANCE_MS * 1000 - LATE_US
        # A member that has missed an answer may be two epochs behind.
        is_behind = code is ErrorCode.FENCED_MEMBER_EPOCH and self.unanswered_us is not None
        if not is_slow and not is_behind:
            self.world.owners.check_dropped(self.group, self.name, mark, self.host, code.name)
        self._over()

    def _release(self) -> None:
        """Stop reading what it has to give up: its next heartbeat says so."""
        if self.epoch:
            self._note_past()
        for piece in sorted(self.revoking):
            self.world.owners.give(self.group, place_of_piece(piece), self.name)
        self.revoking, self.reports = set(), True
        self._keep_positions()

    def _answered(self, answer: Any, mark: Mark) -> None:
        assert answer.member_epoch >= self.epoch, f"{self.name}: epoch {answer.member_epoch} follows {self.epoch}"
        asked_us = mark.sent_us if self.unanswered_us is None else self.unanswered_us
        if answer.member_epoch != self.epoch:
            self._note_past()
        self.epoch, self.is_full, self.reports, self.unanswered_us = answer.member_epoch, False, False, None
        self.world.owners.heard(self.group, self.name, mark, self.host)
        self.successes += 1
        if answer.assignment is not None:
            pieces = {(t.topic_id, part) for t in answer.assignment.topic_partitions for part in t.partitions}
            self._assigned(pieces, asked_us)

    def _assigned(self, pieces: set[Piece], asked_us: int) -> None:
        """Follow an assignment. Raises AssertionError if another member has one of its partitions."""
        before = self.owned | self.revoking
        self.revoking, self.owned = before - pieces, pieces
        self.reports = True
        if not self.revoking:
            self.revokes_us = None
        elif self.revokes_us is None:
            self.revokes_us = asked_us
        for piece in sorted(pieces):
            place = place_of_piece(piece)
            if self.has_lasting_epochs:
                self.world.groups.own(self.group, self.life, self.epoch, place, self.name)
            if piece not in before:
                self.world.owners.take(self.group, place, self.name)
        self._keep_positions()

    async def _hang(self, seconds: float) -> None:
        """Send nothing. Raises AssertionError if the membership goes on nevertheless, and Lost."""
        began_us = self.world.time.now_us
        await asyncio.sleep(seconds)
        sent_us = self.world.time.now_us
        code = await self._beat()
        is_over = sent_us > began_us + SESSION_MS * 1000 + LATE_US
        if is_over and self.world.sites[self.host].is_calm_since(began_us):
            assert code is not ErrorCode.NONE, f"{self.name} sent nothing for {seconds} s, and is a member"

    def _crash(self) -> None:
        """End without leaving, and begin again."""
        self._over()
        self.hang_up()
        self._new_process()

    def _leave_epoch(self) -> int:
        return LEAVE

    async def _leave(self) -> ErrorCode | None:
        """Return the code of the answer; None without a request. Raises Lost."""
        if not self.epoch:
            return None
        request = self._request(self._leave_epoch())
        self._over()
        try:
            code = ErrorCode((await self.once(request, 1)).error_code)
        finally:
            self._new_process()
        assert code in RETRIABLE | DROPPED | {ErrorCode.NONE}, f"{self.name} cannot leave: {code.name}"
        return code

    # --- partitions

    async def _look(self) -> None:
        await self.look()
        self.known |= {(spot.topic_id, spot.partition): spot for spot in self.spots}

    def _keep_positions(self) -> None:
        """Read only what it still has."""
        held = self.owned | self.revoking
        left = {spot: at for spot, at in self.positions.items() if (spot.topic_id, spot.partition) in held}
        if left != self.positions:
            self.assign(left, unknown=True)

    async def _find_positions(self) -> None:
        """Begin with new partitions where the group has committed. Raises Lost."""
        placed = {(spot.topic_id, spot.partition) for spot in self.positions}
        for piece in sorted(self.owned - placed):
            if piece not in self.known:
                await self._look()
            spot = self.known.get(piece)
            offset = None if spot is None else await self._fetched(spot)
            if not self.epoch or spot is None or offset is None:
                return
            self.assign({**self.positions, spot: offset}, unknown=True)

    async def _fetched(self, spot: Spot) -> int | None:
        """The committed offset, or the start of the partition; None if it cannot be read. Raises Lost."""
        topic = m.OffsetFetchRequest.OffsetFetchRequestTopics(name=spot.topic, partition_indexes=[spot.partition])
        group = m.OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id=self.group, member_id=self.member_id, member_epoch=self.epoch, topics=[topic]
        )
        groups, mark = self.world.groups, self.world.owners.mark(self.group, self.host)
        life, acknowledged = groups.life(self.group), groups.committed(self.group, spot.place)
        answer = (await self.once(m.OffsetFetchRequest(groups=[group], require_stable=True), 9)).groups[0]
        codes = {ErrorCode(answer.error_code)}
        if answer.topics:
            codes.add(ErrorCode(answer.topics[0].partitions[0].error_code))
        codes.discard(ErrorCode.NONE)
        for code in codes:
            self._fetch_refused(code, mark)
        if codes:
            return None
        found = int(answer.topics[0].partitions[0].committed_offset)
        groups.check_fetched(self.group, life, spot.place, found, acknowledged)
        return found if found >= 0 else await self.offset_of(spot, EARLIEST)

    def _fetch_refused(self, code: ErrorCode, mark: Mark) -> None:
        """Raises AssertionError if the epoch of this member is refused, and it knows the newest one."""
        if code in DROPPED:
            self._dropped(code, mark)
        elif code is ErrorCode.STALE_MEMBER_EPOCH:
            owners = self.world.owners
            is_sure = owners.is_proof(mark, self.host) and owners.is_alive(self.group, self.name)
            assert not is_sure or self.unanswered_us is not None, f"{self.name}: epoch {self.epoch} is stale"
            self.is_full = True
        else:
            assert code in RETRIABLE | GONE, f"{self.name}: OffsetFetch: {code.name}"

    # --- offsets

    def _commit_request(self, positions: dict[Spot, int], member_id: str, epoch: int) -> Any:
        Topic = m.OffsetCommitRequest.OffsetCommitRequestTopic
        Part = m.OffsetCommitRequest.OffsetCommitRequestPartition
        return m.OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            group_instance_id=self.instance_id,
            topics=[
                Topic(name=spot.topic, partitions=[Part(partition_index=spot.partition, committed_offset=at)])
                for spot, at in positions.items()
            ],
        )

    async def _commit(self) -> None:
        """Commit all positions. They are accepted as long as this is a member, also during a rebalance. Raises Lost."""
        positions = dict(self.positions)
        if not positions:
            return
        groups, mark = self.world.groups, self.world.owners.mark(self.group, self.host)
        life = groups.life(self.group)
        answer = await self.once(self._commit_request(positions, self.member_id, self.epoch), 9)
        codes = [ErrorCode(part.error_code) for topic in answer.topics for part in topic.partitions]
        for (spot, at), code in zip(positions.items(), codes, strict=True):
            if code is ErrorCode.NONE:
                groups.commit(self.group, life, spot.place, at)
        for code in set(codes) - {ErrorCode.NONE}:
            if code in DROPPED:
                self._dropped(code, mark)
                return
            self._commit_refused(code, mark)

    def _commit_refused(self, code: ErrorCode, mark: Mark) -> None:
        """A member may commit in its partitions, whatever epoch it has. Raises AssertionError."""
        if code is ErrorCode.STALE_MEMBER_EPOCH:
            owners = self.world.owners
            is_sure = owners.is_proof(mark, self.host) and owners.is_alive(self.group, self.name)
            assert not is_sure, f"{self.name}: a commit in its own partitions is refused in epoch {self.epoch}"
            self.is_full = True
            return
        allowed = RETRIABLE | (GONE if self.world.plan.is_cluster else frozenset())
        assert code in allowed, f"{self.name}: OffsetCommit: {code.name}"

    async def _late(self, past: Past) -> None:
        """A commit of an earlier epoch arrives late. Raises AssertionError if it is accepted although another member
        has the partition since, and Lost.
        """
        groups, owners = self.world.groups, self.world.owners
        is_older = past.member_id != self.member_id or past.epoch < self.epoch
        spots = [
            self.known[piece]
            for piece in sorted(past.pieces - self.owned - self.revoking)
            if piece in self.known and owners.is_taken(self.group, place_of_piece(piece), self.name, past.at_us)
        ]
        if not spots or not is_older or past.life != groups.life(self.group):
            return
        answer = await self.once(self._commit_request({self.draw.choice(spots): 0}, past.member_id, past.epoch), 9)
        code = ErrorCode(answer.topics[0].partitions[0].error_code)
        if past.life == groups.life(self.group):
            assert code is not ErrorCode.NONE, f"{self.name}: a late commit of {past} is accepted"


class StaticConsumer(Consumer):
    """A member with an instance id: it leaves for a while and comes back under another member id, and other processes
    try to take its place.
    """

    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.instance_id = name
        # Since when a membership of this instance that nothing renews is in the way of the next one.
        self.waits_us: int | None = None
        # The member ids of other processes that may have this instance.
        self.rivals: set[str] = set()

    async def _act(self, act: float) -> None:
        if 0.2 <= act < 0.24:
            await self._double()
        else:
            await super()._act(act)

    def _new_process(self) -> None:
        if self.member_id:
            self.rivals.add(self.member_id)
        super()._new_process()

    async def _leave(self) -> ErrorCode | None:
        code = await super()._leave()
        if code is ErrorCode.NONE and not self.world.owners.is_unsure(self.group, self.name):
            self.rivals.clear()
        return code

    def _leave_epoch(self) -> int:
        return self.draw.choice([LEAVE, LEAVE_FOR_A_WHILE, LEAVE_FOR_A_WHILE])

    def _over(self) -> None:
        super()._over()
        self.waits_us = None

    def _answered(self, answer: Any, mark: Mark) -> None:
        super()._answered(answer, mark)
        self.waits_us = None
        if not self.world.owners.is_unsure(self.group, self.name):
            self.rivals.clear()

    def _refused(self, code: ErrorCode, message: str | None) -> None:
        if code is not ErrorCode.UNRELEASED_INSTANCE_ID:
            super()._refused(code, message)
            return
        # A process before has not left, and its session goes on.
        assert self.rivals, f"{self.name} is refused because of its own instance id"
        now_us = self.world.time.now_us
        if self.waits_us is None:
            self.waits_us = now_us
        if self.world.owners.is_unsure(self.group, self.name):
            self.waits_us = now_us
        elif self.world.sites[self.host].is_calm_since(self.waits_us):
            limit_us = SESSION_MS * 1000 + LATE_US
            waited_us = now_us - self.waits_us
            assert waited_us <= limit_us, f"{self.name} waits for {waited_us} us for its own instance id"
        self.successes += 1

    async def _double(self) -> None:
        """Another process has the same instance id. Raises AssertionError if it may take the place of a member, and
        Lost.
        """
        owners = self.world.owners
        if not owners.is_alive(self.group, self.name) or self.unanswered_us is not None:
            return
        request = self._full(JOIN)
        request.member_id, request.topic_partitions = f"{self.member_id}-double", []
        self.rivals.add(request.member_id)
        mark = owners.mark(self.group, self.host)
        try:
            code = ErrorCode((await self.once(request, 1)).error_code)
        except Lost:
            owners.unsure(self.group, self.name, self.world.time.now_us + ARRIVES_US)
            raise
        if code is ErrorCode.NONE:
            is_wrong = owners.is_proof(mark, self.host) and owners.is_alive(self.group, self.name)
            assert not is_wrong, f"another process took the place of {self.name}"
            owners.unsure(self.group, self.name, self.world.time.now_us + ARRIVES_US)
        else:
            allowed = RETRIABLE | {ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED}
            assert code in allowed, f"{self.name} cannot join twice: {code.name}"


def place_of_piece(piece: Piece) -> Place:
    """A partition by its topic's id: a member may get it before it sees the topic."""
    return piece[0].hex[:8], piece[1]


def _topics(pieces: set[Piece]) -> list[Any]:
    found: dict[UUID, list[int]] = {}
    for topic_id, partition in sorted(pieces):
        found.setdefault(topic_id, []).append(partition)
    return [
        m.ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=each, partitions=partitions)
        for each, partitions in found.items()
    ]
