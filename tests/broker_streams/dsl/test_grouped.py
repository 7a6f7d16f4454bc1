"""Aggregations of grouped streams: names, stores, steps and repartition topics."""

from __future__ import annotations

import pytest

from broker_streams.dsl.graph import Graph
from broker_streams.dsl.materialized import Materialized
from broker_streams.plan.steps.aggregates import Aggregate, Count, Fold, Reduce
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.plan.topology import TopologyError
from broker_streams.plan.value_getters import StoreGetter
from broker_streams.serdes.primitives import BYTES, LONG, STRING
from tests.broker_streams.dsl.grouping import group, names, short, step, topology


def test_names_follow_the_calls_as_in_kafka() -> None:
    """If this fails, an application does not find its state and topics after an update of this package."""
    graph = Graph()
    grouped = group(graph)
    tables = [
        grouped.count(),
        grouped.count(name="counted", materialized=Materialized("counts")),
        # A Materialized without a name uses up one name more, which is never seen.
        grouped.count(materialized=Materialized(value=LONG)),
        grouped.reduce(max),
        grouped.aggregate(int, lambda key, value, total: total + value, name="total"),
    ]
    assert [short(table.name) for table in tables] == [
        "KSTREAM-AGGREGATE-02",
        "counted",
        "KSTREAM-AGGREGATE-06",
        "KSTREAM-REDUCE-08",
        "total",
    ]
    assert [short(store.name) for store in topology(graph).stores] == [
        "KSTREAM-AGGREGATE-STATE-STORE-01",
        "counts",
        "KSTREAM-AGGREGATE-STATE-STORE-05",
        "KSTREAM-REDUCE-STATE-STORE-07",
        "KSTREAM-AGGREGATE-STATE-STORE-09",
    ]
    # The names of named calls are counted too.
    assert [table.queryable_store_name for table in tables] == [None, "counts", None, None, None]


def test_tables_know_their_serdes_and_rows() -> None:
    """If this fails, a table downstream reads bytes in another format than they were written in."""
    graph = Graph()
    grouped = group(graph, value=BYTES)
    counts = grouped.count(materialized=Materialized("counts"))
    assert (counts.key_serde, counts.value_serde, counts.sources) == (STRING, LONG, grouped.sources)
    assert counts.getter() == StoreGetter("counts")
    reduced = grouped.reduce(max, materialized=Materialized(key=BYTES))
    assert (reduced.key_serde, reduced.value_serde) == (BYTES, BYTES)
    # The aggregates may be anything: the application's default.
    assert grouped.aggregate(int, lambda key, value, total: total).value_serde is None
    kind = StoreKind.TIMESTAMPED_KEY_VALUE
    assert topology(graph).store("counts") == Store("counts", kind, STRING, LONG, None, caching=True)


def test_steps_have_the_functions_of_the_user() -> None:
    """If this fails, a plan that is read again asks for functions at other places."""
    graph = Graph()
    grouped = group(graph)
    grouped.count(name="count")
    grouped.reduce(max, name="reduce")
    table = grouped.aggregate(int, max, name="fold", materialized=Materialized("totals"))
    count, reduce, fold = (step(graph, name) for name in ("count", "reduce", "fold"))
    assert isinstance(count, Aggregate)
    assert count.fold == Count()
    assert isinstance(reduce, Aggregate)
    assert isinstance(reduce.fold, Reduce)
    assert (reduce.fold.reducer.place, reduce.fold.reducer.call) == ("reduce.reducer", max)
    assert isinstance(fold, Aggregate)
    assert isinstance(fold.fold, Fold)
    assert (fold.fold.initializer.place, fold.fold.aggregator.place) == ("fold.initializer", "fold.aggregator")
    assert not fold.send_old_values
    assert table.enable_old_values(force=False)
    fold = step(graph, "fold")
    assert isinstance(fold, Aggregate)
    assert fold.send_old_values


def test_each_aggregation_repartitions_unless_the_topic_has_a_name() -> None:
    """If this fails, an application writes a topic twice, or two aggregations share one that Kafka keeps apart."""
    graph = Graph()
    grouped = group(graph, needs_repartition=True)
    first = grouped.count()
    grouped.count(materialized=Materialized("counts"))
    assert [short(each.name) for each in topology(graph).repartition_topics] == [
        "KSTREAM-AGGREGATE-STATE-STORE-01-repartition",
        "counts-repartition",
    ]
    assert names(graph)[1:5] == ["KSTREAM-FILTER-04", "KSTREAM-SINK-03", "KSTREAM-SOURCE-05", "KSTREAM-AGGREGATE-02"]
    assert [short(each) for each in first.sources] == ["KSTREAM-SOURCE-05"]

    graph = Graph()
    grouped = group(graph, needs_repartition=True, topic_name="grouped")
    tables = [grouped.count(), grouped.count()]
    assert [each.name for each in topology(graph).repartition_topics] == ["grouped-repartition"]
    assert [each.sources for each in tables] == [("grouped-repartition-source",)] * 2
    # The second call counts the names of a topic as well.
    assert short(tables[1].name) == "KSTREAM-AGGREGATE-07"
    assert short(grouped.count().name) == "KSTREAM-AGGREGATE-12"


def test_a_versioned_store_makes_a_versioned_table() -> None:
    """If this fails, joins of the table do not look at the time of a row."""
    graph = Graph()
    table = group(graph).count(materialized=Materialized("counts", history="1h"))
    assert table.node.is_versioned is True
    assert group(graph, "other").count().node.is_versioned is False


def test_wrong_functions_and_names_are_refused() -> None:
    """If this fails, a mistake is found at the first record."""
    graph = Graph()
    with pytest.raises(TopologyError, match="the reducer of KSTREAM-REDUCE-0000000002 is 5, which cannot be called"):
        group(graph).reduce(5)  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="the name 'a b' has other characters"):
        group(graph, "other").count(name="a b")
    with pytest.raises(TopologyError, match="the name 'a/b' has other characters"):
        group(graph, "another", topic_name="a/b")
