"""The seven compatibility levels, over the differences of two schemas.

    BACKWARD   the new schema reads data of the newest version       FORWARD   that version reads data of the new schema
    FULL       both                                                  ..._TRANSITIVE   each version, newest first
    NONE       anything

Messages are Confluent's. A check of several versions ends at the first one that is incompatible.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from itertools import islice
from typing import Final, NamedTuple

from broker_registry.schema_types.base import ParsedSchema, Policy

OLD_TEXT_LENGTH_MAX: Final = 10 * 1024
"""The part of an old schema that a message shows."""
_NEW, _OLD = "new", "old"


class Level(Enum):
    """The levels by their names."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        return self.name.endswith("_TRANSITIVE")

    @property
    def reads_old(self) -> bool:
        """Whether the new schema must read data of the old one."""
        return self.name.startswith(("BACKWARD", "FULL"))

    @property
    def is_read_by_old(self) -> bool:
        """Whether the old schema must read data of the new one."""
        return self.name.startswith(("FORWARD", "FULL"))


LEVELS: Final = tuple(each.value for each in Level)


class Previous(NamedTuple):
    """An earlier version of the subject."""

    version: int
    schema: ParsedSchema


def messages(new: ParsedSchema, previous: Iterable[Previous], level: Level, policy: Policy) -> list[str]:
    """Return why `new` may not follow the earlier versions, given newest first; empty if it may."""
    if level is Level.NONE:
        return []
    for each in previous if level.is_transitive else islice(previous, 1):
        found = _messages_about(new, each, level, policy)
        if found:
            return found
    return []


def _messages_about(new: ParsedSchema, old: Previous, level: Level, policy: Policy) -> list[str]:
    if new.kind is not old.schema.kind:
        return ["Incompatible because of different schema type"]
    found = []
    if level.is_read_by_old:
        found += _breaking(old.schema, new, policy, _OLD, _NEW)
    if level.reads_old:
        back = _breaking(new, old.schema, policy, _NEW, _OLD)
        # Confluent's registry names the old schema behind the second direction of FULL only.
        if level.is_read_by_old and not back:
            return found
        found += back
    return found + _about(old) if found else []


def _breaking(reader: ParsedSchema, writer: ParsedSchema, policy: Policy, *names: str) -> list[str]:
    return [each.message(*names) for each in reader.differences(writer) if policy in each.breaks]


def _about(old: Previous) -> list[str]:
    text = old.schema.canonical
    if len(text) > OLD_TEXT_LENGTH_MAX:
        return [f"{{oldSchemaVersion: {old.version}}}", f"{{oldSchema: <truncated> '{text[:OLD_TEXT_LENGTH_MAX]}...'}}"]
    return [f"{{oldSchemaVersion: {old.version}}}", f"{{oldSchema: '{text}'}}"]
