"""The items of SELECT: `*` written out, names, types, and the ones that are the key of the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from broker_sql.analysis.names import RESERVED, WINDOW_BOUNDS, GeneratedNames, Labelled, Layout, Names
from broker_sql.analysis.settings import Settings
from broker_sql.analysis.trees import bare, column, signature
from broker_sql.analysis.typed import type_of
from broker_sql.dialect import to_text
from broker_sql.dialect.nodes import Dereference, StructAll, location
from broker_sql.errors import AnalysisError, Location
from broker_sql.statements import Query, SelectAll, SelectItem
from broker_sql.types import SqlType, Struct, quoted


@dataclass(frozen=True)
class Unresolved:
    """An item with its name, over columns of the row. `shown` is its text in errors."""

    name: str
    expression: exp.Expr
    shown: str
    location: Location | None
    is_named: bool = False
    # `*` of a query with PARTITION BY brings pseudo columns as keys.
    may_be_reserved: bool = False

    def with_expression(self, expression: exp.Expr) -> Unresolved:
        return replace(self, expression=expression)


@dataclass(frozen=True)
class Item:
    """An item of the result."""

    name: str
    expression: exp.Expr
    type: SqlType
    location: Location | None
    is_key: bool = False
    may_be_reserved: bool = False


@dataclass(frozen=True)
class KeyColumn:
    name: str
    expression: exp.Expr
    type: SqlType


@dataclass(frozen=True)
class Keys:
    """Expressions that make the key. `any_of`: they are equal, and one of them is in the projection."""

    kind: str
    expressions: tuple[exp.Expr, ...]
    any_of: bool = False


def expanded(
    items: Sequence[SelectAll | SelectItem],
    names: Names,
    settings: Settings,
    is_persistent: bool,
    partition_by: Sequence[exp.Expr],
) -> list[Unresolved]:
    """All items, with their names. Raises AnalysisError: a column is not known."""
    return _Expansion(names, settings, is_persistent, partition_by).all(items)


class _Expansion:
    def __init__(self, names: Names, settings: Settings, is_persistent: bool, partition_by: Sequence[exp.Expr]) -> None:
        self._names, self._settings, self._is_persistent = names, settings, is_persistent
        self._partition_by = partition_by
        self._generated = GeneratedNames(names.sources)

    def all(self, items: Sequence[SelectAll | SelectItem]) -> list[Unresolved]:
        found: list[Unresolved] = []
        for each in items:
            if isinstance(each, SelectAll):
                found.extend(self._star(each))
            elif isinstance(each.expression, StructAll):
                found.extend(self._fields(each.expression))
            else:
                found.append(self._item(each))
        return found

    def _star(self, star: SelectAll) -> list[Unresolved]:
        names = self._names
        found: list[Unresolved] = []
        if star.source is None:
            if names.synthetic is not None:
                found.append(self._column(names.synthetic, names.synthetic, star.location))
            if self._partition_by:
                return self._partitioned_star(star)
            sources: Sequence[Labelled] = names.sources
        else:
            sources = [names.source(star.source, star.source.location)]
        for source in sources:
            for name in self._columns(source):
                internal = names.internal(source.label, name)
                found.append(self._column(internal, internal, star.location))
        return found

    def _partitioned_star(self, star: SelectAll) -> list[Unresolved]:
        """The expressions of PARTITION BY, then all other columns as rows have them: former keys come last."""
        names, found = self._names, []
        for each in self._partition_by:
            plain = bare(each)
            if isinstance(plain, exp.Null):
                continue
            if isinstance(plain, exp.Column):
                name = plain.name
            else:
                name = (
                    self._generated.field(plain.field) if isinstance(plain, Dereference) else self._generated.column()
                )
            found.append(Unresolved(name, each, to_text(each), star.location, may_be_reserved=True))
        taken = {each.name for each in found}
        for source in names.sources:
            for name in source.layout.index:
                internal = names.internal(source.label, name)
                if internal not in taken and (names.is_join or name not in RESERVED):
                    found.append(self._column(internal, internal, star.location))
        return found

    def _columns(self, source: Labelled) -> list[str]:
        """Key columns, bounds of windows, then the other columns in the order in which they were declared."""
        schema = source.info.schema
        shows_bounds = source.info.window is not None and (self._names.is_join or not self._is_persistent)
        bounds = WINDOW_BOUNDS if shows_bounds else ()
        return [
            *(each.name for each in schema.key),
            *bounds,
            *(each.name for each in schema if each not in schema.key),
        ]

    def _column(self, name: str, internal: str, where: Location | None) -> Unresolved:
        return Unresolved(name, column(internal, where), name, where)

    def _fields(self, node: StructAll) -> list[Unresolved]:
        struct = self._names.resolved(node.this, "SELECT")
        kind = type_of(struct, self._names.layout, self._settings)
        if not isinstance(kind, Struct):
            raise AnalysisError(f"{to_text(node.this)} is {kind}: ->* needs a STRUCT", location(node))
        return [
            Unresolved(
                self._generated.field(name),
                Dereference(this=struct.copy(), field=exp.Identifier(this=name, quoted=True)),
                f"{to_text(node.this)}->{name}",
                location(node),
            )
            for name, _ in kind.fields
        ]

    def _item(self, item: SelectItem) -> Unresolved:
        node = item.expression
        name = str(item.alias) if item.alias is not None else self._name(node)
        if self._is_persistent and item.alias is not None and name in RESERVED:
            raise AnalysisError(f"{quoted(name)} is a reserved name, and cannot be that of a column", item.location)
        resolved = self._names.resolved(node, "SELECT")
        return Unresolved(name, resolved, to_text(node), item.location or location(node), item.alias is not None)

    def _name(self, node: exp.Expr) -> str:
        plain = bare(node)
        if isinstance(plain, exp.Column):
            name: str = plain.name
            if not self._names.is_join or name == self._names.synthetic or self._is_window_bound(name):
                return name
            source, _ = self._names.owner(plain, "SELECT")
            if source is None or self._names.is_unique(name):
                return name
            return self._names.internal(source.label, name)
        if isinstance(plain, Dereference):
            return self._generated.field(plain.field)
        return self._generated.column()

    def _is_window_bound(self, name: str) -> bool:
        return name in WINDOW_BOUNDS and all(name not in each.layout.index for each in self._names.sources)


def with_partition_names(items: Sequence[Unresolved], partition_by: Sequence[exp.Expr]) -> list[Unresolved]:
    """`*` brings the expressions of PARTITION BY under generated names; an item that has them itself replaces those."""
    wanted = {signature(each) for each in partition_by if not isinstance(bare(each), exp.Column)}
    explicit = {signature(each.expression) for each in items if each.is_named}
    return [
        each
        for each in items
        if each.is_named or signature(each.expression) not in wanted or signature(each.expression) not in explicit
    ]


def typed(items: Sequence[Unresolved], layout: Layout, settings: Settings) -> list[tuple[Unresolved, SqlType]]:
    """Raises AnalysisError: an item has no type."""
    found = []
    for each in items:
        kind = type_of(each.expression, layout, settings)
        found.append((each, kind))
    return found


def with_keys(
    items: Sequence[tuple[Unresolved, SqlType]],
    keys: Keys,
    layout: Layout,
    settings: Settings,
    query: Query,
    sink: str | None,
) -> tuple[tuple[KeyColumn, ...], tuple[Item, ...]]:
    """The key columns of the result, and all items. Raises AnalysisError: a key is missing, or stands twice."""
    wanted = keys.expressions
    by_signature: dict[object, list[int]] = {}
    for at, (item, _) in enumerate(items):
        by_signature.setdefault(signature(item.expression), []).append(at)
    if keys.any_of:
        present = [each for each in wanted if signature(each) in by_signature]
        wanted = tuple(present[:1]) if present or sink is None else wanted
    missing = [each for each in wanted if signature(each) not in by_signature]
    if sink is not None and missing:
        raise _missing(missing, keys, query, sink)
    key: list[KeyColumn] = []
    key_items: set[int] = set()
    for each in wanted:
        found = by_signature.get(signature(each), [])
        if sink is not None and len(found) > 1:
            named = " and ".join(items[at][0].name for at in found)
            raise AnalysisError(
                f"the key column {to_text(each)} is in the projection twice, as {named}", items[found[1]][0].location
            )
        if found:
            item, kind = items[found[0]]
            key.append(KeyColumn(item.name, each, kind))
            key_items.add(found[0])
        elif sink is None:
            kind_of = type_of(each, layout, settings)
            key.append(KeyColumn(bare(each).name or "KEY", each, kind_of))
    all_items = tuple(
        Item(item.name, item.expression, kind, item.location, at in key_items, item.may_be_reserved)
        for at, (item, kind) in enumerate(items)
    )
    return tuple(key), all_items


def _missing(missing: Sequence[exp.Expr], keys: Keys, query: Query, sink: str) -> AnalysisError:
    names = [to_text(each).replace("`", "") for each in missing]
    joint = " or " if keys.any_of else " and "
    what = {"grouping": "the expressions of GROUP BY", "partitioning": "the expressions of PARTITION BY"}.get(
        keys.kind, "the join's columns" if keys.kind == "join" else "the key columns"
    )
    hint = ""
    if keys.kind == "join" and len(names) == 1 and names[0].startswith("ROWKEY"):
        hint = f". {names[0]} is the key that the join makes, since no column of a source is the key of its result"
    return AnalysisError(
        f"SELECT of {quoted(sink)} lacks {what}: {joint.join(names)}; write for instance SELECT {names[0]}, ...{hint}",
        query.location,
    )


def check_result(items: Sequence[Item], query: Query) -> None:
    """Raises AnalysisError: a persistent query cannot have these columns."""
    seen: set[str] = set()
    for each in items:
        if each.name in RESERVED and not each.may_be_reserved:
            raise AnalysisError(
                f"{quoted(each.name)} is a reserved name: give the column another one with AS", each.location
            )
        if each.name in seen:
            raise AnalysisError(f"two columns have the name {quoted(each.name)}", each.location)
        seen.add(each.name)
    if all(each.is_key for each in items):
        raise AnalysisError("SELECT has no value columns, only the key", query.location)
