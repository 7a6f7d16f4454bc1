"""Joins of streams with tables as users call them: names, stores, and wrong calls."""

from __future__ import annotations

from typing import Any

import pytest

from broker_streams.dsl.builder import StreamsBuilder
from broker_streams.dsl.kstream import KStream
from broker_streams.dsl.ktable import KTable
from broker_streams.dsl.materialized import Materialized
from broker_streams.plan.stores import StoreKind
from broker_streams.plan.topology import ProcessorNode, Source, TopologyError
from broker_streams.plan.windows import JoinWindows
from broker_streams.serdes.primitives import LONG, STRING
from broker_streams.testing.topology_test_driver import TopologyTestDriver

WINDOWS = JoinWindows.of(10).grace(5)


def joined(left: Any, right: Any) -> str:
    return f"{left}+{right}"


def made(table: Materialized | None = None) -> tuple[StreamsBuilder, KStream, KTable]:
    """A stream of topic a, and a table of topic t."""
    builder = StreamsBuilder()
    stream = builder.stream("a", key=STRING, value=STRING)
    return builder, stream, builder.table("t", key=STRING, value=STRING, materialized=table)


def test_a_join_with_a_table_reads_its_store() -> None:
    """If this fails, a join has no access to the table, or the table is not kept at all."""
    builder, a, table = made()
    a.join(table, joined)
    a.left_join(table, joined, name="named")
    nodes = builder.build().plan.nodes
    stores = {each.name: each.stores for each in nodes if isinstance(each, ProcessorNode)}
    assert stores["KSTREAM-JOIN-0000000004"] == stores["named"] == ("t-STATE-STORE-0000000001",)


def test_a_join_with_a_table_repartitions_the_stream() -> None:
    """If this fails, records do not meet the row of their new key, or a topic is written for each join."""
    builder, a, table = made()
    keyed = a.select_key(lambda key, value: value)
    keyed.join(table, joined)
    keyed.left_join(table, joined)
    keyed.join(table, joined, name="own", key=STRING, value=LONG)
    topology = builder.build().plan
    assert [each.name for each in topology.repartition_topics] == [
        "KSTREAM-KEY-SELECT-0000000004-repartition",
        "own-repartition",
    ]
    source = topology.node("own-repartition-source")
    assert isinstance(source, Source)
    assert (source.key_serde, source.value_serde) == (STRING, LONG)
    assert [set(each) for each in topology.copartitioned] == [
        {"KSTREAM-SOURCE-0000000007", "KSTREAM-SOURCE-0000000002"},
        {"KSTREAM-SOURCE-0000000007", "KSTREAM-SOURCE-0000000002"},
        {"own-repartition-source", "KSTREAM-SOURCE-0000000002"},
    ]


def test_a_join_with_grace_needs_a_table_of_that_history() -> None:
    """If this fails, records wait for versions that the table does not keep, and get wrong rows."""
    builder, a, table = made(Materialized("rows", history="10s"))
    a.join(table, joined, grace="10s", value=LONG)
    buffer = builder.build().plan.store("KSTREAM-JOIN-0000000003-Buffer")
    assert (buffer.kind, buffer.options, buffer.value_serde) == (StoreKind.JOIN_BUFFER, {"grace_ms": 10_000}, LONG)
    builder, a, table = made(Materialized("rows", history=10))
    a.join(table, joined, grace=11)
    with pytest.raises(TopologyError, match="is 11 ms, but store rows keeps a history of 10 ms"):
        builder.build()
    builder, a, table = made()
    a.join(table, joined, grace=11)
    with pytest.raises(TopologyError, match="needs a versioned table: see t-STATE-STORE-0000000001"):
        builder.build()
    with pytest.raises(ValueError, match="is -1 ms; at least 0 is allowed"):
        a.join(table, joined, grace=-1)


def test_wrong_calls_are_refused() -> None:
    """If this fails, a wrong call ends in an error at the first record, or is ignored."""
    _, a, table = made()
    with pytest.raises(TopologyError, match="an outer join of a stream is one with a stream"):
        a.outer_join(table, joined, WINDOWS)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unexpected keyword argument 'store'"):
        a.join(table, joined, store="rows")  # type: ignore[call-overload]
    with pytest.raises(TopologyError, match="is 5, which cannot be called"):
        a.join(table, 5)  # type: ignore[call-overload]


def test_joins_run() -> None:
    """If this fails, the parts of a join do not fit together: a stream, a table, and a global table in one topology."""
    builder, a, table = made()
    b, everywhere = builder.stream("b", key=STRING, value=STRING), builder.global_table("g", key=STRING, value=STRING)
    pairs = a.left_join(b, joined, windows=WINDOWS, key=STRING, value=STRING, other_value=STRING)
    found = pairs.join(table, joined, value=STRING)
    found.left_join(everywhere, lambda key, value: value[0], joined).to("out", value=STRING)
    with TopologyTestDriver(builder.build(), {"application.id": "app"}) as driver:
        inputs = {name: driver.create_input_topic(name, key=STRING, value=STRING) for name in "abtg"}
        out = driver.create_output_topic("out", key=STRING, value=STRING)
        inputs["t"].pipe_input("k", "row", 0)
        inputs["g"].pipe_input("x", "global", 0)
        inputs["a"].pipe_input("k", "x1", 1)
        inputs["b"].pipe_input("k", "r", 5)
        inputs["a"].pipe_input("k", "y1", 20)
        assert out.read_key_values() == [("k", "x1+r+row+global")]
        inputs["a"].pipe_input("other", "late", 100)
        assert out.read_key_values() == [("k", "y1+None+row+None")]
