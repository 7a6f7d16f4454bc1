"""The seam of Avro to the registry: parsed schemas, their forms, and records by fastavro."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Final
from uuid import UUID

from broker_registry.schema_types.avro import bounds, diff, text
from broker_registry.schema_types.avro.encode import encoded
from broker_registry.schema_types.avro.model import Named, Record, Schema
from broker_registry.schema_types.avro.normal import normalize
from broker_registry.schema_types.avro.parser import Parser
from broker_registry.schema_types.avro.sample import sample
from broker_registry.schema_types.avro.trace import trace
from broker_registry.schema_types.base import (
    TEXT_BYTES_MAX,
    Difference,
    InvalidSchema,
    Kind,
    ParsedSchema,
    ParseSettings,
    Resolved,
)
from broker_registry.schema_types.draws import Draws

RESOLVED: Final = "resolved"
_BYTES_OF_CHARACTER: Final = 20
"""Estimated memory of a parsed schema for each character of its text."""


class AvroSchema(ParsedSchema):
    """See ParsedSchema. `known` are the types of the references; the text has only their names."""

    kind: ClassVar[Kind] = Kind.AVRO

    def __init__(self, schema: Schema, known: Sequence[Named]) -> None:
        self.schema, self._known = schema, tuple(known)
        self.canonical = text.schema_text(schema, known)
        self.name = schema.full_name if isinstance(schema, Record) else None
        self._resolved: str | None = None
        self._codecs: dict[bool, Any] = {}
        self._is_bounded: bool | None = None
        self.size_bytes = 1_000 + _BYTES_OF_CHARACTER * (len(self.canonical) + sum(len(each.name) for each in known))

    @property
    def resolved(self) -> str:
        """The text with the types of its references in it."""
        if self._resolved is None:
            self._resolved = text.schema_text(self.schema)
        return self._resolved

    @cached_property
    def _compared(self) -> str:
        """The resolved text with its members sorted: a new version is compared with all earlier ones."""
        return json.dumps(json.loads(self.resolved), sort_keys=True)

    def normalized(self) -> AvroSchema:
        schema = copy.deepcopy(self.schema)
        normalize(schema)
        return AvroSchema(schema, self._known)

    def formatted(self, format_name: str) -> str:
        return self.resolved if format_name == RESOLVED else self.canonical

    def is_equivalent(self, other: ParsedSchema) -> bool:
        return isinstance(other, AvroSchema) and self._compared == other._compared

    def differences(self, writer: ParsedSchema) -> Sequence[Difference]:
        assert isinstance(writer, AvroSchema)
        try:
            return diff.differences(self.schema, writer.schema)
        except ValueError as error:
            message = f"Unexpected exception during compatibility check: {error}"
            return [Difference("EXCEPTION", "/", message)]

    def has_top_level_field(self, name: str) -> bool:
        return isinstance(self.schema, Record) and any(each.name == name for each in self.schema.fields)

    # ------------------------------------------------------------------------------------------------ records

    def library_schema(self, *, has_logical: bool = True) -> Any:
        """Return the schema for the library; without logical types, values are those of the types below."""
        import fastavro

        # A type of Avro 1.12 that the library lacks.
        fastavro.read.LOGICAL_READERS.setdefault("fixed-uuid", lambda data, *_: UUID(bytes=data))
        fastavro.write.LOGICAL_WRITERS.setdefault("fixed-uuid", lambda data, *_: getattr(data, "bytes", data))
        if has_logical not in self._codecs:
            text = json.loads(self.resolved)
            try:
                self._codecs[has_logical] = fastavro.parse_schema(text if has_logical else _without_logical(text))
            except Exception as error:
                raise ValueError(f"the library cannot use the schema: {error}") from None
        return self._codecs[has_logical]

    def decode(self, payload: bytes) -> Any:
        return self.resolve(payload, self)

    def resolve(self, payload: bytes, writer: ParsedSchema) -> Any:
        return self._read(payload, writer)

    def _read(self, payload: bytes, writer: ParsedSchema, **options: Any) -> Any:
        assert isinstance(writer, AvroSchema)
        writer.check_bounds(payload)
        try:
            return self._read_by(payload, writer, has_logical=True, **options)
        except Exception as error:
            try:
                # A time beyond the year 9999, or a text that is not a UUID: the value without its logical type.
                return self._read_by(payload, writer, has_logical=False, **options)
            except Exception:
                problem = None if writer is self else trace(payload, self.schema, writer.schema).problem
                raise problem or ValueError(_reason(error)) from None

    def _read_by(self, payload: bytes, writer: AvroSchema, *, has_logical: bool, **options: Any) -> Any:
        import fastavro

        stream = io.BytesIO(payload)
        schema = writer.library_schema(has_logical=has_logical)
        reader = None if writer is self else self.library_schema(has_logical=has_logical)
        found = fastavro.schemaless_reader(stream, schema, reader, **options)
        if stream.tell() != len(payload):
            raise ValueError(f"{len(payload) - stream.tell()} bytes follow the record")
        return found

    def check_bounds(self, payload: bytes) -> None:
        """Raises ValueError."""
        if self._is_bounded is None:
            self._is_bounded = not bounds.needs_check(self.schema)
        if not self._is_bounded:
            bounds.check(self.schema, payload)

    def rewritten(self, payload: bytes, writer: ParsedSchema) -> bytes:
        import fastavro

        # The writer must know the branches of unions: two records may have the same fields.
        value = self._read(payload, writer, return_named_type=True)
        stream = io.BytesIO()
        try:
            fastavro.schemaless_writer(stream, self.library_schema(), value)
        except Exception as error:
            raise ValueError(f"{type(error).__name__}: {error}") from None
        return stream.getvalue()

    def left_out(self, payload: bytes, writer: ParsedSchema) -> Sequence[str]:
        assert isinstance(writer, AvroSchema)
        return trace(payload, self.schema, writer.schema).left_out

    def encode(self, value: Any) -> bytes:
        return encoded(self.schema, value)

    def sample(self, source: Draws, message: str | None = None) -> bytes:
        return self.encode_message(sample(self.schema, source), message)


def _reason(error: Exception) -> str:
    if isinstance(error, EOFError | IndexError):
        return "the bytes end before the record does"
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


def _without_logical(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_logical(each) for name, each in value.items() if name != "logicalType"}
    return [_without_logical(each) for each in value] if isinstance(value, list) else value


def parse(schema_text: str, references: Sequence[Resolved], settings: ParseSettings) -> AvroSchema:
    """Raises InvalidSchema."""
    if len(schema_text) > TEXT_BYTES_MAX:
        raise InvalidSchema(f"the schema has {len(schema_text):,} characters; at most {TEXT_BYTES_MAX:,} are allowed")
    parser = Parser(is_strict=settings.is_new)
    try:
        found = [parser.parse(each.text) for each in references]
        # A type inside of a referenced schema is written in full.
        known = [each for each in found if isinstance(each, Named)]
        parsed = AvroSchema(parser.parse(schema_text), known)
        return parsed.normalized() if settings.normalizes else parsed
    except RecursionError:
        raise InvalidSchema("the schema is nested too deep") from None
