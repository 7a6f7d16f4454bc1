"""Expressions into text: sqlglot's generator with a table of this dialect's nodes.

Parentheses are added where a tree needs them: a tree without `Paren`, as the planner makes them, keeps its meaning.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.generator import Generator

from broker_sql.dialect import nodes
from broker_sql.dialect.words import KEYWORDS, RESERVED
from broker_sql.types import quoted

_OR, _AND, _NOT, _PREDICATE, _CONCAT, _TERM, _FACTOR, _SIGN, _PRIMARY = range(1, 10)
_BINDS: dict[type[exp.Expr], int] = {
    exp.Or: _OR,
    exp.And: _AND,
    exp.Not: _NOT,
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ), _PREDICATE),
    **dict.fromkeys((exp.Between, exp.In, exp.Like, exp.Escape, exp.Is), _PREDICATE),
    exp.DPipe: _CONCAT,
    **dict.fromkeys((exp.Add, exp.Sub), _TERM),
    **dict.fromkeys((exp.Mul, exp.Div, exp.Mod), _FACTOR),
    exp.Neg: _SIGN,
}
_SYMBOLS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
    exp.DPipe: "||",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
}
_PLAIN = re.compile(r"[A-Z_][A-Z0-9_@]*|[0-9]+[A-DF-Z_][A-Z0-9_@]*")


def name_text(name: str) -> str:
    """Return a name as a statement needs it: in backquotes if its case or a reserved word asks for it."""
    return name if _PLAIN.fullmatch(name) and name not in RESERVED else quoted(name)


def unlike_keyword(name: str) -> str:
    """Return a name for a place where a keyword can stand instead, such as ALL or STREAMS."""
    return quoted(name) if name in KEYWORDS else name_text(name)


def string_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class KsqlGenerator(Generator):
    """The text of expressions."""

    TRANSFORMS: ClassVar[dict[type[exp.Expr], Callable[[Any, Any], str]]] = {
        **dict.fromkeys(_SYMBOLS, lambda self, node: self.infix(node)),
        exp.And: lambda self, node: self.connected(node, "AND"),
        exp.Or: lambda self, node: self.connected(node, "OR"),
        exp.Not: lambda self, node: self.negated(node.this),
        exp.Neg: lambda self, node: self.signed(node.this),
        exp.Between: lambda self, node: self.ranged(node, ""),
        exp.In: lambda self, node: self.ranged(node, ""),
        exp.Like: lambda self, node: self.ranged(node, ""),
        exp.Escape: lambda self, node: self.ranged(node, ""),
        exp.Is: lambda self, node: self.ranged(node, ""),
        exp.Paren: lambda self, node: f"({self.sql(node.this)})",
        exp.Column: lambda self, node: ".".join(self.sql(each) for each in (node.args.get("table"), node.this) if each),
        exp.Identifier: lambda self, node: self.named(node),
        exp.Literal: lambda self, node: string_text(node.this) if node.is_string else node.this,
        exp.Boolean: lambda self, node: "TRUE" if node.this else "FALSE",
        exp.Null: lambda self, node: "NULL",
        exp.Star: lambda self, node: "*",
        exp.Var: lambda self, node: node.this,
        exp.Case: lambda self, node: self.cased(node),
        exp.Bracket: lambda self, node: (
            f"{self.inner(node.this, _PRIMARY)}[{self.inner(node.expressions[0], _CONCAT)}]"
        ),
        exp.Anonymous: lambda self, node: f"{node.name}({self.listed(node.expressions)})",
        exp.Lambda: lambda self, node: self.arrowed(node),
        nodes.Dereference: lambda self, node: f"{self.inner(node.this, _PRIMARY)}->{self.sql(node.args['field'])}",
        nodes.StructAll: lambda self, node: f"{self.inner(node.this, _PRIMARY)}->*",
        nodes.CastTo: lambda self, node: f"CAST({self.sql(node.this)} AS {node.to})",
        nodes.CreateArray: lambda self, node: f"ARRAY[{self.listed(node.expressions)}]",
        nodes.CreateMap: lambda self, node: "MAP(" + self.paired(node.args["keys"], node.args["values"]) + ")",
        nodes.CreateStruct: lambda self, node: "STRUCT(" + self.paired(node.args["names"], node.args["values"]) + ")",
    }

    def inner(self, node: exp.Expr, lowest: int) -> str:
        """Return the text of an operand, in parentheses if it binds less than `lowest`."""
        text = self.sql(node)
        binds = _BINDS.get(type(node), _PRIMARY)
        if binds is _PRIMARY and text.startswith("-"):
            binds = _SIGN
        return text if binds >= lowest else f"({text})"

    def infix(self, node: exp.Expr) -> str:
        binds = _BINDS[type(node)]
        lowest = _CONCAT if binds == _PREDICATE else binds
        left, right = self.inner(node.this, lowest), self.inner(node.expression, lowest + (binds != _PREDICATE))
        return f"{left} {_SYMBOLS[type(node)]} {right}"

    def connected(self, node: exp.Expr, word: str) -> str:
        binds = _BINDS[type(node)]
        return f"{self.inner(node.this, binds)} {word} {self.inner(node.expression, binds)}"

    def negated(self, node: exp.Expr) -> str:
        if isinstance(node, exp.Between | exp.In | exp.Like | exp.Escape | exp.Is):
            return self.ranged(node, "NOT ")
        return f"NOT {self.inner(node, _NOT)}"

    def signed(self, node: exp.Expr) -> str:
        text = self.inner(node, _SIGN)
        return f"- {text}" if text.startswith("-") else f"-{text}"  # two signs would begin a comment

    def ranged(self, node: exp.Expr, negation: str) -> str:
        """Return the text of BETWEEN, IN, LIKE or IS NULL. `negation` is "NOT " or nothing."""
        if isinstance(node, exp.Escape):
            return f"{self.ranged(node.this, negation)} ESCAPE {self.sql(node.expression)}"
        left = self.inner(node.this, _CONCAT)
        if isinstance(node, exp.Is):
            return f"{left} IS {negation}{self.sql(node.expression)}"
        if isinstance(node, exp.In):
            return f"{left} {negation}IN ({self.listed(node.expressions)})"
        if isinstance(node, exp.Like):
            return f"{left} {negation}LIKE {self.inner(node.expression, _CONCAT)}"
        low, high = (self.inner(node.args[each], _CONCAT) for each in ("low", "high"))
        return f"{left} {negation}BETWEEN {low} AND {high}"

    def listed(self, items: list[exp.Expr]) -> str:
        return ", ".join(self.sql(each) for each in items)

    def paired(self, names: list[exp.Expr], values: list[exp.Expr]) -> str:
        return ", ".join(f"{self.sql(name)} := {self.sql(value)}" for name, value in zip(names, values, strict=True))

    def named(self, node: exp.Identifier) -> str:
        name: str = node.this
        return name if not node.quoted and _PLAIN.fullmatch(name) and name not in RESERVED else quoted(name)

    def arrowed(self, node: exp.Lambda) -> str:
        names = self.listed(node.expressions)
        return f"{names if len(node.expressions) == 1 else f'({names})'} => {self.sql(node.this)}"

    def cased(self, node: exp.Case) -> str:
        parts = ["CASE", *([self.sql(node.this)] if node.this else [])]
        parts += [f"WHEN {self.sql(each.this)} THEN {self.sql(each.args['true'])}" for each in node.args["ifs"]]
        default = node.args.get("default")
        return " ".join([*parts, *([f"ELSE {self.sql(default)}"] if default else []), "END"])


def expression_text(node: exp.Expr) -> str:
    """Return the text of an expression. Raises ValueError for a node that this dialect does not have."""
    for each in node.walk():
        if type(each) not in KsqlGenerator.TRANSFORMS and not isinstance(each, exp.If):
            raise ValueError(f"{type(each).__name__} is no node of SQL on streams")
    return KsqlGenerator(comments=False).sql(node)
