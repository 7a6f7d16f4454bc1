"""Logs to be compacted, and a model in plain Python of the records that must remain after compaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from broker_cy.core.clock import MACHINE_CLOCK
from broker_cy.core.randomness import MACHINE_RANDOMNESS
from broker_cy.storage.checkpoints import TopicPartition
from broker_cy.storage.cleaner.files import DirectoryFiles
from broker_cy.storage.cleaner.log_cleaner import CleanerSettings, LogCleaner
from broker_cy.storage.jobs import InlineJobs
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.wire.control import EndTxnMarker, encode_control
from broker_cy.wire.records import Record, decode_batches, encode_batch

KEY: TopicPartition = ("t", 0)
ABORT, COMMIT = 0, 1
DELETE_HORIZON = 0x40  # a bit of a batch's attributes


@dataclass(frozen=True)
class ModelBatch:
    """A batch in a log; `kind` is that of a control record, None for data."""

    base_offset: int
    last_offset: int
    producer_id: int
    base_sequence: int
    transactional: bool
    control: bool
    codec: int
    records: tuple[tuple[int, int, bytes | None, bytes | None], ...]  # offset, timestamp, key, value
    delete_horizon_ms: int | None = None

    @property
    def kind(self) -> int | None:
        if not self.control or not self.records:
            return None
        key = self.records[0][2]
        assert key is not None
        return int.from_bytes(key[2:4])


def segment_paths(directory: str | Path) -> list[Path]:
    return sorted(Path(directory).glob("*.log"))


def stored(directory: str | Path) -> list[ModelBatch]:
    """Return all batches of a log's files, in order. Raises AssertionError if a checksum is wrong."""
    found = []
    for path in segment_paths(directory):
        for batch in decode_batches(path.read_bytes()):
            assert batch.is_valid(), f"checksum of {batch} in {path}"
            records = tuple((each.offset, each.timestamp, each.key, each.value) for each in batch.records())
            assert batch.count == len(records)
            found.append(
                ModelBatch(
                    batch.base_offset,
                    batch.last_offset,
                    batch.producer_id,
                    batch.base_sequence,
                    batch.is_transactional,
                    batch.is_control,
                    int(batch.codec),
                    records,
                    # KIP-534 stores the delete horizon in place of the base timestamp.
                    batch.base_timestamp if batch.attributes & DELETE_HORIZON else None,
                )
            )
    return found


@dataclass
class Written:
    """A log that is being written to, and what the model must know about it."""

    log: Log
    sequences: dict[int, int] = field(default_factory=dict)
    last_data_offset: dict[int, int] = field(default_factory=dict)
    open_from: dict[int, int] = field(default_factory=dict)
    # (producer id, first offset, marker offset)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    now_ms: int = 1_000_000

    def data(
        self,
        pairs: Iterable[tuple[bytes | None, bytes | None]],
        producer_id: int = -1,
        *,
        transactional: bool = False,
        codec: int = 0,
    ) -> None:
        """Append one batch of (key, value)."""
        base = self.log.log_end_offset
        records = [Record(timestamp=self.now_ms + i, key=key, value=value) for i, (key, value) in enumerate(pairs)]
        sequence = self.sequences.get(producer_id, 0) if producer_id >= 0 else -1
        batch = encode_batch(
            records,
            base_offset=base,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence,
            transactional=transactional,
            leader_epoch=0,
        )
        self.log.append(batch, self.now_ms)
        if producer_id >= 0:
            self.sequences[producer_id] = sequence + len(records)
            self.last_data_offset[producer_id] = self.log.log_end_offset - 1
        if transactional:
            self.open_from.setdefault(producer_id, base)

    def end(self, producer_id: int, *, commit: bool) -> None:
        """Append the marker of a producer's open transaction."""
        offset = self.log.log_end_offset
        marker = encode_control(EndTxnMarker(commit, 0), self.now_ms)
        self.log.append(
            encode_batch(
                [marker],
                base_offset=offset,
                producer_id=producer_id,
                producer_epoch=0,
                transactional=True,
                control=True,
                leader_epoch=0,
            ),
            self.now_ms,
        )
        first = self.open_from.pop(producer_id)
        if not commit:
            self.aborted.append((producer_id, first, offset))

    def roll(self) -> None:
        """Begin a segment, unless the active one is empty."""
        if self.log.active.size > 0:
            self.log.begin_segment(self.now_ms)

    @property
    def last_stable_offset(self) -> int:
        return min([self.log.log_end_offset, *self.open_from.values()])


def expected(
    batches: list[ModelBatch],
    written: Written,
    uncleanable_offset: int,
    now_ms: int,
    delete_retention_ms: int,
    dirty_offset: int = 0,
) -> list[ModelBatch]:
    """Return the records that must remain: Kafka's rules, one after the other."""

    def is_aborted(batch: ModelBatch) -> bool:
        return (
            batch.transactional
            and not batch.control
            and any(
                pid == batch.producer_id and first <= batch.base_offset < end for pid, first, end in written.aborted
            )
        )

    newest: dict[bytes, int] = {}
    for batch in batches:
        if batch.control or is_aborted(batch) or batch.base_offset >= uncleanable_offset:
            continue
        for offset, _, key, _ in batch.records:
            if key is not None and offset >= dirty_offset:
                newest[key] = offset
    left = []
    for at, batch in enumerate(batches):
        if batch.base_offset >= uncleanable_offset:
            left.append(batch)
            continue
        expired = batch.delete_horizon_ms is not None and batch.delete_horizon_ms <= now_ms
        marks_nothing = False
        if batch.control:
            marks_nothing = not _has_data(batches[:at], batch)
            records = () if marks_nothing and expired else batch.records
        elif is_aborted(batch):
            records = ()
        else:
            records = tuple(
                (offset, timestamp, key, value)
                for offset, timestamp, key, value in batch.records
                if key is not None and offset >= newest.get(key, -1) and (value is not None or not expired)
            )
        keep_empty = (
            batch.last_offset == written.last_data_offset.get(batch.producer_id, -1)
            or batch.last_offset + 1 == uncleanable_offset
        )
        if not records:
            if keep_empty:
                left.append(replace(batch, records=(), codec=0, delete_horizon_ms=None))
            continue
        horizon = batch.delete_horizon_ms
        if horizon is None and (marks_nothing or any(value is None for _, _, _, value in records)):
            horizon = now_ms + delete_retention_ms
        left.append(replace(batch, records=records, delete_horizon_ms=horizon))
    return left


def _has_data(before: list[ModelBatch], marker: ModelBatch) -> bool:
    """Return whether batches of the transaction that `marker` ends still exist."""
    for batch in reversed(before):
        if batch.producer_id == marker.producer_id and batch.transactional:
            # An empty marker means nothing.
            if batch.control and batch.records:
                return False
            if not batch.control:
                return True
    return False


class UnsyncedFiles(DirectoryFiles):
    """Does not wait for a disk: nothing in these tests makes the page cache lose data."""

    def sync(self, fd: int) -> None:
        pass

    def sync_directory(self) -> None:
        pass


def make_cleaner(
    log: Log, settings: CleanerSettings | None = None, files: Callable[[str], DirectoryFiles] = UnsyncedFiles
) -> tuple[LogCleaner, InlineJobs]:
    """Make a cleaner of one log, whose work is done immediately."""
    jobs = InlineJobs()
    root = str(Path(log.directory).parent)

    def unlink_later(paths: list[str], delay_ms: int) -> None:
        def unlink() -> None:
            for path in paths:
                Path(path).unlink(missing_ok=True)

        jobs.later(delay_ms, unlink)

    return LogCleaner(
        {KEY: log},
        [root],
        settings or CleanerSettings(backoff_ms=0),
        jobs,
        unlink_later,
        MACHINE_CLOCK,
        MACHINE_RANDOMNESS,
        files,
    ), jobs


def clean(log: Log, now_ms: int, cleaner: LogCleaner | None = None) -> LogCleaner:
    """Clean a log as far as possible."""
    cleaner = cleaner or make_cleaner(log)[0]
    for _ in range(10):
        before = dict(cleaner.policy.cleaned)
        cleaner.tick(now_ms, lambda topic, partition: log.written_end_offset)
        if cleaner.policy.cleaned == before:
            return cleaner
    raise AssertionError("the cleaner finds no end")


def compacted_config(**settings: object) -> LogConfig:
    """Return the settings of a topic that is cleaned as soon as it is dirty, and keeps tombstones for a second."""
    chosen: dict[str, object] = {
        "cleanup_policy": ("compact",),
        "min_cleanable_dirty_ratio": 0.0,
        "delete_retention_ms": 1_000,
        "segment_bytes": 1 << 20,
        **settings,
    }
    return LogConfig(**chosen)  # type: ignore[arg-type]
