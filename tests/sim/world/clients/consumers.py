"""A member of a consumer group (KIP-848): by heartbeats it joins, learns its partitions, gives some of them up, and
leaves. It also hangs, ends without leaving, changes its subscription, repeats joins that were not answered, and commits
late. The invariants are in tests.sim.world.owners and tests.sim.world.groups.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from uuid import UUID

from broker_cy.coordinator.pattern import Pattern
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from tests.sim.world.clients.base import GROUP, RETRIABLE
from tests.sim.world.clients.group_readers import DROPPED, GroupReader, Past, Piece, place_of_piece
from tests.sim.world.groups import ARRIVES_US, LATE_US, REBALANCE_MS, SESSION_MS
from tests.sim.world.owners import Mark
from tests.sim.world.wire import Lost

if TYPE_CHECKING:
    from tests.sim.world.world import World

JOIN, LEAVE = 0, -1
UNCHANGED_MS = -1
NAMES = (("t0", "t1", "c0"), ("t0", "t1", "c0"), ("t0", "t1"), ("t0",), ("c0", "t1"))
REGEXES = ("t.*", "[tc]0", "t0|c0")
# The first expression of a process loads the library: no broker of the world reads it from its disk.
Pattern(REGEXES[0])


class Consumer(GroupReader):
    # Whether epochs of its group never begin again, but by a deletion.
    has_lasting_epochs = True
    heartbeat_version = 1

    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.processes = 0
        # Its next heartbeat says what it owns.
        self.reports = False
        # Since when it may have to give partitions up, and these ones; and whether it never does.
        self.revokes_us: int | None = None
        self.stuck_us = 0
        self.is_slow = False
        self.names: tuple[str, ...] | None = None
        self.regex: str | None = None

    async def begin(self) -> None:
        await self.find_coordinator(self.group, GROUP)
        self._new_process()

    async def step(self) -> None:
        try:
            if not self.epoch:
                if not await self._join():
                    await self.back_off()
                return
            if self.world.settles or (self.is_slow and self._must_give()):
                await self._settle()
            else:
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
            await self._read(commits=act < 0.55)

    async def _settle(self) -> None:
        """Go on without any act that changes the group. Raises Lost."""
        await self._read(commits=self.draw.chance(0.3))

    async def _read(self, *, commits: bool) -> None:
        """Read, and commit or send a heartbeat. Raises Lost."""
        await self._find_positions()
        if self.positions and self.draw.chance(0.8):
            await self.poll(list(self.positions), self.draw.choice([0, 50]))
        if commits:
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
        newest = self.world.groups.newest(self.group)
        sent = channel.send(self._full(JOIN), self.heartbeat_version)
        if not self.world.settles and self.draw.chance(0.05):
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
            goes_back = self.life == self.world.groups.life(self.group) and answer.member_epoch < newest
            assert not (goes_back and self.has_lasting_epochs), (
                f"{self.name} joins in epoch {answer.member_epoch} of {self.group}, which had epoch {newest}"
            )
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
        if not self.world.settles and self.draw.chance(0.1):
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
            answer = await self.once(request, self.heartbeat_version)
        except Lost:
            self._maybe(mark.sent_us)
            raise
        return self._heard(answer, mark)

    async def _beat_and_commit(self) -> None:
        """Send a heartbeat, and a commit before its answer has come. Raises Lost."""
        channel = await self.connected()
        request, mark = self._heartbeat(), self.world.owners.mark(self.group, self.host)
        sent = channel.send(request, self.heartbeat_version)
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
        if self._must_give() and self._gives_up():
            self._release()
        if self.is_full:
            return self._full(self.epoch)
        request = self._request(self.epoch, rebalance_timeout_ms=UNCHANGED_MS, topic_partitions=None)
        if self.reports or self.draw.chance(0.2):
            request.topic_partitions = _topics(self.owned | self.revoking)
        return request

    def _must_give(self) -> bool:
        """Whether it has to give something up."""
        return bool(self.revoking)

    def _gives_up(self) -> bool:
        """Whether it gives up now what it has to. A slow member does not, and is dropped."""
        return (not self.is_slow or self.world.settles) and bool(self.draw.chance(0.8))

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
        if self.revoking and mark.sent_us > self.stuck_us + REBALANCE_MS * 1000 + LATE_US:
            has_faults = not self.world.sites[self.host].is_calm_since(self.stuck_us)
            assert has_faults, f"{self.name} has not given {self.revoking} up in time, and is a member"
        if not self._must_give():
            self.world.owners.has_given(self.group, self.name)
        if self.has_lasting_epochs:
            self.world.groups.assigned(self.group, self.life, self.epoch)
        if (pieces := self._pieces_of(answer)) is not None:
            self._assigned(pieces, asked_us)

    def _pieces_of(self, answer: Any) -> set[Piece] | None:
        """The partitions that an answer assigns; None if they stay."""
        if answer.assignment is None:
            return None
        return {(t.topic_id, part) for t in answer.assignment.topic_partitions for part in t.partitions}

    def _assigned(self, pieces: set[Piece], asked_us: int) -> None:
        """Follow an assignment. Raises AssertionError if another member has one of its partitions."""
        before, revoked = self.owned | self.revoking, self.revoking
        self.revoking, self.owned = before - pieces, pieces
        self.reports = True
        if not self.revoking:
            self.revokes_us = None
        elif self.revokes_us is None:
            self.revokes_us = asked_us
            self.is_slow = self.draw.chance(0.15)
        if self.revoking != revoked:
            self.stuck_us = self.world.time.now_us
        if self._must_give():
            self.world.owners.must_give(self.group, self.name, asked_us + REBALANCE_MS * 1000 - LATE_US)
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
            code = ErrorCode((await self.once(request, self.heartbeat_version)).error_code)
        finally:
            self._new_process()
        assert code in RETRIABLE | DROPPED | {ErrorCode.NONE}, f"{self.name} cannot leave: {code.name}"
        return code


def _topics(pieces: set[Piece]) -> list[Any]:
    found: dict[UUID, list[int]] = {}
    for topic_id, partition in sorted(pieces):
        found.setdefault(topic_id, []).append(partition)
    return [
        m.ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=each, partitions=partitions)
        for each, partitions in found.items()
    ]
