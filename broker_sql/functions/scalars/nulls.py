"""Functions that choose among values: COALESCE, IFNULL, NULLIF, GREATEST, LEAST, AS_VALUE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_sql.functions.calls import ArgumentType
from broker_sql.functions.definitions import Category
from broker_sql.functions.patterns import wider
from broker_sql.types import Decimal, SqlType

CONDITIONAL = Category("CONDITIONAL")
_coalesce = CONDITIONAL.scalar(
    "COALESCE", "The first argument that is not NULL.", first="the first value", others="values of the same type"
)
_ifnull = CONDITIONAL.scalar(
    "ifnull", "The value, or the alternative if it is NULL.", value="the value", alternative="the value instead of NULL"
)
_nullif = CONDITIONAL.scalar(
    "nullif", "NULL if both arguments are equal, else the first.", value="the value", other="the value to compare with"
)
_greatest = CONDITIONAL.scalar(
    "greatest",
    "The greatest argument; NULL is left out.",
    first="the first value",
    others="values of the same type",
)
_least = CONDITIONAL.scalar(
    "least", "The least argument; NULL is left out.", first="the first value", others="values of the same type"
)
_as_value = CONDITIONAL.scalar("as_value", "A copy of a key column for the value of the record.", key="the key column")


@_coalesce("(first T, others T...) T")
def _(first: Any, *others: Any) -> Any:
    if first is not None:
        return first
    for each in others:
        if each is not None:
            return each
    return None


@_ifnull("(value T, alternative T) T")
def _(value: Any, alternative: Any) -> Any:
    return alternative if value is None else value


@_nullif("(value T, other T) T")
def _(value: Any, other: Any) -> Any:
    return None if value == other else value


@_as_value("(key T) T")
def _(key: Any) -> Any:
    return key


_ORDERED = ("INT", "BIGINT", "DOUBLE", "STRING", "BYTES", "DATE", "TIME", "TIMESTAMP")
_SIGNATURES = tuple(f"(first {kind}, others {kind}...) {kind}" for kind in _ORDERED)


def _widest(types: tuple[ArgumentType, ...]) -> SqlType:
    found: Decimal | None = None
    for each in types:
        if isinstance(each, Decimal):
            found = each if found is None else wider(found, each)
    return found or Decimal(1, 0)


def _extreme(choose: Callable[..., Any]) -> Callable[..., Any]:
    def call(*values: Any) -> Any:
        return choose((each for each in values if each is not None), default=None)

    return call


for _function, _choose in ((_greatest, max), (_least, min)):
    _function(*_SIGNATURES)(_extreme(_choose))
    _function("(first DECIMAL, others DECIMAL...)", returns=_widest)(_extreme(_choose))
