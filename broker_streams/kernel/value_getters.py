"""Getters of a plan, opened in a processor: `get(key)` is the row of a table as ValueAndTimestamp, or None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_streams.kernel.processor import ProcessorContext
from broker_streams.plan import value_getters as plan
from broker_streams.plan.value_getters import ValueGetter
from broker_streams.records import NO_HEADERS, ValueAndTimestamp

Get = Callable[[Any], ValueAndTimestamp | None]
GetAsOf = Callable[[Any, int], ValueAndTimestamp | None]
# Kafka's timestamp of values whose time is not known.
UNKNOWN_MS = -1


class OpenGetter:
    """`get_as_of(key, timestamp)` is the row at a time; None for tables that are not versioned. `close` is called once
    with the processor.
    """

    __slots__ = ("close", "get", "get_as_of")

    def __init__(self, get: Get, get_as_of: GetAsOf | None = None, close: Callable[[], None] | None = None) -> None:
        self.get = get
        self.get_as_of = get_as_of
        self.close: Callable[[], None] = close or _nothing


def _nothing() -> None:
    """Nothing has to be closed."""


def open_getter(getter: ValueGetter, context: ProcessorContext) -> OpenGetter:
    """Raises LookupError: a store of the getter is not connected to the processor."""
    match getter:
        case plan.StoreGetter(name):
            return _of_store(context.state_store(name))
        case plan.WindowStoreGetter(name):
            fetch = context.state_store(name).fetch
            return OpenGetter(lambda key: fetch(key.key, key.window.start_ms))
        case plan.SessionStoreGetter(name):
            return OpenGetter(_of_sessions(context.state_store(name)))
        case plan.JoinGetter():
            return _of_join(getter, context)
        case plan.FilterGetter(parent, predicate, negate):
            return _computed(open_getter(parent, context), _filtered(predicate.call, negate))
        case plan.MapValuesGetter(parent, mapper, with_key):
            return _computed(open_getter(parent, context), _mapped(mapper.call, with_key))
        case plan.TransformValuesGetter():
            return _of_transformer(getter, context)
        case plan.SuppressGetter(parent, name):
            return _of_buffer(open_getter(parent, context), context.state_store(name))


def _of_store(store: Any) -> OpenGetter:
    as_of = getattr(store, "get_as_of", None)
    if as_of is None:
        return OpenGetter(store.get)

    def row(found: Any) -> ValueAndTimestamp | None:
        return None if found is None else ValueAndTimestamp(found.value, found.timestamp)

    return OpenGetter(lambda key: row(store.get(key)), lambda key, timestamp: row(as_of(key, timestamp)))


def _of_sessions(store: Any) -> Get:
    def get(key: Any) -> ValueAndTimestamp | None:
        start_ms, end_ms = key.window
        value = store.fetch_session(key.key, start_ms, end_ms)
        return None if value is None else ValueAndTimestamp(value, end_ms)

    return get


Compute = Callable[[Any, ValueAndTimestamp | None], ValueAndTimestamp | None]


def _computed(parent: OpenGetter, compute: Compute) -> OpenGetter:
    get, as_of = parent.get, parent.get_as_of
    return OpenGetter(
        lambda key: compute(key, get(key)),
        None if as_of is None else lambda key, timestamp: compute(key, as_of(key, timestamp)),
        parent.close,
    )


def _filtered(predicate: Callable[[Any, Any], Any], negate: bool) -> Compute:
    def compute(key: Any, row: ValueAndTimestamp | None) -> ValueAndTimestamp | None:
        return row if row is not None and bool(predicate(key, row.value)) is not negate else None

    return compute


def _mapped(mapper: Callable[..., Any], with_key: bool) -> Compute:
    def compute(key: Any, row: ValueAndTimestamp | None) -> ValueAndTimestamp | None:
        if row is None:
            return None
        return made(mapper(key, row.value) if with_key else mapper(row.value), row.timestamp)

    return compute


def made(value: Any, timestamp: int) -> ValueAndTimestamp | None:
    """A row; no value: there is no row."""
    return None if value is None else ValueAndTimestamp(value, timestamp)


def _of_transformer(getter: plan.TransformValuesGetter, context: ProcessorContext) -> OpenGetter:
    """The transformer of a getter is another one than that of the processor. It sees no place of an input record."""
    parent = open_getter(getter.parent, context)
    transformer = getter.supplier.call()
    transformer.init(SilentContext(context))
    task = context.task

    def compute(key: Any, row: ValueAndTimestamp | None) -> ValueAndTimestamp | None:
        value, timestamp = (None, UNKNOWN_MS) if row is None else row
        before = task.timestamp, task.headers, task.metadata
        task.timestamp, task.headers, task.metadata = timestamp, NO_HEADERS, None
        try:
            return made(transformer.transform(key, value), timestamp)
        finally:
            task.timestamp, task.headers, task.metadata = before

    computed = _computed(parent, compute)

    def close() -> None:
        parent.close()
        transformer.close()

    return OpenGetter(computed.get, computed.get_as_of, close)


class SilentContext(ProcessorContext):
    """The context of a processor for code that must not pass records on."""

    def __init__(self, context: ProcessorContext) -> None:
        super().__init__(
            context.node,
            context.task,
            {},
            context._stores,
            context._schedule,
            context._request_commit,
        )
        self.forward_all = self.forward

    def forward(self, record: Any, child: str | None = None) -> None:
        """Raises RuntimeError always."""
        raise RuntimeError(f"{self.node} cannot forward records: a transformer of values returns its result")


def _of_join(getter: plan.JoinGetter, context: ProcessorContext) -> OpenGetter:
    left, right = open_getter(getter.left, context), open_getter(getter.right, context)
    get_left, get_right, joiner = left.get, right.get, getter.joiner.call
    needs_left, needs_right = getter.kind != "outer", getter.kind == "inner"

    def get(key: Any) -> ValueAndTimestamp | None:
        one = get_left(key)
        if one is None and needs_left:
            return None
        other = get_right(key)
        if other is None:
            if needs_right or one is None:
                return None
            return made(joiner(one.value, None), one.timestamp)
        if one is None:
            return made(joiner(None, other.value), other.timestamp)
        return made(joiner(one.value, other.value), max(one.timestamp, other.timestamp))

    def close() -> None:
        left.close()
        right.close()

    # A join of versioned tables is not versioned (KIP-914).
    return OpenGetter(get, None, close)


def _of_buffer(parent: OpenGetter, buffer: Any) -> OpenGetter:
    get_parent = parent.get

    def get(key: Any) -> ValueAndTimestamp | None:
        is_buffered, value = buffer.prior_value_for_buffered(key)
        # The buffer does not know the time of the row before.
        return made(value, UNKNOWN_MS) if is_buffered else get_parent(key)

    return OpenGetter(get, None, parent.close)
