"""Compares the records of topics with their copies in another cluster, from the log directories of both: the job
`mirror-audit`.

Spark's tasks count the records of ranges of segments, then compute digests of chunks. The driver compares these, and
reads the first chunk that differs again, to find the record.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from spark_analytics.errors import DamagedError
from spark_analytics.progress import Progress
from spark_analytics.segments import digests, plan
from spark_analytics.segments.digests import Part
from spark_analytics.segments.errors import DamageError, SegmentsError
from spark_analytics.segments.options import READ_COMMITTED, Options
from spark_analytics.segments.plan import Range, Wanted
from spark_analytics.segments.report import Counters
from spark_analytics.segments.walk import Damage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHUNK_RECORDS: Final = 100_000
SEARCHED_MAX: Final = 100
"""Partitions whose first differing record is searched for."""

# The error of a task, without the hint about the option of the source.
_DAMAGE: Final = re.compile(r"[^\s:]+: at byte \d+, where offset \d+ is expected: [^\n(]*[^\n( ]")

T = TypeVar("T")
Key = tuple[str, int]


class Verdict(Enum):
    """The result for a partition. SHORTER: one side has further records, and all others are equal."""

    EQUAL = "equal"
    SHORTER = "shorter"
    DIFFERENT = "different"
    NOT_COMPARED = "not compared"


@dataclass(frozen=True, slots=True)
class Settings:
    """`topics` has the name in the target of each topic. With `equal_offsets`, as in link flows, both sides are
    compared from the higher log start offset on; otherwise both need their first records.
    """

    topics: Mapping[str, str]
    equal_offsets: bool = False
    with_times: bool = True
    chunk_records: int = CHUNK_RECORDS


@dataclass(frozen=True, slots=True)
class PartitionAudit:
    """A partition. `compared` records of each side were compared; the offsets are those of the first records that
    differ.
    """

    topic: str
    partition: int
    target_topic: str
    verdict: str
    source_records: int | None
    target_records: int | None
    compared: int
    source_offset: int | None = None
    target_offset: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ChunkAudit:
    """Consecutive records of a partition on both sides."""

    topic: str
    partition: int
    records: int
    source_first: int
    source_last: int
    target_first: int
    target_last: int
    source_digest: str
    target_digest: str
    is_equal: bool


@dataclass(frozen=True, slots=True)
class Audit:
    """The result for all partitions, and the chunks that differ."""

    partitions: list[PartitionAudit]
    chunks: list[ChunkAudit]

    @property
    def is_equal(self) -> bool:
        return all(each.verdict in (Verdict.EQUAL.value, Verdict.SHORTER.value) for each in self.partitions)

    def results(self) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of both results by name."""
        return {
            "partitions": [asdict(each) for each in self.partitions],
            "chunks": [asdict(each) for each in self.chunks],
        }


@dataclass(slots=True)
class _Log:
    """A partition of one side. `numbers` are those of the first records of the ranges."""

    options: Options
    start: int
    ranges: list[Range]
    numbers: list[int]
    records: int = 0


def audit(spark: SparkSession, source: Sequence[Path], target: Sequence[Path], settings: Settings) -> Audit:
    """Compare all partitions of the topics. Raises SegmentsError, and DamagedError for damage of a segment."""
    from pyspark.errors import PySparkException

    try:
        return _audit(spark, source, target, settings)
    except DamageError as error:
        raise DamagedError(error.place) from None
    except PySparkException as error:
        if found := _DAMAGE.search(str(error)):
            raise DamagedError(found[0]) from None
        raise


def _audit(spark: SparkSession, source: Sequence[Path], target: Sequence[Path], settings: Settings) -> Audit:
    progress = Progress(spark)
    sides = [
        _logs(source, {topic: topic for topic in settings.topics}),
        _logs(target, {remote: topic for topic, remote in settings.topics.items()}),
    ]
    keys = sorted(sides[0].keys() | sides[1].keys())
    reasons = {key: _reason(sides[0].get(key), sides[1].get(key), settings) for key in keys}
    pairs = {key: (sides[0][key], sides[1][key]) for key in keys if not reasons[key]}
    with progress.during("mirror-audit: counting the records"):
        _count(spark, [log for pair in pairs.values() for log in pair])
    most = {key: min(log.records for log in pair) for key, pair in pairs.items()}
    with progress.during("mirror-audit: computing digests"):
        found = [
            _digests(spark, {key: pair[number] for key, pair in pairs.items()}, most, settings) for number in (0, 1)
        ]
    partitions, chunks = [], []
    for key in keys:
        if key not in pairs:
            partitions.append(
                PartitionAudit(*key, settings.topics[key[0]], Verdict.NOT_COMPARED.value, None, None, 0,
                               reason=reasons[key])
            )  # fmt: skip
            continue
        theirs = list(zip(found[0][key], found[1][key], strict=True))
        different = [(one, other) for one, other in theirs if one.digest != other.digest]
        chunks += [_chunk(key, one, other) for one, other in different]
        place = None
        if different and len([each for each in partitions if each.source_offset is not None]) < SEARCHED_MAX:
            place = _first_difference(pairs[key], different[0], settings)
        partitions.append(_partition(key, pairs[key], settings, most[key], place, bool(different)))
    return Audit(partitions, chunks)


def _logs(directories: Sequence[Path], topics: Mapping[str, str]) -> dict[Key, _Log]:
    """Return the partitions by the names of topics in the source."""
    options = Options(tuple(map(str, directories)), tuple(topics), isolation=READ_COMMITTED)
    damage = Damage(False, Counters())
    found = {}
    for folder in plan.folders(options):
        extent, _ = plan.bounded(folder, options, damage)
        found[topics[folder.topic], folder.partition] = _Log(options, extent.start, [], [])
    for each in plan.batch_ranges(options, Wanted(), damage):
        found[topics[each.topic], each.partition].ranges.append(each)
    return found


def _reason(source: _Log | None, target: _Log | None, settings: Settings) -> str:
    """Return why a partition cannot be compared, or an empty text; with equal offsets, cut both sides to the offsets
    that both have.
    """
    if source is None or target is None:
        return f"the {'source' if source is None else 'target'} has no such partition"
    if settings.equal_offsets:
        start = max(source.start, target.start)
        for log in (source, target):
            log.ranges = [replace(each, start=max(each.start, start)) for each in log.ranges if each.end > start]
        return ""
    if source.start or target.start:
        return f"the logs start at the offsets {source.start} and {target.start}: use broker-mirror verify"
    return ""


def _count(spark: SparkSession, logs: Sequence[_Log]) -> None:
    tasks = [partial(digests.count, each, log.options) for log in logs for each in log.ranges]
    counts = iter(_run(spark, tasks))
    for log in logs:
        for _ in log.ranges:
            log.numbers.append(log.records)
            log.records += next(counts)


def _digests(
    spark: SparkSession, logs: Mapping[Key, _Log], most: Mapping[Key, int], settings: Settings
) -> dict[Key, list[Part]]:
    """Return the digests of the chunks of each partition."""
    tasks, owners = [], []
    for key, log in logs.items():
        for each, number in zip(log.ranges, log.numbers, strict=True):
            if number < most[key]:
                tasks.append(
                    partial(
                        digests.parts, each, log.options, number, most[key] - number, settings.chunk_records,
                        with_times=settings.with_times,
                    )
                )  # fmt: skip
                owners.append(key)
    found: dict[Key, list[Part]] = {key: [] for key in logs}
    for key, parts in zip(owners, _run(spark, tasks), strict=True):
        for part in parts:
            known = found[key]
            if known and known[-1].chunk == part.chunk:
                known[-1] = known[-1].joined(part)
            else:
                known.append(part)
    return found


def _run(spark: SparkSession, tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Return the results of tasks, in their order, from executors."""
    if not tasks:
        return []
    return spark.sparkContext.parallelize(tasks, len(tasks)).map(_called).collect()


def _called(task: Callable[[], T]) -> T:
    return task()


def _first_difference(pair: tuple[_Log, _Log], chunk: tuple[Part, Part], settings: Settings) -> tuple[int, int]:
    """Return the offsets of the first records that differ, from the chunk read again."""
    sides = []
    for log, part in zip(pair, chunk, strict=True):
        offsets, hashes = array("q"), array("Q")
        for each in log.ranges:
            if each.end > part.first and each.start <= part.last:
                cut = replace(each, start=max(each.start, part.first), end=min(each.end, part.last + 1))
                some, more = digests.hashes_of(cut, log.options, 0, part.records, with_times=settings.with_times)
                offsets.frombytes(some)
                hashes.frombytes(more)
        sides.append((offsets, hashes))
    (offsets, hashes), (others, other_hashes) = sides
    for number, (one, other) in enumerate(zip(hashes, other_hashes, strict=False)):
        if one != other:
            return offsets[number], others[number]
    raise SegmentsError("the segments changed while they were compared: run the job again")


def _partition(
    key: Key, pair: tuple[_Log, _Log], settings: Settings, compared: int, place: tuple[int, int] | None, differs: bool
) -> PartitionAudit:
    source, target = pair
    verdict = Verdict.DIFFERENT
    if not differs:
        verdict = Verdict.EQUAL if source.records == target.records else Verdict.SHORTER
    return PartitionAudit(
        *key, settings.topics[key[0]], verdict.value, source.records, target.records, compared,
        *(place or (None, None)),
    )  # fmt: skip


def _chunk(key: Key, one: Part, other: Part) -> ChunkAudit:
    return ChunkAudit(
        *key, one.records, one.first, one.last, other.first, other.last,
        f"{one.digest:016x}", f"{other.digest:016x}", one.digest == other.digest,
    )  # fmt: skip


def topics_of(given: Iterable[str]) -> dict[str, str]:
    """Return the names in the target of topics given as TOPIC or TOPIC=NAME. Raises SegmentsError."""
    found: dict[str, str] = {}
    for text in given:
        topic, _, remote = text.partition("=")
        remote = remote or topic
        if not topic or topic in found or remote in found.values():
            raise SegmentsError(f"--topic {text}: a topic and its copy are named once")
        found[topic] = remote
    return found
