"""Records by their schema: messages of the library, whose classes are made from descriptors at run time. Values have
the form of Protobuf's JSON, as Confluent's console tools print them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final, cast

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError, EncodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from broker_registry.schema_types.base import InvalidSchema, Unreadable
from broker_registry.schema_types.draws import Draws
from broker_registry.schema_types.protobuf import ast, bundled
from broker_registry.schema_types.protobuf.link import FILE_NAME, Linker
from broker_registry.schema_types.protobuf.sample import fill
from broker_registry.schema_types.protobuf.types import Types

IMPORTS_DEEP_MAX: Final = 200
"""How long a chain of imports may be; each file is a call deeper."""
LEFT_OUT_MAX: Final = 100
_VARINT: Final = 0


class Records:
    """The messages of a schema. `others` has the files that it refers to, by the paths that imports name.

    Raises InvalidSchema if the library does not accept the schema.
    """

    def __init__(self, file: ast.File, others: Mapping[str, ast.File], types: Types) -> None:
        self._others = others
        self._types = types
        self._pool = descriptor_pool.DescriptorPool()
        self._added: set[str] = set()
        self._classes: dict[str, type[Message]] = {}
        self._add(FILE_NAME, file, [])

    def _add(self, path: str, file: ast.File, open_paths: list[str]) -> None:
        """Add a file behind those that it imports."""
        if path in open_paths:
            raise InvalidSchema(f"the imports of {path} lead back to it")
        if len(open_paths) > IMPORTS_DEEP_MAX:
            raise InvalidSchema(f"imports follow each other more than {IMPORTS_DEEP_MAX} times")
        for imported in (*file.imports, *file.public_imports):
            if imported in self._added:
                continue
            if imported in self._others:
                self._add(imported, self._others[imported], [*open_paths, path])
            elif imported in bundled.files():
                self._add_bundled(imported)
        types = Types(file.package or "", self._types.types, self._types.extensions)
        self._build(Linker(types, has_groups=True).file(file, path, self._added))

    def _add_bundled(self, path: str) -> None:
        if path in self._added:
            return
        descriptor = _bundled_descriptor(path)
        for imported in descriptor.dependency:
            self._add_bundled(imported)
        self._build(descriptor)

    def _build(self, descriptor: descriptor_pb2.FileDescriptorProto) -> None:
        try:
            self._pool.AddSerializedFile(descriptor.SerializeToString())
        except (TypeError, ValueError, EncodeError) as error:
            raise InvalidSchema(f"Invalid protobuf schema definition: {error}") from error
        self._added.add(descriptor.name)

    def has(self, name: str) -> bool:
        try:
            self._pool.FindMessageTypeByName(name)
        except KeyError:
            return False
        return True

    def class_of(self, name: str) -> type[Message]:
        """Return the class of a message by its full name. Raises ValueError if there is none."""
        if name not in self._classes:
            try:
                descriptor = self._pool.FindMessageTypeByName(name)
            except KeyError:
                raise ValueError(f"the schema has no message {name}") from None
            self._classes[name] = message_factory.GetMessageClass(descriptor)
        return self._classes[name]

    def read(self, name: str, data: bytes) -> Message:
        """Return a message. Raises ValueError if the data is none, or lacks a required field."""
        message = self.class_of(name)()
        try:
            message.ParseFromString(data)
        except DecodeError as error:
            raise ValueError(f"the record is no {name}: {error}") from error
        if not message.IsInitialized():
            # The stubs lack this method.
            missing = ", ".join(cast(Any, message).FindInitializationErrors())
            raise ValueError(f"the record of {name} lacks required fields: {missing}")
        return message

    def value_of(self, message: Message) -> Any:
        try:
            return json_format.MessageToDict(
                message, always_print_fields_with_no_presence=True, descriptor_pool=self._pool
            )
        except (json_format.Error, TypeError, KeyError, ValueError, OverflowError) as error:
            raise ValueError(f"the record has no form in JSON: {error}") from error

    def written(self, name: str, value: Any) -> bytes:
        """Return the bytes of a value as `value_of` returns it. Raises ValueError if it does not fit."""
        # The library takes an empty list for a message without fields.
        if isinstance(value, list) and name not in ("google.protobuf.ListValue", "google.protobuf.Value"):
            raise ValueError(f"the value is no {name}: a list")
        try:
            message = json_format.ParseDict(value, self.class_of(name)(), descriptor_pool=self._pool)
            return message.SerializeToString(deterministic=True)
        except (json_format.Error, EncodeError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ValueError(f"the value is no {name}: {error}") from error

    def sample(self, name: str, source: Draws) -> bytes:
        """Return the bytes of a message with random values. Raises ValueError."""
        message = self.class_of(name)()
        fill(message, source)
        return message.SerializeToString(deterministic=True)


@cache
def _bundled_descriptor(path: str) -> descriptor_pb2.FileDescriptorProto:
    if path.startswith("google/protobuf/"):
        module = import_module(path.removesuffix(".proto").replace("/", ".") + "_pb2")
        descriptor = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(descriptor)
        return descriptor
    file = bundled.files()[path]
    types = bundled.types_without(())
    return Linker(Types(file.package or "", types.types, types.extensions), has_groups=False).file(
        file, path, bundled.files()
    )


def check_readable(message: Message, path: str = "") -> None:
    """Raise Unreadable for a field that the message has with another type, so that the reader loses it: its name is
    that of the reader's field. Unknown values of enums are read as none, as Protobuf defines.
    """
    by_number = message.DESCRIPTOR.fields_by_number
    for unknown in cast(Iterable[Any], UnknownFieldSet(message)):
        field = by_number.get(unknown.field_number)
        if field is not None and not (field.enum_type is not None and unknown.wire_type == _VARINT):
            raise Unreadable(f"{path}/{field.name}", f"the record has field {field.number} with another type")
    for field, value in message.ListFields():
        for part, each in _messages_in(field, value):
            check_readable(each, f"{path}/{field.name}{part}")


def _messages_in(field: Any, value: Any) -> Iterator[tuple[str, Message]]:
    """Yield the messages in a field that is set, with their places in its list or map."""
    if field.message_type is None:
        return
    if field.message_type.GetOptions().map_entry:
        yield from ((f"/{key}", each) for key, each in value.items() if isinstance(each, Message))
    elif field.is_repeated:
        yield from ((f"/{index}", each) for index, each in enumerate(value))
    else:
        yield "", value


def left_out(message: Message, reader: Any) -> list[str]:
    """Return the paths of the fields of a writer's message, and of the values of its enums, that a reader's descriptor
    does not have. `*` stands for places in lists and maps.
    """
    found: dict[str, None] = {}
    _walk(message, reader, "", found)
    return list(found)


def _walk(message: Message, reader: Any, path: str, found: dict[str, None]) -> None:
    for field, value in message.ListFields():
        if len(found) >= LEFT_OUT_MAX:
            return
        theirs = reader.fields_by_number.get(field.number)
        here = f"{path}/{field.name}"
        if theirs is None:
            found[here] = None
        elif field.enum_type is not None and theirs.enum_type is not None:
            known = theirs.enum_type.values_by_number
            for number in value if field.is_repeated else (value,):
                if number not in known:
                    found[f"{here} (the value {number} has no name)"] = None
        elif theirs.message_type is not None:
            target = theirs.message_type
            if target.GetOptions().map_entry:
                target = target.fields_by_name["value"].message_type
            for part, each in _messages_in(field, value):
                if target is not None:
                    _walk(each, target, f"{here}/*" if part else here, found)
