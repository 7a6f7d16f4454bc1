"""The columns that a value comes from, as a whole and field by field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from broker_streams.plan.lineage.columns import REST, Column, Origin, OutputColumn, Use, in_order

DEPTH_MAX: Final = 8
"""The longest path of fields. Deeper ones belong to the column of this depth, so that aggregates that hold themselves
have an end."""

Origins = frozenset[Origin]


@dataclass(frozen=True, slots=True)
class Shape:
    """`fields` are those with a name of their own. Other fields are those of `rest`: {**rest, "name": ...}.

    A value without fields comes from `origins`; where it is an IDENTITY, its fields are those of the column. `constant`
    is JSON. `mark` tells constants apart that JSON does not know.
    """

    origins: Origins = frozenset()
    fields: Mapping[str, Shape] = field(default_factory=dict)
    rest: Shape | None = None
    is_opaque: bool = False
    constant: str | None = None
    mark: str = ""

    @property
    def is_record(self) -> bool:
        return bool(self.fields) or self.rest is not None

    def child(self, name: str) -> Shape:
        """The shape of a field."""
        if name in self.fields:
            return self.fields[name]
        if self.rest is not None:
            found = self.rest.child(name)
            return found.using(self.origins) if self.origins else found
        return Shape(frozenset(_below(each, name) for each in self.origins), is_opaque=self.is_opaque)

    def all_origins(self) -> Origins:
        """The origins of the value and of all its fields."""
        found = set(self.origins)
        for each in self.fields.values():
            found |= each.all_origins()
        if self.rest is not None:
            found |= self.rest.all_origins()
        return frozenset(found)

    def any_opaque(self) -> bool:
        return (
            self.is_opaque
            or any(each.any_opaque() for each in self.fields.values())
            or (self.rest is not None and self.rest.any_opaque())
        )

    def with_field(self, name: str, shape: Shape) -> Shape:
        """The same record with another value in a field."""
        if self.is_record:
            return Shape(self.origins, {**self.fields, name: shape}, self.rest, self.is_opaque)
        return Shape(fields={name: shape}, rest=self if self.origins else None, is_opaque=self.is_opaque)

    def simple(self) -> Shape:
        """Without fields that are those of the rest."""
        rest, fields = self.rest, {name: each.simple() for name, each in self.fields.items()}
        if rest is not None:
            fields = {name: each for name, each in fields.items() if each != rest.child(name)}
            if not fields and not self.origins:
                return rest
        return Shape(self.origins, fields, rest, self.is_opaque, self.constant, self.mark)

    def derived(self, use: Use = Use.TRANSFORMATION) -> Shape:
        """A value that is computed from this one."""
        return Shape(changed(self.all_origins(), use), is_opaque=self.any_opaque())

    def using(self, more: Iterable[Origin]) -> Shape:
        """The same value, with more origins: on each of its fields, if it has some."""
        added = frozenset(more)
        if not added:
            return self
        if not self.is_record:
            return Shape(self.origins | added, is_opaque=self.is_opaque, constant=self.constant, mark=self.mark)
        return Shape(
            self.origins,
            {name: each.using(added) for name, each in self.fields.items()},
            None if self.rest is None else self.rest.using(added),
            self.is_opaque,
        )

    def opaque(self) -> Shape:
        return Shape(self.origins, self.fields, self.rest, True, self.constant, self.mark)

    def aggregated(self) -> Shape:
        """In an aggregate, values that are computed come from several records."""
        return Shape(
            frozenset(
                Origin(each.column, Use.AGGREGATION) if each.use is Use.TRANSFORMATION else each
                for each in self.origins
            ),
            {name: each.aggregated() for name, each in self.fields.items()},
            None if self.rest is None else self.rest.aggregated(),
            self.is_opaque,
            self.constant,
            self.mark,
        )

    def columns(self, topic: str, part: str, path: tuple[str, ...] = ()) -> Iterator[OutputColumn]:
        """The columns of an output with this key or value."""
        if not self.is_record:
            origins = in_order(self.origins)
            yield OutputColumn(Column(topic, part, path), origins, self.is_opaque, None if origins else self.constant)
            return
        for name, each in self.fields.items():
            yield from each.using(self.origins).columns(topic, part, (*path, name))
        if self.rest is not None:
            yield from self.rest.using(self.origins)._others(topic, part, path)

    def _others(self, topic: str, part: str, path: tuple[str, ...]) -> Iterator[OutputColumn]:
        """The columns of the fields that are copied without their names."""
        if self.is_record:
            yield from self.columns(topic, part, path)
            return
        origins = in_order(_below(each, REST) for each in self.origins)
        yield OutputColumn(Column(topic, part, (*path, REST)), origins, self.is_opaque)


NOTHING: Final = Shape()
UNSEEN: Final = Shape(constant="null", mark="unseen")
"""A None of unknown origin: `united` prefers every other shape."""


def of_column(column: Column) -> Shape:
    return Shape(frozenset((Origin(column, Use.IDENTITY),)))


def changed(origins: Iterable[Origin], use: Use) -> Origins:
    """The origins of a value that uses others in this way. Aggregations stay what they are, and so do conditions."""
    return frozenset(
        Origin(each.column, use if each.use.is_direct and not _stays(each.use, use) else each.use) for each in origins
    )


def _stays(inner: Use, outer: Use) -> bool:
    return outer is Use.IDENTITY or (inner is Use.AGGREGATION and outer is Use.TRANSFORMATION)


def deciding(shape: Shape, use: Use) -> Origins:
    """All columns of a shape, as ones that decide."""
    return frozenset(Origin(each.column, use) for each in shape.all_origins())


def united(shapes: Iterable[Shape]) -> Shape:
    """A value that has one of the shapes."""
    found = _distinct(shapes)
    found = [each for each in found if each != UNSEEN] or found
    if len(found) <= 1:
        return found[0] if found else NOTHING
    is_opaque = any(each.is_opaque for each in found)
    if not any(each.is_record for each in found):
        return Shape(_joined(each.origins for each in found), is_opaque=is_opaque)
    # A value that is copied as a whole in one case has fields without names there; a constant (None) has none.
    records = [each if each.is_record else Shape(rest=each) for each in found if each.is_record or each.origins]
    names = dict.fromkeys(name for each in records for name in each.fields)
    fields = {
        name: united(each.child(name) for each in records if name in each.fields or each.rest is not None)
        for name in names
    }
    rests = [each.rest for each in records if each.rest is not None]
    rest = united(rests) if rests else None
    return Shape(_joined(each.origins for each in records), fields, rest, is_opaque)


def _joined(origins: Iterable[Origins]) -> Origins:
    return frozenset(each for some in origins for each in some)


def _distinct(shapes: Iterable[Shape]) -> list[Shape]:
    found: list[Shape] = []
    for each in shapes:
        if each not in found:
            found.append(each)
    return found


def _below(origin: Origin, name: str) -> Origin:
    column = origin.column
    if origin.use is not Use.IDENTITY or len(column.path) >= DEPTH_MAX or column.path[-1:] == (REST,):
        return origin
    return Origin(Column(column.topic, column.part, (*column.path, name)), origin.use)
