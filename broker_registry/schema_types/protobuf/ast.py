"""The elements of a .proto file as frozen values, in the order of the text.

Names of types are as in the text, not resolved. Comments are left out: canonical texts have none. `at` is the index of
the element's first token, for `lexer.position`; elements are equal wherever they stand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

TAG_MAX: Final = (1 << 29) - 1
"""The largest number of a field; ranges end with `max` for it."""
_KEYS: Final = frozenset(
    (
        *("int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64"),
        *("bool", "string"),
    )
)
SCALARS: Final = frozenset((*_KEYS, "bytes", "double", "float"))


class OptionKind(Enum):
    STRING = "string"
    BOOLEAN = "boolean"
    NUMBER = "number"
    ENUM = "enum"
    MAP = "map"
    LIST = "list"
    OPTION = "option"


PRIMITIVES: Final = frozenset((OptionKind.BOOLEAN, OptionKind.NUMBER, OptionKind.ENUM))


@dataclass(frozen=True, slots=True)
class Primitive:
    """A value in a map or list of an option that is written without quotes."""

    kind: OptionKind
    value: str


OptionValue: TypeAlias = "str | Primitive | dict[str, OptionValue] | list[OptionValue] | Option"
"""`str` is a quoted text, or the text of a BOOLEAN, NUMBER or ENUM directly in its option. Values are not changed after
the parser has returned them.
"""


@dataclass(frozen=True, slots=True)
class Option:
    """`name = value`; a custom option's name is parenthesized. The value of kind OPTION is another option: the rest of
    a path such as `(a).b.c = 1`.
    """

    name: str
    kind: OptionKind
    value: OptionValue
    parenthesized: bool = False


Options: TypeAlias = "tuple[Option, ...]"


class Range(NamedTuple):
    """Numbers from `first` to `last`, both included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Field:
    """`label` is required, optional, repeated or None. `type` is the text without spaces, with `map<K, V>` for maps."""

    label: str | None
    type: str
    name: str
    tag: int
    options: Options = ()
    default: str | None = None
    json_name: str | None = None
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Group:
    label: str | None
    name: str
    tag: int
    fields: tuple[Field, ...] = ()
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class OneOf:
    name: str
    fields: tuple[Field, ...] = ()
    groups: tuple[Group, ...] = ()
    options: Options = ()
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Reserved:
    """Names, numbers and ranges of one statement `reserved`."""

    values: tuple[str | int | Range, ...]
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Extensions:
    """Numbers and ranges of one statement `extensions`."""

    values: tuple[int | Range, ...]
    options: Options = ()
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Extend:
    """Fields of one statement `extend`, which add to the message `name`."""

    name: str
    fields: tuple[Field, ...] = ()
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class EnumValue:
    name: str
    tag: int
    options: Options = ()
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class EnumType:
    name: str
    values: tuple[EnumValue, ...] = ()
    options: Options = ()
    reserved: tuple[Reserved, ...] = ()
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Message:
    name: str
    fields: tuple[Field, ...] = ()
    oneofs: tuple[OneOf, ...] = ()
    types: tuple[Message | EnumType, ...] = ()
    options: Options = ()
    reserved: tuple[Reserved, ...] = ()
    extensions: tuple[Extensions, ...] = ()
    groups: tuple[Group, ...] = ()
    extends: tuple[Extend, ...] = ()
    at: int = field(default=0, compare=False)

    @property
    def all_fields(self) -> Iterator[Field]:
        """Fields, and then those of the oneofs. Groups have no field here, as in Confluent's registry."""
        yield from self.fields
        for oneof in self.oneofs:
            yield from oneof.fields


Type: TypeAlias = "Message | EnumType"


@dataclass(frozen=True, slots=True)
class Rpc:
    name: str
    request: str
    response: str
    streams_request: bool = False
    streams_response: bool = False
    options: Options = ()
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Service:
    name: str
    rpcs: tuple[Rpc, ...] = ()
    options: Options = ()
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class File:
    """`syntax` is proto2, proto3, or None if the text has none, which means proto2."""

    syntax: str | None = None
    package: str | None = None
    imports: tuple[str, ...] = ()
    public_imports: tuple[str, ...] = ()
    weak_imports: tuple[str, ...] = ()
    types: tuple[Type, ...] = ()
    services: tuple[Service, ...] = ()
    extends: tuple[Extend, ...] = ()
    options: Options = ()

    @property
    def messages(self) -> tuple[Message, ...]:
        return messages_of(self.types)


def messages_of(types: tuple[Type, ...]) -> tuple[Message, ...]:
    """Return the messages in their order, which message indexes count."""
    return tuple(each for each in types if isinstance(each, Message))


def map_types(type_name: str) -> tuple[str, str] | None:
    """Return the types of key and value of `map<K, V>`, None for another type."""
    if not (type_name.startswith("map<") and type_name.endswith(">")):
        return None
    key, _, value = type_name[4:-1].partition(",")
    return key.strip(), value.strip()


def may_be_key(type_name: str) -> bool:
    """Return whether keys of maps may have this type: any scalar but bytes and those with a floating point."""
    return type_name in _KEYS
