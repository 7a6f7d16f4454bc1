"""The status of a group: pure functions over samples of its committed offsets and the ends of its partitions.

The rules are those of Burrow, with two changes. A rewind counts until the group has caught up, even if it had no lag
before. And if the members of the group are known, they distinguish a stalled consumer from one that stopped: a window
may be shorter than the time between two commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import pairwise

from broker_cy.core.classes import NamedTuple, dataclass


class Status(IntEnum):
    """The status of a group in a partition; higher values are worse.

    OK: it keeps up. UNKNOWN: it has lag, and there are too few samples. WARN: its offset moves, and its lag grows.
    REWOUND: its offset went back, and it has not caught up since. STALLED: it has members, but its offset does not
    move although there are unread records. STOPPED: it no longer commits.
    """

    OK = 0
    UNKNOWN = 1
    WARN = 2
    REWOUND = 3
    STALLED = 4
    STOPPED = 5


class Sample(NamedTuple):
    """One sample of a group's partition: its time (ms since 1970), the committed offset (PartitionLag.position), and
    the end of the log.

    `commit_ms` is when the group last committed, None if it is not known; `has_members` whether it had members,
    None if that was not asked.
    """

    at_ms: int
    committed: int
    end: int
    commit_ms: int | None = None
    has_members: bool | None = None

    @property
    def lag(self) -> int:
        """Unread records; 0 if the end is older than the commit."""
        return max(0, self.end - self.committed)


@dataclass(frozen=True, slots=True)
class Trend:
    """Rates over a window, in records per second, and the seconds until the group has caught up.

    `catch_up_s` is 0 without lag, and None if the group is not faster than its producers.
    """

    consumed_per_s: float
    produced_per_s: float
    catch_up_s: float | None

    @property
    def lag_per_s(self) -> float:
        """Growth of the lag, in records per second."""
        return self.produced_per_s - self.consumed_per_s


def judge(samples: Sequence[Sample]) -> Status:
    """The status from samples in the order of time; UNKNOWN without samples."""
    if not samples:
        return Status.UNKNOWN
    since = _since_rewind(samples)
    rewound = len(since) < len(samples)
    if any(sample.lag == 0 for sample in since):
        return Status.OK
    if rewound:
        return Status.REWOUND
    if len(samples) < 2:
        return Status.UNKNOWN
    first, last = samples[0], samples[-1]
    if _has_stopped(samples):
        return Status.STOPPED
    if first.committed == last.committed:
        return Status.STALLED
    lags = [sample.lag for sample in samples]
    if lags[-1] > lags[0] and all(later >= earlier for earlier, later in pairwise(lags)):
        return Status.WARN
    return Status.OK


def worst(statuses: Iterable[Status]) -> Status:
    """The status of a group from those of its partitions; OK without partitions."""
    return max(statuses, default=Status.OK)


def trend(samples: Sequence[Sample]) -> Trend | None:
    """Rates from the first to the last sample after the last rewind; None without two samples at different times."""
    since = _since_rewind(samples)
    if len(since) < 2 or since[-1].at_ms <= since[0].at_ms:
        return None
    first, last = since[0], since[-1]
    seconds = (last.at_ms - first.at_ms) / 1000
    consumed = (last.committed - first.committed) / seconds
    # A log that lost its end (unclean election) was still written to, at an unknown rate.
    produced = max(0, last.end - first.end) / seconds
    return Trend(consumed, produced, catch_up_s(last.lag, consumed - produced))


def catch_up_s(lag: int, gain_per_s: float) -> float | None:
    """Seconds until a lag that shrinks by `gain_per_s` records per second is gone; None if it does not shrink."""
    if lag == 0:
        return 0.0
    return lag / gain_per_s if gain_per_s > 0 else None


def sum_of(parts: Iterable[tuple[int, Trend | None]]) -> Trend | None:
    """The trend of a group from the lag and the trend of each of its partitions. None if none has a trend, or if that
    of a partition with lag is unknown: the rates of the others do not tell when its lag is gone.
    """
    known: list[Trend] = []
    total = 0
    for lag, each in parts:
        total += lag
        if each is not None:
            known.append(each)
        elif lag:
            return None
    if not known:
        return None
    consumed, produced = sum(each.consumed_per_s for each in known), sum(each.produced_per_s for each in known)
    # The slowest partition decides: the speed of the others does not help it.
    times = [each.catch_up_s for each in known]
    slowest = None if None in times else max(each for each in times if each is not None)
    return Trend(consumed, produced, 0.0 if total == 0 else slowest)


def time_lag_ms(lag: int, record_ms: int | None, now_ms: int) -> int | None:
    """The age of the first record that the group has not read: 0 without lag, None if its timestamp is not known.

    Also 0 if a producer's clock is ahead of ours.
    """
    if lag == 0:
        return 0
    return None if record_ms is None else max(0, now_ms - record_ms)


def _since_rewind(samples: Sequence[Sample]) -> Sequence[Sample]:
    """The samples from the last rewind on: the last sample whose offset is below the previous one."""
    for index in range(len(samples) - 1, 0, -1):
        if samples[index].committed < samples[index - 1].committed:
            return samples[index:]
    return samples


def _has_stopped(samples: Sequence[Sample]) -> bool:
    """Whether the group stopped: no known members, and no commit for as long as the window's commits span; if the times
    of commits are unknown, no movement.
    """
    first, last = samples[0], samples[-1]
    if last.has_members:
        return False
    if first.commit_ms is not None and last.commit_ms is not None:
        span_ms = last.commit_ms - first.commit_ms
        # Without a span, the window counts: the group did not commit in all of it.
        return last.at_ms - last.commit_ms > (span_ms or last.at_ms - first.at_ms)
    return last.has_members is False and first.committed == last.committed
