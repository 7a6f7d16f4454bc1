"""The lineage of a topology: shapes of keys and values from the source topics along its nodes to the sinks.

A user's function is run with traced values (paths.py), unless it has a declared lineage. So an application's functions
are called, without records: those of `peek`, `foreach` and `print`, and processors, are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from broker_streams.plan import value_getters as getters
from broker_streams.plan.functions import Function
from broker_streams.plan.lineage.columns import (
    KEY,
    RECORDS,
    TIMESTAMP,
    VALUE,
    Column,
    Lineage,
    Opaque,
    Output,
    OutputColumn,
    Use,
    in_order,
)
from broker_streams.plan.lineage.declared import declaration_of, declared_shapes
from broker_streams.plan.lineage.paths import Found, Split, trace, whole
from broker_streams.plan.lineage.shapes import NOTHING, Origins, Shape, deciding, of_column, united
from broker_streams.plan.steps import Step
from broker_streams.plan.steps.foreign_key_join import ForeignTableJoin
from broker_streams.plan.topology import Node, ProcessorNode, Sink, Source, Topology

ROUNDS_MAX: Final = 10
"""Rounds in which an aggregate may get new columns from itself. More need a record that nests itself."""


@dataclass(frozen=True, slots=True)
class Flow:
    """The records that a node passes on. `time` and `records` stand for their timestamps and their existence."""

    key: Shape = NOTHING
    value: Shape = NOTHING
    time: Shape = NOTHING
    records: Shape = NOTHING
    decided_by: Origins = frozenset()

    def decided(self, *more: Origins) -> Flow:
        """The same records, about which more columns decide."""
        return Flow(self.key, self.value, self.time, self.records, self.decided_by.union(*more))

    def made(self, key: Shape, value: Shape) -> Flow:
        """Records that are made of these."""
        return Flow(key, value, self.time, self.records, self.decided_by)

    def made_key(self, key: Shape) -> Flow:
        return self.made(key, self.value)

    def also_of(self, other: Flow) -> Flow:
        """The same records, about which everything decides that decides about the others."""
        return Flow(
            self.key,
            self.value,
            united((self.time, other.time)),
            united((self.records, other.records)),
            self.decided_by | other.decided_by,
        )


EMPTY: Final = Flow()
Rule = Callable[["Walk", Any, ProcessorNode, Flow], Flow]
"""The records below a step: (walk, step, node, records of its parents)."""
_RULES: Final[dict[type[Step], Rule]] = {}


def rule(*steps: type[Step]) -> Callable[[Rule], Rule]:
    """Decorate the rule of kinds of steps."""

    def register(made: Rule) -> Rule:
        _RULES.update(dict.fromkeys(steps, made))
        return made

    return register


def lineage_of(topology: Topology) -> Lineage:
    """Return the lineage of all topics that the topology writes, without its internal ones. Raises LineageError: a
    declared lineage does not fit its function.
    """
    from broker_streams.plan.lineage import of_steps

    assert of_steps.__doc__
    walk = Walk(topology)
    outputs: dict[str, list[Flow]] = {}
    for node in topology.nodes:
        if isinstance(node, Sink) and not (node.topic and topology.is_internal(node.topic)):
            name = node.topic or f"(topics of {node.topic_extractor.text if node.topic_extractor else node.name})"
            outputs.setdefault(name, []).append(walk.flow(node.name))
    return Lineage(tuple(_output(name, merged(flows)) for name, flows in outputs.items()), tuple(walk.opaque.values()))


def _output(topic: str, flow: Flow) -> Output:
    columns: list[OutputColumn] = [*flow.key.columns(topic, KEY), *flow.value.columns(topic, VALUE)]
    return Output(topic, tuple(columns), in_order(flow.decided_by))


def merged(flows: Iterable[Flow]) -> Flow:
    """The records of all flows."""
    found = list(flows)
    return Flow(
        united(each.key for each in found),
        united(each.value for each in found),
        united(each.time for each in found),
        united(each.records for each in found),
        frozenset(each for flow in found for each in flow.decided_by),
    )


class Walk:
    """The flows of all nodes of one topology, each computed once."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._flows: dict[str, Flow] = {}
        self._nodes: dict[str, Node] = {each.name: each for each in topology.nodes}
        # The processor whose rows a store has.
        self._owners: dict[str, list[ProcessorNode]] = {}
        for node in topology.nodes:
            # The other side of a join by a foreign key reads the store.
            if not isinstance(node, ProcessorNode) or isinstance(node.step, ForeignTableJoin):
                continue
            if (store := getattr(node.step, "store", None)) is not None:
                self._owners.setdefault(store, []).append(node)
        self.opaque: dict[str, Opaque] = {}

    def flow(self, name: str) -> Flow:
        """The records that a node passes on; those that a sink gets."""
        if name in self._flows:
            return self._flows[name]
        # A way that leads back to its begin adds nothing.
        self._flows[name] = EMPTY
        node = self._nodes[name]
        if isinstance(node, Source):
            found = self._source(node)
        else:
            found = merged(self.flow(each) for each in node.parents)
            if isinstance(node, ProcessorNode):
                found = _RULES[type(node.step)](self, node.step, node, found)
        self._flows[name] = found
        return found

    def _source(self, node: Source) -> Flow:
        topics = node.topics or (str(node.pattern),)
        return merged(self._topic(each) for each in topics)

    def _topic(self, name: str) -> Flow:
        if self._topology.is_internal(name):
            return merged(
                self.flow(each.name) for each in self._topology.nodes if isinstance(each, Sink) and each.topic == name
            )
        key, value, time, records = (of_column(Column(name, part)) for part in (KEY, VALUE, TIMESTAMP, RECORDS))
        return Flow(key, value, time, records)

    def rows(self, store: str, but: str = "") -> Flow:
        """The rows of a store: of the steps that fill it, and of processors that may. `but` is not asked."""
        owners = self._owners.get(store)
        if owners is not None:
            return merged(self.flow(each.name) for each in owners if each.name != but)
        users = (each for each in self._topology.nodes if isinstance(each, ProcessorNode) and store in each.stores)
        return merged(self.flow(each.name) for each in users if each.name != but)

    def getter(self, getter: getters.ValueGetter, place: str) -> Flow:
        """The rows that a getter reads. `place` is that of the function that they are for."""
        match getter:
            case getters.FilterGetter(parent, predicate, _):
                rows = self.getter(parent, place)
                return rows.decided(self.decision(predicate, {"key": rows.key, "value": rows.value}))
            case getters.MapValuesGetter(parent, mapper, with_key):
                rows = self.getter(parent, place)
                return rows.made(rows.key, self.value(mapper, rows, with_key))
            case getters.TransformValuesGetter(parent, supplier):
                return self.processed(supplier, self.getter(parent, place), ("value",), EMPTY)
            case getters.JoinGetter(_, left, right, joiner):
                return self.joined(joiner, self.getter(left, place), self.getter(right, place))
            case getters.SuppressGetter(parent, _):
                return self.getter(parent, place)
            case _:
                return self.rows(getter.store)

    # ---- functions ----

    def call(
        self,
        function: Function,
        arguments: Mapping[str, Shape],
        parts: Sequence[str] = ("value",),
        split: Split = whole,
    ) -> Found:
        """The results of a function."""
        declared = declaration_of(function.call)
        if declared is not None:
            shapes, conditions = declared_shapes(declared, parts, arguments, function.text)
            return Found(tuple(each.using(conditions) for each in shapes), conditions, "")
        found = trace(function.call, arguments, split, len(parts))
        if found.reason:
            self.opaque.setdefault(function.place, Opaque(function.place, function.text, found.reason))
        return found

    def decision(self, predicate: Function, arguments: Mapping[str, Shape]) -> Origins:
        """The columns by which a predicate decides."""
        found = self.call(predicate, arguments)
        return deciding(found.parts[0].using(found.conditions), Use.FILTER)

    def value(self, mapper: Function, flow: Flow, with_key: bool) -> Shape:
        """The result of mapper(value), or mapper(key, value)."""
        keys = {"key": flow.key} if with_key else {}
        return self.call(mapper, {**keys, "value": flow.value}).parts[0]

    def joined(
        self, joiner: Function, left: Flow, right: Flow, with_key: bool = False, left_key: Shape | None = None
    ) -> Flow:
        """Records of two sides with equal keys. `left_key`: by which the left side looks for rows; None: its key."""
        keys = {"key": left.key} if with_key else {}
        value = self.call(joiner, {**keys, "left": left.value, "right": right.value}).parts[0]
        found = left.also_of(right).made(united((left.key, right.key)), value)
        return found.decided(deciding(left_key or left.key, Use.JOIN), deciding(right.key, Use.JOIN))

    def processed(self, supplier: Function, flow: Flow, parts: Sequence[str], stores: Flow) -> Flow:
        """The results of a processor, which may come from all that it reads unless its lineage is declared."""
        arguments = {"key": flow.key, "value": flow.value}
        key = flow.key
        if (declared := declaration_of(supplier.call)) is not None:
            shapes, conditions = declared_shapes(declared, parts, arguments, supplier.text)
            value = shapes[-1].using(conditions)
            return flow.made(shapes[0].using(conditions) if len(parts) > 1 else key, value)
        self.opaque.setdefault(supplier.place, Opaque(supplier.place, supplier.text, "it is a processor"))
        read = united((flow.key, flow.value, stores.key, stores.value)).derived().opaque()
        return flow.also_of(stores).made(read if len(parts) > 1 else key, read)
