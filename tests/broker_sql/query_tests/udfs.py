"""Functions that ksqlDB's tests bring with them: the same names, parameters and results."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Final

from broker_sql import types
from broker_sql.functions import FunctionRegistry
from broker_sql.functions.definitions import Category, Parts, Resolved
from broker_sql.java_format import value_text

TESTS: Final = Category("TEST")
_STRUCT: Final = types.Struct((("A", types.STRING),))
_PAIR: Final = types.Struct((("A", types.INTEGER), ("B", types.INTEGER)))

# ------------------------------------------------------------------------------------------------ scalar functions

named = TESTS.scalar("test_udf", "The name of the overload.", a="a", b="b", c="c")
for _text, _name in (
    ("(a INT, b STRING) STRING", "doStuffIntString"),
    ("(a BIGINT, b STRING) STRING", "doStuffLongString"),
    ("(a BIGINT, b BIGINT, c STRING) STRING", "doStuffLongLongString"),
    ("(a BIGINT...) STRING", "doStuffLongVarargs"),
):
    named(_text)(lambda *_, _name=_name: _name)


@named("(a STRUCT<A STRING>) STRING", strict=True)
def _(a: dict[str, Any]) -> Any:
    return a["A"]


@named("() STRUCT<A STRING>")
def _() -> Any:
    return {"A": "foo"}


bad = TESTS.scalar("bad_udf", "Fails.", a="a")


@bad("(a INT) STRING")
def _(a: int) -> str:
    raise RuntimeError("boom!")


@bad("(a BOOLEAN) INT")
def _(a: bool) -> int:
    if a:
        raise RuntimeError("You asked me to throw...")
    return 0


@bad("(a STRING) STRING", build=True)
def _(_resolved: Resolved) -> Callable[[str], str | None]:
    calls = count()
    return lambda a: None if next(calls) % 2 == 0 else a


for _name, _kind in (("WhenCondition", "BOOLEAN"), ("WhenResult", "INT")):

    @TESTS.scalar(_name, "Fails if it is evaluated and should not be.", a="a", b="b")(f"(a {_kind}, b BOOLEAN) {_kind}")
    def _(a: Any, b: bool) -> Any:
        if not b:
            raise RuntimeError("CASE is not lazy")
        return a


@TESTS.scalar("tostruct", "A text in a struct.", a="a")("(a STRING) STRUCT<A STRING>")
def _(a: str | None) -> dict[str, Any]:
    return {"A": a}


# ------------------------------------------------------------------------------------------------ table functions

_KINDS: Final = ("INT", "BIGINT", "DOUBLE", "BOOLEAN", "STRING", "DECIMAL", "STRUCT<A STRING>")
_NAMES: Final = "abcdefg"
rows = TESTS.table("test_udtf", "The arguments as rows.", **{each: each for each in _NAMES})


def _signature(pattern: str) -> str:
    parameters = [f"{name} {pattern.format(kind)}" for name, kind in zip(_NAMES, _KINDS, strict=True)]
    return f"({', '.join(parameters)}) STRING"


def _texts(resolved: Resolved, first: Callable[[Any], Any], inner: Callable[[Any], Any]) -> Callable[..., Any]:
    kinds = [inner(each) for each in resolved.types]
    return lambda *values: [
        str(first(value)) if isinstance(kind, types.Decimal) else value_text(first(value), kind)
        for value, kind in zip(values, kinds, strict=True)
    ]


rows(_signature("{}"), build=True)(lambda resolved: _texts(resolved, lambda value: value, lambda kind: kind))
rows(_signature("ARRAY<{}>"), build=True)(
    lambda resolved: _texts(resolved, lambda value: value[0], lambda kind: kind.element)
)
rows(_signature("MAP<STRING, {}>"), build=True)(
    lambda resolved: _texts(resolved, lambda value: next(iter(value.values())), lambda kind: kind.value)
)
rows(_signature("MAP<STRING, {}>").replace("MAP<STRING, INT>", "MAP<BIGINT, INT>"), build=True)(
    lambda resolved: _texts(resolved, lambda value: next(iter(value.values())), lambda kind: kind.value)
)
for _kind in ("INT", "BIGINT", "DOUBLE", "BOOLEAN", "STRING", "STRUCT<A STRING>"):
    rows(f"(a {_kind}) {_kind}")(lambda value: [value])
rows("(a DECIMAL) DECIMAL(30, 10)")(lambda value: [value])


@TESTS.table("throwing_udtf", "Fails for true.", a="a")("(a BOOLEAN) BOOLEAN")
def _(a: bool) -> list[bool]:
    if a:
        raise RuntimeError("You asked me to throw...")
    return [a]


# ------------------------------------------------------------------------------------------------ aggregate functions

_ARGUMENTS: Final = {each: each for each in "abcdexyz"}


def _length(value: Any) -> int:
    return 0 if value is None else value if isinstance(value, int) else len(value)


def _flat(values: Any) -> list[Any]:
    """The arguments of a call, those of a variadic parameter too."""
    if not isinstance(values, list | tuple):
        return [values]
    return [inner for each in values for inner in _flat(each)]


def _sum_parts(start: int = 0, end: int = 0) -> Parts:
    return Parts(
        initialize=lambda: start,
        add=lambda value, state: state + sum(map(_length, _flat(value))),
        merge=lambda state, other: state + other,
        intermediate=types.BIGINT,
        result=lambda state: state + end,
        return_type=types.BIGINT,
    )


for _name, _text in (
    ("MULTI_ARG", "a BIGINT, b STRING"),
    ("FOUR_ARG", "a BIGINT, b STRING, c STRING, d STRING"),
    ("FIVE_ARG", "a BIGINT, b STRING, c STRING, d STRING, e INT"),
):
    _made = TESTS.aggregate(_name, "Sums numbers and lengths.", **_ARGUMENTS)
    _made(f"({_text}; x INT, y STRING...) BIGINT", build=True)(
        lambda resolved: _sum_parts(sum(map(_length, _flat(resolved.constants))))
    )
TESTS.aggregate("VAR_ARG", "Sums numbers and lengths.", **_ARGUMENTS)("(a BIGINT, b STRING...) BIGINT", build=True)(
    lambda resolved: _sum_parts()
)
TESTS.aggregate("MID_VAR_ARG", "Sums numbers and lengths.", **_ARGUMENTS)(
    "(a BIGINT, b STRING...; x INT, y INT) BIGINT", build=True
)(lambda resolved: _sum_parts(end=sum(_flat(resolved.constants))))


def _collected(kind: types.SqlType) -> Parts:
    def add(value: Any, state: list[Any]) -> list[Any]:
        return state if None in _flat(value) else [*state, value[0]]

    return Parts(
        initialize=list,
        add=add,
        merge=lambda state, other: [*state, *other],
        intermediate=types.Array(kind),
        return_type=types.Array(kind),
    )


TESTS.aggregate("GENERIC_VAR_ARG", "Values of complete rows.", **_ARGUMENTS)("(a A, b B, c C...) ARRAY<A>", build=True)(
    lambda resolved: _collected(_known(resolved.types[0]))
)
TESTS.aggregate("OBJ_COL_ARG", "Values of complete rows.", **_ARGUMENTS)("(a INT, b ANY...) ARRAY<INT>", build=True)(
    lambda resolved: _collected(types.INTEGER)
)


def _known(kind: types.SqlType | None) -> types.SqlType:
    assert kind is not None
    return kind


totals = TESTS.aggregate("test_udaf", "Sums.", **_ARGUMENTS)


@totals("(a BIGINT) BIGINT", "(a INT) BIGINT", build=True)
def _(resolved: Resolved) -> Parts:
    is_integer = resolved.types[0] == types.INTEGER
    start = int(resolved.environment.settings.get("ksql.functions.test_udaf.init", 0)) if is_integer else 0
    return Parts(
        initialize=lambda: start,
        add=lambda value, state: state + value,
        merge=lambda state, other: state + other,
        undo=lambda value, state: state - value,
        intermediate=types.BIGINT,
        return_type=types.BIGINT,
    )


@totals("(a DOUBLE) DOUBLE", build=True)
def _(_resolved: Resolved) -> Parts:
    return Parts(
        initialize=lambda: 0.0,
        add=lambda value, state: state + value,
        merge=lambda state, other: state + other,
        intermediate=types.DOUBLE,
        return_type=types.DOUBLE,
    )


@totals("(a STRING; x STRING) BIGINT", build=True)
def _(resolved: Resolved) -> Parts:
    return _sum_parts(_length(resolved.constants[0]))


@totals("(a STRUCT<A INT, B INT>) STRUCT<A INT, B INT>", build=True)
def _(_resolved: Resolved) -> Parts:
    def add(value: dict[str, int], state: dict[str, int]) -> dict[str, int]:
        return {name: state[name] + value[name] for name in ("A", "B")}

    return Parts(initialize=lambda: {"A": 0, "B": 0}, add=add, merge=add, intermediate=_PAIR, return_type=_PAIR)


def with_test_functions(registry: FunctionRegistry) -> FunctionRegistry:
    return registry.extended(TESTS.functions)
