"""How the rows of a table are known: kept by its node, or computed from its parent.

Calls downstream may need the previous row of each change, or a getter of rows. An origin changes the step of its node
accordingly until the topology is written: a source gets a store only when one of them asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from broker_streams.dsl.graph import GraphNode, StepNode
from broker_streams.plan.steps import Step
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.plan.value_getters import StoreGetter, SuppressGetter, ValueGetter

if TYPE_CHECKING:
    from broker_streams.dsl.ktable import KTable
    from broker_streams.dsl.table_joins import TableJoinNode


def is_versioned(store: Store) -> bool:
    return store.kind is StoreKind.VERSIONED_KEY_VALUE


def with_field(step: Step, field: str, value: Any) -> Step:
    """A copy of a step of any kind that has the field."""
    changes: dict[str, Any] = {field: value}
    return replace(step, **changes)


class TableStepNode(StepNode):
    """A step that works in another way below a versioned table."""

    def read_versions_of(self, parent: GraphNode) -> None:
        self.step = with_field(self.step, "reads_versions", True)


class Origin:
    """The base of all origins."""

    def enable_old_values(self, force: bool) -> bool:
        """Ask for the previous row of each change. False: that would need a store, which only `force` adds."""
        raise NotImplementedError

    def getter(self) -> ValueGetter:
        raise NotImplementedError


class StoreOrigin(Origin):
    """Rows that a node keeps in any case. Its step has a field `send_old_values`."""

    def __init__(self, node: StepNode, getter: ValueGetter) -> None:
        self._node = node
        self._getter = getter

    def enable_old_values(self, force: bool) -> bool:
        self._node.step = with_field(self._node.step, "send_old_values", True)
        return True

    def getter(self) -> ValueGetter:
        return self._getter


class SourceOrigin(Origin):
    """Rows of a TableSource step. It has its store from the beginning only if users may query it."""

    def __init__(self, node: StepNode, store: Store, is_queryable: bool) -> None:
        self._node = node
        self._store = store
        if is_queryable:
            self.materialize()

    def materialize(self) -> None:
        self._node.stores = (self._store,)
        self._node.step = with_field(self._node.step, "store", self._store.name)

    def enable_old_values(self, force: bool) -> bool:
        if not force and not self._node.stores:
            return False
        self.materialize()
        self._node.step = with_field(self._node.step, "send_old_values", True)
        return True

    def getter(self) -> ValueGetter:
        self.materialize()
        return StoreGetter(self._store.name)


class ComputedOrigin(Origin):
    """Rows of a parent, changed by a function of the node; with a store, the node keeps them."""

    def __init__(
        self, node: StepNode, parent: KTable, store: Store | None, computed: Callable[[ValueGetter], ValueGetter]
    ) -> None:
        self._node = node
        self._parent = parent
        self._store = store
        self._computed = computed

    def enable_old_values(self, force: bool) -> bool:
        if self._store is None and not self._parent.enable_old_values(force):
            return False
        self._node.step = with_field(self._node.step, "send_old_values", True)
        return True

    def getter(self) -> ValueGetter:
        return self._computed(self._parent.getter()) if self._store is None else StoreGetter(self._store.name)


class PassThroughOrigin(Origin):
    """Rows of a store that several nodes fill, whose changes meet in a node (cogrouped streams)."""

    def __init__(self, parents: Sequence[Origin], getter: ValueGetter) -> None:
        self._parents = tuple(parents)
        self._getter = getter

    def enable_old_values(self, force: bool) -> bool:
        for each in self._parents:
            each.enable_old_values(force)
        return True

    def getter(self) -> ValueGetter:
        return self._getter


class SuppressOrigin(Origin):
    """Rows of a parent, except for keys whose change is held back in a buffer."""

    def __init__(self, parent: KTable, store: str) -> None:
        self._parent = parent
        self._store = store

    def enable_old_values(self, force: bool) -> bool:
        return self._parent.enable_old_values(force)

    def getter(self) -> ValueGetter:
        return SuppressGetter(self._parent.getter(), self._store)


class JoinOrigin(Origin):
    """Results of a join of two tables, in the store of its node if that has one."""

    def __init__(self, node: TableJoinNode, left: KTable, right: KTable, getter: ValueGetter) -> None:
        self._node = node
        self._left = left
        self._right = right
        self._getter = getter

    def enable_old_values(self, force: bool) -> bool:
        self._left.enable_old_values(True)
        self._right.enable_old_values(True)
        self._node.send_old_values()
        return True

    def getter(self) -> ValueGetter:
        return self._getter
