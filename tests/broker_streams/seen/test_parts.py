"""The parts of status, metrics and queries that need no cluster."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from broker_cy.client.address import Address, parse_address
from broker_cy.client.errors import ClientError
from broker_cy.client.streams_status import (
    InputState,
    InstanceState,
    StoreState,
    TaskState,
    TrafficState,
    ask_json,
    ask_rows,
    state_of,
)
from broker_cy.http.pages import JSON, PageAnswer, PageRequest, PageServer
from broker_streams.hosts.measures import Life, Measures, State, TaskMeasures
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.queries.metadata import KeyQueryMetadata, Placement
from broker_streams.queries.views import StoreUnavailable, view_of
from broker_streams.records import KeyValue
from broker_streams.seen.metrics import METRICS
from broker_streams.seen.rates import Extremes, Rates
from broker_streams.seen.rows import BadQuery, plain, time_ms, value_of_text
from broker_streams.seen.settings import SeenSettings

DOCS = Path(__file__).parents[3] / "docs" / "streams.md"


def test_the_page_lists_all_metrics() -> None:
    """If this fails, docs/streams.md lacks a metric, or has one that does not exist."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in DOCS.read_text().splitlines()]
    found = {}
    for group, labels, names, suffixes in (row for row in rows if row and row[0].startswith("`stream_")):
        for name in re.findall("`(.+?)`", names):
            for suffix in re.findall("`(.+?)`", suffixes) or [""]:
                found[f"kafka_streams_{group.split('`')[1]}_{name}{suffix}"] = tuple(labels.split(", "))
    assert found == {each.name: each.labels for each in METRICS.values()}


def test_a_state_is_the_same_after_json() -> None:
    """If this fails, consoles show other values than the instance has."""
    task = TaskState(
        "0_1",
        "active",
        "running",
        inputs=(InputState("t", 1, 5, 4, 2),),
        stores=(StoreState("s", "session", 3),),
        nodes={"N": 7},
    )
    found = InstanceState("a", "RUNNING", waits=("missing",), tasks=(task,), consumed=(TrafficState("t", 5, 50),))
    assert state_of(json.loads(found.to_json())) == found
    assert state_of({"application": "a", "state": "RUNNING", "of_later_versions": 1}).tasks == ()


def test_rates_are_of_the_window() -> None:
    """If this fails, a rate is that of the whole life, or of one second only."""
    rates = Rates(2.0)
    assert rates.per_s("n") == 0.0
    for second, count in enumerate((0, 100, 110, 120)):
        rates.note(float(second), {"n": count, "ns": count * 5})
    assert rates.per_s("n") == 10.0
    assert rates.average("ns", "n") == 5.0
    # A count that began again.
    rates.note(4.0, {"n": 4, "ns": 0})
    assert rates.per_s("n") == 2.0
    assert rates.average("other", "other") is None


def test_the_longest_time_is_forgotten_after_the_window() -> None:
    """If this fails, one slow commit is shown for ever."""
    maxima = Extremes(max, 2.0)
    maxima.note({"commit": 9.0})
    maxima.note({"commit": 1.0})
    assert maxima.of("commit") == 9.0
    maxima.note({})
    assert maxima.of("commit") == 1.0
    assert maxima.of("poll") is None


def test_counts_of_a_step_reach_task_and_instance() -> None:
    """If this fails, process-total of the thread is not the sum of its tasks."""
    measures, one, other = Measures(), TaskMeasures(), TaskMeasures()
    measures.process(one, 10, 1_000)
    measures.process(other, 5, 1_000)
    measures.poll("t", 3, 300, 50)
    assert (measures.processed.count, one.processed.count, other.processed.count) == (15, 10, 5)
    assert (one.processed.take_max(), one.processed.take_max()) == (100, 0)
    assert (measures.consumed["t"].records, measures.consumed["t"].size_bytes) == (3, 300)


def test_an_instance_that_stops_does_not_run_again() -> None:
    """If this fails, a stopped instance is shown as running: its last rebalance ended after the stop."""
    seen: list[State] = []
    life = Life(lambda: 5)
    life.listeners.append(lambda state, before, error: seen.append(state))
    life.enter(State.REBALANCING)
    life.enter(State.REBALANCING)
    life.enter(State.PENDING_SHUTDOWN)
    life.enter(State.RUNNING)
    life.enter(State.NOT_RUNNING)
    assert seen == [State.REBALANCING, State.PENDING_SHUTDOWN, State.NOT_RUNNING]


# ---- settings


def test_rows_need_a_token_where_others_reach_the_address(tmp_path: Path) -> None:
    """If this fails, everybody in the network reads the state of an application."""
    assert SeenSettings.of({}).listener is None
    local = SeenSettings.of({"application.server": "127.0.0.1:8090"})
    assert (local.listener, local.shows_rows) == (Address("127.0.0.1", 8090), True)
    assert not SeenSettings.of({"application.server": "streams-1:8090"}).shows_rows
    assert not SeenSettings.of({"brokercy.streams.listener": "0.0.0.0:8090"}).shows_rows
    (tmp_path / "token").write_text("0123456789abcdef\n")
    given = {"application.server": "streams-1:8090", "brokercy.streams.token.file": str(tmp_path / "token")}
    assert SeenSettings.of(given).shows_rows
    assert SeenSettings.of({"application.server": "a:1", "brokercy.streams.listener": "none"}).listener is None


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"application.server": "host"}, "application.server: 'host'"),
        ({"brokercy.streams.listener": "host:x"}, "brokercy.streams.listener: 'host:x'"),
        ({"brokercy.streams.token.file": "/missing"}, "/missing cannot be read"),
        ({"brokercy.streams.events": "maybe"}, "maybe for configuration brokercy.streams.events"),
    ],
)
def test_wrong_settings_are_named(given: dict[str, str], named: str) -> None:
    """If this fails, a setting that is wrong is ignored, or its error does not name it."""
    with pytest.raises(ValueError, match=named):
        SeenSettings.of(given)


def test_a_short_token_is_refused(tmp_path: Path) -> None:
    """If this fails, an empty file is a token that everybody has."""
    (tmp_path / "token").write_text("short")
    with pytest.raises(ValueError, match="has no token"):
        SeenSettings.of({"brokercy.streams.token.file": str(tmp_path / "token")})


# ---- places of stores


def placement(members: dict[Any, Any]) -> Placement:
    from broker_streams import STRING, Materialized, StreamsBuilder

    builder = StreamsBuilder()
    grouped = builder.stream("in", key=STRING, value=STRING).group_by(lambda key, value: value, key=STRING)
    grouped.count(materialized=Materialized("counts"))
    builder.global_table("names", key=STRING, value=STRING, materialized=Materialized("names-store"))
    return Placement(builder.build().plan, "app", lambda topic: 4, lambda: members)


def test_the_owner_of_a_partition_is_the_one_with_its_repartition_topic() -> None:
    """If this fails, queries go to the instance that reads the input, and not to the one with the store."""
    first, second, third = ("a", 1), ("b", 2), ("c", 3)
    topic = "app-counts-repartition"
    members = {
        first: (frozenset({("in", 3), (topic, 0)}), frozenset({(topic, 3)})),
        second: (frozenset({(topic, 3)}), frozenset()),
        third: (frozenset({("in", 0)}), frozenset()),
    }
    places = placement(members)
    assert places.at("counts", 3) == KeyQueryMetadata(second, frozenset({first}), 3)
    assert places.at("counts", 2) == KeyQueryMetadata(None, frozenset(), 2)
    assert [each.place for each in places.of_store("counts")] == [first, second]
    assert places.partitions("names-store") == 1
    assert places.at("names-store", 0).active == first
    with pytest.raises(StoreUnavailable, match="has no store other; its stores are counts, names-store"):
        places.at("other", 0)


class Part:
    def __init__(self, rows: dict[str, int]) -> None:
        self.rows = rows

    def peek(self, key: str) -> int | None:
        return self.rows.get(key)

    def all(self) -> Any:
        return (KeyValue(key, value) for key, value in self.rows.items())

    def approximate_num_entries(self) -> int:
        return len(self.rows)


def test_a_view_reads_all_parts() -> None:
    """If this fails, a view shows the rows of one task only."""
    parts = {0: Part({"a": 1}), 3: Part({"b": 0})}
    view: Any = view_of(Store("s", StoreKind.KEY_VALUE), lambda: parts)
    # A value that is false is a value.
    assert (view.get("a"), view.get("b"), view.get("c")) == (1, 0, None)
    assert list(view.all()) == [("a", 1), ("b", 0)]
    assert view.approximate_num_entries() == 2
    with pytest.raises(StoreUnavailable, match="is a join-buffer"):
        view_of(Store("s", StoreKind.JOIN_BUFFER), lambda: parts)


# ---- texts of queries


def test_texts_become_keys_and_values_become_json() -> None:
    """If this fails, a query looks for another key, or its answer is no JSON."""
    assert [value_of_text(serde, "7") for serde in ("LONG", "DOUBLE", "JSON", "STRING", "BYTES")] == [
        7,
        7.0,
        7,
        "7",
        b"7",
    ]
    with pytest.raises(ValueError, match="invalid literal"):
        value_of_text("LONG", "x")
    assert plain({"a": (1, b"x", b"\xff"), 2: None}) == {"a": [1, "x", {"base64": "/w=="}], "2": None}


def test_times_are_ms_or_dates() -> None:
    """If this fails, a query asks for other times than it says."""
    assert time_ms("1700000000000", "from") == 1_700_000_000_000
    assert time_ms("2026-11-30T12:00:00Z", "from") == time_ms("2026-11-30T13:00:00+01:00", "from")
    assert time_ms("2026-11-30T12:00:00", "from") == time_ms("2026-11-30T12:00:00Z", "from")
    with pytest.raises(BadQuery, match="to is 'now'"):
        time_ms("now", "to")


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (200, b'{"other": 1}', "does not answer as an instance"),
        (200, b"[]", "does not answer as an instance"),
        (200, b"<html>", "does not answer as an instance"),
        (503, b'{"message": "the store moves"}', "the store moves"),
        (404, b"no page", "no page"),
    ],
)
def test_other_programs_are_named(status: int, body: bytes, reason: str) -> None:
    """If this fails, a command ends with a traceback, or hides the reason of an instance."""

    async def answer(request: PageRequest) -> PageAnswer:
        return PageAnswer(status, JSON, body)

    async def job() -> None:
        async with PageServer(Address("127.0.0.1", 0), answer, setting="test") as server:
            place = parse_address(server.url.removeprefix("http://"))
            for ask in (ask_rows, ask_json if status != 200 else ask_rows):
                with pytest.raises(ClientError, match=reason):
                    await ask(place, "/stores/s", 10.0)

    asyncio.run(job())
