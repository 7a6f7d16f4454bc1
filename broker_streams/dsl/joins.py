"""Joins of a stream with a stream, a table or a global table.

`joiner(left, right)` returns the value of a result, or `joiner(key, left, right)` with `with_key`. A side without a
record is None. Streams whose keys may have changed are repartitioned first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, overload

from broker_streams.dsl.graph import StepNode
from broker_streams.dsl.join_nodes import StreamJoinNode, WindowNode
from broker_streams.dsl.nodes import Stream, function
from broker_streams.plan.steps.joins import JoinWindow, SelfJoin, StreamStreamJoin
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.plan.topology import TopologyError
from broker_streams.plan.windows import JoinWindows
from broker_streams.serdes.names import of as serde_of

if TYPE_CHECKING:
    from broker_streams.dsl.global_table import GlobalKTable
    from broker_streams.dsl.kstream import KStream
    from broker_streams.dsl.ktable import KTable

INNER: Final = "inner"
LEFT: Final = "left"
OUTER: Final = "outer"
# A window keeps whole records, and Kafka writes their headers to its changelog.
LOGS_HEADERS: Final = {"logs_headers": True}


@dataclass(frozen=True)
class StreamJoined:
    """Options of a join of two streams. `key`, `value` and `other_value` are the serdes of the stores; None: the
    default of the application.

    `name` is that of the processors, `store` that of the stores, each with a suffix for its part. `this_store` and
    `other_store` are window stores of the user, which keep duplicates, and have the size and retention of the windows.

    `eager`: a left or outer join passes a record without a partner on at once, and again with each partner that comes
    later, as Kafka does after the deprecated JoinWindows.of. Otherwise such a record waits until its window is over.
    """

    with_key: bool = False
    name: str | None = None
    key: Any = None
    value: Any = None
    other_value: Any = None
    store: str | None = None
    this_store: Store | None = None
    other_store: Store | None = None
    # None: as dsl.store.suppliers.class of the application says.
    in_memory: bool | None = None
    logging: bool = True
    topic_config: Mapping[str, str] = field(default_factory=dict)
    eager: bool = False

    def __post_init__(self) -> None:
        """Raises ValueError: options exclude each other."""
        if self.topic_config and not self.logging:
            raise ValueError("topic_config is for the changelog topics, and logging=False leaves them out")
        one, other = self.this_store, self.other_store
        if one is not None and other is not None and one.name == other.name:
            raise ValueError(f"both stores of a join have the name {one.name}")

    @property
    def persistent(self) -> bool | None:
        return None if self.in_memory is None else not self.in_memory


def repartitioned(stream: KStream, prefix: str | None, key_serde: Any, value_serde: Any) -> KStream:
    """The stream behind a repartition topic, which all of its joins without a name share."""
    from broker_streams.dsl.kstream import KStream
    from broker_streams.dsl.nodes import repartition

    key_serde, value_serde = key_serde or stream.key_serde, value_serde or stream.value_serde
    # The names are counted even if the topic exists already.
    node = repartition(stream.graph, prefix or stream.name, key_serde, value_serde)
    if prefix is None and stream.join_repartition is not None:
        node = stream.join_repartition
    else:
        stream.graph.add(node, stream.node)
        stream.join_repartition = node
    return KStream(stream.graph, node, node.name, key_serde, value_serde, (node.name,), False)


def join_streams(
    left: KStream,
    right: KStream,
    joiner: Callable[..., Any],
    windows: JoinWindows | None = None,
    *,
    kind: str,
    **given: Any,
) -> KStream:
    """Raises TopologyError: the windows are no JoinWindows. ValueError: a store does not fit the windows."""
    from broker_streams.dsl.kstream import KStream

    if not isinstance(windows, JoinWindows):
        raise TopologyError(f"a join of two streams needs JoinWindows, not {windows!r}")
    serdes = {each: serde_of(given.get(each)) for each in ("key", "value", "other_value")}
    options = StreamJoined(**given | serdes)
    name = options.name
    if left.needs_repartition:
        left = repartitioned(left, name and f"{name}-left", options.key, options.value)
    if right.needs_repartition:
        right = repartitioned(right, name and f"{name}-right", options.key, options.other_value)
    sources = left.copartitioned_with(right)
    node = _StreamJoin(left, right, joiner, windows, kind, options).node()
    return KStream(left.graph, node, node.name, options.key, None, sources, False)


class _StreamJoin:
    """The nodes and stores of one join of two streams."""

    def __init__(
        self,
        left: KStream,
        right: KStream,
        joiner: Callable[..., Any],
        windows: JoinWindows,
        kind: str,
        options: StreamJoined,
    ) -> None:
        self._left, self._right = left, right
        self._windows = windows
        self._options = options
        self._is_left, self._is_outer = kind in (LEFT, OUTER), kind == OUTER
        graph, name = left.graph, options.name
        self._window_names = [
            graph.named(name, "KSTREAM-WINDOWED-", suffix) for suffix in ("-this-windowed", "-other-windowed")
        ]
        generated = graph.new_name("KSTREAM-OUTERTHIS-" if self._is_outer else "KSTREAM-JOINTHIS-")
        other_generated = graph.new_name("KSTREAM-OUTEROTHER-" if self._is_left else "KSTREAM-JOINOTHER-")
        suffix = "-outer-this-join" if self._is_outer else "-this-join"
        other_suffix = "-outer-other-join" if self._is_left else "-other-join"
        self._side_names = [generated, other_generated] if name is None else [name + suffix, name + other_suffix]
        self._name = graph.named(name, "KSTREAM-MERGE-", "-merge")
        self._joiner = function(self._name, "joiner", joiner)
        self._stores = (
            self._window_store(options.this_store, options.store and options.store + suffix, generated, options.value),
            self._window_store(
                options.other_store,
                options.store and options.store + other_suffix,
                other_generated,
                options.other_value,
            ),
        )
        # The number of the call is the part of the name that all stores without a name have.
        waits = self._is_left and not options.eager
        self._outer_store = self._shared_store(generated.rpartition("-")[2]) if waits else None

    def _window_store(self, given: Store | None, named: str | None, generated: str, value_serde: Any) -> Store:
        """Raises ValueError: the store of the user does not fit the windows."""
        windows, options = self._windows, self._options
        retention_ms = windows.size_ms + windows.grace_ms
        if given is None:
            return Store(
                f"{named or generated}-store",
                StoreKind.WINDOW,
                options.key,
                value_serde,
                persistent=options.persistent,
                logging=options.logging,
                retention_ms=retention_ms,
                window_ms=windows.size_ms,
                retain_duplicates=True,
                # Each record is a row of its own, so that a compacted topic would keep all of them.
                topic_config={**options.topic_config, "cleanup.policy": "delete"},
                options=LOGS_HEADERS,
            )
        if given.kind is not StoreKind.WINDOW or not given.retain_duplicates:
            raise ValueError(f"store {given.name} must be a window store that keeps duplicates, to join streams")
        if (given.retention_ms, given.window_ms) != (retention_ms, windows.size_ms):
            raise ValueError(
                f"store {given.name} has windows of {given.window_ms} ms and keeps them for {given.retention_ms} ms; "
                f"the join needs {windows.size_ms} ms and {retention_ms} ms"
            )
        return replace(given, key_serde=options.key, value_serde=value_serde, options=LOGS_HEADERS)

    def _shared_store(self, number: str) -> Store:
        """The store of records that wait for a partner."""
        options = self._options
        given = options.this_store
        name = given.name if given is not None else options.store
        suffix = "-outer-shared-join" if self._is_outer else "-left-shared-join"
        return Store(
            f"KSTREAM-OUTERSHARED-{number}-store" if name is None else f"{name}{suffix}-store",
            StoreKind.JOIN_OUTER,
            options.key,
            persistent=given.persistent if given is not None else options.persistent,
            logging=options.logging,
            topic_config=dict(options.topic_config),
            options={"left_serde": options.value, "right_serde": options.other_value},
        )

    def node(self) -> StreamJoinNode:
        """Adds all nodes. Returns the one whose results are those of the join."""
        graph, streams = self._left.graph, (self._left, self._right)
        windows = [
            WindowNode(name, JoinWindow(store.name), [store])
            for name, store in zip(self._window_names, self._stores, strict=True)
        ]
        for window, stream in zip(windows, streams, strict=True):
            graph.add(window, stream.node)
        spans = self._windows
        self_step = SelfJoin(
            self._joiner,
            self._stores[0].name,
            spans.before_ms,
            spans.after_ms,
            spans.size_ms + spans.grace_ms,
            self._options.with_key,
        )
        left, right = self._side(0, self._is_left), self._side(1, self._is_outer)
        node = StreamJoinNode(self._name, left, right, windows[0], windows[1], self_step)
        node.relaxes_null_keys = self._is_left
        graph.add(node, *(each.node for each in streams))
        return node

    def _side(self, side: int, keeps_unmatched: bool) -> StepNode:
        other, outer = self._stores[1 - side], self._outer_store
        step = StreamStreamJoin(
            self._joiner,
            side == 0,
            other.name,
            self._windows.before_ms,
            self._windows.after_ms,
            self._windows.grace_ms,
            keeps_unmatched,
            None if outer is None else outer.name,
            self._options.with_key,
        )
        return StepNode(self._side_names[side], step, [other] if outer is None else [other, outer])


class Joins(Stream):
    """The joins of KStream, which is its only subclass."""

    @overload
    def join(self, other: KStream, joiner: Callable[..., Any], windows: JoinWindows, **options: Any) -> KStream: ...

    @overload
    def join(
        self,
        other: KTable,
        joiner: Callable[..., Any],
        *,
        with_key: bool = False,
        name: str | None = None,
        key: Any = None,
        value: Any = None,
        grace: int | str | None = None,
    ) -> KStream: ...

    @overload
    def join(
        self,
        other: GlobalKTable,
        key_selector: Callable[[Any, Any], Any],
        joiner: Callable[..., Any],
        *,
        with_key: bool = False,
        name: str | None = None,
    ) -> KStream: ...

    def join(self: Any, other: Any, *functions: Any, **options: Any) -> KStream:
        """Results for records of this stream with a partner, in one of three forms:

        with a stream: pairs of records of one key whose times are in the JoinWindows; options are the fields of
        StreamJoined
        with a table: each record with the row of its key; `grace` lets it wait for rows of its time
        with a global table: each record with the row of the key that `key_selector(key, value)` returns
        """
        return _joined(self, other, functions, {"kind": INNER, **options})

    @overload
    def left_join(
        self, other: KStream, joiner: Callable[..., Any], windows: JoinWindows, **options: Any
    ) -> KStream: ...

    @overload
    def left_join(
        self,
        other: KTable,
        joiner: Callable[..., Any],
        *,
        with_key: bool = False,
        name: str | None = None,
        key: Any = None,
        value: Any = None,
        grace: int | str | None = None,
    ) -> KStream: ...

    @overload
    def left_join(
        self,
        other: GlobalKTable,
        key_selector: Callable[[Any, Any], Any],
        joiner: Callable[..., Any],
        *,
        with_key: bool = False,
        name: str | None = None,
    ) -> KStream: ...

    def left_join(self: Any, other: Any, *functions: Any, **options: Any) -> KStream:
        """As `join`, with records of this stream without a partner too: joiner(left, None)."""
        return _joined(self, other, functions, {"kind": LEFT, **options})

    def outer_join(
        self: Any, other: KStream, joiner: Callable[..., Any], windows: JoinWindows, **options: Any
    ) -> KStream:
        """As `join` with a stream, with records of both streams without a partner too: joiner(None, right)."""
        from broker_streams.dsl.kstream import KStream

        if not isinstance(other, KStream):
            raise TopologyError(f"{other!r} is no stream: an outer join of a stream is one with a stream")
        return join_streams(self, other, joiner, windows, kind=OUTER, **options)


def _joined(stream: KStream, other: Any, functions: tuple[Any, ...], options: dict[str, Any]) -> KStream:
    """Raises TopologyError: `other` is nothing that a stream is joined with. TypeError: an argument is missing, or the
    join has no such option.
    """
    from broker_streams.dsl.global_table import GlobalKTable
    from broker_streams.dsl.joins_with_tables import join_global_table, join_table
    from broker_streams.dsl.kstream import KStream
    from broker_streams.dsl.ktable import KTable

    if isinstance(other, KStream):
        return join_streams(stream, other, *functions, **options)
    if isinstance(other, KTable):
        return join_table(stream, other, *functions, **options)
    if isinstance(other, GlobalKTable):
        return join_global_table(stream, other, *functions, **options)
    raise TopologyError(f"{other!r} is no stream, table or global table: a stream is joined with one of them")
