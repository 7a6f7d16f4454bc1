"""Random schemas and changes of them, for comparisons with other implementations. A seed gives the same ones again."""

from __future__ import annotations

import random
from dataclasses import replace

from broker_registry.schema_types.protobuf import ast
from broker_registry.schema_types.protobuf.printer import print_file

_NAMES = ("a", "b", "total", "item_id", "Value", "x9", "note_text", "kind")
_TYPES = ("Order", "Line", "Status", "A", "B", "Meta", "Inner", "Inner2")
_SCALARS = sorted(ast.SCALARS)


class Schemas:
    """`file` has messages and enums, `changed` makes some changes of any kind, compatible or not."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def file(self, package: str | None, imports: tuple[str, ...] = (), imported: tuple[str, ...] = ()) -> ast.File:
        """`imported` has full names of types in imported files."""
        chosen = self._random
        names = chosen.sample(_TYPES, chosen.randint(1, 4))
        known = [*names, *imported]
        types = tuple(self._type(name, known, 0) for name in names)
        return ast.File(syntax="proto3", package=package, imports=imports, types=types)

    def _type(self, name: str, known: list[str], depth: int) -> ast.Type:
        chosen = self._random
        if chosen.random() < 0.25:
            return ast.EnumType(name, tuple(ast.EnumValue(f"{name}_{tag}", tag) for tag in self._tags(0)))
        nested = chosen.sample(_TYPES, chosen.randint(0, 2)) if depth < 2 else []
        known = [*known, *nested]
        fields = [self._field(tag, known) for tag in self._tags(1)]
        oneofs: tuple[ast.OneOf, ...] = ()
        if len(fields) > 2 and chosen.random() < 0.4:
            members = tuple(replace(each, label=None) for each in fields[:2] if not each.type.startswith("map<"))
            if members:
                oneofs, fields = (ast.OneOf("choice", members),), fields[2:]
        types = tuple(self._type(each, known, depth + 1) for each in nested)
        return ast.Message(name, tuple(fields), oneofs, types)

    def _tags(self, first: int) -> list[int]:
        count = self._random.randint(1, 5)
        tags = sorted(self._random.sample(range(first, 40), count))
        return [0, *tags[1:]] if first == 0 else tags

    def _field(self, tag: int, known: list[str]) -> ast.Field:
        chosen = self._random
        name = f"{chosen.choice(_NAMES)}{tag}"
        if chosen.random() < 0.12:
            return ast.Field(None, f"map<string, {self._field_type(known)}>", name, tag)
        label = chosen.choice((None, None, "optional", "repeated"))
        return ast.Field(label, self._field_type(known), name, tag)

    def _field_type(self, known: list[str]) -> str:
        return self._random.choice(known) if self._random.random() < 0.4 else self._random.choice(_SCALARS)

    def changed(self, file: ast.File) -> ast.File:
        types = file.types
        known = [each.name for each in types]
        for _ in range(self._random.randint(1, 4)):
            types = self._changed_types(types, known)
        if self._random.random() < 0.05:
            file = replace(file, package="moved")
        return replace(file, types=types)

    def _changed_types(self, types: tuple[ast.Type, ...], known: list[str]) -> tuple[ast.Type, ...]:
        chosen = self._random
        result = list(types)
        act = chosen.random()
        if act < 0.08 and len(result) > 1:
            del result[chosen.randrange(len(result))]
        elif act < 0.16:
            free = [each for each in _TYPES if each not in {one.name for one in result}]
            if free:
                result.insert(chosen.randint(0, len(result)), self._type(chosen.choice(free), known, 1))
        elif act < 0.22:
            chosen.shuffle(result)
        elif result:
            index = chosen.randrange(len(result))
            result[index] = self._changed_type(result[index], known)
        return tuple(result)

    def _changed_type(self, found: ast.Type, known: list[str]) -> ast.Type:
        chosen = self._random
        if isinstance(found, ast.EnumType):
            values = list(found.values)
            index = chosen.randrange(len(values))
            if chosen.random() < 0.5:
                values[index] = replace(values[index], name=f"{found.name}_other{chosen.randint(0, 9)}")
            elif index:
                del values[index]
            return replace(found, values=tuple(values))
        if found.types and chosen.random() < 0.25:
            return replace(found, types=self._changed_types(found.types, known))
        return self._changed_fields(found, known)

    def _changed_fields(self, message: ast.Message, known: list[str]) -> ast.Message:
        chosen = self._random
        fields = list(message.fields)
        used = {each.tag for each in message.all_fields}
        act = chosen.random()
        if act < 0.2 or not fields:
            tag = next(each for each in range(1, 99) if each not in used)
            fields.insert(chosen.randint(0, len(fields)), self._field(tag, known))
        elif act < 0.4:
            del fields[chosen.randrange(len(fields))]
        elif act < 0.75:
            index = chosen.randrange(len(fields))
            fields[index] = self._field(fields[index].tag, known)
        elif act < 0.9:
            # Into a oneof, or out of one.
            if message.oneofs and chosen.random() < 0.5:
                fields.extend(message.oneofs[0].fields[1:])
                kept = message.oneofs[0].fields[:1]
                return replace(message, fields=tuple(fields), oneofs=(replace(message.oneofs[0], fields=kept),))
            moved = fields.pop(chosen.randrange(len(fields)))
            if moved.type.startswith("map<"):
                return message
            members = message.oneofs[0].fields if message.oneofs else ()
            oneof = ast.OneOf("choice", (*members, replace(moved, label=None)))
            return replace(message, fields=tuple(fields), oneofs=(oneof,))
        else:
            return replace(message, oneofs=())
        return replace(message, fields=tuple(fields))


def pair(seed: int) -> tuple[str, str, str, str]:
    """Return texts of an imported file before and after a change, and of a file that imports it, before and after."""
    schemas = Schemas(seed)
    before = schemas.file("lib")
    after = schemas.changed(before)
    names = tuple(f"lib.{each.name}" for each in before.types)
    old = schemas.file("app", ("lib.proto",), names)
    return print_file(before), print_file(after), print_file(old), print_file(schemas.changed(old))
