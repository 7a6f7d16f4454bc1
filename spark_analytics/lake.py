"""A lake: a folder with Parquet tables, written by `broker-analytics ingest`, read by the jobs.

    LAKE/TABLE/cluster=NAME/batch_id=ID.G.N/day=YYYY-MM-DD/*.parquet
    LAKE/_ingest/NAME/ID/source.json                  where the records come from (spark_analytics.sources)
    LAKE/_ingest/NAME/ID/lock                         held by the ingest that runs
    LAKE/_ingest/NAME/ID/generation-G/topics.json     ids of the topics that this generation reads
    LAKE/_ingest/NAME/ID/generation-G/complete.json   number of complete batches, and the end of the last one

A cluster in a lake has a name and one or several sources: several single-node Kafka clusters, each with its own id, can
be the nodes of one cluster here. A generation is one life of the source's topics: when a topic was deleted and created
again, its offsets begin again.

Batches have the numbers 0, 1, ... Only `complete.json`, which is replaced atomically after the files of a batch are on
the disk, makes them part of the lake: readers ignore a batch that is not noted there, and the next ingest writes a
batch of the same number, from the end of the last complete one. So each record is in the lake exactly once, whenever an
ingest ends.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_analytics.schema import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_INGEST = "_ingest"
_GENERATION = "generation-"
_GENERATION_NAME = re.compile(rf"{_GENERATION}[1-9][0-9]{{0,8}}")
_COMPLETE = "complete.json"
_EARLY = "{} was written by an early version of broker-cy: ingest into another folder"

Offsets = dict[str, dict[int, int]]
"""Offsets by topic and partition."""


class LakeError(Exception):
    """The lake has no data or is in use; the text names the folder and what to do."""


@dataclass(frozen=True)
class Span:
    """A range of time, from `start` to before `end`; None is unbounded."""

    start: datetime | None = None
    end: datetime | None = None

    def __str__(self) -> str:
        return f"{_text(self.start, 'the beginning')} to {_text(self.end, 'the end')}"


def _text(at: datetime | None, otherwise: str) -> str:
    return otherwise if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


@dataclass(frozen=True)
class Generation:
    """One life of the topics of a source, and the batches that were read from it. Numbers begin at 1."""

    lake: Path
    cluster: str
    source: str
    number: int

    @property
    def folder(self) -> Path:
        """The folder of its files other than tables."""
        return self.lake / _INGEST / self.cluster / self.source / f"{_GENERATION}{self.number}"

    def folders(self, number: int) -> dict[str, Path]:
        """Return the folders of one batch, by table."""
        return {name: self.batch(name, number) for name in TABLES}

    def batch(self, table: str, number: int) -> Path:
        """Return the folder of one batch of a table."""
        return self._of_cluster(table) / f"{self._prefix}{number}"

    def _of_cluster(self, table: str) -> Path:
        return self.lake / table / f"cluster={self.cluster}"

    @property
    def _prefix(self) -> str:
        """The prefix of its batches' folders. Spark turns it into a column, whose name no column of a table has."""
        return f"batch_id={self.source}.{self.number}."

    @property
    def complete(self) -> int:
        """The number of complete batches."""
        return self._noted()[0]

    @property
    def ends(self) -> Offsets:
        """The offsets at which the next batch begins; empty without a complete batch."""
        return self._noted()[1]

    def _noted(self) -> tuple[int, Offsets]:
        if (self.folder / "checkpoint").is_dir():
            raise LakeError(_EARLY.format(self.lake))
        found = read_facts(self.folder / _COMPLETE)
        ends = found.get("ends", {})
        return found.get("batches", 0), {
            topic: {int(part): offset for part, offset in parts.items()} for topic, parts in ends.items()
        }

    def note(self, batches: int, ends: Offsets) -> None:
        """Add the first `batches` batches, which are on the disk and end at `ends`, to the lake."""
        write_facts(self.folder / _COMPLETE, {"batches": batches, "ends": ends})

    def batches(self, table: str) -> list[Path]:
        """Return the folders of the complete batches of a table."""
        count, folder = self.complete, self._of_cluster(table)
        return [each for number in range(count) if (each := folder / f"{self._prefix}{number}").is_dir()]


class Lake:
    """The lake in a folder, which need not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def clusters(self) -> list[str]:
        """The clusters that were ingested."""
        return _folders(self.path / _INGEST)

    def sources(self, cluster: str) -> list[str]:
        """Return the ids of a cluster's sources. Raises LakeError for a lake without any, of an early version."""
        folder = self.path / _INGEST / checked(cluster)
        if (folder / "checkpoint").is_dir():
            raise LakeError(_EARLY.format(self.path))
        return _folders(folder)

    def source(self, cluster: str, source: str) -> Path:
        """Return the folder of the facts about a source. Raises LakeError for a name that cannot be a folder's."""
        return self.path / _INGEST / checked(cluster) / checked(source)

    def generation(self, cluster: str, source: str, number: int) -> Generation:
        """Return a generation, which need not exist yet. Raises LakeError for a name that cannot be a folder's."""
        return Generation(self.path, checked(cluster), checked(source), number)

    def generations(self, cluster: str, source: str) -> list[Generation]:
        """Return the generations of a source, the first one first. Raises LakeError for a folder that is not a
        generation.
        """
        folder = self.source(cluster, source)
        found = _folders(folder)
        if strange := [each for each in found if not _GENERATION_NAME.fullmatch(each)]:
            raise LakeError(f"{folder / strange[0]} is not a folder of a lake: move it elsewhere")
        numbers = sorted(int(each.removeprefix(_GENERATION)) for each in found)
        return [self.generation(cluster, source, number) for number in numbers]

    @contextmanager
    def locked(self, cluster: str, source: str) -> Iterator[None]:
        """Hold the lake for one ingest of a source. Raises LakeError if another ingest holds it."""
        folder = self.source(cluster, source)
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "lock", "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LakeError(
                    f"another ingest of {source} as {cluster!r} writes to {self.path}: wait until it has ended"
                ) from None
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    def check(self, clusters: Sequence[str]) -> list[str]:
        """Return the clusters of the lake. Raises LakeError if it is empty, or does not have one of `clusters`."""
        known = self.clusters
        if not any(each.complete for cluster in known for each in self._all(cluster)):
            raise LakeError(f"{self.path} holds no complete batch: run `broker-analytics ingest --lake {self.path}`")
        if unknown := sorted(set(clusters) - set(known)):
            raise LakeError(f"{', '.join(unknown)}: not in {self.path} (there: {', '.join(known)})")
        return known

    def _all(self, cluster: str) -> list[Generation]:
        return [each for source in self.sources(cluster) for each in self.generations(cluster, source)]

    def read(
        self, spark: SparkSession, name: str, span: Span = Span(), clusters: Sequence[str] | None = None
    ) -> DataFrame:
        """Return the rows of a table in a span. Columns that an older lake does not have are null.

        Raises LakeError if the lake is empty, or a cluster is not in it.
        """
        from pyspark.sql import functions as F

        known = self.check(clusters or ())
        schema = TABLES[name]
        batches = [
            url(each)
            for cluster in clusters or known
            for generation in self._all(cluster)
            for each in generation.batches(name)
        ]
        if not batches:
            return spark.createDataFrame([], schema)
        found = spark.read.schema(schema).option("basePath", url(self.path / name)).parquet(*batches)
        found = found.select(*schema.fieldNames())
        if span.start is not None:
            found = found.where((F.col("at") >= F.lit(span.start)) & (F.col("day") >= F.lit(_day(span.start))))
        if span.end is not None:
            found = found.where((F.col("at") < F.lit(span.end)) & (F.col("day") <= F.lit(_day(span.end))))
        return found


def _day(at: datetime) -> date:
    """Return the day of a time in UTC, as in the names of folders."""
    return at.astimezone(UTC).date()


def _folders(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir() if each.is_dir()) if folder.is_dir() else []


def url(path: Path) -> str:
    """Return the path as a URL for Spark, whose default file system on a cluster may be another one."""
    return f"file://{path.absolute()}"


def read_facts(path: Path) -> dict[str, Any]:
    """Return the facts that `write_facts` wrote; empty if the file does not exist. Raises LakeError if it was changed
    since.
    """
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except ValueError as error:
        raise LakeError(f"{path} is damaged ({error}): restore the lake from a copy, or use another folder") from None
    return found


def write_facts(path: Path, facts: Mapping[str, Any]) -> None:
    """Replace a file atomically: readers find the old or the new one, also after a crash or a power failure."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_suffix(".new")
    made.write_text(json.dumps(facts), encoding="utf-8")
    synced(made)
    os.replace(made, path)
    synced(path.parent)


def check_writable(folder: Path) -> None:
    """Raise OSError if a folder, which need not exist yet, is not writable, before hours are spent on its content."""
    folder = folder.absolute()
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def synced(path: Path) -> None:
    """Sync a file or folder to the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def checked(name: str) -> str:
    """Return the name of a cluster or source, which is the name of a folder, too. Raises LakeError."""
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise LakeError(f"{name!r} cannot be the name of a cluster (allowed: 1 to 100 of A-Z a-z 0-9 . _ -)")
    return name
