"""Compares the last record of each key, for topics that are compacted: each side removes older records by itself.

A key whose last record has no value counts as absent, because compaction removes such records later. Keys are compared
by hashes of 63 bits, in passes that each take a part of them, so that memory is bounded.
"""

from __future__ import annotations

from array import array
from typing import Final, NamedTuple

from broker_cy.core.errors import WireError
from broker_cy.wire.digest import record_hashes
from broker_cy.wire.records import Batch
from broker_mirror.proof.pairing import DIFFERENCES_MAX, Difference, Reason
from broker_mirror.proof.ranges import Extent, Window

KEYS_MAX: Final = 200_000
"""Keys of one side in one pass: 40 MB. With more, there are twice as many passes."""


class TooManyKeys(Exception):
    """The pass has more keys than KEYS_MAX: begin again with twice as many passes."""


class _Last(NamedTuple):
    hash: int
    offset: int
    is_null: bool


class LastOfKeys:
    """The last records of the keys of one side that belong to the pass `part` of `parts`."""

    def __init__(
        self, extent: Extent, part: int = 0, parts: int = 1, *, with_times: bool = True, keys_max: int = KEYS_MAX
    ) -> None:
        self._extent = extent
        self._part, self._parts = part, parts
        self._with_times = with_times
        self._max = keys_max
        self.last: dict[int, _Last] = {}
        self.records = 0
        self.damage: list[tuple[int, str]] = []

    def add(self, batch: Batch) -> None:
        """Take the next batch of committed records. Raises TooManyKeys."""
        try:
            if not batch.is_valid():
                raise WireError("the checksum of the batch is wrong")
            columns = record_hashes(batch, self._extent.start, self._extent.end, self._with_times, True)
        except WireError as error:
            if len(self.damage) < DIFFERENCES_MAX:
                self.damage.append((batch.base_offset, str(error)))
            return
        offsets, hashes, keys = array("q", columns[0]), array("Q", columns[1]), array("Q", columns[2])
        self.records += len(offsets)
        for offset, found, key in zip(offsets, hashes, keys, strict=True):
            if (key >> 1) % self._parts == self._part:
                self.last[key >> 1] = _Last(found, offset, bool(key & 1))
        if len(self.last) > self._max:
            raise TooManyKeys


def differences(window: Window, source: LastOfKeys, target: LastOfKeys) -> tuple[list[Difference], int, int]:
    """Return the differences in the order of their offsets, the keys that are equal, and those of the source whose last
    record may still be on its way.
    """
    found: list[Difference] = [Difference(Reason.DAMAGED, offset, None, text=text) for offset, text in source.damage]
    found += [Difference(Reason.DAMAGED, None, offset, text=text) for offset, text in target.damage]
    equal = behind = 0
    for key, one in source.last.items():
        other = target.last.get(key)
        if other is not None and other.hash == one.hash:
            equal += 1
        elif one.offset >= window.reached:
            behind += 1
        elif other is None or other.is_null:
            if one.is_null:
                equal += 1
            elif not window.removed_in_target:
                # Otherwise retention of the target may have removed it.
                found.append(Difference(Reason.MISSING, one.offset, None if other is None else other.offset))
        else:
            found.append(Difference(Reason.CONTENT, one.offset, other.offset))
    if not window.removed_in_source and not window.source.start:
        found += [
            Difference(Reason.ADDED, None, other.offset)
            for key, other in target.last.items()
            if key not in source.last and not other.is_null
        ]
    found.sort(key=lambda each: (each.source_offset is None, each.source_offset or each.target_offset or 0))
    return found, equal, behind
