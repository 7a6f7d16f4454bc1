"""The stalls of partitions while the members of a group changed, derived from the consumed records and their times."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

NS = 1e9
Stretch = tuple[int, int]  # offsets from the first up to, but not including, the second


@dataclass(frozen=True)
class Took:
    """Records of one partition that one poll of one member returned."""

    at_ns: int  # time.monotonic_ns
    partition: int
    first: int  # offsets, including the last
    last: int


@dataclass(frozen=True)
class Stall:
    """The longest time in which no new record of a partition was consumed."""

    seconds: float
    lasting: bool  # it had not ended at the end of the span


def longest(
    taken: Iterable[Took], partitions: int, spans: Sequence[tuple[float, float]], interval_s: float
) -> list[dict[int, Stall]]:
    """Return the longest stall of each partition for each span (begin and end, seconds of the monotonic clock).

    Records that another member has consumed before are not new. `interval_s`, the schedule's own time between two
    records of a partition, is not part of a stall.
    """
    times: dict[int, list[float]] = {partition: [] for partition in range(partitions)}
    high = dict.fromkeys(range(partitions), -1)
    for took in sorted(taken, key=lambda each: each.at_ns):
        if took.last > high[took.partition]:
            high[took.partition] = took.last
            times[took.partition].append(took.at_ns / NS)
    return [
        {partition: _longest(at, begin, end, interval_s) for partition, at in times.items()} for begin, end in spans
    ]


def _longest(times: Sequence[float], begin: float, end: float, interval_s: float) -> Stall:
    inside = [begin, *(at for at in times if begin < at < end), end]
    gaps = [after - before for before, after in itertools.pairwise(inside)]
    found = max(gaps)
    return Stall(max(0.0, found - interval_s), lasting=found == gaps[-1] and found > 2 * interval_s)


def coverage(taken: Iterable[Took], ends: Mapping[int, int]) -> tuple[int, int]:
    """Return the number of records below `ends` that no member consumed, and of those consumed more than once."""
    stretches: dict[int, list[Stretch]] = defaultdict(list)
    for took in taken:
        stretches[took.partition].append((took.first, took.last + 1))
    missing = again = 0
    for partition, end in ends.items():
        reached = 0
        for first, beyond in sorted(stretches[partition]):
            missing += max(0, min(first, end) - reached)
            again += max(0, min(reached, beyond) - first)
            reached = max(reached, beyond)
        missing += max(0, end - reached)
    return missing, again
