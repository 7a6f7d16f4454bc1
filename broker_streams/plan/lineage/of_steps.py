"""The records below each kind of step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from broker_streams.plan.functions import Function
from broker_streams.plan.lineage.columns import Use
from broker_streams.plan.lineage.of_plan import EMPTY, ROUNDS_MAX, Flow, Walk, merged, rule
from broker_streams.plan.lineage.shapes import Shape, deciding, united
from broker_streams.plan.steps import (
    aggregates,
    foreign_key_join,
    joins,
    processor_api,
    stateless,
    suppression,
    table_joins,
    tables,
    windows,
)
from broker_streams.plan.topology import ProcessorNode


def _pair(result: Any) -> Iterator[tuple[Any, ...]]:
    key, value = result
    yield key, value


def _pairs(result: Any) -> Iterator[tuple[Any, ...]]:
    for each in result:
        yield from _pair(each)


def _each(result: Any) -> Iterator[tuple[Any, ...]]:
    for each in result:
        yield (each,)


@rule(
    stateless.PassThrough,
    stateless.FilterNullKey,
    stateless.Peek,
    stateless.Print,
    joins.JoinWindow,
    suppression.Suppress,
    table_joins.TableJoinMerge,
    tables.TableSource,
    tables.TableToStream,
)
def _same(walk: Walk, step: Any, node: ProcessorNode, flow: Flow) -> Flow:
    return flow


@rule(stateless.Filter, tables.TableFilter)
def _filter(walk: Walk, step: stateless.Filter | tables.TableFilter, node: ProcessorNode, flow: Flow) -> Flow:
    return flow.decided(walk.decision(step.predicate, {"key": flow.key, "value": flow.value}))


@rule(stateless.Branch)
def _branch(walk: Walk, step: stateless.Branch, node: ProcessorNode, flow: Flow) -> Flow:
    """A record comes to a branch because earlier predicates are false: all of them decide about all branches."""
    arguments = {"key": flow.key, "value": flow.value}
    return flow.decided(*(walk.decision(predicate, arguments) for predicate, _ in step.children))


@rule(stateless.Map, tables.TableGroup)
def _map(walk: Walk, step: stateless.Map | tables.TableGroup, node: ProcessorNode, flow: Flow) -> Flow:
    function = step.mapper if isinstance(step, stateless.Map) else step.selector
    found = walk.call(function, {"key": flow.key, "value": flow.value}, ("key", "value"), _pair)
    return flow.made(*found.parts)


@rule(stateless.FlatMap)
def _flat_map(walk: Walk, step: stateless.FlatMap, node: ProcessorNode, flow: Flow) -> Flow:
    found = walk.call(step.mapper, {"key": flow.key, "value": flow.value}, ("key", "value"), _pairs)
    # Comparisons decide how many records there are.
    return flow.made(*found.parts).decided(deciding(Shape(found.conditions), Use.FILTER))


@rule(stateless.MapValues, tables.TableMapValues)
def _map_values(walk: Walk, step: stateless.MapValues | tables.TableMapValues, node: ProcessorNode, flow: Flow) -> Flow:
    return flow.made(flow.key, walk.value(step.mapper, flow, step.with_key))


@rule(stateless.FlatMapValues)
def _flat_map_values(walk: Walk, step: stateless.FlatMapValues, node: ProcessorNode, flow: Flow) -> Flow:
    keys = {"key": flow.key} if step.with_key else {}
    found = walk.call(step.mapper, {**keys, "value": flow.value}, ("value",), _each)
    return flow.made(flow.key, found.parts[0]).decided(deciding(Shape(found.conditions), Use.FILTER))


@rule(stateless.SelectKey)
def _select_key(walk: Walk, step: stateless.SelectKey, node: ProcessorNode, flow: Flow) -> Flow:
    found = walk.call(step.mapper, {"key": flow.key, "value": flow.value}, ("key",))
    return flow.made(found.parts[0], flow.value)


# ---- aggregations ----


@rule(aggregates.Aggregate)
def _aggregate(walk: Walk, step: aggregates.Aggregate, node: ProcessorNode, flow: Flow) -> Flow:
    return flow.made(flow.key, _folded(walk, step.fold, flow)).decided(deciding(flow.key, Use.GROUP_BY))


@rule(windows.WindowAggregate, windows.SlidingAggregate, windows.SessionAggregate)
def _windowed(walk: Walk, step: windows.WindowedFold, node: ProcessorNode, flow: Flow) -> Flow:
    key = Shape(fields={"key": flow.key, "window": flow.time.derived()})
    found = flow.made(key, _folded(walk, step.fold, flow))
    return found.decided(deciding(flow.key, Use.GROUP_BY), deciding(flow.time, Use.WINDOW))


def _folded(walk: Walk, fold: aggregates.AnyFold, flow: Flow) -> Shape:
    match fold:
        case aggregates.Count():
            return _counted(flow)
        case aggregates.Reduce(reducer):
            return _reduced(walk, (reducer,), flow)
        case aggregates.Fold(initializer, aggregator, merger):
            found = _added(walk, initializer, (aggregator,), flow)
            if merger is None:
                return found
            sessions = {"key": flow.key, "one": found, "other": found}
            return united((found, walk.call(merger, sessions).parts[0].aggregated()))


def _counted(flow: Flow) -> Shape:
    return flow.records.derived(Use.AGGREGATION)


def _reduced(walk: Walk, reducers: tuple[Function, ...], flow: Flow) -> Shape:
    def reduce(reducer: Function, aggregate: Shape) -> Shape:
        return walk.call(reducer, {"aggregate": aggregate, "value": flow.value}).parts[0]

    return _fixed(flow.value, reducers, reduce)


def _added(walk: Walk, initializer: Function, adders: tuple[Function, ...], flow: Flow) -> Shape:
    def add(adder: Function, aggregate: Shape) -> Shape:
        return walk.call(adder, {"key": flow.key, "value": flow.value, "aggregate": aggregate}).parts[0]

    return _fixed(walk.call(initializer, {}).parts[0], adders, add)


def _fixed(first: Shape, functions: tuple[Function, ...], call: Callable[[Function, Shape], Shape]) -> Shape:
    """The aggregate after any number of records."""
    aggregate = first
    for _ in range(ROUNDS_MAX):
        found = united([aggregate, *(call(each, aggregate).aggregated() for each in functions)])
        if found == aggregate:
            return aggregate
        aggregate = found
    return aggregate.opaque()


@rule(tables.TableCount)
def _table_count(walk: Walk, step: tables.TableCount, node: ProcessorNode, flow: Flow) -> Flow:
    return flow.made(flow.key, _counted(flow)).decided(deciding(flow.key, Use.GROUP_BY))


@rule(tables.TableReduce)
def _table_reduce(walk: Walk, step: tables.TableReduce, node: ProcessorNode, flow: Flow) -> Flow:
    value = _reduced(walk, (step.adder, step.subtractor), flow)
    return flow.made(flow.key, value).decided(deciding(flow.key, Use.GROUP_BY))


@rule(tables.TableAggregate)
def _table_aggregate(walk: Walk, step: tables.TableAggregate, node: ProcessorNode, flow: Flow) -> Flow:
    value = _added(walk, step.initializer, (step.adder, step.subtractor), flow)
    return flow.made(flow.key, value).decided(deciding(flow.key, Use.GROUP_BY))


# ---- joins ----


@rule(joins.StreamStreamJoin)
def _stream_join(walk: Walk, step: joins.StreamStreamJoin, node: ProcessorNode, flow: Flow) -> Flow:
    other = walk.rows(step.other_store)
    left, right = (flow, other) if step.is_left else (other, flow)
    times = (deciding(left.time, Use.JOIN), deciding(right.time, Use.JOIN))
    return walk.joined(step.joiner, left, right, step.with_key).decided(*times)


@rule(joins.SelfJoin)
def _self_join(walk: Walk, step: joins.SelfJoin, node: ProcessorNode, flow: Flow) -> Flow:
    return walk.joined(step.joiner, flow, flow, step.with_key).decided(deciding(flow.time, Use.JOIN))


@rule(joins.StreamTableJoin)
def _stream_table_join(walk: Walk, step: joins.StreamTableJoin, node: ProcessorNode, flow: Flow) -> Flow:
    table = walk.getter(step.table, step.joiner.place)
    selected = flow.key
    if step.key_selector is not None:
        selected = walk.call(step.key_selector, {"key": flow.key, "value": flow.value}, ("key",)).parts[0]
    return walk.joined(step.joiner, flow, table, step.with_key, selected).made_key(flow.key)


@rule(table_joins.TableJoinSide)
def _table_join(walk: Walk, step: table_joins.TableJoinSide, node: ProcessorNode, flow: Flow) -> Flow:
    other = walk.getter(step.other, step.joiner.place)
    return walk.joined(step.joiner, *((other, flow) if step.is_right else (flow, other)))


# Within a join by a foreign key, the value of a subscription is the key of the left row.


@rule(foreign_key_join.SubscriptionSend)
def _subscribe(walk: Walk, step: foreign_key_join.SubscriptionSend, node: ProcessorNode, flow: Flow) -> Flow:
    keys = {"key": flow.key} if step.with_key else {}
    foreign = walk.call(step.foreign_key, {**keys, "value": flow.value}, ("key",)).parts[0]
    return flow.made(foreign, flow.key).decided(deciding(foreign, Use.JOIN))


@rule(foreign_key_join.SubscriptionReceive)
def _subscribed(walk: Walk, step: foreign_key_join.SubscriptionReceive, node: ProcessorNode, flow: Flow) -> Flow:
    return flow


@rule(foreign_key_join.SubscriptionJoin)
def _answer(walk: Walk, step: foreign_key_join.SubscriptionJoin, node: ProcessorNode, flow: Flow) -> Flow:
    right = walk.getter(step.right, node.name)
    return flow.also_of(right).made(flow.value, right.value).decided(deciding(right.key, Use.JOIN))


@rule(foreign_key_join.ForeignTableJoin)
def _answer_all(walk: Walk, step: foreign_key_join.ForeignTableJoin, node: ProcessorNode, flow: Flow) -> Flow:
    subscriptions = walk.rows(step.store, node.name)
    return flow.also_of(subscriptions).made(subscriptions.value, flow.value).decided(deciding(flow.key, Use.JOIN))


@rule(foreign_key_join.ResponseJoin)
def _respond(walk: Walk, step: foreign_key_join.ResponseJoin, node: ProcessorNode, flow: Flow) -> Flow:
    left = walk.getter(step.left, step.joiner.place)
    value = walk.call(step.joiner, {"left": left.value, "right": flow.value}).parts[0]
    return flow.also_of(left).made(left.key, value)


# ---- processors of users ----


@rule(processor_api.Process)
def _process(walk: Walk, step: processor_api.Process, node: ProcessorNode, flow: Flow) -> Flow:
    return walk.processed(step.supplier, flow, ("key", "value"), _rows(walk, node))


@rule(processor_api.ProcessValues, tables.TableTransformValues)
def _process_values(
    walk: Walk, step: processor_api.ProcessValues | tables.TableTransformValues, node: ProcessorNode, flow: Flow
) -> Flow:
    return walk.processed(step.supplier, flow, ("value",), _rows(walk, node))


def _rows(walk: Walk, node: ProcessorNode) -> Flow:
    """The rows that other processors put into the stores of this one."""
    own = getattr(node.step, "store", None)
    return merged([EMPTY, *(walk.rows(each, node.name) for each in node.stores if each != own)])
