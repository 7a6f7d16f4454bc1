"""The coordinator of the groups in one partition of `__consumer_offsets`: a state machine without socket, file or
clock.

Durable state is the content of the partition's records: `offsets`, `group_values`, `other_groups`. Only replay changes
it, both for records read from the log and for those that an operation has just created. Everything else (`groups` with
their members' waiting requests, `timers`) is live state, which `loaded` rebuilds from the durable one.

The caller appends the records of each `Step` in order, and calls `written` or `failed` when their outcome is known. It
calls `expire` no later than `next_wake_ms`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from uuid import UUID

from broker_cy.coordinator import admin, commit, expiry, fetch, join, membership, rebalance, records, sync
from broker_cy.coordinator.base import StateMachine
from broker_cy.coordinator.group import ClassicGroup, GroupState
from broker_cy.coordinator.journal import trigger_of
from broker_cy.coordinator.offset_record import decode_offset_key, decode_offset_value
from broker_cy.coordinator.offsets import NO_PRODUCER_ID, OffsetStore
from broker_cy.coordinator.other_groups import GROUP_TYPES, OtherGroups
from broker_cy.coordinator.records import KeyType
from broker_cy.coordinator.settings import GroupSettings
from broker_cy.coordinator.step import ClientFacts, Now, Record, Step, Token
from broker_cy.coordinator.timers import TimerKey, TimerKind
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages

# Keys of committed offsets have the types up to this one. A plain number, because it is compared for each record of a
# log.
_OFFSET_KEY_MAX = int(KeyType.OFFSET_COMMIT)


class GroupStateMachine(StateMachine[TimerKey]):
    """Invariant: `groups` and `other_groups` are disjoint; each id in `group_values` is in `groups` once loaded."""

    def __init__(self, settings: GroupSettings) -> None:
        super().__init__()
        self.settings = settings
        self.offsets = OffsetStore()
        self.group_values: dict[str, bytes] = {}
        """The value of each classic group's record."""
        self.other_groups = OtherGroups()
        self.groups: dict[str, ClassicGroup] = {}

    # ---- loading ----

    def load_record(self, offset: int, producer_id: int, key: bytes, value: bytes | None) -> None:
        """Replay a record from the log. `producer_id` is that of its batch if the batch is transactional, else -1.

        Raises WireError if key or value is malformed or of a version this broker does not know.
        """
        self.next_offset = offset + 1
        kind = records.key_type(key)
        if kind <= _OFFSET_KEY_MAX:
            group_id, topic, partition = decode_offset_key(key)
            if value is None:
                self.offsets.replay_tombstone(group_id, topic, partition)
            elif producer_id == NO_PRODUCER_ID:
                self.offsets.load_commit(group_id, topic, partition, decode_offset_value(value, offset))
            else:
                committed = decode_offset_value(value, offset)
                self.offsets.load_pending(producer_id, group_id, topic, partition, committed)
        elif kind == KeyType.GROUP_METADATA:
            group_id = records.group_of_key(key)
            if value is None:
                self.group_values.pop(group_id, None)
            else:
                self.group_values[group_id] = value
                self.other_groups.by_id.pop(group_id, None)
        elif kind in GROUP_TYPES:
            group_id, _ = self.other_groups.replay(key, value)
            if value is not None:
                self.group_values.pop(group_id, None)
        else:
            self.unknown_records += 1

    def load_marker(self, offset: int, producer_id: int, committed: bool) -> None:
        """Replay the marker that ends a transaction."""
        self.next_offset = offset + 1
        self.offsets.replay_marker(producer_id, committed)

    def loaded(self, now: Now) -> Step:
        """All records of the log are replayed: members get a session each, and groups over the limit are rebalanced."""
        step = Step()
        self.groups = {
            group_id: records.load_group(group_id, value, now.wall_ms) for group_id, value in self.group_values.items()
        }
        for group_id in [*self.offsets.by_group, *self.offsets.groups_with_pending()]:
            self._ensure_simple_group(group_id, now.wall_ms)
        for group in self.groups.values():
            for member in group.members.values():
                rebalance.set_session(self, group, member, now)
            if len(group.members) > self.settings.group_max_size:
                rebalance.prepare(self, step, group, now, trigger_of("group_too_large"))
        return step

    # ---- records of an operation ----

    def append(self, step: Step, new: Sequence[Record], producer_id: int = NO_PRODUCER_ID) -> None:
        """Make records part of the step and replay them. With a producer id they belong to its transaction."""
        for record in new:
            step.records.append(record)
            step._undo.append(self._replay_live(record, producer_id))
            self.next_offset += 1

    def _replay_live(self, record: Record, producer_id: int) -> Callable[[], None]:
        """Replay a record that was made here, which is of a committed offset, a classic group or a deletion."""
        key, value = record
        kind = records.key_type(key)
        if kind == KeyType.OFFSET_COMMIT:
            group_id, topic, partition = decode_offset_key(key)
            if value is None:
                return self.offsets.replay_tombstone(group_id, topic, partition)
            committed = decode_offset_value(value, self.next_offset)
            is_new = self._ensure_simple_group(group_id, committed.commit_timestamp_ms)
            if producer_id == NO_PRODUCER_ID:
                undo = self.offsets.replay_commit(group_id, topic, partition, committed)
            else:
                undo = self.offsets.replay_pending(producer_id, group_id, topic, partition, committed)
            if not is_new:
                return undo
            created = self.groups[group_id]

            def undo_group() -> None:
                undo()
                if self.groups.get(group_id) is created and created.state is GroupState.EMPTY:
                    del self.groups[group_id]

            return undo_group
        if kind == KeyType.GROUP_METADATA:
            return self._replay_group(records.group_of_key(key), value)
        group_id, before = self.other_groups.replay(key, value)
        return lambda: self._restore_other(key, before)

    def _replay_group(self, group_id: str, value: bytes | None) -> Callable[[], None]:
        before = self.group_values.get(group_id)
        if value is not None:
            self.group_values[group_id] = value
            return lambda: self._restore_group_value(group_id, before)
        self.group_values.pop(group_id, None)
        group = self.groups.pop(group_id, None)

        def undo() -> None:
            self._restore_group_value(group_id, before)
            if group is not None and self.groups.setdefault(group_id, group) is group:
                # The sessions of members may have ended while the deletion was being written.
                group.pending_members &= {
                    member_id
                    for member_id in group.pending_members
                    if self.timers.get(TimerKey(TimerKind.SESSION, group_id, member_id)) is not None
                }

        return undo

    def _restore_group_value(self, group_id: str, before: bytes | None) -> None:
        if before is None:
            self.group_values.pop(group_id, None)
        else:
            self.group_values[group_id] = before

    def _restore_other(self, key: bytes, before: bytes | None) -> None:
        self.other_groups.replay(key, before)

    def _ensure_simple_group(self, group_id: str, wall_ms: int) -> bool:
        """Create a simple group for committed offsets if there is no group of that id; returns whether it was
        created.
        """
        if group_id in self.groups or self.other_groups.get(group_id) is not None:
            return False
        self.groups[group_id] = ClassicGroup(group_id, wall_ms)
        return True

    # ---- time ----

    def expire(self, now: Now) -> Step:
        """Apply every deadline that has passed."""
        step = Step()
        for key in self.timers.due(now.mono_ms):
            group = self.groups.get(key.group_id)
            if group is None:
                continue
            if key.kind is TimerKind.SESSION:
                rebalance.on_session_timer(self, step, group, key.member_id, now)
            elif key.kind is TimerKind.JOIN:
                rebalance.on_join_timer(self, step, group, now)
            else:
                rebalance.on_sync_timer(self, step, group, now)
        return step

    def sweep(self, now: Now) -> Step:
        """Delete the offsets and groups that exceed `offsets.retention.minutes`."""
        step = Step()
        expiry.sweep(self, step, now)
        return step

    def topics_deleted(self, topics: Collection[tuple[str, UUID]]) -> Step:
        """Delete the offsets committed in deleted topics, given as (name, id)."""
        step = Step()
        expiry.topics_deleted(self, step, topics)
        return step

    def unload(self) -> Step:
        """This broker no longer coordinates the partition: answer every waiting request with NOT_COORDINATOR."""
        step = Step()
        for group in list(self.groups.values()):
            self.discard_group(step, group, ErrorCode.NOT_COORDINATOR)
        return step

    def discard_group(self, step: Step, group: ClassicGroup, code: ErrorCode) -> None:
        """Drop the live state of a group and answer `code` to all of its waiting requests."""
        for member in group.members.values():
            rebalance.answer_join(step, group, member, rebalance.join_error(member.member_id, code))
            rebalance.answer_sync(step, member, rebalance.sync_error(code))
        for member_id in [*group.members, *group.pending_members]:
            self.timers.cancel(TimerKey(TimerKind.SESSION, group.group_id, member_id))
        self.timers.cancel(TimerKey(TimerKind.JOIN, group.group_id))
        self.timers.cancel(TimerKey(TimerKind.SYNC, group.group_id))
        group.state = GroupState.DEAD
        del self.groups[group.group_id]

    # ---- operations; requests are answered under `token` ----

    def join(
        self, request: messages.JoinGroupRequest, client: ClientFacts, token: Token, unique: str, now: Now
    ) -> Step:
        """`unique` becomes part of the member id, where one is made."""
        step = Step()
        join.join(self, step, request, client, token, unique, now)
        return step

    def sync(self, request: messages.SyncGroupRequest, token: Token, now: Now) -> Step:
        step = Step()
        sync.sync(self, step, request, token, now)
        return step

    def heartbeat(self, request: messages.HeartbeatRequest, now: Now) -> ErrorCode:
        return membership.heartbeat(
            self, request.group_id, request.member_id, request.group_instance_id, request.generation_id, now
        )

    def leave(
        self, group_id: str, members: list[messages.LeaveGroupRequest.MemberIdentity], token: Token, now: Now
    ) -> Step:
        step = Step()
        membership.leave(self, step, group_id, members, token, now)
        return step

    def commit(self, request: messages.OffsetCommitRequest, version: int, token: Token, now: Now) -> Step:
        """Topics carry both their name and their id; they and the partitions exist."""
        step = Step()
        commit.commit(self, step, request, version, token, now)
        return step

    def commit_transactional(self, request: messages.TxnOffsetCommitRequest, token: Token, now: Now) -> Step:
        """Topics and partitions exist. The step's records belong to the producer's transaction."""
        step = Step()
        commit.commit_transactional(self, step, request, token, now)
        return step

    def end_transaction(self, producer_id: int, committed: bool, token: Token) -> Step:
        """The marker that ends the producer's transaction is the next record; `token` gets its ErrorCode."""
        step = Step()
        undo_marker = self.offsets.replay_marker(producer_id, committed)
        self.next_offset += 1

        def undo() -> None:
            self.next_offset -= 1
            undo_marker()

        step._undo.append(undo)
        step.then(
            lambda step, now: step.reply(token, ErrorCode.NONE),
            lambda step, now, code: step.reply(token, code),
        )
        return step

    def delete_offsets(self, request: messages.OffsetDeleteRequest, token: Token) -> Step:
        """Topics and partitions exist."""
        step = Step()
        commit.delete_offsets(self, step, request, token)
        return step

    def fetch_offsets(
        self, request: messages.OffsetFetchRequest.OffsetFetchRequestGroup, *, require_stable: bool
    ) -> messages.OffsetFetchResponse.OffsetFetchResponseGroup:
        return fetch.fetch_offsets(self, request, require_stable=require_stable)

    def describe(self, group_id: str, version: int) -> messages.DescribeGroupsResponse.DescribedGroup:
        return admin.describe(self, group_id, version)

    def list_groups(self, states: Iterable[str], types: Iterable[str]) -> list[messages.ListGroupsResponse.ListedGroup]:
        return admin.list_groups(self, states, types)

    def delete_groups(self, group_ids: Iterable[str], token: Token) -> Step:
        step = Step()
        admin.delete_groups(self, step, group_ids, token)
        return step
