"""Deletion of offsets without a client's request: the retention of unused groups, and the deletion of a topic."""

from __future__ import annotations

from collections.abc import Callable, Collection
from uuid import UUID

from broker_cy.coordinator.classic.group import ClassicGroup, GroupState
from broker_cy.coordinator.classic.records import group_tombstone
from broker_cy.coordinator.offset_record import CommittedOffset, encode_offset_key
from broker_cy.coordinator.shard import GroupShard
from broker_cy.coordinator.step import Now, Record, Step

# Offsets and groups that one step deletes: about 50 microseconds each, with encoding and appending. The last group may
# add all its offsets.
DELETIONS_PER_STEP = 500
# Offsets and groups that one step looks at: about 0.4 microseconds each.
LOOKS_PER_STEP = 10_000


def sweep(machine: GroupShard, step: Step, now: Now) -> None:
    """Delete expired offsets of classic groups, and empty groups without offsets: a part of them now, the others by
    `delete_some`. An unfinished sweep continues.

    Groups of other types are not touched as long as this broker does not keep them up to date.
    """
    if not machine.unswept:
        machine.unswept.extend(machine.groups)
    _sweep_some(machine, step, now)


def _sweep_some(machine: GroupShard, step: Step, now: Now) -> None:
    step.atomic = False
    records: list[Record] = []
    looks = 0
    while machine.unswept and len(records) < DELETIONS_PER_STEP and looks < LOOKS_PER_STEP:
        group = machine.groups.get(machine.unswept.popleft())
        if group is None:
            continue
        looks += 1 + sum(map(len, machine.offsets.topics(group.group_id).values()))
        expired, is_bare = _expired(machine, group, now)
        records += expired
        if is_bare and group.state is GroupState.EMPTY:
            records.append(group_tombstone(group.group_id))
    machine.append(step, records)


def _expired(machine: GroupShard, group: ClassicGroup, now: Now) -> tuple[list[Record], bool]:
    """Return the tombstones of the group's expired offsets, and whether no other offsets remain."""
    group_id = group.group_id
    topics = machine.offsets.topics(group_id)
    if not topics:
        return [], not machine.offsets.has_pending(group_id)
    retention_begin = _retention_begin(group)
    if retention_begin is None:
        return [], False
    records: list[Record] = []
    is_bare = not machine.offsets.has_pending(group_id)
    for topic, partitions in topics.items():
        if group.is_subscribed(topic):
            is_bare = False
            continue
        for index, offset in partitions.items():
            if _is_over(offset, retention_begin, machine.settings.offsets_retention_ms, now) and not (
                machine.offsets.is_pending(group_id, topic, index)
            ):
                records.append(Record(encode_offset_key(group_id, topic, index), None))
            else:
                is_bare = False
    return records, is_bare


def _retention_begin(group: ClassicGroup) -> Callable[[CommittedOffset], int] | None:
    """Return the start of an offset's retention; None if no offset of the group expires now."""
    if group.protocol_type is None:
        # A group without members ever: offsets of consumers that assign their partitions themselves.
        return lambda offset: offset.commit_timestamp_ms
    if group.state is GroupState.EMPTY:
        empty_since_ms = group.state_timestamp_ms
        return lambda offset: offset.commit_timestamp_ms if empty_since_ms is None else empty_since_ms
    if group.state is GroupState.STABLE and group.uses_consumer_protocol and group.subscribed_topics is not None:
        # Offsets of topics that the group no longer reads.
        return lambda offset: offset.commit_timestamp_ms
    return None


def _is_over(offset: CommittedOffset, begin: Callable[[CommittedOffset], int], retention_ms: int, now: Now) -> bool:
    if offset.expire_timestamp_ms != -1:
        return now.wall_ms >= offset.expire_timestamp_ms
    return now.wall_ms - begin(offset) >= retention_ms


def topics_deleted(machine: GroupShard, step: Step, topics: Collection[tuple[str, UUID]]) -> None:
    """Delete the offsets committed in deleted topics, given as (name, id): a part of them now, the others by
    `delete_some`. The cost depends on the number of these offsets and of the pending ones, not on that of all groups.
    """
    step.atomic = False
    keys: dict[bytes, None] = {}
    deleted: dict[str, set[bytes]] = {}
    for name, topic_id in topics:
        deleted.setdefault(name, set()).add(topic_id.bytes)
    for name, ids in deleted.items():
        machine.deleted += [(group_id, name, frozenset(ids)) for group_id in machine.offsets.groups_of(name)]
    for _, group_id, name, index, offset in machine.offsets.pending_offsets():
        if any(map(offset.is_of_topic, deleted.get(name, ()))):
            keys[encode_offset_key(group_id, name, index)] = None
    machine.append(step, [Record(key, None) for key in keys])
    _delete_in_gone_topics(machine, step)


def is_behind(machine: GroupShard) -> bool:
    """Whether `delete_some` has something to do."""
    return bool(machine.deleted or machine.unswept)


def delete_some(machine: GroupShard, step: Step, now: Now) -> None:
    """Delete DELETIONS_PER_STEP more offsets: those that were committed in deleted topics, then expired ones."""
    if machine.deleted:
        _delete_in_gone_topics(machine, step)
    else:
        _sweep_some(machine, step, now)


def _delete_in_gone_topics(machine: GroupShard, step: Step) -> None:
    step.atomic = False
    records: list[Record] = []
    while machine.deleted and len(records) < DELETIONS_PER_STEP:
        group_id, name, ids = machine.deleted.popleft()
        for index, offset in machine.offsets.topics(group_id).get(name, {}).items():
            if any(map(offset.is_of_topic, ids)):
                records.append(Record(encode_offset_key(group_id, name, index), None))
    machine.append(step, records)
