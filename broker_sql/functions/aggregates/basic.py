"""COUNT, SUM, MIN, MAX, AVG, and functions of deviation and correlation."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context
from decimal import Decimal as Number
from typing import Any, Final

from broker_sql.functions.definitions import Category, Parts, Resolved, same_type
from broker_sql.java_format import wrap_bigint, wrap_integer
from broker_sql.types import BIGINT, BOOLEAN, DOUBLE, INTEGER, MAX_PRECISION, Decimal, Primitive, SqlType, Struct

AGGREGATE = Category("AGGREGATE")
_VALUE = {"value": "the column"}
_count = AGGREGATE.aggregate(
    "COUNT", "The number of rows, or of values that are not NULL.", value="the column; without it all rows count"
)
_sum = AGGREGATE.aggregate("SUM", "The sum of a column; 0 without values.", **_VALUE)
_sum_list = AGGREGATE.aggregate("SUM_LIST", "The sum of all elements of arrays; 0 without values.", **_VALUE)
_min = AGGREGATE.aggregate("MIN", "The least value; NULL without values.", **_VALUE)
_max = AGGREGATE.aggregate("MAX", "The greatest value; NULL without values.", **_VALUE)
_avg = AGGREGATE.aggregate("AVG", "The mean; 0 without values.", **_VALUE)
_sample = AGGREGATE.aggregate("STDDEV_SAMPLE", "The sample standard deviation; 0 with fewer than two values.", **_VALUE)
_samp = AGGREGATE.aggregate(
    "STDDEV_SAMP", "The sample variance (not its root: use STDDEV_SAMPLE); 0 with fewer than two values.", **_VALUE
)
_correlation = AGGREGATE.aggregate(
    "CORRELATION",
    "Pearson's coefficient of correlation; NaN with fewer than two rows without NULL, or if a column is constant.",
    x="a column",
    y="another column of the same type",
)
_EXACT: Final = Context(prec=2 * MAX_PRECISION)
State = dict[str, Any]


def _plus(one: Any, other: Any) -> Any:
    return one + other


@_count("() BIGINT")
def _(resolved: Resolved) -> Parts:
    return Parts(lambda: 0, lambda _, state: state + 1, _plus, BIGINT, undo=lambda _, state: state - 1)


@_count("(value ANY) BIGINT")
def _(resolved: Resolved) -> Parts:
    def add(value: Any, state: int) -> int:
        return state if value is None else state + 1

    def undo(value: Any, state: int) -> int:
        return state if value is None else state - 1

    return Parts(lambda: 0, add, _plus, BIGINT, undo=undo)


def adder(kind: SqlType) -> tuple[Any, Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """Return zero, addition and subtraction of a type. Integers wrap; a decimal that does not fit raises ValueError."""
    if kind == DOUBLE:
        return 0.0, _plus, lambda one, other: one - other
    if isinstance(kind, Decimal):
        zero = Number((0, (0,), -kind.scale))
        limit = Number((0, (1,), kind.precision - kind.scale))

        def checked(value: Number) -> Number:
            if not -limit < value < limit:
                raise ValueError(f"the sum {value} does not fit {kind}: cast the column to a greater precision")
            return value

        return (
            zero,
            lambda one, other: checked(_EXACT.add(one, other)),
            lambda one, other: checked(_EXACT.subtract(one, other)),
        )
    wrap = wrap_integer if kind == INTEGER else wrap_bigint
    return 0, lambda one, other: wrap(one + other), lambda one, other: wrap(one - other)


_NUMBERS = ("INT", "BIGINT", "DOUBLE")


@_sum(*(f"(value {each}) {each}" for each in _NUMBERS))
@_sum("(value DECIMAL)", returns=same_type)
def _(resolved: Resolved) -> Parts:
    kind = same_type(resolved.types)
    zero, plus, minus = adder(kind)

    def add(value: Any, state: Any) -> Any:
        return state if value is None else plus(state, value)

    def undo(value: Any, state: Any) -> Any:
        return state if value is None else minus(state, value)

    return Parts(lambda: zero, add, plus, kind, undo=undo)


@_sum_list(*(f"(value ARRAY<{each}>) {each}" for each in _NUMBERS))
def _(resolved: Resolved) -> Parts:
    kind = resolved.return_type
    assert kind is not None
    zero, plus, minus = adder(kind)

    def add(value: list[Any] | None, state: Any) -> Any:
        for each in value or ():
            if each is not None:
                state = plus(state, each)
        return state

    def undo(value: list[Any] | None, state: Any) -> Any:
        for each in value or ():
            if each is not None:
                state = minus(state, each)
        return state

    return Parts(lambda: zero, add, plus, kind, undo=undo)


def ordered(kind: SqlType) -> bool:
    """True for types with an order."""
    return (isinstance(kind, Primitive) and kind != BOOLEAN) or isinstance(kind, Decimal)


def _extreme(choose: Callable[[Any, Any], Any]) -> Callable[[Resolved], Parts]:
    def build(resolved: Resolved) -> Parts:
        def add(value: Any, state: Any) -> Any:
            if value is None:
                return state
            return value if state is None else choose(state, value)

        return Parts(lambda: None, add, add, same_type(resolved.types))

    return build


_min("(value T) T", only={"T": ordered})(_extreme(min))
_max("(value T) T", only={"T": ordered})(_extreme(max))


def _total_type(kind: SqlType) -> SqlType:
    """Return the type of a sum in a state: that of integers does not wrap at 32 bits."""
    return DOUBLE if kind == DOUBLE else BIGINT


@_avg(*(f"(value {each}) DOUBLE" for each in _NUMBERS))
def _(resolved: Resolved) -> Parts:
    total = _total_type(same_type(resolved.types))
    zero, plus, minus = adder(total)

    def add(value: Any, state: State) -> State:
        return state if value is None else {"SUM": plus(state["SUM"], value), "COUNT": state["COUNT"] + 1}

    def undo(value: Any, state: State) -> State:
        return state if value is None else {"SUM": minus(state["SUM"], value), "COUNT": state["COUNT"] - 1}

    def merge(one: State, other: State) -> State:
        return {"SUM": plus(one["SUM"], other["SUM"]), "COUNT": one["COUNT"] + other["COUNT"]}

    def result(state: State) -> float:
        return float(state["SUM"]) / state["COUNT"] if state["COUNT"] else 0.0

    return Parts(
        lambda: {"SUM": zero, "COUNT": 0}, add, merge, Struct((("SUM", total), ("COUNT", BIGINT))), undo, result
    )


def _deviation(finish: Callable[[float], float]) -> Callable[[Resolved], Parts]:
    """Return the builder of a function of the sum of squared differences from the mean (Youngs and Cramer, 1971)."""

    def build(resolved: Resolved) -> Parts:
        total = _total_type(same_type(resolved.types))
        zero = 0.0 if total == DOUBLE else 0

        def add(value: Any, state: State) -> State:
            if value is None:
                return state
            count, sum_ = state["COUNT"] + 1, state["SUM"] + value
            squares = state["M2"]
            if count > 1:
                difference = count * value - sum_
                squares += difference * difference / (count * (count - 1))
            return {"SUM": sum_, "COUNT": count, "M2": squares}

        def undo(value: Any, state: State) -> State:
            if value is None:
                return state
            count, sum_, squares = state["COUNT"], state["SUM"], state["M2"]
            if count > 1:
                difference = count * value - sum_
                squares -= difference * difference / (count * (count - 1))
            return {"SUM": sum_ - value, "COUNT": count - 1, "M2": squares if count > 2 else 0.0}

        def merge(one: State, other: State) -> State:
            first, second = one["COUNT"], other["COUNT"]
            if not first or not second:
                return one if first else other
            apart = other["SUM"] / second - one["SUM"] / first
            return {
                "SUM": one["SUM"] + other["SUM"],
                "COUNT": first + second,
                "M2": one["M2"] + other["M2"] + apart * apart * first * second / (first + second),
            }

        def result(state: State) -> float:
            return finish(state["M2"] / (state["COUNT"] - 1)) if state["COUNT"] > 1 else 0.0

        fields = Struct((("SUM", total), ("COUNT", BIGINT), ("M2", DOUBLE)))
        return Parts(lambda: {"SUM": zero, "COUNT": 0, "M2": 0.0}, add, merge, fields, undo, result)

    return build


_sample(*(f"(value {each}) DOUBLE" for each in _NUMBERS))(_deviation(lambda value: math.sqrt(max(value, 0.0))))
_samp(*(f"(value {each}) DOUBLE" for each in _NUMBERS))(_deviation(lambda value: value))
_SUMS = ("COUNT", "SUM_X", "SUM_Y", "SUM_XX", "SUM_YY", "SUM_XY")


@_correlation(*(f"(x {each}, y {each}) DOUBLE" for each in _NUMBERS))
def _(resolved: Resolved) -> Parts:
    def changed(value: tuple[Any, Any], state: State, sign: int) -> State:
        if value[0] is None or value[1] is None:
            return state
        x, y = float(value[0]), float(value[1])
        steps = (1, x, y, x * x, y * y, x * y)
        return {name: state[name] + sign * step for name, step in zip(_SUMS, steps, strict=True)}

    def merge(one: State, other: State) -> State:
        return {name: one[name] + other[name] for name in _SUMS}

    def result(state: State) -> float:
        count, x, y, xx, yy, xy = (state[name] for name in _SUMS)
        spread = (count * xx - x * x) * (count * yy - y * y)
        return (count * xy - x * y) / math.sqrt(spread) if spread > 0 else math.nan

    return Parts(
        lambda: {"COUNT": 0} | dict.fromkeys(_SUMS[1:], 0.0),
        lambda value, state: changed(value, state, 1),
        merge,
        Struct((("COUNT", BIGINT), *((name, DOUBLE) for name in _SUMS[1:]))),
        lambda value, state: changed(value, state, -1),
        result,
    )
