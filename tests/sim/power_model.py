"""The batches that were written to a partition, and the part of them that a start after a power cut must find: see
docs/architecture-durability.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from uuid import UUID

from broker_cy.storage import recovery
from broker_cy.storage.cleaner.job import PRODUCER, SNAPSHOT_HEADER_BYTES
from broker_cy.storage.errors import StorageError
from broker_cy.storage.log import Log
from broker_cy.wire.records import decode_batches
from tests.broker_cy.storage.batches import split
from tests.sim import power_transactions
from tests.sim.power_transactions import TransactionPart

NEVER = (1 << 63) - 1


@dataclass(frozen=True)
class Batch:
    """One batch as it was written; `records` are (offset, key, value), if the topic is compacted."""

    base: int
    last: int
    data: bytes
    written_ms: int
    records: tuple[tuple[int, bytes, bytes | None], ...] = ()
    producer_id: int = -1
    last_sequence: int = -1
    transaction: TransactionPart | None = None


@dataclass
class State:
    """The events of the partition before this start."""

    # Since the last start that checked this log, power was lost, or the disk dropped data that it failed to sync.
    power_lost: bool = False
    disk_lost: bool = False
    # A sync of the log failed, and that was noted.
    sync_failed: bool = False


class Model:
    """One life of a partition, from the creation of its topic to its deletion."""

    def __init__(self, topic_id: UUID) -> None:
        self.topic_id = topic_id
        self.batches: list[Batch] = []
        # Batches whose write failed in such a way that they may be in the file.
        self.uncertain: list[Batch] = []
        # Batches that were refused and undone. Until a later sync a power cut may bring them back, since a sync that
        # ran at that time may have written them to disk.
        self.undone: list[Batch] = []
        # Producers of batches that were refused. The log may know them, without a sequence, so that it does not accept
        # as their first batch one that they sent after it.
        self.refused: set[int] = set()
        # Everything before it is on disk, or was deleted.
        self.durable_end = 0
        self.written_end = 0
        # Records before it may be gone, and the log begins at or before it; the log must not begin before the floor.
        self.deleted_before = 0
        self.start_floor = 0
        # The cleaner does not read deleted records, even if they come back.
        self.was_deleted_before = 0
        self.taken_for_synced = 0
        self.state = State()
        # The log was damaged: the partition is offline, or the records that it serves are correct.
        self.damaged = False
        # No damage, or the note of it is on disk. If not, a start after a power loss or a failed sync may take the
        # damage for a torn write: it happened before the log was opened, or the note was not synced before.
        self.note_is_synced = True
        # A start found the damage: the partition must not be online again as long as it exists.
        self.was_offline = False
        self.now_ms = 0

    def began(self, log: Log) -> None:
        """Note that the log was created or loaded. From now on its synced end offset shows the synced records; before,
        it may include deleted records.
        """
        self.taken_for_synced = log.synced_end_offset

    def note(self, log: Log, high_watermark: int) -> None:
        """Take over, after each step, what the log and the partition guarantee now."""
        self.deleted_before = max(self.deleted_before, log.log_start_offset)
        self.was_deleted_before = max(self.was_deleted_before, self.deleted_before)
        self.written_end = log.written_end_offset
        if log.synced_end_offset > self.taken_for_synced:
            self.durable_end = max(self.durable_end, log.synced_end_offset)
        if log.config.flush_messages < NEVER and log.offline is None:
            # Fewer than flush.messages records were acknowledged, or read by a consumer, and are not on disk.
            self.durable_end = max(self.durable_end, high_watermark - log.config.flush_messages + 1)

    def write_failed(self, batch: Batch, *, is_certain: bool) -> None:
        """Note that a batch was not acknowledged, and is not in the log."""
        self.batches.remove(batch)
        self.refused.add(batch.producer_id)
        (self.undone if is_certain else self.uncertain).append(batch)

    # --- after a start

    def accept_offline(self, reason: str) -> None:
        """Check that the partition may be offline after a start during which nothing failed."""
        assert self.damaged or self.state.disk_lost, f"offline without damage: {reason}"
        self.damaged = self.was_offline = True

    def check(self, log: Log, high_watermark: int, *, cleaned_offset: int | None, knows_start: bool = False) -> bool:
        """Check the log after a start; return whether the partition may be used. A damaged partition may not, and
        reading it fails with the reason. With `knows_start`, lost records must not seem to be deleted.
        """
        name = f"{log.topic} from {log.log_start_offset} to {log.log_end_offset}"
        if (self.damaged or self.state.disk_lost) and self._reports_damage(log):
            assert not self.was_offline, f"{name}: the partition was found damaged, but is online again"
            self.damaged = True
            return False
        if not self.note_is_synced and (self.state.power_lost or self.state.disk_lost or self.state.sync_failed):
            self.durable_end = min(self.durable_end, log.log_end_offset)
        self.note_is_synced = True
        assert log.log_end_offset >= self.durable_end, f"{name}: offsets below {self.durable_end} are reused"
        assert log.log_start_offset >= self.start_floor, f"{name}: deleted records below {self.start_floor} are back"
        assert not knows_start or self.state.disk_lost or log.log_start_offset <= self.deleted_before, (
            f"{name}: lost records from {self.deleted_before} on count as deleted"
        )
        data = self._read(log)
        epochs = {base: int.from_bytes(raw[12:16]) for base, _, raw in split(data)}
        if log.config.compact:
            self._check_compacted(name, log, data, cleaned_offset)
        else:
            self._check_run(name, log, data)
            self._check_producers(name, log)
            power_transactions.check(name, log, high_watermark, [(b.base, b.last, b.transaction) for b in self.batches])
        lost = self.state.power_lost or self.state.disk_lost
        assert lost or log.log_end_offset >= self.written_end, (
            f"{name}: a kill lost written records below {self.written_end}"
        )
        # Deleted records may come back after a power loss, unless the deletion is on disk.
        self.batches = [each for each in self.batches if self.start_floor <= each.last < log.log_end_offset]
        self.undone = [each for each in self.undone + self.uncertain if each.base >= self.durable_end]
        self.uncertain.clear()
        for base, epoch in list(epochs.items())[-3:]:
            found = log.epochs.epoch_for_offset(max(base, log.log_start_offset))
            assert found == epoch, f"{name}: the batch at {base} has epoch {epoch}, but the log reports {found}"
        self.deleted_before = log.log_start_offset
        if self.state.power_lost:
            self.start_floor = log.log_start_offset
        self.damaged = self.was_offline = False
        self.state = State()
        self.began(log)
        return True

    @staticmethod
    def _reports_damage(log: Log) -> bool:
        """Whether a consumer would find the partition damaged: the checksums of a segment are verified before it is
        read for the first time.
        """
        return any(
            recovery.verify_part(each.path, each.base_offset, 0, each.size, each.size, log.end_of(each))[1] is not None
            for each in log.segments
        )

    @staticmethod
    def _read(log: Log) -> bytes:
        """Everything from the log start offset on, as consumers get it."""
        parts = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            try:
                part = log.read_slice(offset)
            except StorageError as error:
                raise AssertionError(f"{log.topic} cannot be read at {offset}: {error}") from error
            if part is None:
                break
            data = part.read()
            parts.append(data)
            last = split(data)[-1][1]
            assert last >= offset, f"{log.topic}: a read at {offset} ends at {last}"
            offset = last + 1
        return b"".join(parts)

    def _take_back(self, is_there: Callable[[Batch], bool]) -> None:
        """Put rejected batches that exist in the log nevertheless in place of those that got their offsets later. That
        is not a loss if the later ones were not acknowledged as being on disk.
        """
        for batch in self.uncertain + (self.undone if self.state.power_lost else []):
            if batch.base >= self.durable_end and is_there(batch):
                kept = [
                    each
                    for each in self.batches
                    if each.last < batch.base or each.base > batch.last or each.base < self.durable_end
                ]
                self.batches = sorted([*kept, batch], key=lambda each: each.base)

    def _check_run(self, name: str, log: Log, data: bytes) -> None:
        """Check that the log has the batches that were written, without a gap, and all of those that had to stay."""
        found = split(data)
        first = found[0][0] if found else log.log_end_offset
        self._take_back(lambda batch: (batch.base, batch.last, batch.data) in found)
        written = [(each.base, each.last, each.data) for each in self.batches]
        left = [each for each in written if first <= each[0] < log.log_end_offset]
        assert found == left, (
            f"{name}: found other batches than were written: {[b[:2] for b in found]}, expected {[b[:2] for b in left]}"
        )
        if found:
            assert first <= log.log_start_offset, f"{name}: the first batch begins at {first}"
            assert found[-1][1] + 1 == log.log_end_offset, f"{name}: the last batch ends at {found[-1][1]}"
        lost = [each[:2] for each in written if self.deleted_before <= each[1] < self.durable_end and each[0] < first]
        assert not lost, f"{name}: acknowledged records are gone: {lost}"

    def _check_producers(self, name: str, log: Log) -> None:
        """Check that sequences continue where the last batch of a producer ends: otherwise a resent batch would be
        stored twice.
        """
        known = {
            entry[0]: (entry[2], entry[3])
            for entry in PRODUCER.iter_unpack(log.producers.encode()[SNAPSHOT_HEADER_BYTES:])
        }
        first = log.log_start_offset
        newest = {
            each.producer_id: each
            for each in self.batches
            if each.producer_id >= 0 and first <= each.last < log.log_end_offset
        }
        for producer_id, batch in newest.items():
            expected = (batch.last_sequence, batch.last)
            assert known.get(producer_id) == expected, f"{name}: found {known.get(producer_id)}, expected {expected}"
        ever = {each.producer_id for each in self.batches}
        for producer_id, (last_sequence, last_offset) in known.items():
            assert last_offset < log.log_end_offset, f"{name}: producer {producer_id} has last offset {last_offset}"
            is_refused = producer_id in self.refused and last_sequence < 0
            wrote = producer_id in ever or self.was_deleted_before or is_refused
            assert wrote, f"{name}: producer {producer_id} is known, but wrote nothing"

    def _check_compacted(self, name: str, log: Log, data: bytes, cleaned_offset: int | None) -> None:
        """Check that the log has the newest record of each key that was on disk, or a newer one. If that was a
        tombstone which was removed in time, no record that it replaced may be back.
        """
        written: dict[int, tuple[bytes, bytes | None]] = {}
        times: dict[int, int] = {}
        stored = {
            (record.offset, record.key, record.value) for batch in decode_batches(data) for record in batch.records()
        }
        stored -= {record for each in self.batches for record in each.records}

        def is_there(batch: Batch) -> bool:
            # Another refused batch may have had the same record at one of these offsets.
            here = {record for record in stored if batch.base <= record[0] <= batch.last}
            return bool(here) and here.issubset(batch.records)

        self._take_back(is_there)
        for each in self.batches:
            for offset, key, value in each.records:
                written[offset] = (key, value)
                times[offset] = each.written_ms
        found: dict[bytes, list[int]] = {}
        end = 0
        for batch in decode_batches(data):
            assert batch.is_valid(), f"{name}: the checksum of {batch.base_offset} is wrong"
            assert batch.base_offset >= end, f"{name}: batch at {batch.base_offset}, expected at least {end}"
            end = batch.last_offset + 1
            for record in batch.records():
                pair = (record.key, record.value)
                assert written.get(record.offset) == pair, f"{name}: the record at {record.offset} is {pair}"
                assert record.key is not None
                found.setdefault(record.key, []).append(record.offset)
        newest = {
            key: offset for offset, (key, _) in written.items() if self.deleted_before <= offset < self.durable_end
        }
        for key, offset in newest.items():
            there = found.get(key, [-1])
            if there[-1] >= offset:
                continue
            went = any(
                each == key and value is None and self.now_ms - times[at] >= log.config.delete_retention_ms
                for at, (each, value) in written.items()
                if offset <= at < log.log_end_offset
            )
            assert went, f"{name}: {key!r} at {offset} was acknowledged, but found at {there}"
            assert there == [-1], f"{name}: {key!r} is back at {there}; its tombstone was at {offset}"
        if self.state.power_lost:
            here = {offset for offsets in found.values() for offset in offsets}
            # Any part of the records that were not on disk may be missing: compaction leaves gaps that look alike.
            self.batches = [
                replace(each, records=tuple(r for r in each.records if r[0] < self.durable_end or r[0] in here))
                for each in self.batches
            ]
        if cleaned_offset is not None:
            assert cleaned_offset <= log.log_end_offset, f"{name}: cleaned up to {cleaned_offset}"
            for key, offsets in found.items():
                twice = [each for each in offsets if self.was_deleted_before <= each < cleaned_offset]
                assert len(twice) <= 1, f"{name}: cleaned up to {cleaned_offset}, but {key!r} is at {twice}"
