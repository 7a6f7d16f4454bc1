"""A member of a consumer group with an instance id (KIP-345 in KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker_cy.core.errors import ErrorCode
from tests.sim.world.clients.base import RETRIABLE
from tests.sim.world.clients.consumers import JOIN, LEAVE, Consumer
from tests.sim.world.groups import ARRIVES_US, LATE_US, SESSION_MS
from tests.sim.world.owners import Mark
from tests.sim.world.wire import Lost

if TYPE_CHECKING:
    from tests.sim.world.world import World

LEAVE_FOR_A_WHILE = -2


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
