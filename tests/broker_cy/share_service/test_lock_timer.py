"""The timer of the locks of all share partitions."""

from __future__ import annotations

import random
from uuid import UUID

from broker_cy.core.clock import ManualClock
from broker_cy.share.sessions import TopicPartition
from broker_cy.share.share_partitions import ShareKey
from broker_cy.share_service.lock_timer import LockTimer
from tests.sim.power_loop import Loop, Work

A, B = (ShareKey("g", TopicPartition(UUID(int=1), index)) for index in range(2))


class Rig:
    def __init__(self) -> None:
        self.loop = Loop(Work(random.Random(1)))
        self.clock = ManualClock()
        self.expired: list[ShareKey] = []
        self.timer = LockTimer(self.loop.as_loop, self.now_ms, self.expired.append)

    def now_ms(self) -> int:
        return int(self.clock.monotonic() * 1000)

    def advance(self, ms: int) -> list[ShareKey]:
        self.clock.advance_ms(ms)
        self.loop.advance(ms / 1000)
        found = list(self.expired)
        self.expired.clear()
        return found


def test_the_earliest_lock_is_ended_first() -> None:
    """If this fails, a record stays locked for a member that is gone."""
    rig = Rig()
    now_ms = rig.now_ms()
    rig.timer.arm(A, now_ms + 100)
    rig.timer.arm(B, now_ms + 50)
    rig.timer.arm(A, now_ms + 20)
    assert rig.advance(19) == []
    assert rig.advance(1) == [A]
    assert rig.advance(30) == [B]
    assert rig.advance(1000) == [], "the later deadline was replaced by the earlier one"


def test_only_one_timer_is_kept() -> None:
    """If this fails, each acquired record costs a timer of the loop."""
    rig = Rig()
    now_ms = rig.now_ms()
    for ms in range(100, 0, -1):
        rig.timer.arm(A, now_ms + ms)
    assert len([timer for timer in rig.loop.timers if timer.callback is not None]) == 1
    rig.timer.forget(A)
    assert rig.advance(1000) == []
    rig.timer.arm(A, now_ms + 1)
    assert rig.advance(1) == [A], "a deadline of the past"
    rig.timer.arm(A, 0)
    rig.timer.stop()
    assert rig.advance(1000) == []
