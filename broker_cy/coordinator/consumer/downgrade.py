"""A consumer group becomes a classic group again, when no member of the consumer protocol is left in it."""

from __future__ import annotations

from collections.abc import Collection

from broker_cy.coordinator.classic import rebalance
from broker_cy.coordinator.classic import records as classic_records
from broker_cy.coordinator.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from broker_cy.coordinator.classic.hooks import HookedGroup
from broker_cy.coordinator.classic.journal import trigger_of
from broker_cy.coordinator.classic.member import ClassicMember
from broker_cy.coordinator.classic.state import GroupState
from broker_cy.coordinator.consumer import deadlines, embedded, records
from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.coordinator.consumer.member import ConsumerMember, united, without_epochs
from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.journal import Noted
from broker_cy.coordinator.modern.replay import append_removal
from broker_cy.coordinator.step import GroupStep
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Now
from broker_cy.metrics.events import GroupConverted


def is_due(machine: GroupTable, group: ConsumerGroup, leaving: Collection[ConsumerMember]) -> bool:
    """Whether the group becomes a classic one without these members."""
    left = len(group.members) - len(leaving)
    classic_left = group.classic_members - sum(member.classic is not None for member in leaving)
    return (
        0 < left == classic_left
        and machine.settings.consumer.migration_policy.is_downgrade_enabled
        and left <= machine.settings.group_max_size
    )


def downgrade(
    machine: GroupTable, step: GroupStep, group: ConsumerGroup, leaving: Collection[str], now: Now, *, rebalances: bool
) -> None:
    """Write the group, without the members `leaving`, as a classic group whose members have the partitions that they
    hold. They share the partitions again if it `rebalances`; otherwise, each holds its target.

    Kafka 4.3 writes the targets. A member that joins by the consumer protocol before the rebalance has ended makes a
    consumer group of it again, and would get partitions that others still read.
    """
    left = [member for member in group.members.values() if member.member_id not in leaving]
    held = {member.member_id: without_epochs(united((member.assigned, member.revoking))) for member in left}
    epoch, group_id = group.epoch, group.group_id
    for member_id in group.members:
        deadlines.cancel_timers(machine, group_id, member_id)
    made = _classic(HookedGroup(group_id, now.wall_ms), left, epoch)
    for member in made.members.values():
        version = embedded.version_of(member.metadata(made.protocol_name or ""))
        member.assignment = embedded.encode_assignment(held[member.member_id], version, machine.image)
    assignment = {member.member_id: member.assignment for member in made.members.values()}
    append_removal(machine, step, group, records.group_tombstones(group))
    machine.append(step, [classic_records.group_record(made, assignment)])
    live = machine.groups[group_id]
    assert isinstance(live, ClassicGroup)
    _classic(live, left, epoch)
    live.state_timestamp_ms = now.wall_ms
    for member in live.members.values():
        member.assignment = assignment[member.member_id]
        rebalance.set_session(machine, live, member, now)
    step.then(Downgraded(group_id))
    step.then(Noted(group_id, (GroupConverted(group_id, "consumer", "classic", epoch, len(left)),)))
    if rebalances:
        rebalance.prepare(machine, step, live, now, trigger_of("downgrade"))


def _classic(group: HookedGroup | ClassicGroup, members: list[ConsumerMember], generation: int) -> ClassicGroup:
    """Make the group stable with these members."""
    for member in members:
        assert member.classic is not None
        group.add(
            ClassicMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.classic.session_timeout_ms,
                CONSUMER_PROTOCOL_TYPE,
                member.classic.protocols,
            ),
            None,
        )
    group.generation = generation
    group.state = GroupState.STABLE
    group.protocol_name = group.select_protocol()
    if all(member.classic.protocols[0][0] == group.protocol_name for member in members if member.classic is not None):
        # They need not be read again: there may be 10,000.
        group.subscribed_topics = members[0].topics.union(*(member.topics for member in members[1:]))
    else:
        group.refresh_subscription()
    return group


class Downgraded(NamedTuple):
    """The records that make a classic group of a consumer group."""

    group_id: str

    def written(self, machine: GroupTable, out: GroupStep, now: Now) -> None:
        """Nothing waits for them."""

    def failed(self, machine: GroupTable, out: GroupStep, now: Now, code: ErrorCode) -> None:
        """The consumer group goes on, with a new session of each member."""
        group = machine.groups.get(self.group_id)
        if isinstance(group, ConsumerGroup):
            group.start_deadlines(machine, group.members, now)
