"""The partitions that a member of a consumer group with very many topics has to give up, and those that it is to get:
looked up in the background. Until the result has come, the member keeps its partitions, in its epoch, as while a large
group is being assigned.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker_cy.coordinator.assignors.spec import Assignment
from broker_cy.coordinator.consumer import records
from broker_cy.coordinator.consumer.group import ConsumerGroup, Difference
from broker_cy.coordinator.consumer.member import AssignedEpochs, ConsumerMember
from broker_cy.coordinator.consumer.reconcile import Gains
from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.topic_values import in_order, kept_of, of_each
from broker_cy.coordinator.step import GroupStep
from broker_cy.core.classes import NamedTuple
from broker_cy.core.step import Now, WorkFailed
from broker_cy.metadata.topics import TopicImage
from broker_cy.wire import codec, messages


class Inputs(NamedTuple):
    """A member's partitions and its target, with the topic of each of its ids, and the names that the member reads. No
    topics are needed if it reads all of the target.
    """

    assigned: AssignedEpochs
    target: Assignment
    topics: Sequence[TopicImage | None] | None
    names: frozenset[str]


def known(group: ConsumerGroup, member: ConsumerMember, target: Assignment) -> Difference | None:
    """The difference between what the member has now and this target, if it was looked up."""
    found = group.differences.get(member.member_id)
    if found is None or found.target is not target:
        return None
    names = group.topics_of(member)
    if found.names is not names and found.names != names:
        return None
    if member.assigned is found.kept:
        return found._replace(gone={})
    return found if member.assigned is found.assigned else None


def begin(
    machine: GroupTable, step: GroupStep, group: ConsumerGroup, member: ConsumerMember, target: Assignment
) -> None:
    """Look up the difference, unless one of the member is being looked up."""
    if member.member_id in group.comparing:
        return
    group.comparing.add(member.member_id)
    names = group.topics_of(member)
    is_read = group.known_read(member.member_id, names) is target
    topics = None if is_read else machine.image.topics.with_ids(target)
    inputs = Inputs(member.assigned, target, topics, names)
    machine.begin_work(step, group, compare, (inputs,), compared, member.member_id)


def compare(inputs: Inputs) -> Difference:
    """Runs in the background."""
    read = inputs.target
    if inputs.topics is not None:
        read = {
            topic_id: partitions
            for (topic_id, partitions), topic in zip(inputs.target.items(), inputs.topics, strict=True)
            if topic is not None and topic.name in inputs.names
        }
    kept, gone = kept_of(inputs.assigned, read)
    left = Gains.of({topic_id: read[topic_id] for topic_id in in_order(read)}, kept)
    return Difference(
        inputs.assigned,
        inputs.target,
        inputs.names,
        kept if gone else inputs.assigned,
        gone,
        left,
        records.encoded_of(kept),
        records.encoded_of(gone),
        structures(kept),
    )


def compared(
    machine: GroupTable,
    step: GroupStep,
    group_id: str,
    number: int,
    member_id: str,
    result: Difference | WorkFailed,
    now: Now,
) -> None:
    """Keep the result for the next heartbeat of the member, which looks whether it is still of use."""
    machine.end_work(number, compared)
    group = machine.groups.get(group_id)
    if isinstance(group, ConsumerGroup) and group.number == number:
        group.comparing.discard(member_id)
        if member_id in group.members and not isinstance(result, WorkFailed):
            group.differences[member_id] = result


def structures(assigned: AssignedEpochs) -> list[messages.ConsumerGroupHeartbeatResponse.TopicPartitions]:
    """The partitions of a member as an answer has them."""
    return codec.structures(
        messages.ConsumerGroupHeartbeatResponse.TopicPartitions, assigned, of_each(assigned.values(), sorted)
    )
