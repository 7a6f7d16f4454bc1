"""Serdes of rows whose schemas are in a schema registry: AVRO, PROTOBUF, JSON_SR.

A row is written by the schema that ksqlDB would register for its columns, under TOPIC-key or TOPIC-value, or by the one
of schemaId, which must be registered. It is read by the schema that its bytes name: a column gets the field of its
name, or of its upper-case name, if the types match, and NULL if there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_registry.schema_types.base import ParsedSchema
from broker_sql.errors import AnalysisError
from broker_sql.formats.connect import Base, Shape, check_map_keys, row_reader, shape_of_row
from broker_sql.formats.kinds import SCHEMA_ID
from broker_sql.formats.rows import RowShape, checked_count
from broker_streams.records import NO_HEADERS, Headers
from broker_streams.serdes import SerdeError
from broker_streams.serdes.schemas.base import Decode, Encode, RegistrySerde
from broker_streams.serdes.schemas.lookups import SchemaText, parse


class RegisteredSerde(RegistrySerde):
    """A format says what schema a shape has, and how values of a shape are written and read."""

    def __init__(self, row: RowShape) -> None:
        """Raises AnalysisError: the format cannot hold the columns."""
        check_map_keys(row.names, row.types, row.format)
        self.row = row
        self.shape = shape_of_row(row.names, row.types, unwraps=row.unwraps)
        schema_id = row.settings.get(SCHEMA_ID)
        self._schema_id = None if schema_id is None else int(schema_id)
        try:
            text = None if schema_id is not None else self.schema_text(self.shape)
            if text is not None:
                parse(self.kind, text)
        except (SerdeError, ValueError) as error:
            columns = ", ".join(row.names)
            raise AnalysisError(f"columns {columns} have no schema of {row.format}: {error}") from None
        super().__init__(text, is_key=row.is_key)

    def __getstate__(self) -> dict[str, Any]:
        # Encoders and decoders are made again in another process.
        return {**vars(self), "_encoders": {}, "_decoders": {}, "_named": {}}

    @property
    def name(self) -> str:
        return f"SQL_{self.row}"

    @property
    def schema(self) -> SchemaText | None:
        """The schema that rows are written by; None: that of schemaId."""
        return self._given

    def schema_text(self, shape: Shape) -> str:
        """The schema to register for a key or value. Raises ValueError."""
        raise NotImplementedError

    def shape_of(self, parsed: ParsedSchema) -> Shape:
        """The shape of a schema of the registry. Raises ValueError."""
        raise NotImplementedError

    def encoder(self, parsed: ParsedSchema, shape: Shape) -> Encode:
        """The function from a value of the shape to the bytes behind the header."""
        raise NotImplementedError

    def decoder(self, parsed: ParsedSchema, shape: Shape) -> Decode:
        """The function from the bytes behind the header to a value of the shape."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------ as RegistrySerde

    def serialize(self, topic: str, value: Any, headers: Headers = NO_HEADERS) -> bytes | None:
        if value is not None and self.row.unwraps:
            value = value[0]
        return super().serialize(topic, value, headers)

    def prepare_writing(self, topic: str) -> None:
        self._encoders.setdefault(topic, self._encoder(topic, None))

    def _place(self, topic: str, value: Any) -> Any:
        return topic

    def _encoder(self, topic: str, value: Any) -> Encode:
        if self._schema_id is None:
            return super()._encoder(topic, value)
        known = self._bound().schema(self._schema_id)
        self._checked(known.parsed, f"schema {self._schema_id}")
        try:
            payload = self._payload(known.parsed)
        except ValueError as error:
            raise SerdeError(f"{topic}: {error}") from None
        return self._framed(topic, known.name, payload, f"schema id {self._schema_id}")

    def _payload(self, parsed: ParsedSchema) -> Encode:
        shape = self.shape if self._schema_id is None else self.shape_of(parsed)
        encode = self.encoder(parsed, shape)
        if self.row.unwraps:
            return encode
        names, count = self.row.names, len(self.row.names)
        if self._schema_id is not None:
            missing = [name for name in names if name not in dict(shape.fields)]
            if missing or shape.base is not Base.STRUCT:
                raise ValueError(f"schema {self._schema_id} does not have the field {', '.join(missing)}")

        def write(row: Any) -> bytes:
            checked_count(row, count)
            return encode(dict(zip(names, row, strict=True)))

        return write

    def _reader(self, subject: str) -> None:
        """Rows are read by their writers' schemas."""

    def _read(self, written: ParsedSchema, reader: ParsedSchema, text: SchemaText) -> Decode:
        shape = self.shape_of(written)
        decode = self.decoder(written, shape)
        to_row: Callable[[Any], Any] = row_reader(shape, self.row.names, self.row.types, unwraps=self.row.unwraps)
        return lambda payload: to_row(decode(payload))
