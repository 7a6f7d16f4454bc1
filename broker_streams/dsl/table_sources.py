"""Tables that are read from topics, or made of streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker_streams.dsl.graph import Graph, GraphNode, StepNode
from broker_streams.dsl.ktable import KTable
from broker_streams.dsl.materialized import Materialized
from broker_streams.dsl.nodes import TableSourceNode
from broker_streams.dsl.table_origins import SourceOrigin, is_versioned
from broker_streams.dsl.topology import extractor_of
from broker_streams.plan.steps.tables import TableSource
from broker_streams.plan.topology import Source

if TYPE_CHECKING:
    from broker_streams.dsl.kstream import KStream


def read_table(
    graph: Graph,
    topic: str,
    key: Any,
    value: Any,
    name: str | None,
    materialized: Materialized | None,
    timestamp_extractor: Any = None,
    offset_reset: str | None = None,
) -> KTable:
    """See StreamsBuilder.table. Serdes of a Materialized are used where none are given."""
    chosen = materialized or Materialized()
    key, value = key or chosen.key, value or chosen.value
    made = chosen.completed(graph, f"{topic}-", key, value)
    source_name = graph.named(name, "KSTREAM-SOURCE-", "-source")
    node_name = graph.named(name, "KTABLE-SOURCE-")
    source = Source(
        source_name, (topic,), None, key, value, extractor_of(source_name, timestamp_extractor), offset_reset
    )
    store = made.key_value_store()
    node = TableSourceNode(node_name, source, TableSource())
    node.is_versioned = is_versioned(store)
    graph.add(node)
    origin = SourceOrigin(node, store, chosen.name is not None)
    return KTable(graph, node, node_name, key, value, (source_name,), origin, chosen.name)


def table_of_stream(stream: KStream, name: str | None, materialized: Materialized | None) -> KTable:
    """See KStream.to_table."""
    graph = stream.graph
    node_name = graph.named(name, "KSTREAM-TOTABLE-")
    chosen = materialized or Materialized(key=stream.key_serde, value=stream.value_serde)
    store = chosen.completed(graph, "KSTREAM-TOTABLE-", None, None).key_value_store()
    key, value = chosen.key or stream.key_serde, chosen.value or stream.value_serde
    parent: GraphNode = stream.node
    sources = stream.sources
    if stream.needs_repartition:
        parent = stream.repartitioned(node_name, key, value)
        sources = (parent.name,)
    node = StepNode(node_name, TableSource())
    node.is_versioned = is_versioned(store)
    graph.add(node, parent)
    origin = SourceOrigin(node, store, chosen.name is not None)
    return KTable(graph, node, node_name, key, value, sources, origin, chosen.name)
