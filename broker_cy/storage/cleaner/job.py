"""Cleaning one log, in a worker thread: the map of its keys, then one cleaned segment after the other.

The loop makes a plan of the log (swap.plan); the worker accesses only files. After each group of segments the loop
replaces them by the cleaned segment (swap.install) and starts the next group. Files are renamed in Kafka's order, so
that a crash at any point leaves each old segment or its replacement: a group is written to `.cleaned` files, synced and
renamed to `.swap`; then the old files are renamed to `.deleted`, then the `.swap` files to their final names (log_files
finishes or undoes an interrupted step, as Kafka does).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING

from broker_cy.core.classes import dataclass
from broker_cy.core.clock import Clock
from broker_cy.storage import txn_index
from broker_cy.storage.cleaner.files import CLEANED, SWAP, DirectoryFiles, file_name
from broker_cy.storage.cleaner.throttle import Throttle
from broker_cy.storage.syncs import LogSyncs
from broker_cy.storage.txn_index import ENTRY, AbortedTransaction

if TYPE_CHECKING:
    from broker_cy.storage.cleaner.offset_map import OffsetMap
    from broker_cy.storage.cleaner.source import BatchSource
    from broker_cy.storage.cleaner.transactions import CleanedTransactions

# The most segments that one step replaces. Kafka has no such bound; here the loop renames their files.
GROUP_SEGMENTS_MAX = 64
OFFSETS_MAX = 2**31 - 1
# Output is synced in steps of this size, so that no sync takes long: a stop of the broker waits for it.
SYNC_STEP_BYTES = 32 << 20
# A worker checks each time it has read this many bytes whether its cleaning was aborted.
PAUSE_BYTES = 8 << 20
# The same under a throttle; there it is also the amount that is read between two waits.
THROTTLED_PAUSE_BYTES = 256 << 10
# Producer ids and their last batches in a `.snapshot` file, behind a header of 10 bytes (storage.producer_state).
PRODUCER = struct.Struct(">qhiqiqiq")
SNAPSHOT_HEADER_BYTES = 10


class CleaningAborted(Exception):
    """The log was truncated, deleted or closed, or the broker is stopping."""


@dataclass(slots=True, frozen=True)
class SourceSegment:
    """A segment as it was when the plan was made; sizes in bytes."""

    base_offset: int
    size: int
    index_bytes: int
    time_index_bytes: int


@dataclass(slots=True)
class CleaningPlan:
    """The input of a worker that cleans a log. `segments` are those that may be cleaned, beginning with the first of
    the log; `all_bases` are the base offsets of all of its segments; the last one is the active segment's.
    """

    directory: str
    syncs: LogSyncs
    segments: list[SourceSegment]
    # Base offsets of those of `segments` whose records may not be on disk yet.
    unsynced: list[int]
    all_bases: list[int]
    first_dirty_offset: int
    first_uncleanable_offset: int
    producers: bytes  # a snapshot
    generation: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    delete_retention_ms: int
    now_ms: int
    map_bytes: int
    load_factor: float
    buffer_bytes: int


@dataclass(slots=True)
class Replacement:
    """A cleaned segment whose files are named `.swap`, and the segments it replaces."""

    replaced: list[int]
    base_offset: int
    size: int
    max_timestamp: int
    max_timestamp_offset: int


@dataclass(slots=True)
class CleaningStats:
    """The statistics of a cleaning; times in seconds."""

    map_bytes: int = 0
    input_bytes: int = 0
    output_bytes: int = 0
    records_read: int = 0
    records_kept: int = 0
    records_without_key: int = 0
    keys: int = 0
    map_full: bool = False
    elapsed_s: float = 0.0


def active_producers(snapshot: bytes) -> tuple[list[int], dict[int, int]]:
    """(last data offsets, producer id -> epoch of those without data) of the producers in a snapshot."""
    offsets, bare = [], {}
    for producer_id, epoch, _, last_offset, _, _, _, _ in PRODUCER.iter_unpack(snapshot[SNAPSHOT_HEADER_BYTES:]):
        if last_offset >= 0:
            offsets.append(last_offset)
        else:
            bare[producer_id] = epoch
    return offsets, bare


def group_segments(
    segments: list[SourceSegment], plan: CleaningPlan, group_segments_max: int = GROUP_SEGMENTS_MAX
) -> list[list[SourceSegment]]:
    """Groups of segments that are merged into one: each group has at most segment.bytes and segment.index.bytes, with
    offsets that fit an index (Kafka's groupSegmentsBySize).
    """
    groups: list[list[SourceSegment]] = []
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else plan.first_uncleanable_offset
        if groups and len(groups[-1]) < group_segments_max:
            group = [*groups[-1], segment]
            if (
                sum(each.size for each in group) <= plan.segment_bytes
                and sum(each.index_bytes for each in group) <= plan.segment_index_bytes
                and sum(each.time_index_bytes for each in group) <= plan.segment_index_bytes
                and (segment.size == 0 or following - 1 - group[0].base_offset <= OFFSETS_MAX)
            ):
                groups[-1] = group
                continue
        groups.append([segment])
    return groups


@dataclass(slots=True)
class Cleaning:
    """One cleaning of one log. `step` runs in a worker, everything else on the loop. `secret`: see OffsetMap.

    The worker imports the modules that read and write: a broker whose logs need no cleaning has no use for them.
    """

    plan: CleaningPlan
    files: DirectoryFiles
    throttle: Throttle
    clock: Clock
    secret: bytes
    stats: CleaningStats = field(default_factory=CleaningStats)
    aborted: bool = False
    # Set by the first step: the log is clean up to this offset once all groups are replaced.
    end_offset: int = -1
    _offsets: OffsetMap | None = None
    _groups: list[list[SourceSegment]] = field(default_factory=list)
    _transactions: CleanedTransactions | None = None
    _started_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._started_s = self.clock.monotonic()

    def step(self) -> Replacement | None:
        """Clean the next group; None if none is left. Raises CleaningAborted, OSError, StorageError, ValueError,
        MemoryError, and then leaves no files of the group.
        """
        try:
            if self._offsets is None:
                self._build_map()
            self._check()
            if not self._groups:
                self.stats.elapsed_s = self.clock.monotonic() - self._started_s
                self._offsets = None
                return None
            return self._clean(self._groups.pop(0))
        except (OSError, ValueError) as error:
            if self.aborted:  # files were removed or changed
                raise CleaningAborted from error
            raise

    def _check(self) -> None:
        if self.aborted:
            raise CleaningAborted

    def _pause(self, read_bytes: int) -> None:
        self._check()
        self.throttle.spend(read_bytes, self._check)

    def _pause_bytes(self) -> int:
        return THROTTLED_PAUSE_BYTES if self.throttle.is_limited else PAUSE_BYTES

    def _over(self, segment: SourceSegment, use: Callable[[BatchSource], None], *, check: bool) -> None:
        """Call `use` with the batches of a segment."""
        from broker_cy.storage.cleaner.source import BatchSource

        name = file_name(segment.base_offset, ".log")
        path = f"{self.plan.directory}/{name}"
        fd = self.files.open(name)
        try:
            use(BatchSource(fd, path, segment.size, segment.base_offset, self.plan.buffer_bytes, check))
        finally:
            os.close(fd)

    def _sync_sources(self) -> None:
        """Sync the segments that may not be on disk. A record is removed because of a newer one with its key, which may
        be in another group and has to survive a power loss first. (Kafka relies on the other replicas for that.)
        """
        for base in self.plan.unsynced:
            self._check()
            fd = self.files.open(file_name(base, ".log"))
            try:
                self.plan.syncs.run(self.files.sync, fd)
            finally:
                os.close(fd)

    def _build_map(self) -> None:
        from broker_cy.storage.cleaner.map_walk import map_keys
        from broker_cy.storage.cleaner.offset_map import OffsetMap
        from broker_cy.storage.cleaner.transactions import CleanedTransactions

        plan = self.plan
        self._sync_sources()
        aborted = self._read_aborted()
        self._transactions = CleanedTransactions(aborted)
        # The map is built from the first dirty offset on. A transaction whose marker is before that would never end
        # there, and its producer's later commits would count as aborted.
        transactions = CleanedTransactions(entry for entry in aborted if entry[2] >= plan.first_dirty_offset)
        offsets = OffsetMap(plan.map_bytes, self.secret, plan.load_factor)
        self._offsets = offsets
        offsets.latest_offset = plan.first_dirty_offset - 1
        full = False
        for number, segment in enumerate(plan.segments):
            last = number + 1 == len(plan.segments)
            following = plan.first_uncleanable_offset if last else plan.segments[number + 1].base_offset
            if following <= plan.first_dirty_offset:
                continue

            def use(source: BatchSource) -> None:
                nonlocal full
                full = map_keys(
                    source, offsets, plan.first_dirty_offset, transactions, self._pause, self._pause_bytes()
                )

            self._over(segment, use, check=False)
            self.stats.map_bytes += segment.size
            if full:
                break
            offsets.latest_offset = following - 1
        self.stats.keys = offsets.entries
        self.stats.map_full = full
        self.end_offset = offsets.latest_offset + 1
        self._groups = group_segments([each for each in plan.segments if each.base_offset < self.end_offset], plan)

    def _read_aborted(self) -> list[AbortedTransaction]:
        """All aborted transactions of the log. Their markers may be after the cleaned part, up to the active segment.
        The loop may be appending to the index of that one; an incomplete entry at its end does not matter here.
        """
        found: list[AbortedTransaction] = []
        for base in self.plan.all_bases:
            name = file_name(base, ".txnindex")
            try:
                fd = self.files.open(name)
            except FileNotFoundError:
                continue
            with open(fd, "rb") as file:
                data = file.read()
            if base == self.plan.all_bases[-1]:
                data = data[: len(data) - len(data) % ENTRY.size]
            found += txn_index.decode(data, f"{self.plan.directory}/{name}")
        return found

    def _clean(self, group: list[SourceSegment]) -> Replacement:
        base = group[0].base_offset
        try:
            replacement = self._write(group)
            self._check()
            self.files.rename_segment(base, CLEANED, SWAP)
            self.files.sync_directory()
        except BaseException:
            self.files.discard(base, SWAP)
            self.files.discard(base, CLEANED)
            raise
        return replacement

    def _write(self, group: list[SourceSegment]) -> Replacement:
        from broker_cy.storage.cleaner.clean_walk import CleanWalk

        plan, base = self.plan, group[0].base_offset
        assert self._offsets is not None
        assert self._transactions is not None
        kept_offsets, bare_producers = active_producers(plan.producers)
        fd = self.files.create(file_name(base, ".log") + CLEANED)
        unsynced = 0

        def write(data: memoryview, position: int) -> None:
            nonlocal unsynced
            self.files.write(fd, data, position)
            self.throttle.spend(len(data), self._check)
            unsynced += len(data)
            if unsynced >= SYNC_STEP_BYTES:
                self.files.sync(fd)
                unsynced = 0

        try:
            walk = CleanWalk(
                self._offsets,
                self._transactions,
                base,
                now_ms=plan.now_ms,
                delete_retention_ms=plan.delete_retention_ms,
                upper_offset=plan.first_uncleanable_offset,
                kept_offsets=kept_offsets,
                bare_producers=bare_producers,
                buffer_bytes=plan.buffer_bytes,
                index_interval_bytes=plan.index_interval_bytes,
                index_bytes_max=plan.segment_index_bytes,
                write=write,
            )
            for segment in group:
                self._over(segment, lambda source: walk.clean(source, self._pause, self._pause_bytes()), check=True)
            index, time_index = walk.finish()
            # Keep the modification time: retention of records without a timestamp is determined by it.
            modified_ns = self._modified_ns(group[-1])
            self.files.set_modified(fd, modified_ns)
            self.files.sync(fd)
        finally:
            os.close(fd)
        self._write_small(base, ".index", index)
        self._write_small(base, ".timeindex", time_index)
        aborted = self._transactions.take_kept()
        if aborted:
            self._write_small(base, ".txnindex", txn_index.encode(aborted))
        self.stats.input_bytes += sum(segment.size for segment in group)
        self.stats.output_bytes += walk.written
        self.stats.records_read += walk.records_read
        self.stats.records_kept += walk.records_kept
        self.stats.records_without_key += walk.records_without_key
        replaced = [segment.base_offset for segment in group]
        return Replacement(replaced, base, walk.written, walk.max_timestamp, walk.max_timestamp_offset)

    def _modified_ns(self, segment: SourceSegment) -> int:
        fd = self.files.open(file_name(segment.base_offset, ".log"))
        try:
            return os.fstat(fd).st_mtime_ns
        finally:
            os.close(fd)

    def _write_small(self, base: int, suffix: str, data: bytes) -> None:
        fd = self.files.create(file_name(base, suffix) + CLEANED)
        try:
            self.files.write(fd, data, 0)
            self.files.sync(fd)
        finally:
            os.close(fd)
