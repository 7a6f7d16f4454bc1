"""The records of `__share_group_state`: ShareSnapshot (type 0) and ShareUpdate (type 1), version 0.

A snapshot has the whole state. An update has the changes of one write, and no state epoch. A tombstone has the type of
a snapshot and deletes both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Final, TypeVar

from broker_cy.coordinator.share_state.batches import combine
from broker_cy.coordinator.share_state.state import SharePartitionKey, ShareState, StateBatch
from broker_cy.coordinator.step import Record
from broker_cy.core.errors import WireError
from broker_cy.wire import codec, messages

Batch = TypeVar("Batch")

VALUE_VERSION_MAX: Final = 0


class KeyType(IntEnum):
    """The number at the start of a key."""

    SHARE_SNAPSHOT = 0
    SHARE_UPDATE = 1


_PREFIXES: Final = {kind: kind.to_bytes(2, "big") for kind in KeyType}
_KINDS: Final = {prefix: kind for kind, prefix in _PREFIXES.items()}


def key_type(key: bytes) -> KeyType | None:
    """The type of a record's key; None if it belongs to a newer Kafka. Raises WireError if it is shorter than a
    type.
    """
    if len(key) < 2:
        raise WireError(f"a key of {len(key)} bytes")
    return _KINDS.get(key[:2])


def share_partition(key: bytes) -> SharePartitionKey:
    """The share partition of a key of either type. Raises WireError if it is malformed."""
    found = codec.decode(messages.ShareSnapshotKey, 0, memoryview(key)[2:])
    return SharePartitionKey(found.group_id, found.topic_id, found.partition)


def is_known_version(value: bytes) -> bool:
    """Whether this broker can read the value. Raises WireError if it is shorter than a version."""
    if len(value) < 2:
        raise WireError(f"a value of {len(value)} bytes")
    return 0 <= int.from_bytes(value[:2], "big", signed=True) <= VALUE_VERSION_MAX


def snapshot(key: SharePartitionKey, state: ShareState) -> Record:
    value = messages.ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.create_ms,
        write_timestamp=state.write_ms,
        state_batches=_encoded(messages.ShareSnapshotValue.StateBatch, state),
    )
    return Record(_key(KeyType.SHARE_SNAPSHOT, key), codec.encode_versioned(value, 0))


def update(key: SharePartitionKey, state: ShareState) -> Record:
    """The record of a change: `batches` are those of the write."""
    value = messages.ShareUpdateValue(
        snapshot_epoch=state.snapshot_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        state_batches=_encoded(messages.ShareUpdateValue.StateBatch, state),
    )
    return Record(_key(KeyType.SHARE_UPDATE, key), codec.encode_versioned(value, 0))


def _encoded(kind: Callable[..., Batch], state: ShareState) -> list[Batch]:
    return [
        kind(first_offset=first, last_offset=last, delivery_count=count, delivery_state=delivery_state)
        for first, last, count, delivery_state in state.batches
    ]


def tombstone(key: SharePartitionKey) -> Record:
    return Record(_key(KeyType.SHARE_SNAPSHOT, key), None)


def decode_snapshot(value: bytes) -> ShareState:
    """Raises WireError if the value is malformed."""
    found, _ = codec.decode_versioned(messages.ShareSnapshotValue, value)
    return ShareState(
        found.snapshot_epoch,
        found.state_epoch,
        found.leader_epoch,
        found.start_offset,
        found.delivery_complete_count,
        _batches(found.state_batches),
        found.create_timestamp,
        found.write_timestamp,
    )


def decode_update(value: bytes) -> ShareState:
    """The changes of a write, with the state epoch 0, as Kafka takes it where no snapshot was before. Raises WireError
    if the value is malformed.
    """
    found, _ = codec.decode_versioned(messages.ShareUpdateValue, value)
    return ShareState(
        found.snapshot_epoch,
        0,
        found.leader_epoch,
        found.start_offset,
        found.delivery_complete_count,
        _batches(found.state_batches),
    )


def _batches(
    found: Sequence[messages.ShareSnapshotValue.StateBatch] | Sequence[messages.ShareUpdateValue.StateBatch],
) -> tuple[StateBatch, ...]:
    batches = [
        StateBatch(each.first_offset, each.last_offset, each.delivery_count, each.delivery_state) for each in found
    ]
    for batch in batches:
        if batch.first_offset > batch.last_offset:
            raise WireError(f"a state batch from offset {batch.first_offset} to {batch.last_offset}")
    return combine((), batches)


def _key(kind: KeyType, key: SharePartitionKey) -> bytes:
    value = messages.ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    return _PREFIXES[kind] + codec.encode(value, 0)
