"""Windows of aggregations and joins, as data of a plan.

    TimeWindows.of("1m")                     tumbling: one window a minute
    TimeWindows.of("1m").advance_by("10s")   hopping: a window of a minute each 10 s
    SlidingWindows.of("1m")                  all records of a key that are at most a minute apart
    SessionWindows.of("5m")                  records of a key without a pause of more than five minutes
    UnlimitedWindows.of()                    one window without an end
    JoinWindows.of("1m")                     records of two streams that are at most a minute apart

`grace("10s")` keeps a window open for late records after its end; without it there is no grace (KIP-633). Durations are
ms or texts ("1m"). All classes are frozen: a call returns another one.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Final, Self

from broker_streams.plan.codec import part_of_plans
from broker_streams.plan.durations import milliseconds

# The end of a window without an end, and the largest timestamp.
MAX_MS: Final = (1 << 63) - 1


@part_of_plans
class EmitStrategy(enum.Enum):
    """The time at which results of windows are passed on (KIP-825): at each change, or once when the window closes."""

    ON_WINDOW_UPDATE = "on-window-update"
    ON_WINDOW_CLOSE = "on-window-close"


def _at_least(value: int, lowest: int, what: str) -> None:
    if not lowest <= value <= MAX_MS:
        raise ValueError(f"{what} is {value} ms; {lowest} to {MAX_MS} are allowed")


class _WithGrace:
    """Windows with a field `grace_ms`."""

    def grace(self, after_end: int | str) -> Self:
        """Take records that are up to this late. Raises ValueError: it is negative."""
        grace_ms = milliseconds(after_end, "the grace period")
        return replace(self, grace_ms=grace_ms)  # type: ignore[type-var]  # the subclasses are dataclasses


@part_of_plans
@dataclass(frozen=True)
class TimeWindows(_WithGrace):
    """Windows of `size_ms` that begin at multiples of `advance_ms`. The end is no part of a window."""

    size_ms: int
    advance_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        _at_least(self.size_ms, 1, "the size of time windows")
        if not 1 <= self.advance_ms <= self.size_ms:
            raise ValueError(
                f"the advance of time windows is {self.advance_ms} ms; 1 to their size of {self.size_ms} ms are allowed"
            )
        _at_least(self.grace_ms, 0, "the grace period of time windows")

    @classmethod
    def of(cls, size: int | str) -> TimeWindows:
        """Tumbling windows. Raises ValueError: the size is below 1 ms."""
        size_ms = milliseconds(size, "the size of time windows")
        return cls(size_ms, size_ms)

    def advance_by(self, advance: int | str) -> TimeWindows:
        """Hopping windows. Raises ValueError: the advance is below 1 ms or larger than the size."""
        return replace(self, advance_ms=milliseconds(advance, "the advance of time windows"))

    def starts_of(self, timestamp: int) -> range:
        """The starts of all windows that hold a time, in their order. No window begins before 0."""
        advance_ms = self.advance_ms
        first = max(0, timestamp - self.size_ms + advance_ms) // advance_ms * advance_ms
        return range(first, timestamp + 1, advance_ms)

    def end_of(self, start_ms: int) -> int:
        return start_ms + self.size_ms


@part_of_plans
@dataclass(frozen=True)
class UnlimitedWindows:
    """One window from `start_ms` on. It never closes."""

    start_ms: int = 0

    def __post_init__(self) -> None:
        _at_least(self.start_ms, 0, "the start of unlimited windows")

    @classmethod
    def of(cls) -> UnlimitedWindows:
        """A window from 1970 on."""
        return cls()

    def start_on(self, start_ms: int) -> UnlimitedWindows:
        """Leave earlier records out. Raises ValueError: the start is negative."""
        return UnlimitedWindows(start_ms)

    @property
    def size_ms(self) -> int:
        return MAX_MS

    @property
    def grace_ms(self) -> int:
        return 0

    def starts_of(self, timestamp: int) -> range:
        return range(self.start_ms, self.start_ms + (timestamp >= self.start_ms))

    def end_of(self, start_ms: int) -> int:
        return MAX_MS


# Windows whose bounds depend on the time of a record alone.
FixedWindows = TimeWindows | UnlimitedWindows


@part_of_plans
@dataclass(frozen=True)
class SlidingWindows(_WithGrace):
    """A window for each set of a key's records that are at most `difference_ms` apart (KIP-450). Start and end are both
    part of a window.
    """

    difference_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        # Kafka accepts a difference of 0 here, and ends the application at the first record.
        _at_least(self.difference_ms, 1, "the time difference of sliding windows")
        _at_least(self.grace_ms, 0, "the grace period of sliding windows")

    @classmethod
    def of(cls, difference: int | str) -> SlidingWindows:
        """Raises ValueError: the difference is below 1 ms."""
        return cls(milliseconds(difference, "the time difference of sliding windows"))


@part_of_plans
@dataclass(frozen=True)
class SessionWindows(_WithGrace):
    """Windows that grow with each record of their key until `gap_ms` pass without one. Start and end, the times of the
    first and the last record, are part of a window.
    """

    gap_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        _at_least(self.gap_ms, 0, "the inactivity gap of session windows")
        _at_least(self.grace_ms, 0, "the grace period of session windows")

    @classmethod
    def of(cls, gap: int | str) -> SessionWindows:
        """Raises ValueError: the gap is negative."""
        return cls(milliseconds(gap, "the inactivity gap of session windows"))


@part_of_plans
@dataclass(frozen=True)
class JoinWindows(_WithGrace):
    """Times of the other stream's records that a record joins: from `before_ms` before it to `after_ms` after it. One
    of them may be negative.
    """

    before_ms: int
    after_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        _at_least(self.size_ms, 0, "the sum of before and after of join windows")
        _at_least(self.grace_ms, 0, "the grace period of join windows")

    @classmethod
    def of(cls, difference: int | str) -> JoinWindows:
        """Raises ValueError: the difference is negative."""
        difference_ms = milliseconds(difference, "the time difference of join windows")
        return cls(difference_ms, difference_ms)

    def before(self, difference: int | str) -> JoinWindows:
        """Raises ValueError: the window would end before it begins."""
        return replace(self, before_ms=milliseconds(difference, "before of join windows"))

    def after(self, difference: int | str) -> JoinWindows:
        """Raises ValueError: the window would end before it begins."""
        return replace(self, after_ms=milliseconds(difference, "after of join windows"))

    @property
    def size_ms(self) -> int:
        return self.before_ms + self.after_ms
