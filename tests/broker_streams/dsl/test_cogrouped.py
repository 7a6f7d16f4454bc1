"""Cogroups: several grouped streams that fill one table."""

from __future__ import annotations

import pytest

from broker_streams.dsl.graph import Graph
from broker_streams.dsl.materialized import Materialized
from broker_streams.plan.steps.aggregates import Aggregate, Fold
from broker_streams.plan.steps.windows import SlidingAggregate, WindowedFold
from broker_streams.plan.topology import TopologyError
from broker_streams.plan.value_getters import StoreGetter
from broker_streams.plan.windows import SessionWindows, SlidingWindows, TimeWindows
from broker_streams.serdes.primitives import LONG, STRING
from tests.broker_streams.dsl.grouping import group, names, short, step, topology


def test_all_groups_fill_one_store() -> None:
    """If this fails, the aggregate lacks the records of a stream, or names differ from Kafka's."""
    graph = Graph()
    first, second = group(graph, "one"), group(graph, "two")
    cogrouped = first.cogroup(min).cogroup(second, max)
    table = cogrouped.aggregate(int, materialized=Materialized("totals", STRING, LONG))
    assert names(graph)[2:] == ["COGROUPKSTREAM-AGGREGATE-02", "COGROUPKSTREAM-AGGREGATE-03", "COGROUPKSTREAM-MERGE-04"]
    assert [short(each) for each in table.sources] == ["COGROUPKSTREAM-MERGE-04"]
    assert (table.key_serde, table.value_serde, table.getter()) == (STRING, LONG, StoreGetter("totals"))
    steps = [step(graph, f"COGROUPKSTREAM-AGGREGATE-000000000{number}") for number in (2, 3)]
    calls = [each.fold.aggregator.call for each in steps if isinstance(each, Aggregate) and isinstance(each.fold, Fold)]
    assert calls == [min, max]
    # Records of one key must come to one task.
    assert topology(graph).copartitioned == ((*first.sources, *second.sources),)
    assert len(topology(graph).groups()) == 1


def test_named_cogroups_name_all_their_nodes() -> None:
    """If this fails, a name that a user gave is not found in metrics and descriptions."""
    graph = Graph()
    cogrouped = group(graph, "one").cogroup(min).cogroup(group(graph, "two"), max)
    cogrouped.windowed_by(TimeWindows.of(5)).aggregate(int, name="both")
    assert names(graph)[2:] == ["both-cogroup-agg-0", "both-cogroup-agg-1", "both-cogroup-merge"]
    # One name for the store, one for each node.
    assert graph.new_name("N-") == "N-0000000006"


def test_tables_of_one_cogroup_share_their_repartition_topics() -> None:
    """If this fails, each table of a cogroup writes the records of its streams again."""
    graph = Graph()
    cogrouped = group(graph, "one", needs_repartition=True).cogroup(min).cogroup(group(graph, "two"), max)
    cogrouped.aggregate(int, materialized=Materialized("first"))
    cogrouped.windowed_by(SlidingWindows.of(5)).aggregate(int, materialized=Materialized("second"))
    assert [each.name for each in topology(graph).repartition_topics] == ["first-repartition"]
    step_of_second = step(graph, "COGROUPKSTREAM-AGGREGATE-0000000011")
    assert isinstance(step_of_second, SlidingAggregate)
    assert step_of_second.store == "second"


def test_old_values_are_asked_of_all_groups() -> None:
    """If this fails, a table below a cogroup subtracts nothing for records of some streams."""
    graph = Graph()
    table = group(graph, "one").cogroup(min).cogroup(group(graph, "two"), max).aggregate(int, name="both")
    assert table.enable_old_values(force=False)
    steps = [step(graph, f"both-cogroup-agg-{number}") for number in (0, 1)]
    assert [each.send_old_values for each in steps if isinstance(each, Aggregate)] == [True, True]


def test_a_group_that_is_added_again_gets_another_aggregator() -> None:
    """If this fails, records of one stream are aggregated twice."""
    graph = Graph()
    grouped = group(graph)
    grouped.cogroup(min).cogroup(grouped, max).aggregate(int, name="once")
    made = step(graph, "once-cogroup-agg-0")
    assert isinstance(made, Aggregate)
    assert isinstance(made.fold, Fold)
    assert made.fold.aggregator.call is max
    assert names(graph)[1:] == ["once-cogroup-agg-0", "once-cogroup-merge"]


def test_sessions_need_a_merger() -> None:
    """If this fails, sessions that meet end the application."""
    windowed = group(Graph()).cogroup(min).windowed_by(SessionWindows.of(5))
    with pytest.raises(ValueError, match="an aggregation of sessions needs a merger"):
        windowed.aggregate(int)
    with pytest.raises(ValueError, match="a merger is for sessions"):
        group(Graph()).cogroup(min).windowed_by(TimeWindows.of(5)).aggregate(int, max)
    with pytest.raises(TopologyError, match="which cannot be called"):
        group(Graph()).cogroup(5)  # type: ignore[arg-type]
    graph = Graph()
    table = group(graph).cogroup(min).windowed_by(SessionWindows.of(5)).aggregate(int, max, name="sessions")
    made = step(graph, "sessions-cogroup-agg-0")
    assert isinstance(made, WindowedFold)
    assert isinstance(made.fold, Fold)
    assert made.fold.merger is not None
    assert table.name == "sessions-cogroup-merge"
