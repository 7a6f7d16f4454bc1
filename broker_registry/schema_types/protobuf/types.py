"""Types and extension fields of a file and of the files that it refers to, by their full names, and names in a scope.

As in Confluent's registry, a name may be of any file that the schema refers to, imported or not, or of a bundled one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from broker_registry.schema_types.protobuf import ast
from broker_registry.schema_types.protobuf.options import by_name

_Found = TypeVar("_Found")
OWN_PATH: Final = ""


@dataclass(frozen=True, slots=True)
class TypeInfo:
    """A type. `path` is that of its file, OWN_PATH for the schema's own. `map_type` is `map<K, V>` for the entry type
    of a map, as descriptors have it, and empty for one without key and value.
    """

    package: str
    element: ast.Type
    path: str
    map_type: str | None

    @property
    def is_local(self) -> bool:
        return self.path == OWN_PATH


@dataclass(frozen=True, slots=True)
class Types:
    """Types and extension fields by full name, without a leading dot; `package` is that of the schema's own file."""

    package: str
    types: Mapping[str, TypeInfo]
    extensions: Mapping[str, ast.Field]

    def resolve(self, name: str, scope: str) -> str | None:
        """Return the full name of a type that a scope names; None if there is no such type."""
        return resolve(self.types, name, scope)

    def find(self, name: str, scope: str) -> TypeInfo | None:
        full_name = resolve(self.types, name, scope)
        return None if full_name is None else self.types[full_name]


def resolve(table: Mapping[str, _Found], name: str, scope: str) -> str | None:
    """Return the full name that a name has in a scope: that of the innermost scope that has it. A scope is the package
    with the names of messages, separated by dots.
    """
    if name.startswith("."):
        return name[1:] if name[1:] in table else None
    while scope:
        full_name = f"{scope}.{name}"
        if full_name in table:
            return full_name
        scope = scope.rpartition(".")[0]
    return name if name in table else None


def within(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def collect(files: Mapping[str, ast.File], known: Types) -> Types:
    """Return the types of `known`, the bundled ones, and of files by their paths; the schema's own is the last one.
    Later types hide others of the same name.
    """
    types: dict[str, TypeInfo] = dict(known.types)
    extensions: dict[str, ast.Field] = dict(known.extensions)
    package = ""
    for path, file in files.items():
        package = file.package or ""
        _add_extensions(file.extends, package, extensions)
        _add_types(file.types, package, package, path, types, extensions)
    return Types(package, types, extensions)


EMPTY: Final = Types("", {}, {})


def _add_types(
    elements: Iterable[ast.Type],
    scope: str,
    package: str,
    path: str,
    types: dict[str, TypeInfo],
    extensions: dict[str, ast.Field],
) -> None:
    for element in elements:
        full_name = within(scope, element.name)
        if isinstance(element, ast.EnumType):
            types[full_name] = TypeInfo(package, element, path, None)
            continue
        if element.extends:
            _add_extensions(element.extends, full_name, extensions)
        types[full_name] = TypeInfo(package, element, path, map_type_of(element) if element.options else None)
        if element.types:
            _add_types(element.types, full_name, package, path, types, extensions)


def _add_extensions(extends: Iterable[ast.Extend], scope: str, extensions: dict[str, ast.Field]) -> None:
    for extend in extends:
        for field in extend.fields:
            extensions[within(scope, field.name)] = field


def map_type_of(message: ast.Message) -> str | None:
    """Return `map<K, V>` for a message with the option map_entry, empty if it lacks the fields of one."""
    option = by_name(message.options).get("map_entry")
    if option is None or str(option.value).lower() != "true":
        return None
    by_field = {each.name: each for each in message.fields}
    if "key" not in by_field or "value" not in by_field:
        return ""
    return f"map<{by_field['key'].type}, {by_field['value'].type}>"
