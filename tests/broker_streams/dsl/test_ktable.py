"""Tables in the DSL: their stores, names and joins, on the test driver. The oracle compares them with Kafka Streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker_streams import (
    LONG,
    STRING,
    Materialized,
    Store,
    StreamsBuilder,
    TopologyError,
    TopologyTestDriver,
    ValueAndTimestamp,
)
from broker_streams.plan.codec import from_json, functions_of, to_json
from broker_streams.plan.stores import StoreKind
from broker_streams.serdes.names import by_name

CONFIG = {"application.id": "app", "default.key.serde": "STRING", "default.value.serde": "STRING"}
Pair = tuple[Any, Any]


def results(builder: StreamsBuilder, *inputs: tuple[str, Any, Any], value: Any = STRING) -> list[Pair]:
    """The records that the topology writes to `out` for (topic, key, value)."""
    with TopologyTestDriver(builder.build(), CONFIG) as driver:
        for at, (topic, key, given) in enumerate(inputs):
            driver.create_input_topic(topic).pipe_input(key, given, at)
        return [tuple(each) for each in driver.create_output_topic("out", key=STRING, value=value).read_key_values()]


def stores(builder: StreamsBuilder) -> list[str]:
    return [each.name for each in builder.build().plan.stores]


def test_a_table_has_a_store_only_if_its_rows_are_needed() -> None:
    """If this fails, an application keeps rows that are never read, or a join has none to read."""
    plain, queried, filtered, joined = (StreamsBuilder() for _ in range(4))
    plain.table("in").to_stream().to("out")
    assert stores(plain) == []
    queried.table("in", materialized=Materialized("rows")).to_stream().to("out")
    assert stores(queried) == ["rows"]
    # A filter takes old rows where they are, and asks for no store.
    filtered.table("in").filter(lambda key, value: True).to_stream().to("out")
    assert stores(filtered) == []
    table = joined.table("in").map_values(str.upper)
    table.join(joined.table("other"), lambda left, right: left + right)
    assert stores(joined) == ["in-STATE-STORE-0000000000", "other-STATE-STORE-0000000004"]


def test_a_materialized_without_a_name_counts_as_a_call() -> None:
    """If this fails, later stores and topics have other names than in Kafka Streams."""
    builder = StreamsBuilder()
    table = builder.table("in").filter(lambda key, value: True, materialized=Materialized(value=STRING))
    assert (table.name, table.queryable_store_name) == ("KTABLE-FILTER-0000000004", None)
    assert table.map_values(len, name="lengths").name == "lengths"
    assert table.to_stream().name == "KTABLE-TOSTREAM-0000000006"


def test_rows_move_between_groups() -> None:
    """If this fails, a row counts in a group that it left."""
    builder = StreamsBuilder()
    counts = builder.table("in").group_by(lambda key, value: (value, key)).count(materialized=Materialized("counts"))
    counts.to_stream().to("out", value=LONG)
    found = results(builder, ("in", "a", "x"), ("in", "b", "x"), ("in", "a", "y"), ("in", "b", None), value=LONG)
    assert found == [("x", 1), ("x", 2), ("x", 1), ("y", 1), ("x", 0)]


def test_a_named_group_has_one_repartition_topic() -> None:
    """If this fails, two aggregations of a group write its rows twice."""
    builder = StreamsBuilder()
    group = builder.table("in").group_by(lambda key, value: (value, key), name="by-value")
    group.count()
    group.reduce(lambda one, other: one + other, lambda one, other: one)
    assert [each.name for each in builder.build().plan.repartition_topics] == ["by-value-repartition"]


JOINS: list[tuple[str, list[Pair]]] = [
    ("join", [("k", "l1+r1"), ("k", None)]),
    ("left_join", [("k", "l1+None"), ("k", "l1+r1"), ("k", None)]),
    ("outer_join", [("k", "l1+None"), ("k", "l1+r1"), ("k", "None+r1"), ("m", "None+r2")]),
]


@pytest.mark.parametrize(("call", "expected"), JOINS)
def test_tables_are_joined_by_key(call: str, expected: list[Pair]) -> None:
    """If this fails, a join lacks rows, or has rows of another kind of join."""
    builder = StreamsBuilder()
    joined = getattr(builder.table("left"), call)(builder.table("right"), lambda one, other: f"{one}+{other}")
    joined.to_stream().to("out")
    inputs = (("left", "k", "l1"), ("right", "k", "r1"), ("left", "k", None), ("right", "m", "r2"))
    assert results(builder, *inputs) == expected


@pytest.mark.parametrize("call", ["join", "left_join"])
def test_tables_are_joined_by_a_foreign_key(call: str) -> None:
    """If this fails, orders lose their customers."""
    builder = StreamsBuilder()
    orders, customers = builder.table("orders"), builder.table("customers")
    joined = getattr(orders, call)(
        customers, lambda order, customer: f"{order} of {customer}", foreign_key=lambda order: order[0], name="join"
    )
    joined.to_stream().to("out")
    plan = builder.build().plan
    assert [each.name for each in plan.repartition_topics] == [
        "join-subscription-registration-topic",
        "join-subscription-response-topic",
    ]
    # Both tables talk by topics only, so each side has its tasks.
    assert len(plan.subtopologies()) == 2
    found = results(
        builder, ("customers", "c", "Ann"), ("orders", "1", "c7"), ("orders", "2", "d8"), ("orders", "1", None)
    )
    of_left = [("2", "d8 of None")] if call == "left_join" else []
    assert found == [("1", "c7 of Ann"), *of_left, ("1", None)]


def test_a_table_of_a_stream_keeps_the_latest_record() -> None:
    """If this fails, a stream that becomes a table has rows of other records."""
    builder = StreamsBuilder()
    builder.stream("in").select_key(lambda key, value: value[0]).to_table(materialized=Materialized("rows"))
    assert [each.name for each in builder.build().plan.repartition_topics] == ["KSTREAM-TOTABLE-0000000002-repartition"]
    with TopologyTestDriver(builder.build(), CONFIG) as driver:
        driver.create_input_topic("in").pipe_input("k", "a1", 1)
        driver.create_input_topic("in").pipe_input("k", "a2", 2)
        rows = driver.get_timestamped_key_value_store("rows")
        assert rows is not None
        assert list(rows.all()) == [("a", ValueAndTimestamp("a2", 2))]


def test_a_table_may_be_versioned() -> None:
    """If this fails, a join cannot read a table as it was."""
    builder = StreamsBuilder()
    table = builder.table("in", materialized=Materialized("rows", history="1h"))
    assert table.queryable_store_name == "rows"
    (store,) = builder.build().plan.stores
    assert (store.kind, store.history_ms, store.caching) == (StoreKind.VERSIONED_KEY_VALUE, 3_600_000, False)


def test_a_global_table_has_all_partitions_of_its_topic() -> None:
    """If this fails, each instance has only the rows of its own partitions."""
    builder = StreamsBuilder()
    table = builder.global_table("in")
    assert (table.queryable_store_name, table.getter.store) == ("in-STATE-STORE-0000000000",) * 2
    assert builder.global_table("other", materialized=Materialized(in_memory=True)).queryable_store_name is None
    plan = builder.build().plan
    assert plan.global_stores == ("in-STATE-STORE-0000000000", "other-STATE-STORE-0000000003")
    assert plan.subtopologies() == ()
    with pytest.raises(TopologyError, match="cannot be versioned"):
        builder.global_table("third", materialized=Materialized("rows", history="1h"))


class Transformer:
    def init(self, context: Any) -> None:
        self.counts = context.state_store("counts")

    def transform(self, key: Any, value: Any) -> Any:
        count = (self.counts.get(key) or 0) + 1
        self.counts.put(key, count)
        return f"{value}:{count}"

    def close(self) -> None:
        """Nothing is open."""


def test_a_transformer_uses_stores() -> None:
    """If this fails, values that depend on earlier ones cannot be computed."""
    builder = StreamsBuilder()
    builder.add_state_store(Store("counts", StoreKind.KEY_VALUE, STRING, LONG))
    builder.table("in").transform_values(Transformer, "counts").to_stream().to("out")
    assert results(builder, ("in", "a", "x"), ("in", "a", None)) == [("a", "x:1"), ("a", "None:2")]


WRONG: list[tuple[Callable[[Any, Any], Any], str]] = [
    (lambda table, stream: table.filter(7), "predicate of KTABLE-FILTER-.* is 7"),
    (lambda table, stream: table.map_values(None), "mapper of .* is None"),
    (lambda table, stream: table.join(stream, max), "is no table"),
    (lambda table, stream: table.join(stream, max, foreign_key=len), "is no table"),
    (lambda table, stream: table.join(table, 7), "joiner of .* is 7"),
    (lambda table, stream: table.join(table, max, with_key=True), "belong to a join by foreign_key"),
    (lambda table, stream: table.join(table, max, partitioner=max), "belong to a join by foreign_key"),
    (lambda table, stream: table.filter(max, name="a/b"), "other characters"),
]


@pytest.mark.parametrize(("call", "text"), WRONG)
def test_wrong_calls_are_refused(call: Callable[[Any, Any], Any], text: str) -> None:
    """If this fails, the error comes from inside of a task."""
    builder = StreamsBuilder()
    with pytest.raises(TopologyError, match=text):
        call(builder.table("in"), builder.stream("stream"))


def test_a_partitioner_of_a_foreign_key_join_chooses_one_partition() -> None:
    """If this fails, a subscription goes to two tasks, and its row is joined twice."""
    builder = StreamsBuilder()
    orders, customers = builder.table("orders"), builder.table("customers")
    orders.join(
        customers,
        lambda order, customer: order,
        foreign_key=lambda key, order: key,
        with_key=True,
        name="join",
        partitioner=lambda topic, key, value, partitions: [partitions - 1],
        other_partitioner=lambda topic, key, value, partitions: (0, 1),
    )
    plan = builder.build().plan
    chosen = {each.name: each.partitioner for group in plan.subtopologies() for each in group.sinks}
    answers, questions = chosen["join-subscription-response-sink"], chosen["join-subscription-registration-sink"]
    assert answers is not None
    assert questions is not None
    assert answers.call("topic", "k", "value", 8) == 7
    with pytest.raises(ValueError, match="one partition is allowed"):
        questions.call("topic", "k", "value", 8)


def test_a_plan_of_tables_is_read_as_it_was_written() -> None:
    """If this fails, Spark or a later version cannot run an application with tables."""
    builder = StreamsBuilder()
    left, right = builder.table("left"), builder.table("right", value=LONG)
    joined = left.filter(lambda key, value: True).outer_join(right, lambda one, other: one)
    joined.left_join(right, lambda one, other: one, foreign_key=lambda value: value).to_stream().to("out")
    right.group_by(lambda key, value: (key, value), value=LONG).count()
    right.map_values(str).transform_values(Transformer).join(joined, lambda one, other: one)
    plan = builder.build().plan
    text = to_json(plan)
    assert to_json(from_json(text, functions_of(plan), by_name)) == text
