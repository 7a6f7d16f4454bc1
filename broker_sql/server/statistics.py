"""Figures of the queries of a stream or table, for DESCRIBE ... EXTENDED."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from broker_cy.admin.metadata import TopicPartition
from broker_sql.catalog import SourceInfo
from broker_sql.server.service import Service


@dataclass(frozen=True, slots=True)
class Statistics:
    """`offsets` are those of the groups that read for the queries that write the source."""

    text: str = ""
    errors: str = ""
    offsets: tuple[dict[str, Any], ...] = ()


async def statistics_of(service: Service, source: SourceInfo) -> Statistics:
    """Raises ClientError."""
    catalog = service.engine.catalog
    writers, readers = catalog.writers(source.name), catalog.readers(source.name)
    written = await asyncio.to_thread(_records, service, writers, "records_produced", source.topic)
    read = await asyncio.to_thread(_records, service, readers, "records_consumed", source.topic)
    failed = sum(len(service.runner.running[each].errors) for each in writers if each in service.runner.running)
    parts = []
    if writers:
        parts.append(f"messages-per-sec: {written[1]:>9.2f}   total-messages: {written[0]:>9.0f}")
    if readers:
        parts.append(f"consumer-messages-per-sec: {read[1]:>9.2f}   consumer-total-messages: {read[0]:>9.0f}")
    text = "   ".join(parts)
    offsets = [await _offsets(service, service.config.query_prefix + each) for each in writers]
    return Statistics(text, f"total-errors: {failed}" if failed else "", tuple(offsets))


def _records(service: Service, queries: Iterable[str], name: str, topic: str) -> tuple[float, float]:
    """The records of a topic that queries of this server have read or written: all of them, and per second."""
    total = rate = 0.0
    for query_id in queries:
        running = service.runner.running.get(query_id)
        if running is None or running.streams is None:
            continue
        try:
            found = running.streams.metrics()
        except (LookupError, TimeoutError):
            continue
        for metric, values in found.items():
            if not metric.endswith((f"{name}_total", f"{name}_rate")):
                continue
            of_topic = sum(value for labels, value in values.items() if labels[-1] == topic)
            if metric.endswith("_total"):
                total += of_topic
            else:
                rate += of_topic
    return total, rate


async def _offsets(service: Service, group: str) -> dict[str, Any]:
    client = service.client
    found = await client.group_offsets.fetch([group])
    committed = found.found.get(group, {})
    keys: list[TopicPartition] = sorted(committed)
    starts = (await client.offsets.earliest(keys)).found
    ends = (await client.offsets.latest(keys)).found
    topics: dict[str, list[dict[str, Any]]] = {}
    for key in keys:
        topics.setdefault(key.topic, []).append(
            {
                "partition": key.partition,
                "logStartOffset": starts.get(key, -1),
                "logEndOffset": ends.get(key, -1),
                "consumerOffset": committed[key].offset,
            }
        )
    summaries = [{"kafkaTopic": topic, "offsets": rows} for topic, rows in topics.items()]
    return {"groupId": group, "topicSummaries": summaries}
