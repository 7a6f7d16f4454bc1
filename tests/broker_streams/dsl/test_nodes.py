"""Nodes of sources and repartition topics: what they add to a topology."""

from __future__ import annotations

import pytest

from broker_streams.dsl.graph import Graph, StepNode
from broker_streams.dsl.nodes import RepartitionNode, SourceNode, TableSourceNode, repartition
from broker_streams.plan.describe import describe
from broker_streams.plan.steps.stateless import PassThrough
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.plan.timestamps import TimestampExtractor
from broker_streams.plan.topology import Sink, Source, Topology, TopologyBuilder, TopologyError


def built(graph: Graph) -> Topology:
    topology = TopologyBuilder()
    graph.write(topology)
    return topology.build()


def repartitioned(prefix: str) -> tuple[Graph, RepartitionNode]:
    graph = Graph()
    source = SourceNode(Source(graph.new_name("KSTREAM-SOURCE-"), ("input",)))
    graph.add(source)
    node = repartition(graph, prefix, "key serde", "value serde", partitions=3)
    graph.add(node, source)
    return graph, node


def test_a_repartition_topic_has_the_names_of_its_call() -> None:
    """If this fails, an application that moves here from Kafka Streams reads other topics, or other nodes' metrics."""
    graph, node = repartitioned("KSTREAM-MAP-0000000007")
    assert node.name == "KSTREAM-SOURCE-0000000003"
    text = describe(built(graph))
    assert "Sink: KSTREAM-SINK-0000000001 (topic: KSTREAM-MAP-0000000007-repartition)" in text
    assert "Processor: KSTREAM-FILTER-0000000002" in text
    graph, node = repartitioned("by-user")
    assert [node.name, node.filter_name, node.sink_name] == [
        f"by-user-repartition-{each}" for each in ("source", "filter", "sink")
    ]
    # The names were counted nevertheless.
    assert graph.new_name("KSTREAM-MAP-") == "KSTREAM-MAP-0000000004"
    # The name of a topic that others merge into stays.
    _, node = repartitioned("KSTREAM-MAP-0000000007-repartition")
    assert node.topic.name == "KSTREAM-MAP-0000000007-repartition"
    assert node.name == "KSTREAM-MAP-0000000007-repartition-source"


def test_a_repartition_topic_keeps_serdes_and_partitions() -> None:
    """If this fails, records change their bytes on the way through a repartition topic, or it has other partitions."""
    graph, node = repartitioned("by-user")
    topology = built(graph)
    sink, source = topology.node(node.sink_name), topology.node(node.name)
    assert isinstance(sink, Sink)
    assert isinstance(source, Source)
    assert (sink.key_serde, sink.value_serde) == (source.key_serde, source.value_serde) == ("key serde", "value serde")
    assert source.timestamp_extractor is TimestampExtractor.FAIL_ON_INVALID
    (topic,) = topology.repartition_topics
    assert (topic.name, topic.partitions) == ("by-user-repartition", 3)


@pytest.mark.parametrize("reuses", [False, True])
def test_a_table_source_may_use_its_topic_as_changelog(reuses: bool) -> None:
    """If this fails, a table is restored from a topic that nothing writes, or its topic gets all records twice."""
    graph = Graph()
    node = TableSourceNode("table", Source("source", ("users",)), PassThrough(), [Store("s", StoreKind.KEY_VALUE)])
    node.reuses_topic = reuses
    graph.add(node)
    topology = built(graph)
    store = topology.store("s")
    assert topology.changelog(store, "app") == ("users" if reuses else "app-s-changelog")
    assert store.logging is not reuses


def test_sources_of_one_topic_agree_on_their_reset() -> None:
    """If this fails, one of two streams of a topic begins at another offset than its call says."""
    one, other = SourceNode(Source("one", ("a",), offset_reset="latest")), SourceNode(Source("other", ("a",)))
    child = StepNode("child", PassThrough())
    other.add_child(child)
    with pytest.raises(TopologyError, match="a is read with offset reset latest by one and None by other"):
        one.merge(other)
    one.source = Source("one", ("a",))
    one.merge(other)
    assert list(one.children) == [child]
    assert not other.children
