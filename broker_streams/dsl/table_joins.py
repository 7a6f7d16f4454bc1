"""Joins of two tables by their key."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from broker_streams.dsl.graph import GraphNode
from broker_streams.dsl.nodes import function
from broker_streams.dsl.table_origins import JoinOrigin, is_versioned, with_field
from broker_streams.plan.steps import Step
from broker_streams.plan.steps.table_joins import TableJoinMerge, TableJoinSide
from broker_streams.plan.stores import Store
from broker_streams.plan.topology import ProcessorNode, TopologyBuilder, TopologyError
from broker_streams.plan.value_getters import JoinGetter, StoreGetter, ValueGetter, stores_of

if TYPE_CHECKING:
    from broker_streams.dsl.ktable import KTable
    from broker_streams.dsl.materialized import Materialized

MERGE: Final = "KTABLE-MERGE-"


class TableJoinNode(GraphNode):
    """A processor below each table, and the one that merges their results, which has the name of the node.

    `sides` are (name, name of the parent, step, stores) of the left and the right one.
    """

    def __init__(
        self,
        name: str,
        sides: tuple[tuple[str, str, Step, tuple[str, ...]], tuple[str, str, Step, tuple[str, ...]]],
        merge: Step,
        store: Store | None,
    ) -> None:
        super().__init__(name)
        self.sides = sides
        self.merge = merge
        self.store = store

    def _change(self, field: str, parent: str | None = None) -> None:
        """Set a field of both sides, or of those below one parent."""
        left, right = (
            (name, above, with_field(step, field, True) if parent in (None, above) else step, stores)
            for name, above, step, stores in self.sides
        )
        self.sides = left, right

    def send_old_values(self) -> None:
        self._change("send_old_values")
        self.merge = with_field(self.merge, "send_old_values", True)

    def read_versions_of(self, parent: GraphNode) -> None:
        self._change("reads_versions", parent.name)

    def write(self, topology: TopologyBuilder) -> None:
        for name, parent, step, _ in self.sides:
            topology.add_processor(ProcessorNode(name, (parent,), step))
        topology.add_processor(ProcessorNode(self.name, tuple(side[0] for side in self.sides), self.merge))
        if self.store is not None:
            topology.add_store(self.store, (self.name,))
        for name, _, _, stores in self.sides:
            topology.connect(name, *stores)


def join_tables(
    left: KTable,
    right: KTable,
    joiner: Callable[[Any, Any], Any],
    kind: str,
    name: str | None,
    materialized: Materialized | None,
) -> KTable:
    """`kind` is inner, left or outer. See KTable.join."""
    from broker_streams.dsl.ktable import KTable

    if not isinstance(right, KTable):
        raise TopologyError(f"{right!r} is no table: a table is joined with a table")
    graph = left.graph
    made = None if materialized is None else materialized.completed(graph, MERGE, left.key_serde, None)
    merge_name = graph.named(name, MERGE)
    sources = left.copartitioned_with(right)
    if kind != "inner":
        left.enable_old_values(True)
    if kind == "outer":
        right.enable_old_values(True)
    store = None if made is None else made.key_value_store()
    call = function(merge_name, "joiner", joiner)
    left_getter, right_getter = left.getter(), right.getter()
    needs_left, needs_right = kind != "outer", kind == "inner"

    def side(suffix: str, prefix: str, below: KTable, step: Step, other: ValueGetter) -> Any:
        return graph.named(name, prefix, suffix), below.name, step, stores_of(other)

    sides = (
        side(
            "-join-this",
            "KTABLE-JOINTHIS-",
            left,
            TableJoinSide(right_getter, call, needs_left, needs_right, is_right=False),
            right_getter,
        ),
        side(
            "-join-other",
            "KTABLE-JOINOTHER-",
            right,
            TableJoinSide(left_getter, call, needs_right, needs_left, is_right=True),
            left_getter,
        ),
    )
    node = TableJoinNode(merge_name, sides, TableJoinMerge(None if store is None else store.name), store)
    node.is_versioned = store is not None and is_versioned(store)
    graph.add(node, left.node, right.node)
    getter: ValueGetter = (
        JoinGetter(kind, left_getter, right_getter, call) if store is None else StoreGetter(store.name)
    )
    return KTable(
        graph,
        node,
        merge_name,
        left.key_serde if made is None else made.key,
        None if made is None else made.value,
        sources,
        JoinOrigin(node, left, right, getter),
        None if store is None else store.name,
    )
