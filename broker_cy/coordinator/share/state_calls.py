"""The requests of share groups to the share coordinator, and what follows in any case: a request is not made if the
records before it cannot be written, and its result counts only for the group that has made it.

While a request about a topic is under way, no other one is made about the topic: the share coordinator might handle
them in another order. (In Kafka, a repeated initialization may come after members have begun to consume, and a deletion
after an initialization.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from uuid import UUID

from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.share import records
from broker_cy.coordinator.share.group import ShareGroup, SharePartitionsBefore
from broker_cy.coordinator.share.state_partitions import Partitions, SharePartitions, by_topic, common, without
from broker_cy.coordinator.share_state.answers import Outcome
from broker_cy.coordinator.share_state.state import SharePartitionKey
from broker_cy.coordinator.step import CallFailed, GroupStep, Record
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.step import Now


class InitializeState(NamedTuple):
    """Give share partitions their state, with a start offset for each partition (-1: where a member begins depends on
    the settings of the group). With `keeps`, those that have state already keep it: the answer to an earlier request
    may be lost, and members may have consumed since.
    """

    group_id: str
    state_epoch: int
    start_offsets: Mapping[UUID, Mapping[int, int]]
    keeps: bool = False


class DeleteState(NamedTuple):
    """Delete the state of share partitions, by group id."""

    groups: Mapping[str, Partitions]


Outcomes = Mapping[SharePartitionKey, Outcome]
"""The answer about each share partition of a request."""


class Asked(NamedTuple):
    """The part of a group that a request is about. `number` is that of the group."""

    group_id: str
    number: int
    partitions: Partitions

    def group(self, machine: GroupTable) -> ShareGroup | None:
        """The group, unless it was deleted meanwhile."""
        group = machine.groups.get(self.group_id)
        return group if isinstance(group, ShareGroup) and group.number == self.number else None

    def ended(self, machine: GroupTable) -> ShareGroup | None:
        """The request has its result. Returns the group as `group` does."""
        group = self.group(machine)
        if group is not None:
            group.call_ends(self.partitions)
        return group

    # ---- the records before the request ----

    def written(self, machine: GroupTable, out: GroupStep, now: Now) -> None:
        """The request is made now."""

    def failed(self, machine: GroupTable, out: GroupStep, now: Now, code: ErrorCode) -> None:
        """The request is not made."""
        self.ended(machine)


def begin_call(step: GroupStep, group: ShareGroup, partitions: Partitions) -> Asked:
    """A request of this step is about these partitions."""
    group.call_begins(partitions)
    asked = Asked(group.group_id, group.number, partitions)
    step.then(asked)
    return asked


def check_calls(group: ShareGroup, topic_ids: Iterable[UUID]) -> None:
    """Raises KafkaError(COORDINATOR_LOAD_IN_PROGRESS), after which clients repeat their request, while a request about
    one of the topics is under way.
    """
    if any(topic_id in group.under_way for topic_id in topic_ids):
        raise KafkaError(
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            f"the state of share partitions of the group {group.group_id} is being changed",
        )


def put_share_partitions(machine: GroupTable, step: GroupStep, group: ShareGroup, new: SharePartitions) -> ShareGroup:
    """Write the share partitions of a group, if they have changed. Returns the group, which the record may create."""
    if new == group.share_partitions:
        return group
    record = records.share_partitions_record(group.group_id, new)
    if machine.groups.get(group.group_id) is group:
        append_share_partitions(machine, step, group, new, record)
        return group
    machine.append(step, [record])
    found = machine.groups[group.group_id]
    assert isinstance(found, ShareGroup)
    return found


def append_share_partitions(
    machine: GroupTable, step: GroupStep, group: ShareGroup, new: SharePartitions, record: Record
) -> None:
    """Append the record of share partitions, which is not read again: there may be 10,000 topics."""
    step.records.append(record)
    step.before.append(SharePartitionsBefore(group.group_id, group.share_partitions))
    machine.next_offset += 1
    group.put_share_partitions(new)


# ---- results ----


def done_of(group_id: str, result: Outcomes | CallFailed) -> Partitions:
    """The partitions of the group about which the share coordinator has done what it was asked for."""
    if isinstance(result, CallFailed):
        return {}
    return by_topic(
        (key.topic_id, key.partition)
        for key, outcome in result.items()
        if key.group_id == group_id and outcome.code is ErrorCode.NONE
    )


def fenced_of(state: SharePartitions, partitions: Partitions, result: Outcomes | CallFailed) -> Partitions:
    """The partitions that have state of a later epoch, and are not initialized: an earlier group of this id has left it
    behind. (The answer to its initialization was lost, or its deletion came too early.)
    """
    if isinstance(result, CallFailed):
        return {}
    fenced = by_topic(
        (key.topic_id, key.partition) for key, outcome in result.items() if outcome.code is ErrorCode.FENCED_STATE_EPOCH
    )
    return without(common(partitions, fenced), state.initialized)


def delete_fenced(step: GroupStep, group: ShareGroup, fenced: Partitions) -> None:
    """Delete state of an earlier group; the next heartbeat requests state of this one. In Kafka, members
    never get the partition. The records of the step prove that this coordinator is the newest.
    """
    if fenced:
        asked = begin_call(step, group, fenced)
        step.call_when_written(DeleteState({group.group_id: fenced}), fenced_deleted, asked)


def fenced_deleted(machine: GroupTable, step: GroupStep, asked: Asked, result: Outcomes | CallFailed, now: Now) -> None:
    """The next heartbeat finds out whether the state is gone."""
    asked.ended(machine)


def failed_topics(group_id: str, partitions: Partitions, result: Outcomes | CallFailed) -> dict[UUID, ErrorCode]:
    """The topics with a partition that failed, each with the code of the first one."""
    found: dict[UUID, ErrorCode] = {}
    for topic_id in partitions:
        for partition in sorted(partitions[topic_id]):
            code = outcome_of(SharePartitionKey(group_id, topic_id, partition), result).code
            if code is not ErrorCode.NONE:
                found.setdefault(topic_id, code)
    return found


def outcome_of(key: SharePartitionKey, result: Outcomes | CallFailed) -> Outcome:
    if isinstance(result, CallFailed):
        return Outcome(result.code, result.reason)
    return result.get(key) or Outcome(ErrorCode.UNKNOWN_SERVER_ERROR)


def existing(machine: GroupTable, topic_ids: Collection[UUID]) -> Partitions:
    """All partitions of those of the topics that exist."""
    found = (machine.image.topics.by_id(topic_id) for topic_id in topic_ids)
    return {topic.topic_id: frozenset(topic.partitions) for topic in found if topic is not None and topic.partitions}
