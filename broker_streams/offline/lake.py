"""A lake of Parquet files as an archive: rows with the columns of Spark's Kafka source.

    topic, partition, offset, timestamp, key, value, and headers if there are some

Topic and partition may be folders, as `partitionBy` of Spark writes them. The rows of a partition are in the order of
their offsets within each file, as Spark's tasks write them; files may overlap. A lake does not tell why an offset is
missing, nor whether a record was committed, so the topic is read in its place where it still has the records.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from broker_cy.admin import ClientError, Failure
from broker_cy.admin.metadata import TopicPartition
from broker_streams.kernel.partition_group import Parts as Input
from broker_streams.offline.history import Extent

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds

# Rows of a list, and of a read of a file.
ROWS_MAX: Final = 4_096
_PLACE: Final = ["topic", "partition"]
_NEEDED: Final = (*_PLACE, "offset", "timestamp", "key", "value")
# The files that Spark's streaming sink has committed; others in the folder are leftovers.
_COMMITTED: Final = "_spark_metadata"


class _Piece(NamedTuple):
    """The offsets that a file has of a partition."""

    first: int
    last: int
    file: int


class LakeArchive:
    """`accepts_gaps`: offsets that it does not have were markers of transactions, aborted or compacted."""

    is_preferred = False

    def __init__(self, directory: Path, *, accepts_gaps: bool) -> None:
        self.name = f"--lake {directory}"
        self._directory = directory
        self._accepts_gaps = accepts_gaps
        self._compacted: set[str] = set()
        self._files: list[ds.FileFragment] = []
        self._schema: pa.Schema
        self._pieces: dict[TopicPartition, list[_Piece]] = {}

    def _open(self) -> None:
        """Raises ClientError: it is no lake."""
        try:
            import pyarrow as pa
            import pyarrow.dataset as ds
        except ImportError as error:
            raise self._error("it needs pyarrow: pip install 'broker-cy[spark]'") from error
        if not self._directory.is_dir():
            raise self._error("there is no such directory")
        if (self._directory / "_delta_log").exists():
            raise self._error("it is a Delta table, in which files may be deleted ones: write it as Parquet")
        try:
            given: Any = str(self._directory)
            if (self._directory / _COMMITTED).is_dir():
                given = _committed_files(self._directory)
            dataset = ds.dataset(given, format="parquet", partitioning=ds.HivePartitioning.discover())
            self._schema = dataset.schema
            self._files = list(dataset.get_fragments())
        except (OSError, ValueError, pa.ArrowException) as error:
            raise self._error(f"it cannot be read: {error}") from error
        lacking = [each for each in _NEEDED if each not in self._schema.names]
        if not self._files or lacking:
            has = ", ".join(self._schema.names) or "no Parquet files"
            raise self._error(f"columns {', '.join(_NEEDED)} are needed, as of Spark's Kafka source; it has {has}")

    def extents(self, keys: Collection[TopicPartition], compacted: Collection[str]) -> Mapping[TopicPartition, Extent]:
        if not self._files:
            self._open()
        self._compacted |= set(compacted)
        wanted = {key for key in keys if key not in self._pieces}
        found: dict[TopicPartition, list[_Piece]] = {}
        for number in range(len(self._files)):
            for key, piece in self._pieces_of(number, wanted).items():
                found.setdefault(key, []).append(piece)
        self._pieces |= {key: sorted(pieces) for key, pieces in found.items()}
        return {
            key: Extent(pieces[0].first, max(each.last for each in pieces) + 1)
            for key, pieces in self._pieces.items()
            if key in keys
        }

    def _pieces_of(self, number: int, wanted: Collection[TopicPartition]) -> Mapping[TopicPartition, _Piece]:
        """Raises ClientError: the file cannot be read, or is out of order."""
        import pyarrow as pa
        import pyarrow.compute as pc

        found: dict[TopicPartition, _Piece] = {}
        topics = sorted({key.topic for key in wanted})
        for batch in self._batches(number, [*_PLACE, "offset"], pc.field("topic").isin(topics)):
            for place in pa.Table.from_batches([batch]).group_by(_PLACE).aggregate([]).to_pylist():
                key = TopicPartition(str(place["topic"]), int(place["partition"]))
                if key not in wanted:
                    continue
                theirs = pc.and_(*(pc.equal(batch.column(name), place[name]) for name in _PLACE))
                offsets = batch.column("offset").filter(theirs)
                first, last = offsets[0].as_py(), offsets[-1].as_py()
                known = found.get(key, _Piece(first, first, number))
                if first < known.last or (pc.min(pc.pairwise_diff(offsets)).as_py() or 0) < 0:
                    path = self._files[number].path
                    reason = f"its offsets in {path} are out of order: sort it within partitions by topic, partition"
                    raise self._error(f"{key}: {reason} and offset")
                found[key] = known._replace(last=last)
        return found

    def _batches(self, number: int, columns: list[str], where: Any) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        file = self._files[number]
        try:
            scanner = file.scanner(
                schema=self._schema, columns=columns, filter=where, batch_size=ROWS_MAX, use_threads=False
            )
            yield from scanner.to_batches()
        except (OSError, ValueError, pa.ArrowException) as error:
            raise self._error(f"{file.path} cannot be read: {error}") from error

    def topic_id(self, key: TopicPartition) -> UUID | None:
        return None

    def at_time(self, key: TopicPartition, time_ms: int) -> int | None:
        pieces = self._pieces[key]
        for rows in self.records(key, pieces[0].first, max(each.last for each in pieces) + 1):
            for each in rows:
                if each[2] >= time_ms:
                    return each[3]
        return None

    def records(self, key: TopicPartition, start: int, end: int) -> Iterator[list[Input]]:
        if start >= end:
            return
        pieces = [each for each in self._pieces[key] if each.last >= start and each.first < end]
        expected = start
        rows: list[Input] = []
        for each in self._merged(key, pieces, start, end):
            offset = each[3]
            if offset < expected:
                raise self._error(f"{key}: it has the offset {offset} twice")
            self._require_none(key, expected, offset)
            expected = offset + 1
            rows.append(each)
            if len(rows) >= ROWS_MAX:
                yield rows
                rows = []
        self._require_none(key, expected, end)
        if rows:
            yield rows

    def _require_none(self, key: TopicPartition, first: int, end: int) -> None:
        """Raise ClientError if offsets from `first` to before `end` are missing without a reason."""
        if first < end and not self._accepts_gaps and key.topic not in self._compacted:
            raise self._error(
                f"{key}: the offsets {first} to {end - 1} are missing; if they are markers of transactions, or were"
                " aborted, use --accept-gaps"
            )

    def _merged(self, key: TopicPartition, pieces: list[_Piece], start: int, end: int) -> Iterator[Input]:
        """The rows of all files in their order. A file is opened when its first offset is reached."""
        heap: list[tuple[int, int, Input, Iterator[Input]]] = []
        waiting = list(reversed(pieces))

        def push(source: Iterator[Input], number: int) -> None:
            if (row := next(source, None)) is not None:
                heapq.heappush(heap, (row[3], number, row, source))

        while waiting or heap:
            while waiting and (not heap or waiting[-1].first <= heap[0][0]):
                number = waiting.pop().file
                push(self._rows(key, number, start, end), number)
            if heap:
                _, number, row, source = heapq.heappop(heap)
                yield row
                push(source, number)

    def _rows(self, key: TopicPartition, number: int, start: int, end: int) -> Iterator[Input]:
        import pyarrow as pa
        import pyarrow.compute as pc

        names = [*_NEEDED[2:], *(["headers"] if "headers" in self._schema.names else [])]
        offset = pc.field("offset")
        where = (pc.field("topic") == key.topic) & (pc.field("partition") == key.partition)
        for batch in self._batches(number, names, where & (offset >= start) & (offset < end)):
            columns = {name: batch.column(name) for name in names}
            times = columns["timestamp"]
            if pa.types.is_timestamp(times.type):
                times = pc.cast(times, pa.timestamp("ms", times.type.tz), safe=False).cast(pa.int64())
            keys, values = (columns[name].to_pylist() for name in ("key", "value"))
            headers = columns["headers"].to_pylist() if "headers" in columns else [None] * batch.num_rows
            for row in zip(keys, values, times.to_pylist(), columns["offset"].to_pylist(), headers, strict=True):
                pairs = tuple((each["key"], each["value"]) for each in row[4] or ())
                yield _bytes(row[0]), _bytes(row[1]), row[2], row[3], pairs

    def _error(self, reason: str) -> ClientError:
        return ClientError(Failure.REFUSED, reason, what=self.name)


def _bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _committed_files(directory: Path) -> list[str]:
    """The files that the log of Spark's streaming sink has. Raises OSError, ValueError: it cannot be read."""
    logs = [each for each in (directory / _COMMITTED).iterdir() if each.name.split(".")[0].isdigit()]
    # A compacted log has all that is before it.
    newest = max((each for each in logs if each.suffix == ".compact"), key=_batch, default=None)
    found = []
    for each in logs:
        if newest is not None and each != newest and _batch(each) <= _batch(newest):
            continue
        for line in each.read_text().splitlines()[1:]:
            entry = json.loads(line)
            # An address of another machine has the same folders behind the directory's name.
            _, _, inside = str(entry["path"]).rpartition(f"/{directory.name}/")
            found.append(str(directory / inside))
    return sorted(set(found))


def _batch(path: Path) -> int:
    return int(path.name.split(".")[0])
