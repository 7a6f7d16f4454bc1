"""KGroupedTable: rows of a table by another key, to be aggregated.

A row that changes leaves its old group, and comes into its new one: aggregations have an adder and a subtractor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from broker_streams.dsl.graph import Graph, GraphNode, StepNode
from broker_streams.dsl.ktable import KTable
from broker_streams.dsl.materialized import Materialized
from broker_streams.dsl.nodes import SUFFIX, RepartitionNode, Stream, function
from broker_streams.dsl.table_origins import StoreOrigin, is_versioned
from broker_streams.plan.steps import Step
from broker_streams.plan.steps import tables as steps
from broker_streams.plan.topology import InternalTopic
from broker_streams.plan.value_getters import StoreGetter
from broker_streams.serdes.changes import ChangeSerde
from broker_streams.serdes.primitives import LONG

AGGREGATE: Final = "KTABLE-AGGREGATE-"


class KGroupedTable(Stream):
    """`topic_name` is the user's name of the repartition topic, which all aggregations of this group share then;
    without one each has its own, with the name of its store.
    """

    def __init__(
        self,
        graph: Graph,
        node: GraphNode,
        name: str,
        key_serde: Any,
        value_serde: Any,
        sources: Sequence[str],
        topic_name: str | None = None,
    ) -> None:
        super().__init__(graph, node, name, key_serde, value_serde, sources)
        self.topic_name = topic_name
        self._repartition: RepartitionNode | None = None

    def count(self, *, name: str | None = None, materialized: Materialized | None = None) -> KTable:
        """A table of the number of rows of each group."""
        return self._table(AGGREGATE, name, materialized, LONG, lambda node, store: steps.TableCount(store))

    def reduce(
        self,
        adder: Callable[[Any, Any], Any],
        subtractor: Callable[[Any, Any], Any],
        *,
        name: str | None = None,
        materialized: Materialized | None = None,
    ) -> KTable:
        """`adder(aggregate, value)` and `subtractor(aggregate, value)` return the aggregate; the first value of a
        group is one. None: the group is empty.
        """

        def step(node: str, store: str) -> Step:
            functions = function(node, "adder", adder), function(node, "subtractor", subtractor)
            return steps.TableReduce(store, *functions)

        return self._table("KTABLE-REDUCE-", name, materialized, self.value_serde, step)

    def aggregate(
        self,
        initializer: Callable[[], Any],
        adder: Callable[[Any, Any, Any], Any],
        subtractor: Callable[[Any, Any, Any], Any],
        *,
        name: str | None = None,
        materialized: Materialized | None = None,
    ) -> KTable:
        """`adder(key, value, aggregate)` and `subtractor(key, value, aggregate)` return the aggregate, beginning with
        `initializer()`. None: the group is empty.
        """

        def step(node: str, store: str) -> Step:
            return steps.TableAggregate(
                store,
                function(node, "initializer", initializer),
                function(node, "adder", adder),
                function(node, "subtractor", subtractor),
            )

        return self._table(AGGREGATE, name, materialized, None, step)

    def _table(
        self,
        prefix: str,
        name: str | None,
        materialized: Materialized | None,
        value_serde: Any,
        step_of: Callable[[str, str], Step],
    ) -> KTable:
        graph = self.graph
        chosen = materialized or Materialized()
        # The store of a reduction has the prefix of aggregations too.
        made = chosen.completed(graph, AGGREGATE, self.key_serde, value_serde)
        sink = graph.named(name, "KSTREAM-SINK-", "-sink")
        source = graph.named(name, "KSTREAM-SOURCE-", "-source")
        node_name = graph.named(name, prefix)
        store = made.key_value_store()
        if self._repartition is None or self.topic_name is None:
            self._repartition = RepartitionNode(
                InternalTopic((self.topic_name or store.name) + SUFFIX),
                source,
                None,
                sink,
                self.key_serde,
                ChangeSerde(self.value_serde),
                is_optimizable=False,
            )
        graph.add(self._repartition, self.node)
        node = StepNode(node_name, step_of(node_name, store.name), (store,))
        node.is_versioned = is_versioned(store)
        graph.add(node, self._repartition)
        origin = StoreOrigin(node, StoreGetter(store.name))
        sources = (self._repartition.name,)
        return KTable(graph, node, node_name, made.key, made.value, sources, origin, chosen.name)
