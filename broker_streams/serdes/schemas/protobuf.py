"""Protobuf: messages as dicts (messages.py). The indexes of a message in its file are behind the schema id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from broker_registry.schema_types.base import Kind, ParsedSchema, Reference
from broker_streams.serdes.schemas.base import Decode, Encode, Given, RegistrySerde, SchemaDict
from broker_streams.serdes.schemas.lookups import SchemaText

if TYPE_CHECKING:
    from broker_registry.schema_types.protobuf.schema import ParsedProtobuf


class MessageDict(SchemaDict):
    """`message` is the name of the message in its schema, without the package."""

    __slots__ = ("message",)

    def __init__(self, value: dict[str, Any], schema: SchemaText, message: str) -> None:
        super().__init__(value, schema)
        self.message = message


class ProtobufSerde(RegistrySerde):
    """See RegistrySerde. `message` is the one that is written, by its name in the schema; None: the first one.

    Messages are read as MessageDict.
    """

    kind: ClassVar[Kind] = Kind.PROTOBUF
    label: ClassVar[str] = "PROTOBUF"

    def __init__(
        self,
        schema: Given = None,
        *,
        message: str | None = None,
        references: Sequence[Reference | str] = (),
        is_key: bool | None = None,
    ) -> None:
        super().__init__(schema, references=references, is_key=is_key)
        if message is not None and schema is None:
            raise ValueError(f"message {message} belongs to a schema, and none is given")
        self._message = message

    def _members(self) -> dict[str, Any]:
        return super()._members() | ({} if self._message is None else {"message": self._message})

    def _record_name(self, parsed: ParsedSchema) -> str | None:
        return parsed.name if self._message is None else _of(parsed).place_of(self._message)[1]

    def _payload(self, parsed: ParsedSchema) -> Encode:
        from broker_streams.serdes.schemas.messages import message_of

        schema = _of(parsed)
        # The indexes and the class of each message that is written.
        made: dict[str | None, tuple[bytes, Any]] = {}

        def encode(value: Any) -> bytes:
            name = self._message or getattr(value, "message", None)
            if name not in made:
                indexes, full_name = schema.place_of(name)
                made[name] = indexes, schema.records.class_of(full_name)
            indexes, kind = made[name]
            return indexes + message_of(kind, value).SerializeToString(deterministic=True)

        return encode

    def _read(self, written: ParsedSchema, reader: ParsedSchema, text: SchemaText) -> Decode:
        from broker_streams.serdes.schemas.messages import value_of

        schema = _of(reader)

        def read(payload: bytes) -> Any:
            name, message = schema.message_in(payload, written)
            return MessageDict(value_of(message), text, name)

        return read


def _of(parsed: ParsedSchema) -> ParsedProtobuf:
    return cast("ParsedProtobuf", parsed)
