"""Generated code against an interpreter, on random expressions and rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal as Number
from typing import Any, Final

import pytest

from broker_sql import expressions
from broker_sql.dialect import parse_expression
from broker_sql.errors import AnalysisError
from tests.broker_sql.expressions.interpreted import outcome
from tests.broker_sql.expressions.support import Columns
from tests.broker_sql.expressions.test_evaluation import COLUMNS

LEAVES: Final = {
    "int": [
        "i",
        "j",
        "ai[1]",
        "ai[i]",
        "ai[-1]",
        "mp['a']",
        "mp[t]",
        "s->x",
        "3",
        "-1",
        "0",
        "FAIL(i)",
        "CAST(t AS INT)",
    ],
    "bigint": ["l", "rowtime", "9000000000", "CAST(d AS BIGINT)"],
    "double": ["d", "2.5e0", "0e0", "CAST(i AS DOUBLE)", "TWICE(i)"],
    "decimal": ["n", "m", "1.25", "CAST(d AS DECIMAL(6, 3))"],
    "string": ["t", "u", "'a'", "'1'", "s->y->z", "CAST(i AS STRING)", "CAST(n AS STRING)", "CONCAT(t, u)"],
    "boolean": ["b", "TRUE", "t LIKE '%a'", "t LIKE u", "i IS NULL", "at > '1970-01-01T00:00:00.005'", "day = at"],
    "array": ["ai", "ARRAY[1, i]"],
}
NUMBERS: Final = ["int", "bigint", "double", "decimal"]


class Texts:
    """Random expressions as texts. `parameters` are those of lambdas around."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def of(self, kind: str, depth: int, parameters: tuple[str, ...] = ()) -> str:
        chance = self._chance
        if depth <= 0 or chance.random() < 0.15:
            if kind == "int" and parameters and chance.random() < 0.6:
                return chance.choice(parameters)
            return chance.choice(LEAVES[kind])

        def inner(wanted: str) -> str:
            return self.of(wanted, depth - 1, parameters)

        form = chance.randrange(4)
        if form == 0:
            condition, other = inner("boolean"), inner("boolean")
            return f"CASE WHEN {condition} THEN {inner(kind)} WHEN {other} THEN {inner(kind)} ELSE {inner(kind)} END"
        if kind == "boolean":
            return self._boolean(inner)
        if kind == "string":
            return f"({inner('string')} + {inner('string')})"
        if kind == "array":
            return f"ARRAY[{inner('int')}, {inner('int')} / {inner('int')}, NULL]"
        if form == 1 and kind == "int":
            return self._of_lambda(depth, parameters)
        if form == 2 and kind == "int":
            return f"COUNTED({inner('string')}, {inner('boolean')}, {inner('array')}, {inner('decimal')})"
        wider = kind if form < 3 else chance.choice(NUMBERS[: NUMBERS.index(kind) + 1])
        if kind == "decimal" and depth > 1:
            return f"({inner('int')} {chance.choice('+-*/%')} {chance.choice(LEAVES['decimal'])})"
        return f"({inner(kind)} {chance.choice('+-*/%')} {inner(wider)})"

    def _of_lambda(self, depth: int, parameters: tuple[str, ...]) -> str:
        name = f"p{len(parameters)}"
        body = self.of("int", depth - 1, (*parameters, name))
        return f"APPLY({self.of('int', depth - 1, parameters)}, {name} => {body})"

    def _boolean(self, inner: Callable[[str], str]) -> str:
        chance = self._chance
        one, other = chance.choice(NUMBERS), chance.choice(NUMBERS)
        forms: list[Callable[[], str]] = [
            lambda: f"({inner('boolean')} AND {inner('boolean')})",
            lambda: f"({inner('boolean')} OR {inner('boolean')})",
            lambda: f"(NOT {inner('boolean')})",
            lambda: f"({inner(one)} {chance.choice(['=', '<>', '<', '<=', '>', '>='])} {inner(other)})",
            lambda: f"({inner('string')} {chance.choice(['=', '<', '>='])} {inner('string')})",
            lambda: f"({inner(one)} IS NOT NULL)",
            lambda: f"({inner('int')} IS DISTINCT FROM {inner('bigint')})",
            lambda: f"({inner('int')} IN (1, {inner('int')}, NULL))",
            lambda: f"({inner('int')} BETWEEN {inner('int')} AND {inner('bigint')})",
            lambda: f"({inner('array')} = {inner('array')})",
        ]
        return chance.choice(forms)()


VALUES: Final[dict[str, list[Any]]] = {
    "b": [True, False],
    "i": [0, 1, 2, -1, 2**31 - 1, -(2**31)],
    "j": [0, 1, -2, 7],
    "l": [0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1],
    "d": [0.0, 1.5, -2.5, 1e300, float("inf"), float("nan")],
    "n": [Number("0.00"), Number("1.10"), Number("-99.99")],
    "m": [Number("0.00"), Number("2.50")],
    "t": ["", "a", "ba", "12", "\U0001f600"],
    "u": ["a", "%a", "\uffee"],
    "y": [b"", b"\x80"],
    "at": [0, 10, 864_000_000],
    "day": [0, 10],
    "ai": [[], [1], [3, None, 2]],
    "mp": [{}, {"a": 5}, {"a": None, "ba": 2}],
    "s": [{"X": 1, "Y": None}, {"X": None, "Y": {"Z": "z"}}],
    "rowtime": [0, 1_500_000_000_000],
}


def check(seed: int, count: int) -> None:
    columns, chance, texts = Columns(**COLUMNS), random.Random(seed), Texts(seed)
    done, reasons = 0, list[str]()
    while done < count:
        written = [texts.of(chance.choice(list(LEAVES)), chance.randint(1, 4)) for _ in range(3)]
        nodes = [parse_expression(text) for text in written]
        try:
            compiled, whole = expressions.compile_all(nodes, columns.scope)
        except AnalysisError as refused:
            # An expression of literals may have no common type.
            reasons.append(str(refused))
            continue
        done += 1
        for _ in range(4):
            row = columns.row(
                **{name: None if chance.random() < 0.2 else chance.choice(of) for name, of in VALUES.items()}
            )
            expected = [outcome(each.tree, row) for each in compiled]
            found = whole(row)
            assert repr(list(found)) == repr(expected), f"{written} of {row}"
    assert len(reasons) < count / 10, reasons


def test_generated_code_has_the_values_of_an_interpreter() -> None:
    check(seed=1, count=25)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2, 6))
def test_generated_code_has_the_values_of_an_interpreter_in_many_cases(seed: int) -> None:
    check(seed, count=400)
