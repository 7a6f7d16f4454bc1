"""Aggregate functions that keep values: lists, sets, the greatest, the first and last ones, and counts of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from broker_sql.errors import AnalysisError
from broker_sql.functions.aggregates.basic import AGGREGATE, ordered
from broker_sql.functions.definitions import Parts, Resolved, same_type
from broker_sql.types import BIGINT, INTEGER, STRING, Array, Map, SqlType, Struct

_VALUE = {"value": "the column"}
_list = AGGREGATE.aggregate(
    "COLLECT_LIST",
    "All values in the order of records, NULL too; no more than ksql.functions.collect_list.limit.",
    **_VALUE,
)
_set = AGGREGATE.aggregate(
    "COLLECT_SET",
    "Each value once, in the order of records, NULL too; no more than ksql.functions.collect_set.limit.",
    **_VALUE,
)
_histogram = AGGREGATE.aggregate(
    "HISTOGRAM", "The number of rows of each of the first 1000 values; NULL is left out.", **_VALUE
)
_attr = AGGREGATE.aggregate("ATTR", "The value, if all rows have the same; NULL otherwise.", **_VALUE)
_topk = AGGREGATE.aggregate(
    "TOPK",
    "The greatest values of a column, or structs of it and more columns, the greatest first.",
    value="the column",
    others="more columns: fields col0, col1, ... of the struct, beside sort_col",
    k="how many values",
)
_distinct = AGGREGATE.aggregate(
    "TOPKDISTINCT", "The greatest values, each once, the greatest first.", value="the column", k="how many values"
)
_BY_OFFSET = {
    "value": "the column",
    "n": "how many values; without it, one value instead of an array",
    "ignore_nulls": "FALSE: NULL is a value as others; TRUE without it",
}
_earliest = AGGREGATE.aggregate(
    "EARLIEST_BY_OFFSET", "The first values of a column, by the order of records.", **_BY_OFFSET
)
_latest = AGGREGATE.aggregate("LATEST_BY_OFFSET", "The last values of a column, by the order of records.", **_BY_OFFSET)
_HISTOGRAM_LIMIT: Final = 1000
_ROOM: Final = 1 << 20  # numbers of records for each millisecond of the clock
State = dict[str, Any]


def _limit(resolved: Resolved, name: str) -> int | None:
    """Return the setting; None if there is no limit, which is also the meaning of a number below 0."""
    text = resolved.environment.settings.get(f"ksql.functions.{name}.limit")
    if text is None:
        return None
    try:
        found = int(text)
    except ValueError:
        raise AnalysisError(f"ksql.functions.{name}.limit={text}: a number is expected") from None
    return found if found >= 0 else None


@_list("(value T) ARRAY<T>")
def _(resolved: Resolved) -> Parts:
    limit = _limit(resolved, "collect_list")

    def add(value: Any, state: list[Any]) -> list[Any]:
        return state if limit is not None and len(state) >= limit else [*state, value]

    def undo(value: Any, state: list[Any]) -> list[Any]:
        for index in range(len(state) - 1, -1, -1):
            if state[index] == value:
                return state[:index] + state[index + 1 :]
        return state

    def merge(one: list[Any], other: list[Any]) -> list[Any]:
        return (one + other)[:limit]

    return Parts(list, add, merge, Array(same_type(resolved.types)), undo=undo)


@_set("(value T) ARRAY<T>")
def _(resolved: Resolved) -> Parts:
    limit = _limit(resolved, "collect_set")

    def add(value: Any, state: list[Any]) -> list[Any]:
        return state if value in state or (limit is not None and len(state) >= limit) else [*state, value]

    def merge(one: list[Any], other: list[Any]) -> list[Any]:
        for each in other:
            one = add(each, one)
        return one

    return Parts(list, add, merge, Array(same_type(resolved.types)))


@_histogram("(value STRING) MAP<STRING, BIGINT>")
def _(resolved: Resolved) -> Parts:
    def plus(state: dict[str, int], value: str, number: int) -> dict[str, int]:
        if value not in state and len(state) >= _HISTOGRAM_LIMIT:
            return state
        return state | {value: state.get(value, 0) + number}

    def add(value: str | None, state: dict[str, int]) -> dict[str, int]:
        return state if value is None else plus(state, value, 1)

    def undo(value: str | None, state: dict[str, int]) -> dict[str, int]:
        if value is None or value not in state:
            return state
        if state[value] > 1:
            return plus(state, value, -1)
        return {key: number for key, number in state.items() if key != value}

    def merge(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
        for value, number in other.items():
            one = plus(one, value, number)
        return one

    return Parts(dict, add, merge, Map(STRING, BIGINT), undo=undo)


@_attr("(value T) T")
def _(resolved: Resolved) -> Parts:
    def changed(state: list[State], value: Any, number: int) -> list[State]:
        for index, each in enumerate(state):
            if each["VALUE"] == value:
                counted = {"VALUE": value, "COUNT": each["COUNT"] + number}
                return [*state[:index], *([counted] if counted["COUNT"] > 0 else []), *state[index + 1 :]]
        return [*state, {"VALUE": value, "COUNT": number}] if number > 0 else state

    def merge(one: list[State], other: list[State]) -> list[State]:
        for each in other:
            one = changed(one, each["VALUE"], each["COUNT"])
        return one

    return Parts(
        list,
        lambda value, state: changed(state, value, 1),
        merge,
        Array(Struct((("VALUE", same_type(resolved.types)), ("COUNT", INTEGER)))),
        undo=lambda value, state: changed(state, value, -1),
        result=lambda state: state[0]["VALUE"] if len(state) == 1 else None,
    )


def _positive(resolved: Resolved, value: Any, name: str) -> int:
    if not isinstance(value, int) or value < 1:
        raise AnalysisError(f"{resolved.name}: {name} must be 1 or greater, but is {value}")
    return value


@_topk("(value T; k INT) ARRAY<T>", only={"T": ordered})
def _(resolved: Resolved) -> Parts:
    return _greatest(resolved, same_type(resolved.types), distinct=False)


@_distinct("(value T; k INT) ARRAY<T>", only={"T": ordered})
def _(resolved: Resolved) -> Parts:
    return _greatest(resolved, same_type(resolved.types), distinct=True)


def _inserted(state: list[Any], value: Any, k: int) -> list[Any]:
    """Return the values from the greatest, with one more behind those that are equal."""
    position = len(state)
    while position and state[position - 1] < value:
        position -= 1
    return [*state[:position], value, *state[position:]][:k]


def _greatest(resolved: Resolved, kind: SqlType, distinct: bool) -> Parts:
    k = _positive(resolved, resolved.constants[0], "k")

    def add(value: Any, state: list[Any]) -> list[Any]:
        if value is None or (len(state) >= k and not state[-1] < value) or (distinct and value in state):
            return state
        return _inserted(state, value, k)

    def merge(one: list[Any], other: list[Any]) -> list[Any]:
        for each in other:
            one = add(each, one)
        return one

    return Parts(list, add, merge, Array(kind))


@_topk("(value T, others ANY...; k INT)", only={"T": ordered}, returns=lambda types: Array(_row(types)))
def _(resolved: Resolved) -> Parts:
    row = _row(resolved.types)
    names = [name for name, _ in row.fields]
    k = _positive(resolved, resolved.constants[0], "k")

    def insert(value: State, state: list[State]) -> list[State]:
        position = len(state)
        while position and state[position - 1]["sort_col"] < value["sort_col"]:
            position -= 1
        return [*state[:position], value, *state[position:]][:k]

    def add(values: tuple[Any, ...], state: list[State]) -> list[State]:
        return state if values[0] is None else insert(dict(zip(names, values, strict=True)), state)

    def merge(one: list[State], other: list[State]) -> list[State]:
        for each in other:
            one = insert(each, one)
        return one

    return Parts(list, add, merge, Array(row))


def _row(types: tuple[SqlType | None, ...]) -> Struct:
    """Return the struct of the columns: all arguments but the last, which is k."""
    columns = [each if each is not None else STRING for each in types[:-1]]
    return Struct((("sort_col", columns[0]), *((f"col{index}", each) for index, each in enumerate(columns[1:]))))


class _Numbers:
    """Numbers of records that grow, also over restarts, and in copies that run one after the other: by the clock."""

    __slots__ = ("_last", "_now_ms")

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._last, self._now_ms = 0, now_ms

    def __call__(self) -> int:
        self._last = max(self._now_ms() * _ROOM, self._last + 1)
        return self._last


def _by_offset(resolved: Resolved, first: bool, n: int | None, ignore_nulls: bool) -> Parts:
    """The state has the number of each record: sessions are merged in the order of their times, not of records."""
    number = _Numbers(resolved.environment.now_ms)
    kind = Struct((("SEQ", BIGINT), ("VAL", same_type(resolved.types))))

    def one(value: Any, state: State | None) -> State | None:
        if (value is None and ignore_nulls) or (first and state is not None):
            return state
        return {"SEQ": number(), "VAL": value}

    def merge_one(left: State | None, right: State | None) -> State | None:
        if left is None or right is None:
            return right if left is None else left
        return left if (left["SEQ"] < right["SEQ"]) == first else right

    def many(value: Any, state: list[State]) -> list[State]:
        assert n is not None
        if (value is None and ignore_nulls) or (first and len(state) >= n):
            return state
        return [*state, {"SEQ": number(), "VAL": value}][-n:]

    def merge_many(left: list[State], right: list[State]) -> list[State]:
        assert n is not None
        both = sorted(left + right, key=lambda each: each["SEQ"])
        return both[:n] if first else both[-n:]

    if n is None:
        return Parts(lambda: None, one, merge_one, kind, result=lambda state: state and state["VAL"])
    return Parts(list, many, merge_many, Array(kind), result=lambda state: [each["VAL"] for each in state])


for _function, _first in ((_earliest, True), (_latest, False)):

    @_function("(value T; [ignore_nulls BOOLEAN]) T")
    def _(resolved: Resolved, first: bool = _first) -> Parts:
        return _by_offset(resolved, first, None, resolved.constants != (False,))

    @_function("(value T; n INT, [ignore_nulls BOOLEAN]) ARRAY<T>")
    def _(resolved: Resolved, first: bool = _first) -> Parts:
        n = _positive(resolved, resolved.constants[0], "earliestN" if first else "latestN")
        return _by_offset(resolved, first, n, resolved.constants[1:] != (False,))
