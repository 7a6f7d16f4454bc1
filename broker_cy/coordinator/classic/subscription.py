"""The part of the consumer protocol's subscription that the coordinator understands: the names of the topics.

Every version of ConsumerProtocolSubscription begins with version i16 and the topics as an i32 count of i16-sized
strings. The bytes after them belong to the assignors.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker_cy.core.cursor import Cursor
from broker_cy.core.errors import WireError


def topics_of(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics that the subscriptions name, or None if one of them cannot be read."""
    topics: set[str] = set()
    try:
        for metadata in subscriptions:
            cursor = Cursor(metadata)
            if cursor.read_i16() < 0:
                return None
            for _ in range(cursor.read_i32()):
                topics.add(cursor.read_bytes(cursor.read_i16()).decode("utf-8"))
            # User data of the assignor: i32 size (-1: none) and bytes, which version 0 already has.
            size = cursor.read_i32()
            if size >= 0:
                cursor.read_bytes(size)
    except (WireError, UnicodeDecodeError):
        return None
    return frozenset(topics)


def assigned_partitions(assignment: bytes) -> list[tuple[str, int]]:
    """The partitions of a ConsumerProtocolAssignment: version i16, and per topic a name and partition numbers. Without
    the unreadable part.
    """
    if not assignment:
        return []
    try:
        cursor = Cursor(assignment)
        return _partitions(cursor) if cursor.read_i16() >= 0 else []
    except (WireError, UnicodeDecodeError):
        return []


def owned_partitions(protocols: Iterable[tuple[str, bytes]]) -> frozenset[tuple[str, int]]:
    """The partitions that a member still owns, from any of its subscriptions: ConsumerProtocolSubscription has them
    from version 1 on, after the user data.
    """
    found: set[tuple[str, int]] = set()
    for _, metadata in protocols:
        try:
            cursor = Cursor(metadata)
            if cursor.read_i16() < 1:
                continue
            for _ in range(cursor.read_i32()):
                cursor.read_bytes(cursor.read_i16())
            size = cursor.read_i32()
            if size >= 0:
                cursor.read_bytes(size)
            found.update(_partitions(cursor))
        except (WireError, UnicodeDecodeError):
            continue
    return frozenset(found)


def _partitions(cursor: Cursor) -> list[tuple[str, int]]:
    found = []
    for _ in range(cursor.read_i32()):
        topic = cursor.read_bytes(cursor.read_i16()).decode("utf-8")
        found += [(topic, cursor.read_i32()) for _ in range(cursor.read_i32())]
    return found
