"""Names and types of an expression: nodes of sqlglot to a tree with types.

Errors are AnalysisError with the place in the text. They name the types and what is allowed.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlglot import exp

from broker_sql.dialect import nodes, to_text
from broker_sql.dialect.nodes import location
from broker_sql.errors import AnalysisError
from broker_sql.expressions import casts, literals, rules, tree
from broker_sql.expressions.common import common_type
from broker_sql.expressions.scope import Scope
from broker_sql.expressions.tree import Tree
from broker_sql.java_format import exact_boolean
from broker_sql.types import (
    BIGINT,
    BOOLEAN,
    INTEGER,
    INTERVAL_UNIT,
    STRING,
    TIMESTAMP,
    Array,
    Decimal,
    LambdaShape,
    LambdaType,
    Map,
    SqlType,
    Struct,
)

_ARITHMETIC: Final[dict[type[exp.Expr], str]] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
# Operators of Python, and ksqlDB's names of them in messages.
_COMPARISONS: Final[dict[type[exp.Expr], tuple[str, str]]] = {
    exp.EQ: ("==", "EQUAL"),
    exp.NEQ: ("!=", "NOT_EQUAL"),
    exp.LT: ("<", "LESS_THAN"),
    exp.LTE: ("<=", "LESS_THAN_OR_EQUAL"),
    exp.GT: (">", "GREATER_THAN"),
    exp.GTE: (">=", "GREATER_THAN_OR_EQUAL"),
    exp.NullSafeEQ: ("==", "IS_NOT_DISTINCT_FROM"),
    exp.NullSafeNEQ: ("!=", "IS_DISTINCT_FROM"),
}
# Columns of BIGINT that are times: a comparison with a text parses the text as a TIMESTAMP.
_TIME_COLUMNS: Final = frozenset({"ROWTIME", "WINDOWSTART", "WINDOWEND"})


def resolve(node: exp.Expr, scope: Scope) -> Tree:
    """Return the tree of an expression. Raises AnalysisError."""
    found = literals.literal(node)
    if found is not None:
        return tree.Const(found[0], node, found[1])
    handler = _HANDLERS.get(type(node))
    if handler is None:
        raise AnalysisError(f"{to_text(node)} is no expression", location(node))
    return handler(node, scope)


def converted(operand: Tree, target: SqlType) -> Tree:
    """Return the operand as another type: a cast that is allowed. A literal is cast now, if it can be."""
    if operand.kind is None or operand.kind == target:
        return tree.Const(target, operand.node, None) if operand.kind is None else operand
    casts.caster(operand.kind, target)
    if isinstance(operand, tree.Const):
        try:
            return tree.Const(target, operand.node, casts.cast(operand.value, operand.kind, target))
        except (ValueError, ArithmeticError):
            pass  # an error of each record, as of other values
    return tree.Convert(target, operand.node, operand)


def coerced(operand: Tree, target: SqlType) -> Tree:
    """Return an entry of a list as the common type of the list: literals fit more types than CAST allows."""
    if isinstance(operand, tree.Const) and operand.kind not in (None, target):
        if target == STRING and operand.kind is not None:
            return tree.Const(target, operand.node, literals.literal_text(operand.value, operand.kind))
        if target == BOOLEAN and operand.kind == STRING:
            return tree.Const(target, operand.node, exact_boolean(operand.value))
        if operand.kind == STRING and casts.is_number(target):
            kind, value = literals.number_in(operand.value, str(target), operand.node)
            return converted(tree.Const(kind, operand.node, value), target)
    return converted(operand, target)


def implicitly(operand: Tree, target: SqlType) -> Tree:
    """Return the operand as a wider type. Raises AnalysisError if that needs a CAST."""
    if operand.kind is not None and not casts.implicit(operand.kind, target):
        raise AnalysisError(
            f"{to_text(operand.node)} is {operand.kind}, {target} is expected: use CAST", location(operand.node)
        )
    return converted(operand, target)


def _column(node: exp.Column, scope: Scope) -> Tree:
    table, name = node.table or None, node.name
    if table is None and name in scope.lambdas:
        return tree.Parameter(scope.lambdas[name], node, name)
    found = scope.columns.get((table, name))
    if found is None:
        near = difflib.get_close_matches(name, dict.fromkeys(column for _, column in scope.columns), n=3, cutoff=0.5)
        hint = f" Nearest names: {', '.join(near)}" if near else ""
        raise AnalysisError(f"Column '{to_text(node)}' cannot be resolved.{hint}", location(node))
    index, kind = found
    return tree.Slot(kind, node, index)


def _paren(node: exp.Expr, scope: Scope) -> Tree:
    return resolve(node.this, scope)


def _typed(operand: Tree, node: exp.Expr) -> SqlType:
    if operand.kind is None:
        raise AnalysisError(
            f"{to_text(node)}: NULL has no type here; cast it, as in CAST(NULL AS BIGINT)", location(operand.node)
        )
    return operand.kind


def _arithmetic(node: exp.Binary, scope: Scope) -> Tree:
    op = _ARITHMETIC[type(node)]
    left, right = resolve(node.left, scope), resolve(node.right, scope)
    left_kind, right_kind = _typed(left, node), _typed(right, node)
    try:
        kind = rules.arithmetic(op, left_kind, right_kind)
    except ValueError as error:
        raise AnalysisError(f"{to_text(node)}: {error}", location(node)) from None
    if kind is None:
        raise AnalysisError(
            f"{to_text(node)}: {_base(left_kind)} and {_base(right_kind)} do not calculate: two numbers are allowed, "
            "and with + two values of STRING",
            location(node),
        )
    if kind == STRING:
        return tree.Concat(kind, node, left, right)
    if isinstance(kind, Decimal):
        return tree.Arithmetic(kind, node, _decimal(left), _decimal(right), op)
    return tree.Arithmetic(kind, node, converted(left, kind), converted(right, kind), op)


def _decimal(operand: Tree) -> Tree:
    return operand if operand.kind is None else converted(operand, casts.as_decimal(operand.kind))


def _base(kind: SqlType) -> str:
    return str(kind).partition("(")[0].partition("<")[0]


def _concat(node: exp.DPipe, scope: Scope) -> Tree:
    """`||` is the function CONCAT."""
    call = exp.Anonymous(this="CONCAT", expressions=[node.left.copy(), node.right.copy()])
    call.meta.update(node.meta)
    return _call(call, scope)


def _negate(node: exp.Neg, scope: Scope) -> Tree:
    operand = resolve(node.this, scope)
    kind = _typed(operand, node)
    if not casts.is_number(kind):
        raise AnalysisError(f"{to_text(node)}: - is for numbers, got {kind}", location(node))
    return tree.Negate(kind, node, operand)


def _comparison(node: exp.Binary, scope: Scope) -> Tree:
    left, right = _moments(resolve(node.left, scope), resolve(node.right, scope))
    return compared(node, left, right)


def _moments(left: Tree, right: Tree) -> tuple[Tree, Tree]:
    """Return both sides with the text of a time as milliseconds, if the other side is ROWTIME or a window's bound."""
    return _moment(left, right), _moment(right, left)


def _moment(side: Tree, other: Tree) -> Tree:
    if side.kind != STRING or not isinstance(side, tree.Const):
        return side
    if not (isinstance(other, tree.Slot) and other.kind == BIGINT and other.node.name in _TIME_COLUMNS):
        return side
    return tree.Const(BIGINT, side.node, _time_literal(side, TIMESTAMP).value)


def compared(node: exp.Expr, left: Tree, right: Tree) -> Tree:
    """Return the comparison of two trees, whose operator is that of the node."""
    op, name = _COMPARISONS[type(node)]
    distinct = isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ)
    if left.kind is None or right.kind is None:
        if distinct:
            return tree.Distinct(BOOLEAN, node, left, right, op == "==")
        kinds = " = ".join("NULL" if each.kind is None else str(each.kind) for each in (left, right))
        raise AnalysisError(f"{kinds}: NULL equals nothing; write IS NULL", location(node))
    if not rules.comparable(op, left.kind, right.kind):
        raise AnalysisError(
            f"Cannot compare {to_text(left.node)} ({left.kind}) to {to_text(right.node)} ({right.kind}) with {name}.",
            location(node),
        )
    left_kind, right_kind = rules.compared_as(left.kind, right.kind)
    one, other = _side(left, left_kind), _side(right, right_kind)
    if distinct:
        return tree.Distinct(BOOLEAN, node, one, other, op == "==")
    return tree.Compare(BOOLEAN, node, one, other, op)


def _side(side: Tree, kind: SqlType) -> Tree:
    if side.kind == STRING and isinstance(side, tree.Const):
        return side if kind == STRING else _time_literal(side, kind)
    return converted(side, kind)


def _time_literal(side: tree.Const, kind: SqlType) -> tree.Const:
    try:
        return tree.Const(kind, side.node, casts.cast(side.value, STRING, kind))
    except ValueError as error:
        raise AnalysisError(str(error), location(side.node)) from None


def _between(node: exp.Between, scope: Scope) -> Tree:
    value = resolve(node.this, scope)
    bounds: list[Tree] = []
    for name, kind in (("low", exp.GTE), ("high", exp.LTE)):
        bound = kind(this=node.this.copy(), expression=node.args[name].copy())
        bound.meta.update(node.meta)
        bounds.append(compared(bound, *_moments(value, resolve(node.args[name], scope))))
    return tree.And(BOOLEAN, node, bounds[0], bounds[1])


def _boolean(operand: Tree, word: str) -> Tree:
    if operand.kind not in (BOOLEAN, None):
        raise AnalysisError(
            f"{word}: BOOLEAN is expected, {to_text(operand.node)} is {operand.kind}", location(operand.node)
        )
    return converted(operand, BOOLEAN)


def _and(node: exp.Binary, scope: Scope) -> Tree:
    return tree.And(
        BOOLEAN, node, _boolean(resolve(node.left, scope), "AND"), _boolean(resolve(node.right, scope), "AND")
    )


def _or(node: exp.Binary, scope: Scope) -> Tree:
    return tree.Or(BOOLEAN, node, _boolean(resolve(node.left, scope), "OR"), _boolean(resolve(node.right, scope), "OR"))


def _not(node: exp.Not, scope: Scope) -> Tree:
    return tree.Not(BOOLEAN, node, _boolean(resolve(node.this, scope), "NOT"))


def _is(node: exp.Is, scope: Scope) -> Tree:
    if not isinstance(node.expression, exp.Null):
        raise AnalysisError(f"{to_text(node)}: IS [NOT] NULL is allowed", location(node))
    return tree.IsNull(BOOLEAN, node, resolve(node.this, scope))


def _in(node: exp.In, scope: Scope) -> Tree:
    written = [node.this, *node.expressions]
    resolved = [resolve(each, scope) for each in written]
    common = _common(written, resolved, scope)
    if common is None:
        return tree.Const(BOOLEAN, node, False)
    value, *options = [coerced(each, common) for each in resolved]
    return tree.Member(BOOLEAN, node, value, tuple(options))


def _like(node: exp.Like, scope: Scope) -> Tree:
    pattern, escape = node.expression, None
    if isinstance(pattern, exp.Escape):
        pattern, escape = pattern.this, str(pattern.expression.this)
    if escape is not None and len(escape) != 1:
        raise AnalysisError(f"LIKE ... ESCAPE {escape!r}: one character is expected", location(node))
    sides = [resolve(node.this, scope), resolve(pattern, scope)]
    for side in sides:
        if side.kind not in (STRING, None):
            raise AnalysisError(f"LIKE: STRING is expected, {to_text(side.node)} is {side.kind}", location(side.node))
    value, like = (converted(side, STRING) for side in sides)
    return tree.Like(BOOLEAN, node, value, like, escape)


def _escaped(node: exp.Escape, scope: Scope) -> Tree:
    """LIKE ... ESCAPE, where the parser has the ESCAPE outside of the LIKE."""
    like = node.this
    if not isinstance(like, exp.Like):
        raise AnalysisError("ESCAPE is allowed after LIKE", location(node))
    inner = exp.Like(
        this=like.this.copy(), expression=exp.Escape(this=like.expression.copy(), expression=node.expression.copy())
    )
    inner.meta.update(like.meta)
    return _like(inner, scope)


def _case(node: exp.Case, scope: Scope) -> Tree:
    """Both forms; `CASE x WHEN a` compares x with a."""
    conditions: list[Tree] = []
    results: list[Tree] = []
    for each in node.args["ifs"]:
        when = each.this
        if node.this is not None:
            equal = exp.EQ(this=node.this.copy(), expression=when.copy())
            equal.meta.update(when.meta)
            when = equal
        condition = resolve(when, scope)
        if condition.kind != BOOLEAN:
            raise AnalysisError(f"WHEN takes a BOOLEAN, and {to_text(when)} is {condition.kind}", location(when))
        conditions.append(condition)
        results.append(resolve(each.args["true"], scope))
    written = node.args.get("default")
    default = None if written is None else resolve(written, scope)
    kind = _case_type(node, results, default)
    return tree.Case(
        kind,
        node,
        tuple((condition, converted(result, kind)) for condition, result in zip(conditions, results, strict=True)),
        None if default is None else converted(default, kind),
    )


def _case_type(node: exp.Case, results: Sequence[Tree], default: Tree | None) -> SqlType:
    kind: SqlType | None = None
    for each in results:
        kind = _joined(
            kind,
            each,
            "the branches of CASE have several types, and one is expected.\n"
            f"{to_text(each.node)} is {each.kind}; the branches before it are {kind}.",
        )
    if default is not None:
        kind = _joined(
            kind,
            default,
            f"ELSE has another type than the branches of CASE.\nELSE is {default.kind}; the branches are {kind}.",
        )
    if kind is None:
        raise AnalysisError("all branches of CASE are NULL: cast one to a type", location(node))
    return kind


def _joined(kind: SqlType | None, each: Tree, message: str) -> SqlType | None:
    if kind is None or each.kind is None or kind == each.kind:
        return kind or each.kind
    if casts.is_number(kind) and casts.is_number(each.kind):
        return casts.wider(kind, each.kind)
    if casts.implicit(each.kind, kind):
        return kind
    if casts.implicit(kind, each.kind):
        return each.kind
    raise AnalysisError(message, location(each.node))


def _bracket(node: exp.Bracket, scope: Scope) -> Tree:
    base = resolve(node.this, scope)
    index = resolve(node.expressions[0], scope)
    match base.kind:
        case Array(element):
            if index.kind not in (INTEGER, BIGINT):
                raise AnalysisError(
                    f"{to_text(node)}: an index of INTEGER or BIGINT is expected, got {index.kind}", location(node)
                )
            return tree.Item(element, node, base, index)
        case Map(key, value):
            if index.kind is not None and not casts.implicit(index.kind, key):
                raise AnalysisError(f"{to_text(node)}: a key of {key} is expected, got {index.kind}", location(node))
            return tree.Lookup(value, node, base, converted(index, key))
    text = f"{to_text(node.this)}[{to_text(node.expressions[0])}]"
    hint = f" A field of a STRUCT is {to_text(node.this)}->FIELD" if isinstance(base.kind, Struct) else ""
    raise AnalysisError(f"Subscript expression ({text}) do not apply to {base.kind}.{hint}", location(node))


def _dereference(node: nodes.Dereference, scope: Scope) -> Tree:
    base = resolve(node.this, scope)
    if not isinstance(base.kind, Struct):
        raise AnalysisError(f"{to_text(node)}: -> is for a STRUCT, {to_text(node.this)} is {base.kind}", location(node))
    kind = base.kind.field(node.field)
    if kind is None:
        allowed = ", ".join(name for name, _ in base.kind.fields)
        raise AnalysisError(
            f"Could not find field '{node.field}' in '{to_text(node.this)}'. Its fields: {allowed}", location(node)
        )
    return tree.Field(kind, node, base, node.field)


def _cast(node: nodes.CastTo, scope: Scope) -> Tree:
    operand = resolve(node.this, scope)
    if operand.kind is not None:
        try:
            casts.caster(operand.kind, node.to)
        except AnalysisError as error:
            raise AnalysisError(error.message, location(node)) from None
    found = converted(operand, node.to)
    return replace(found, node=node) if isinstance(found, tree.Convert) else found


def _make_array(node: nodes.CreateArray, scope: Scope) -> Tree:
    if not node.expressions:
        raise AnalysisError("Array constructor cannot be empty. Please supply at least one element", location(node))
    items = [resolve(each, scope) for each in node.expressions]
    kind = _common(node.expressions, items, scope)
    if kind is None:
        raise AnalysisError("all elements of ARRAY are NULL: cast one to a type", location(node))
    return tree.MakeArray(Array(kind), node, tuple(coerced(each, kind) for each in items))


def _common(written: Sequence[exp.Expr], resolved: Sequence[Tree], scope: Scope) -> SqlType | None:
    kinds = {id(each): part.kind for each, part in zip(written, resolved, strict=True)}
    return common_type(written, lambda each: kinds[id(each)] if id(each) in kinds else resolve(each, scope).kind)


def _make_map(node: nodes.CreateMap, scope: Scope) -> Tree:
    written_keys, written_values = node.args["keys"], node.args["values"]
    if not written_keys:
        raise AnalysisError(
            "Map constructor cannot be empty. Please supply at least one key value pair", location(node)
        )
    keys, values = [resolve(each, scope) for each in written_keys], [resolve(each, scope) for each in written_values]
    kinds = []
    for written, resolved, name in ((written_keys, keys, "keys"), (written_values, values, "values")):
        kind = _common(written, resolved, scope)
        if kind is None:
            raise AnalysisError(f"all {name} of MAP are NULL: cast one to a type", location(node))
        kinds.append(kind)
    entries = ((coerced(key, kinds[0]), coerced(value, kinds[1])) for key, value in zip(keys, values, strict=True))
    return tree.MakeMap(Map(kinds[0], kinds[1]), node, tuple(entries))


def _make_struct(node: nodes.CreateStruct, scope: Scope) -> Tree:
    fields: dict[str, Tree] = {}
    for name, value in node.fields:
        if name in fields:
            raise AnalysisError(f"STRUCT has the field {name} twice", location(node))
        fields[name] = resolve(value, scope)
        _typed(fields[name], node)
    kind = Struct(tuple((name, value.kind) for name, value in fields.items() if value.kind is not None))
    return tree.MakeStruct(kind, node, tuple(fields.items()))


def _call(node: exp.Anonymous, scope: Scope) -> Tree:
    if scope.functions is None:
        raise AnalysisError(f"{to_text(node)}: functions are not allowed here", location(node))
    name = str(node.this)
    arguments: list[Tree | None] = []
    kinds: list[SqlType | None] = []
    for each in node.expressions:
        found, kind = _argument(each, scope)
        arguments.append(found)
        kinds.append(kind)
    try:
        if any(isinstance(each, LambdaShape) for each in kinds):
            parameters = scope.functions.lambda_parameters(name, kinds)
            for index, (each, types) in enumerate(zip(node.expressions, parameters, strict=True)):
                if types is not None:
                    arguments[index] = made = _lambda(each, types, scope)
                    kinds[index] = made.kind
        call = scope.functions.scalar(name, kinds)
    except AnalysisError as error:
        raise AnalysisError(error.message, error.location or location(node)) from None
    expected = (
        each if kind is None or isinstance(kind, LambdaType) or each is None else converted(each, kind)
        for each, kind in zip(arguments, call.parameters, strict=True)
    )
    return tree.Call(call.return_type, node, name, call.call, tuple(each for each in expected if each is not None))


def _argument(node: exp.Expr, scope: Scope) -> tuple[Tree | None, SqlType | None]:
    """Return an argument of a call and its type; a lambda's tree is made when its parameters' types are known."""
    match node:
        case exp.Lambda():
            return None, LambdaShape(len(node.expressions))
        case exp.Var():
            return tree.Const(INTERVAL_UNIT, node, str(node.this).upper()), INTERVAL_UNIT
    found = resolve(node, scope)
    return found, found.kind


def _lambda(node: exp.Lambda, types: Sequence[SqlType], scope: Scope) -> Tree:
    names = tuple(str(each.this) for each in node.expressions)
    if len(names) != len(types):
        raise AnalysisError(
            f"Was expecting {len(types)} arguments but found {len(names)}, [{', '.join(names)}]. "
            "Check your lambda statement.",
            location(node),
        )
    body = resolve(node.this, scope.inside(dict(zip(names, types, strict=True))))
    return tree.Function(LambdaType(tuple(types), _typed(body, node)), node, names, body)


_HANDLERS: Final[dict[type[exp.Expr], Callable[[Any, Scope], Tree]]] = {
    exp.Column: _column,
    exp.Paren: _paren,
    exp.Neg: _negate,
    exp.DPipe: _concat,
    exp.Between: _between,
    exp.And: _and,
    exp.Or: _or,
    exp.Not: _not,
    exp.Is: _is,
    exp.In: _in,
    exp.Like: _like,
    exp.Escape: _escaped,
    exp.Case: _case,
    exp.Bracket: _bracket,
    exp.Anonymous: _call,
    nodes.Dereference: _dereference,
    nodes.CastTo: _cast,
    nodes.CreateArray: _make_array,
    nodes.CreateMap: _make_map,
    nodes.CreateStruct: _make_struct,
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    **dict.fromkeys(_COMPARISONS, _comparison),
}
