"""KTable: a table of the latest row for each key. All calls are Kafka's; names of nodes are given in Kafka's order.

Options are keyword arguments: `name` of the processor, `materialized` for a store that keeps the rows for queries.
A table without a store computes its rows from its parent when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from broker_streams.dsl.graph import Graph, GraphNode, StepNode
from broker_streams.dsl.nodes import Stream, function
from broker_streams.dsl.table_origins import ComputedOrigin, Origin, TableStepNode, is_versioned
from broker_streams.plan.steps import tables as steps
from broker_streams.plan.stores import Store
from broker_streams.plan.topology import TopologyError
from broker_streams.plan.value_getters import FilterGetter, MapValuesGetter, TransformValuesGetter, ValueGetter
from broker_streams.serdes.names import of as serde_of

if TYPE_CHECKING:
    from broker_streams.dsl.grouped_table import KGroupedTable
    from broker_streams.dsl.kstream import KStream
    from broker_streams.dsl.materialized import Materialized
    from broker_streams.dsl.suppressed import Suppressed


class KTable(Stream):
    """`origin` knows the rows. `queryable_store_name` is the name of a store that users may query, or None."""

    def __init__(
        self,
        graph: Graph,
        node: GraphNode,
        name: str,
        key_serde: Any,
        value_serde: Any,
        sources: Sequence[str],
        origin: Origin,
        queryable_store_name: str | None = None,
    ) -> None:
        super().__init__(graph, node, name, key_serde, value_serde, sources)
        self.origin = origin
        self.queryable_store_name = queryable_store_name
        self._sends_old_values = False

    def enable_old_values(self, force: bool) -> bool:
        """Ask for the previous row of each change. False: that would need a store, which only `force` adds."""
        if not self._sends_old_values:
            self._sends_old_values = self.origin.enable_old_values(force)
        return self._sends_old_values

    def getter(self) -> ValueGetter:
        """How processors downstream read rows. A source gets a store by this call."""
        return self.origin.getter()

    def _store_of(self, materialized: Materialized | None) -> Store | None:
        """A computed table has a store only if users may query it."""
        if materialized is None or materialized.name is None:
            return None
        return materialized.key_value_store()

    def _computed(
        self,
        node: StepNode,
        materialized: Materialized | None,
        store: Store | None,
        value_serde: Any,
        getter: Callable[[ValueGetter], ValueGetter],
    ) -> KTable:
        """The table of a node that computes its rows from those of this table."""
        if materialized is not None:
            node.is_versioned = store is not None and is_versioned(store)
        if store is not None:
            node.stores = (store,)
        self.graph.add(node, self.node)
        key_serde = self.key_serde if materialized is None else materialized.key or self.key_serde
        origin = ComputedOrigin(node, self, store, getter)
        queryable = None if store is None else store.name
        return KTable(self.graph, node, node.name, key_serde, value_serde, self.sources, origin, queryable)

    def filter(
        self,
        predicate: Callable[[Any, Any], Any],
        *,
        name: str | None = None,
        materialized: Materialized | None = None,
    ) -> KTable:
        """Keep rows for which `predicate(key, value)` is true."""
        return self._filtered(predicate, False, name, materialized)

    def filter_not(
        self,
        predicate: Callable[[Any, Any], Any],
        *,
        name: str | None = None,
        materialized: Materialized | None = None,
    ) -> KTable:
        """Keep rows for which `predicate(key, value)` is false."""
        return self._filtered(predicate, True, name, materialized)

    def _filtered(
        self,
        predicate: Callable[[Any, Any], Any],
        negate: bool,
        name: str | None,
        materialized: Materialized | None,
    ) -> KTable:
        prefix = "KTABLE-FILTER-"
        self._skip_store_name(materialized, prefix)
        store = self._store_of(materialized)
        name = self.graph.named(name, prefix)
        call = function(name, "predicate", predicate)
        # With the old row, a deletion of a row that was not there is left out.
        old_values = self.enable_old_values(False)
        node = TableStepNode(name, steps.TableFilter(call, negate, None if store is None else store.name, old_values))
        value_serde = self.value_serde if materialized is None else materialized.value or self.value_serde
        return self._computed(node, materialized, store, value_serde, lambda parent: FilterGetter(parent, call, negate))

    def _skip_store_name(self, materialized: Materialized | None, prefix: str) -> None:
        """A Materialized without a name counts as a call, though no store is made."""
        if materialized is not None and materialized.name is None:
            self.graph.new_store_name(prefix)

    def map_values(
        self,
        mapper: Callable[..., Any],
        *,
        with_key: bool = False,
        name: str | None = None,
        materialized: Materialized | None = None,
    ) -> KTable:
        """Replace each value by `mapper(value)`, or by `mapper(key, value)`."""
        prefix = "KTABLE-MAPVALUES-"
        self._skip_store_name(materialized, prefix)
        store = self._store_of(materialized)
        name = self.graph.named(name, prefix)
        call = function(name, "mapper", mapper)
        node = StepNode(name, steps.TableMapValues(call, with_key, None if store is None else store.name))
        value_serde = None if materialized is None else materialized.value
        return self._computed(
            node, materialized, store, value_serde, lambda parent: MapValuesGetter(parent, call, with_key)
        )

    def transform_values(
        self,
        supplier: Callable[[], Any],
        *stores: str,
        name: str | None = None,
        materialized: Materialized | None = None,
    ) -> KTable:
        """Replace each value by what a transformer returns. `supplier()` makes one for each task, and for each reader
        of rows; it has `init(context)`, `transform(key, value)` and `close()`. `stores` are names of stores that it may
        use. It must not keep rows of its own if the table has no store: its readers would not see them.
        """
        store = self._store_of(materialized)
        name = self.graph.named(name, "KTABLE-TRANSFORMVALUES-")
        call = function(name, "supplier", supplier)
        step = steps.TableTransformValues(call, None if store is None else store.name)
        node = StepNode(name, step, store_names=stores)
        value_serde = None if materialized is None else materialized.value
        return self._computed(
            node, materialized, store, value_serde, lambda parent: TransformValuesGetter(parent, call)
        )

    def to_stream(self, mapper: Callable[[Any, Any], Any] | None = None, *, name: str | None = None) -> KStream:
        """The changes of the table as records; None: the row was deleted. `mapper(key, value)` returns another key."""
        from broker_streams.dsl.kstream import KStream

        node = StepNode(self.graph.named(name, "KTABLE-TOSTREAM-"), steps.TableToStream())
        self.graph.add(node, self.node)
        stream = KStream(self.graph, node, node.name, self.key_serde, self.value_serde, self.sources, False)
        return stream if mapper is None else stream.select_key(mapper)

    def group_by(
        self,
        selector: Callable[[Any, Any], tuple[Any, Any] | None],
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> KGroupedTable:
        """Group rows by the key of the pair that `selector(key, value)` returns, to aggregate its values.

        `name` is that of the repartition topic, too.
        """
        from broker_streams.dsl.grouped_table import KGroupedTable

        node_name = self.graph.named(name, "KTABLE-SELECT-")
        node = TableStepNode(node_name, steps.TableGroup(function(node_name, "selector", selector)))
        self.graph.add(node, self.node)
        self.enable_old_values(True)
        return KGroupedTable(self.graph, node, node_name, serde_of(key), serde_of(value), self.sources, name)

    def suppress(self, suppressed: Suppressed) -> KTable:
        """Hold changes back: until windows close, or for a time."""
        from broker_streams.dsl.suppressed import suppress

        return suppress(self, suppressed)

    def join(
        self,
        other: KTable,
        joiner: Callable[[Any, Any], Any],
        *,
        foreign_key: Callable[..., Any] | None = None,
        with_key: bool = False,
        name: str | None = None,
        materialized: Materialized | None = None,
        partitioner: Callable[[str, Any, Any, int], Any] | None = None,
        other_partitioner: Callable[[str, Any, Any, int], Any] | None = None,
    ) -> KTable:
        """`joiner(left, right)` of rows that both tables have under one key.

        With `foreign_key`, the key of the other table is what `foreign_key(value)` returns for a row of this table, or
        `foreign_key(key, value)` if `with_key`. Both tables talk by topics then: `partitioner` and `other_partitioner`
        choose their partitions by the keys of this table, and of the other one.
        """
        return self._joined(
            "inner", other, joiner, foreign_key, with_key, name, materialized, partitioner, other_partitioner
        )

    def left_join(
        self,
        other: KTable,
        joiner: Callable[[Any, Any], Any],
        *,
        foreign_key: Callable[..., Any] | None = None,
        with_key: bool = False,
        name: str | None = None,
        materialized: Materialized | None = None,
        partitioner: Callable[[str, Any, Any, int], Any] | None = None,
        other_partitioner: Callable[[str, Any, Any, int], Any] | None = None,
    ) -> KTable:
        """As `join`, with `joiner(left, None)` for rows without a partner."""
        return self._joined(
            "left", other, joiner, foreign_key, with_key, name, materialized, partitioner, other_partitioner
        )

    def outer_join(
        self,
        other: KTable,
        joiner: Callable[[Any, Any], Any],
        *,
        name: str | None = None,
        materialized: Materialized | None = None,
    ) -> KTable:
        """As `left_join`, also with `joiner(None, right)`. There is none by a foreign key."""
        return self._joined("outer", other, joiner, None, False, name, materialized, None, None)

    def _joined(
        self,
        kind: str,
        other: KTable,
        joiner: Callable[[Any, Any], Any],
        foreign_key: Callable[..., Any] | None,
        with_key: bool,
        name: str | None,
        materialized: Materialized | None,
        partitioner: Callable[[str, Any, Any, int], Any] | None,
        other_partitioner: Callable[[str, Any, Any, int], Any] | None,
    ) -> KTable:
        """Raises TopologyError: an option of foreign keys is given without one."""
        if foreign_key is None:
            from broker_streams.dsl.table_joins import join_tables

            if with_key or partitioner is not None or other_partitioner is not None:
                raise TopologyError("with_key, partitioner and other_partitioner belong to a join by foreign_key")
            return join_tables(self, other, joiner, kind, name, materialized)
        from broker_streams.dsl.foreign_key_join import Partitioners, join_on_foreign_key

        partitioners = Partitioners(partitioner, other_partitioner)
        return join_on_foreign_key(
            self, other, joiner, foreign_key, with_key, kind == "left", name, materialized, partitioners
        )
