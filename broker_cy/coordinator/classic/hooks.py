"""A classic group with its hooks: what uses records and rebalances, which are above the group itself."""

from __future__ import annotations

from broker_cy.coordinator.classic import rebalance, records
from broker_cy.coordinator.classic.group import ClassicGroup
from broker_cy.coordinator.classic.journal import trigger_of
from broker_cy.coordinator.classic.state import GroupState
from broker_cy.coordinator.group import CommitCheck, GroupTable
from broker_cy.coordinator.step import GroupStep, Record
from broker_cy.coordinator.timers import TimerKey, TimerKind
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.step import Now
from broker_cy.wire import messages


class HookedGroup(ClassicGroup):
    """The class of all classic groups in a `GroupTable`."""

    __slots__ = ()

    def check_commit(
        self, machine: GroupTable, request: messages.OffsetCommitRequest, version: int, now: Now
    ) -> CommitCheck | None:
        """As in any group; prolongs the session of a member that may commit."""
        generation = request.generation_id_or_member_epoch
        if generation < 0 and self.state is GroupState.EMPTY:
            return None
        if generation >= 0 or request.member_id or request.group_instance_id is not None:
            code = self.member_error(request.member_id, request.group_instance_id)
            if code is not ErrorCode.NONE:
                raise KafkaError(code)
            if generation != self.generation:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        elif self.state is not GroupState.EMPTY:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if self.state is GroupState.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        member = self.members.get(request.member_id)
        if member is not None:
            rebalance.set_session(machine, self, member, now)
        return None

    def tombstones(self) -> list[Record]:
        return [records.group_tombstone(self.group_id)]

    def loaded(self, machine: GroupTable, step: GroupStep, now: Now) -> None:
        """Members get a session each; a group over the limit is rebalanced."""
        if self.record is not None:
            records.load_group(self, self.record)
        for member in self.members.values():
            rebalance.set_session(machine, self, member, now)
        if len(self.members) > machine.settings.group_max_size:
            rebalance.prepare(machine, step, self, now, trigger_of("group_too_large"))

    def on_timer(self, machine: GroupTable, step: GroupStep, key: TimerKey, now: Now) -> None:
        if key.kind is TimerKind.SESSION:
            rebalance.on_session_timer(machine, step, self, key.member_id, now)
        elif key.kind is TimerKind.JOIN:
            rebalance.on_join_timer(machine, step, self, now)
        elif key.kind is TimerKind.SYNC:
            rebalance.on_sync_timer(machine, step, self, now)

    def discard(self, machine: GroupTable, step: GroupStep, code: ErrorCode) -> None:
        rebalance.discard_group(machine, step, self, code)
