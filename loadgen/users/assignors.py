"""The assignment that the leader of a classic group computes: the partitions of one topic by member."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from broker_cy.core.errors import WireError
from broker_cy.wire import codec, messages

# Version 0 of Kafka's consumer protocol, which all brokers and clients can read: no member keeps partitions while it
# joins.
VERSION = 0
_VERSION = struct.Struct(">h")


def by_range(members: Sequence[str], partitions: int) -> dict[str, list[int]]:
    """Each member gets consecutive partitions; the first members get one more if the division has a remainder
    (RangeAssignor).
    """
    found: dict[str, list[int]] = {}
    least, more = divmod(partitions, len(members))
    at = 0
    for place, member in enumerate(members):
        count = least + (place < more)
        found[member] = list(range(at, at + count))
        at += count
    return found


def by_turns(members: Sequence[str], partitions: int) -> dict[str, list[int]]:
    """The members get the partitions in turn (RoundRobinAssignor)."""
    return {member: list(range(place, partitions, len(members))) for place, member in enumerate(members)}


ASSIGNORS: dict[str, Callable[[Sequence[str], int], dict[str, list[int]]]] = {"range": by_range, "roundrobin": by_turns}


def subscription(topic: str) -> bytes:
    """Return the metadata of a member that reads a topic."""
    return _VERSION.pack(VERSION) + codec.encode(messages.ConsumerProtocolSubscription(topics=[topic]), VERSION)


def assignment(topic: str, partitions: list[int]) -> bytes:
    """Return a member's part."""
    part = messages.ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=partitions)
    body = messages.ConsumerProtocolAssignment(assigned_partitions=[part] if partitions else [])
    return _VERSION.pack(VERSION) + codec.encode(body, VERSION)


def partitions_of(data: bytes, topic: str) -> list[int]:
    """Return the partitions of a topic in a member's part; an empty part has no partitions. Raises WireError."""
    if not data:
        return []
    if len(data) < _VERSION.size:
        raise WireError(f"an assignment of {len(data)} bytes has no version")
    (version,) = _VERSION.unpack_from(data)
    # Later versions only add fields at the end.
    decoded = codec.decode(messages.ConsumerProtocolAssignment, min(version, VERSION), data[_VERSION.size :])
    return [partition for each in decoded.assigned_partitions if each.topic == topic for partition in each.partitions]
