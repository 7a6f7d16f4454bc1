"""The records of the command topic: a statement with its settings, under the key of the thing that it changes.

Keys are JSON texts such as "stream/`ORDERS`/create". Values are JSON objects:

    statement            the text of the statement, with variables replaced
    streamsProperties    settings of the request
    originalProperties   settings of the server that took it
    plan, version        of ksqlDB's servers; ours write no plan, and replay the statement

Every server of a service id reads the topic from its start, in its order, and so has the same streams, tables and
queries. The offset of a record is a part of the ids of queries that it starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import orjson

# The version of ksqlDB's records that this program reads and writes; later ones may mean something else.
VERSION: Final = 18
STATEMENT_BYTES_MAX: Final = 1 << 20


class BadCommand(ValueError):
    """A record of the topic that this version cannot read as a command."""


class Type(StrEnum):
    TOPIC = "topic"
    STREAM = "stream"
    TABLE = "table"
    TERMINATE = "terminate"
    PAUSE = "pause"
    RESUME = "resume"
    TYPE = "type"
    FUNCTION = "function"
    CLUSTER = "cluster"


class Action(StrEnum):
    CREATE = "create"
    DROP = "drop"
    EXECUTE = "execute"
    TERMINATE = "terminate"
    ALTER = "alter"


@dataclass(frozen=True, slots=True)
class CommandId:
    """`str` is the text in keys, in answers and in the path of /status."""

    type: Type
    entity: str
    action: Action

    def __str__(self) -> str:
        return f"{self.type}/{self.entity}/{self.action}"


def parse_id(text: str) -> CommandId:
    """Return the id of a text `type/entity/action`; the entity may have slashes. Raises BadCommand."""
    kind, _, rest = text.partition("/")
    entity, slash, action = rest.rpartition("/")
    if not slash:
        raise BadCommand(f"command id {text!r}: type/entity/action is expected")
    try:
        return CommandId(Type(kind.lower()), entity, Action(action.lower()))
    except ValueError:
        types, actions = ", ".join(Type), ", ".join(Action)
        raise BadCommand(f"command id {text!r}: the types are {types}, the actions {actions}") from None


@dataclass(frozen=True, slots=True)
class Command:
    """`offset` is that of the record; -1 before it is written."""

    id: CommandId
    statement: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    original: Mapping[str, str] = field(default_factory=dict)
    offset: int = -1

    def key(self) -> bytes:
        return orjson.dumps(str(self.id))

    def value(self) -> bytes:
        return orjson.dumps(
            {
                "statement": self.statement,
                "streamsProperties": dict(self.properties),
                "originalProperties": dict(self.original),
                "version": VERSION,
            }
        )


def parse_command(key: bytes | None, value: bytes | None, offset: int) -> Command:
    """Return the command of a record. Raises BadCommand, which says what is wrong with it."""
    if key is None or value is None:
        raise BadCommand(f"the record has no {'key' if key is None else 'value'}")
    try:
        name = orjson.loads(key)
        found = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise BadCommand(f"the record is no JSON: {error}") from None
    if not isinstance(name, str):
        raise BadCommand(f"the key is {key[:60].decode(errors='replace')}; a text is expected")
    if not isinstance(found, dict):
        raise BadCommand(f"the value is a {type(found).__name__}; an object is expected")
    statement, version = found.get("statement"), found.get("version")
    if not isinstance(statement, str):
        raise BadCommand("the value has no statement")
    if version is not None and not (isinstance(version, int) and version <= VERSION):
        raise BadCommand(f"the version of the record is {version!r}; at most {VERSION} can be read")
    return Command(
        parse_id(name),
        statement,
        _object(found.get("streamsProperties"), "streamsProperties"),
        _object(found.get("originalProperties"), "originalProperties"),
        offset,
    )


def _object(found: Any, name: str) -> dict[str, Any]:
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise BadCommand(f"{name} is a {type(found).__name__}; an object is expected")
    return found
