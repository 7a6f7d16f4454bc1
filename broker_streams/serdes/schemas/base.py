"""The common part of the serdes of the three schema types: schemas, subjects, and the bytes in front of a payload."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Self
from uuid import UUID

from broker_cy.wire.schema_header import KEY_HEADER, VALUE_HEADER, id_header, read_schema_header
from broker_registry.schema_types.base import Kind, ParsedSchema, Policy, Reference
from broker_registry.serdes.framing import framed
from broker_streams.records import NO_HEADERS, Headers
from broker_streams.serdes import SerdeError, SerdeUnavailable, shown
from broker_streams.serdes.schemas.lookups import Known, SchemaRegistry, SchemaText

KEPT_MAX: Final = 1_000
"""Encoders, and decoders, that a serde keeps: one for each topic and schema."""
_HEADER_BYTES: Final = 5

Encode = Callable[[Any], bytes]
Decode = Callable[[bytes], Any]
Given = str | Mapping[str, Any] | Path | None


class SchemaDict(dict[str, Any]):
    """A record that was read. `schema` is the one that it was read by: a serde without a schema writes it by that.

    A dict that is made of it has no schema, and needs a serde with one.
    """

    __slots__ = ("schema",)

    def __init__(self, value: dict[str, Any], schema: SchemaText) -> None:
        super().__init__(value)
        self.schema = schema


class RegistrySerde:
    """`schema` is the one that values are written by, and read by (schema evolution): its text, a dict of its JSON, or
    a file. Without it, a value is read by its writer's schema, and written by it again.

    `is_key` belongs to subjects (TOPIC-key, TOPIC-value); None: a topology knows it by the place of the serde.
    """

    kind: ClassVar[Kind]
    label: ClassVar[str]

    def __init__(
        self, schema: Given = None, *, references: Sequence[Reference | str] = (), is_key: bool | None = None
    ) -> None:
        """`references` are (name, subject, version), also as text NAME=SUBJECT:VERSION. Raises ValueError."""
        known = tuple(Reference.of(each) if isinstance(each, str) else each for each in references)
        if known and schema is None:
            raise ValueError("references belong to a schema, and none is given")
        self._given = None if schema is None else SchemaText(self.kind, _text(schema), known)
        self._is_key = is_key
        self._registry: SchemaRegistry | None = None
        self._reads_headers = False
        self._forget()

    def _forget(self) -> None:
        self._encoders: dict[Any, Encode] = {}
        # By the bytes in front of a payload, and by the schema's id or GUID.
        self._decoders: dict[str, dict[bytes, Decode]] = {}
        self._named: dict[tuple[str, int | UUID], Decode] = {}

    @property
    def name(self) -> str:
        members = self._members()
        return self.label if not members else f"{self.label}({json.dumps(members, separators=(',', ':'))})"

    def _members(self) -> dict[str, Any]:
        """The arguments that were given, from which a serde is made again, elsewhere."""
        found: dict[str, Any] = {}
        if self._given is not None:
            found["schema"] = self._given.text
            if self._given.references:
                found["references"] = [f"{each.name}={each.subject}:{each.version}" for each in self._given.references]
        if self._is_key is not None:
            found["is_key"] = self._is_key
        return found

    def __repr__(self) -> str:
        return f"{type(self).__name__}({shown(self.name)})"

    def with_registry(self, registry: SchemaRegistry | None, *, is_key: bool) -> Self:
        """The serde at one place of an application; a serde that has a registry keeps it. Raises ValueError: no
        registry.
        """
        if self._registry is not None:
            registry = self._registry
        if registry is None:
            raise ValueError(f"a serde of {self.label} needs a schema registry: set schema.registry.url")
        found = copy.copy(self)
        found._registry = registry
        found._is_key = is_key if self._is_key is None else self._is_key
        found._forget()
        return found

    def of_source(self) -> Self:
        """The serde of a topic that others write: ids may be in headers of its records, as Confluent's clients from
        version 8 on can write them. In stores they are not, so that headers of an input say nothing about a row.
        """
        found = copy.copy(self)
        found._reads_headers = True
        found._forget()
        return found

    # ------------------------------------------------------------------------------------------------ to bytes

    def serialize(self, topic: str, value: Any, headers: Headers = NO_HEADERS) -> bytes | None:
        if value is None:
            return None
        place = topic if self._given is not None else self._place(topic, value)
        encode = self._encoders.get(place)
        if encode is None:
            encode = self._encoder(topic, value)
            _keep(self._encoders, place, encode)
        return encode(value)

    def prepare_writing(self, topic: str) -> None:
        """Ask the registry now: the first record of a topic does not wait. Raises SerdeError, SerdeUnavailable."""
        if self._given is not None or self._bound().options.uses_latest:
            self._encoders.setdefault(topic, self._encoder(topic, None))

    def _place(self, topic: str, value: Any) -> Any:
        """The key of the encoder for a value without a schema of the serde."""
        if self._registry is not None and self._registry.options.uses_latest:
            return topic
        return topic, self._schema_of(topic, value)

    def _schema_of(self, topic: str, value: Any) -> SchemaText:
        """The schema that a value brings with it. Raises SerdeError: none."""
        schema = getattr(value, "schema", None)
        if isinstance(schema, SchemaText) and schema.kind is self.kind:
            return schema
        raise SerdeError(
            f"{topic}: {shown(value)} has no schema, so it cannot be written as {self.label}:"
            " give the serde a schema, or set use.latest.version"
        )

    def _bound(self) -> SchemaRegistry:
        if self._registry is None:
            raise SerdeError(f"a serde of {self.label} needs a schema registry: set schema.registry.url")
        return self._registry

    def _encoder(self, topic: str, value: Any) -> Encode:
        registry = self._bound()
        subject = "?"
        try:
            text = self._given
            if text is None and not registry.options.uses_latest:
                text = self._schema_of(topic, value)
            own = None if text is None else registry.parsed(text)
            subject = self._subject(topic, own)
            if registry.options.uses_latest:
                known = self._latest(subject, own)
            else:
                assert text is not None
                known = registry.registered(subject, text)
            payload = self._payload(known.parsed)
        except SerdeUnavailable as error:
            raise SerdeUnavailable(f"{topic} (subject {subject}): {error}") from None
        except (SerdeError, ValueError) as error:
            raise SerdeError(f"{topic} (subject {subject}): {error}") from None
        return self._framed(topic, known.name, payload, f"subject {subject}")

    @staticmethod
    def _framed(topic: str, name: int | UUID, payload: Encode, place: str) -> Encode:
        """A writer of values with the id in front. `place` is where the schema is from, for errors."""
        assert isinstance(name, int)
        header = id_header(name)

        def encode(value: Any) -> bytes:
            try:
                return header + payload(value)
            except Exception as error:
                raise SerdeError(f"{topic}: {shown(value)} does not fit schema {name} ({place}): {error}") from None

        return encode

    def _latest(self, subject: str, own: ParsedSchema | None) -> Known:
        registry = self._bound()
        known = registry.latest(subject)
        self._checked(known.parsed, f"the newest schema of {subject}")
        if own is not None and registry.options.is_strict:
            breaks = [each for each in known.parsed.differences(own) if Policy.STRICT in each.breaks]
            if breaks:
                raise SerdeError(
                    f"the newest version (schema {known.name}) cannot read what this schema writes:"
                    f" {breaks[0].message('newest', 'given')}; latest.compatibility.strict decides"
                )
        return known

    def _subject(self, topic: str, parsed: ParsedSchema | None) -> str:
        is_key = bool(self._is_key)
        strategy = self._bound().options.strategy(is_key=is_key)
        return strategy.subject(topic, None if parsed is None else self._record_name(parsed), is_key=is_key)

    def _subject_read(self, topic: str, parsed: ParsedSchema) -> str:
        """The subject of what is read, for messages: a schema without a name may have any."""
        try:
            return self._subject(topic, parsed)
        except ValueError:
            return "?"

    def _record_name(self, parsed: ParsedSchema) -> str | None:
        return parsed.name

    def _checked(self, parsed: ParsedSchema, what: str) -> None:
        if parsed.kind is not self.kind:
            raise SerdeError(f"{what} is of type {parsed.kind.value}, and the serde is of {self.kind.value}")

    def _payload(self, parsed: ParsedSchema) -> Encode:
        """A writer of values behind the id. Its errors say what does not fit."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------ from bytes

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = NO_HEADERS) -> Any:
        if data is None:
            return None
        if headers and self._reads_headers:
            return self._by_headers(topic, data, headers)
        decoders = self._decoders.get(topic)
        decode = None if decoders is None else decoders.get(data[:_HEADER_BYTES])
        if decode is not None:
            return decode(data[_HEADER_BYTES:])
        header = read_schema_header(data)
        if header is None:
            expected = "a byte 0 and an id of 4 bytes are expected first"
            raise SerdeError(f"{topic}: {shown(data)} names no schema: {expected}")
        name = header.guid if header.id is None else header.id
        assert name is not None
        decode = self._by_name(topic, name)
        if header.guid is None:
            _keep(self._decoders.setdefault(topic, {}), data[:_HEADER_BYTES], decode)
        return decode(data[header.size_bytes :])

    def _by_headers(self, topic: str, data: bytes, headers: Headers) -> Any:
        name = KEY_HEADER if self._is_key else VALUE_HEADER
        if all(key != name for key, _ in headers):
            return self.deserialize(topic, data)
        try:
            parts = framed(data, headers, is_key=bool(self._is_key))
        except ValueError as error:
            raise SerdeError(f"{topic}: {error}") from None
        if parts is None:
            return self.deserialize(topic, data)
        return self._by_name(topic, parts.name)(parts.payload)

    def _by_name(self, topic: str, name: int | UUID) -> Decode:
        place = topic, name
        found = self._named.get(place)
        if found is None:
            found = self._decoder(topic, name)
            _keep(self._named, place, found)
        return found

    def _decoder(self, topic: str, name: int | UUID) -> Decode:
        registry = self._bound()
        subject = "?"
        try:
            written = registry.schema(name)
            self._checked(written.parsed, f"schema {name}")
            subject = self._subject_read(topic, written.parsed)
            reader, text = self._reader(subject) or (written.parsed, written.text)
            read = self._read(written.parsed, reader, text)
        except SerdeUnavailable as error:
            raise SerdeUnavailable(f"{topic}: schema {name} is not known yet: {error}") from None
        except (SerdeError, ValueError) as error:
            raise SerdeError(f"{topic}: {error}") from None

        def decode(payload: bytes) -> Any:
            try:
                return read(payload)
            except Exception as error:
                raise SerdeError(
                    f"{topic}: {shown(payload)} cannot be read by schema {name} (subject {subject}): {error}"
                ) from None

        return decode

    def _reader(self, subject: str) -> tuple[ParsedSchema, SchemaText] | None:
        """The schema that values are read by; None: their writers'."""
        registry = self._bound()
        if self._given is not None:
            return registry.parsed(self._given), self._given
        if registry.options.uses_latest:
            found = registry.latest(subject)
            self._checked(found.parsed, f"the newest schema of {subject}")
            return found.parsed, found.text
        return None

    def _read(self, written: ParsedSchema, reader: ParsedSchema, text: SchemaText) -> Decode:
        """A reader of the bytes behind the id by `reader`, whose text is `text`. Its errors say what is wrong."""
        raise NotImplementedError


def _text(schema: str | Mapping[str, Any] | Path) -> str:
    """Raises ValueError: the file cannot be read."""
    if isinstance(schema, str):
        return schema
    if isinstance(schema, Path):
        try:
            return schema.read_text(encoding="utf-8")
        except OSError as error:
            raise ValueError(f"the schema {schema} cannot be read: {error.strerror}") from None
    return json.dumps(schema)


def _keep(kept: dict[Any, Any], key: Any, value: Any) -> None:
    """The oldest one goes when there are too many."""
    if len(kept) >= KEPT_MAX:
        del kept[next(iter(kept))]
    kept[key] = value
