"""Ingest: the records of `__broker_metrics` and `__cluster_events` into the tables of a lake, each exactly once.

Spark's stream plans a range of offsets and notes it before it reads; `_write` replaces the folders of that batch; then
Spark notes that the batch is complete. After a crash at any time the same range is read again into the same folders,
and readers ignore them until the batch is complete (`spark_analytics.lake`).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from broker_cy.admin import AdminClient, ClientError
from broker_cy.admin.configs import ConfigResource, ResourceType
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import EARLIEST, LATEST
from broker_cy.metrics import events, sample
from spark_analytics import rows
from spark_analytics.errors import IngestError
from spark_analytics.lake import Generation, Lake, checked, url
from spark_analytics.session import session
from spark_analytics.sources import Offsets, Source, Topic, current, enter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress

TOPICS = (sample.TOPIC, events.TOPIC)
# Records of a batch at most: about 0.5 GB of samples.
BATCH_RECORDS_MAX = 200_000
# A first ingest begins this long inside the topic's retention, or it would fail when that removes what is planned.
MARGIN_MS = 3_600_000
# Files of a table in a batch, for each day.
FILES = 2
LOOK_S = 1
# A batch has few days: rows need not be sorted by day before they are written.
WRITES = {"spark.sql.maxConcurrentOutputFileWriters": "16"}


@dataclass(frozen=True)
class Ingested:
    """What an ingest did."""

    cluster: str
    batches: int
    records: int
    seconds: float


def find(bootstrap: str, cluster: str | None) -> Source:
    """Look at the cluster; by default its name in the lake is its id. Raises IngestError if it cannot be reached, or
    has neither topic, and LakeError for a name that no cluster can have.
    """
    if cluster is not None:
        checked(cluster)
    try:
        return asyncio.run(_find(bootstrap, cluster))
    except ClientError as error:
        raise IngestError(f"{bootstrap}: {error}") from None


async def _find(bootstrap: str, cluster: str | None) -> Source:
    async with AdminClient(bootstrap) as client:
        known = {topic.name: topic for topic in await client.topics.list_all() if topic.name in TOPICS}
        if not known:
            raise IngestError(
                f"{bootstrap} has neither {' nor '.join(TOPICS)}: only broker-cy writes them, unless "
                "brokercy.metrics.sample.interval.ms=0 and brokercy.events.enable=false"
            )
        described = await client.cluster.describe()
        source = described.cluster_id or "cluster"
        now_ms = time.time_ns() // 1_000_000
        times_ms = {}
        for topic in known.values():
            resource = ConfigResource(ResourceType.TOPIC, topic.name)
            answers = await client.configs.describe([resource], names=["retention.ms"])
            kept_ms = int(answers.whole()[resource][0].value or -1)
            at_ms = now_ms - kept_ms + MARGIN_MS if kept_ms > 2 * MARGIN_MS else EARLIEST
            times_ms.update({TopicPartition(topic.name, each.partition): at_ms for each in topic.partitions})
        # What is there from its first record on begins there when Spark plans, which is later than now.
        wanted = {part: at_ms for part, at_ms in times_ms.items() if at_ms != EARLIEST}
        found = (await client.offsets.at(wanted)).whole() if wanted else {}
        starts: dict[str, dict[int, int]] = {name: {} for name in known}
        for part, at_ms in times_ms.items():
            offset = EARLIEST if at_ms == EARLIEST else found[part].offset
            starts[part.topic][part.partition] = LATEST if offset is None else offset
        topics = {name: Topic(str(topic.topic_id), starts[name]) for name, topic in known.items()}
        nodes = frozenset(each.broker_id for each in described.brokers)
        return Source(bootstrap, cluster or source, source, nodes, topics)


def ingest(
    lake: Lake,
    source: Source,
    *,
    accept_loss: bool = False,
    replaces: str | None = None,
    show: Callable[[str], None] = lambda text: None,
    **of_session: Any,
) -> Ingested:
    """Read everything that has come since the last ingest. `replaces` is the id of another source of the same cluster,
    whose nodes are this one's from now on. Raises IngestError, LakeError and SetUpError.
    """
    enter(lake, source, replaces)
    with lake.locked(source.cluster, source.source) as held:
        spark = session("ingest", kept_open=(held,), show=show, options=WRITES, **of_session)
        generation, starts, notes = current(lake, source)
        for note in notes:
            show(f"{source.bootstrap}: {note}")
        began_s = time.monotonic()
        batches, records = _run(spark, source, generation, starts, accept_loss, show)
        return Ingested(source.cluster, batches, records, time.monotonic() - began_s)


def _run(
    spark: SparkSession,
    source: Source,
    generation: Generation,
    starts: Offsets,
    accept_loss: bool,
    show: Callable[[str], None],
) -> tuple[int, int]:
    from pyspark.errors import StreamingQueryException

    stream = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", source.bootstrap)
        .option("subscribe", ",".join(starts))
        .option("startingOffsets", json.dumps(starts))
        .option("failOnDataLoss", str(not accept_loss).lower())
        .option("maxOffsetsPerTrigger", BATCH_RECORDS_MAX)
        # Each topic has one partition: otherwise one core would read all of it.
        .option("minPartitions", spark.sparkContext.defaultParallelism)
        .load()
    )
    query = (
        stream.writeStream.trigger(availableNow=True)
        .option("checkpointLocation", url(generation.checkpoint))
        .foreachBatch(lambda batch, number: _write(generation, batch, number))
        .start()
    )
    shown = -1
    seen: dict[int, int] = {}
    try:
        is_over = False
        while not is_over:
            is_over = bool(query.awaitTermination(LOOK_S))
            for each in query.recentProgress:
                seen[each.batchId] = _records(each, starts)
            if seen and max(seen) > shown:
                shown = max(seen)
                show(f"batch {shown}: {seen[shown]:,} records")
    except StreamingQueryException as error:
        raise IngestError(_why(str(error), source)) from None
    finally:
        query.stop()
    counts = [count for count in seen.values() if count]
    return len(counts), sum(counts)


def _records(progress: StreamingQueryProgress, starts: Offsets) -> int:
    """Return the records of a batch, by its offsets: Spark counts them as often as they are read. A first batch, of
    which Spark does not say where it began, did at `starts`.
    """
    (source,) = progress.sources
    start, end = (json.loads(each or "{}") or {} for each in (source.startOffset, source.endOffset))
    return sum(
        offset - start.get(topic, {}).get(part, max(0, starts[topic].get(int(part), 0)))
        for topic, parts in end.items()
        for part, offset in parts.items()
    )


def _write(generation: Generation, batch: DataFrame, number: int) -> None:
    """Replace what batch `number` wrote to each table."""
    from pyspark.sql import functions as F

    for topic, tables, read in (
        (sample.TOPIC, rows.SAMPLE_TABLES, rows.samples_of),
        (events.TOPIC, rows.EVENT_TABLES, rows.events_of),
    ):
        source = read(batch.where(F.col("topic") == topic)).persist()
        try:
            for name in tables:
                folder = generation.batch(name, number)
                found = rows.table_of(name, source, generation.cluster).drop("cluster").coalesce(FILES)
                found.write.mode("overwrite").partitionBy("day").parquet(url(folder))
        finally:
            source.unpersist()


def _why(text: str, source: Source) -> str:
    """Return what people can do about a failure of Spark's source."""
    if "DATA_LOSS" in text.upper() or "data may have been lost" in text:
        return (
            f"{source.bootstrap}: records that were not ingested yet are gone: retention removed them. Ingest more "
            "often than that; --accept-loss goes on with what is there"
        )
    lines = [line for line in text.splitlines() if line.strip()]
    return f"{source.bootstrap}: {lines[0] if lines else 'Spark failed without a text'}"
