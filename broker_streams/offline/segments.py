"""The segment files of log directories as an archive, also while a broker writes, cleans and deletes them.

The files are those of one broker, or copies of them. Records behind the high watermark that the broker has noted are
read from the topic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final
from uuid import UUID

from broker_cy.admin import ClientError, Failure
from broker_cy.admin.metadata import TopicPartition
from broker_cy.wire.record import Record
from broker_cy.wire.records import Batch
from broker_streams.kernel.partition_group import Parts as Input
from broker_streams.offline.history import Extent
from spark_analytics.segments import extent as extents_of_files
from spark_analytics.segments.batches import fill
from spark_analytics.segments.errors import DamageError, SegmentsError
from spark_analytics.segments.files import partitions
from spark_analytics.segments.options import READ_COMMITTED, Options
from spark_analytics.segments.plan import Range, bounded
from spark_analytics.segments.report import Counters
from spark_analytics.segments.walk import Damage

# Bounds of a list of records, which may have one batch more.
ROWS_MAX: Final = 10_000
BYTES_MAX: Final = 1 << 20


class SegmentArchive:
    """`directories` are log directories, with folders such as orders-0."""

    is_preferred = True

    def __init__(self, directories: Collection[Path]) -> None:
        self._directories = tuple(str(each) for each in directories)
        self.name = f"--segments {', '.join(self._directories)}"
        self._ranges: dict[TopicPartition, tuple[extents_of_files.Extent, Range]] = {}

    def _options(self, topics: Collection[str] = ()) -> Options:
        return Options(self._directories, tuple(topics), isolation=READ_COMMITTED)

    def extents(self, keys: Collection[TopicPartition], compacted: Collection[str]) -> Mapping[TopicPartition, Extent]:
        wanted = set(keys)
        found = {}
        try:
            for folder in partitions(self._directories, tuple({key.topic for key in keys}), may_lack=True):
                key = TopicPartition(folder.topic, folder.partition)
                if key not in wanted:
                    continue
                damage = Damage(False, Counters())
                extent, aborted = bounded(folder, self._options(), damage)
                if key.topic not in compacted:
                    self._require_whole(key, extent, damage)
                self._ranges[key] = (
                    extent,
                    Range(key.topic, key.partition, folder.directory, extent.start, extent.end, aborted),
                )
                found[key] = Extent(extent.start, extent.end)
        except (SegmentsError, DamageError) as error:
            raise self._error(error) from error
        return found

    def _require_whole(self, key: TopicPartition, extent: extents_of_files.Extent, damage: Damage) -> None:
        for first, end in extents_of_files.holes_of(extent, damage):
            if first < extent.end and end > extent.start:
                reason = (
                    f"no segment has the offsets {first} to {end - 1}: a file is missing, or the topic was compacted"
                )
                raise ClientError(Failure.REFUSED, reason, what=f"{self.name}: {key}")

    def topic_id(self, key: TopicPartition) -> UUID | None:
        return self._ranges[key][0].folder.topic_id

    def at_time(self, key: TopicPartition, time_ms: int) -> int | None:
        try:
            return extents_of_files.offset_at(self._ranges[key][0], time_ms, Damage(False, Counters()))
        except (SegmentsError, DamageError) as error:
            raise self._error(error) from error

    def records(self, key: TopicPartition, start: int, end: int) -> Iterator[list[Input]]:
        if start >= end:
            return
        whole = self._ranges[key][1]
        wanted = Range(whole.topic, whole.partition, whole.directory, start, end, whole.aborted)
        rows = _Rows()
        try:
            for _ in fill(wanted, self._options(), rows, Counters()):
                yield rows.take()
        except (SegmentsError, DamageError) as error:
            raise self._error(error) from error
        if rows.taken:
            yield rows.take()

    def _error(self, error: SegmentsError | DamageError) -> ClientError:
        # Without the hint about an option of another program.
        text = f"{error.place}" if isinstance(error, DamageError) else str(error)
        return ClientError(Failure.REFUSED, text, what=self.name)


class _Rows:
    """Records of batches; full at the bounds of the module."""

    def __init__(self) -> None:
        self.taken: list[Input] = []
        self._bytes = 0
        self._begun: list[Record] = []

    def begin(self, batch: Batch, first_offset: int, end_offset: int) -> None:
        self._begun = [each for each in batch.records() if first_offset <= each.offset < end_offset]

    def fill(self) -> bool:
        if len(self.taken) >= ROWS_MAX or self._bytes >= BYTES_MAX:
            return False
        for each in self._begun:
            self._bytes += len(each.key or b"") + len(each.value or b"")
            self.taken.append((each.key, each.value, each.timestamp, each.offset, tuple(each.headers)))
        self._begun = []
        return True

    def take(self) -> list[Input]:
        found, self.taken, self._bytes = self.taken, [], 0
        return found
