"""The differences of two Protobuf schemas, as Confluent's registry finds them: by the numbers of fields, with paths of
names of messages and numbers of fields such as `#/Order/items/3`.

Messages are compared by name. The message of a field is compared where it is declared, and here only if it is of
another file. Fields of groups, services and extensions have no differences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Final

from broker_registry.schema_types import java_order
from broker_registry.schema_types.base import Difference
from broker_registry.schema_types.protobuf import ast
from broker_registry.schema_types.protobuf.differences import Kind, difference
from broker_registry.schema_types.protobuf.types import TypeInfo, Types, within

REFERENCED_MAX: Final = 5_000
"""How many times messages of other files are compared for each field that names them, which gives Confluent's list with
its repetitions: their number may be exponential in that of the messages. Beyond it, each message is compared once.
"""
REFERENCED_DEEP_MAX: Final = 60
"""How deep messages of other files are followed, each by about five calls. Those below are compared at the end."""


class _Shape(Enum):
    SCALAR = "scalar"
    MAP = "map"
    MESSAGE = "message"


_SCALAR_KINDS: Final = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool"), "general number"),
    **dict.fromkeys(("sint32", "sint64"), "signed number"),
    **dict.fromkeys(("string", "bytes"), "string or bytes"),
    **dict.fromkeys(("fixed32", "sfixed32"), "fixed32"),
    **dict.fromkeys(("fixed64", "sfixed64"), "fixed64"),
    "float": "float",
    "double": "double",
}


def compare(old: ast.File, old_types: Types, new: ast.File, new_types: Types) -> list[Difference]:
    """Return how a new file differs from an old one."""
    comparison = _Comparison(old_types, new_types)
    if old.package != new.package:
        comparison.add(Kind.PACKAGE_CHANGED)
    comparison.types(old.types, new.types)
    comparison.postponed()
    return [difference(kind, path) for kind, path in comparison.found]


class _Comparison:
    """A walk through two files. `path` has names and numbers, `names` the names alone, which are the scope of types."""

    def __init__(self, old: Types, new: Types) -> None:
        self._old = old
        self._new = new
        self._old_package = old.package
        self._new_package = new.package
        self._path: list[str] = []
        self._names: list[str] = []
        self._open: set[int] = set()
        self._depth = 0
        self._referenced = 0
        self._changed: dict[tuple[int, int], bool] = {}
        self._later: list[tuple[str, TypeInfo, TypeInfo]] = []
        self.found: list[tuple[Kind, str]] = []

    # Path and scope

    def add(self, kind: Kind, *parts: str) -> None:
        self.found.append((kind, "#/" + "/".join((*self._path, *parts))))

    @contextmanager
    def _inside(self, *parts: str) -> Iterator[None]:
        self._path.extend(parts)
        yield
        del self._path[len(self._path) - len(parts) :]

    @contextmanager
    def _named(self, name: str) -> Iterator[None]:
        self._names.append(name)
        with self._inside(name):
            yield
        self._names.pop()

    def _find_old(self, name: str) -> TypeInfo | None:
        return self._old.find(name, within(self._old_package, ".".join(self._names)))

    def _find_new(self, name: str) -> TypeInfo | None:
        return self._new.find(name, within(self._new_package, ".".join(self._names)))

    # Types

    def types(self, old: Iterable[ast.Type], new: Iterable[ast.Type]) -> None:
        old_messages = {each.name: each for each in old if isinstance(each, ast.Message)}
        new_messages = {each.name: each for each in new if isinstance(each, ast.Message)}
        old_enums = {each.name: each for each in old if isinstance(each, ast.EnumType)}
        new_enums = {each.name: each for each in new if isinstance(each, ast.EnumType)}
        old_indexes = {name: index for index, name in enumerate(old_messages)}
        new_indexes = {name: index for index, name in enumerate(new_messages)}
        for name in java_order.union(old_messages, new_messages):
            with self._named(name):
                if name not in new_messages:
                    self._only_in_one(self._find_old(name), Kind.MESSAGE_REMOVED)
                elif name not in old_messages:
                    self._only_in_one(self._find_new(name), Kind.MESSAGE_ADDED)
                else:
                    self.message(old_messages[name], new_messages[name])
                    if old_indexes[name] != new_indexes[name]:
                        self.add(Kind.MESSAGE_MOVED)
        for name in java_order.union(old_enums, new_enums):
            with self._named(name):
                if name not in new_enums:
                    self.add(Kind.ENUM_REMOVED)
                elif name not in old_enums:
                    self.add(Kind.ENUM_ADDED)
                else:
                    self.enum(old_enums[name], new_enums[name])

    def _only_in_one(self, info: TypeInfo | None, kind: Kind) -> None:
        """Entry types of maps come and go with their fields."""
        if info is not None and info.map_type is None:
            self.add(kind)

    def enum(self, old: ast.EnumType, new: ast.EnumType) -> None:
        old_names = {each.tag: each.name for each in old.values}
        new_names = {each.tag: each.name for each in new.values}
        for tag in java_order.union(old_names, new_names):
            if tag not in new_names:
                self.add(Kind.ENUM_CONST_REMOVED, str(tag))
            elif tag not in old_names:
                self.add(Kind.ENUM_CONST_ADDED, str(tag))
            elif old_names[tag] != new_names[tag]:
                self.add(Kind.ENUM_CONST_CHANGED, str(tag))

    # Messages

    def message(self, old: ast.Message, new: ast.Message) -> None:
        is_open = id(old) in self._open
        if not is_open:
            self._open.add(id(old))
            self._members(_Members(old), _Members(new), new)
        self.types(old.types, new.types)
        if not is_open:
            self._open.discard(id(old))

    def _members(self, old: _Members, new: _Members, new_message: ast.Message) -> None:
        for oneof in new_message.oneofs:
            self._joined(oneof, old)
        for name in sorted(old.oneofs.keys() | new.oneofs.keys()):
            if name not in new.oneofs:
                self.add(Kind.ONEOF_REMOVED, name)
            elif name not in old.oneofs:
                self.add(Kind.ONEOF_ADDED, name)
        for tag in sorted(old.fields.keys() | new.fields.keys()):
            old_oneof, new_oneof = old.oneof_of.get(tag), new.oneof_of.get(tag)
            if tag not in new.fields:
                self._removed(tag, old, old_oneof, new)
            elif tag not in old.fields:
                is_required = new.fields[tag].label == "required"
                if new_oneof is not None:
                    self.add(Kind.ONEOF_FIELD_ADDED, new_oneof, str(tag))
                else:
                    self.add(Kind.REQUIRED_FIELD_ADDED if is_required else Kind.FIELD_ADDED, str(tag))
            else:
                if old_oneof is not None and new_oneof is None:
                    self.add(Kind.ONEOF_FIELD_MOVED_TO_TOP_LEVEL, str(tag))
                with self._inside(*([] if new_oneof is None else [new_oneof]), str(tag)):
                    self.field(old.fields[tag], new.fields[tag])

    def _removed(self, tag: int, old: _Members, oneof: str | None, new: _Members) -> None:
        if oneof is None:
            is_required = old.fields[tag].label == "required"
            self.add(Kind.REQUIRED_FIELD_REMOVED if is_required else Kind.FIELD_REMOVED, str(tag))
            return
        # A oneof may be removed with all of its fields.
        is_whole = oneof not in new.oneofs and not any(each.tag in new.fields for each in old.oneofs[oneof].fields)
        if not is_whole:
            self.add(Kind.ONEOF_FIELD_REMOVED, oneof, str(tag))

    def _joined(self, oneof: ast.OneOf, old: _Members) -> None:
        """Fields that could be set together exclude each other now: a reader would lose all but one."""
        groups: set[str | int] = set()
        count_moved = 0
        for field in oneof.fields:
            if field.tag in old.oneof_of:
                groups.add(old.oneof_of[field.tag])
            elif field.tag in old.fields:
                groups.add(field.tag)
                count_moved += 1
        if len(groups) > 1:
            is_many = count_moved > 1
            self.add(Kind.MULTIPLE_FIELDS_MOVED_TO_ONEOF if is_many else Kind.FIELD_MOVED_TO_EXISTING_ONEOF, oneof.name)

    # Fields

    def field(self, old: ast.Field, new: ast.Field) -> None:
        if old.name != new.name:
            self.add(Kind.FIELD_NAME_CHANGED)
        self._compare_types(old.label, new.label, old.type, new.type)

    def _compare_types(self, old_label: str | None, new_label: str | None, old_type: str, new_type: str) -> None:
        old_info = None if old_type in ast.SCALARS else self._find_old(old_type)
        new_info = None if new_type in ast.SCALARS else self._find_new(new_type)
        if old_info is not None and old_info.map_type is not None:
            old_type, old_info = old_info.map_type, None
        if new_info is not None and new_info.map_type is not None:
            new_type, new_info = new_info.map_type, None
        shape = _shape(old_type, old_info)
        if shape is not _shape(new_type, new_info):
            self.add(Kind.FIELD_KIND_CHANGED)
        elif shape is _Shape.SCALAR:
            old_kind, new_kind = _scalar_kind(old_type), _scalar_kind(new_type)
            if old_kind != new_kind:
                self.add(Kind.FIELD_SCALAR_KIND_CHANGED)
            elif old_label is not None and new_label is not None and old_label != new_label:
                is_text = old_kind == "string or bytes"
                self.add(Kind.FIELD_STRING_OR_BYTES_LABEL_CHANGED if is_text else Kind.FIELD_NUMERIC_LABEL_CHANGED)
        elif shape is _Shape.MAP:
            for old_part, new_part in zip(ast.map_types(old_type) or (), ast.map_types(new_type) or (), strict=True):
                self._compare_types(None, None, old_part, new_part)
        else:
            self._compare_messages(old_type, old_info, new_type, new_info)

    def _compare_messages(
        self, old_type: str, old_info: TypeInfo | None, new_type: str, new_info: TypeInfo | None
    ) -> None:
        if old_info is None or new_info is None:
            if old_type != new_type:
                self.add(Kind.FIELD_NAMED_TYPE_CHANGED)
            return
        local_name = self._local_name(self._old, old_info, old_type, self._old_package)
        if local_name != self._local_name(self._new, new_info, new_type, self._new_package):
            self.add(Kind.FIELD_NAMED_TYPE_CHANGED)
            return
        # Those of the schemas' own files are compared where they are declared.
        is_compared = (old_info.is_local and new_info.is_local) or old_info.element is new_info.element
        if not is_compared and self._is_changed(local_name, old_info, new_info):
            self.add(Kind.FIELD_NAMED_TYPE_CHANGED)

    def _local_name(self, types: Types, info: TypeInfo, name: str, package: str) -> str:
        full_name = types.resolve(name, within(package, ".".join(self._names))) or name
        return full_name.removeprefix(f"{info.package}.") if info.package else full_name

    def _is_changed(self, name: str, old: TypeInfo, new: TypeInfo) -> bool:
        """Compare messages of other files, from their own scope; return whether they are incompatible."""
        if not (isinstance(old.element, ast.Message) and isinstance(new.element, ast.Message)):
            return False
        pair = id(old.element), id(new.element)
        if self._referenced >= REFERENCED_MAX and pair in self._changed:
            return self._changed[pair]
        if self._depth >= REFERENCED_DEEP_MAX:
            self._later.append((name, old, new))
            return False
        self._referenced += 1
        # For a message that names itself; its own differences are in the list.
        self._changed.setdefault(pair, False)
        outer = self._path, self._names, self._old_package, self._new_package
        self._path, self._names = name.split("."), name.split(".")
        self._old_package, self._new_package = old.package, new.package
        count = len(self.found)
        self._depth += 1
        self.message(old.element, new.element)
        self._depth -= 1
        self._path, self._names, self._old_package, self._new_package = outer
        self._changed[pair] = any(not kind.is_compatible for kind, _ in self.found[count:])
        return self._changed[pair]

    def postponed(self) -> None:
        """Compare the messages that stood too deep, each once."""
        self._referenced = REFERENCED_MAX
        while self._later:
            name, old, new = self._later.pop()
            self._is_changed(name, old, new)


class _Members:
    """Fields of a message by number, those of its oneofs included, and the names of their oneofs."""

    def __init__(self, message: ast.Message) -> None:
        self.fields: dict[int, ast.Field] = {each.tag: each for each in message.fields}
        self.oneofs: Mapping[str, ast.OneOf] = {each.name: each for each in message.oneofs}
        self.oneof_of: dict[int, str] = {}
        for oneof in message.oneofs:
            for field in oneof.fields:
                self.fields[field.tag] = field
                self.oneof_of[field.tag] = oneof.name


def _shape(type_name: str, info: TypeInfo | None) -> _Shape:
    if type_name in ast.SCALARS or (info is not None and isinstance(info.element, ast.EnumType)):
        return _Shape.SCALAR
    return _Shape.MAP if type_name.startswith("map<") else _Shape.MESSAGE


def _scalar_kind(type_name: str) -> str:
    """An enum is a general number."""
    return _SCALAR_KINDS.get(type_name, "general number")
