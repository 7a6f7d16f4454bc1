"""Due times of the records of an open loop: they depend only on the workload's rate, not on the target."""

import math
from dataclasses import dataclass

from bench.spec.workload import Rate


@dataclass(frozen=True)
class Schedule:
    """Due times of record n (0, 1, ...) of one producer, in seconds since the window began, all delayed by `first_s`.

    The rate changes linearly from `start` to `end` records per second over `ramp_s`, and then stays at `end`.
    """

    start: float
    end: float
    ramp_s: float = 0.0
    first_s: float = 0.0

    @classmethod
    def of(cls, rate: Rate, record_bytes: float, producers: int, index: int) -> "Schedule":
        """Return the schedule of producer `index` of `producers`, whose records interleave with those of the others."""
        divisor = producers * (record_bytes if rate.unit == "bytes" else 1)
        start, end = rate.start / divisor, rate.end / divisor
        return cls(start, end, rate.ramp_s, index / producers / start)

    def due_s(self, number: int) -> float:
        """Return the due time of record `number`."""
        change = self.end - self.start
        in_ramp = (self.start + self.end) / 2 * self.ramp_s
        if number >= in_ramp:
            return self.first_s + self.ramp_s + (number - in_ramp) / self.end
        # start * t + change / (2 * ramp) * t^2 = number, in the form that also holds for change = 0
        root = math.sqrt(self.start**2 + 2 * change / self.ramp_s * number)
        return self.first_s + 2 * number / (self.start + root)

    def due_by(self, seconds: float) -> int:
        """Return the number of records that are due before `seconds`."""
        t = seconds - self.first_s
        if t <= 0:
            return 0
        ramped = min(t, self.ramp_s)
        change = (self.end - self.start) / self.ramp_s if self.ramp_s else 0.0
        count = max(0, math.floor(self.start * ramped + change * ramped**2 / 2 + self.end * (t - ramped)) - 1)
        while self.due_s(count) < seconds:  # corrects the rounding
            count += 1
        return count
