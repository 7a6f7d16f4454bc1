"""Queries of state stores as values, and their answers (org.apache.kafka.streams.query; KIP-796, KIP-960, KIP-968).

    request = StateQueryRequest.in_store("counts").with_query(KeyQuery.with_key("ann"))
    streams.query(request).only_partition_result().result

Times are ms since 1970. Where Kafka answers with an iterator, these answers have a list.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, Self


class FailureReason(enum.Enum):
    """The reasons for which a part of a store gives no result."""

    UNKNOWN_QUERY_TYPE = "UNKNOWN_QUERY_TYPE"
    NOT_ACTIVE = "NOT_ACTIVE"
    NOT_UP_TO_BOUND = "NOT_UP_TO_BOUND"
    NOT_PRESENT = "NOT_PRESENT"
    DOES_NOT_EXIST = "DOES_NOT_EXIST"
    STORE_EXCEPTION = "STORE_EXCEPTION"


class ResultOrder(enum.Enum):
    ANY = "ANY"
    ASCENDING = "ASCENDING"
    DESCENDING = "DESCENDING"


class Position:
    """The last offsets of inputs that a store reflects, by topic and partition. Calls return new positions."""

    __slots__ = ("_offsets",)

    def __init__(self, offsets: Mapping[str, Mapping[int, int]] | None = None) -> None:
        self._offsets = {topic: dict(parts) for topic, parts in (offsets or {}).items()}

    @classmethod
    def empty_position(cls) -> Position:
        return cls()

    @classmethod
    def from_map(cls, offsets: Mapping[str, Mapping[int, int]]) -> Position:
        return cls(offsets)

    def with_component(self, topic: str, partition: int, offset: int) -> Position:
        """With an offset of a partition, unless a larger one is known."""
        return self.merge(Position({topic: {partition: offset}}))

    def merge(self, other: Position) -> Position:
        made = Position(self._offsets)
        for topic, parts in other._offsets.items():
            known = made._offsets.setdefault(topic, {})
            for partition, offset in parts.items():
                known[partition] = max(offset, known.get(partition, offset))
        return made

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(self._offsets)

    def partition_positions(self, topic: str) -> Mapping[int, int]:
        return dict(self._offsets.get(topic, {}))

    @property
    def is_empty(self) -> bool:
        return not self._offsets

    def reaches(self, bound: Position, partition: int) -> bool:
        """Whether this is the position of a store partition that has seen the bound (StoreQueryUtils.isPermitted)."""
        for topic, parts in bound._offsets.items():
            if partition in parts and self._offsets.get(topic, {}).get(partition, -1) < parts[partition]:
                return False
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Position) and self._offsets == other._offsets

    __hash__ = None  # type: ignore[assignment]  # as Kafka's: two equal ones need not have the same history

    def __repr__(self) -> str:
        return f"Position({self._offsets!r})"


@dataclass(frozen=True)
class PositionBound:
    """The position that a store must have reached to answer."""

    position: Position

    @classmethod
    def unbounded(cls) -> PositionBound:
        return cls(Position())

    @classmethod
    def at(cls, position: Position) -> PositionBound:
        return cls(position)

    @property
    def is_unbounded(self) -> bool:
        return self.position.is_empty


# ---- queries


class Query:
    """A question to one part of a store."""


def _key(key: Any) -> Any:
    if key is None:
        raise ValueError("the key of a query is None")
    return key


def _ms(name: str, value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name} of a query is {value!r}; ms since 1970 are expected")
    return value


@dataclass(frozen=True)
class _OfKey(Query):
    key: Any
    skips_cache: bool = False

    @classmethod
    def with_key(cls, key: Any) -> Self:
        return cls(_key(key))

    def skip_cache(self) -> Self:
        """Read the row below the cache."""
        return replace(self, skips_cache=True)


@dataclass(frozen=True)
class KeyQuery(_OfKey):
    """The value of a key in a key-value store; without a row, the result is None."""


@dataclass(frozen=True)
class TimestampedKeyQuery(_OfKey):
    """The same of a timestamped store, as ValueAndTimestamp."""


@dataclass(frozen=True)
class _Range(Query):
    lower_bound: Any = None
    upper_bound: Any = None
    result_order: ResultOrder = ResultOrder.ANY

    @classmethod
    def with_range(cls, lower: Any, upper: Any) -> Self:
        return cls(lower, upper)

    @classmethod
    def with_lower_bound(cls, lower: Any) -> Self:
        return cls(_key(lower), None)

    @classmethod
    def with_upper_bound(cls, upper: Any) -> Self:
        return cls(None, _key(upper))

    @classmethod
    def with_no_bounds(cls) -> Self:
        return cls()

    def with_ascending_keys(self) -> Self:
        return replace(self, result_order=ResultOrder.ASCENDING)

    def with_descending_keys(self) -> Self:
        return replace(self, result_order=ResultOrder.DESCENDING)


@dataclass(frozen=True)
class RangeQuery(_Range):
    """The rows of a key-value store between two keys, both included; None: no bound."""


@dataclass(frozen=True)
class TimestampedRangeQuery(_Range):
    """The same of a timestamped store, with values as ValueAndTimestamp."""


@dataclass(frozen=True)
class WindowKeyQuery(Query):
    """The windows of a key in a window store whose starts lie between two times: starts and values."""

    key: Any
    time_from: int
    time_to: int

    @classmethod
    def with_key_and_window_start_range(cls, key: Any, time_from: int, time_to: int) -> WindowKeyQuery:
        return cls(_key(key), _ms("time_from", time_from), _ms("time_to", time_to))


@dataclass(frozen=True)
class WindowRangeQuery(Query):
    """`with_key`: all sessions of a key in a session store. `with_window_start_range`: the windows of all keys in a
    window store whose starts lie between two times. Rows are Windowed keys with their values.
    """

    key: Any = None
    time_from: int | None = None
    time_to: int | None = None

    @classmethod
    def with_key(cls, key: Any) -> WindowRangeQuery:
        return cls(_key(key))

    @classmethod
    def with_window_start_range(cls, time_from: int, time_to: int) -> WindowRangeQuery:
        return cls(None, _ms("time_from", time_from), _ms("time_to", time_to))


@dataclass(frozen=True)
class VersionedKeyQuery(Query):
    """The record of a key in a versioned store: the latest one, or the one that was valid at a time."""

    key: Any
    as_of_timestamp: int | None = None

    @classmethod
    def with_key(cls, key: Any) -> VersionedKeyQuery:
        return cls(_key(key))

    def as_of(self, timestamp: int) -> VersionedKeyQuery:
        return replace(self, as_of_timestamp=_ms("as_of", timestamp))


@dataclass(frozen=True)
class MultiVersionedKeyQuery(Query):
    """The records of a key in a versioned store that were valid within two times, the latest first by default."""

    key: Any
    time_from: int | None = None
    time_to: int | None = None
    result_order: ResultOrder = ResultOrder.ANY

    @classmethod
    def with_key(cls, key: Any) -> MultiVersionedKeyQuery:
        return cls(_key(key))

    def from_time(self, time_from: int | None) -> MultiVersionedKeyQuery:
        return replace(self, time_from=None if time_from is None else _ms("from_time", time_from))

    def to_time(self, time_to: int | None) -> MultiVersionedKeyQuery:
        return replace(self, time_to=None if time_to is None else _ms("to_time", time_to))

    def with_ascending_timestamps(self) -> MultiVersionedKeyQuery:
        return replace(self, result_order=ResultOrder.ASCENDING)

    def with_descending_timestamps(self) -> MultiVersionedKeyQuery:
        return replace(self, result_order=ResultOrder.DESCENDING)


# ---- requests and results


@dataclass(frozen=True)
class StateQueryRequest:
    """A query of the parts of a store. `partitions` None: all parts at the instance answer, standbys too."""

    store_name: str
    query: Query
    position_bound: PositionBound = field(default_factory=PositionBound.unbounded)
    partitions: frozenset[int] | None = None
    has_execution_info: bool = False
    is_require_active: bool = False

    @staticmethod
    def in_store(name: str) -> InStore:
        return InStore(name)

    def with_position_bound(self, bound: PositionBound) -> StateQueryRequest:
        """Parts that have not reached this position fail with NOT_UP_TO_BOUND. Standbys do not know theirs."""
        return replace(self, position_bound=bound)

    def with_all_partitions(self) -> StateQueryRequest:
        return replace(self, partitions=None)

    def with_partitions(self, partitions: Iterable[int]) -> StateQueryRequest:
        return replace(self, partitions=frozenset(partitions))

    def enable_execution_info(self) -> StateQueryRequest:
        return replace(self, has_execution_info=True)

    def require_active(self) -> StateQueryRequest:
        """Standbys fail with NOT_ACTIVE. Active tasks need no bound: they are where processing is."""
        return replace(self, is_require_active=True)


@dataclass(frozen=True)
class InStore:
    """A request without its query."""

    name: str

    def with_query(self, query: Query) -> StateQueryRequest:
        return StateQueryRequest(self.name, query)


_NONE: Final = object()


@dataclass(frozen=True)
class QueryResult:
    """The answer of one part of a store. `position` is that of the part when it answered."""

    _result: Any = _NONE
    failure_reason: FailureReason | None = None
    failure_message: str = ""
    position: Position = field(default_factory=Position)
    execution_info: tuple[str, ...] = ()

    @classmethod
    def for_result(cls, result: Any) -> QueryResult:
        return cls(result)

    @classmethod
    def for_failure(cls, reason: FailureReason, message: str) -> QueryResult:
        return cls(failure_reason=reason, failure_message=message)

    @property
    def is_success(self) -> bool:
        return self.failure_reason is None

    @property
    def is_failure(self) -> bool:
        return self.failure_reason is not None

    @property
    def result(self) -> Any:
        """Raises ValueError: the query failed."""
        if self.failure_reason is not None:
            raise ValueError(f"a query that failed has no result: {self.failure_reason.value}: {self.failure_message}")
        return self._result


@dataclass(frozen=True)
class StateQueryResult:
    """The answers by partition, or that of a global store."""

    partition_results: Mapping[int, QueryResult] = field(default_factory=dict)
    global_result: QueryResult | None = None

    def only_partition_result(self) -> QueryResult | None:
        """The only answer that has a result; None: there is none. Raises ValueError: several parts have one."""
        found = [each for each in self.partition_results.values() if each.is_success and each.result is not None]
        if len(found) > 1:
            having = sorted(number for number, each in self.partition_results.items() if each in found)
            raise ValueError(f"partitions {', '.join(map(str, having))} have results; one partition is expected")
        return found[0] if found else None

    @property
    def position(self) -> Position:
        """The positions of all answers together."""
        if self.global_result is not None:
            return self.global_result.position
        merged = Position()
        for each in self.partition_results.values():
            merged = merged.merge(each.position)
        return merged


class LagInfo(NamedTuple):
    """How far a part of a store is behind its changelog, in offsets (Kafka's LagInfo)."""

    current_offset_position: int
    end_offset_position: int

    @property
    def offset_lag(self) -> int:
        return max(0, self.end_offset_position - self.current_offset_position)
