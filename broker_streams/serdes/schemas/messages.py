"""Messages of Protobuf as values of Python.

message   dict by the names of fields. Fields without presence (proto3's plain ones, lists, maps) are always in it;
          others, such as messages, `optional` ones and those of a oneof, only if they are set
int, float, bool, string, bytes   int, float, bool, str, bytes          repeated   list          map   dict
enum      the name of the value, or the number of one without a name
"""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message


def value_of(message: Message) -> dict[str, Any]:
    """The value of a message. Fields that the schema does not know are left out."""
    found: dict[str, Any] = {}
    fields: Any = message.DESCRIPTOR.fields
    for field in fields:
        if field.is_repeated:
            entry = _entry(field)
            given: Any = getattr(message, field.name)
            if entry is None:
                found[field.name] = [_one(field, each) for each in given]
            else:
                found[field.name] = {key: _one(entry, each) for key, each in given.items()}
        elif not field.has_presence or message.HasField(field.name):
            found[field.name] = _one(field, getattr(message, field.name))
    return found


def message_of(kind: type[Message], value: Any) -> Message:
    """The message of a value. Raises ValueError, which names the field that does not fit."""
    message = kind()
    _fill(message, value, "")
    if not message.IsInitialized():
        missing = ", ".join(getattr(message, "FindInitializationErrors")())  # noqa: B009
        raise ValueError(f"required fields are missing: {missing}")
    return message


def _entry(field: Any) -> Any:
    """The field of the values of a map; None: the field is none."""
    kind = field.message_type
    if kind is None or not kind.GetOptions().map_entry:
        return None
    return kind.fields_by_name["value"]


def _one(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return value_of(value)
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return value if named is None else named.name
    return value


def _fill(message: Message, value: Any, path: str) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"{path or '/'}: {value!r} is no message {message.DESCRIPTOR.full_name}: a dict is expected")
    descriptor: Any = message.DESCRIPTOR
    for name, given in value.items():
        field = descriptor.fields_by_name.get(name)
        here = f"{path}/{name}"
        if field is None:
            raise ValueError(f"{here}: message {descriptor.full_name} has no such field")
        try:
            _set(message, field, given, here)
        except (TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"{here}: {given!r} does not fit: {error}") from None


def _set(message: Message, field: Any, given: Any, here: str) -> None:
    if given is None:
        # As a field that is not set; a list or map is empty.
        return
    if not field.is_repeated:
        if field.message_type is None:
            setattr(message, field.name, _scalar(field, given, here))
        else:
            inner = getattr(message, field.name)
            inner.SetInParent()
            _fill(inner, given, here)
        return
    target: Any = getattr(message, field.name)
    entry = _entry(field)
    if entry is None:
        if not isinstance(given, list | tuple):
            raise ValueError(f"{here}: {given!r} is no list")
        for index, each in enumerate(given):
            if field.message_type is None:
                target.append(_scalar(field, each, f"{here}/{index}"))
            else:
                _fill(target.add(), each, f"{here}/{index}")
        return
    if not isinstance(given, dict):
        raise ValueError(f"{here}: {given!r} is no dict")
    for key, each in given.items():
        if entry.message_type is None:
            target[key] = _scalar(entry, each, f"{here}/{key}")
        else:
            _fill(target[key], each, f"{here}/{key}")


def _scalar(field: Any, given: Any, here: str) -> Any:
    if field.enum_type is not None and isinstance(given, str):
        named = field.enum_type.values_by_name.get(given)
        if named is None:
            allowed = ", ".join(field.enum_type.values_by_name)
            raise ValueError(f"{here}: {given!r} is no value of {field.enum_type.full_name}; it has {allowed}")
        return named.number
    if isinstance(given, bool) and field.cpp_type != FieldDescriptor.CPPTYPE_BOOL:
        # The library takes True for 1.
        raise ValueError(f"{here}: {given!r} is no number")
    return given
