"""Deletion of offsets without a client's request: the retention of unused groups, and the deletion of a topic."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from uuid import UUID

from broker_cy.coordinator.group import GoneTopic, Group, GroupTable
from broker_cy.coordinator.offset_record import CommittedOffset, encode_offset_key
from broker_cy.coordinator.step import GroupStep, Record
from broker_cy.core.step import Now

# Offsets and groups that one step deletes: about 50 microseconds each, with encoding and appending. The last group may
# add all its offsets.
DELETIONS_PER_STEP = 500
# Offsets and groups that one step looks at: about 0.4 microseconds each.
LOOKS_PER_STEP = 10_000


def sweep(machine: GroupTable, step: GroupStep, now: Now) -> None:
    """Delete expired offsets, and unused groups without offsets: a part of them now unless other deletions are being
    written, the others by `delete_some`. An unfinished sweep continues.
    """
    if not machine.unswept:
        machine.unswept.extend(machine.groups)
    if machine.may_delete(now):
        _sweep_some(machine, step, now)


def _sweep_some(machine: GroupTable, step: GroupStep, now: Now) -> None:
    records: list[Record] = []
    looks = 0
    while machine.unswept and len(records) < DELETIONS_PER_STEP and looks < LOOKS_PER_STEP:
        group = machine.groups.get(machine.unswept.popleft())
        if group is None:
            continue
        looks += 1 + sum(map(len, machine.offsets.topics(group.group_id).values()))
        expired, is_bare = _expired(machine, group, now)
        records += expired
        if is_bare and group.is_unused:
            records += group.tombstones()
    _delete(machine, step, records)


def _delete(machine: GroupTable, step: GroupStep, records: list[Record], taken: Sequence[GoneTopic] = ()) -> None:
    step.atomic = False
    machine.append(step, records)
    if records:
        machine.deletes(step, taken)


def _expired(machine: GroupTable, group: Group, now: Now) -> tuple[list[Record], bool]:
    """Return the tombstones of the group's expired offsets, and whether no other offsets remain."""
    group_id = group.group_id
    topics = machine.offsets.topics(group_id)
    if not topics:
        return [], not machine.offsets.has_pending(group_id)
    retention_begin = group.retention_begin()
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


def _is_over(offset: CommittedOffset, begin: Callable[[CommittedOffset], int], retention_ms: int, now: Now) -> bool:
    if offset.expire_timestamp_ms != -1:
        return now.wall_ms >= offset.expire_timestamp_ms
    return now.wall_ms - begin(offset) >= retention_ms


def offset_tombstones(machine: GroupTable, group_id: str) -> list[Record]:
    """Return the tombstones of every offset of a group, also of those in open transactions."""
    partitions = {(topic, index): None for topic, found in machine.offsets.topics(group_id).items() for index in found}
    partitions.update(dict.fromkeys(machine.offsets.pending_partitions(group_id)))
    return [Record(encode_offset_key(group_id, topic, index), None) for topic, index in partitions]


def topics_deleted(machine: GroupTable, step: GroupStep, topics: Collection[tuple[str, UUID]]) -> None:
    """Delete the offsets committed in deleted topics, given as (name, id): a part of them now unless other deletions
    are being written, the others by `delete_some`. The cost depends on the number of these offsets and of the pending
    ones, not on that of all groups.
    """
    ids: dict[str, set[bytes]] = {}
    for name, topic_id in topics:
        ids.setdefault(name, set()).add(topic_id.bytes)
    places = dict.fromkeys((group_id, name) for name in ids for group_id in machine.offsets.groups_of(name))
    for _, group_id, name, _, _ in machine.offsets.pending_offsets():
        if name in ids:
            places[group_id, name] = None
    machine.deleted += [
        GoneTopic(group_id, name, frozenset(ids[name]), machine.next_offset) for group_id, name in places
    ]
    if machine.deletions_due_ms is not None:
        _delete_in_gone_topics(machine, step)


def delete_some(machine: GroupTable, step: GroupStep, now: Now) -> None:
    """Delete DELETIONS_PER_STEP more offsets: those that were committed in deleted topics, then expired ones."""
    if machine.deleted:
        _delete_in_gone_topics(machine, step)
    else:
        _sweep_some(machine, step, now)


def _delete_in_gone_topics(machine: GroupTable, step: GroupStep) -> None:
    keys: dict[bytes, None] = {}
    taken: list[GoneTopic] = []
    while machine.deleted and len(keys) < DELETIONS_PER_STEP:
        gone = machine.deleted.popleft()
        taken.append(gone)
        committed = machine.offsets.topics(gone.group_id).get(gone.name, {}).items()
        for index, offset in (*committed, *machine.offsets.pending_in(gone.group_id, gone.name)):
            if gone.has(offset):
                keys[encode_offset_key(gone.group_id, gone.name, index)] = None
    _delete(machine, step, [Record(key, None) for key in keys], taken)


def undone(machine: GroupTable) -> None:
    """The newest records were undone: the next ones get their offsets, and are newer than the deletions of topics."""
    if machine.deleted:
        machine.deleted = deque(
            gone._replace(end_offset=min(gone.end_offset, machine.next_offset)) for gone in machine.deleted
        )
