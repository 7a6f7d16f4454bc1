"""The target assignment of a share group: at once, or in the background for a large group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker_cy.coordinator.assignors.share_simple import SHARE_ASSIGNORS
from broker_cy.coordinator.assignors.spec import Assignment
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
from broker_cy.coordinator.share import records
from broker_cy.coordinator.share.group import ShareGroup
from broker_cy.coordinator.share.member import ShareMember
from broker_cy.coordinator.share.state_partitions import Partitions
from broker_cy.coordinator.step import GroupStep
from broker_cy.core.classes import NamedTuple
from broker_cy.core.step import Now
from broker_cy.metadata.topics import TopicImage


class Inputs(NamedTuple):
    """All that the assignment of a group follows from, as values. Of 10,000 topics, the loop takes them as they are in
    the metadata. Only `assignable` partitions are assigned.
    """

    group_id: str
    assignor: str
    members: tuple[ShareMember, ...]
    target: Mapping[str, Assignment]
    topics: Sequence[TopicImage]
    assignable: Partitions
    is_homogeneous: bool


def update_target(machine: GroupTable, step: GroupStep, group: ShareGroup, now: Now) -> None:
    """Assign the initialized partitions for the epoch of the group, unless that is done, under way, or not due yet.
    Raises KafkaError(UNKNOWN_SERVER_ERROR) if the assignor fails at once.
    """
    assigning.update_target(machine, step, group, machine.share_config, begin, now)


def begin(machine: GroupTable, step: GroupStep, group: ShareGroup, topics: Sequence[TopicImage], now: Now) -> None:
    """Assign the initialized partitions of these topics. Raises as `update_target`."""
    inputs = Inputs(
        group.group_id,
        machine.settings.share.assignors[0],
        tuple(group.members.values()),
        dict(group.target),
        topics,
        group.assignable,
        group.has_equal_names,
    )
    size = sum(group.by_name.values()) + sum(map(len, inputs.assignable.values()))
    is_large = size > machine.settings.share.assigned_at_once_max
    assign(machine, step, group, compute, inputs, records.target_epoch_record, now, is_large=is_large)


def compute(inputs: Inputs) -> list[Changed]:
    """Run the assignor. For a large group, this runs in the background. Raises KafkaError(UNKNOWN_SERVER_ERROR)."""
    subscribers = [Subscriber(member.member_id, None, member.rack_id, member.topics) for member in inputs.members]
    spec = spec_of(subscribers, inputs.target, known_topics(inputs.topics), is_homogeneous=inputs.is_homogeneous)
    share_out = SHARE_ASSIGNORS[inputs.assignor]

    read = {each.member_id: each.topics for each in subscribers}

    def changed(member_id: str, target: Assignment) -> Changed:
        record = records.target_record(inputs.group_id, member_id, target)
        return Changed(member_id, record, as_recorded(target), read[member_id])

    return target_records(lambda spec: share_out(spec, inputs.assignable), spec, inputs.target, changed)
