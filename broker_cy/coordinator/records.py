"""The kinds of keys in `__consumer_offsets`."""

from __future__ import annotations

from enum import IntEnum

from broker_cy.core.cursor import Cursor
from broker_cy.core.errors import WireError


class KeyType(IntEnum):
    """The number at the start of a key. All others belong to a Kafka that is newer than 4.3."""

    LEGACY_OFFSET_COMMIT = 0
    OFFSET_COMMIT = 1
    GROUP_METADATA = 2
    CONSUMER_GROUP_METADATA = 3
    CONSUMER_GROUP_PARTITION_METADATA = 4
    CONSUMER_GROUP_MEMBER_METADATA = 5
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = 6
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = 7
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = 8
    SHARE_GROUP_MEMBER_METADATA = 10
    SHARE_GROUP_METADATA = 11
    SHARE_GROUP_TARGET_ASSIGNMENT_METADATA = 12
    SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER = 13
    SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT = 14
    SHARE_GROUP_STATE_PARTITION_METADATA = 15
    CONSUMER_GROUP_REGULAR_EXPRESSION = 16
    STREAMS_GROUP_METADATA = 17
    STREAMS_GROUP_MEMBER_METADATA = 19
    STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA = 20
    STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER = 21
    STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT = 22
    STREAMS_GROUP_TOPOLOGY = 23


def key_type(key: bytes) -> int:
    """The type of a record's key. Raises WireError if it is shorter than a type."""
    if len(key) < 2:
        raise WireError(f"a key of {len(key)} bytes")
    return int.from_bytes(key[:2], "big", signed=True)


def group_of_key(key: bytes) -> str:
    """The group of a key of any known type: each key starts with it. Raises WireError if it is malformed."""
    cursor = Cursor(key)
    cursor.read_i16()
    return _text(cursor)


def _text(cursor: Cursor) -> str:
    try:
        return cursor.read_bytes(cursor.read_i16()).decode("utf-8")
    except UnicodeDecodeError as error:
        raise WireError(f"a string that is not UTF-8: {error}") from error
