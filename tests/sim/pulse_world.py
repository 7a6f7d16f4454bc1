"""A node that asks another one whether it runs, on one virtual clock: both have long turns, the network is slow, nodes
stand still for a while or forever, and connections break. Everything is drawn from one seed.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from itertools import count

from broker_cy.controller.pulse import INTERVAL_MS_MAX, INTERVAL_MS_MIN, Pulse

RUN_MS = 120_000
# When a node that stands still must have been noticed at the latest: the turn before the question, three that are
# missed, and one that was late.
NOTICED_MS = 5 * INTERVAL_MS_MAX
MISSED = 3


class World:
    """`run` raises AssertionError if the pulse is wrong."""

    def __init__(self, seed: int) -> None:
        draw = self.draw = random.Random(seed)
        self.pulse = Pulse(draw.choice([INTERVAL_MS_MIN, 300, INTERVAL_MS_MAX]))
        self.now_ms = 0
        self.delay_ms = draw.choice([1, 20, 200, 1_000])
        self.turns_ms = draw.choice([1, 500, 5_000])  # how long the turns of the node that asks may be
        self.stops_ms = draw.choice([0, 300, 3_000, 20_000])  # how long the node may stand still
        self.asking_until_ms = self.asked_until_ms = 0  # both nodes stand still until then
        self.often_ms = draw.choice([300, 1_000, 10_000])  # how often something happens
        self.connection = 0
        self.pending_ms = -1  # when the unanswered question was asked
        self.is_unread = False  # the answer has arrived, but the asking node stands still
        self.was_silent = False
        self.silences = self.flaps = self.answers = 0
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._number = count()

    def at(self, at_ms: int, work: Callable[[], None]) -> None:
        heapq.heappush(self._due, (at_ms, next(self._number), work))

    def run(self) -> None:
        self.at(0, self.turn)
        self.at(self.draw.randint(1, 2_000), self.disturb)
        while self._due and self.now_ms < RUN_MS:
            self.now_ms, _, work = heapq.heappop(self._due)
            work()
        self.freeze()

    def disturb(self) -> None:
        self.at(self.now_ms + self.draw.randint(1, self.often_ms), self.disturb)
        match self.draw.choice(["asking", "asked", "asked", "break", "none"]):
            case "asking":
                self.asking_until_ms = self.now_ms + self.draw.randint(1, self.turns_ms)
            case "asked" if self.stops_ms:
                self.asked_until_ms = self.now_ms + self.draw.randint(1, self.stops_ms)
            case "break":
                self.connection += 1
                self.pending_ms, self.is_unread = -1, False
                self.pulse.disconnected()

    def turn(self) -> None:
        if self.asking_until_ms > self.now_ms:
            # The turn happens when the node continues.
            self.at(self.asking_until_ms, self.turn)
            return
        before_ms = self.pulse.interval_ms
        found = self.pulse.turn(self.now_ms)
        assert INTERVAL_MS_MIN <= self.pulse.interval_ms <= INTERVAL_MS_MAX
        if found.ask:
            assert self.pending_ms < 0, "a second question"
            assert found.is_silent <= self.was_silent, "silent, although it has answered"
            self.pending_ms = self.now_ms
            connection = self.connection
            self.at(self.now_ms + self.draw.randint(0, self.delay_ms), lambda: self.arrive(connection))
        if found.is_silent and not self.was_silent:
            self.silences += 1
            assert self.pending_ms >= 0, "silent, although everything was answered"
            waited_ms = self.now_ms - self.pending_ms
            assert waited_ms >= MISSED * before_ms, f"silent after {waited_ms} ms of {before_ms}"
            assert not self.is_unread, "silent, and the answer waits for who asks"
        self.was_silent = found.is_silent
        self.at(self.now_ms + self.pulse.interval_ms, self.turn)

    def arrive(self, connection: int) -> None:
        """The node reads the question."""
        if self.asked_until_ms > self.now_ms:
            self.at(self.asked_until_ms, lambda: self.arrive(connection))
        else:
            self.at(self.now_ms + self.draw.randint(0, self.delay_ms), lambda: self.answer(connection))

    def answer(self, connection: int) -> None:
        if connection != self.connection:
            return
        self.is_unread = self.asking_until_ms > self.now_ms
        if self.is_unread:
            self.at(self.asking_until_ms, lambda: self.answer(connection))
            return
        floor_ms = self.pulse.interval_ms
        self.answers += 1
        self.pending_ms = -1
        self.pulse.answered(self.now_ms)
        if self.was_silent:
            # A node that was wrongly considered dead gets more time, up to the bound.
            self.flaps += 1
            assert self.pulse.interval_ms >= min(2 * self.pulse.base_ms, INTERVAL_MS_MAX), "a flap changed nothing"
            assert self.pulse.interval_ms >= floor_ms
        self.was_silent = False

    def freeze(self) -> None:
        """The node stands still forever. That is detected in bounded time, whatever happened before."""
        self.asked_until_ms = 1 << 60
        self.asking_until_ms = self.now_ms
        deadline_ms = self.now_ms + NOTICED_MS
        while not self.was_silent:
            self.now_ms, _, work = heapq.heappop(self._due)
            assert self.now_ms <= deadline_ms, "a node that stands still is not noticed"
            if work != self.disturb:
                work()
