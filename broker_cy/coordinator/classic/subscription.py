"""The part of the consumer protocol that the coordinator of classic groups understands: the topics of a subscription,
and the partitions of members.

Each begins with its version. The later versions begin with the fields of the earlier ones, and only these are read: the
bytes after them belong to the assignors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from broker_cy.core.cursor import Cursor
from broker_cy.core.errors import WireError
from broker_cy.wire import codec, messages

M = TypeVar("M", bound=codec.Message)


def topics_of(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics that the subscriptions name, or None if one of them cannot be read."""
    topics: set[str] = set()
    for metadata in subscriptions:
        found = _read(messages.ConsumerProtocolSubscription, metadata, 0)
        if found is None:
            return None
        topics.update(found.topics)
    return frozenset(topics)


def assigned_partitions(assignment: bytes) -> list[tuple[str, int]]:
    """The partitions of a ConsumerProtocolAssignment; none if it cannot be read."""
    found = _read(messages.ConsumerProtocolAssignment, assignment, 0) if assignment else None
    if found is None:
        return []
    return [(each.topic, partition) for each in found.assigned_partitions for partition in each.partitions]


def owned_partitions(protocols: Iterable[tuple[str, bytes]]) -> frozenset[tuple[str, int]]:
    """The partitions that a member still owns, from any of its subscriptions, which have them from version 1 on."""
    places: set[tuple[str, int]] = set()
    for _, metadata in protocols:
        found = _read(messages.ConsumerProtocolSubscription, metadata, 1)
        if found is not None:
            places.update((each.topic, number) for each in found.owned_partitions for number in each.partitions)
    return frozenset(places)


def _read(kind: type[M], data: bytes, version: int) -> M | None:
    """The fields of a version; None if they cannot be read, or if the data are of an earlier one."""
    try:
        if Cursor(data).read_i16() < version:
            return None
        found, _ = codec.decode_prefix(kind, version, data[2:])
    except WireError:
        return None
    return found
