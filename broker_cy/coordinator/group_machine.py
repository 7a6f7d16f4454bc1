"""The state machine of the group coordinator, one for each partition of `__consumer_offsets`, without socket, file or
clock: how records change its `GroupTable`, and its life cycle. Operations are functions of the modules beside this one,
which `GroupMachine.run` runs.

The caller appends the records of each `GroupStep` in order, and calls `written` or `failed` when their outcome is
known. It calls `expire` no later than `next_wake_ms`.

Durable state is the content of the partition's records: `offsets`, and the `record` or `records` of each of `groups`.
Only `apply` and `apply_marker` change it, both for records read from the log and for those that an operation has just
created. Everything else (the members of `groups` and their waiting requests, `timers`) is live state.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from broker_cy.coordinator import expiry, records
from broker_cy.coordinator.classic.group import ClassicGroup
from broker_cy.coordinator.classic.hooks import HookedGroup
from broker_cy.coordinator.classic.state import GroupState
from broker_cy.coordinator.consumer import replay as consumer_replay
from broker_cy.coordinator.group import UNKNOWN_OFFSET, Group, GroupAdded, GroupTable
from broker_cy.coordinator.offset_record import decode_offset_key, decode_offset_value
from broker_cy.coordinator.offsets import NO_PRODUCER_ID, CommitBefore, OffsetsBefore
from broker_cy.coordinator.records import KeyType
from broker_cy.coordinator.share import deletion as share_deletion
from broker_cy.coordinator.share import replay as share_replay
from broker_cy.coordinator.step import GroupStep, append_error
from broker_cy.coordinator.streams import replay as streams_replay
from broker_cy.coordinator.timers import TimerKey, TimerKind
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import UNCHANGED, Before, Now
from broker_cy.metadata.image import ImageDelta, MetadataImage

# Deadlines that one step applies, in about 5 ms: each may end the session of a member, whose four records must fit into
# one batch with those of the others.
DEADLINES_MAX: Final = 50
# Changed topics that are looked up in each group with regular expressions.
CHANGED_LOOKS_MAX: Final = 100


class GroupMachine(GroupTable):
    """While a log is loaded, groups have no live members yet."""

    def classic(self, group_id: str) -> ClassicGroup | None:
        """The classic group of this id."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def classic_groups(self) -> list[ClassicGroup]:
        return [group for group in self.groups.values() if isinstance(group, ClassicGroup)]

    # ---- records ----

    def apply(self, offset: int, producer_id: int, key: bytes, value: bytes | None) -> Before:
        """Change the state by a record, read from the log or just created, and return the state before it.
        `producer_id` is that of its batch if the batch is transactional, else -1.

        Raises WireError if key or value is malformed or of a version this broker does not know.
        """
        self.next_offset = offset + 1
        try:
            change = _CHANGES[key[:2]]
        except KeyError:
            records.key_type(key)  # raises WireError for a key without a type
            self.unknown_records += 1
            return UNCHANGED
        return change(self, offset, producer_id, key, value)

    def apply_marker(self, offset: int, producer_id: int, committed: bool) -> OffsetsBefore:
        """The same for the marker that ends a transaction."""
        self.next_offset = offset + 1
        return self.offsets.replay_marker(producer_id, committed)

    def loaded(self, now: Now) -> GroupStep:
        """All records of the log are applied."""
        step = GroupStep()
        for group in self.classic_groups():
            if group.record is None and not self.offsets.has_any(group.group_id):
                self.remove_group(group)
        for group_id in [*self.offsets.by_group, *self.offsets.groups_with_pending()]:
            # A tombstone of the group may stand in the log before those of its offsets.
            self.ensure_simple_group(group_id, now.wall_ms)
        for each in self.groups.values():
            each.loaded(self, step, now)
        return step

    # ---- time ----

    def expire(self, now: Now) -> GroupStep:
        """Apply deadlines that have passed; delete more of the offsets that are expired or in deleted topics."""
        step = GroupStep()
        for key in islice(self.timers.due(now.mono_ms), DEADLINES_MAX):
            group = self.groups.get(key.group_id)
            if group is not None:
                group.on_timer(self, step, key, now)
        if self.has_deletions() and self.may_delete(now) and not step.records:
            # Records of a rebalance are not mixed with those that may be written in parts.
            expiry.delete_some(self, step, now)
        return step

    # ---- changes from outside ----

    def take_image(self, image: MetadataImage) -> None:
        super().take_image(image)
        if self.topics_created_at == UNKNOWN_OFFSET:
            # As in Kafka, regular expressions that were matched before are matched again.
            self.topics_created_at = image.offset

    def metadata_changed(self, delta: ImageDelta, image: MetadataImage) -> GroupStep:
        """Groups that subscribe to changed topics are marked: as in Kafka, to each topic of the delta, also if only a
        leader has changed. Offsets that were committed in deleted topics are deleted.
        """
        step = super().metadata_changed(delta, image)
        # Their names, with the hashes of their metadata before.
        changed: dict[str, int | None] = {}
        for before, after in delta.topics:
            if before is None:
                self.topics_created_at = image.offset
            for each in (before, after):
                if each is not None:
                    changed.setdefault(each.name, self.topic_hashes.pop(each.name, None))
        for name, hash_before in changed.items():
            for group_id in self.subscribers.of(name):
                group = self.groups.get(group_id)
                if group is not None:
                    group.topics_changed({name: hash_before})
        for group_id in self.subscribers.wide:
            group = self.groups.get(group_id)
            if group is None:
                continue
            read = group.read_of(changed.keys()) if len(changed) <= CHANGED_LOOKS_MAX else None
            # A mark without a cause does no harm.
            if read is None or read:
                group.topics_changed({name: changed[name] for name in read or ()})
        if gone := delta.gone():
            expiry.topics_deleted(self, step, [(topic.name, topic.topic_id) for topic in gone])
            share_deletion.topics_deleted(self, step, [topic.topic_id for topic in gone])
        return step

    def undone(self, out: GroupStep, code: ErrorCode) -> None:
        while self._displaced:
            self._displaced.pop().discard(self, out, append_error(code))
        expiry.undone(self)

    def unload(self) -> GroupStep:
        """This broker no longer coordinates the partition: answer every waiting request with NOT_COORDINATOR."""
        step = GroupStep()
        for group in list(self.groups.values()):
            group.discard(self, step, ErrorCode.NOT_COORDINATOR)
        return step

    # ---- simple groups ----

    def ensure_simple_group(self, group_id: str, wall_ms: int) -> bool:
        """Create a simple group for committed offsets unless a group of that id exists; returns whether it was
        created.
        """
        if group_id in self.groups:
            return False
        self.add_group(HookedGroup(group_id, wall_ms))
        return True

    def remove_simple_group(self, group_id: str, number: int) -> None:
        """Undo the creation of a simple group, unless members have joined it since."""
        group = self.same_group(group_id, number)
        if group is not None and group.state is GroupState.EMPTY:
            del self.groups[group_id]

    def same_group(self, group_id: str, number: int) -> ClassicGroup | None:
        """Return the group of this id if it is still the one with this number, and no later one of the same id."""
        group = self.classic(group_id)
        return group if group is not None and group.number == number else None


# ---- state that a record replaced ----


class ClassicBefore(NamedTuple):
    """The record of a classic group; None if it had none."""

    group_id: str
    record: bytes | None

    def restore(self, machine: GroupMachine) -> None:
        group = machine.classic(self.group_id)
        if group is not None:
            group.record = self.record

    def undo(self, group: Group | None) -> Group | None:
        # A new group exists for reads from the JoinGroup on, whose answer does not wait for the record. In Kafka, a
        # leader without followers has written the record before it reads the next request.
        return group


class ClassicRemoved(NamedTuple):
    """The classic group that a tombstone removed."""

    group: ClassicGroup

    @property
    def group_id(self) -> str:
        return self.group.group_id

    def undo(self, group: Group | None) -> Group | None:
        return self.group

    def restore(self, machine: GroupMachine) -> None:
        group, group_id = self.group, self.group.group_id
        later = machine.classic(group_id)
        if later is not None:
            # Its own record is undone.
            later.record = group.record
            return
        machine.put_back(group)
        # The sessions of members may have ended while the deletion was being written.
        group.pending_members &= {
            member_id
            for member_id in group.pending_members
            if machine.timers.get(TimerKey(TimerKind.SESSION, group_id, member_id)) is not None
        }


# ---- the types of records ----


def _change_offset(machine: GroupMachine, offset: int, producer_id: int, key: bytes, value: bytes | None) -> Before:
    place = decode_offset_key(key)
    if value is None:
        return machine.offsets.replay_tombstone(*place)
    committed = decode_offset_value(value, offset)
    before: CommitBefore | OffsetsBefore
    if producer_id == NO_PRODUCER_ID:
        before = machine.offsets.replay_commit(place, committed)
        if before[1] is not None:
            # A group with an offset exists.
            return before
    else:
        before = machine.offsets.replay_pending(producer_id, place, committed)
    group_id = place[0]
    if group_id in machine.groups:
        return before
    machine.ensure_simple_group(group_id, committed.commit_timestamp_ms)
    return before.offsets()._replace(created=(group_id, machine.groups[group_id].number))


def _change_classic(machine: GroupMachine, offset: int, producer_id: int, key: bytes, value: bytes | None) -> Before:
    group_id = records.group_of_key(key)
    group = machine.groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        if value is None:
            return UNCHANGED
        machine.add_group(HookedGroup(group_id, None)).record = value
        return GroupAdded(group_id, group)
    if value is None:
        del machine.groups[group_id]
        return ClassicRemoved(group)
    before = ClassicBefore(group_id, group.record)
    group.record = value
    return before


# By the first two bytes of a key, which are its type: this is looked up for each record of a log.
_CHANGES: dict[bytes, Callable[[GroupMachine, int, int, bytes, bytes | None], Before]] = {
    kind.to_bytes(2, "big"): change
    for kinds, change in (
        ((KeyType.LEGACY_OFFSET_COMMIT, KeyType.OFFSET_COMMIT), _change_offset),
        ((KeyType.GROUP_METADATA,), _change_classic),
        *(
            ((kind,), change)
            for changes in (consumer_replay.CHANGES, share_replay.CHANGES, streams_replay.CHANGES)
            for kind, change in changes.items()
        ),
    )
    for kind in kinds
}
