"""Canonical texts: a statement that is stored as text and read again must be the same statement."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from broker_sql.dialect import nodes, parse, parse_expression, parse_type, to_text
from broker_sql.statements import Name, Properties, Property, SetProperty, Terminate
from broker_sql.types import INTEGER, STRING, Array, Map, NamedType, SqlType, Struct
from broker_sql.types import Decimal as DecimalType
from tests.broker_sql.dialect.forms import FORMS

NAMES = ["A", "b", "SELECT", "KEY", "x y", "q`q", "É", "1A", 'd"d', "ARRAY", "EMIT", "ALL", "SECONDS"]
NUMBERS = ["0", "17", "-5", "1.50", ".5", "1e3", "-2.5E-7", "9223372036854775807", "-9223372036854775808"]
STRINGS = ["", "it's", "a\nb", "--", "/*", "${x", "\\", "é"]
INFIX: list[type[Any]] = [
    *(exp.Or, exp.And, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.DPipe, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Like),
]


class Trees:
    """Trees of nodes without parentheses, by a seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def name(self) -> exp.Identifier:
        return exp.Identifier(this=self.random.choice(NAMES), quoted=True)

    def type(self, depth: int = 3) -> SqlType:
        form = self.random.randrange(8 if depth else 5)
        if form < 5:
            return (INTEGER, STRING, DecimalType(4, 2), NamedType("Person"), Struct(()))[form]
        if form == 5:
            return Array(self.type(depth - 1))
        if form == 6:
            return Map(self.type(depth - 1), self.type(depth - 1))
        names = self.random.sample(NAMES, 2)
        return Struct(tuple((name, self.type(depth - 1)) for name in names))

    def leaf(self) -> exp.Expr:
        form = self.random.randrange(6)
        if form == 0:
            return exp.Column(this=self.name(), table=self.name())
        if form == 1:
            return exp.Literal.string(self.random.choice(STRINGS))
        if form == 2:
            return exp.Literal(this=self.random.choice(NUMBERS), is_string=False)
        if form == 3:
            return self.random.choice([exp.Boolean(this=True), exp.Boolean(this=False), exp.Null()]).copy()
        return exp.Column(this=self.name())

    def several(self, depth: int) -> list[exp.Expr]:
        return [self.tree(depth) for _ in range(self.random.randrange(1, 4))]

    def tree(self, depth: int) -> exp.Expr:
        if not depth or not self.random.randrange(6):
            return self.leaf()
        if self.random.randrange(2):
            node = self.random.choice(INFIX)
            infix: exp.Expr = node(this=self.tree(depth - 1), expression=self.tree(depth - 1))
            return infix
        return self.random.choice(self.others)(self, depth - 1)

    others: ClassVar[list[Callable[[Trees, int], exp.Expr]]] = [
        lambda self, depth: exp.Not(this=self.tree(depth)),
        lambda self, depth: exp.Neg(this=self.tree(depth)),
        lambda self, depth: exp.Is(this=self.tree(depth), expression=exp.Null()),
        lambda self, depth: exp.In(this=self.tree(depth), expressions=self.several(depth)),
        lambda self, depth: exp.Between(this=self.tree(depth), low=self.tree(depth), high=self.tree(depth)),
        lambda self, depth: exp.Escape(
            this=exp.Like(this=self.tree(depth), expression=self.tree(depth)), expression=exp.Literal.string("!")
        ),
        lambda self, depth: exp.Bracket(this=self.tree(depth), expressions=[self.tree(depth)]),
        lambda self, depth: nodes.Dereference(this=self.tree(depth), field=self.name()),
        lambda self, depth: nodes.CastTo(this=self.tree(depth), to=self.type()),
        lambda self, depth: exp.Anonymous(this="F", expressions=self.several(depth)),
        lambda self, depth: nodes.CreateArray(expressions=self.several(depth)),
        lambda self, depth: nodes.CreateMap(keys=[self.tree(depth)], values=[self.tree(depth)]),
        lambda self, depth: nodes.CreateStruct(names=[self.name()], values=[self.tree(depth)]),
        lambda self, depth: exp.Case(
            this=self.random.choice([None, self.tree(depth)]),
            ifs=[exp.If(this=self.tree(depth), true=self.tree(depth))],
            default=self.random.choice([None, self.tree(depth)]),
        ),
        lambda self, depth: exp.Anonymous(
            this="G", expressions=[exp.Lambda(this=self.tree(depth), expressions=[self.name(), self.name()])]
        ),
    ]


def meaning(node: Any) -> Any:
    """A tree without parentheses; AND and OR as lists; signs before a number as the number's."""
    if isinstance(node, exp.Paren):
        return meaning(node.this)
    if isinstance(node, exp.And | exp.Or):
        sides = [meaning(each) for each in (node.this, node.expression)]
        return (node.key, [part for side in sides for part in (side[1] if side[0] == node.key else [side])])
    if isinstance(node, exp.Literal) and not node.is_string:
        return ("number", node.this)
    if isinstance(node, exp.Neg):
        of = meaning(node.this)
        return ("number", "-" + of[1]) if of[0] == "number" else (node.key, of)
    if isinstance(node, exp.Expr):
        return (node.key, [(k, meaning(v)) for k, v in sorted(node.args.items()) if v is not None and v is not False])
    return [meaning(each) for each in node] if isinstance(node, list) else node


def test_expressions_keep_their_meaning() -> None:
    for seed in range(600):
        tree = Trees(seed).tree(4)
        text = to_text(tree)
        again = parse_expression(text)
        assert meaning(again) == meaning(tree), (seed, text)
        assert to_text(again) == text


def test_types_are_read_as_they_are_written() -> None:
    for seed in range(100):
        kind = Trees(seed).type(4)
        assert parse_type(str(kind)) == kind


@pytest.mark.parametrize("text", [text for text, _ in FORMS])
def test_canonical_statements_stay_as_they_are(text: str) -> None:
    (found,) = parse(text)
    assert to_text(found) == text
    assert parse(to_text(found)) == [found]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (
            "select *, o.*, a->b->*, count(*) n from orders o left outer join c within (1 minute,2 minutes)"
            " grace period 3 days on o.id=c.id"
            " window hopping (size 1 hour, advance by 5 minutes, retention 1 day, grace period 0 seconds)"
            " where not (a is not null) and b not in (1,2) partition by x, y group by (z) having n>1 emit final"
            " limit 3",
            "SELECT *, O.*, A->B->*, COUNT(*) AS N FROM ORDERS AS O LEFT JOIN C WITHIN (1 MINUTES, 2 MINUTES)"
            " GRACE PERIOD 3 DAYS ON O.ID = C.ID"
            " WINDOW HOPPING (SIZE 1 HOURS, ADVANCE BY 5 MINUTES, RETENTION 1 DAYS, GRACE PERIOD 0 SECONDS)"
            " WHERE NOT (A IS NOT NULL) AND B NOT IN (1, 2) PARTITION BY (X, Y) GROUP BY Z HAVING N > 1 EMIT FINAL"
            " LIMIT 3",
        ),
        ("insert into s (a, `b`) values (1, 'it''s')", "INSERT INTO S (A, `b`) VALUES (1, 'it''s')"),
        ("create stream `Key` (`a b` int header('x')) with ('b.c'=1, d=1e3, e=true)",
         "CREATE STREAM `Key` (`a b` INTEGER HEADER('x')) WITH ('b.c'=1, D=1000.0e0, E=TRUE)"),
        ("select a from s session group by ((a + b))", "SELECT A FROM S AS SESSION GROUP BY ((A + B))"),
        ("explain select a from s", "EXPLAIN SELECT A FROM S"),
        ("list all topics", "SHOW ALL TOPICS"),
    ],
)  # fmt: skip
def test_canonical_text(text: str, canonical: str) -> None:
    (found,) = parse(text)
    assert to_text(found) == canonical
    assert parse(canonical) == [found]


def test_names_that_are_words_of_the_language_are_quoted() -> None:
    for name in ("ALL", "SELECT", "lower", "x`y"):
        statement = Terminate(query_id=Name(name))
        assert parse(to_text(statement)) == [statement]


@given(st.text(max_size=20), st.text(max_size=20))
def test_strings_are_kept(name: str, value: str) -> None:
    statement = SetProperty(name=name, value=value)
    assert parse(to_text(statement)) == [statement]


def test_values_of_properties_keep_their_types() -> None:
    (create,) = parse("CREATE STREAM s WITH (a=1)")
    values: list[Any] = ["x", 1, -1, True, Decimal("1.50"), Decimal("2"), 1e300, 2.0]
    entries = tuple(Property(f"P{number}", value) for number, value in enumerate(values))
    changed = type(create)(name=Name("S"), properties=Properties(entries))  # type: ignore[call-arg]
    (again,) = parse(to_text(changed))
    found = [each.value for each in again.properties]  # type: ignore[attr-defined]
    assert found == values
    assert [type(each) for each in found] == [type(each) for each in values]


def test_a_node_of_another_dialect_is_refused() -> None:
    with pytest.raises(ValueError, match="JSONExtract is no node"):
        to_text(exp.JSONExtract(this=exp.column("A"), expression=exp.Literal.string("$.b")))
