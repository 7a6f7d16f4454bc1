"""The differences of two schemas for people: a unified diff, and what keeps one from reading data of the other."""

from __future__ import annotations

import difflib
import json
from typing import Final, NamedTuple

from broker_registry.compatibility import Level
from broker_registry.schema_types.base import Kind, ParsedSchema, Policy

NEW: Final = "new"
OLD: Final = "old"


class Breaking(NamedTuple):
    """A difference that keeps one schema from reading data of the other. `reader` is NEW or OLD. `is_refused`: the
    level of the subject does not allow it.
    """

    kind: str
    path: str
    reader: str
    is_refused: bool


def breaking(old: ParsedSchema, new: ParsedSchema, level: Level, policy: Policy) -> list[Breaking]:
    """Return what breaks in both directions; the level says which of them counts."""
    if old.kind is not new.kind:
        return type_changed(level)
    return [
        Breaking(each.kind, each.path, reader, is_refused)
        for reader, is_refused, differences in (
            (NEW, level.reads_old, new.differences(old)),
            (OLD, level.is_read_by_old, old.differences(new)),
        )
        for each in differences
        if policy in each.breaks
    ]


def type_changed(level: Level) -> list[Breaking]:
    return [Breaking("SCHEMA_TYPE_CHANGED", "/", reader, level is not Level.NONE) for reader in (NEW, OLD)]


def pretty(kind: str, text: str) -> str:
    """Return a schema with a line for each member; a .proto text as it is."""
    if kind == Kind.PROTOBUF.value:
        return text.rstrip("\n")
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        # The name of an Avro type may stand without quotes.
        return text


def diff_lines(old: tuple[str, str], new: tuple[str, str], old_name: str, new_name: str) -> list[str]:
    """Return the lines of a unified diff of two schemas, each given by its type and text."""
    before, after = (pretty(kind, text).splitlines() for kind, text in (old, new))
    return list(difflib.unified_diff(before, after, old_name, new_name, lineterm=""))
