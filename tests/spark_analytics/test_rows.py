"""Records of the two topics become rows of the tables, whatever else is in the topics."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from broker_cy.metrics import events, sample
from broker_cy.metrics.events import Commits, Committed, Move, Rebalance, Stamped, TopicCreated, Trigger
from spark_analytics import rows
from spark_analytics.schema import TABLES

AT_MS = 1_790_000_000_123
AT = datetime.fromtimestamp(AT_MS / 1000, UTC).replace(tzinfo=None)


def records(spark: SparkSession, *found: tuple[bytes | None, bytes | None]) -> DataFrame:
    return spark.createDataFrame([(key, value) for key, value in found], "key BINARY, value BINARY")


def table(name: str, source: DataFrame) -> list[dict[str, Any]]:
    made = rows.table_of(name, source, "c")
    assert made.schema.simpleString() == TABLES[name].simpleString()
    return [row.asDict(recursive=True) for row in made.collect()]


def test_a_sample_becomes_rows_with_what_its_json_omits(spark: SparkSession) -> None:
    """If this fails, a field of a sample is lost, or what is 0 is missing in sums."""
    phases = {"queue": sample.Times(3, 30, 10, 20, 20), "handler": sample.Times(count=3)}
    apis = {
        "Produce": sample.Api(3, {"NOT_LEADER_OR_FOLLOWER": 1}, 300, 30, phases),
        "Heartbeat": sample.Api(requests=2),
    }
    topics = {"t": sample.Topic(in_records=5, in_bytes=500)}
    made = sample.Sample(
        time_ms=AT_MS, broker=2, interval_ms=1000, cpu_us=7, disks={"/d": (10, 100)}, apis=apis, topics=topics
    )
    source = rows.samples_of(records(spark, (b"2", sample.encode(made))))
    (row,) = table("samples", source)
    assert (row["cluster"], row["broker"], row["at"], row["day"]) == ("c", 2, AT, AT.date())
    assert (row["interval_ms"], row["cpu_us"], row["members"], row["disks"]) == (1000, 7, 0, {"/d": [10, 100]})
    assert (row["groups"], row["loop_lag"]["count"], row["loop_lag"]["p99_us"]) == ({}, 0, 0)
    of = {(each["api"], each["phase"]): each for each in table("api_phases", source)}
    assert of.keys() == {("Produce", "queue"), ("Produce", "handler"), ("Heartbeat", None)}
    queue = of["Produce", "queue"]
    assert (queue["requests"], queue["errors"], queue["out_bytes"], queue["p99_us"]) == (
        3, {"NOT_LEADER_OR_FOLLOWER": 1}, 30, 20,
    )  # fmt: skip
    assert (of["Produce", "handler"]["sum_us"], of["Heartbeat", None]["count"]) == (0, 0)
    (rates,) = table("topic_rates", source)
    assert (rates["topic"], rates["in_records"], rates["in_bytes"], rates["out_bytes"]) == ("t", 5, 500, 0)


def test_a_sample_of_node_0_has_its_number(spark: SparkSession) -> None:
    """If this fails, the samples of the first node belong to no node: JSON omits what is 0."""
    value = sample.encode(sample.Sample(time_ms=AT_MS, broker=0, topics={"t": sample.Topic(in_records=1)}))
    source = rows.samples_of(records(spark, (b"0", value)))
    assert [row["broker"] for name in ("samples", "topic_rates") for row in table(name, source)] == [0, 0]


def test_events_become_rows(spark: SparkSession) -> None:
    """If this fails, a commit, a rebalance or who caused it is lost, or has another time."""
    rebalance = Rebalance(
        "g", 7, "range", started_ms=AT_MS - 50, total_ms=50, members_after=2,
        triggers=[Trigger("leave", "m1", None, "client", "10.0.0.1")],
        moves=[Move("t", 1, "m1", "m2", 40), Move("t", 2, None, "m2", -1)], moves_total=2,
    )  # fmt: skip
    commits = Commits("g", [Committed("t", 1, 10, AT_MS - 5, AT_MS - 9, 12), Committed("t", 2, 12, AT_MS - 5, -1, 12)])
    source = rows.events_of(
        records(spark, *(events.encode(Stamped(AT_MS, 1, each)) for each in (rebalance, commits, TopicCreated("t"))))
    )
    (found,) = table("rebalances", source)
    assert (found["group"], found["generation"], found["total_ms"]) == ("g", 7, 50)
    assert found["started_at"] == datetime.fromtimestamp((AT_MS - 50) / 1000, UTC).replace(tzinfo=None)
    moves = {each["partition"]: each for each in table("moves", source)}
    assert (moves[1]["source"], moves[1]["target"], moves[1]["stall_ms"], moves[1]["generation"]) == ("m1", "m2", 40, 7)
    assert (moves[2]["source"], moves[2]["stall_ms"]) == (None, -1)
    (trigger,) = table("triggers", source)
    assert (trigger["reason"], trigger["host"], trigger["instance_id"]) == ("leave", "10.0.0.1", None)
    of = {each["partition"]: each for each in table("commits", source)}
    assert (of[1]["offset"], of[1]["end"]) == (10, 12)
    assert of[1]["record_at"] == datetime.fromtimestamp((AT_MS - 9) / 1000, UTC).replace(tzinfo=None)
    assert of[2]["record_at"] is None
    assert {each["type"]: each["key"] for each in table("events", source)} == {"rebalance": "g", "topic_created": "t"}


NEITHER = (
    None,
    b"",
    b"no json",
    b"[1]",
    b"{}",
    b'{"version":99,"time_ms":1}',
    b'{"type":"commits","version":7,"time_ms":1,"offsets":[{"topic":"t"}]}',
    b'{"type":"commits",no json',
    b'{"type":"commits","version":1,"time_ms":null,"offsets":[{"topic":"t"}]}',
)


@pytest.mark.parametrize("value", NEITHER)
def test_what_is_neither_is_left_out(spark: SparkSession, value: bytes | None) -> None:
    """If this fails, a record of a later version, or of someone else, ends every ingest."""
    source = records(spark, (None, value))
    of = {**dict.fromkeys(rows.SAMPLE_TABLES, rows.samples_of), **dict.fromkeys(rows.EVENT_TABLES, rows.events_of)}
    assert {name: table(name, read(source)) for name, read in of.items()} == {name: [] for name in of}


def test_a_field_that_is_new_does_no_harm(spark: SparkSession) -> None:
    """If this fails, an upgrade of the brokers ends the ingest of their events."""
    offset = {
        "topic": "t",
        "partition": 0,
        "offset": 1,
        "commit_ms": AT_MS,
        "record_time_ms": -1,
        "end": 1,
        "shape": "round",
    }
    head = {"type": "commits", "version": 1, "time_ms": AT_MS, "broker": 1}
    value = json.dumps(head | {"group": "g", "colour": {"a": [1]}, "offsets": [offset]}, separators=(",", ":"))
    (row,) = table("commits", rows.events_of(records(spark, (b"g", value.encode()))))
    assert (row["offset"], row["day"]) == (1, AT.date())
