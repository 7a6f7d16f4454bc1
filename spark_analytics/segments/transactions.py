"""Transactions of a partition, for read_committed (KIP-98): the start of the first open one, and the aborted ones."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable

from broker_cy.core.errors import WireError
from broker_cy.storage import txn_index
from broker_cy.storage.disk import read_whole
from broker_cy.storage.log_files import DIGITS, base_offset_of
from broker_cy.storage.producer_state import ProducerState
from broker_cy.storage.segment_files import SNAPSHOT_SUFFIX
from broker_cy.wire.control import ControlType, control_type
from broker_cy.wire.records import decode_batches
from spark_analytics.segments.errors import SegmentsError
from spark_analytics.segments.extent import Extent
from spark_analytics.segments.files import CountedFile, Header, SegmentFile
from spark_analytics.segments.walk import Damage, headers, position_of

# Producer id, first offset, offset of the abort marker.
Aborted = tuple[int, int, int]


class Hidden:
    """Finds the batches of aborted transactions, in any order."""

    def __init__(self, aborted: Iterable[Aborted]) -> None:
        self._by_producer: dict[int, list[tuple[int, int]]] = {}
        for producer, first, last in sorted(set(aborted)):
            self._by_producer.setdefault(producer, []).append((first, last))

    def has(self, producer_id: int, base_offset: int) -> bool:
        """Return whether a transactional batch is one of an aborted transaction."""
        found = self._by_producer.get(producer_id)
        if found is None:
            return False
        # A producer has one transaction at a time in a partition, so its ranges do not overlap.
        number = bisect_right(found, (base_offset, 1 << 63)) - 1
        return number >= 0 and base_offset <= found[number][1]


def committed_extent(extent: Extent, damage: Damage) -> tuple[int, list[Aborted]]:
    """Return the last stable offset, before which all transactions have ended, and the aborted transactions.

    Both come from the newest producer snapshot below the high watermark, the headers after it, and the `.txnindex` of
    the segments. Raises SegmentsError if one of these is damaged, because it is then unknown which records are
    committed.
    """
    start, ongoing = _snapshot(extent)
    found = _walked(extent, start, ongoing, damage)
    for segment in extent.segments:
        path = segment.side(".txnindex")
        try:
            entries = txn_index.decode(read_whole(path), path)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise SegmentsError(
                f"{path} cannot be read ({error}): which records are committed is not known; "
                "isolation=read_uncommitted reads all"
            ) from None
        damage.counters.bytes_read += len(entries) * txn_index.ENTRY.size
        found += [(producer, first, last) for producer, first, last, _ in entries]
    return min([extent.end, *ongoing.values()]), found


def _snapshot(extent: Extent) -> tuple[int, dict[int, int]]:
    """Return the offset of the newest usable snapshot, and the first offsets of transactions that are open there."""
    directory = extent.folder.directory
    offsets = [
        base
        for name in os.listdir(directory)
        if (base := base_offset_of(name)) is not None and name[DIGITS:] == SNAPSHOT_SUFFIX
    ]
    for offset in sorted((each for each in offsets if extent.start <= each <= extent.end), reverse=True):
        state = ProducerState("")
        try:
            state.load(read_whole(f"{directory}/{offset:0{DIGITS}d}{SNAPSHOT_SUFFIX}"), offset)
        except (OSError, WireError):
            continue  # an earlier one, or the whole log, has the same information
        return offset, {each[0]: each[5] for each in state.describe() if each[5] >= 0}
    return extent.start, {}


def _walked(extent: Extent, start: int, ongoing: dict[int, int], damage: Damage) -> list[Aborted]:
    """Follow the transactions from `start` to the end: `ongoing` becomes those that are open there. Return those that
    were aborted.
    """
    aborted: list[Aborted] = []
    following = [each.base_offset for each in extent.segments[1:]]
    for segment, next_base in zip(extent.segments, [*following, 1 << 63], strict=True):
        if next_base <= start or segment.base_offset >= extent.end:
            continue
        try:
            file = CountedFile(segment.path, damage.counters)
        except FileNotFoundError:
            continue  # cleaning only keeps transactions that have ended, retention removes whole ones
        with file:
            position = position_of(segment, file, start, damage.counters) if start > segment.base_offset else 0
            for header in headers(segment, file, position, damage, extent.end):
                if header.last_offset < start or not header.is_transactional:
                    continue
                if not header.is_control:
                    ongoing.setdefault(header.producer_id, header.base_offset)
                    continue
                first = ongoing.pop(header.producer_id, None)
                if first is not None and _is_abort(segment, file, header, damage):
                    aborted.append((header.producer_id, first, header.last_offset))
    return aborted


def _is_abort(segment: SegmentFile, file: CountedFile, header: Header, damage: Damage) -> bool:
    try:
        (batch,) = decode_batches(file.read(header.position, header.size))
        if not batch.is_valid():
            raise WireError("the checksum of the batch is wrong")
        return any(control_type(record) == ControlType.ABORT for record in batch)
    except (ValueError, WireError) as error:
        # Without the marker's type, the transaction counts as aborted: records that may be uncommitted are not read.
        damage.note(segment.path, header.position, header.base_offset, f"transaction marker: {error}", header.size)
        return True
