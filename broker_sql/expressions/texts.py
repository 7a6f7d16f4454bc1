"""Texts of expressions in messages, with parentheses around every operator: `(A + 1)`."""

from __future__ import annotations

from sqlglot import exp

from broker_sql.dialect import nodes
from broker_sql.types import quoted

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.DPipe: "||",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.And: "AND",
    exp.Or: "OR",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
    exp.Like: "LIKE",
    exp.Is: "IS",
}


def text_of(node: exp.Expr) -> str:
    operator = _OPERATORS.get(type(node))
    if operator is not None:
        return f"({text_of(node.left)} {operator} {text_of(node.right)})"  # type: ignore[attr-defined]
    match node:
        case exp.Paren():
            return text_of(node.this)
        case exp.Column():
            return f"{node.table}.{node.name}" if node.table else node.name
        case exp.Identifier() | exp.Var():
            return str(node.this)
        case exp.Literal():
            return "'" + str(node.this).replace("'", "''") + "'" if node.is_string else str(node.this)
        case exp.Boolean():
            return "true" if node.this else "false"
        case exp.Null():
            return "null"
        case exp.Star():
            return "*"
        case exp.Neg():
            return f"-{text_of(node.this)}"
        case exp.Not():
            return f"(NOT {text_of(node.this)})"
        case exp.Between():
            return f"({text_of(node.this)} BETWEEN {text_of(node.args['low'])} AND {text_of(node.args['high'])})"
        case exp.In():
            return f"({text_of(node.this)} IN ({_list(node.expressions)}))"
        case exp.Escape():
            return f"{text_of(node.this)} ESCAPE {text_of(node.expression)}"
    return _compound(node)


def _list(expressions: list[exp.Expr]) -> str:
    return ", ".join(map(text_of, expressions))


def _compound(node: exp.Expr) -> str:
    match node:
        case exp.Anonymous():
            return f"{node.this}({_list(node.expressions)})"
        case exp.Bracket():
            return f"{text_of(node.this)}[{_list(node.expressions)}]"
        case exp.Lambda():
            return f"({_list(node.expressions)}) => {text_of(node.this)}"
        case exp.Case():
            branches = "".join(
                f" WHEN {text_of(each.this)} THEN {text_of(each.args['true'])}" for each in node.args["ifs"]
            )
            default = node.args.get("default")
            return f"(CASE{branches}{f' ELSE {text_of(default)}' if default is not None else ''} END)"
        case nodes.Dereference():
            return f"{text_of(node.this)}->{node.field}"
        case nodes.StructAll():
            return f"{text_of(node.this)}->*"
        case nodes.CastTo():
            return f"CAST({text_of(node.this)} AS {node.to})"
        case nodes.CreateArray():
            return f"ARRAY[{_list(node.expressions)}]"
        case nodes.CreateMap():
            return f"MAP({', '.join(f'{text_of(key)}:={text_of(value)}' for key, value in node.entries)})"
        case nodes.CreateStruct():
            return f"STRUCT({', '.join(f'{name}:={text_of(value)}' for name, value in node.fields)})"
    return quoted(type(node).__name__)
