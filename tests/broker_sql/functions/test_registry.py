"""Resolution of names and types of arguments to calls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from broker_sql.errors import AnalysisError
from broker_sql.functions import FunctionRegistry, LambdaShape, LambdaType
from broker_sql.functions.definitions import Category, Function
from broker_sql.types import BIGINT, BOOLEAN, INTEGER, STRING, Array, Decimal, Map
from tests.broker_sql.functions.support import REGISTRY, kind, kinds, returned, scalar

ROOT = Path(__file__).parents[3]
NAMES = {each: each for each in ("a", "b", "c", "d")}


def made(*texts: str) -> FunctionRegistry:
    """Return a registry with the function F, whose overloads return the number of their signature and the arguments."""
    function: Function = Category("TEST").scalar("f", "Test.", **NAMES)
    for number, text in enumerate(texts):

        def call(*values: Any, number: int = number) -> Any:
            return number, values

        function(text + " INT")(call)
    return FunctionRegistry([function])


def chosen(registry: FunctionRegistry, *types: str | None) -> int:
    found = registry.scalar("F", kinds(*types))
    return int(found.call(*(None for _ in types))[0])


@pytest.mark.parametrize(
    ("texts", "types", "number"),
    [
        (["(a STRING)", "(a INT)"], ["INT"], 1),
        (["(a BIGINT)", "(a INT)", "(a DOUBLE)"], ["INT"], 1),
        (["(a BIGINT)"], ["INT"], 0),
        (["(a DOUBLE)"], ["DECIMAL(4, 2)"], 0),
        (["(a STRING...)", "(a STRING)"], ["STRING"], 1),
        (["(a STRING...)", "(a STRING)"], ["STRING", "STRING"], 0),
        (["(a STRING...)", "(a STRING, b STRING...)"], ["STRING", "STRING"], 1),
        (["(a STRING...)"], [], 0),
        (["(a INT, b STRING..., c INT)"], ["INT", "STRING", "STRING", "INT"], 0),
        (["(a INT, b STRING..., c INT)"], ["INT", "INT"], 0),
        (["(a INT, b A, c B)", "(a INT, b A, c INT)"], ["INT", "STRING", "INT"], 1),
        (["(a BIGINT, b INT..., c STRING)", "(a BIGINT, b INT, c STRING...)"], ["BIGINT", "INT", "STRING"], 1),
        (["(a INT, b ANY...)", "(a INT, b A...)"], ["INT", "STRING"], 1),
        (["(a STRING)", "(a STRING...)"], [None], 0),
        (["(a STRING, b INT)", "(a STRING...)"], ["STRING", None], 0),
        (["(a ARRAY<A>, b A)"], ["ARRAY<INT>", "INT"], 0),
        (["(a STRUCT<X INT>)", "(a STRUCT<Y INT>)"], ["STRUCT<Y INT>"], 1),
        (["(a MAP<STRING, INT>)", "(a MAP<STRING, STRING>)"], ["MAP<STRING, STRING>"], 1),
        (["(a INT, [b STRING], [c STRING])"], ["INT", "STRING"], 0),
    ],
)
def test_overload_is_chosen(texts: list[str], types: list[str | None], number: int) -> None:
    assert chosen(made(*texts), *types) == number


@pytest.mark.parametrize(
    ("texts", "types"),
    [
        (["(a STRING)"], ["INT"]),
        (["(a STRING)"], ["STRING", "STRING"]),
        (["(a INT)"], ["BIGINT"]),
        (["(a A, b A)"], ["INT", "STRING"]),
        (["(a ARRAY<A>, b ARRAY<A>)"], ["ARRAY<INT>", "ARRAY<STRING>"]),
        (["(a STRUCT<X BIGINT>)"], ["STRUCT<X INT>"]),
        (["(a STRING, b INT)", "(a STRING...)"], ["STRING", "INT", "STRING"]),
        (["(a INTERVALUNIT)"], ["STRING"]),
    ],
)
def test_wrong_arguments_are_refused_with_the_valid_ones(texts: list[str], types: list[str | None]) -> None:
    with pytest.raises(AnalysisError, match="there is no form F") as caught:
        chosen(made(*texts), *types)
    for text in texts:
        first = text.strip("()").split(",")[0].split(maxsplit=1)
        assert f"F({first[1]} {first[0]}" in caught.value.message


@pytest.mark.parametrize("types", [["INT", "BIGINT"], [None, None]])
def test_two_overloads_that_need_casts_are_ambiguous(types: list[str | None]) -> None:
    registry = made("(a BIGINT, b BIGINT)", "(a DOUBLE, b DOUBLE)")
    with pytest.raises(AnalysisError, match="is ambiguous"):
        chosen(registry, *types)


def test_parameters_are_the_types_after_casts() -> None:
    assert made("(a DOUBLE, b STRING)").scalar("f", [INTEGER, None]).parameters == (kind("DOUBLE"), STRING)
    assert made("(a DECIMAL)").scalar("f", [INTEGER]).parameters == (Decimal(10, 0),)
    assert made("(a A, b A)").scalar("f", [INTEGER, BIGINT]).parameters == (BIGINT, BIGINT)


@pytest.mark.parametrize(
    ("types", "wanted"),
    [
        (["INT", "BIGINT"], "BIGINT"),
        (["BIGINT", "INT", "DOUBLE"], "DOUBLE"),
        (["DECIMAL(2, 1)", "INT"], "DECIMAL(11, 1)"),
        (["BIGINT", "DECIMAL(2, 1)"], "DECIMAL(20, 1)"),
        (["DECIMAL(2, 1)", "DOUBLE", "INT"], "DOUBLE"),
        (["DECIMAL(4, 0)", "DECIMAL(2, 1)"], "DECIMAL(5, 1)"),
        ([None, "TIMESTAMP", "STRING"], "TIMESTAMP"),
    ],
)
def test_a_variable_has_the_common_type(types: list[str | None], wanted: str) -> None:
    found = REGISTRY.scalar("COALESCE", kinds(*types))
    assert {str(each) for each in (found.return_type, *found.parameters)} == {wanted}


def test_an_array_takes_the_place_of_variadic_arguments() -> None:
    found = made("(a INT, b STRING...)").scalar("f", [INTEGER, Array(STRING)])
    assert found.call(1, ["x", "y"]) == (0, (1, "x", "y"))


def test_return_types_follow_variables() -> None:
    assert returned("COALESCE", "ARRAY<DECIMAL(4, 2)>", None) == "ARRAY<DECIMAL(4, 2)>"
    assert returned("GREATEST", "DECIMAL(4, 2)", "DECIMAL(5, 1)") == "DECIMAL(6, 2)"
    with pytest.raises(AnalysisError, match="cannot be found from NULL"):
        REGISTRY.scalar("COALESCE", [None, None])


def test_lambdas_are_resolved_in_two_steps() -> None:
    pair = Map(STRING, INTEGER)
    assert REGISTRY.lambda_parameters("REDUCE", [pair, BIGINT, LambdaShape(3)]) == (
        None,
        None,
        (BIGINT, STRING, INTEGER),
    )
    found = REGISTRY.scalar("transform", [Array(INTEGER), LambdaType((INTEGER,), STRING)])
    assert str(found.return_type) == "ARRAY<STRING>"
    assert found.call([1, 2], str) == ["1", "2"]
    with pytest.raises(AnalysisError, match="there is no form"):
        REGISTRY.lambda_parameters("FILTER", [Array(INTEGER), LambdaShape(2)])
    with pytest.raises(AnalysisError, match="there is no form"):
        REGISTRY.scalar("FILTER", [Array(INTEGER), LambdaType((INTEGER,), STRING)])
    assert REGISTRY.scalar("FILTER", [Array(INTEGER), LambdaType((INTEGER,), BOOLEAN)]).call(
        [1, 5], lambda n: n > 2
    ) == [5]


def test_unknown_names_come_with_the_nearest() -> None:
    with pytest.raises(AnalysisError, match=r"there is no function coalesc\. Nearest names: COALESCE"):
        REGISTRY.scalar("coalesc", [INTEGER])
    with pytest.raises(AnalysisError, match="COUNT is not a scalar function: its kind is AGGREGATE"):
        REGISTRY.scalar("COUNT", [INTEGER])


def test_kinds_of_functions() -> None:
    assert REGISTRY.is_aggregate("count")
    assert not REGISTRY.is_aggregate("coalesce")
    assert REGISTRY.is_table("Explode")
    assert not REGISTRY.is_table("nothing")
    assert {"COUNT", "EXPLODE", "COALESCE"} <= set(REGISTRY.names())


def test_description() -> None:
    found = REGISTRY.describe("reduce")
    assert (found.name, found.kind, found.category) == ("REDUCE", "SCALAR", "LAMBDA")
    assert [[each.type for each in signature.arguments] for signature in found.signatures] == [
        ["ARRAY<T>", "S", "LAMBDA (S, T) => S"],
        ["MAP<K, V>", "S", "LAMBDA (S, K, V) => S"],
    ]
    assert all(each.description for signature in found.signatures for each in signature.arguments)
    with pytest.raises(AnalysisError, match="there is no function"):
        REGISTRY.describe("reducer")


def test_registries_do_not_change() -> None:
    more = REGISTRY.extended([Category("X").scalar("mine", "Mine.")])
    assert more.exists("MINE")
    assert not REGISTRY.exists("MINE")
    assert not more.without("mine").exists("MINE")
    with pytest.raises(ValueError, match="exists already"):
        REGISTRY.extended([Category("X").scalar("Coalesce", "Mine.")])


def test_constants_of_aggregates_must_be_literals() -> None:
    function = Category("X").aggregate("top", "Top.", value="the value", k="the number")
    function("(value T; k INT) T")(lambda resolved: resolved)
    with pytest.raises(AnalysisError, match="TOP: argument 2 is F0: a literal is expected"):
        FunctionRegistry([function]).aggregate("TOP", [STRING, INTEGER], {}, ["A", "F0"])


def test_table_functions() -> None:
    assert REGISTRY.table("EXPLODE", [Array(INTEGER)]).call([1, None, 2]) == [1, None, 2]
    assert REGISTRY.table("EXPLODE", [Array(INTEGER)]).call(None) == []
    cube = REGISTRY.table("CUBE_EXPLODE", [Array(INTEGER)])
    assert str(cube.return_type) == "ARRAY<INTEGER>"
    assert cube.call([1, 2]) == [[None, None], [None, 2], [1, None], [1, 2]]
    assert cube.call([1, None]) == [[None, None], [1, None]]


def test_cubes_have_a_bound() -> None:
    cube = REGISTRY.table("CUBE_EXPLODE", [Array(INTEGER)])
    assert len(list(cube.call([None] * 40 + [1]))) == 2
    with pytest.raises(ValueError, match="21 columns: at most 20"):
        cube.call([1] * 21)


def test_conditionals() -> None:
    assert scalar("COALESCE", ["INT", "INT"], None, 3) == 3
    assert scalar("IFNULL", ["STRING", "STRING"], "", "x") == ""
    assert scalar("NULLIF", ["INT", "INT"], 3, 3) is None
    assert scalar("GREATEST", ["INT", "INT", "INT"], 3, None, 9) == 9
    assert scalar("LEAST", ["STRING", "STRING"], None, None) is None


def test_all_functions_are_described() -> None:
    for name in REGISTRY.names():
        info = REGISTRY.describe(name)
        assert info.signatures, name
        assert info.description.endswith("."), name
        assert all(each.description for signature in info.signatures for each in signature.arguments), name


def test_page_of_functions_is_up_to_date() -> None:
    """If this fails, docs/sql-functions.md differs from the registry: run python tools/sql_doc.py."""
    command = [sys.executable, str(ROOT / "tools" / "sql_doc.py"), "--check"]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert found.returncode == 0, found.stderr
