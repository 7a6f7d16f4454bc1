"""The trial of a new schema on records, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from broker_cy.admin.metadata import TopicPartition
from broker_cy.wire.records import Record
from broker_registry.impact.groups import Group
from broker_registry.impact.result import (
    Broken,
    GroupImpact,
    Impact,
    Name,
    Place,
    ReaderImpact,
    SchemaImpact,
    Tally,
)
from broker_registry.schema_types.base import ParsedSchema, Unreadable
from broker_registry.serdes.framing import Framed, framed


class Row(NamedTuple):
    """A record and its partition."""

    partition: TopicPartition
    record: Record


class Reader(NamedTuple):
    """A present reader's schema, with what is shown about it."""

    schema: ParsedSchema
    impact: ReaderImpact


def name_of(record: Record, *, is_key: bool) -> Name | None:
    """Return the schema that the value or the key of a record names; None if it names none."""
    parts = _parts(record, is_key=is_key)
    return None if parts is None else parts.name


def _parts(record: Record, *, is_key: bool) -> Framed | None:
    data = record.key if is_key else record.value
    try:
        return None if data is None else framed(data, record.headers, is_key=is_key)
    except ValueError:
        # A header of another program.
        return None


class Trial:
    """Tries records and counts in `impact`. `writers` has a text instead of a schema that cannot be used. `own` has the
    schemas of the subject if others share its topics; None: all records are its own.
    """

    def __init__(
        self,
        impact: Impact,
        new: ParsedSchema,
        writers: Mapping[Name, ParsedSchema | str],
        *,
        versions: Mapping[Name, int],
        own: frozenset[Name] | None,
        groups: Sequence[tuple[Group, GroupImpact]] = (),
        readers: Sequence[Reader] = (),
    ) -> None:
        self._impact, self._new, self._writers = impact, new, writers
        self._versions, self._own = versions, own
        self._groups, self._readers = groups, readers
        self._schemas: dict[Name, SchemaImpact] = {}

    def take(self, rows: Iterable[Row]) -> None:
        """Try records."""
        for row in rows:
            self._impact.seen += 1
            self._take(row)
        self._impact.schemas = sorted(self._schemas.values(), key=lambda each: (each.version or 0, str(each.name)))

    def _take(self, row: Row) -> None:
        impact, record = self._impact, row.record
        if (record.key if impact.is_key else record.value) is None:
            impact.empty += 1
            return
        parts = _parts(record, is_key=impact.is_key)
        if parts is None:
            impact.plain += 1
            return
        name = parts.name
        if self._own is not None and name not in self._own:
            impact.other += 1
            return
        place = Place(record.timestamp, row.partition.topic, row.partition.partition, record.offset)
        writer = self._writers[name]
        if isinstance(writer, str):
            self._damaged(Broken(place, name, "", writer))
            return
        broken = _tried(self._new, parts.payload, writer, place, name)
        if broken is not None:
            damage = _tried(writer, parts.payload, writer, place, name)
            if damage is not None:
                self._damaged(damage)
                return
        self._count(row, name, writer, broken)
        if broken is None:
            self._look_further(parts.payload, name, writer, place)

    def _damaged(self, broken: Broken) -> None:
        """Count a record that present readers cannot read either: it is none of this change."""
        self._impact.damaged += 1
        first = self._impact.first_damaged
        if first is None or broken.place < first.place:
            self._impact.first_damaged = broken

    def _count(self, row: Row, name: Name, writer: ParsedSchema, broken: Broken | None) -> None:
        schema = self._schemas.get(name)
        if schema is None:
            schema = SchemaImpact(name=name, version=self._versions.get(name), kind=writer.kind.value)
            self._schemas[name] = schema
        tallies: list[Tally] = [self._impact.new, schema]
        for group, impact in self._groups:
            committed = group.committed.get(row.partition)
            if committed is not None and row.record.offset >= committed:
                tallies.append(impact)
        for each in tallies:
            each.add(broken)

    def _look_further(self, payload: bytes, name: Name, writer: ParsedSchema, place: Place) -> None:
        """Count what the new schema leaves out of a record, and let present readers read the rewritten record."""
        self._schemas[name].left_out.update(self._new.left_out(payload, writer))
        try:
            rewritten = self._new.rewritten(payload, writer)
        except ValueError:
            self._impact.not_rewritten += 1
            return
        for reader in self._readers:
            reader.impact.add(_tried(reader.schema, rewritten, self._new, place, name))


def _tried(reader: ParsedSchema, payload: bytes, writer: ParsedSchema, place: Place, name: Name) -> Broken | None:
    """Return why a reader cannot take a record; None if it does."""
    if reader.kind is not writer.kind:
        reason = f"the record has the schema type {writer.kind.value}, the reader {reader.kind.value}"
        return Broken(place, name, "", reason)
    try:
        reader.resolve(payload, writer)
    except Unreadable as error:
        return Broken(place, name, error.path, error.reason)
    except ValueError as error:
        return Broken(place, name, "", str(error))
    return None
