"""Expressions as nodes: precedence, literals, case of names, places."""

import pytest
from sqlglot import exp

from broker_sql.dialect import parse_expression
from broker_sql.dialect.nodes import CastTo, CreateMap, CreateStruct, Dereference, location
from broker_sql.errors import Location
from broker_sql.types import Array, Decimal, NamedType


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a OR b AND c", "a OR (b AND c)"),
        ("NOT a = b AND c", "(NOT (a = b)) AND c"),
        ("a + b * c - d", "(a + (b * c)) - d"),
        ("a || b + c", "a || (b + c)"),
        ("-a * b", "(-a) * b"),
        ("a BETWEEN b AND c AND d", "(a BETWEEN b AND c) AND d"),
        ("a NOT IN (1, 2) OR b", "(NOT (a IN (1, 2))) OR b"),
        ("a IS NOT NULL", "NOT (a IS NULL)"),
        ("a % b / c", "(a % b) / c"),
        ("x->y[1]->z", "((x->y)[1])->z"),
    ],
)
def test_operators_bind_as_in_ksqldb(text: str, same: str) -> None:
    def bare(node: exp.Expr) -> exp.Expr:
        return node.transform(lambda each: bare(each.this) if isinstance(each, exp.Paren) else each)

    assert bare(parse_expression(text)) == bare(parse_expression(same))


def test_names_are_upper_case_unless_quoted() -> None:
    node = parse_expression('a + `b` + "C d"')
    assert [each.name for each in node.find_all(exp.Column)]
    assert {each.name for each in node.find_all(exp.Column)} == {
        "A",
        "b",
        "C d",
    }


@pytest.mark.parametrize("text", ["1", "1.5", "1.", ".5", "1e5", "1.5E-3", "-9223372036854775808"])
def test_numbers_are_kept_as_written(text: str) -> None:
    node = parse_expression(text)
    assert isinstance(node, exp.Literal)
    assert not node.is_string
    assert node.this == text


def test_strings_know_only_the_doubled_quote() -> None:
    node = parse_expression(r"'it''s \n'")
    assert isinstance(node, exp.Literal)
    assert node.this == r"it's \n"


def test_functions_are_calls_whatever_sqlglot_knows_of_them() -> None:
    node = parse_expression("coalesce(substring(a, 1), replace(b, 'x', 'y'), if(c, 1, 2), count(*), `now`)")
    assert next(each.this for each in node.find_all(exp.Anonymous)) == "COALESCE"
    assert {each.this for each in node.find_all(exp.Anonymous)} == {"COALESCE", "SUBSTRING", "REPLACE", "IF", "COUNT"}


def test_units_of_time_are_no_columns() -> None:
    node = parse_expression("TIMESTAMPADD(seconds, 5, ts)")
    assert isinstance(node, exp.Anonymous)
    assert node.expressions[0] == exp.Var(this="SECONDS")


def test_lambdas() -> None:
    node = parse_expression("REDUCE(m, 0, (k, v, s) => k + v + s)")
    (lambda_,) = node.find_all(exp.Lambda)
    assert [each.name for each in lambda_.expressions] == ["K", "V", "S"]
    assert isinstance(lambda_.this, exp.Add)
    assert len(list(parse_expression("TRANSFORM(a, x => x * 2)").find_all(exp.Lambda))) == 1


def test_constructors() -> None:
    node = parse_expression("STRUCT(a := MAP('k' := ARRAY[1, 2]), `b` := CAST(x AS DECIMAL(4, 2)))")
    assert isinstance(node, CreateStruct)
    assert [name for name, _ in node.fields] == ["A", "b"]
    (map_,) = node.find_all(CreateMap)
    assert [key.this for key, _ in map_.entries] == ["k"]
    (cast,) = node.find_all(CastTo)
    assert cast.to == Decimal(4, 2)
    assert cast.copy() == cast
    other = parse_expression("CAST(x AS ARRAY<person>)")
    assert isinstance(other, CastTo)
    assert other.to == Array(NamedType("PERSON"))


def test_case_has_both_forms() -> None:
    searched = parse_expression("CASE WHEN a > 1 THEN 'x' ELSE 'y' END")
    simple = parse_expression("CASE a WHEN 1 THEN 'x' WHEN 2 THEN 'z' END")
    assert isinstance(searched, exp.Case)
    assert searched.this is None
    assert searched.args["default"].this == "y"
    assert isinstance(simple, exp.Case)
    assert simple.this.name == "A"
    assert len(simple.args["ifs"]) == 2


def test_distinct_from_and_escape() -> None:
    assert isinstance(parse_expression("a IS DISTINCT FROM b"), exp.NullSafeNEQ)
    assert isinstance(parse_expression("a IS NOT DISTINCT FROM b"), exp.NullSafeEQ)
    escaped = parse_expression("a LIKE 'x!%' ESCAPE '!'")
    assert isinstance(escaped, exp.Escape)
    assert isinstance(escaped.this, exp.Like)


def test_nodes_know_their_places() -> None:
    node = parse_expression("a +\n  UCASE(b)->c")
    assert location(node) == Location(1, 1)
    field = next(iter(node.find_all(Dereference)))
    assert location(field) == Location(2, 3)
    assert location(field.args["field"]) == Location(2, 13)
