"""A parsed Protobuf schema: the seam of the schema types for .proto texts."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from google.protobuf.message import Message

from broker_registry.schema_types.base import Difference, InvalidSchema, Kind, ParsedSchema, Unreadable
from broker_registry.schema_types.draws import Draws
from broker_registry.schema_types.protobuf import ast, bundled, diff, normalize
from broker_registry.schema_types.protobuf.indexes import indexes_of, message_at, read_indexes, write_indexes
from broker_registry.schema_types.protobuf.link import FILE_NAME, Linker
from broker_registry.schema_types.protobuf.printer import print_file
from broker_registry.schema_types.protobuf.records import Records, check_readable, left_out
from broker_registry.schema_types.protobuf.types import OWN_PATH, Types, collect, within

SIZE_FACTOR: Final = 7
"""Bytes of memory for each character of text and canonical text. 11 were measured for each of the text alone."""


class ParsedProtobuf(ParsedSchema):
    """`others` has the files that the schema refers to, by the paths that imports name. Types and classes of messages
    are made when they are first used.
    """

    kind: ClassVar[Kind] = Kind.PROTOBUF

    def __init__(self, file: ast.File, others: Mapping[str, ast.File], text: str) -> None:
        """`text` is the one that `at` of the elements counts tokens of. Raises InvalidSchema."""
        self.file = file
        self.canonical = print_file(file)
        self.size_bytes = SIZE_FACTOR * (len(text) + len(self.canonical))
        self._others = others
        self._text = text
        self._types: Types | None = None
        self._records: Records | None = None
        effective = self._effective
        first = next(iter((*effective.messages, *effective.types)), None)
        self.name = None if first is None else within(effective.package or "", first.name)

    @property
    def _effective(self) -> ast.File:
        """The file whose messages the records have: an otherwise empty file with one public import stands for it."""
        file = self.file
        if file.types or file.imports or file.services or file.extends or len(file.public_imports) != 1:
            return file
        path = file.public_imports[0]
        imported = self._others.get(path) or bundled.files().get(path)
        return imported if imported is not None and imported.types else file

    @property
    def types(self) -> Types:
        if self._types is None:
            known = bundled.types_without(self._others)
            self._types = collect({**self._others, OWN_PATH: self.file}, known)
        return self._types

    @property
    def records(self) -> Records:
        """Raises InvalidSchema if the library does not accept the schema."""
        if self._records is None:
            self._records = Records(self.file, self._others, self.types)
        return self._records

    def visible_paths(self) -> set[str]:
        """Return the paths whose types the file may use: its imports, and what they import publicly."""
        found: set[str] = {OWN_PATH}
        following = [*self.file.imports, *self.file.public_imports]
        while following:
            path = following.pop()
            file = self._others.get(path) or bundled.files().get(path)
            if path not in found and file is not None:
                found.add(path)
                following.extend(file.public_imports)
        return found

    def check_records(self) -> None:
        """Raise InvalidSchema if the library does not accept the schema, so that it reads no records."""
        _ = self.records

    # Texts

    def normalized(self) -> ParsedProtobuf:
        return ParsedProtobuf(normalize.normalized(self.file, self.types, self._text), self._others, self._text)

    def formatted(self, format_name: str) -> str:
        if format_name == "ignore_extensions":
            return print_file(normalize.without_extensions(self.file))
        if format_name == "serialized":
            paths = (*bundled.files(), *self._others)
            descriptor = Linker(self.types, has_groups=False).file(self.file, FILE_NAME, paths)
            return base64.b64encode(descriptor.SerializeToString()).decode()
        return self.canonical

    def is_equivalent(self, other: ParsedSchema) -> bool:
        return isinstance(other, ParsedProtobuf) and self.canonical == other.canonical

    # Compatibility

    def differences(self, writer: ParsedSchema) -> Sequence[Difference]:
        if not isinstance(writer, ParsedProtobuf):
            raise TypeError("the schemas have different types")
        return diff.compare(writer.file, writer.types, self.file, self.types)

    def has_top_level_field(self, name: str) -> bool:
        """As in Confluent's registry, of any message that is not nested, and without fields of oneofs."""
        return any(field.name == name for message in self._effective.messages for field in message.fields)

    # Records

    def message_name(self, indexes: Sequence[int]) -> str:
        """Return the full name of a message. Raises ValueError if there is none with these indexes."""
        return within(self._effective.package or "", message_at(self._effective, indexes))

    def decode(self, payload: bytes) -> Any:
        indexes, at = read_indexes(payload)
        return self._records_or_error().value_of(
            self._records_or_error().read(self.message_name(indexes), payload[at:])
        )

    def message_of(self, payload: bytes) -> str:
        return self.message_name(read_indexes(payload)[0])

    def encode(self, value: Any) -> bytes:
        return self.encode_message(value, None)

    def encode_message(self, value: Any, name: str | None) -> bytes:
        """Return the payload of a value of the message `name`, with or without the package; None: of the first one."""
        indexes, full_name = self.place_of(name)
        return indexes + self._records_or_error().written(full_name, value)

    def place_of(self, name: str | None) -> tuple[bytes, str]:
        """Return the indexes of a message as bytes, and its full name. Raises ValueError."""
        package = self._effective.package
        local = message_at(self._effective, (0,)) if name is None else name
        if package and local.startswith(f"{package}."):
            local = local[len(package) + 1 :]
        return write_indexes(indexes_of(self._effective, local)), within(package or "", local)

    def sample(self, source: Draws, message: str | None = None) -> bytes:
        indexes, full_name = self.place_of(message)
        return indexes + self._records_or_error().sample(full_name, source)

    def resolve(self, payload: bytes, writer: ParsedSchema) -> Any:
        _, message = self.message_in(payload, writer)
        return self._records_or_error().value_of(message)

    def rewritten(self, payload: bytes, writer: ParsedSchema) -> bytes:
        local, message = self.message_in(payload, writer)
        message.DiscardUnknownFields()
        return write_indexes(indexes_of(self._effective, local)) + message.SerializePartialToString()

    def left_out(self, payload: bytes, writer: ParsedSchema) -> Sequence[str]:
        assert isinstance(writer, ParsedProtobuf)
        _, read = self.message_in(payload, writer)
        indexes, at = read_indexes(payload)
        return left_out(writer._records_or_error().read(writer.message_name(indexes), payload[at:]), read.DESCRIPTOR)

    def message_in(self, payload: bytes, writer: ParsedSchema) -> tuple[str, Message]:
        """Return the message of a record, and its name without the package. A change of the package alone keeps the
        bytes readable. Raises ValueError.
        """
        if not isinstance(writer, ParsedProtobuf):
            raise ValueError("the schemas have different types")
        indexes, at = read_indexes(payload)
        local = message_at(writer._effective, indexes)
        name = within(self._effective.package or "", local)
        if not self._records_or_error().has(name):
            raise Unreadable("", f"the schema has no message {local}")
        message = self._records_or_error().read(name, payload[at:])
        check_readable(message)
        return local, message

    def _records_or_error(self) -> Records:
        try:
            return self.records
        except InvalidSchema as error:
            raise ValueError(str(error)) from error
