"""The kinds of differences of two Protobuf schemas, and their messages, which are Confluent's API."""

from __future__ import annotations

from enum import Enum
from typing import Final

from broker_registry.schema_types.base import Difference, Policy


class Kind(Enum):
    """Value: whether a reader of the new schema still reads what the old one has written."""

    PACKAGE_CHANGED = ("PACKAGE_CHANGED", False)
    MESSAGE_ADDED = ("MESSAGE_ADDED", True)
    MESSAGE_REMOVED = ("MESSAGE_REMOVED", False)
    MESSAGE_MOVED = ("MESSAGE_MOVED", True)
    ENUM_ADDED = ("ENUM_ADDED", True)
    ENUM_REMOVED = ("ENUM_REMOVED", True)
    ENUM_CONST_ADDED = ("ENUM_CONST_ADDED", True)
    ENUM_CONST_CHANGED = ("ENUM_CONST_CHANGED", True)
    ENUM_CONST_REMOVED = ("ENUM_CONST_REMOVED", True)
    FIELD_ADDED = ("FIELD_ADDED", True)
    FIELD_REMOVED = ("FIELD_REMOVED", True)
    FIELD_NAME_CHANGED = ("FIELD_NAME_CHANGED", True)
    FIELD_KIND_CHANGED = ("FIELD_KIND_CHANGED", False)
    FIELD_SCALAR_KIND_CHANGED = ("FIELD_SCALAR_KIND_CHANGED", False)
    FIELD_NAMED_TYPE_CHANGED = ("FIELD_NAMED_TYPE_CHANGED", False)
    FIELD_NUMERIC_LABEL_CHANGED = ("FIELD_NUMERIC_LABEL_CHANGED", False)
    FIELD_STRING_OR_BYTES_LABEL_CHANGED = ("FIELD_STRING_OR_BYTES_LABEL_CHANGED", True)
    REQUIRED_FIELD_ADDED = ("REQUIRED_FIELD_ADDED", False)
    REQUIRED_FIELD_REMOVED = ("REQUIRED_FIELD_REMOVED", False)
    ONEOF_ADDED = ("ONEOF_ADDED", True)
    ONEOF_REMOVED = ("ONEOF_REMOVED", True)
    ONEOF_FIELD_ADDED = ("ONEOF_FIELD_ADDED", True)
    ONEOF_FIELD_REMOVED = ("ONEOF_FIELD_REMOVED", False)
    ONEOF_FIELD_MOVED_TO_TOP_LEVEL = ("ONEOF_FIELD_MOVED_TO_TOP_LEVEL", True)
    MULTIPLE_FIELDS_MOVED_TO_ONEOF = ("MULTIPLE_FIELDS_MOVED_TO_ONEOF", False)
    FIELD_MOVED_TO_EXISTING_ONEOF = ("FIELD_MOVED_TO_EXISTING_ONEOF", False)

    @property
    def is_compatible(self) -> bool:
        return self.value[1]


# A kind without a text has an empty description.
_TEXTS: Final = {
    Kind.PACKAGE_CHANGED: "The package at '{}' in the %s schema does not match the package in the %s schema",
    Kind.MESSAGE_REMOVED: "The %s schema is missing a MESSAGE type at path '{}' in the %s schema",
    Kind.FIELD_KIND_CHANGED: "The type of a field at path '{}' in the %s schema does not match the %s schema",
    Kind.FIELD_SCALAR_KIND_CHANGED: (
        "The kind of a SCALAR field at path '{}' in the %s schema does not match its kind in the %s schema"
    ),
    Kind.FIELD_NAMED_TYPE_CHANGED: (
        "The type of a MESSAGE field at path '{}' in the %s schema does not match its type in the %s schema"
    ),
    Kind.FIELD_NUMERIC_LABEL_CHANGED: (
        "The label for a NUMERIC field at path '{}' in the %s schema does not match its label in the %s schema"
    ),
    Kind.REQUIRED_FIELD_ADDED: "A required field  at path '{}' in the %s schema is missing in the %s schema",
    Kind.REQUIRED_FIELD_REMOVED: "The %s schema is missing a required field at path: '{}' in the %s schema",
    Kind.ONEOF_FIELD_REMOVED: "The %s schema is missing a oneof field at path '{}' in the %s schema",
    Kind.ONEOF_FIELD_MOVED_TO_TOP_LEVEL: (
        "The oneof field at path '{}' in the %s schema was moved out of its oneof to a top-level field in the %s schema"
    ),
    Kind.MULTIPLE_FIELDS_MOVED_TO_ONEOF: (
        "Multiple fields in the oneof at path '{}' in the %s schema are outside a oneof in the %s schema"
    ),
    Kind.FIELD_MOVED_TO_EXISTING_ONEOF: (
        "A field in the oneof at path '{}' in the %s schema is outside an existing oneof in the %s schema"
    ),
}


def difference(kind: Kind, path: str) -> Difference:
    text = _TEXTS.get(kind, "").replace("{}", path)
    breaks = frozenset[Policy]() if kind.is_compatible else frozenset(Policy)
    return Difference(kind.name, path, f'{{errorType:"{kind.name}", description:"{text}"}}', breaks)
