"""The coordinator of the groups in one partition of `__consumer_offsets`: a state machine without socket, file or
clock. Its state is `GroupMachine`.

The caller appends the records of each `Step` in order, and calls `written` or `failed` when their outcome is known. It
calls `expire` no later than `next_wake_ms`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from broker_cy.coordinator import admin, commit, expiry, fetch
from broker_cy.coordinator.classic import join, membership, rebalance, sync
from broker_cy.coordinator.classic.journal import trigger_of
from broker_cy.coordinator.classic.records import load_group
from broker_cy.coordinator.group_machine import GroupMachine, MarkerBefore
from broker_cy.coordinator.step import ClientFacts, Now, OffsetsCommitted, Step, Token
from broker_cy.coordinator.timers import TimerKind
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.image import ImageDelta, MetadataImage
from broker_cy.wire import messages


class MarkerWritten(NamedTuple):
    """The marker of a transaction is on disk, or the code says why it is not."""

    token: Token

    def written(self, machine: Any, out: Step, now: Now) -> None:
        out.reply(self.token, ErrorCode.NONE)

    def failed(self, machine: Any, out: Step, now: Now, code: ErrorCode) -> None:
        out.reply(self.token, code)


class GroupStateMachine(GroupMachine):
    """The operations of the group coordinator on its state."""

    # ---- loading ----

    def loaded(self, now: Now) -> Step:
        """All records of the log are replayed: members get a session each, and groups over the limit are rebalanced."""
        step = Step()
        self.groups = {}
        for group_id, value in self.group_values.items():
            self.add_group(load_group(group_id, value, now.wall_ms))
        for group_id in [*self.offsets.by_group, *self.offsets.groups_with_pending()]:
            self.ensure_simple_group(group_id, now.wall_ms)
        for group in self.groups.values():
            for member in group.members.values():
                rebalance.set_session(self, group, member, now)
            if len(group.members) > self.settings.group_max_size:
                rebalance.prepare(self, step, group, now, trigger_of("group_too_large"))
        return step

    # ---- time ----

    def next_wake_ms(self) -> int | None:
        times = (super().next_wake_ms(), expiry.due_ms(self))
        return min((time_ms for time_ms in times if time_ms is not None), default=None)

    def expire(self, now: Now) -> Step:
        """Apply every deadline that has passed; delete more of the offsets that are expired or in deleted topics."""
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
        if expiry.is_due(self, now) and not step.records:
            # Records of a rebalance are not mixed with those that may be written in parts.
            expiry.delete_some(self, step, now)
        return step

    def sweep(self, now: Now) -> Step:
        """Delete the offsets and groups that exceed `offsets.retention.minutes`."""
        step = Step()
        expiry.sweep(self, step, now)
        return step

    def metadata_changed(self, delta: ImageDelta, image: MetadataImage) -> Step:
        """Offsets that were committed in deleted topics are deleted."""
        step = super().metadata_changed(delta, image)
        if gone := delta.gone():
            expiry.topics_deleted(self, step, [(topic.name, topic.topic_id) for topic in gone])
        return step

    def failed(self, steps: Sequence[Step], code: ErrorCode, now: Now) -> Step:
        out = super().failed(steps, code, now)
        expiry.undone(self)
        return out

    def unload(self) -> Step:
        """This broker no longer coordinates the partition: answer every waiting request with NOT_COORDINATOR."""
        step = Step()
        for group in list(self.groups.values()):
            rebalance.discard_group(self, step, group, ErrorCode.NOT_COORDINATOR)
        return step

    # ---- operations; requests are answered under `token` ----

    def join(
        self, request: messages.JoinGroupRequest, client: ClientFacts, token: Token, unique: str, now: Now
    ) -> Step:
        """`unique` becomes part of a new member id, if one is made."""
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
        before = self.offsets.replay_marker(producer_id, committed)
        step.before.append(MarkerBefore(before))
        self.next_offset += 1
        if before.committed:
            step.then(OffsetsCommitted(tuple(place for place, _ in before.committed)))
        step.then(MarkerWritten(token))
        return step

    def delete_offsets(self, request: messages.OffsetDeleteRequest, token: Token) -> Step:
        """Topics and partitions exist."""
        step = Step()
        commit.delete_offsets(self, step, request, token)
        return step

    def fetch_offsets(
        self,
        request: messages.OffsetFetchRequest.OffsetFetchRequestGroup,
        *,
        require_stable: bool,
        unwritten: Iterable[Step] = (),
    ) -> messages.OffsetFetchResponse.OffsetFetchResponseGroup:
        """Without the changes of the steps `unwritten`, the oldest first."""
        return fetch.fetch_offsets(self, request, require_stable=require_stable, unwritten=unwritten)

    def describe(self, group_id: str, version: int) -> messages.DescribeGroupsResponse.DescribedGroup:
        return admin.describe(self, group_id, version)

    def list_groups(self, states: Iterable[str], types: Iterable[str]) -> list[messages.ListGroupsResponse.ListedGroup]:
        return admin.list_groups(self, states, types)

    def delete_groups(self, group_ids: Iterable[str], token: Token) -> Step:
        step = Step()
        admin.delete_groups(self, step, group_ids, token)
        return step
