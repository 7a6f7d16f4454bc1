"""Functions of arrays, maps and JSON."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from broker_sql.errors import AnalysisError
from tests.broker_sql.functions.support import REGISTRY, kinds, returned, scalar

AI, AS, MI = "ARRAY<INT>", "ARRAY<STRING>", "MAP<STRING, INT>"
S, N, L = "STRING", "INT", "BIGINT"


@pytest.mark.parametrize(
    ("name", "types", "values", "wanted"),
    [
        ("ARRAY_CONCAT", [AI, AI], ([1, None], [1]), [1, None, 1]),
        ("ARRAY_CONCAT", [AI, AI], (None, [1]), [1]),
        ("ARRAY_CONCAT", [AI, AI], (None, None), None),
        ("ARRAY_CONTAINS", [AI, N], ([1, None], None), True),
        ("ARRAY_CONTAINS", [AI, N], (None, 1), False),
        ("ARRAY_CONTAINS", [AS, S], (["a"], "A"), False),
        ("ARRAY_DISTINCT", [AI], ([2, None, 2, None, 1],), [2, None, 1]),
        ("ARRAY_DISTINCT", ["ARRAY<ARRAY<INT>>"], ([[1], [1], [2]],), [[1], [2]]),
        ("ARRAY_DISTINCT", [AI], (None,), None),
        ("ARRAY_EXCEPT", [AI, AI], ([3, 1, 3, None], [1]), [3, None]),
        ("ARRAY_EXCEPT", [AI, AI], ([1], None), None),
        ("ARRAY_INTERSECT", [AI, AI], ([3, 1, 3, None], [None, 3]), [3, None]),
        ("ARRAY_UNION", [AI, AI], ([3, 1, 3], [4, 1]), [3, 1, 4]),
        ("ARRAY_UNION", [AI, AI], (None, [4]), None),
        ("ARRAY_JOIN", [AI], ([1, None, 2],), "1,null,2"),
        ("ARRAY_JOIN", [AI, S], ([1, 2], None), "12"),
        ("ARRAY_JOIN", ["ARRAY<DOUBLE>", S], ([1.0, 1e10], " "), "1.0 1.0E10"),
        ("ARRAY_JOIN", ["ARRAY<BOOLEAN>"], ([True, False],), "true,false"),
        ("ARRAY_JOIN", ["ARRAY<DECIMAL(4, 2)>"], ([Decimal("1.50")],), "1.50"),
        ("ARRAY_JOIN", [AI], ([],), ""),
        ("ARRAY_JOIN", [AI], (None,), None),
        ("ARRAY_LENGTH", ["ARRAY<MAP<STRING, INT>>"], ([{}, None],), 2),
        ("ARRAY_LENGTH", [AI], (None,), None),
        ("ARRAY_MAX", [AI], ([1, None, 3],), 3),
        ("ARRAY_MAX", [AS], (["b", "B"],), "b"),
        ("ARRAY_MIN", ["ARRAY<BOOLEAN>"], ([True, False],), False),
        ("ARRAY_MIN", [AI], ([None],), None),
        ("ARRAY_MIN", [AI], (None,), None),
        ("ARRAY_REMOVE", [AI, N], ([1, None, 1, 2], 1), [None, 2]),
        ("ARRAY_REMOVE", [AI, N], ([1, None], None), [1]),
        ("ARRAY_REMOVE", [AI, N], (None, 1), None),
        ("ARRAY_SORT", [AI], ([2, None, 1],), [1, 2, None]),
        ("ARRAY_SORT", [AI, S], ([2, None, 1, 3], "descending"), [3, 2, 1, None]),
        ("ARRAY_SORT", [AI, S], ([2, 1], "up"), None),
        ("ARRAY_SORT", [AI, S], ([2, 1], None), None),
        ("SLICE", [AI, N, N], ([1, 2, 3], 2, 3), [2, 3]),
        ("SLICE", [AI, N, N], ([1, 2, 3], None, 2), [1, 2]),
        ("SLICE", [AI, N, N], ([1, 2, 3], 2, None), [2, 3]),
        ("SLICE", [AI, N, N], ([1, 2, 3], 2, 4), None),
        ("SLICE", [AI, N, N], ([1, 2, 3], 0, 2), None),
        ("SLICE", [AI, N, N], (None, 1, 2), None),
        ("GENERATE_SERIES", [N, N], (1, 3), [1, 2, 3]),
        ("GENERATE_SERIES", [N, N], (3, 1), [3, 2, 1]),
        ("GENERATE_SERIES", [L, L, N], (0, 10, 4), [0, 4, 8]),
        ("GENERATE_SERIES", [N, N, N], (5, 0, -5), [5, 0]),
        ("GENERATE_SERIES", [N, N, N], (5, 5, -5), [5]),
        ("AS_MAP", [AS, AI], (["a", "b", "c"], [1, 2]), {"a": 1, "b": 2}),
        ("AS_MAP", [AS, AI], (None, [1]), None),
        ("ENTRIES", [MI, "BOOLEAN"], ({"b": 1, "a": None}, True), [{"K": "a", "V": None}, {"K": "b", "V": 1}]),
        ("ENTRIES", [MI, "BOOLEAN"], ({"b": 1, "a": 2}, False), [{"K": "b", "V": 1}, {"K": "a", "V": 2}]),
        ("ENTRIES", [MI, "BOOLEAN"], (None, True), None),
        ("MAP_KEYS", [MI], ({"b": 1},), ["b"]),
        ("MAP_KEYS", [MI], (None,), None),
        ("MAP_VALUES", [MI], ({"b": 1, "c": None},), [1, None]),
        ("MAP_UNION", [MI, MI], ({"a": 1, "b": 2}, {"b": 3}), {"a": 1, "b": 3}),
        ("MAP_UNION", [MI, MI], (None, {"b": 3}), {"b": 3}),
        ("MAP_UNION", [MI, MI], (None, None), None),
        ("EXTRACTJSONFIELD", [S, S], ('{"a": {"b": [1, {"c": 1.500}]}}', "$.a.b[1].c"), "1.500"),
        ("EXTRACTJSONFIELD", [S, S], ('{"a": {"b": [1, 2.0]}}', "$.a"), '{"b":[1,2.0]}'),
        ("EXTRACTJSONFIELD", [S, S], ('{"a b": true}', "$['a b']"), "true"),
        ("EXTRACTJSONFIELD", [S, S], ('{"a": null}', "$.a"), None),
        ("EXTRACTJSONFIELD", [S, S], ("[1, 2]", "$.1"), "2"),
        ("EXTRACTJSONFIELD", [S, S], ("[1, 2]", "$[-1]"), None),
        ("EXTRACTJSONFIELD", [S, S], ("[1, 2]", "$[2]"), None),
        ("EXTRACTJSONFIELD", [S, S], ('{"a": "x"}', "$.a.b"), None),
        ("EXTRACTJSONFIELD", [S, S], ('"\u00e4"', "$"), "\u00e4"),
        ("EXTRACTJSONFIELD", [S, S], (None, "$"), None),
        ("IS_JSON_STRING", [S], ("[1, {}]",), True),
        ("IS_JSON_STRING", [S], ("[1, {]",), False),
        ("IS_JSON_STRING", [S], ("NaN",), False),
        ("IS_JSON_STRING", [S], ("",), False),
        ("IS_JSON_STRING", [S], (None,), False),
        ("JSON_ARRAY_CONTAINS", [S, N], ("[1, [2]]", 1), True),
        ("JSON_ARRAY_CONTAINS", [S, N], ("[1, [2]]", 2), False),
        ("JSON_ARRAY_CONTAINS", [S, "DOUBLE"], ("[1]", 1.0), False),
        ("JSON_ARRAY_CONTAINS", [S, "DOUBLE"], ("[1.5e1]", 15.0), True),
        ("JSON_ARRAY_CONTAINS", [S, S], ("[null]", None), True),
        ("JSON_ARRAY_CONTAINS", [S, "BOOLEAN"], ("[1]", True), False),
        ("JSON_ARRAY_CONTAINS", [S, S], ('{"a": 1}', "a"), False),
        ("JSON_ARRAY_CONTAINS", [S, S], ("[", "a"), False),
        ("JSON_ARRAY_LENGTH", [S], ("[[1, 2], 3]",), 2),
        ("JSON_ARRAY_LENGTH", [S], ("{}",), None),
        ("JSON_ARRAY_LENGTH", [S], (None,), None),
        ("JSON_CONCAT", [S, S], ('{"a": 1, "b": 2}', '{"a": [3]}'), '{"a":[3],"b":2}'),
        ("JSON_CONCAT", [S, S], ("[1]", '{"a": 2.50}'), '[1,{"a":2.50}]'),
        ("JSON_CONCAT", [S, S], ('"a"', "null"), '["a",null]'),
        ("JSON_CONCAT", [S, S], ("1", None), None),
        ("JSON_KEYS", [S], ('{"b": {"c": 1}, "a": 2}',), ["b", "a"]),
        ("JSON_KEYS", [S], ("[]",), None),
        ("JSON_RECORDS", [S], ('{"a": "x", "b": [1, 2]}',), {"a": "x", "b": "[1,2]"}),
        ("JSON_RECORDS", [S], ("1",), None),
        ("JSON_ITEMS", [S], ('[1, "a", {"b": null}]',), ["1", '"a"', '{"b":null}']),
        ("JSON_ITEMS", [S], ("{}",), None),
        ("TO_JSON_STRING", [N], (None,), "null"),
        ("TO_JSON_STRING", ["DOUBLE"], (1e21,), "1.0E21"),
        ("TO_JSON_STRING", ["DECIMAL(6, 3)"], (Decimal("1.500"),), "1.500"),
        ("TO_JSON_STRING", [S], ('a"\u00e4\n',), '"a\\"\u00e4\\n"'),
        ("TO_JSON_STRING", ["BYTES"], (b"\x00\xff",), '"AP8="'),
        ("TO_JSON_STRING", ["DATE"], (-1,), '"1969-12-31"'),
        ("TO_JSON_STRING", ["TIME"], (3_600_000,), '"01:00"'),
        ("TO_JSON_STRING", ["TIMESTAMP"], (1_500,), '"1970-01-01T00:00:01.500"'),
        ("TO_JSON_STRING", ["ARRAY<MAP<STRING, BOOLEAN>>"], ([{"a": True}, None],), '[{"a":true},null]'),
        ("TO_JSON_STRING", ["STRUCT<A INT, B ARRAY<STRING>>"], ({"A": 1, "B": ["x"]},), '{"A":1,"B":["x"]}'),
    ],
)  # fmt: skip
def test_values(name: str, types: list[str], values: tuple[Any, ...], wanted: Any) -> None:
    found = scalar(name, types, *values)
    assert found == wanted
    assert type(found) is type(wanted)


@pytest.mark.parametrize(
    ("name", "types", "values", "error"),
    [
        ("GENERATE_SERIES", [N, N, N], (0, 5, 0), "step 0"),
        ("GENERATE_SERIES", [N, N, N], (0, 5, -1), "step -1 does not lead from 0 to 5"),
        ("GENERATE_SERIES", [L, L], (0, 2**60), "at most 10000000"),
        ("EXTRACTJSONFIELD", [S, S], ("nothing", "$.a"), "Invalid JSON"),
        ("EXTRACTJSONFIELD", [S, S], ("{}", "a"), "JSON path 'a'"),
        ("EXTRACTJSONFIELD", [S, S], ("{}", "$..a"), r"\.\.a"),
        ("JSON_ARRAY_LENGTH", [S], ("[1",), "Invalid JSON"),
        ("JSON_ITEMS", [S], ("abc",), "Invalid JSON"),
    ],
)
def test_errors_name_the_value(name: str, types: list[str], values: tuple[Any, ...], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        scalar(name, types, *values)


def test_types() -> None:
    assert returned("ARRAY_MAX", "ARRAY<DECIMAL(4, 2)>") == "DECIMAL(4, 2)"
    assert returned("ENTRIES", "MAP<STRING, DOUBLE>", "BOOLEAN") == "ARRAY<STRUCT<`K` STRING, `V` DOUBLE>>"
    assert returned("AS_MAP", AS, "ARRAY<BIGINT>") == "MAP<STRING, BIGINT>"
    assert returned("SLICE", "ARRAY<ARRAY<INT>>", N, N) == "ARRAY<ARRAY<INTEGER>>"


@pytest.mark.parametrize("name", ["ARRAY_MAX", "ARRAY_MIN", "ARRAY_SORT", "ARRAY_JOIN"])
def test_collections_in_arrays_have_no_order(name: str) -> None:
    with pytest.raises(AnalysisError, match="there is no form"):
        REGISTRY.scalar(name, kinds("ARRAY<ARRAY<INT>>"))


def test_results_are_not_the_arguments() -> None:
    given = [3, 1]
    scalar("ARRAY_SORT", [AI], given)
    assert given == [3, 1]
