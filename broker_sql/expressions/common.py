"""The type that several expressions have in common: lists of IN, of ARRAY and of MAP, and branches of CASE.

The first expression that is not NULL decides the family of types. Literals fit more types than other expressions
(ksqlDB's documentation, "Type coercion"); the elements of constructors count as literals too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from broker_sql.dialect import to_text
from broker_sql.dialect.nodes import CreateArray, CreateMap, CreateStruct, location
from broker_sql.errors import AnalysisError
from broker_sql.expressions import casts, literals
from broker_sql.java_format import exact_boolean
from broker_sql.types import BOOLEAN, BYTES, DATE, STRING, TIME, TIMESTAMP, Array, Decimal, Map, SqlType, Struct

TypeOf = Callable[[exp.Expr], SqlType | None]


@dataclass(frozen=True)
class _Entry:
    """An expression of a list, or an element of one: `inner` finds the entries in it."""

    kind: SqlType | None
    node: exp.Expr
    type_of: TypeOf
    whole: bool = True  # False: an element of something that is no constructor

    @property
    def text(self) -> str | None:
        """Return the text of a string literal."""
        found = literals.literal(self.node) if self.whole else None
        return found[1] if found is not None and found[0] == STRING else None

    @property
    def is_literal(self) -> bool:
        return self.whole and literals.literal(self.node) is not None

    def parts(self, made: exp.Expr, nodes: Sequence[exp.Expr] | None, kind: SqlType) -> list[_Entry]:
        """Return the entries of a constructor, or one for the type of all elements of another expression."""
        if nodes is None or not self.whole:
            return [_Entry(kind, self.node, self.type_of, whole=False)]
        return [_Entry(self.type_of(each), _bare(each), self.type_of) for each in nodes]


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def common_type(nodes: Sequence[exp.Expr], type_of: TypeOf) -> SqlType | None:
    """Return the common type; None if all are NULL. Raises AnalysisError with the place of what does not fit."""
    return _common([_Entry(type_of(each), _bare(each), type_of) for each in nodes])


def _common(entries: Sequence[_Entry]) -> SqlType | None:
    typed = [each for each in entries if each.kind is not None]
    if not typed:
        return None
    first = typed[0].kind
    assert first is not None
    if casts.is_number(first):
        return _numbers(typed, first)
    match first:
        case Array():
            return _arrays(typed, first)
        case Map():
            return _maps(typed, first)
        case Struct():
            return _structs(typed, first)
    for each in typed[1:]:
        _fits(first, each)
    return first


def _fits(first: SqlType, each: _Entry) -> None:
    """Check an entry of a list whose first entry is text, a boolean, a time or bytes."""
    if each.kind == first or (first == STRING and each.is_literal):
        return
    text = each.text
    if text is None or first not in (BOOLEAN, DATE, TIME, TIMESTAMP, BYTES):
        raise _mismatch(first, each)
    if first == BOOLEAN:
        if exact_boolean(text) is None:
            raise literals.invalid(text, "BOOLEAN", each.node)
        return
    try:
        casts.cast(text, STRING, first)
    except ValueError:
        raise literals.invalid(text, str(first), each.node) from None


def _mismatch(kind: SqlType, each: _Entry) -> AnalysisError:
    return AnalysisError(
        f"{kind} and {each.kind} cannot be compared: {to_text(each.node)}. A CAST may help.",
        location(each.node),
    )


def _numbers(entries: Sequence[_Entry], first: SqlType) -> SqlType:
    result = first
    for each in entries[1:]:
        kind = each.kind
        text = each.text
        if text is not None:
            wanted = "DECIMAL" if isinstance(result, Decimal) else str(result)
            kind = literals.number_in(text, wanted, each.node)[0]
        if kind is None or not casts.is_number(kind):
            raise _mismatch(result, each)
        result = casts.wider(result, kind)
    return result


def _arrays(entries: Sequence[_Entry], first: Array) -> SqlType:
    found: list[_Entry] = []
    result: SqlType = first
    for each in entries:
        if not isinstance(each.kind, Array):
            raise _mismatch(result, each)
        nodes = each.node.expressions if isinstance(each.node, CreateArray) else None
        found += each.parts(each.node, nodes, each.kind.element)
        result = Array(_step(found, result, each) or first.element)
    return result


def _maps(entries: Sequence[_Entry], first: Map) -> SqlType:
    keys: list[_Entry] = []
    values: list[_Entry] = []
    result: SqlType = first
    for each in entries:
        if not isinstance(each.kind, Map):
            raise _mismatch(result, each)
        made = isinstance(each.node, CreateMap)
        keys += each.parts(each.node, each.node.args["keys"] if made else None, each.kind.key)
        values += each.parts(each.node, each.node.args["values"] if made else None, each.kind.value)
        result = Map(_step(keys, result, each) or first.key, _step(values, result, each) or first.value)
    return result


def _structs(entries: Sequence[_Entry], first: Struct) -> SqlType:
    """The struct with the fields of all: those of the first one, then those that others add."""
    fields: dict[str, list[_Entry]] = {}
    result = first
    for each in entries:
        if not isinstance(each.kind, Struct):
            raise _mismatch(result, each)
        made = dict(each.node.fields) if isinstance(each.node, CreateStruct) else {}
        for name, kind in each.kind.fields:
            nodes = [made[name]] if name in made else None
            fields.setdefault(name, []).extend(each.parts(each.node, nodes, kind))
        result = Struct(tuple((name, _step(found, result, each) or _declared(found)) for name, found in fields.items()))
    return result


def _declared(entries: Sequence[_Entry]) -> SqlType:
    kind = entries[0].kind
    if kind is None:
        raise AnalysisError("a field of a STRUCT is NULL in all places: cast it to a type", location(entries[0].node))
    return kind


def _step(found: Sequence[_Entry], so_far: SqlType, each: _Entry) -> SqlType | None:
    """Return the common type of parts; an error names the whole types, unless a text is no value of the type."""
    try:
        return _common(found)
    except AnalysisError as error:
        if isinstance(error, literals.InvalidText):
            raise
        raise _mismatch(so_far, each) from None
