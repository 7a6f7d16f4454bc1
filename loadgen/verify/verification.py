"""The findings of a run's verification, as plain data."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Final

# Examples of each kind of finding, in one partition and in total.
EXAMPLES_MAX: Final = 5
# Damaged batches of a partition that are reported.
TEXTS_MAX: Final = 20
# The findings that are errors of the cluster.
DEFECTS: Final = ("lost", "duplicated", "reordered", "refused_but_read", "aborted_but_read", "damaged")


@dataclass(frozen=True)
class Example:
    """One record: `offset` is None if it is missing. `producer` is that of its stamp or, with `by_batches`, the
    producer id in the header of its batch (KIP-98).
    """

    producer: int
    partition: int
    sequence: int
    offset: int | None
    by_batches: bool = False
    topic: str = ""

    def __str__(self) -> str:
        kind = "producer id" if self.by_batches else "producer"
        place = "" if self.offset is None else f" at offset {self.offset}"
        return f"{self.topic}-{self.partition}: sequence {self.sequence} of {kind} {self.producer}{place}"


@dataclass
class Counts:
    """Records, except `damaged`.

    `read`: those of this run, each copy counted. `lost`: acknowledged, and missing. `duplicated`: copies beyond the
    first. `reordered`: read after a record of the same producer with a higher sequence. `unknown_present` and
    `unknown_absent`: without a known outcome, found and missing. `not_checkable`: acknowledged, and possibly removed by
    retention before it was read. `unclaimed`: of this run, but with a producer or sequence that is not in the ledgers,
    such as those of a dead worker. `foreign`: not of this run. `damaged`: batches whose checksum is wrong or that
    cannot be decoded; their records count as missing.
    """

    sent: int = 0
    acknowledged: int = 0
    read: int = 0
    lost: int = 0
    duplicated: int = 0
    reordered: int = 0
    refused_but_read: int = 0
    aborted_but_read: int = 0
    unknown_present: int = 0
    unknown_absent: int = 0
    not_checkable: int = 0
    unclaimed: int = 0
    foreign: int = 0
    damaged: int = 0

    def add(self, other: Counts) -> None:
        """Add the counts of another partition."""
        for each in dataclasses.fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    @property
    def defects(self) -> int:
        """The number of findings that are errors of the cluster."""
        return sum(getattr(self, name) for name in DEFECTS)


@dataclass
class PartitionFindings:
    """One partition. `start` is its end before the run, `end` its end when it was read; `notes` say what limits the
    check.
    """

    topic: str
    partition: int
    start: int
    end: int = 0
    counts: Counts = field(default_factory=Counts)
    examples: dict[str, list[Example]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass
class Verification:
    """All partitions of a run. `seconds` is the time that reading them took."""

    partitions: list[PartitionFindings] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def total(self) -> Counts:
        """The sums over all partitions."""
        total = Counts()
        for each in self.partitions:
            total.add(each.counts)
        return total

    @property
    def is_good(self) -> bool:
        """Whether the cluster kept the acknowledged records, once and in order, and returned nothing else."""
        return self.total.defects == 0

    def examples(self, defect: str) -> list[Example]:
        """Return the first examples of a finding over all partitions."""
        found = [example for each in self.partitions for example in each.examples.get(defect, ())]
        return found[:EXAMPLES_MAX]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as dicts, lists, numbers and strings."""
        return {
            "good": self.is_good,
            "seconds": self.seconds,
            "total": dataclasses.asdict(self.total),
            "partitions": [dataclasses.asdict(each) for each in self.partitions],
        }
