"""Aggregations in windows: their stores, keys and steps."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from broker_streams.dsl.aggregations import AggregateNode
from broker_streams.dsl.builder import StreamsBuilder
from broker_streams.dsl.graph import Graph
from broker_streams.dsl.materialized import Materialized
from broker_streams.plan.codec import from_json, functions_of, to_json
from broker_streams.plan.steps.windows import SessionAggregate, SlidingAggregate, WindowAggregate, WindowedFold
from broker_streams.plan.stores import StoreKind
from broker_streams.plan.value_getters import SessionStoreGetter, WindowStoreGetter
from broker_streams.plan.windows import (
    MAX_MS,
    EmitStrategy,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
)
from broker_streams.records import Window
from broker_streams.serdes.names import by_name
from broker_streams.serdes.primitives import LONG, STRING
from broker_streams.serdes.windowed import SessionWindowedSerde, TimeWindowedSerde
from broker_streams.testing.topology_test_driver import TopologyTestDriver
from tests.broker_streams.dsl.grouping import group, short, step, topology

CLOSE = EmitStrategy.ON_WINDOW_CLOSE
WINDOW, SESSION = StoreKind.TIMESTAMPED_WINDOW, StoreKind.SESSION

# Windows, step, kind of the store, retention, size of a window in the store and in keys, grace period.
KINDS: list[tuple[Any, type[WindowedFold], StoreKind, int, int | None, int]] = [
    (TimeWindows.of(10).advance_by(3).grace(5), WindowAggregate, WINDOW, 15, 10, 5),
    (UnlimitedWindows.of(), WindowAggregate, WINDOW, MAX_MS, MAX_MS, 0),
    # A record of 20 ms before may need a new window at its end.
    (SlidingWindows.of(10).grace(5), SlidingAggregate, WINDOW, 25, 10, 5),
    # A session may get a record as long as its gap is not over.
    (SessionWindows.of(10).grace(5), SessionAggregate, SESSION, 15, None, 15),
]


@pytest.mark.parametrize(("windows", "kind", "store_kind", "retention_ms", "window_ms", "grace_ms"), KINDS)
def test_stores_keep_rows_as_long_as_they_may_change(
    windows: Any,
    kind: type[WindowedFold],
    store_kind: StoreKind,
    retention_ms: int,
    window_ms: int | None,
    grace_ms: int,
) -> None:
    """If this fails, a store forgets the aggregate of a window that is still open."""
    graph = Graph()
    table = group(graph).windowed_by(windows).count(materialized=Materialized("counts"))
    store = topology(graph).store("counts")
    assert (store.kind, store.retention_ms, store.window_ms) == (store_kind, retention_ms, window_ms)
    assert (store.key_serde, store.caching, store.options) == (STRING, True, {})
    made = step(graph, table.name)
    assert isinstance(made, kind)
    assert made.emit is EmitStrategy.ON_WINDOW_UPDATE
    # `suppress` looks for the grace period.
    assert isinstance(table.node, AggregateNode)
    assert table.node.grace_ms == grace_ms
    getter = SessionStoreGetter if store_kind is SESSION else WindowStoreGetter
    assert table.getter() == getter("counts")
    serde = table.key_serde
    if window_ms is None:
        assert isinstance(serde, SessionWindowedSerde)
    else:
        assert isinstance(serde, TimeWindowedSerde)
        assert serde.window_ms == window_ms
    assert serde.inner is STRING
    # Without a serde of the stream, keys are written in the application's default.
    key_serde = group(Graph(), key=None).windowed_by(windows).count().key_serde
    assert type(key_serde) is type(serde)
    assert key_serde.inner is None


@pytest.mark.parametrize(
    ("windows", "options", "caching"),
    [
        (TimeWindows.of(10), {"time_ordered": True}, True),
        (SlidingWindows.of(10), {"time_ordered": True, "indexed": True}, False),
        (SessionWindows.of(10), {"time_ordered": True}, False),
    ],
)
def test_stores_of_final_results_keep_the_order_of_time(windows: Any, options: dict[str, bool], caching: bool) -> None:
    """If this fails, final results come in another order than Kafka's."""
    graph = Graph()
    windowed = group(graph).windowed_by(windows)
    assert windowed.emit_strategy(CLOSE) is windowed
    table = windowed.reduce(max, materialized=Materialized("rows"))
    store = topology(graph).store("rows")
    assert (store.options, store.caching) == (options, caching)
    made = step(graph, table.name)
    assert isinstance(made, WindowedFold)
    assert made.emit is CLOSE


def test_names_follow_the_calls_as_in_kafka() -> None:
    """If this fails, an application does not find its state and topics after an update of this package."""
    graph = Graph()
    grouped = group(graph)
    without_name = Materialized(caching=False)
    # Sliding windows came later, and their count does not skip a name.
    tables = [
        grouped.windowed_by(each).count(materialized=without_name)
        for each in (TimeWindows.of(10), SlidingWindows.of(10), SessionWindows.of(10))
    ]
    assert [short(table.name) for table in tables] == [
        "KSTREAM-AGGREGATE-03",
        "KSTREAM-AGGREGATE-05",
        "KSTREAM-AGGREGATE-08",
    ]
    merged = grouped.windowed_by(SessionWindows.of(5)).aggregate(int, max, max, name="merged")
    made = step(graph, merged.name)
    assert isinstance(made, SessionAggregate)
    assert made.windows == SessionWindows(5)
    assert short(made.store) == "KSTREAM-AGGREGATE-STATE-STORE-09"
    assert grouped.windowed_by(TimeWindows.of(5)).aggregate(int, max).node.is_versioned is False


def test_what_cannot_work_is_refused() -> None:
    """If this fails, a store forgets open windows, or a result that never comes is waited for."""
    grouped = group(Graph())
    with pytest.raises(ValueError, match="unlimited windows never close"):
        grouped.windowed_by(UnlimitedWindows.of()).emit_strategy(CLOSE)
    short_lived = Materialized("s", retention=24)
    text = "the retention of store s is 24 ms; at least 2 * difference 10 + grace 5 = 25 ms is allowed"
    with pytest.raises(ValueError, match=re.escape(text)):
        grouped.windowed_by(SlidingWindows.of(10).grace(5)).count(materialized=short_lived)
    with pytest.raises(TypeError, match="are no windows of an aggregation"):
        grouped.windowed_by(JoinWindows.of(5))  # type: ignore[call-overload]


@pytest.mark.parametrize("windows", [each[0] for each in KINDS])
def test_a_plan_is_read_as_it_was_written(windows: Any) -> None:
    """If this fails, an application that another process runs has other windows."""
    graph = Graph()
    windowed = group(graph).windowed_by(windows)
    if not isinstance(windows, UnlimitedWindows):
        windowed.emit_strategy(CLOSE)
    windowed.reduce(max)
    windowed.count()
    made = topology(graph)
    functions = functions_of(made)
    assert from_json(to_json(made), functions, by_name) == made


def test_orders_of_each_minute_are_counted() -> None:
    """If this fails, the first example of the documentation does not work."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", value=json)
    per_minute = orders.group_by_key().windowed_by(TimeWindows.of("1m").grace("10s")).count()
    per_minute.to_stream().to("orders-per-minute")
    config = {"application.id": "shop", "default.key.serde": "STRING"}
    with TopologyTestDriver(builder.build(), config) as driver:
        given = driver.create_input_topic("orders", value=json)
        counts = driver.create_output_topic("orders-per-minute", key=TimeWindowedSerde(STRING, 60_000), value=LONG)
        for key, time_ms in (("a", 0), ("b", 59_999), ("a", 69_999), ("a", 5), ("b", 70_000), ("b", 59_999)):
            given.pipe_input(key, {"price": 5}, time_ms)
        assert [(*record.key, record.value, record.timestamp) for record in counts.read_records()] == [
            ("a", Window(0, 60_000), 1, 0),
            ("b", Window(0, 60_000), 1, 59_999),
            ("a", Window(60_000, 120_000), 1, 69_999),
            ("a", Window(0, 60_000), 2, 5),
            ("b", Window(60_000, 120_000), 1, 70_000),
        ]
        # The last record came after the grace period.
        assert driver.dropped_records == 1
