"""Joins of a stream with a table or a global table. See joins.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker_streams.dsl.join_nodes import StreamTableJoinNode
from broker_streams.dsl.joins import LEFT, repartitioned
from broker_streams.dsl.nodes import function
from broker_streams.plan.durations import milliseconds
from broker_streams.plan.steps.joins import StreamTableJoin
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.plan.value_getters import stores_of
from broker_streams.serdes.names import of as serde_of

if TYPE_CHECKING:
    from broker_streams.dsl.global_table import GlobalKTable
    from broker_streams.dsl.kstream import KStream
    from broker_streams.dsl.ktable import KTable


def join_table(
    stream: KStream,
    table: KTable,
    joiner: Callable[..., Any],
    *,
    kind: str,
    with_key: bool = False,
    name: str | None = None,
    key: Any = None,
    value: Any = None,
    grace: int | str | None = None,
) -> KStream:
    """`key` and `value` are serdes of the stream's repartition topic. With `grace`, records wait that long for rows of
    their time in a versioned table. Raises TopologyError: the table is not versioned, or keeps too little.
    """
    from broker_streams.dsl.kstream import KStream

    key, value = serde_of(key), serde_of(value)
    if stream.needs_repartition:
        stream = repartitioned(stream, name, key, value)
    sources = stream.copartitioned_with(table)
    key_serde, value_serde = key or stream.key_serde, value or stream.value_serde
    name = stream.graph.named(name, "KSTREAM-LEFTJOIN-" if kind == LEFT else "KSTREAM-JOIN-")
    getter = table.getter()
    stores: tuple[Store, ...] = ()
    if grace is not None:
        grace_ms = milliseconds(grace, "the grace period of a join with a table")
        if grace_ms < 0:
            raise ValueError(f"the grace period of {name} is {grace_ms} ms; at least 0 is allowed")
        buffer = Store(f"{name}-Buffer", StoreKind.JOIN_BUFFER, key_serde, value_serde, options={"grace_ms": grace_ms})
        stores = (buffer,)
    step = StreamTableJoin(
        function(name, "joiner", joiner), getter, kind == LEFT, with_key, buffer=stores[0].name if stores else None
    )
    node = StreamTableJoinNode(name, step, stores, stores_of(getter))
    node.relaxes_null_keys = kind == LEFT
    stream.graph.add(node, stream.node)
    return KStream(stream.graph, node, name, key_serde, None, sources, False)


def join_global_table(
    stream: KStream,
    table: GlobalKTable,
    key_selector: Callable[[Any, Any], Any],
    joiner: Callable[..., Any],
    *,
    kind: str,
    with_key: bool = False,
    name: str | None = None,
) -> KStream:
    """Each record is joined with the row of the key that `key_selector(key, value)` returns."""
    from broker_streams.dsl.kstream import KStream

    # Kafka has this prefix for inner joins too.
    name = stream.graph.named(name, "KSTREAM-LEFTJOIN-")
    step = StreamTableJoin(
        function(name, "joiner", joiner),
        table.getter,
        kind == LEFT,
        with_key,
        function(name, "key_selector", key_selector),
    )
    node = StreamTableJoinNode(name, step)
    node.relaxes_null_keys = kind == LEFT
    stream.graph.add(node, stream.node)
    return KStream(stream.graph, node, name, stream.key_serde, None, stream.sources, stream.needs_repartition)
