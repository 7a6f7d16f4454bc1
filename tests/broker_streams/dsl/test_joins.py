"""Joins of streams as users call them: names, stores, and wrong calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker_streams.dsl.builder import StreamsBuilder
from broker_streams.dsl.kstream import KStream
from broker_streams.plan.codec import from_json, functions_of, to_json
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.plan.topology import ProcessorNode, Topology, TopologyError
from broker_streams.plan.windows import JoinWindows
from broker_streams.serdes.names import of as serde_of
from broker_streams.serdes.primitives import LONG, STRING
from broker_streams.testing.topology_test_driver import TopologyTestDriver

WINDOWS = JoinWindows.of(10).grace(5)


def joined(left: Any, right: Any) -> str:
    return f"{left}+{right}"


def two_streams() -> tuple[StreamsBuilder, KStream, KStream]:
    builder = StreamsBuilder()
    return (
        builder,
        builder.stream("a", key=STRING, value=STRING),
        builder.stream("b", key=STRING, value=STRING),
    )


def plan_of(builder: StreamsBuilder, **config: str) -> Topology:
    return builder.build({name.replace("_", "."): value for name, value in config.items()}).plan


def built_with(builder: StreamsBuilder, call: Callable[..., Any], *arguments: Any, **options: Any) -> Topology:
    """The topology after one more call."""
    call(*arguments, **options)
    return plan_of(builder)


def processors(topology: Topology) -> dict[str, tuple[str, ...]]:
    """Names of processors with their stores."""
    return {each.name: each.stores for each in topology.nodes if isinstance(each, ProcessorNode)}


def test_generated_names_are_those_of_kafka() -> None:
    """If this fails, an application that moves here from Kafka Streams does not find its state."""
    builder, a, b = two_streams()
    a.outer_join(b, joined, WINDOWS)
    this, other = "KSTREAM-OUTERTHIS-0000000004", "KSTREAM-OUTEROTHER-0000000005"
    shared = "KSTREAM-OUTERSHARED-0000000004-store"
    assert processors(plan_of(builder)) == {
        "KSTREAM-WINDOWED-0000000002": (f"{this}-store",),
        "KSTREAM-WINDOWED-0000000003": (f"{other}-store",),
        this: (f"{other}-store", shared),
        other: (f"{this}-store", shared),
        "KSTREAM-MERGE-0000000006": (),
    }
    builder, a, b = two_streams()
    a.left_join(b, joined, WINDOWS)
    assert "KSTREAM-JOINTHIS-0000000004" in processors(plan_of(builder))
    assert "KSTREAM-OUTEROTHER-0000000005" in processors(plan_of(builder))


def test_names_of_the_user_get_a_part_for_each_node_and_store() -> None:
    """If this fails, a named join changes the names of its state or topics when the application changes."""
    builder, a, b = two_streams()
    a.select_key(lambda key, value: value).left_join(
        b.map(lambda key, value: (value, key)), joined, WINDOWS, name="pay", store="kept", key=STRING
    )
    topology = plan_of(builder)
    assert [each.name for each in topology.repartition_topics] == ["pay-left-repartition", "pay-right-repartition"]
    assert processors(topology).keys() >= {
        "pay-this-windowed",
        "pay-other-windowed",
        "pay-this-join",
        "pay-outer-other-join",
        "pay-merge",
    }
    assert [each.name for each in topology.stores] == [
        "kept-this-join-store",
        "kept-outer-other-join-store",
        "kept-left-shared-join-store",
    ]


def test_stores_have_serdes_and_times_of_the_join() -> None:
    """If this fails, a join forgets records too early, keeps one of several equal ones, or compacts its changelog."""
    builder, a, b = two_streams()
    options = {"in_memory": True, "topic_config": {"segment.ms": "7"}}
    a.outer_join(
        b, joined, JoinWindows.of(10).before(20).grace(5), key=STRING, value=LONG, other_value=STRING, **options
    )
    this, other, shared = plan_of(builder).stores
    for store, value in ((this, LONG), (other, STRING)):
        assert (store.kind, store.key_serde, store.value_serde) == (StoreKind.WINDOW, STRING, value)
        assert (store.window_ms, store.retention_ms, store.retain_duplicates) == (30, 35, True)
        assert (store.persistent, store.caching) == (False, False)
        assert store.topic_config == {"segment.ms": "7", "cleanup.policy": "delete"}
    assert (shared.kind, shared.persistent, shared.topic_config) == (StoreKind.JOIN_OUTER, False, {"segment.ms": "7"})
    assert shared.options == {"left_serde": LONG, "right_serde": STRING}


def test_stores_of_the_user_must_fit_the_windows() -> None:
    """If this fails, a store that forgets too early is accepted, and pairs are missing."""
    times = {"window_ms": 20, "retention_ms": 25, "retain_duplicates": True}
    builder, a, b = two_streams()
    this, other = (Store(name, StoreKind.WINDOW, persistent=False, **times) for name in ("one", "two"))  # type: ignore[arg-type]
    a.outer_join(b, joined, WINDOWS, this_store=this, other_store=other, value=LONG)
    topology = plan_of(builder)
    assert [each.name for each in topology.stores] == ["one", "two", "one-outer-shared-join-store"]
    assert topology.store("one").value_serde is LONG
    assert not topology.store("one-outer-shared-join-store").persistent
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"retain_duplicates": False}, "store x must be a window store that keeps duplicates"),
        ({"retention_ms": 24}, "store x has windows of 20 ms and keeps them for 24 ms; the join needs 20 ms and 25 ms"),
        ({"window_ms": 10}, "store x has windows of 10 ms"),
    ]
    for change, text in wrong:
        _, a, b = two_streams()
        with pytest.raises(ValueError, match=text):
            a.join(b, joined, WINDOWS, this_store=Store("x", StoreKind.WINDOW, **(times | change)))
    with pytest.raises(ValueError, match="both stores of a join have the name one"):
        a.join(b, joined, WINDOWS, this_store=this, other_store=this)
    with pytest.raises(ValueError, match="logging=False leaves them out"):
        a.join(b, joined, WINDOWS, logging=False, topic_config={"segment.ms": "7"})


def test_joins_of_one_stream_share_its_repartition_topic() -> None:
    """If this fails, each join of a stream with a new key writes all records to a topic of its own."""
    builder, a, b = two_streams()
    keyed = a.select_key(lambda key, value: value)
    keyed.join(b, joined, WINDOWS)
    keyed.join(b, joined, WINDOWS)
    keyed.join(b, joined, WINDOWS, name="own")
    topology = plan_of(builder)
    assert [each.name for each in topology.repartition_topics] == [
        "KSTREAM-KEY-SELECT-0000000002-repartition",
        "own-left-repartition",
    ]
    shared = "KSTREAM-SOURCE-0000000005"
    assert [set(each) for each in topology.copartitioned] == [
        {shared, "KSTREAM-SOURCE-0000000001"},
        {shared, "KSTREAM-SOURCE-0000000001"},
        {"own-left-repartition-source", "KSTREAM-SOURCE-0000000001"},
    ]


def test_joined_topics_have_equally_many_partitions() -> None:
    """If this fails, records of one key are in different tasks, and their pairs are missing without a word."""
    builder, a, b = two_streams()
    a.repartition(name="x", partitions=2).join(b.repartition(name="y", partitions=3), joined, WINDOWS)
    with pytest.raises(TopologyError, match="equally many partitions: x-repartition has 2, y-repartition has 3"):
        plan_of(builder)
    builder, a, b = two_streams()
    a.repartition(name="x", partitions=2).join(b, joined, WINDOWS)
    assert plan_of(builder).copartitioned == (("x-repartition-source", "KSTREAM-SOURCE-0000000001"),)


def test_wrong_calls_are_refused() -> None:
    """If this fails, a wrong call ends in an error at the first record, or is ignored."""
    _, a, b = two_streams()
    with pytest.raises(TopologyError, match="a join of two streams needs JoinWindows, not None"):
        a.join(b, joined)  # type: ignore[call-overload]
    with pytest.raises(TopologyError, match="is no stream, table or global table"):
        a.join("b", joined, WINDOWS)  # type: ignore[call-overload]
    with pytest.raises(TopologyError, match="is 5, which cannot be called"):
        a.join(b, 5, WINDOWS)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="unexpected keyword argument 'grace'"):
        a.join(b, joined, WINDOWS, grace=5)


def test_a_self_join_has_one_store_if_it_is_optimized() -> None:
    """If this fails, topology.optimization has no effect on self joins, or changes their results."""
    results = []
    for optimization in ("none", "all"):
        builder = StreamsBuilder()
        a = builder.stream("a", key=STRING, value=STRING)
        a.join(a, joined, WINDOWS, key=STRING, value=STRING, other_value=STRING).to("out", value=STRING)
        config = {"topology.optimization": optimization}
        topology = builder.build(config)
        assert len(topology.plan.stores) == (1 if optimization == "all" else 2)
        with TopologyTestDriver(topology, {"application.id": "app", **config}) as driver:
            given = driver.create_input_topic("a", key=STRING, value=STRING)
            out = driver.create_output_topic("out", key=STRING, value=STRING)
            for at, value in ((0, "1"), (5, "2"), (3, "3"), (40, "4")):
                given.pipe_input("k", value, at)
            results.append(out.read_key_values())
    assert results[0] == results[1]
    assert len(results[0]) == 10


def test_a_plan_with_joins_is_read_as_it_was_written() -> None:
    """If this fails, an application with joins does not run on an executor that has read its plan."""
    builder, a, b = two_streams()
    a.outer_join(b, joined, WINDOWS, key=STRING, value=STRING, other_value=LONG)
    plan = plan_of(builder)
    assert from_json(to_json(plan), functions_of(plan), serde_of) == plan


def test_the_changelog_of_a_join_has_headers() -> None:
    """If this fails, a record that Kafka Streams restores from the changelog has lost its headers."""
    builder, a, b = two_streams()
    a.join(b, joined, WINDOWS, key=STRING, value=STRING, other_value=STRING)
    headers = (("trace", b"7"),)
    with TopologyTestDriver(builder.build(), {"application.id": "app"}) as driver:
        driver.create_input_topic("a", key=STRING, value=STRING).pipe_input("k", "v", 1, headers)
        assert [(each[0], each[-1]) for each in driver.produced] == [
            ("app-KSTREAM-JOINTHIS-0000000004-store-changelog", headers)
        ]


def test_an_eager_join_passes_a_record_without_partner_at_once_and_again_with_one() -> None:
    builder, a, b = two_streams()
    a.outer_join(b, joined, WINDOWS, eager=True, key=STRING, value=STRING, other_value=STRING).to("out")
    topology = builder.build()
    assert all(store.kind is StoreKind.WINDOW for store in topology.plan.stores)
    with TopologyTestDriver(topology, {"default.value.serde": STRING}) as driver:
        left, right = (driver.create_input_topic(name, key=STRING, value=STRING) for name in "ab")
        left.pipe_input("k", "1", 0)
        right.pipe_input("k", "2", 5)
        right.pipe_input("other", "3", 6)
        found = driver.create_output_topic("out", key=STRING, value=STRING).read_key_values()
    assert [(each.key, each.value) for each in found] == [("k", "1+None"), ("k", "1+2"), ("other", "None+3")]
