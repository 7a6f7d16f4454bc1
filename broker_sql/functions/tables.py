"""Table functions: one row becomes as many rows as they return values."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

from broker_sql.functions.definitions import Category

TABLE = Category("TABLE")
_CUBE_LIMIT: Final = 20  # columns that are not NULL: a row becomes 2 ** 20 rows
_explode = TABLE.table("explode", "One row for each element of an array.", list="the array")
_cube = TABLE.table(
    "cube_explode",
    "One row for each combination of the elements of an array with NULL in place of some of them.",
    columns="the array of columns",
)


@_explode("(list ARRAY<T>) T")
def _(array: list[Any] | None) -> list[Any]:
    return array or []


@_cube("(columns ARRAY<T>) ARRAY<T>")
def _(columns: list[Any] | None) -> list[list[Any]]:
    if columns is None:
        return []
    if sum(each is not None for each in columns) > _CUBE_LIMIT:
        raise ValueError(f"CUBE_EXPLODE: {len(columns)} columns: at most {_CUBE_LIMIT} are allowed, besides NULL")
    return [list(row) for row in product(*((None,) if each is None else (None, each) for each in columns))]
