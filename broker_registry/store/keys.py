"""The keys of the records of `_schemas`, byte for byte Confluent's.

    {"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}
    {"keytype":"CONFIG","subject":"orders-value","magic":0}            without subject: of the registry
    {"keytype":"MODE","subject":"orders-value","magic":0}
    {"keytype":"DELETE_SUBJECT","subject":"orders-value","magic":0}
    {"keytype":"CLEAR_SUBJECT","subject":"orders-value","magic":0}
    {"keytype":"CONTEXT","tenant":"default","context":".test","magic":0}
    {"keytype":"NOOP","magic":0}

Older versions of Confluent's registry wrote `"subject":null` for settings of the registry; both forms are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import orjson

from broker_registry.store.jackson import dumps

TENANT: Final = "default"
NUMBER_MAX: Final = 0x7FFFFFFF
"""The greatest id and version: both are 32-bit integers."""
_SCHEMA_MAGIC: Final = 1


class KeyType(Enum):
    """Kinds of records. Associations are kept and skipped."""

    SCHEMA = "SCHEMA"
    CONFIG = "CONFIG"
    MODE = "MODE"
    DELETE_SUBJECT = "DELETE_SUBJECT"
    CLEAR_SUBJECT = "CLEAR_SUBJECT"
    CONTEXT = "CONTEXT"
    NOOP = "NOOP"


class UnknownKey(ValueError):
    """The key of a record is none that this version knows: the record stays in the topic and is skipped."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key. `subject` is None for settings of the registry, `name` is the context of a CONTEXT record."""

    kind: KeyType
    subject: str | None = None
    version: int = 0
    context: str | None = None

    def encode(self) -> bytes:
        members: dict[str, Any] = {"keytype": self.kind.value}
        if self.kind is KeyType.CONTEXT:
            members["tenant"] = TENANT
            members["context"] = self.context
        elif self.subject:
            members["subject"] = self.subject
        if self.kind is KeyType.SCHEMA:
            return dumps({**members, "version": self.version, "magic": _SCHEMA_MAGIC})
        return dumps({**members, "magic": 0})

    @classmethod
    def decode(cls, data: bytes) -> Key:
        """Raises UnknownKey."""
        try:
            found = orjson.loads(data)
            kind = KeyType(found["keytype"])
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            raise UnknownKey(f"the key {data[:200]!r} has no known keytype") from None
        subject, version, context = found.get("subject"), found.get("version", 0), found.get("context")
        if kind is KeyType.SCHEMA:
            if found.get("magic") not in (0, _SCHEMA_MAGIC):
                raise UnknownKey(f"the key {data[:200]!r} has an unknown magic byte; {_SCHEMA_MAGIC} is known")
            is_number = isinstance(version, int) and not isinstance(version, bool)
            if not isinstance(subject, str) or not is_number or not 1 <= version <= NUMBER_MAX:
                raise UnknownKey(f"the key {data[:200]!r} has no subject or version")
            return cls(kind, subject, version)
        if kind is KeyType.CONTEXT:
            if not isinstance(context, str):
                raise UnknownKey(f"the key {data[:200]!r} has no context")
            return cls(kind, context=context)
        if kind is KeyType.NOOP:
            return cls(kind)
        return cls(kind, subject if isinstance(subject, str) and subject else None)


def schema_key(subject: str, version: int) -> Key:
    return Key(KeyType.SCHEMA, subject, version)
