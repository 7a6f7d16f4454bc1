"""A classic group with members becomes a consumer group, because a member joins by the consumer protocol.

Its members stay, and go on by the classic protocol; each moves to the consumer protocol when it restarts.
"""

from __future__ import annotations

from broker_cy.coordinator.classic import rebalance
from broker_cy.coordinator.classic.group import ClassicGroup
from broker_cy.coordinator.classic.journal import trigger_of
from broker_cy.coordinator.classic.member import ClassicMember
from broker_cy.coordinator.classic.state import GroupState
from broker_cy.coordinator.consumer import embedded, records
from broker_cy.coordinator.consumer.hooks import HookedConsumerGroup
from broker_cy.coordinator.consumer.member import ClassicMembership, ConsumerMember, with_epoch
from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.epochs import newest_hash
from broker_cy.coordinator.modern.group import UNKNOWN_TIME_MS
from broker_cy.coordinator.modern.journal import Noted
from broker_cy.coordinator.modern.replay import append_current, append_member, append_target
from broker_cy.coordinator.step import GroupStep
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError, WireError
from broker_cy.core.step import Now
from broker_cy.metrics.events import GroupConverted

_Members = list[tuple[ConsumerMember, embedded.Partitions]]


def upgrade(machine: GroupTable, step: GroupStep, group: ClassicGroup, now: Now) -> None:
    """Write the group as a consumer group. Raises KafkaError(GROUP_ID_NOT_FOUND) if that is not possible or not
    allowed.
    """
    _check(machine, group)
    members = [_member(machine, group, member) for member in group.members.values()]
    for member in group.members.values():
        # They join again, as members of the consumer group.
        answer = rebalance.join_error(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        rebalance.answer_join(step, group, member, answer)
        rebalance.answer_sync(step, member, rebalance.sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    _write(machine, step, group, members)
    for member in group.members.values():
        rebalance.set_session(machine, group, member, now)
    step.then(Upgraded(group.group_id, group.number))
    step.then(
        Noted(group.group_id, (GroupConverted(group.group_id, "classic", "consumer", group.generation, len(members)),))
    )


def _check(machine: GroupTable, group: ClassicGroup) -> None:
    settings = machine.settings.consumer
    reason = None
    if not settings.migration_policy.is_upgrade_enabled:
        reason = "group.consumer.migration.policy does not allow it"
    elif not group.uses_consumer_protocol:
        reason = f"its protocol type is {group.protocol_type}"
    elif len(group.members) > settings.max_size:
        reason = f"it has {len(group.members)} members, and group.consumer.max.size is {settings.max_size}"
    if reason is not None:
        raise _impossible(group, reason)


def _impossible(group: ClassicGroup, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND, f"the classic group {group.group_id} cannot become a consumer group: {reason}"
    )


def _member(
    machine: GroupTable, group: ClassicGroup, member: ClassicMember
) -> tuple[ConsumerMember, embedded.Partitions]:
    """The member with its last assignment, as one of a consumer group. Raises KafkaError."""
    try:
        assigned = embedded.assignment_of(member.assignment, machine.image)
        metadata = member.metadata(group.protocol_name or group.select_protocol())
        subscription = embedded.subscription_of(metadata, machine.image)
    except embedded.CustomAssignorError as error:
        raise _impossible(group, str(error)) from error
    except WireError as error:
        raise _impossible(group, f"the metadata of {member.member_id} are malformed: {error}") from error
    found = ConsumerMember(
        member.member_id,
        group.generation,
        group.generation,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=subscription.topics,
        assigned=with_epoch(assigned, group.generation),
        classic=ClassicMembership(member.session_timeout_ms, member.protocols),
    )
    return found, assigned


def _write(machine: GroupTable, step: GroupStep, group: ClassicGroup, members: _Members) -> None:
    group_id, generation = group.group_id, group.generation
    machine.append(step, group.tombstones())
    made = HookedConsumerGroup(group_id)
    for member, _ in members:
        append_member(machine, step, made, member, records.member_record(group_id, member))
    metadata_hash = newest_hash(machine, step, made) or made.metadata_hash
    machine.append(step, [records.epoch_record(group_id, generation, metadata_hash)])
    for member, assigned in members:
        record = records.target_record(group_id, member.member_id, assigned)
        append_target(machine, step, made, member.member_id, assigned, record)
    machine.append(step, [records.target_epoch_record(group_id, generation, UNKNOWN_TIME_MS)])
    for member, _ in members:
        append_current(machine, step, made, member, records.current_record)


class Upgraded(NamedTuple):
    """The records that make a consumer group of a classic one."""

    group_id: str
    number: int

    def written(self, machine: GroupTable, out: GroupStep, now: Now) -> None:
        """Nothing waits for them."""

    def failed(self, machine: GroupTable, out: GroupStep, now: Now, code: ErrorCode) -> None:
        """The classic group goes on: its members were told to join again."""
        group = machine.groups.get(self.group_id)
        if not isinstance(group, ClassicGroup) or group.number != self.number:
            return
        for member in group.members.values():
            rebalance.set_session(machine, group, member, now)
        if group.can_rebalance:
            rebalance.prepare(machine, out, group, now, trigger_of("write_failed"))
        elif group.state is GroupState.PREPARING_REBALANCE:
            rebalance.set_join_timer(machine, group, now, group.rebalance_timeout_ms)
