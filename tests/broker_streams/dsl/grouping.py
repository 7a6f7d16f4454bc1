"""Grouped streams without a builder, and the topologies that come out."""

from __future__ import annotations

from typing import Any

from broker_streams.dsl.graph import Graph
from broker_streams.dsl.grouped import KGroupedStream
from broker_streams.dsl.nodes import SourceNode
from broker_streams.plan.steps import Step
from broker_streams.plan.topology import ProcessorNode, Source, Topology, TopologyBuilder
from broker_streams.serdes.primitives import LONG, STRING


def group(
    graph: Graph,
    topic: str = "in",
    needs_repartition: bool = False,
    topic_name: str | None = None,
    key: Any = STRING,
    value: Any = LONG,
) -> KGroupedStream:
    """A stream of `topic`, grouped by its key."""
    name = graph.new_name("KSTREAM-SOURCE-")
    node = SourceNode(Source(name, (topic,)))
    graph.add(node)
    return KGroupedStream(graph, node, name, key, value, (name,), needs_repartition, topic_name)


def topology(graph: Graph) -> Topology:
    builder = TopologyBuilder()
    graph.write(builder)
    return builder.build()


def names(graph: Graph) -> list[str]:
    """The nodes in their order, without the zeros of generated names."""
    return [short(node.name) for node in topology(graph).nodes]


def short(name: str) -> str:
    return name.replace("-00000000", "-")


def step(graph: Graph, name: str) -> Step:
    node = topology(graph).node(name)
    assert isinstance(node, ProcessorNode)
    return node.step
