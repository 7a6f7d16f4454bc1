"""KTable: a table of the latest row for each key. All calls are Kafka's; names of nodes are given in Kafka's order.

Options are keyword arguments: `name` of the processor, `materialized` for a store that keeps the rows for queries.
A table without a store computes its rows from its parent when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from broker_streams.dsl.graph import Graph, GraphNode
from broker_streams.dsl.nodes import Stream
from broker_streams.dsl.table_origins import Origin
from broker_streams.plan.functions import Function
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.plan.topology import TopologyError
from broker_streams.plan.value_getters import ValueGetter


def function_of(node: str, field: str, call: Callable[..., Any]) -> Function:
    """A user's function at its place in a plan. Raises TopologyError: it cannot be called."""
    if not callable(call):
        raise TopologyError(f"the {field} of {node} is {call!r}, which cannot be called")
    return Function(f"{node}.{field}", call)


def is_versioned(store: Store) -> bool:
    return store.kind is StoreKind.VERSIONED_KEY_VALUE


class KTable(Stream):
    """`origin` knows the rows. `queryable_store` is the name of a store that users may query, or None."""

    def __init__(
        self,
        graph: Graph,
        node: GraphNode,
        name: str,
        key_serde: Any,
        value_serde: Any,
        sources: Sequence[str],
        origin: Origin,
        queryable_store: str | None = None,
    ) -> None:
        super().__init__(graph, node, name, key_serde, value_serde, sources)
        self.origin = origin
        self.queryable_store = queryable_store
        self._sends_old_values = False

    def enable_old_values(self, force: bool) -> bool:
        """Ask for the previous row of each change. False: that would need a store, which only `force` adds."""
        if not self._sends_old_values:
            self._sends_old_values = self.origin.enable_old_values(force)
        return self._sends_old_values

    def getter(self) -> ValueGetter:
        """How processors downstream read rows. A source gets a store by this call."""
        return self.origin.getter()
