"""The graph of the DSL: names, and the order in which nodes are written."""

from __future__ import annotations

import pytest

from broker_streams.dsl.graph import Graph, StepNode, all_below, find_above
from broker_streams.plan.steps.stateless import PassThrough
from broker_streams.plan.topology import TopologyError


def node(name: str) -> StepNode:
    return StepNode(name, PassThrough())


def test_names_count_all_calls() -> None:
    """If this fails, processors, stores and topics of an application have other names than in Kafka Streams."""
    graph = Graph()
    assert graph.new_name("KSTREAM-SOURCE-") == "KSTREAM-SOURCE-0000000000"
    assert graph.new_store_name("KSTREAM-AGGREGATE-") == "KSTREAM-AGGREGATE-STATE-STORE-0000000001"


def test_a_node_is_written_after_all_of_its_parents() -> None:
    """If this fails, a merge of two streams is added to the topology before one of them."""
    graph = Graph()
    one, other, merged, below = node("one"), node("other"), node("merged"), node("below")
    graph.add(one)
    graph.add(merged, one)
    graph.add(below, merged)
    graph.add(other)
    graph.add(merged, other)
    assert [each.name for each in graph.in_build_order()] == ["one", "other", "merged", "below"]
    assert find_above(below, lambda each: each is other) is other
    assert find_above(other, lambda each: each is one) is None
    assert set(all_below(graph.root)) == {one, other, merged, below}


def test_a_name_of_the_user_counts_as_a_call() -> None:
    """If this fails, naming one operation renames the stores and topics of all operations after it."""
    graph = Graph()
    assert graph.named(None, "KTABLE-MERGE-") == "KTABLE-MERGE-0000000000"
    assert graph.named("orders", "KTABLE-MERGE-") == "orders"
    assert graph.named("orders", "KTABLE-JOINTHIS-", "-join-this") == "orders-join-this"
    assert graph.named(None, "KTABLE-JOINTHIS-", "-join-this") == "KTABLE-JOINTHIS-0000000003"


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "a/b", "a" * 250])
def test_a_name_that_no_topic_can_have_is_refused(name: str) -> None:
    """If this fails, the error comes from the cluster when the application starts."""
    with pytest.raises(TopologyError):
        Graph().named(name, "KTABLE-FILTER-")
    with pytest.raises(TopologyError, match="at most 249"):
        Graph().named("a" * 245, "KTABLE-JOINTHIS-", "-join-this")
