"""The failover of a group on paper: the records that it would read again in the target, and those that it would miss.

From a pair of offsets with the same record on both sides, the first n records of the source are the first n of the
target. The group has read `read` of them in the source; in the target, `before` of them are before the offset at which
it would continue, and `after` are at or after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from broker_mirror.proof.ranges import Window
from broker_mirror.translation import Range


class Origin(Enum):
    """Where the offset in the target is from, in the order in which a failover finds it."""

    TARGET = "offset of the group in the target"
    CHECKPOINT = "checkpoint"
    SYNC = "offset sync"
    EQUAL = "equal offsets"
    NONE = "none"


class Counts(NamedTuple):
    """`again` records are read a second time, `missed` ones never."""

    again: int
    missed: int


def counts(read: int, before: int, after: int) -> Counts:
    """Return the result for the numbers of records that the module describes. Records that were read and are not in the
    target are neither read again nor missed.
    """
    return Counts(max(0, min(read, before + after) - before), max(0, before - read))


def nearest(window: Window, pairs: list[Range], committed: int, continues_at: int) -> tuple[int, int]:
    """Return the last known pair of offsets that is neither after the committed offset nor after the offset in the
    target. Counting begins there.
    """
    first = window.source.start, window.target.start
    for each in pairs:
        skipped = max(0, window.source.start - each.source, window.target.start - each.target)
        last = min(each.length - 1, committed - each.source, continues_at - each.target)
        if last >= skipped:
            first = max(first, (each.source + last, each.target + last))
    return first


@dataclass(frozen=True, slots=True)
class DrillRow:
    """A partition of a group. `committed` is its offset in the source, `continues_at` that in the target; None without
    one. Counts are None if `problem` says why. `again_ms` is the time from the first record that is read again to the
    last one that was read. `lag` are the offsets of the source that the group has not read.
    """

    topic: str
    partition: int
    remote_topic: str
    committed: int
    continues_at: int | None
    origin: Origin
    again: int | None = None
    missed: int | None = None
    again_ms: int | None = None
    lag: int | None = None
    problem: str = ""

    @property
    def is_safe(self) -> bool:
        return self.missed == 0
