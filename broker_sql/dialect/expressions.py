"""Expressions, by the precedence of operators:

    OR  <  AND  <  NOT  <  one comparison, BETWEEN, IN, LIKE, IS  <  ||  <  + -  <  * / %  <  - of a value  <  -> [ ]

`condition` parses all of it; `value` begins at ||, so GROUP BY, PARTITION BY and VALUES take AND only in parentheses.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from broker_sql.dialect.cursor import Cursor
from broker_sql.dialect.nodes import CastTo, CreateArray, CreateMap, CreateStruct, Dereference, StructAll, at, location
from broker_sql.dialect.tokenizer import Kind
from broker_sql.dialect.types import column_type
from broker_sql.errors import Location
from broker_sql.statements import UNITS_MS

_MAX_BIGINT = (1 << 63) - 1
MAX_LAMBDA_PARAMETERS = 3

_COMPARISONS = {"=": exp.EQ, "<>": exp.NEQ, "!=": exp.NEQ, "<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE}
# The node of an operator, and how tightly it binds.
_TIGHTEST = 3
_OPERATORS: dict[str, tuple[type[exp.Expr], int]] = {
    "||": (exp.DPipe, 1),
    "+": (exp.Add, 2),
    "-": (exp.Sub, 2),
    "*": (exp.Mul, _TIGHTEST),
    "/": (exp.Div, _TIGHTEST),
    "%": (exp.Mod, _TIGHTEST),
}
MAX_OPERATORS = 128  # in a row: the tree is as deep

# Functions that take a unit of time first: `TIMESTAMPADD(SECONDS, 5, t)`. Elsewhere SECONDS is a column.
UNIT_FUNCTIONS = frozenset({"TIMESTAMPADD", "TIMESTAMPSUB", "DATEADD", "DATESUB", "TIMEADD", "TIMESUB"})
UNIT_WORDS = {unit + plural: unit for unit in UNITS_MS for plural in ("", "S")}


def condition(cursor: Cursor) -> exp.Expr:
    """Parse an expression with all operators."""
    with cursor:
        place = cursor.location
        either = [_all(cursor)]
        while cursor.at_words("OR"):
            cursor.advance()
            either.append(_all(cursor))
        return _balanced(exp.Or, either, place)


def _all(cursor: Cursor) -> exp.Expr:
    place = cursor.location
    every = [_negated(cursor)]
    while cursor.at_words("AND"):
        cursor.advance()
        every.append(_negated(cursor))
    return _balanced(exp.And, every, place)


def _balanced(node: type[exp.Expr], operands: list[exp.Expr], place: Location) -> exp.Expr:
    """Return AND or OR of the operands in their order, as a tree of little depth: users write hundreds of them."""
    if len(operands) == 1:
        return operands[0]
    middle = (len(operands) + 1) // 2
    left = _balanced(node, operands[:middle], place)
    right = _balanced(node, operands[middle:], location(operands[middle]) or place)
    return at(node(this=left, expression=right), place)


def value(cursor: Cursor) -> exp.Expr:
    """Parse an expression without AND, OR, NOT and comparisons outside of parentheses."""
    with cursor:
        return _operators(cursor, 1)


def _operators(cursor: Cursor, lowest: int) -> exp.Expr:
    """Parse operators that bind at least as `lowest`, from left to right."""
    place = cursor.location
    left = _signed(cursor)
    count = 0
    while cursor.token.kind is Kind.SYMBOL and (found := _OPERATORS.get(cursor.token.text)) and found[1] >= lowest:
        count += 1
        if count > MAX_OPERATORS:
            cursor.error(f"more than {MAX_OPERATORS} operators in a row: put a part of them in parentheses")
        node, binds = found
        cursor.advance()
        right = _signed(cursor) if binds == _TIGHTEST else _operators(cursor, binds + 1)
        left = at(node(this=left, expression=right), place)
    return left


def _negated(cursor: Cursor) -> exp.Expr:
    place = cursor.location
    if cursor.at_words("NOT"):
        cursor.advance()
        with cursor:
            return at(exp.Not(this=_negated(cursor)), place)
    return _predicate(cursor)


def _predicate(cursor: Cursor) -> exp.Expr:
    place = cursor.location
    left = value(cursor)
    if cursor.token.kind is Kind.SYMBOL and cursor.token.text in _COMPARISONS:
        node = _COMPARISONS[cursor.advance().text]
        return at(node(this=left, expression=value(cursor)), place)
    if cursor.at_words("IS"):
        cursor.advance()
        return _is(cursor, left)
    negated = cursor.at_words("NOT") and cursor.ahead(1).upper in ("BETWEEN", "IN", "LIKE")
    if negated:
        cursor.advance()
    result = _range(cursor, left)
    if result is None:
        return left
    return at(exp.Not(this=at(result, place)), place) if negated else at(result, place)


def _is(cursor: Cursor, left: exp.Expr) -> exp.Expr:
    place = location(left)
    negated = cursor.accept("NOT")
    if cursor.accept("NULL"):
        result: exp.Expr = at(exp.Is(this=left, expression=exp.Null()), place)
        return at(exp.Not(this=result), place) if negated else result
    cursor.expect("DISTINCT")
    cursor.expect("FROM")
    node = exp.NullSafeEQ if negated else exp.NullSafeNEQ
    return at(node(this=left, expression=value(cursor)), place)


def _range(cursor: Cursor, left: exp.Expr) -> exp.Expr | None:
    if cursor.at_words("BETWEEN"):
        cursor.advance()
        low = value(cursor)
        cursor.expect("AND")
        return exp.Between(this=left, low=low, high=value(cursor))
    if cursor.at_words("IN"):
        cursor.advance()
        cursor.expect_symbol("(")
        items = listed(cursor, condition)
        cursor.expect_symbol(")")
        return exp.In(this=left, expressions=items)
    if cursor.at_words("LIKE"):
        cursor.advance()
        like: exp.Expr = exp.Like(this=left, expression=value(cursor))
        if cursor.accept("ESCAPE"):
            place = cursor.location
            escape = cursor.string("one character in single quotes")
            if len(escape) != 1:
                cursor.error(f"ESCAPE '{escape}': one character is expected", place)
            like = exp.Escape(this=like, expression=at(exp.Literal.string(escape), place))
        return like
    return None


def listed(cursor: Cursor, item: Callable[[Cursor], exp.Expr]) -> list[exp.Expr]:
    """Parse one or more items with commas between them."""
    items = [item(cursor)]
    while cursor.accept_symbol(","):
        items.append(item(cursor))
    return items


def _signed(cursor: Cursor) -> exp.Expr:
    place = cursor.location
    if cursor.accept_symbol("-", quiet=True):
        with cursor:
            if cursor.token.kind is Kind.NUMBER:
                return _suffixed(cursor, at(_number(cursor, "-"), place))
            return at(exp.Neg(this=_signed(cursor)), place)
    if cursor.accept_symbol("+", quiet=True):
        with cursor:
            return _signed(cursor)
    return _suffixed(cursor, _primary(cursor))


def _suffixed(cursor: Cursor, node: exp.Expr) -> exp.Expr:
    """Parse `[index]` and `->field` behind a value."""
    place = location(node)
    while True:
        if cursor.accept_symbol("[", quiet=True):
            index = value(cursor)
            cursor.expect_symbol("]")
            node = at(exp.Bracket(this=node, expressions=[index]), place)
        elif cursor.at_symbol("->"):
            cursor.advance()
            if cursor.accept_symbol("*"):
                return at(StructAll(this=node), place)
            node = at(Dereference(this=node, field=identifier(cursor, "the name of a field")), place)
        else:
            return node


def identifier(cursor: Cursor, wanted: str = "a name") -> exp.Identifier:
    """Take a name as a node."""
    quoted = cursor.token.kind is Kind.QUOTED
    name = cursor.name(wanted)
    return at(exp.Identifier(this=str(name), quoted=quoted), name.location)


def _primary(cursor: Cursor) -> exp.Expr:
    token, place = cursor.token, cursor.location
    if token.kind is Kind.NUMBER:
        return at(_number(cursor, ""), place)
    if token.kind is Kind.STRING:
        cursor.advance()
        return at(exp.Literal.string(token.text), place)
    if cursor.accept_symbol("(", quiet=True):
        inner = condition(cursor)
        cursor.expect_symbol(")")
        return at(exp.Paren(this=inner), place)
    special = _SPECIAL.get(token.upper)
    if special:
        node = special(cursor)
        if node is not None:
            return at(node, place)
    follows = cursor.ahead(1)
    called = follows.kind is Kind.SYMBOL and follows.text == "("
    if token.kind is Kind.WORD and called and token.upper not in _NO_FUNCTIONS:
        return at(_call(cursor), place)
    if cursor.at_name():
        return at(_column(cursor), place)
    cursor.wanted("an expression")
    return cursor.fail()


def _number(cursor: Cursor, sign: str) -> exp.Expr:
    """Parse a number. The sign is a part of its text, so the least BIGINT is a number."""
    place, text = cursor.location, sign + cursor.advance().text
    if "e" in text.lower():
        if not text[-1].isdigit():
            cursor.error(f"{text} is no number: digits are expected behind the exponent", place)
        if float(text) in (float("inf"), float("-inf")):
            cursor.error(f"{text} is out of the range of DOUBLE", place)
    elif "." not in text and not -_MAX_BIGINT - 1 <= int(text) <= _MAX_BIGINT:
        cursor.error(f"{text} is out of the range of BIGINT: write a DECIMAL ({text}.0) or a DOUBLE ({text}e0)", place)
    return exp.Literal(this=text, is_string=False)


def _column(cursor: Cursor) -> exp.Expr:
    first = identifier(cursor)
    if cursor.at_symbol("."):
        cursor.advance()
        if cursor.at_symbol("*"):
            cursor.wanted("a column: a star stands only behind SELECT and in COUNT(*)")
            cursor.fail()
        return exp.Column(this=identifier(cursor, "the name of a column"), table=first)
    return exp.Column(this=first)


def _call(cursor: Cursor) -> exp.Expr:
    name = cursor.advance().upper
    cursor.expect_symbol("(")
    if cursor.accept_symbol(")"):
        return exp.Anonymous(this=name, expressions=[])
    place = cursor.location
    if cursor.at_symbol("*") and cursor.ahead(1).text == ")":
        cursor.advance()
        arguments: list[exp.Expr] = [at(exp.Star(), place)]
    else:
        first = _unit(cursor) if name in UNIT_FUNCTIONS else None
        arguments = [first] if first else [_argument(cursor)]
        while cursor.accept_symbol(","):
            arguments.append(_argument(cursor))
    cursor.expect_symbol(")")
    return exp.Anonymous(this=name, expressions=arguments)


def _unit(cursor: Cursor) -> exp.Expr | None:
    """Take a unit of time, as exp.Var."""
    token, place = cursor.token, cursor.location
    if token.upper not in UNIT_WORDS or cursor.ahead(1).text != ",":
        return None
    cursor.advance()
    return at(exp.Var(this=token.upper), place)


def _argument(cursor: Cursor) -> exp.Expr:
    """Parse an argument: a lambda or an expression."""
    place = cursor.location
    parameters = _parameters(cursor)
    if parameters is None:
        return condition(cursor)
    if len(parameters) > MAX_LAMBDA_PARAMETERS:
        cursor.error(f"a lambda has at most {MAX_LAMBDA_PARAMETERS} parameters; this one has {len(parameters)}", place)
    return at(exp.Lambda(this=condition(cursor), expressions=parameters), place)


def _parameters(cursor: Cursor) -> list[exp.Expr] | None:
    """Take the parameters of a lambda with its arrow, if one is next."""
    if cursor.at_name() and cursor.ahead(1).text == "=>":
        parameters: list[exp.Expr] = [identifier(cursor)]
        cursor.advance()
        return parameters
    if not cursor.at_symbol("("):
        return None
    offset = 1
    while cursor.ahead(offset).kind in (Kind.WORD, Kind.QUOTED) and cursor.ahead(offset + 1).text == ",":
        offset += 2
    if cursor.ahead(offset + 1).text != ")" or cursor.ahead(offset + 2).text != "=>":
        return None
    cursor.advance()
    parameters = listed(cursor, identifier)
    cursor.expect_symbol(")")
    cursor.expect_symbol("=>")
    return parameters


def _cast(cursor: Cursor) -> exp.Expr:
    cursor.advance()
    cursor.expect_symbol("(")
    inner = condition(cursor)
    cursor.expect("AS")
    kind = column_type(cursor)
    cursor.expect_symbol(")")
    return CastTo(this=inner, to=kind)


def _case(cursor: Cursor) -> exp.Expr:
    cursor.advance()
    operand = None if cursor.at_words("WHEN") else condition(cursor)
    branches: list[exp.Expr] = []
    while not branches or cursor.at_words("WHEN"):
        place = cursor.location
        cursor.expect("WHEN")
        when = condition(cursor)
        cursor.expect("THEN")
        branches.append(at(exp.If(this=when, true=condition(cursor)), place))
    cursor.wanted("WHEN")
    default = condition(cursor) if cursor.accept("ELSE") else None
    cursor.expect("END")
    return exp.Case(this=operand, ifs=branches, default=default)


def _array(cursor: Cursor) -> exp.Expr | None:
    if cursor.ahead(1).text != "[":
        return None
    cursor.advance()
    cursor.expect_symbol("[")
    items = [] if cursor.at_symbol("]") else listed(cursor, condition)
    cursor.expect_symbol("]")
    return CreateArray(expressions=items)


def _map(cursor: Cursor) -> exp.Expr | None:
    if cursor.ahead(1).text != "(":
        return None
    cursor.advance()
    cursor.expect_symbol("(")
    keys: list[exp.Expr] = []
    values: list[exp.Expr] = []
    more = not cursor.at_symbol(")")
    while more:
        keys.append(condition(cursor))
        cursor.expect_symbol(":=")
        values.append(condition(cursor))
        more = cursor.accept_symbol(",")
    cursor.expect_symbol(")")
    return CreateMap(keys=keys, values=values)


def _struct(cursor: Cursor) -> exp.Expr | None:
    if cursor.ahead(1).text != "(":
        return None
    cursor.advance()
    cursor.expect_symbol("(")
    names: list[exp.Expr] = []
    values: list[exp.Expr] = []
    more = not cursor.at_symbol(")")
    while more:
        names.append(identifier(cursor, "the name of a field"))
        cursor.expect_symbol(":=")
        values.append(condition(cursor))
        more = cursor.accept_symbol(",")
    cursor.expect_symbol(")")
    return CreateStruct(names=names, values=values)


def _constant(node: Callable[[], exp.Expr]) -> Callable[[Cursor], exp.Expr | None]:
    def parse(cursor: Cursor) -> exp.Expr | None:
        cursor.advance()
        return node()

    return parse


_SPECIAL: dict[str, Callable[[Cursor], exp.Expr | None]] = {
    "NULL": _constant(exp.Null),
    "TRUE": _constant(lambda: exp.Boolean(this=True)),
    "FALSE": _constant(lambda: exp.Boolean(this=False)),
    "CASE": _case,
    "CAST": _cast,
    "ARRAY": _array,
    "MAP": _map,
    "STRUCT": _struct,
}
# Reserved words that a parenthesis may follow without a call.
_NO_FUNCTIONS = frozenset(
    [
        "AND",
        "AS",
        "BETWEEN",
        "BY",
        "CASE",
        "FROM",
        "GROUP",
        "HAVING",
        "IN",
        "IS",
        "LIKE",
        "NOT",
        "ON",
        "OR",
        "SELECT",
        "THEN",
        "WHEN",
        "WHERE",
        "WITH",
    ]
)
