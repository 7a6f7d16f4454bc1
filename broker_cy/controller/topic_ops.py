"""DeleteTopics and CreatePartitions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from broker_cy.controller import placement
from broker_cy.controller.operation import RECORDS_PER_STEP_MAX, Charge, MetadataStep, Operation, OperationContext
from broker_cy.core import uuid as uuids
from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.image import MetadataImage
from broker_cy.metadata.records import VersionedRecord
from broker_cy.wire import messages

UNKNOWN_TOPIC = "This server does not host this topic-partition."
UNKNOWN_TOPIC_ID = "This server does not host this topic ID."


class TopicChoice(NamedTuple):
    """A topic as a request names it: by name or by id; with both or neither, the request is invalid."""

    name: str | None
    topic_id: UUID


@dataclass(slots=True)
class DeleteTopics(Operation[list[Any]]):
    """Delete topics. The reply is a list of DeletableTopicResult, one for each distinct name or id, and one for each
    topic with neither; failures come first.
    """

    topics: list[TopicChoice]
    charge: Charge | None = None

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> list[Any]:
        counts: dict[TopicChoice, int] = {}
        for choice in self.topics:
            counts[choice] = counts.get(choice, 0) + 1
        results: list[Any] = []
        chosen: dict[UUID, str] = {}
        # Ids come first, so that the error is reported for the name if a name and an id refer to the same topic.
        for choice, count in sorted(counts.items(), key=lambda item: item[0].name is not None):
            try:
                topic_id, name = _find(state, choice, count)
            except KafkaError as error:
                nameless = choice == TopicChoice(None, uuids.ZERO)
                results += [_deleted(choice.name, choice.topic_id, error)] * (count if nameless else 1)
                continue
            if topic_id in chosen:
                # As in Kafka, the topic is then not deleted at all.
                del chosen[topic_id]
                message = "The provided topic name maps to an ID that was already supplied."
                results.append(_deleted(name, topic_id, KafkaError(ErrorCode.INVALID_REQUEST, message)))
                continue
            chosen[topic_id] = name
        if len(chosen) > RECORDS_PER_STEP_MAX:
            too_many = KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
            results += [_deleted(name, topic_id, too_many) for topic_id, name in chosen.items()]
            return results
        records = []
        for topic_id, name in chosen.items():
            refused = self._refused(state, topic_id)
            if refused is not None:
                results.append(_deleted(name, topic_id, refused))
                continue
            records.append(VersionedRecord(messages.RemoveTopicRecord(topic_id=topic_id)))
            results.append(_deleted(name, topic_id, None))
        step.records += records
        return results

    def _refused(self, state: MetadataImage, topic_id: UUID) -> KafkaError | None:
        """The error if a quota of the client does not let it delete the topic."""
        topic = state.topics.by_id(topic_id)
        if self.charge is None or topic is None:
            return None
        try:
            self.charge(len(topic.partitions))
        except KafkaError as error:
            return error
        return None


def _find(state: MetadataImage, choice: TopicChoice, count: int) -> tuple[UUID, str]:
    """The id and name of the chosen topic; raises KafkaError."""
    invalid = ErrorCode.INVALID_REQUEST
    if choice.name is None:
        if choice.topic_id == uuids.ZERO:
            raise KafkaError(invalid, "Neither topic name nor id were specified.")
        if count > 1:
            raise KafkaError(invalid, "Duplicate topic id.")
        topic = state.topics.by_id(choice.topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_ID)
        return topic.topic_id, topic.name
    if choice.topic_id != uuids.ZERO:
        raise KafkaError(invalid, "You may not specify both topic name and topic id.")
    if count > 1:
        raise KafkaError(invalid, "Duplicate topic name.")
    topic = state.topics.by_name(choice.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC)
    return topic.topic_id, topic.name


def _deleted(name: str | None, topic_id: UUID, error: KafkaError | None) -> Any:
    return messages.DeleteTopicsResponse.DeletableTopicResult(
        name=name,
        topic_id=topic_id,
        error_code=int(error.code) if error else 0,
        error_message=(error.message or None) if error else None,
    )


@dataclass(slots=True)
class CreatePartitions(Operation[list[Any]]):
    """Add partitions. `topics` has the CreatePartitionsTopic structures of the request; the reply is a list of
    CreatePartitionsTopicResult.
    """

    topics: list[Any]
    validate_only: bool
    charge: Charge | None = None

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> list[Any]:
        counts: dict[str, int] = {}
        for topic in self.topics:
            counts[topic.name] = counts.get(topic.name, 0) + 1
        duplicate = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        results = [_grown(name, duplicate) for name, count in counts.items() if count > 1]
        records: list[VersionedRecord] = []
        for topic in self.topics:
            if counts[topic.name] > 1:
                continue
            try:
                records += _grow(state, context, topic, RECORDS_PER_STEP_MAX - len(records), self.charge)
                results.append(_grown(topic.name, None))
            except KafkaError as error:
                results.append(_grown(topic.name, error))
        if not self.validate_only:
            step.records += records
        return results


def _grown(name: str, error: KafkaError | None) -> Any:
    return messages.CreatePartitionsResponse.CreatePartitionsTopicResult(
        name=name,
        error_code=int(error.code) if error else 0,
        error_message=(error.message or None) if error else None,
    )


def _grow(
    state: MetadataImage, context: OperationContext, topic: Any, records_max: int, charge: Charge | None
) -> list[VersionedRecord]:
    """Records for the partitions to be added; raises KafkaError."""
    found = state.topics.by_name(topic.name)
    if found is None:
        # Kafka sends no message here; clients show their own text for the error code.
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    have = len(found.partitions)
    if topic.count == have:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {have} partition(s).")
    if topic.count < have:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {have} partition(s); {topic.count} would not be an increase.",
        )
    additional = topic.count - have
    if topic.assignments is not None and len(topic.assignments) != additional:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only {len(topic.assignments)} "
            "assignment(s) were specified.",
        )
    if additional > records_max:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"Unable to perform excessively large batch operation: this topic needs {additional} more partition(s), "
            f"and one request can add at most {RECORDS_PER_STEP_MAX} to all of its topics.",
        )
    if charge is not None:
        charge(additional)
    factor = len(found.partitions[0].replicas)
    if topic.assignments is None:
        placed = placement.place(list(state.brokers.values()), additional, factor, context.now_ms + have)
    else:
        placed = []
        for assignment in topic.assignments:
            placement.check_manual(state, assignment.broker_ids, factor)
            placed.append(tuple(assignment.broker_ids))
    records = []
    for index, replicas in enumerate(placed, have):
        isr = placement.in_sync_at_birth(state, replicas)
        if not isr and topic.assignments is not None:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"All brokers specified in the manual partition assignment for partition {index} "
                "are fenced or in controlled shutdown.",
            )
        if not isr:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {factor} time(s): All brokers are currently fenced or in "
                "controlled shutdown.",
            )
        records.append(placement.new_partition(state, found.topic_id, index, replicas, isr))
    return records
