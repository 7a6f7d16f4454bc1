"""Random messages of a schema."""

from __future__ import annotations

import string
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from broker_registry.schema_types.draws import Draws

ITEMS_MAX: Final = 3
TEXT_CHARACTERS: Final = (4, 16)
DEEP: Final = 5
"""From this depth on, only required fields have messages."""
DEPTH_MAX: Final = 50
_LETTERS: Final = string.ascii_letters + string.digits
# 2020 to 2029.
_SECONDS: Final = (1_577_836_800, 1_893_456_000)
_RANGES: Final = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}


def fill(message: Message, source: Draws, depth: int = 0) -> None:
    """Set the fields of a message. Raises ValueError for a schema whose messages have no end."""
    if depth > DEPTH_MAX:
        raise ValueError("messages of the schema have no end: give values in a file")
    descriptor = message.DESCRIPTOR
    if descriptor.full_name in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
        low, high = _SECONDS if descriptor.name == "Timestamp" else (0, 86_400)
        any_message: Any = message
        any_message.seconds = source.randint(low, high)
        any_message.nanos = source.randrange(1_000) * 1_000_000
        return
    if descriptor.full_name == "google.protobuf.Any":
        # A value of any type needs the schema of that type.
        return
    chosen = {oneof.name: source.choice(_leaves(oneof.fields, depth)) for oneof in descriptor.oneofs if oneof.fields}
    for field in descriptor.fields:
        oneof = field.containing_oneof
        if oneof is None or chosen[oneof.name] is field:
            _set(message, field, source, depth)


def _leaves(fields: Any, depth: int) -> Any:
    """Return the fields of a oneof among which one is chosen: deep down, those without messages."""
    return [each for each in fields if each.message_type is None] or list(fields) if depth >= DEEP else list(fields)


def _set(message: Message, field: Any, source: Draws, depth: int) -> None:
    # The library has two classes of descriptors with the same members.
    inner = field.message_type
    if inner is not None and depth >= DEEP and not field.is_required:
        return
    if field.is_repeated:
        target: Any = getattr(message, field.name)
        count = source.randint(0, ITEMS_MAX)
        if inner is None:
            target.extend(_scalar(field, source) for _ in range(count))
        elif inner.GetOptions().map_entry:
            key, value = inner.fields_by_name["key"], inner.fields_by_name["value"]
            for _ in range(count):
                if value.message_type is None:
                    target[_scalar(key, source)] = _scalar(value, source)
                else:
                    fill(target[_scalar(key, source)], source, depth + 1)
        else:
            for _ in range(count):
                fill(target.add(), source, depth + 1)
    elif inner is None:
        setattr(message, field.name, _scalar(field, source))
    else:
        below: Message = getattr(message, field.name)
        # An empty message is set, too.
        below.SetInParent()
        fill(below, source, depth + 1)


def _scalar(field: Any, source: Draws) -> Any:
    kind = field.cpp_type
    if kind in _RANGES:
        return source.randint(*_RANGES[kind])
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return source.random() < 0.5
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return round(source.uniform(-1_000, 1_000), 3)
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        assert field.enum_type is not None
        return source.choice(list(field.enum_type.values)).number
    length = source.randint(*TEXT_CHARACTERS)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return source.randbytes(length)
    return "".join(source.choices(_LETTERS, k=length))
