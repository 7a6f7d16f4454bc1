"""A member of a share group (KIP-932): it joins, fetches from the leaders of its partitions, acknowledges with a fetch
or alone, and renews locks. It also hangs, ends at any point, and comes back on other connections, sometimes under the
same member id. The invariants are in tests.sim.world.shares.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from tests.sim.world.clients.base import GROUP, RETRIABLE
from tests.sim.world.clients.share_readers import ACCEPT, ShareReader
from tests.sim.world.groups import ARRIVES_US, SESSION_MS
from tests.sim.world.owners import Mark
from tests.sim.world.shares import GROUP as GROUP_ID
from tests.sim.world.wire import Lost

if TYPE_CHECKING:
    from tests.sim.world.world import World

JOIN, LEAVE = 0, -1
HEARTBEAT_VERSION = 1
BEAT_US = 500_000
TOPICS = (("t0", "t1"), ("t0", "t1"), ("t0",), ("c0", "t1"))
# It is no member any more, and has to join again.
DROPPED = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.FENCED_MEMBER_EPOCH})


class ShareConsumer(ShareReader):
    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        self.processes = 0
        # 0: not a member.
        self.epoch = 0
        self.is_full = True
        self.is_unanswered = False
        self.beat_us = 0
        self.topics: tuple[str, ...] = TOPICS[0]

    async def begin(self) -> None:
        await self.find_coordinator(GROUP_ID, GROUP)
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
        if act < 0.02:
            await self._leave()
        elif act < 0.05:
            await asyncio.sleep(self.draw.choice([0.5, 1.2 * self.world.shares.lock_ms / 1000, 2 * SESSION_MS / 1000]))
        elif act < 0.08:
            self._crash()
        elif act < 0.1:
            self._reconnect()
        elif act < 0.12 and self.sessions:
            await self._replace(self.draw.choice(sorted(self.sessions)))
        elif act < 0.14:
            self.topics, self.is_full = self.draw.choice(TOPICS), True
        elif act < 0.18 and self.sessions:
            await self._close(self.draw.choice(sorted(self.sessions)))
        elif act < 0.25 or self.world.time.now_us - self.beat_us > BEAT_US:
            await self._beat()
        else:
            await self._serve(act)

    async def _serve(self, act: float) -> None:
        """Fetch or acknowledge. Raises Lost."""
        holding = [each for each in self.sessions.values() if any(each.held.values())]
        if holding and act < 0.5:
            await self._acknowledge(self.draw.choice(holding))
            return
        if not self.pieces <= self.leaders.keys() or self.draw.chance(0.02):
            await self._look_for_leaders()
        hosts = sorted({self.leaders[piece] for piece in self.pieces if piece in self.leaders})
        if not hosts:
            # It has nothing to fetch yet, or no longer.
            await self._beat()
            await self.back_off()
            return
        await self._fetch(self.draw.choice(hosts))

    async def finish(self) -> None:
        try:
            for host in sorted(self.sessions):
                await self._close(host)
            await self._leave()
        except Lost:
            await self.back_off()
        self._drop_connections()

    # --- processes and connections

    def _new_process(self) -> None:
        """Begin again without a membership."""
        self._drop_connections()
        self.epoch, self.is_full, self.is_unanswered = 0, True, False
        self.pieces = set()
        self.topics = self.draw.choice(TOPICS)
        if not self.processes or self.draw.chance(0.6):
            self.processes += 1
            self.member_id = f"{self.name}-{self.processes}"
            self.unsure_until_us.clear()

    def _crash(self) -> None:
        """End without leaving, and begin again, sometimes under the same member id."""
        self._over()
        self.hang_up()
        self._new_process()

    def _reconnect(self) -> None:
        """Close the connections to some brokers; sessions begin again there, before or after their ends are seen."""
        for session in list(self.sessions.values()):
            if self.draw.chance(0.7):
                self._drop(session)

    # --- the membership

    def _over(self) -> None:
        """It is no member any more. It may still acknowledge the records that it holds."""
        self.world.owners.gone(GROUP_ID, self.name)
        self.epoch, self.is_full = 0, True

    async def _join(self) -> bool:
        """Whether it is a member now. Raises Lost."""
        request = m.ShareGroupHeartbeatRequest(
            group_id=GROUP_ID, member_id=self.member_id, member_epoch=JOIN, subscribed_topic_names=list(self.topics)
        )
        mark = self.world.owners.mark(GROUP_ID, self.host)
        try:
            answer = await self.once(request, HEARTBEAT_VERSION)
        except Lost:
            self.world.owners.unsure(GROUP_ID, self.name, self.world.time.now_us + ARRIVES_US)
            raise
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            self._answered(answer, mark)
            return True
        assert code in RETRIABLE, f"{self.name} cannot join: {code.name}: {answer.error_message}"
        return False

    async def _beat(self) -> None:
        """Raises Lost."""
        request = m.ShareGroupHeartbeatRequest(
            group_id=GROUP_ID,
            member_id=self.member_id,
            member_epoch=self.epoch,
            subscribed_topic_names=list(self.topics) if self.is_full else None,
        )
        mark = self.world.owners.mark(GROUP_ID, self.host)
        try:
            answer = await self.once(request, HEARTBEAT_VERSION)
        except Lost:
            self.is_full = self.is_unanswered = True
            raise
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            self._answered(answer, mark)
        elif code in RETRIABLE:
            self.is_full = self.is_unanswered = True
        else:
            assert code in DROPPED, f"{self.name}: {code.name}"
            if code is not ErrorCode.FENCED_MEMBER_EPOCH or not self.is_unanswered:
                self.world.owners.check_dropped(GROUP_ID, self.name, mark, self.host, code.name)
            self._over()

    def _answered(self, answer: Any, mark: Mark) -> None:
        assert answer.member_epoch >= self.epoch, f"{self.name}: epoch {answer.member_epoch} follows {self.epoch}"
        self.epoch, self.is_full, self.is_unanswered = answer.member_epoch, False, False
        self.beat_us = mark.sent_us
        self.world.owners.heard(GROUP_ID, self.name, mark, self.host)
        self.successes += 1
        if answer.assignment is not None:
            topics = answer.assignment.topic_partitions
            self.pieces = {(each.topic_id, index) for each in topics for index in each.partitions}

    async def _leave(self) -> None:
        """Raises Lost."""
        if not self.epoch:
            return
        request = m.ShareGroupHeartbeatRequest(group_id=GROUP_ID, member_id=self.member_id, member_epoch=LEAVE)
        self._over()
        try:
            code = ErrorCode((await self.once(request, HEARTBEAT_VERSION)).error_code)
        finally:
            self._new_process()
        assert code in RETRIABLE | DROPPED | {ErrorCode.NONE}, f"{self.name} cannot leave: {code.name}"


class LastShareConsumer(ShareConsumer):
    """Accepts everything when the faults are over, until every record is settled, and ends."""

    async def run(self) -> None:
        await self.begin()
        self.topics = TOPICS[0]
        while self.world.shares.left():
            await self.step()
        await self.finish()
        self.is_done = True

    async def _act(self, act: float) -> None:
        """Raises Lost."""
        if self.world.time.now_us - self.beat_us > BEAT_US:
            await self._beat()
        else:
            await self._serve(act)

    def type_of_acknowledgement(self) -> int:
        return ACCEPT
