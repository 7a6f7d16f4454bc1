"""Passes over graphs: small graphs in, the text of the topology or the changed nodes out."""

from __future__ import annotations

import pytest

from broker_streams.dsl.graph import Graph, GraphNode, StepNode
from broker_streams.dsl.join_nodes import StreamJoinNode, WindowNode
from broker_streams.dsl.nodes import RepartitionNode, SourceNode, TableSourceNode, repartition
from broker_streams.dsl.passes import NAMES, chosen, optimize
from broker_streams.plan.functions import Function
from broker_streams.plan.steps.joins import JoinWindow, SelfJoin, StreamStreamJoin
from broker_streams.plan.steps.stateless import FilterNullKey, PassThrough
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.plan.topology import Source, Topology, TopologyBuilder, TopologyError

ALL = {"topology.optimization": "all"}
JOINER = Function("join.joiner", lambda left, right: (left, right))


def source(graph: Graph, name: str, *topics: str, offset_reset: str | None = None) -> SourceNode:
    node = SourceNode(Source(name, topics, offset_reset=offset_reset))
    graph.add(node)
    return node


def step(graph: Graph, name: str, *parents: GraphNode, changes: str = "") -> StepNode:
    node = StepNode(name, PassThrough())
    node.changes_key = changes == "key"
    node.changes_value = changes == "value"
    node.is_merge = len(parents) > 1
    graph.add(node, *parents)
    return node


def repartitioned(graph: Graph, prefix: str, parent: GraphNode, value_serde: str | None = None) -> RepartitionNode:
    node = repartition(graph, prefix, None, value_serde)
    graph.add(node, parent)
    return node


def join(graph: Graph, left: GraphNode, right: GraphNode) -> StreamJoinNode:
    stores = [Store(name, StoreKind.WINDOW) for name in ("left-store", "right-store")]
    windows = [WindowNode(f"{each.name}-window", JoinWindow(each.name), [each]) for each in stores]
    graph.add(windows[0], left)
    graph.add(windows[1], right)
    sides = [
        StepNode(name, StreamStreamJoin(JOINER, name == "left-side", store.name, 1, 1, 0), [store])
        for name, store in zip(("left-side", "right-side"), reversed(stores), strict=True)
    ]
    self_step = SelfJoin(JOINER, "left-store", 1, 1, 2)
    node = StreamJoinNode("join", sides[0], sides[1], windows[0], windows[1], self_step)
    graph.add(node, left, right)
    return node


def built(graph: Graph) -> Topology:
    topology = TopologyBuilder()
    graph.write(topology)
    return topology.build()


def names(graph: Graph) -> list[str]:
    return [each.name for each in built(graph).nodes]


def test_streams_of_one_topic_share_a_source() -> None:
    """If this fails, an application that reads a topic twice does not start, or joins topics whose numbers of
    partitions were not compared.
    """
    graph = Graph()
    step(graph, "a", source(graph, "one", "topic", "more"))
    step(graph, "b", source(graph, "two", "more", "topic"))
    step(graph, "c", source(graph, "three", "other"))
    graph.copartition(["two", "three"])
    optimize(graph, {})
    topology = built(graph)
    assert [each.name for each in topology.nodes] == ["one", "a", "b", "three", "c"]
    assert topology.copartitioned == (("one", "three"),)


def test_sources_with_some_of_the_topics_are_refused() -> None:
    """If this fails, records of one topic reach a stream twice, or one of two streams not at all."""
    graph = Graph()
    source(graph, "one", "topic", "more")
    source(graph, "two", "topic")
    with pytest.raises(TopologyError, match="one and two both read topic, but not the same topics: topic, more; topic"):
        optimize(graph, {})
    graph = Graph()
    source(graph, "one", "topic", offset_reset="latest")
    source(graph, "two", "topic")
    with pytest.raises(TopologyError, match="topic is read with offset reset latest by one and None by two"):
        optimize(graph, {})


@pytest.mark.parametrize("merges", [False, True])
def test_repartitions_below_one_change_of_the_key_become_one(merges: bool) -> None:
    """If this fails, an optimized application writes its records to several topics, reads wrong ones, or lacks nodes
    behind the topic.
    """
    graph = Graph()
    changer = step(graph, "changer", source(graph, "source", "topic"), changes="key")
    passed = step(graph, "passed", changer)
    first = repartitioned(graph, "first", passed)
    # Both are below one child of the change of the key.
    second = repartitioned(graph, "second", passed, "value serde")
    direct = repartitioned(graph, "direct", changer)
    mapped = step(graph, "mapped", changer, changes="value")
    # Its values are others, so it keeps its topic.
    kept = repartitioned(graph, "kept", mapped)
    for each in (first, second, direct, kept):
        step(graph, f"below-{each.topic.name}", each)
    graph.copartition(["first-repartition-source", "source"])
    optimize(graph, {"topology.optimization": "merge.repartition.topics"} if merges else {})
    topology = built(graph)
    assert [each.name for each in topology.repartition_topics] == (
        ["first-repartition", "kept-repartition"]
        if merges
        else ["first-repartition", "second-repartition", "direct-repartition", "kept-repartition"]
    )
    if merges:
        read = topology.node("first-repartition-source")
        assert isinstance(read, Source)
        assert read.value_serde == "value serde"
        parents = {each.name: each.parents for each in topology.nodes}
        assert parents["first-repartition-filter"] == ("changer",)
        assert parents["passed"] == ("first-repartition-source",)
        assert parents["below-first-repartition"] == parents["below-second-repartition"] == ("passed",)
        assert parents["below-direct-repartition"] == ("first-repartition-source",)
        assert parents["kept-repartition-filter"] == ("mapped",)
        assert topology.copartitioned == (("first-repartition-source", "source"),)


def test_a_merged_stream_is_repartitioned_once() -> None:
    """If this fails, an optimized application with merged streams repartitions each of them, or loses one."""
    graph = Graph()
    ones = [step(graph, f"key-{each}", source(graph, each, each), changes="key") for each in ("a", "b")]
    merge = step(graph, "merge", *ones)
    for each in ("first", "second"):
        step(graph, f"below-{each}", repartitioned(graph, each, merge))
    optimize(graph, ALL)
    topology = built(graph)
    assert [each.name for each in topology.repartition_topics] == ["first-repartition"]
    parents = {each.name: each.parents for each in topology.nodes}
    assert parents["first-repartition-filter"] == ("merge",)
    assert parents["below-first"] == parents["below-second"] == ("first-repartition-source",)
    assert parents["merge"] == ("key-a", "key-b")


@pytest.mark.parametrize(("config", "is_one"), [({}, False), (ALL, True)])
def test_a_stream_that_is_joined_with_itself_is_kept_once(config: dict[str, str], is_one: bool) -> None:
    """If this fails, an optimized self join keeps all records twice, or a usual one loses a side."""
    graph = Graph()
    join(graph, source(graph, "one", "topic"), source(graph, "two", "topic"))
    optimize(graph, config)
    topology = built(graph)
    if is_one:
        assert [each.name for each in topology.nodes] == ["one", "left-store-window", "join"]
        assert [each.name for each in topology.stores] == ["left-store"]
    else:
        windows = ["left-store-window", "right-store-window"]
        assert [each.name for each in topology.nodes] == ["one", *windows, "left-side", "right-side", "join"]
        assert topology.node("join").parents == ("left-side", "right-side")
        assert [each.name for each in topology.stores] == ["left-store", "right-store"]


def test_a_join_of_two_topics_stays() -> None:
    """If this fails, the optimization drops the records of the right stream."""
    graph = Graph()
    join(graph, source(graph, "one", "topic"), source(graph, "two", "other"))
    optimize(graph, ALL)
    assert "right-side" in names(graph)


def test_null_keys_are_dropped_in_front_of_repartitions() -> None:
    """If this fails, records without a key are counted behind a repartition, or a left join lacks those (KIP-962)."""
    graph = Graph()
    changer = step(graph, "changer", source(graph, "source", "topic"), changes="key")
    strict, relaxed = repartitioned(graph, "strict", changer), repartitioned(graph, "relaxed", changer)
    step(graph, "count", strict)
    step(graph, "join", step(graph, "between", relaxed)).relaxes_null_keys = True
    optimize(graph, {})
    assert strict.filter_step == FilterNullKey()
    assert relaxed.filter_step == PassThrough()


def test_only_the_optimization_reuses_topics_of_tables() -> None:
    """If this fails, an application that moves here from Kafka Streams looks for its state in another topic."""
    for config, wanted in (({}, False), ({"topology.optimization": "reuse.ktable.source.topics"}, True)):
        graph = Graph()
        node = TableSourceNode("table", Source("source", ("users",)), PassThrough())
        graph.add(node)
        optimize(graph, config)
        assert node.reuses_topic is wanted


class Reading(StepNode):
    def __init__(self, name: str) -> None:
        super().__init__(name, PassThrough())
        self.versioned_parents: list[str] = []

    def read_versions_of(self, parent: GraphNode) -> None:
        self.versioned_parents.append(parent.name)


def test_versions_reach_nodes_below_a_versioned_table() -> None:
    """If this fails, a join of versioned tables takes late records for the latest ones, or a suppression of them is
    accepted, and keeps back wrong rows.
    """
    graph = Graph()
    versioned, plain = step(graph, "versioned"), step(graph, "plain")
    versioned.is_versioned, plain.is_versioned = True, False
    filtered = step(graph, "filtered", versioned)
    joined, stored, below = Reading("join"), Reading("stored"), Reading("below")
    graph.add(joined, filtered, plain)
    graph.add(stored, filtered)
    stored.is_versioned = False
    graph.add(below, stored)
    optimize(graph, {})
    assert joined.versioned_parents == stored.versioned_parents == ["filtered"]
    assert below.versioned_parents == []
    joined.versions_refused = "no versions here"
    optimize(graph, {})
    stored.versions_refused = "no versions here"
    with pytest.raises(TopologyError, match="no versions here"):
        optimize(graph, {})


def test_names_of_optimizations_are_checked() -> None:
    """If this fails, a misspelled optimization is ignored without a word."""
    assert chosen("none") == frozenset()
    assert chosen("all") == frozenset(NAMES) == chosen(" , ".join(NAMES))
    assert chosen("single.store.self.join") == {"single.store.self.join"}
    for text in ("every", "", "all,none", "none, single.store.self.join"):
        with pytest.raises(ValueError, match=r"topology\.optimization"):
            chosen(text)
