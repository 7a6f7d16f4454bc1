"""Whether a node whose process exists still runs: it is probed repeatedly, and counts as silent after MISSED_MAX turns
without an answer. Kafka has only sessions for that (broker.session.timeout.ms).

A pure state machine. Its inputs are turns (`turn`, at the latest when `interval_ms` have passed since the last one),
answers and the end of a connection; at most one question waits for its answer.

    a slow answer           the interval doubles, up to INTERVAL_MS_MAX: a node that works hard is not dead
    prompt answers          the interval halves, down to its floor
    silent, and alive yet   a flap: the floor doubles, and halves again after FORGIVEN prompt answers
    a late turn             this node itself stood still, and answers may wait in its sockets: nothing was missed

Invariants: the interval is from the floor to INTERVAL_MS_MAX; a node that answers each question within MISSED_MAX - 1
intervals is never silent.
"""

from __future__ import annotations

from typing import Final

from broker_cy.core.classes import NamedTuple

# The software name of the node that asks; nodes of this kind answer it with a feature of this name.
LIVENESS: Final = "broker-cy-liveness"
# Turns without an answer.
MISSED_MAX: Final = 3
INTERVAL_MS_MIN: Final = 100
INTERVAL_MS_MAX: Final = 2_000
# Prompt answers, one after the other, after which the interval halves.
PROMPT: Final = 20
# The same for the floor.
FORGIVEN: Final = 200
_NEVER: Final = -1


class Turn(NamedTuple):
    """`ask`: ask the node now. `is_silent`: it is silent, from now on or still."""

    ask: bool
    is_silent: bool


class Pulse:
    """The pulse of one incarnation of a node. Times are milliseconds of any monotonic clock."""

    __slots__ = ("_asked_ms", "_floor_ms", "_is_silent", "_missed", "_prompt", "_turn_ms", "base_ms", "interval_ms")

    def __init__(self, base_ms: int) -> None:
        """`base_ms` is the first interval, from INTERVAL_MS_MIN to INTERVAL_MS_MAX, and the lowest floor."""
        self.base_ms = base_ms
        self.interval_ms = base_ms
        self._floor_ms = base_ms
        self._asked_ms = _NEVER
        self._turn_ms = _NEVER
        self._missed = 0
        self._prompt = 0
        self._is_silent = False

    def turn(self, now_ms: int) -> Turn:
        is_late = self._turn_ms != _NEVER and now_ms - self._turn_ms >= 2 * self.interval_ms
        self._turn_ms = now_ms
        if self._asked_ms == _NEVER:
            self._asked_ms = now_ms
            return Turn(ask=True, is_silent=self._is_silent)
        self._missed = 0 if is_late else self._missed + 1
        if self._missed >= MISSED_MAX:
            self._is_silent = True
        return Turn(ask=False, is_silent=self._is_silent)

    def answered(self, now_ms: int) -> None:
        """The question was answered."""
        if self._asked_ms == _NEVER:
            return
        took_ms = now_ms - self._asked_ms
        self._asked_ms = _NEVER
        self._missed = 0
        if self._is_silent:
            self._is_silent = False
            self._floor_ms = min(2 * self._floor_ms, INTERVAL_MS_MAX)
            self.interval_ms = max(self.interval_ms, self._floor_ms)
        if 2 * took_ms > self.interval_ms:
            self._prompt = 0
            self.interval_ms = min(2 * self.interval_ms, INTERVAL_MS_MAX)
            return
        self._prompt += 1
        if self._prompt % PROMPT == 0:
            self.interval_ms = max(self.interval_ms // 2, self._floor_ms)
        if self._prompt % FORGIVEN == 0:
            self._floor_ms = max(self._floor_ms // 2, self.base_ms)

    def disconnected(self) -> None:
        """The connection has ended: the question will not be answered. A node that was silent has flapped if it answers
        on another connection.
        """
        self._asked_ms = self._turn_ms = _NEVER
        self._missed = 0
