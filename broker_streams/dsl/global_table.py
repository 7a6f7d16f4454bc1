"""GlobalKTable: a table of all rows of a topic, on each instance. Streams are joined with it by any key."""

from __future__ import annotations

from typing import Any, Final

from broker_streams.dsl.graph import Graph
from broker_streams.dsl.materialized import Materialized
from broker_streams.dsl.nodes import GlobalStoreNode
from broker_streams.dsl.topology import extractor_of
from broker_streams.plan.steps.tables import TableSource
from broker_streams.plan.topology import Source, TopologyError
from broker_streams.plan.value_getters import StoreGetter


class GlobalKTable:
    """`getter` reads rows in processors of joins. `queryable_store_name` is that of a store that users may query."""

    def __init__(self, store: str, queryable_store_name: str | None) -> None:
        self.getter: Final = StoreGetter(store)
        self.queryable_store_name: Final = queryable_store_name


def read_global_table(
    graph: Graph,
    topic: str,
    key: Any,
    value: Any,
    name: str | None,
    materialized: Materialized | None,
    timestamp_extractor: Any = None,
) -> GlobalKTable:
    """See StreamsBuilder.global_table. Without a Materialized the store has a generated name, and can be queried.

    Raises TopologyError: a global table has no versions.
    """
    chosen = materialized or Materialized()
    if chosen.history is not None:
        raise TopologyError(f"global table {topic} cannot be versioned; leave the history out")
    key, value = key or chosen.key, value or chosen.value
    made = chosen.completed(graph, f"{topic}-", key, value)
    source_name = graph.named(name, "KSTREAM-SOURCE-", "-source")
    processor_name = graph.named(name, "KTABLE-SOURCE-")
    store = made.key_value_store()
    source = Source(source_name, (topic,), None, key, value, extractor_of(source_name, timestamp_extractor))
    graph.add(GlobalStoreNode(store, source, processor_name, TableSource(store.name)))
    return GlobalKTable(store.name, made.name if materialized is None else chosen.name)
