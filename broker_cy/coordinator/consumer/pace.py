"""When a member of a consumer group sends its next heartbeat: earlier than usual while a rebalance waits for it.

A member acts on the interval of its newest answer (KIP-848). Kafka 4.3.1 always answers with the interval of the group.
So a partition that another member has just given up stays without a reader for up to one interval. Here, a member that
waits for partitions, or for the assignment of a newer epoch, gets a shorter interval.

It is bounded twice. The interval grows with the age of the rebalance, so a member that waits for a slow one sends few
more heartbeats than usual: about 25 in 40 s, and none after that. It also grows with the size of the group.
"""

from __future__ import annotations

from typing import Final

from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.coordinator.consumer.member import ConsumerMember
from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.member import MemberState
from broker_cy.core.step import Now

PROMPT_MIN_MS: Final = 500
# The part of the age of the rebalance.
AGE_DIVISOR: Final = 8
# At most so many prompt heartbeats of one group in a second. At 5 s, a group of 10,000 members has as many anyway.
PROMPT_PER_S_MAX: Final = 2_000


def heartbeat_interval_ms(machine: GroupTable, group: ConsumerGroup, member: ConsumerMember, now: Now) -> int:
    """The interval until the next heartbeat of the member; that of the group unless the member waits."""
    interval_ms = machine.consumer_config(group.group_id).heartbeat_interval_ms
    began = group.journal.began
    is_waiting = member.state is MemberState.UNRELEASED_PARTITIONS or group.assignment_epoch < group.epoch
    if began is None or not is_waiting:
        return interval_ms
    age_ms = now.mono_ms - began.mono_ms
    spread_ms = len(group.members) * 1_000 // PROMPT_PER_S_MAX
    return min(interval_ms, max(PROMPT_MIN_MS, age_ms // AGE_DIVISOR, spread_ms))
