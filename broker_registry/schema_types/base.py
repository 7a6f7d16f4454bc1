"""The seam of the schema types: parsing, canonical text, and the differences of two schemas.

A schema type is a function `parse(text, references, settings) -> ParsedSchema`. It has no state, and reads no file,
clock or random source, so that a worker process may run it. A verdict is a list of differences, each with a kind and a
path; a policy is a set of kinds that it allows. Canonical text decides ids: it equals that of Confluent's registry.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final

from broker_registry.schema_types.draws import Draws

TEXT_BYTES_MAX: Final = 16 << 20
"""The largest text of a schema; bodies of requests have the same bound."""
DEPTH_MAX: Final = 400
"""How deep types may be nested in a schema. Beyond it parsing would end in a RecursionError."""

DIFFERENCES_MAX: Final = 5_000
"""Differences of two types. A type below many others counts once for each way to it, so that they multiply."""


class Kind(Enum):
    """The schema types by their names in the REST API."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


class Policy(Enum):
    """The setting `compatibilityPolicy` of a subject: which differences of JSON Schema are allowed."""

    STRICT = "STRICT"
    LENIENT = "LENIENT"


class InvalidSchema(ValueError):
    """The text is no schema of its type; the message says where and why. Confluent's error code 42201."""


class Unreadable(ValueError):
    """A schema cannot take a value of a record. `path` leads to the value, such as `/items/2/price`; empty: it is the
    record itself.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path = path
        self.reason = reason


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """A reference of a schema to a version of a subject, by the name that its text uses."""

    name: str
    subject: str
    version: int

    @classmethod
    def of(cls, text: str) -> Reference:
        """Return the reference of NAME=SUBJECT:VERSION. Raises ValueError."""
        name, equals, place = text.partition("=")
        subject, colon, version = place.rpartition(":")
        if not (equals and colon and name and subject and version.isdecimal()):
            raise ValueError(f"{text!r} is no reference: NAME=SUBJECT:VERSION is expected")
        return cls(name, subject, int(version))


@dataclass(frozen=True, slots=True)
class Resolved:
    """The text of a referenced schema. A sequence of them has each one behind those that it refers to."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between a reader's and a writer's schema.

    `kind` is Confluent's name of the difference. `text` is Confluent's message, with `%s` for the reader and then for
    the writer, which are "new" and "old" or the other way round. `breaks` has the policies that do not allow it.
    """

    kind: str
    path: str
    text: str
    breaks: frozenset[Policy] = frozenset(Policy)

    def message(self, reader: str, writer: str) -> str:
        return self.text.replace("%s", reader, 1).replace("%s", writer, 1)


class ParsedSchema(ABC):
    """A schema of one type, immutable.

    `canonical` is the text that is stored and served. `name` is that of the record or of the first message, None if the
    type has none. `size_bytes` estimates its memory, for bounds of caches.
    """

    kind: ClassVar[Kind]
    canonical: str
    name: str | None
    size_bytes: int

    @abstractmethod
    def normalized(self) -> ParsedSchema:
        """Return the schema with everything in its defined order, as `normalize=true` stores it."""

    @abstractmethod
    def formatted(self, format_name: str) -> str:
        """Return the text in a format of the parameter `format`; the canonical text for one that is unknown."""

    @abstractmethod
    def is_equivalent(self, other: ParsedSchema) -> bool:
        """Return whether a lookup of this schema finds `other`, whose text may differ, such as by references that are
        resolved in one of them.
        """

    @abstractmethod
    def differences(self, writer: ParsedSchema) -> Sequence[Difference]:
        """Return how this schema, as the reader's, differs from a writer's schema of the same type, in Confluent's
        order. Allowed differences have an empty `breaks`. More than DIFFERENCES_MAX are one difference that says so.
        """

    @abstractmethod
    def has_top_level_field(self, name: str) -> bool:
        """Return whether records have a field of this name; for reserved fields (metadata `confluent:reserved`)."""

    @abstractmethod
    def decode(self, payload: bytes) -> Any:
        """Return the value of a record behind its header, of JSON's types and bytes. Raises ValueError if the payload
        is no record of this schema.
        """

    @abstractmethod
    def sample(self, source: Draws, message: str | None = None) -> bytes:
        """Return the payload of a record with random values. `message` as in `encode_message`. Raises ValueError if
        none was found.
        """

    def message_of(self, payload: bytes) -> str | None:
        """Return the name of the message of a record, for types whose schemas have several. Raises ValueError."""
        return None

    def encode_message(self, value: Any, name: str | None) -> bytes:
        """As `encode`, for a message of a schema that has several; None: the first one. Raises ValueError."""
        if name is not None:
            raise ValueError(f"{self.kind.value} schemas have no messages: {name} names one")
        return self.encode(value)

    @abstractmethod
    def encode(self, value: Any) -> bytes:
        """Return the payload of a value as `decode` returns it. Raises ValueError if the value does not fit."""

    @abstractmethod
    def resolve(self, payload: bytes, writer: ParsedSchema) -> Any:
        """Return the value that this schema reads from a record of a writer's schema of the same type. Raises
        ValueError if it cannot, and Unreadable if the place is known.
        """

    @abstractmethod
    def rewritten(self, payload: bytes, writer: ParsedSchema) -> bytes:
        """Return the payload of this schema with the value that it reads from a record of a writer's schema. Raises
        ValueError if it cannot.
        """

    @abstractmethod
    def left_out(self, payload: bytes, writer: ParsedSchema) -> Sequence[str]:
        """Return the paths of values of a record that this schema does not have, `*` for each place in a list or map.
        The record must be one that `resolve` reads.
        """


@dataclass(frozen=True, slots=True)
class ParseSettings:
    """`is_new`: defaults and names get the checks of new schemas. `validates`: everything is resolved and checked;
    stored texts, and those that are imported, are not. `is_strict`: names of fields that are reserved are refused
    (`validateFields`). `normalizes`: return `normalized()`.
    """

    is_new: bool = False
    validates: bool = False
    is_strict: bool = False
    normalizes: bool = False
