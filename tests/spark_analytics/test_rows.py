"""Records of the two topics become rows of the tables, whatever else is in the topics."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pytest

from broker_cy.metrics import events, sample
from broker_cy.metrics.events import Commits, Committed, Move, Rebalance, Stamped, TopicCreated, Trigger
from spark_analytics import rows
from spark_analytics.rows import Rows
from spark_analytics.schema import TABLES

AT_MS = 1_790_000_000_123
AT = datetime.fromtimestamp(AT_MS / 1000, UTC)


def samples(*values: bytes | None) -> Rows:
    return rows.samples_of(pa.array(values, pa.binary()))


def changes(*records: tuple[bytes | None, bytes | None]) -> Rows:
    keys, values = zip(*records, strict=True)
    return rows.events_of(pa.array(keys, pa.binary()), pa.array(values, pa.binary()))


def table(name: str, found: Rows) -> list[dict[str, Any]]:
    assert name in TABLES
    if name not in found.tables:
        return []
    made = found.tables[name]
    made.validate(full=True)
    assert made.schema == rows.SCHEMAS[name]
    as_dicts: list[dict[str, Any]] = made.to_pylist(maps_as_pydicts="strict")
    return as_dicts


def test_a_sample_becomes_rows_with_what_its_json_omits() -> None:
    """If this fails, a field of a sample is lost, or values of 0 are missing in sums."""
    phases = {"queue": sample.Times(3, 30, 10, 20, 20), "handler": sample.Times(count=3)}
    apis = {
        "Produce": sample.Api(3, {"NOT_LEADER_OR_FOLLOWER": 1}, 300, 30, phases),
        "Heartbeat": sample.Api(requests=2),
    }
    topics = {"t": sample.Topic(in_records=5, in_bytes=500)}
    made = sample.Sample(
        time_ms=AT_MS, broker=2, interval_ms=1000, cpu_us=7, disks={"/d": (10, 100)}, apis=apis, topics=topics
    )
    source = samples(sample.encode(made))
    (row,) = table("samples", source)
    assert (row["broker"], row["at"], row["day"]) == (2, AT, AT.date())
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


def test_a_sample_of_node_0_has_its_number() -> None:
    """If this fails, the samples of node 0 belong to no node, because JSON omits values of 0."""
    value = sample.encode(sample.Sample(time_ms=AT_MS, broker=0, topics={"t": sample.Topic(in_records=1)}))
    source = samples(value)
    assert [row["broker"] for name in ("samples", "topic_rates") for row in table(name, source)] == [0, 0]


def test_events_become_rows() -> None:
    """If this fails, a commit, a rebalance or its cause is lost, or has another time."""
    rebalance = Rebalance(
        "g", 7, "range", started_ms=AT_MS - 50, total_ms=50, members_after=2,
        triggers=[Trigger("leave", "m1", None, "client", "10.0.0.1"), Trigger("metadata", topics=["t", "u"])],
        moves=[Move("t", 1, "m1", "m2", 40), Move("t", 2, None, "m2", -1)], moves_total=2,
    )  # fmt: skip
    commits = Commits(
        "g", [Committed("t", 1, 10, AT_MS - 5, AT_MS - 9, 12), Committed("t", 2, 9, AT_MS - 5, -1, 12, 3)]
    )
    source = changes(*(events.encode(Stamped(AT_MS, 1, each)) for each in (rebalance, commits, TopicCreated("t"))))
    assert source.left_out == 0
    (found,) = table("rebalances", source)
    assert (found["group"], found["generation"], found["total_ms"]) == ("g", 7, 50)
    assert found["started_at"] == datetime.fromtimestamp((AT_MS - 50) / 1000, UTC)
    moves = {each["partition"]: each for each in table("moves", source)}
    assert (moves[1]["source"], moves[1]["target"], moves[1]["stall_ms"], moves[1]["generation"]) == ("m1", "m2", 40, 7)
    assert (moves[2]["source"], moves[2]["stall_ms"]) == (None, -1)
    leave, metadata = sorted(table("triggers", source), key=itemgetter("reason"))
    assert (leave["reason"], leave["host"], leave["instance_id"], leave["topics"]) == ("leave", "10.0.0.1", None, [])
    assert (metadata["reason"], metadata["topics"]) == ("metadata", ["t", "u"])
    of = {each["partition"]: each for each in table("commits", source)}
    assert (of[1]["offset"], of[1]["end"]) == (10, 12)
    assert of[1]["record_at"] == datetime.fromtimestamp((AT_MS - 9) / 1000, UTC)
    assert of[2]["record_at"] is None
    assert (of[1]["completed"], of[2]["completed"]) == (0, 3)
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
def test_what_is_neither_is_left_out(value: bytes | None) -> None:
    """If this fails, a record of a later version, or of another program, ends every ingest, or makes other records
    disappear.
    """
    good = sample.encode(sample.Sample(time_ms=AT_MS, broker=1))
    found = samples(good, value, good)
    assert (len(table("samples", found)), found.left_out) == (2, 1)
    assert samples(value).tables == {}
    commits = Commits("g", [Committed("t", 1, 10, AT_MS, AT_MS, 12)])
    event = events.encode(Stamped(AT_MS, 1, commits))
    found = changes(event, (None, value), event, event)
    assert [row["offset"] for row in table("commits", found)] == [10, 10, 10]
    assert (set(found.tables), found.left_out) == ({"commits"}, 1)
    assert changes((None, value)) == Rows({}, 1)


def test_text_that_is_not_utf_8_is_kept_as_far_as_it_is() -> None:
    """If this fails, one client with an unusual name makes the events of its group disappear."""
    key, value = events.encode(Stamped(AT_MS, 1, Commits("g", [Committed("t\udcff", 1, 10, AT_MS, AT_MS, 12)])))
    rare = events.encode(Stamped(AT_MS, 1, Rebalance("g", 1, triggers=[Trigger("leave", "m\udcff", None)])))
    found = changes((key, value), rare)
    assert found.left_out == 0
    assert {row["topic"][0] for row in table("commits", found)} == {"t"}
    assert table("triggers", found)[0]["member_id"][0] == "m"
    assert len(table("events", found)) == 1
    odd = sample.encode(sample.Sample(time_ms=AT_MS, topics={"a\udcff": sample.Topic(in_records=1)}))
    (row,) = table("topic_rates", samples(odd))
    assert row["topic"][0] == "a"


def test_commits_may_begin_otherwise() -> None:
    """If this fails, events that another program wrote, with its own order of fields, are silently left out."""
    head = {"version": 1, "time_ms": AT_MS, "broker": 1, "type": "commits", "group": "g"}
    offset = {"topic": "t", "partition": 0, "offset": 1, "commit_ms": AT_MS, "record_time_ms": -1, "end": 1}
    found = changes((b"g", json.dumps(head | {"offsets": [offset]}, indent=1).encode()))
    assert (len(table("commits", found)), found.left_out) == (1, 0)


@pytest.mark.parametrize(
    "bad",
    [
        {"offsets": {"topic": "t"}},
        {"offsets": [{"topic": "t", "offset": "many"}]},
        {"offsets": [{"topic": "t", "offset": 2**70}]},
        {"group": 7},
    ],
)
def test_one_bad_value_among_many_is_left_out_alone(bad: dict[str, Any]) -> None:
    """If this fails, a field of another type also drops the events around it, which Arrow parses together."""
    made = [Commits("g", [Committed("t", 1, number, AT_MS, AT_MS, 12)]) for number in range(100)]
    values = [events.encode(Stamped(AT_MS, 1, each)) for each in made]
    odd = json.loads(values[37][1]) | bad
    values[37] = (b"g", json.dumps(odd, separators=(",", ":")).encode())
    found = changes(*values)
    assert [row["offset"] for row in table("commits", found)] == [each for each in range(100) if each != 37]
    assert found.left_out == 1


def test_one_bad_sample_is_left_out_alone() -> None:
    """If this fails, a sample whose field has another type ends every ingest."""
    values = [sample.encode(sample.Sample(time_ms=AT_MS + number, broker=1)) for number in range(20)]
    odd = {
        "apis": {"apis": [1]},
        "cpu": {"cpu_us": "many"},
        "topics": {"topics": {"t": 3}},
        "broker": {"broker": 2**40},
    }
    for place, name in zip((3, 7, 11, 19), odd, strict=True):
        values[place] = json.dumps(json.loads(values[place]) | odd[name]).encode()
    found = samples(*values)
    assert (len(table("samples", found)), found.left_out) == (16, 4)


def test_a_field_that_is_new_does_no_harm() -> None:
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
    (row,) = table("commits", changes((b"g", value.encode())))
    assert (row["offset"], row["day"]) == (1, AT.date())
