"""Answers one part of a store to a query (StoreQueryUtils, and the handlers of Kafka's metered stores).

As in Kafka, the cache answers only queries of keys. After a commit, it has nothing that the rows below lack.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from broker_streams.kernel.errors import StreamsError
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.queries.requests import (
    FailureReason,
    KeyQuery,
    MultiVersionedKeyQuery,
    Position,
    PositionBound,
    Query,
    QueryResult,
    RangeQuery,
    ResultOrder,
    TimestampedKeyQuery,
    TimestampedRangeQuery,
    VersionedKeyQuery,
    WindowKeyQuery,
    WindowRangeQuery,
)
from broker_streams.records import KeyValue, ValueAndTimestamp

MIN_MS: Final = -(1 << 63)
MAX_MS: Final = (1 << 63) - 1
# The call of a part of a store for a query. It returns _UNKNOWN if the store lacks this form of the query.
_Handler = Callable[[Any, Any], Any]
_UNKNOWN: Final = object()


def answer(
    store: Store, part: Any, query: Query, position: Position, bound: PositionBound, partition: int, *, has_info: bool
) -> QueryResult:
    """The answer of a part that is at `position`. Raises StreamsError, ValueError: the query is wrong."""
    begin_ns = time.perf_counter_ns()
    _check(store, query)
    handler = _HANDLERS.get(store.kind, {}).get(type(query))
    if handler is None:
        found = _unknown(store, query)
    elif not position.reaches(bound.position, partition):
        text = f"partition {partition} of store {store.name} is at {position}, not yet at the bound {bound.position}"
        found = QueryResult.for_failure(FailureReason.NOT_UP_TO_BOUND, text)
    else:
        found = _called(handler, store, part, query)
    info = (f"answered by store {store.name} in {time.perf_counter_ns() - begin_ns} ns",) if has_info else ()
    return replace(found, position=position, execution_info=info)


def _check(store: Store, query: Query) -> None:
    """Raises StreamsError, ValueError: as in Kafka, these are errors, and no failures of a part."""
    if store.kind is StoreKind.VERSIONED_KEY_VALUE and isinstance(query, (KeyQuery, RangeQuery)):
        name = type(query).__name__
        raise StreamsError(f"store {store.name} is versioned, and does not answer {name}; ask by VersionedKeyQuery")
    if isinstance(query, MultiVersionedKeyQuery):
        begin, end = _times(query)
        if begin > end:
            raise ValueError(f"from_time {begin} of a query lies behind to_time {end}")


def _called(handler: _Handler, store: Store, part: Any, query: Query) -> QueryResult:
    try:
        found = handler(part, query)
    except Exception as error:  # of a serde, or of the file of the store
        text = f"store {store.name} cannot answer {query}: {type(error).__name__}: {error}"
        return QueryResult.for_failure(FailureReason.STORE_EXCEPTION, text)
    return _unknown(store, query) if found is _UNKNOWN else QueryResult.for_result(found)


def _unknown(store: Store, query: Query) -> QueryResult:
    allowed = ", ".join(_allowed(store.kind)) or "none"
    text = f"store {store.name} is a {store.kind.value}, and cannot answer {query}; it answers {allowed}"
    return QueryResult.for_failure(FailureReason.UNKNOWN_QUERY_TYPE, text)


def _allowed(kind: StoreKind) -> list[str]:
    names = [query.__name__ for query in _HANDLERS.get(kind, {})]
    only = {StoreKind.SESSION: ".with_key"}.get(kind, ".with_window_start_range")
    return [f"{name}{only}" if name == WindowRangeQuery.__name__ else name for name in names]


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, ValueAndTimestamp) else value


def _key(part: Any, query: KeyQuery | TimestampedKeyQuery) -> Any:
    return part.below().get(query.key) if query.skips_cache else part.peek(query.key)


def _plain_key(part: Any, query: KeyQuery) -> Any:
    return _plain(_key(part, query))


def _range(part: Any, query: RangeQuery | TimestampedRangeQuery) -> list[KeyValue]:
    low, high = query.lower_bound, query.upper_bound
    is_reverse = query.result_order is ResultOrder.DESCENDING
    rows = part.below()
    return list(rows.reverse_range(low, high) if is_reverse else rows.range(low, high))


def _plain_range(part: Any, query: RangeQuery) -> list[KeyValue]:
    return [KeyValue(key, _plain(value)) for key, value in _range(part, query)]


def _windows_of_key(part: Any, query: WindowKeyQuery) -> Any:
    return list(part.below().fetch_range(query.key, query.time_from, query.time_to))


def _windows(part: Any, query: WindowRangeQuery) -> Any:
    if query.time_from is None or query.time_to is None:
        return _UNKNOWN
    return list(part.below().fetch_all(query.time_from, query.time_to))


def _sessions(part: Any, query: WindowRangeQuery) -> Any:
    return _UNKNOWN if query.key is None else list(part.below().fetch(query.key))


def _version(part: Any, query: VersionedKeyQuery) -> Any:
    at = query.as_of_timestamp
    return part.get(query.key) if at is None else part.get_as_of(query.key, at)


def _versions(part: Any, query: MultiVersionedKeyQuery) -> Any:
    return list(part.get_range(query.key, *_times(query), query.result_order is ResultOrder.ASCENDING))


def _times(query: MultiVersionedKeyQuery) -> tuple[int, int]:
    begin = MIN_MS if query.time_from is None else query.time_from
    return begin, MAX_MS if query.time_to is None else query.time_to


_WINDOWS: Final[Mapping[type[Query], _Handler]] = {WindowKeyQuery: _windows_of_key, WindowRangeQuery: _windows}
_HANDLERS: Final[Mapping[StoreKind, Mapping[type[Query], _Handler]]] = {
    StoreKind.KEY_VALUE: {KeyQuery: _plain_key, RangeQuery: _plain_range},
    StoreKind.TIMESTAMPED_KEY_VALUE: {
        KeyQuery: _plain_key,
        RangeQuery: _plain_range,
        TimestampedKeyQuery: _key,
        TimestampedRangeQuery: _range,
    },
    StoreKind.WINDOW: _WINDOWS,
    StoreKind.TIMESTAMPED_WINDOW: _WINDOWS,
    StoreKind.SESSION: {WindowRangeQuery: _sessions},
    StoreKind.VERSIONED_KEY_VALUE: {
        VersionedKeyQuery: _version,
        MultiVersionedKeyQuery: _versions,
    },
}
