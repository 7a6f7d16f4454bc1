"""Due times of operations on a profile: they depend on its rates alone, never on the cluster.

Operation n of all workers (0, 1, ...) is due when the integral of the rate reaches n; if that is where the rate becomes
0, when it rises again. A worker performs the operations of its share of the entry (`loadgen.scenario.share`), so that
all workers together follow the profile exactly.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass

from loadgen.scenario.profile import RateProfile
from loadgen.scenario.share import Share

WHOLE = Share()


@dataclass(frozen=True)
class _Span:
    """A piece in its place: operations `count` to the next span's, from `at_s`."""

    at_s: float
    count: float
    seconds: float
    start: float
    slope: float  # change of the rate in a second

    def due_s(self, number: float) -> float:
        """Return the due time of operation `number`, which is in this span."""
        left = number - self.count
        if left <= 0:
            return self.at_s
        # The root of slope/2 t^2 + start t = left, in the form that neither cancels nor divides by a slope of 0.
        root = math.sqrt(max(0.0, self.start * self.start + 2 * self.slope * left))
        divisor = self.start + root
        return self.at_s + (min(2 * left / divisor, self.seconds) if divisor > 0 else self.seconds)


class Schedule:
    """The due times of one worker, in seconds since the run began."""

    def __init__(self, profile: RateProfile, share: Share = WHOLE) -> None:
        self._share, self._has_users = share, share.users > 0
        self._spans: list[_Span] = []
        self._counts: list[float] = []
        at_s = count = 0.0
        for piece in profile.pieces:
            slope = (piece.end - piece.start) / piece.seconds
            self._spans.append(_Span(at_s, count, piece.seconds, piece.start, slope))
            self._counts.append(count)
            at_s += piece.seconds
            count += (piece.start + piece.end) / 2 * piece.seconds
        self._seconds, self._count = at_s, count
        self._repeats = profile.repeats
        self._last_rate = profile.pieces[-1].end
        self._lead_s, self._lead_rate = profile.lead_s, profile.lead.start
        self._lead_count = self._lead_s * self._lead_rate

    def due_s(self, number: int) -> float:
        """Return the due time of operation `number` of this worker; infinity if it is never due."""
        if not self._has_users:
            return math.inf
        target = self._share.operation(number) - self._lead_count
        if target < 0:
            return (target + self._lead_count) / self._lead_rate
        shift_s = self._lead_s
        if target >= self._count:
            if not self._repeats:
                beyond = target - self._count
                return shift_s + self._seconds + beyond / self._last_rate if self._last_rate > 0 else math.inf
            if self._count <= 0:
                return math.inf
            rounds, target = divmod(target, self._count)
            shift_s += rounds * self._seconds
        return shift_s + self._spans[bisect_right(self._counts, target) - 1].due_s(target)

    def due_before(self, seconds: float) -> int:
        """Return the number of operations of this worker that are due before `seconds`."""
        low, high = 0, 1
        while self.due_s(high - 1) < seconds:
            low, high = high, high * 2
        while low < high:
            middle = (low + high) // 2
            if self.due_s(middle) < seconds:
                low = middle + 1
            else:
                high = middle
        return low
