"""Protobuf schemas as Confluent's registry handles them.

lexer.py cursor.py parser.py options.py   text -> ast.py, with Wire's grammar
printer.py normalize.py         canonical and normalized text, byte for byte
from_descriptor.py link.py      descriptors -> elements -> descriptors; descriptors.py has their classes
types.py bundled.py             names of types, and files that need no reference
check.py                        what protoc would refuse, with line and column
diff.py differences.py          kinds, paths and messages of differences
records.py indexes.py           records and their message indexes
"""

from __future__ import annotations

from collections.abc import Sequence

from broker_registry.schema_types.base import TEXT_BYTES_MAX, InvalidSchema, ParseSettings, Resolved
from broker_registry.schema_types.protobuf import ast
from broker_registry.schema_types.protobuf.check import check
from broker_registry.schema_types.protobuf.from_descriptor import file_from_base64
from broker_registry.schema_types.protobuf.parser import parse_file
from broker_registry.schema_types.protobuf.printer import print_file
from broker_registry.schema_types.protobuf.schema import ParsedProtobuf

__all__ = ["ParsedProtobuf", "parse"]


def parse(text: str, references: Sequence[Resolved], settings: ParseSettings) -> ParsedProtobuf:
    """Return the schema of a .proto text, or of a FileDescriptorProto in base64. Raises InvalidSchema with line and
    column of a text.

    `validates`: all names of types exist, and the canonical text is read again as the same schema. `is_new` and
    `is_strict`: the schema has nothing that protoc refuses.
    """
    file = _read(text)
    others = {}
    for each in references:
        try:
            others[each.name] = _read(each.text)
        except InvalidSchema as error:
            raise InvalidSchema(f"reference {each.name}: {error}") from error
    schema = ParsedProtobuf(file, others, text)
    is_validated = settings.validates or settings.is_new
    # Confluent's registry, too, normalizes each schema that it validates, which finds names without a type.
    normalized = schema.normalized() if is_validated or settings.normalizes else schema
    if settings.is_new or settings.is_strict:
        check(schema, text)
    if is_validated:
        _check_stored(schema.canonical)
    if not settings.normalizes:
        return schema
    if is_validated:
        _file_of_stored(normalized.canonical)
    return normalized


def _check_stored(canonical: str) -> None:
    """Raise InvalidSchema for a canonical text that would not be read again from the log. Wire writes some values
    without the quotes that they need, such as defaults of bytes.
    """
    if print_file(_file_of_stored(canonical)) != canonical:
        raise InvalidSchema("the canonical text of the schema is read as another schema")


def _file_of_stored(text: str) -> ast.File:
    try:
        return parse_file(text)
    except InvalidSchema as error:
        raise InvalidSchema(f"the canonical text of the schema is no schema: {error}") from error


def _read(text: str) -> ast.File:
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidSchema(f"the text has half of a surrogate pair at character {error.start + 1}") from error
    if size_bytes > TEXT_BYTES_MAX:
        raise InvalidSchema(f"the text has more than {TEXT_BYTES_MAX} bytes")
    try:
        return parse_file(text)
    except InvalidSchema as error:
        file = file_from_base64(text)
        if file is None:
            raise InvalidSchema(f"Could not parse Protobuf - {error}") from error
        return file
