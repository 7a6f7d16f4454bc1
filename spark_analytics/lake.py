"""A lake: a folder with Parquet tables, written by `broker-analytics ingest`, read by the jobs.

    LAKE/TABLE/cluster=NAME/batch_id=N/day=YYYY-MM-DD/*.parquet
    LAKE/_ingest/NAME/checkpoint/      Spark's checkpoint: offsets that were planned, batches that are complete
    LAKE/_ingest/NAME/lock             held by the ingest that runs

A batch is complete when Spark has noted it in the checkpoint. Until then its folders may be incomplete or be written
again, and readers leave it out: what they see is what complete batches wrote, once.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from spark_analytics.schema import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_INGEST = "_ingest"


class LakeError(Exception):
    """There is nothing to read, or the lake is in use; the text names the folder, and what to do."""


@dataclass(frozen=True)
class Span:
    """A range of time, from `start` to before `end`; None is unbounded."""

    start: datetime | None = None
    end: datetime | None = None

    def __str__(self) -> str:
        return f"{_text(self.start, 'the beginning')} to {_text(self.end, 'the end')}"


def _text(at: datetime | None, otherwise: str) -> str:
    return otherwise if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


class Lake:
    """The lake in a folder, which need not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def table(self, name: str, cluster: str) -> Path:
        """Return the folder of a cluster's part of a table. Raises LakeError for a name that cannot be a folder's."""
        return self.path / name / f"cluster={checked(cluster)}"

    def checkpoint(self, cluster: str) -> Path:
        """Return the folder of Spark's checkpoint."""
        return self.path / _INGEST / checked(cluster) / "checkpoint"

    @property
    def clusters(self) -> list[str]:
        """The clusters that were ingested."""
        folder = self.path / _INGEST
        return sorted(each.name for each in folder.iterdir() if each.is_dir()) if folder.is_dir() else []

    def complete(self, cluster: str) -> set[int]:
        """Return the numbers of the complete batches."""
        folder = self.checkpoint(cluster) / "commits"
        return {int(each.name) for each in folder.iterdir() if each.name.isdigit()} if folder.is_dir() else set()

    @contextmanager
    def locked(self, cluster: str) -> Iterator[int]:
        """Hold the lake for one ingest of a cluster, with a descriptor that child processes may keep open: the lake is
        held until all of them have ended. Raises LakeError if another ingest holds it.
        """
        folder = self.path / _INGEST / checked(cluster)
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "lock", "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LakeError(
                    f"another ingest of {cluster!r} writes to {self.path}: wait until it has ended"
                ) from None
            lock.write(str(os.getpid()))
            lock.flush()
            yield lock.fileno()

    def check(self, clusters: Sequence[str]) -> list[str]:
        """Return the clusters that are there. Raises LakeError if the lake is empty, or one of `clusters` is not."""
        known = self.clusters
        if not known or not any(self.complete(each) for each in known):
            raise LakeError(f"{self.path} holds no complete batch: run `broker-analytics ingest --out {self.path}`")
        if unknown := sorted(set(clusters) - set(known)):
            raise LakeError(f"{', '.join(unknown)}: not in {self.path} (there: {', '.join(known)})")
        return known

    def read(
        self, spark: SparkSession, name: str, span: Span = Span(), clusters: Sequence[str] | None = None
    ) -> DataFrame:
        """Return the rows of a table in a span. Columns that an older lake does not have are null.

        Raises LakeError if the lake is empty, or a cluster is not in it.
        """
        from pyspark.sql import functions as F

        known = self.check(clusters or ())
        schema = TABLES[name]
        there = [
            self.table(name, cluster) / f"batch_id={number}"
            for cluster in clusters or known
            for number in sorted(self.complete(cluster))
        ]
        batches = [str(each) for each in there if each.is_dir()]
        if not batches:
            return spark.createDataFrame([], schema)
        found = spark.read.schema(schema).option("basePath", str(self.path / name)).parquet(*batches)
        found = found.select(*schema.fieldNames())
        if span.start is not None:
            found = found.where((F.col("at") >= F.lit(span.start)) & (F.col("day") >= F.lit(span.start.date())))
        if span.end is not None:
            found = found.where((F.col("at") < F.lit(span.end)) & (F.col("day") <= F.lit(span.end.date())))
        return found


def checked(cluster: str) -> str:
    """Return the name of a cluster, which is the name of a folder, too. Raises LakeError."""
    if not _NAME.fullmatch(cluster) or cluster in (".", ".."):
        raise LakeError(f"{cluster!r} cannot be the name of a cluster (allowed: 1 to 100 of A-Z a-z 0-9 . _ -)")
    return cluster
