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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker_cy.admin import AdminClient, AdminError
from broker_cy.admin.configs import ConfigResource, ResourceType
from broker_cy.metrics import events, sample
from spark_analytics import rows
from spark_analytics.errors import IngestError
from spark_analytics.lake import Lake, checked
from spark_analytics.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPICS = (sample.TOPIC, events.TOPIC)
# Records of a batch at most: about 0.5 GB of samples.
BATCH_RECORDS_MAX = 200_000
# A first ingest begins this long inside the topic's retention, or it would fail when that removes what is planned.
MARGIN_MS = 3_600_000
# Files of a table in a batch, for each day.
FILES = 2
LOOK_S = 1


@dataclass(frozen=True)
class Source:
    """Where the records come from: topics with the time from which a first ingest reads them, by partition."""

    bootstrap: str
    cluster: str
    starts_ms: dict[str, dict[int, int]]
    topic_ids: dict[str, str]


@dataclass(frozen=True)
class Ingested:
    """What an ingest did."""

    cluster: str
    batches: int
    records: int
    seconds: float


def find(bootstrap: str, cluster: str | None) -> Source:
    """Look at the cluster. Raises IngestError if it cannot be reached, or has neither topic, and LakeError for a name
    that no cluster can have.
    """
    if cluster is not None:
        checked(cluster)
    try:
        return asyncio.run(_find(bootstrap, cluster))
    except AdminError as error:
        raise IngestError(f"{bootstrap}: {error}") from None


async def _find(bootstrap: str, cluster: str | None) -> Source:
    async with AdminClient(bootstrap) as client:
        known = {topic.name: topic for topic in await client.topics.list_all() if topic.name in TOPICS}
        if not known:
            raise IngestError(
                f"{bootstrap} has neither {' nor '.join(TOPICS)}: only broker-cy writes them, unless "
                "brokercy.metrics.sample.interval.ms=0 and brokercy.events.enable=false"
            )
        name = cluster or (await client.cluster.describe()).cluster_id or "cluster"
        now_ms = time.time_ns() // 1_000_000
        starts = {}
        for topic in known.values():
            resource = ConfigResource(ResourceType.TOPIC, topic.name)
            answers = await client.configs.describe([resource], names=["retention.ms"])
            kept_ms = int(answers.whole()[resource][0].value or -1)
            start_ms = now_ms - kept_ms + MARGIN_MS if kept_ms > 2 * MARGIN_MS else 0
            starts[topic.name] = {each.partition: start_ms for each in topic.partitions}
        return Source(bootstrap, name, starts, {topic.name: str(topic.topic_id) for topic in known.values()})


def ingest(
    lake: Lake,
    source: Source,
    *,
    accept_loss: bool = False,
    show: Callable[[str], None] = lambda text: None,
    **of_session: Any,
) -> Ingested:
    """Read everything that has come since the last ingest. Raises IngestError, LakeError and SetUpError."""
    with lake.locked(source.cluster) as held:
        known = lake.checkpoint(source.cluster).with_name("topics.json")
        if not accept_loss:
            _check_ids(known, source)
        spark = session("ingest", kept_open=(held,), **of_session)
        began_s = time.monotonic()
        batches, records = _run(spark, lake, source, accept_loss, show)
        known.write_text(json.dumps(source.topic_ids), encoding="utf-8")
        return Ingested(source.cluster, batches, records, time.monotonic() - began_s)


def _check_ids(known: Path, source: Source) -> None:
    """Raise IngestError if a topic is another one than at the last ingest: its offsets would be taken for those."""
    before = json.loads(known.read_text(encoding="utf-8")) if known.exists() else {}
    for topic, topic_id in source.topic_ids.items():
        if before.get(topic, topic_id) != topic_id:
            raise IngestError(
                f"{source.bootstrap}: {topic} was created again since the last ingest: use another --cluster name. "
                "--accept-loss goes on after the offset that was read last, and leaves out what is before it"
            )


def _run(
    spark: SparkSession, lake: Lake, source: Source, accept_loss: bool, show: Callable[[str], None]
) -> tuple[int, int]:
    from pyspark.errors import StreamingQueryException

    starts = {topic: {str(number): at for number, at in parts.items()} for topic, parts in source.starts_ms.items()}
    stream = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", source.bootstrap)
        .option("subscribePattern", "|".join(TOPICS))
        .option("startingOffsetsByTimestamp", json.dumps(starts))
        .option("startingOffsetsByTimestampStrategy", "latest")
        .option("failOnDataLoss", str(not accept_loss).lower())
        .option("maxOffsetsPerTrigger", BATCH_RECORDS_MAX)
        # Each topic has one partition: otherwise one core would read all of it.
        .option("minPartitions", spark.sparkContext.defaultParallelism)
        .load()
    )
    query = (
        stream.writeStream.trigger(availableNow=True)
        .option("checkpointLocation", str(lake.checkpoint(source.cluster)))
        .foreachBatch(lambda batch, number: _write(lake, source.cluster, batch, number))
        .start()
    )
    shown = -1
    seen: dict[int, int] = {}
    try:
        is_over = False
        while not is_over:
            is_over = bool(query.awaitTermination(LOOK_S))
            for each in query.recentProgress:
                seen[each.batchId] = each.numInputRows
            if seen and max(seen) > shown:
                shown = max(seen)
                show(f"batch {shown}: {seen[shown]:,} records")
    except StreamingQueryException as error:
        raise IngestError(_why(str(error), source)) from None
    finally:
        query.stop()
    counts = [count for count in seen.values() if count]
    return len(counts), sum(counts)


def _write(lake: Lake, cluster: str, batch: DataFrame, number: int) -> None:
    """Replace what batch `number` wrote to each table."""
    from pyspark.sql import functions as F

    for topic, tables, read in (
        (sample.TOPIC, rows.SAMPLE_TABLES, rows.samples_of),
        (events.TOPIC, rows.EVENT_TABLES, rows.events_of),
    ):
        source = read(batch.where(F.col("topic") == topic)).persist()
        try:
            for name in tables:
                folder = lake.table(name, cluster) / f"batch_id={number}"
                found = rows.table_of(name, source, cluster).drop("cluster").coalesce(FILES)
                found.write.mode("overwrite").partitionBy("day").parquet(str(folder))
        finally:
            source.unpersist()


def _why(text: str, source: Source) -> str:
    """Return what people can do about a failure of Spark's source."""
    if "DATA_LOSS" in text.upper() or "data may have been lost" in text:
        return (
            f"{source.bootstrap}: records that were not ingested yet are gone: retention, DeleteRecords or a topic "
            "that was created again removed them. Ingest more often than that; --accept-loss goes on with what is there"
        )
    lines = [line for line in text.splitlines() if line.strip()]
    return f"{source.bootstrap}: {lines[0] if lines else 'Spark failed without a text'}"
