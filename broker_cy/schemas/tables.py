"""Reads the message tables in the folders beside this file: a text file per API or record type, read when first used.

A table has one block per message. Its first line is `KIND NAME [key N], versions A-B, flexible C+[, ...]`; then there
is one line per field, indented by two spaces per level:
`Name: type, versions[, nullable V][, tag N V][, default D][, ignorable]...`.
A field of a structure type is followed by the structure's own fields, one level deeper. A structure that several fields
use is instead defined at the end of the block, as `struct Name: versions`. Source: the specifications in Kafka 4.3.1.
"""

from __future__ import annotations

import os
from dataclasses import field
from functools import cache
from typing import Final

from broker_cy.core.classes import dataclass

FOLDERS: Final = ("api", "metadata", "group", "transaction", "share", "storage", "raft")
"""The folders of the tables; a file in `api` has two messages, a file in the others one."""
VERSION_MAX: Final = 32767
"""Versions are int16; an open range ends here."""
DEPTH_MAX: Final = 16
"""Deepest nesting of structures in a message. The decoder recurses once per level, so this bounds its stack."""

SCALARS: Final = frozenset(
    {"bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64", "uuid", "string", "bytes", "records"}
)

# Names that the rule of snake_case does not split into the right words.
_ODD_NAMES: Final = {
    "Enable2Pc": "enable_2pc",
    "KRaftVersion": "kraft_version",
    "KRaftVersionFeature": "kraft_version_feature",
}


@dataclass(frozen=True, slots=True)
class Versions:
    """An inclusive range of versions; empty if `low > high`."""

    low: int
    high: int

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high


NO_VERSIONS: Final = Versions(0, -1)


@dataclass(slots=True)
class FieldSpec:
    """One field. `type` names a scalar or a structure; `default` is the text in Kafka's specification, or None."""

    name: str
    attribute: str
    type: str
    is_array: bool
    versions: Versions
    nullable: Versions = NO_VERSIONS
    tag: int = -1
    tagged: Versions = NO_VERSIONS
    default: str | None = None
    ignorable: bool = False
    never_flexible: bool = False


@dataclass(slots=True)
class StructSpec:
    """The fields of a message or of a structure in it, in wire order."""

    name: str
    fields: list[FieldSpec] = field(default_factory=list)


@dataclass(slots=True)
class MessageSpec:
    """A message: `structs` has every structure that it uses, by name, except `root`. `key` is -1 if it has none."""

    kind: str
    name: str
    key: int
    versions: Versions
    flexible: Versions
    root: StructSpec
    structs: dict[str, StructSpec]
    latest_is_unstable: bool = False


def snake_case(name: str) -> str:
    """The attribute name for a field: `TopicId` becomes `topic_id`, and so does `topicId`, the form in some tables."""
    odd = _ODD_NAMES.get(name)
    if odd is not None:
        return odd
    out = []
    previous = "_"
    for char in name:
        if char.isupper() and previous != "_" and not previous.isupper():
            out.append("_")
        out.append(char.lower())
        previous = char
    return "".join(out)


def parse_versions(text: str) -> Versions:
    """The range that `3+`, `0-7`, `1` or `none` stands for."""
    if text == "none":
        return NO_VERSIONS
    if text.endswith("+"):
        return Versions(int(text[:-1]), VERSION_MAX)
    low, _, high = text.partition("-")
    return Versions(int(low), int(high or low))


@cache
def message_files() -> dict[str, str]:
    """The path of each message's table, by the message's name."""
    base = os.path.dirname(os.path.abspath(__file__))
    found = {}
    for folder in FOLDERS:
        for file_name in sorted(os.listdir(os.path.join(base, folder))):
            stem, extension = os.path.splitext(file_name)
            if extension != ".txt":
                continue
            path = os.path.join(base, folder, file_name)
            number, underscore, api = stem.partition("_")
            names = (f"{api}Request", f"{api}Response") if underscore and number.isdigit() else (stem,)
            found.update(dict.fromkeys(names, path))
    return found


def load(name: str) -> MessageSpec:
    """The specification of the message `name`; KeyError for an unknown one."""
    with open(message_files()[name], encoding="ascii") as table:
        for spec in parse(table.read()):
            if spec.name == name:
                return spec
    raise KeyError(name)


def load_api_header(name: str) -> MessageSpec:
    """Like `load`, but without fields: only the first line is read. For requests, which come first in their file."""
    with open(message_files()[name], encoding="ascii") as table:
        spec = _parse_head(table.readline().rstrip("\n"))
    if spec.name != name:
        raise KeyError(name)
    return spec


def parse(text: str) -> list[MessageSpec]:
    """All messages of one table. Raises ValueError, which names the line or the message, if the form is wrong."""
    return [_parse_block(block.split("\n")) for block in text.strip("\n").split("\n\n")]


def _parse_head(line: str) -> MessageSpec:
    first, *rest = line.split(", ")
    kind, name, *key = first.split(" ")
    attributes = dict(part.split(" ", 1) for part in rest)
    if not name.isidentifier() or (key and key[0] != "key"):
        raise ValueError(f"not the first line of a message: {line!r}")
    return MessageSpec(
        kind,
        name,
        int(key[1]) if key else -1,
        parse_versions(attributes["versions"]),
        parse_versions(attributes["flexible"]),
        StructSpec(name),
        {},
        attributes.get("latest") == "unstable",
    )


def _parse_block(lines: list[str]) -> MessageSpec:
    message = _parse_head(lines[0])
    # The structure of the lines of each level. A field of a structure type opens the next level; if that structure is
    # defined elsewhere, no line of that level follows.
    levels = [message.root]
    for line in lines[1:]:
        stripped = line.lstrip(" ")
        level = (len(line) - len(stripped)) // 2 - 1
        if not 0 <= level < len(levels):
            raise ValueError(f"{message.name}: the indentation does not match a structure above this line: {line!r}")
        del levels[level + 1 :]
        if stripped.startswith("struct "):
            levels.append(StructSpec(stripped[len("struct ") :].partition(":")[0]))
            continue
        owner = levels[level]
        if level > 0 and not owner.fields and message.structs.setdefault(owner.name, owner) is not owner:
            raise ValueError(f"{message.name}: {owner.name} is defined twice")
        owner.fields.append(_parse_field(stripped, message.name))
        if owner.fields[-1].type not in SCALARS:
            levels.append(StructSpec(owner.fields[-1].type))
    _check_nesting(message, message.root, 1)
    return message


def _check_nesting(message: MessageSpec, struct: StructSpec, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise ValueError(f"{message.name}: structures nest more than {DEPTH_MAX} deep")
    for spec in struct.fields:
        if spec.type in SCALARS:
            continue
        if spec.type not in message.structs:
            raise ValueError(f"{message.name}: {struct.name}.{spec.name} has the unknown type {spec.type}")
        _check_nesting(message, message.structs[spec.type], depth + 1)


def _parse_field(line: str, message: str) -> FieldSpec:
    name, _, rest = line.partition(": ")
    kind, versions, *attributes = rest.split(", ")
    is_array = kind.startswith("[]")
    spec = FieldSpec(name, snake_case(name), kind[2:] if is_array else kind, is_array, parse_versions(versions))
    for attribute in attributes:
        word, _, value = attribute.partition(" ")
        if word == "nullable":
            spec.nullable = parse_versions(value)
        elif word == "default":
            spec.default = value
        elif word == "ignorable":
            spec.ignorable = True
        elif word == "tag":
            tag, _, tagged = value.partition(" ")
            spec.tag, spec.tagged = int(tag), parse_versions(tagged)
        elif attribute == "flexible none":
            spec.never_flexible = True
        elif word not in ("is", "key", "zerocopy"):
            # Those three describe the meaning of a value or its representation in Java, not its form on the wire.
            raise ValueError(f"{message}.{name}: unknown attribute {attribute!r}")
    return spec
