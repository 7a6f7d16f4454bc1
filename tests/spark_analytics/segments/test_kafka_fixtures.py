"""The folders of Apache Kafka 4.3.1 are read as Kafka's own tool reads them."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from broker_cy.wire.records import decode_batches
from tests.spark_analytics.segments.logs import rows
from tests.support.kafka_dump import FIXTURES, aborted_offsets, dumped_records

LOGDIR = FIXTURES / "logdir"
TOPICS = ("sample", "compacted", "__consumer_offsets", "__transaction_state", "__cluster_metadata")
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MS = datetime.timedelta(milliseconds=1)


def as_dumped(row: dict[str, Any]) -> tuple[Any, ...]:
    sizes = tuple(-1 if row[name] is None else len(row[name]) for name in ("key", "value"))
    names = tuple(each["key"] for each in row["headers"] or ())
    return row["offset"], (row["timestamp"] - EPOCH) // MS, *sizes, names


@pytest.mark.parametrize("topic", TOPICS)
def test_rows_are_the_records_of_kafkas_dump(topic: str) -> None:
    """If this fails, a record of a folder that Kafka wrote is lost, doubled, or has another offset, time or size."""
    found, _ = rows(LOGDIR, topic, include_headers=True)
    shown = list(dumped_records(f"{topic}-0"))
    assert [as_dumped(row) for row in found] == [
        (each.offset, each.timestamp_ms, each.key_bytes, each.value_bytes, each.header_keys) for each in shown
    ]
    assert len(found) > 9
    assert {(row["topic"], row["partition"], row["timestampType"]) for row in found} == {(topic, 0, 0)}


@pytest.mark.parametrize("topic", TOPICS)
def test_rows_are_what_the_record_decoder_gives(topic: str) -> None:
    """If this fails, the columns have other bytes than `Batch.records`: two decoders of one format differ."""
    expected = [
        (record.offset, record.key, record.value, list(record.headers))
        for path in sorted((LOGDIR / f"{topic}-0").glob("*.log"))
        for batch in decode_batches(path.read_bytes())
        if not batch.is_control
        for record in batch
    ]
    found = [
        (row["offset"], row["key"], row["value"], [(each["key"], each["value"]) for each in row["headers"] or ()])
        for row in rows(LOGDIR, topic, include_headers=True)[0]
    ]
    assert found == expected


def test_all_codecs_are_in_the_folders() -> None:
    """If this fails, the tests above no longer cover every codec, nulls and headers."""
    shown = list(dumped_records("sample-0"))
    assert {each.codec for each in shown} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert any(each.key_bytes < 0 and each.value_bytes < 0 for each in shown)
    assert any(each.header_keys for each in shown)


def test_read_committed_leaves_out_what_kafka_noted_as_aborted() -> None:
    """If this fails, `.txnindex` of Kafka is not applied: aborted records are read, or committed ones are not."""
    everything = {row["offset"] for row in rows(LOGDIR, "sample")[0]}
    committed = {row["offset"] for row in rows(LOGDIR, "sample", isolation="read_committed")[0]}
    aborted = aborted_offsets("sample-0") & everything
    assert len(aborted) == 10
    assert everything - committed == aborted


@pytest.mark.parametrize("range_bytes", [1, 2000, 20_000])
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_division_into_tasks_loses_and_doubles_nothing(range_bytes: int, isolation: str) -> None:
    """If this fails, the records at the edge of two tasks are read twice, or by none."""
    whole, _ = rows(LOGDIR, "sample", isolation=isolation, include_headers=True)
    assert rows(LOGDIR, "sample", isolation=isolation, include_headers=True, range_bytes=range_bytes)[0] == whole
