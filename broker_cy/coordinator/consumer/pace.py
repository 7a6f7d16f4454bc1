"""When a member of a consumer group sends its next heartbeat: earlier than usual while a rebalance waits for it.

A member acts on the interval of its newest answer (KIP-848). Kafka 4.3.1 always answers with the interval of the group.
So a partition that another member has just given up stays without a reader for up to one interval. Here, a member that
waits for partitions, or for the assignment of a newer epoch, gets a shorter interval.

It is bounded twice. The interval grows with the age of the rebalance, so a member that waits for a slow one sends few
more heartbeats than usual: about 25 in 40 s, and none after that. It also grows with the size of the group.

A member that waits for partitions also asks just after the moment at which they should become free. The last of their
holders learns that it has to give them up with its next heartbeat, whose time is known. If they are not free by then,
the wait doubles each time, until the interval above is shorter: at most eight more heartbeats.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from broker_cy.coordinator.consumer import deadlines
from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.coordinator.consumer.member import ConsumerMember
from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.member import MemberState
from broker_cy.coordinator.modern.pace import prompt_ms
from broker_cy.core.step import Now

# From the heartbeat of a holder to that of the member that waits: so long a client takes to give a partition up.
RELEASE_MIN_MS: Final = 25
# The same for many members that wait for one moment: at most so many of their heartbeats in a second.
RELEASES_PER_S_MAX: Final = 4_000
# A member that waits for more partitions looks at the holders of the first ones.
HOLDERS_MAX: Final = 100


def next_heartbeat_ms(machine: GroupTable, group: ConsumerGroup, member: ConsumerMember, now: Now) -> int:
    """The interval until the next heartbeat of the member; that of the group unless the member waits. Those that wait
    for it learn when that is.
    """
    usual_ms = machine.consumer_config(group.group_id).heartbeat_interval_ms
    found = min(usual_ms, _prompt_ms(machine, group, member, usual_ms, now))
    if found < usual_ms:
        group.prompted[member.member_id] = now.mono_ms + found
    else:
        group.prompted.pop(member.member_id, None)
    return found


def _prompt_ms(machine: GroupTable, group: ConsumerGroup, member: ConsumerMember, usual_ms: int, now: Now) -> int:
    is_unreleased = member.state is MemberState.UNRELEASED_PARTITIONS
    found = prompt_ms(group, now)
    is_compared = member.member_id in group.comparing
    if found is None or not (is_unreleased or is_compared or group.assignment_epoch < group.epoch):
        return usual_ms
    if not is_unreleased:
        return found
    told_ms = max((_told_ms(machine, group, each, usual_ms) for each in _holders(group, member)), default=None)
    if told_ms is None:
        return found
    least_ms = max(RELEASE_MIN_MS, group.unreleased * 1_000 // RELEASES_PER_S_MAX)
    left_ms = told_ms - now.mono_ms
    return min(found, left_ms + least_ms if left_ms >= 0 else max(least_ms, -left_ms))


def _holders(group: ConsumerGroup, member: ConsumerMember) -> Iterator[ConsumerMember]:
    """The members that hold partitions which this one waits for. A member of the classic protocol decides itself when
    it sends heartbeats.
    """
    target = group.target_of(member.member_id)
    known = group.pages.get(member.member_id)
    # It has most of 10,000 topics already.
    wanted = target.items() if known is None or known.assigned is not member.assigned else known.left.items()
    missing = (
        (topic_id, partition)
        for topic_id, partitions in wanted
        for partition in partitions
        if partition not in member.assigned.get(topic_id, ())
    )
    for topic_id, partition in islice(missing, HOLDERS_MAX):
        holder = group.holder(topic_id, partition)
        if holder is not None and holder.classic is None:
            yield holder


def _told_ms(machine: GroupTable, group: ConsumerGroup, holder: ConsumerMember, usual_ms: int) -> int:
    """When a holder learns, or has learned, that it has to give partitions up (monotonic)."""
    if holder.state is MemberState.UNREVOKED_PARTITIONS:
        until_ms = machine.timers.get(deadlines.rebalance_key(group.group_id, holder))
        return 0 if until_ms is None else until_ms - holder.rebalance_timeout_ms
    session_ms = machine.timers.get(deadlines.session_key(group, holder))
    heard_ms = (session_ms or 0) - machine.consumer_config(group.group_id).session_timeout_ms
    prompted_ms = group.prompted.get(holder.member_id, 0)
    return prompted_ms if prompted_ms > heard_ms else heard_ms + usual_ms
