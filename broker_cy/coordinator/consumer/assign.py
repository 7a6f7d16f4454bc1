"""The target assignment of a consumer group: at once, or in the background for a large group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker_cy.coordinator.assignors.consumer_assignors import CONSUMER_ASSIGNORS
from broker_cy.coordinator.assignors.spec import Assignment
from broker_cy.coordinator.consumer import records
from broker_cy.coordinator.consumer.group import ConsumerGroup, ResolvedRegex, topics_read
from broker_cy.coordinator.consumer.member import ConsumerMember
from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern import assigning
from broker_cy.coordinator.modern.assigning import Changed, assign
from broker_cy.coordinator.modern.records import as_recorded
from broker_cy.coordinator.modern.target import (
    Subscriber,
    known_topics,
    spec_of,
    target_records,
)
from broker_cy.coordinator.step import GroupStep
from broker_cy.core.classes import NamedTuple
from broker_cy.core.step import Now
from broker_cy.metadata.topics import TopicImage


class Inputs(NamedTuple):
    """All that the assignment of a group follows from, as values. Of 10,000 topics, the loop takes them as they are in
    the metadata.
    """

    group_id: str
    assignor: str
    members: tuple[ConsumerMember, ...]
    resolved: Mapping[str, ResolvedRegex]
    target: Mapping[str, Assignment]
    topics: Sequence[TopicImage]
    is_homogeneous: bool


def update_target(machine: GroupTable, step: GroupStep, group: ConsumerGroup, now: Now) -> None:
    """Assign the partitions for the epoch of the group, unless that is done, under way, or not due yet. Raises
    KafkaError(UNKNOWN_SERVER_ERROR) if the assignor fails at once.
    """
    assigning.update_target(machine, step, group, machine.consumer_config, begin, now)


def begin(machine: GroupTable, step: GroupStep, group: ConsumerGroup, topics: Sequence[TopicImage], now: Now) -> None:
    """Assign the partitions of these topics. Raises as `update_target`."""
    inputs = Inputs(
        group.group_id,
        group.preferred_assignor(machine.settings.consumer.assignors[0]),
        tuple(group.members.values()),
        dict(group.resolved),
        dict(group.target),
        topics,
        group.is_homogeneous,
    )
    at_once_max = machine.settings.consumer.assigned_at_once_max
    size = group.subscription_count
    is_large = size > at_once_max or size + sum(len(topic.partitions) for topic in topics) > at_once_max
    assign(machine, step, group, compute, inputs, records.target_epoch_record, now, is_large=is_large)


def compute(inputs: Inputs) -> list[Changed]:
    """Run the assignor. For a large group, this runs in the background. Raises KafkaError(UNKNOWN_SERVER_ERROR)."""
    subscribers = [
        Subscriber(member.member_id, member.instance_id, member.rack_id, topics_read(member, inputs.resolved))
        for member in inputs.members
    ]
    spec = spec_of(subscribers, inputs.target, known_topics(inputs.topics), is_homogeneous=inputs.is_homogeneous)

    read = {each.member_id: each.topics for each in subscribers}

    def changed(member_id: str, target: Assignment) -> Changed:
        record = records.target_record(inputs.group_id, member_id, target)
        return Changed(member_id, record, as_recorded(target), read[member_id])

    return target_records(CONSUMER_ASSIGNORS[inputs.assignor], spec, inputs.target, changed)
