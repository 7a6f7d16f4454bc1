"""Functions of arrays and maps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from broker_sql import java_format
from broker_sql.functions.definitions import Category, Resolved
from broker_sql.types import Array, Decimal, Primitive, SqlType

ARRAY = Category("ARRAY")
MAP = Category("MAP")
_ONE = {"array": "the array"}
_TWO = {"one": "the first array", "other": "the second array"}
_concat = ARRAY.scalar("array_concat", "The elements of both arrays; NULL is an empty array.", **_TWO)
_contains = ARRAY.scalar(
    "array_contains", "TRUE if the value is an element of the array.", array="the array", value="the value"
)
_distinct = ARRAY.scalar("array_distinct", "The elements without repetitions, in the order of the first ones.", **_ONE)
_except = ARRAY.scalar("array_except", "The elements of the first array that are not in the second, each once.", **_TWO)
_intersect = ARRAY.scalar(
    "array_intersect", "The elements of both arrays, each once, in the order of the first.", **_TWO
)
_union = ARRAY.scalar("array_union", "The elements of one array or of both, each once.", **_TWO)
_join = ARRAY.scalar(
    "array_join",
    "The texts of the elements, with a delimiter between them; `null` for NULL.",
    array="the array, of elements that are not collections",
    delimiter="the delimiter; a comma without it",
)
_length = ARRAY.scalar("array_length", "The number of elements.", **_ONE)
_max = ARRAY.scalar("array_max", "The greatest element; NULL is left out.", **_ONE)
_min = ARRAY.scalar("array_min", "The least element; NULL is left out.", **_ONE)
_remove = ARRAY.scalar(
    "array_remove", "The elements that are not equal to a value.", array="the array", value="the value"
)
_sort = ARRAY.scalar(
    "array_sort",
    "The elements in their order, NULL at the end.",
    array="the array",
    direction="ASC or DESC; ASC without it",
)
_slice = ARRAY.scalar(
    "slice",
    "The elements between two positions, both included; NULL if there are fewer.",
    array="the array",
    first="the first position, from 1; NULL is 1",
    last="the last position; NULL is the last element",
)
_series = ARRAY.scalar(
    "generate_series",
    "The numbers from the first to the last.",
    first="the first number",
    last="the greatest, or with a step below 0 the least number",
    step="the difference between two numbers; 1 or -1 without it",
)
_as_map = MAP.scalar(
    "as_map", "The map of an array of keys and an array of values.", keys="the keys", values="the values"
)
_entries = MAP.scalar(
    "entries",
    "The entries as an array of STRUCT<K, V>.",
    map="the map",
    sorted="TRUE: in the order of keys",
)
_keys = MAP.scalar("map_keys", "The keys of a map.", map="the map")
_values = MAP.scalar("map_values", "The values of a map.", map="the map")
_map_union = MAP.scalar(
    "map_union",
    "The entries of both maps; for a key of both, the entry of the second.",
    one="the first map",
    other="the second map",
)
_List = list[Any] | None


def _primitive(kind: SqlType) -> bool:
    return isinstance(kind, Primitive | Decimal)


def _unique(values: Iterable[Any]) -> list[Any]:
    """Return each value once, the first ones; values of collections have no hash."""
    values = list(values)
    try:
        return list(dict.fromkeys(values))
    except TypeError:
        found: list[Any] = []
        for each in values:
            if each not in found:
                found.append(each)
        return found


@_concat("(one ARRAY<T>, other ARRAY<T>) ARRAY<T>")
def _(one: _List, other: _List) -> _List:
    if one is None:
        return other
    return one if other is None else one + other


@_contains("(array ARRAY<T>, value T) BOOLEAN")
def _(array: _List, value: Any) -> bool:
    return array is not None and value in array


@_distinct("(array ARRAY<T>) ARRAY<T>", strict=True)
def _(array: list[Any]) -> list[Any]:
    return _unique(array)


@_except("(one ARRAY<T>, other ARRAY<T>) ARRAY<T>", strict=True)
def _(one: list[Any], other: list[Any]) -> list[Any]:
    return [each for each in _unique(one) if each not in other]


@_intersect("(one ARRAY<T>, other ARRAY<T>) ARRAY<T>", strict=True)
def _(one: list[Any], other: list[Any]) -> list[Any]:
    return [each for each in _unique(one) if each in other]


@_union("(one ARRAY<T>, other ARRAY<T>) ARRAY<T>", strict=True)
def _(one: list[Any], other: list[Any]) -> list[Any]:
    return _unique(one + other)


@_join("(array ARRAY<T>, [delimiter STRING]) STRING", build=True, only={"T": _primitive})
def _(resolved: Resolved) -> Callable[..., str | None]:
    kind = resolved.types[0]
    element = kind.element if isinstance(kind, Array) else None

    def call(array: _List, delimiter: str | None = ",") -> str | None:
        if array is None:
            return None
        return (delimiter or "").join(
            "null" if each is None or element is None else java_format.value_text(each, element) for each in array
        )

    return call


@_length("(array ARRAY<T>) INT")
def _(array: _List) -> int | None:
    return None if array is None else len(array)


@_max("(array ARRAY<T>) T", only={"T": _primitive}, strict=True)
def _(array: list[Any]) -> Any:
    return max((each for each in array if each is not None), default=None)


@_min("(array ARRAY<T>) T", only={"T": _primitive}, strict=True)
def _(array: list[Any]) -> Any:
    return min((each for each in array if each is not None), default=None)


@_remove("(array ARRAY<T>, value T) ARRAY<T>")
def _(array: _List, value: Any) -> _List:
    return None if array is None else [each for each in array if each != value]


def _sorted(array: list[Any], descending: bool) -> list[Any]:
    present = sorted((each for each in array if each is not None), reverse=descending)
    return present + [None] * (len(array) - len(present))


@_sort("(array ARRAY<T>) ARRAY<T>", only={"T": _primitive}, strict=True)
def _(array: list[Any]) -> list[Any]:
    return _sorted(array, False)


@_sort("(array ARRAY<T>, direction STRING) ARRAY<T>", only={"T": _primitive}, strict=True)
def _(array: list[Any], direction: str) -> _List:
    wanted = direction.upper()
    if wanted in ("ASC", "ASCEND", "ASCENDING"):
        return _sorted(array, False)
    return _sorted(array, True) if wanted in ("DESC", "DESCEND", "DESCENDING") else None


@_slice("(array ARRAY<T>, first INT, last INT) ARRAY<T>")
def _(array: _List, first: int | None, last: int | None) -> _List:
    if array is None:
        return None
    start, end = 0 if first is None else first - 1, len(array) if last is None else last
    return array[start:end] if 0 <= start <= end <= len(array) else None


_SERIES_LIMIT = 10_000_000  # elements of GENERATE_SERIES: more would exhaust the memory


@_series("(first INT, last INT) ARRAY<INT>", "(first BIGINT, last BIGINT) ARRAY<BIGINT>", strict=True)
def _(first: int, last: int) -> list[int]:
    return _numbers(first, last, 1 if last >= first else -1)


@_series(
    "(first INT, last INT, step INT) ARRAY<INT>", "(first BIGINT, last BIGINT, step INT) ARRAY<BIGINT>", strict=True
)
def _(first: int, last: int, step: int) -> list[int]:
    if step == 0:
        raise ValueError("GENERATE_SERIES: step 0: another number is expected")
    if (last - first) * step < 0:
        raise ValueError(
            f"GENERATE_SERIES: step {step} does not lead from {first} to {last}: the other sign is expected"
        )
    return _numbers(first, last, step)


def _numbers(first: int, last: int, step: int) -> list[int]:
    found = range(first, last + (1 if step > 0 else -1), step)
    if len(found) > _SERIES_LIMIT:
        raise ValueError(f"GENERATE_SERIES from {first} to {last}: at most {_SERIES_LIMIT} numbers are allowed")
    return list(found)


@_as_map("(keys ARRAY<STRING>, values ARRAY<T>) MAP<STRING, T>", strict=True)
def _(keys: list[Any], values: list[Any]) -> dict[Any, Any]:
    return dict(zip(keys, values, strict=False))


@_entries("(map MAP<STRING, V>, sorted BOOLEAN) ARRAY<STRUCT<K STRING, V V>>")
def _(entries: dict[str, Any] | None, in_order: bool | None) -> list[dict[str, Any]] | None:
    if entries is None:
        return None
    found = sorted(entries.items(), key=lambda entry: entry[0]) if in_order else entries.items()
    return [{"K": key, "V": value} for key, value in found]


@_keys("(map MAP<K, V>) ARRAY<K>")
def _(entries: dict[Any, Any] | None) -> _List:
    return None if entries is None else list(entries)


@_values("(map MAP<K, V>) ARRAY<V>")
def _(entries: dict[Any, Any] | None) -> _List:
    return None if entries is None else list(entries.values())


@_map_union("(one MAP<K, V>, other MAP<K, V>) MAP<K, V>")
def _(one: dict[Any, Any] | None, other: dict[Any, Any] | None) -> dict[Any, Any] | None:
    if one is None:
        return other
    return one if other is None else one | other
