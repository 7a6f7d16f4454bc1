"""Aggregate functions: results after each record, records taken back, and merged sessions."""

from __future__ import annotations

import copy
import math
import random
from decimal import Decimal
from typing import Any

import pytest

from broker_sql.errors import AnalysisError
from broker_sql.functions import Environment, standard
from tests.broker_sql.functions.support import REGISTRY, aggregated, kind, kinds

S, N, L, D = "STRING", "INT", "BIGINT", "DOUBLE"


@pytest.mark.parametrize(
    ("name", "types", "values", "wanted"),
    [
        ("COUNT", [], [1, None, 2], [1, 2, 3]),
        ("COUNT", [S], ["a", None, "b"], [1, 1, 2]),
        ("SUM", [N], [1, None, 2], [1, 1, 3]),
        ("SUM", [N], [2**31 - 1, 1], [2**31 - 1, -(2**31)]),
        ("SUM", [L], [2**63 - 1, 1], [2**63 - 1, -(2**63)]),
        ("SUM", [D], [0.5, 0.25], [0.5, 0.75]),
        ("SUM", [N], [None], [0]),
        ("SUM", ["DECIMAL(4, 2)"], [Decimal("1.10"), Decimal("-0.10")], [Decimal("1.10"), Decimal("1.00")]),
        ("SUM_LIST", ["ARRAY<INT>"], [[1, None, 2], None, [3]], [3, 3, 6]),
        ("SUM_LIST", ["ARRAY<DOUBLE>"], [[], [0.5]], [0.0, 0.5]),
        ("MIN", [N], [None, 3, 1, 2], [None, 3, 1, 1]),
        ("MAX", [S], ["b", "a", None, "c"], ["b", "b", "b", "c"]),
        ("MAX", ["BYTES"], [b"\x01", b"\xff"], [b"\x01", b"\xff"]),
        ("MIN", ["DECIMAL(2, 1)"], [Decimal("1.5"), Decimal("-1.5")], [Decimal("1.5"), Decimal("-1.5")]),
        ("AVG", [N], [1, None, 2], [1.0, 1.0, 1.5]),
        ("AVG", [N], [2**31 - 1, 2**31 - 1], [float(2**31 - 1)] * 2),
        ("AVG", [D], [None], [0.0]),
        ("AVG", [L], [2**63 - 1, 0, 0], [2.0**63, 2.0**62, 2.0**63 / 3]),
        ("STDDEV_SAMPLE", [N], [2, 4, None, 6], [0.0, 2**0.5, 2**0.5, 2.0]),
        ("STDDEV_SAMP", [D], [1.0, None, 3.0], [0.0, 0.0, 2.0]),
        ("CORRELATION", [N, N], [(1, 2), (2, None), (2, 4), (3, 6)], [math.nan, math.nan, 1.0, 1.0]),
        ("CORRELATION", [D, D], [(1.0, 2.0), (2.0, 2.0)], [math.nan, math.nan]),
        ("COLLECT_LIST", [N], [1, None, 1], [[1], [1, None], [1, None, 1]]),
        ("COLLECT_SET", [N], [1, None, 1], [[1], [1, None], [1, None]]),
        ("COLLECT_SET", ["MAP<STRING, INT>"], [{"a": 1}, {"a": 1}], [[{"a": 1}], [{"a": 1}]]),
        ("HISTOGRAM", [S], ["a", None, "b", "a"], [{"a": 1}, {"a": 1}, {"a": 1, "b": 1}, {"a": 2, "b": 1}]),
        ("ATTR", [S], ["a", "a", "b"], ["a", "a", None]),
        ("ATTR", [S], [None, None], [None, None]),
        ("COUNT_DISTINCT", [S], ["a", "b", "a", None], [1, 2, 2, 2]),
        ("COUNT_DISTINCT", ["ARRAY<MAP<STRING, INT>>"], [[{"a": 1, "b": 2}], [{"b": 2, "a": 1}]], [1, 1]),
    ],
)  # fmt: skip
def test_results(name: str, types: list[str], values: list[Any], wanted: list[Any]) -> None:
    found = aggregated(name, types, values)
    assert repr(found) == repr(wanted)


@pytest.mark.parametrize(
    ("name", "types", "constants", "values", "wanted"),
    [
        ("TOPK", [N, N], {1: 2}, [1, 3, None, 3, 2], [[1], [3, 1], [3, 1], [3, 3], [3, 3]]),
        ("TOPKDISTINCT", [N, N], {1: 2}, [1, 3, 3, 2], [[1], [3, 1], [3, 1], [3, 2]]),
        ("EARLIEST_BY_OFFSET", [N], {}, [None, 1, 2], [None, 1, 1]),
        ("EARLIEST_BY_OFFSET", [N, "BOOLEAN"], {1: False}, [None, 1], [None, None]),
        ("EARLIEST_BY_OFFSET", [N, N], {1: 2}, [1, None, 2, 3], [[1], [1], [1, 2], [1, 2]]),
        ("EARLIEST_BY_OFFSET", [N, N, "BOOLEAN"], {1: 2, 2: False}, [1, None, 2], [[1], [1, None], [1, None]]),
        ("LATEST_BY_OFFSET", [N], {}, [1, None, 2], [1, 1, 2]),
        ("LATEST_BY_OFFSET", [N, "BOOLEAN"], {1: False}, [1, None], [1, None]),
        ("LATEST_BY_OFFSET", [N, N], {1: 2}, [1, 2, None, 3], [[1], [1, 2], [1, 2], [2, 3]]),
        ("LATEST_BY_OFFSET", [N, N, "BOOLEAN"], {1: 2, 2: False}, [1, None, 2], [[1], [1, None], [None, 2]]),
        (
            "TOPK", [N, S, "BOOLEAN", N], {3: 2}, [(1, "a", True), (None, "x", True), (2, None, False), (1, "b", True)],
            [
                [{"sort_col": 1, "col0": "a", "col1": True}],
                [{"sort_col": 1, "col0": "a", "col1": True}],
                [{"sort_col": 2, "col0": None, "col1": False}, {"sort_col": 1, "col0": "a", "col1": True}],
                [{"sort_col": 2, "col0": None, "col1": False}, {"sort_col": 1, "col0": "a", "col1": True}],
            ],
        ),
    ],
)  # fmt: skip
def test_constants(
    name: str, types: list[str], constants: dict[int, Any], values: list[Any], wanted: list[Any]
) -> None:
    assert aggregated(name, types, values, constants) == wanted


UNDOABLE = [
    ("COUNT", [], [1, 2, 3]),
    ("COUNT", [S], ["a", None, "b"]),
    ("SUM", [N], [5, None, 7]),
    ("SUM", ["DECIMAL(4, 2)"], [Decimal("5.00"), None, Decimal("7.25")]),
    ("SUM_LIST", ["ARRAY<BIGINT>"], [[5], None, [7, None]]),
    ("AVG", [D], [5.0, None, 7.0]),
    ("STDDEV_SAMPLE", [N], [5, None, 7]),
    ("CORRELATION", [N, N], [(1, 2), (4, None), (7, 1)]),
    ("COLLECT_LIST", [S], ["a", None, "b"]),
    ("HISTOGRAM", [S], ["a", None, "b"]),
    ("ATTR", [S], ["a", "a", "b"]),
]


@pytest.mark.parametrize(("name", "types", "values"), UNDOABLE)
def test_what_is_taken_back_is_as_if_it_had_not_been(name: str, types: list[str], values: list[Any]) -> None:
    found = REGISTRY.aggregate(name, kinds(*types))
    assert found.undo is not None
    for back in range(len(values)):
        state, without = found.initialize(), found.initialize()
        for each in values:
            state = found.add(each, state)
        for each in values[:back] + values[back + 1 :]:
            without = found.add(each, without)
        before = copy.deepcopy(state)
        assert repr(found.result(found.undo(values[back], state))) == repr(found.result(without))
        assert state == before, "a state must not change"


def test_histogram_and_attr_forget_what_is_gone() -> None:
    for name in ("HISTOGRAM", "ATTR"):
        found = REGISTRY.aggregate(name, kinds(S))
        assert found.undo is not None
        assert found.undo("a", found.add("a", found.initialize())) == found.initialize()
        assert found.undo("a", found.initialize()) == found.initialize()


@pytest.mark.parametrize(
    "name", ["MIN", "MAX", "COLLECT_SET", "COUNT_DISTINCT", "EARLIEST_BY_OFFSET", "LATEST_BY_OFFSET"]
)
def test_functions_for_streams_only(name: str) -> None:
    assert REGISTRY.aggregate(name, kinds(N)).undo is None


MERGED = [
    ("COUNT", [S], {}, ["a", None, "b", "c"]),
    ("SUM", [N], {}, [1, None, 2, 3]),
    ("SUM_LIST", ["ARRAY<INT>"], {}, [[1], None, [2, 3], []]),
    ("MIN", [N], {}, [4, None, 2, 3]),
    ("MAX", [N], {}, [None, None, 2, 3]),
    ("AVG", [N], {}, [1, None, 2, 6]),
    ("STDDEV_SAMPLE", [D], {}, [1.0, 2.0, 4.0, 8.0]),
    ("STDDEV_SAMP", [N], {}, [None, None, 4, 8]),
    ("CORRELATION", [N, N], {}, [(1, 1), (2, 3), (3, 2), (4, 4)]),
    ("COLLECT_LIST", [N], {}, [1, None, 1, 2]),
    ("COLLECT_SET", [N], {}, [1, None, 1, 2]),
    ("HISTOGRAM", [S], {}, ["a", "b", "a", None]),
    ("ATTR", [S], {}, ["a", "a", "a", "b"]),
    ("COUNT_DISTINCT", [S], {}, ["a", "b", "a", "c"]),
    ("TOPK", [N, N], {1: 2}, [1, 4, 2, 4]),
    ("TOPKDISTINCT", [N, N], {1: 2}, [4, 1, 4, 2]),
    ("TOPK", [N, S, N], {2: 3}, [(1, "a"), (4, "b"), (2, "c"), (4, "d")]),
    ("EARLIEST_BY_OFFSET", [N], {}, [None, 1, 2, 3]),
    ("EARLIEST_BY_OFFSET", [N, N], {1: 3}, [1, 2, 3, 4]),
    ("LATEST_BY_OFFSET", [N], {}, [1, 2, None, None]),
    ("LATEST_BY_OFFSET", [N, N], {1: 3}, [1, 2, 3, 4]),
]


@pytest.mark.parametrize(("name", "types", "constants", "values"), MERGED)
@pytest.mark.parametrize("at", range(5))
def test_merged_sessions(name: str, types: list[str], constants: dict[int, Any], values: list[Any], at: int) -> None:
    found = REGISTRY.aggregate(name, kinds(*types), constants)
    states = []
    for part in (values[:at], values[at:], values):
        state = found.initialize()
        for each in part:
            state = found.add(each, state)
        states.append(state)
    merged, wanted = found.result(found.merge(states[0], states[1])), found.result(states[2])
    assert merged == (pytest.approx(wanted) if isinstance(wanted, float) else wanted)


def test_offsets_decide_and_not_the_order_of_sessions() -> None:
    for name, wanted in (("EARLIEST_BY_OFFSET", "first"), ("LATEST_BY_OFFSET", "second")):
        found = REGISTRY.aggregate(name, kinds(S))
        early = found.add("first", found.initialize())
        late = found.add("second", found.initialize())
        assert found.result(found.merge(late, early)) == found.result(found.merge(early, late)) == wanted


def test_numbers_of_records_grow_over_a_restart() -> None:
    clock = [1000]
    registry = standard(Environment(now_ms=lambda: clock[0]))
    before = registry.aggregate("LATEST_BY_OFFSET", kinds(S))
    old = before.add("old", before.initialize())
    clock[0] += 1
    after = registry.aggregate("LATEST_BY_OFFSET", kinds(S))
    new = after.add("new", after.initialize())
    assert after.result(after.merge(new, old)) == "new"


def test_limits_are_settings() -> None:
    settings = {"ksql.functions.collect_list.limit": "2", "ksql.functions.collect_set.limit": "-1"}
    registry = standard(Environment(settings=settings))
    for name, length in (("COLLECT_LIST", 2), ("COLLECT_SET", 5)):
        found = registry.aggregate(name, kinds(N))
        state = found.initialize()
        for each in range(5):
            state = found.add(each, state)
        assert len(found.result(state)) == length
    wrong = standard(Environment(settings={"ksql.functions.collect_list.limit": "many"}))
    with pytest.raises(AnalysisError, match="many: a number is expected"):
        wrong.aggregate("COLLECT_LIST", kinds(N))


def test_histogram_has_a_limit() -> None:
    found = aggregated("HISTOGRAM", [S], [str(each) for each in range(1002)])[-1]
    assert len(found) == 1000
    assert "999" in found
    assert "1000" not in found


def test_sums_of_decimals_must_fit() -> None:
    with pytest.raises(ValueError, match=r"the sum 10.0 does not fit DECIMAL\(2, 1\)"):
        aggregated("SUM", ["DECIMAL(2, 1)"], [Decimal("9.9"), Decimal("0.1")])


@pytest.mark.parametrize(
    ("name", "error"), [("TOPK", "k must be 1 or greater, but is 0"), ("LATEST_BY_OFFSET", "latestN must be 1")]
)
def test_wrong_numbers_are_refused(name: str, error: str) -> None:
    with pytest.raises(AnalysisError, match=error):
        REGISTRY.aggregate(name, kinds(N, N), {1: 0})


def test_types() -> None:
    found = REGISTRY.aggregate("TOPK", kinds(D, S, N), {2: 3})
    assert (found.columns, found.multiple) == (2, True)
    assert str(found.return_type) == "ARRAY<STRUCT<`sort_col` DOUBLE, `col0` STRING>>"
    assert str(REGISTRY.aggregate("AVG", kinds(N)).intermediate) == "STRUCT<`SUM` BIGINT, `COUNT` BIGINT>"
    assert REGISTRY.aggregate("SUM", kinds("DECIMAL(4, 2)")).return_type == kind("DECIMAL(4, 2)")
    assert str(REGISTRY.aggregate("LATEST_BY_OFFSET", kinds(S, N), {1: 1}).return_type) == "ARRAY<STRING>"


@pytest.mark.parametrize(
    ("name", "types"), [("SUM", [S]), ("AVG", ["DECIMAL(4, 2)"]), ("MAX", ["BOOLEAN"]), ("CORRELATION", [N, D])]
)
def test_aggregates_have_no_implicit_casts(name: str, types: list[str]) -> None:
    with pytest.raises(AnalysisError, match="there is no form"):
        REGISTRY.aggregate(name, kinds(*types))


@pytest.mark.parametrize("size", [500, 513, 3000, 40_000])
def test_count_distinct_is_near(size: int) -> None:
    found = REGISTRY.aggregate("COUNT_DISTINCT", kinds(L))
    source = random.Random(size)
    values = [source.getrandbits(63) for _ in range(size)]
    halves = []
    for part in (values[: size * 2 // 3], values[size // 3 :]):
        state = found.initialize()
        for each in part:
            state = found.add(each, state)
        halves.append(state)
    result = found.result(found.merge(*halves))
    assert abs(result - size) <= (0 if size <= 512 else 0.06 * size)
    assert all(-(2**63) <= each < 2**63 for each in halves[0])
