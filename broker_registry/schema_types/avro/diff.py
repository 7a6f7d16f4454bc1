"""The rules of schema resolution (Avro specification 1.12): where a reader cannot read a writer's data.

Kinds, paths and their order are those of `SchemaCompatibility` of Avro's Java library; texts are Confluent's.
"""

from __future__ import annotations

from broker_registry.schema_types.avro.model import (
    ABSENT,
    Array,
    Enumeration,
    Field,
    Fixed,
    Map,
    Named,
    Record,
    Schema,
    Union,
)
from broker_registry.schema_types.base import DIFFERENCES_MAX, Difference

# Types of a writer that a reader's type takes, too.
_PROMOTIONS = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "bytes": ("string",),
    "string": ("bytes",),
}
_TEXTS = {
    "FIXED_SIZE_MISMATCH": "The size of FIXED type field at path '{path}' in the %s schema does not match with the %s "
    "schema",
    "TYPE_MISMATCH": "The type (path '{path}') of a field in the %s schema does not match with the %s schema",
    "NAME_MISMATCH": "The name of the schema has changed (path '{path}')",
    "MISSING_ENUM_SYMBOLS": "The %s schema is missing enum symbols '{detail}' at path '{path}' in the %s schema",
    "MISSING_UNION_BRANCH": "The %s schema is missing a type inside a union field at path '{path}' in the %s schema",
    "READER_FIELD_MISSING_DEFAULT_VALUE": "The field '{detail}' at path '{path}' in the %s schema has no default value "
    "and is missing in the %s schema",
}


def differences(reader: Schema, writer: Schema) -> list[Difference]:
    """Return what keeps a reader from reading; empty if it can. Raises ValueError if aliases are ambiguous, or if there
    are too many differences.
    """
    return _Walk().compare(reader, writer, ())


def _difference(kind: str, where: tuple[str, ...], detail: str) -> Difference:
    path = "/" + "/".join(each.replace("~", "~0").replace("/", "~1") for each in where)
    text = _TEXTS[kind].format(path=path, detail=detail)
    return Difference(kind, path, f"{{errorType:'{kind}', description:'{text}', additionalInfo:'{detail}'}}")


class _Walk:
    """Compares each pair of types once; a pair below itself is compatible there."""

    def __init__(self) -> None:
        self._results: dict[tuple[int, int], list[Difference]] = {}
        # Keeps the pairs alive whose identities are keys.
        self._pairs: list[tuple[Schema, Schema]] = []

    def compare(self, reader: Schema, writer: Schema, where: tuple[str, ...]) -> list[Difference]:
        key = (id(reader), id(writer))
        if key in self._results:
            return self._results[key]
        self._results[key] = []
        self._pairs.append((reader, writer))
        found = self._calculate(reader, writer, where)
        if len(found) > DIFFERENCES_MAX:
            raise ValueError(f"more than {DIFFERENCES_MAX:,} differences")
        self._results[key] = found
        return found

    def _calculate(self, reader: Schema, writer: Schema, where: tuple[str, ...]) -> list[Difference]:
        if isinstance(writer, Union):
            if isinstance(reader, Union):
                return self._unions(reader, writer, where)
            pairs = enumerate(writer.branches)
            return [each for index, branch in pairs for each in self.compare(reader, branch, (*where, str(index)))]
        if isinstance(reader, Union):
            # As in Java, places below an alternative begin there.
            if any(not self.compare(branch, writer, ()) for branch in reader.branches):
                return []
            return [_lacking(writer, where)]
        if kind_of(reader) != kind_of(writer):
            if is_promoted(reader, writer):
                return []
            detail = f"reader type: {kind_of(reader)} not compatible with writer type: {kind_of(writer)}"
            return [_difference("TYPE_MISMATCH", where, detail)]
        if isinstance(reader, Array) and isinstance(writer, Array):
            return self.compare(reader.items, writer.items, (*where, "items"))
        if isinstance(reader, Map) and isinstance(writer, Map):
            return self.compare(reader.values, writer.values, (*where, "values"))
        if isinstance(reader, Fixed) and isinstance(writer, Fixed):
            return [*_names(reader, writer, where), *_sizes(reader, writer, where)]
        if isinstance(reader, Enumeration) and isinstance(writer, Enumeration):
            return [*_names(reader, writer, where), *_symbols(reader, writer, where)]
        if isinstance(reader, Record) and isinstance(writer, Record):
            return [*_names(reader, writer, where), *self._fields(reader, writer, (*where, "fields"))]
        return []

    def _unions(self, reader: Union, writer: Union, where: tuple[str, ...]) -> list[Difference]:
        found = []
        for index, branch in enumerate(writer.branches):
            if self.compare(reader, branch, ()):
                found.append(_lacking(branch, (*where, str(index))))
        return found

    def _fields(self, reader: Record, writer: Record, where: tuple[str, ...]) -> list[Difference]:
        found: list[Difference] = []
        for index, field in enumerate(reader.fields):
            here = (*where, str(index))
            theirs = writer_field(field, writer)
            if theirs is not None:
                found += self.compare(field.schema, theirs.schema, (*here, "type"))
            elif field.default is ABSENT:
                if isinstance(field.schema, Enumeration) and field.schema.default is not None:
                    found += self.compare(field.schema, writer, (*here, "type"))
                else:
                    found.append(_difference("READER_FIELD_MISSING_DEFAULT_VALUE", here, field.name))
        return found


def is_promoted(reader: Schema, writer: Schema) -> bool:
    """Return whether a reader's type takes the values of another type, such as long those of int."""
    return writer.type in _PROMOTIONS.get(reader.type, ())


def kind_of(schema: Schema) -> str:
    """Return the type as Java's enumeration names it; errors are records."""
    return "RECORD" if isinstance(schema, Record) else schema.type.upper()


def _lacking(writer: Schema, where: tuple[str, ...]) -> Difference:
    return _difference("MISSING_UNION_BRANCH", where, f"reader union lacking writer type: {kind_of(writer)}")


def _names(reader: Named, writer: Named, where: tuple[str, ...]) -> list[Difference]:
    if reader.name == writer.name or writer.full_name in reader.aliases:
        return []
    return [_difference("NAME_MISMATCH", (*where, "name"), f"expected: {writer.full_name}")]


def _sizes(reader: Fixed, writer: Fixed, where: tuple[str, ...]) -> list[Difference]:
    if reader.size == writer.size:
        return []
    detail = f"expected: {writer.size}, found: {reader.size}"
    return [_difference("FIXED_SIZE_MISMATCH", (*where, "size"), detail)]


def _symbols(reader: Enumeration, writer: Enumeration, where: tuple[str, ...]) -> list[Difference]:
    missing = sorted(set(writer.symbols) - set(reader.symbols))
    if not missing or reader.default is not None:
        return []
    return [_difference("MISSING_ENUM_SYMBOLS", (*where, "symbols"), f"[{', '.join(missing)}]")]


def writer_field(field: Field, writer: Record) -> Field | None:
    """Return the field of a writer that a reader's field takes, by its name or one of its aliases."""
    theirs = {each.name: each for each in writer.fields}
    # A name that is also an alias counts twice.
    found = [theirs[name] for name in (field.name, *field.aliases) if name in theirs]
    if len(found) > 1:
        raise ValueError(
            f"Reader record field {field.name} matches multiple fields in writer record {writer.full_name}"
        )
    return found[0] if found else None
