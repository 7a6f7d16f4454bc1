"""AlterPartitionReassignments (45) and ListPartitionReassignments (46): other replicas for a partition (KIP-455).

During a reassignment, the replicas are the target followed by those to remove. The reassignment ends in the change that
brings the last replica of the target into the in-sync set (`PartitionChange`). Cancelling restores the earlier
replicas.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from broker_cy.controller import placement
from broker_cy.controller.elections import Working
from broker_cy.controller.operation import MetadataStep, Operation, OperationContext
from broker_cy.controller.partition_change import Election, PartitionChange
from broker_cy.controller.rules import Rules
from broker_cy.core.classes import dataclass
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.image import MetadataImage, PartitionImage
from broker_cy.metadata.partition_index import is_reassigning
from broker_cy.metadata.topics import TopicImage
from broker_cy.wire import messages


@dataclass(slots=True)
class AlterReassignments(Operation[Any]):
    """`request` is an AlterPartitionReassignmentsRequest; `replicas` None cancels. The reply is the response; every
    partition succeeds or fails by itself.
    """

    request: Any

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> Any:
        working = Working(Rules(state, context.config))
        response = messages.AlterPartitionReassignmentsResponse
        topics = []
        for topic in self.request.topics:
            answers = []
            for asked in topic.partitions:
                code, message = ErrorCode.NONE, None
                try:
                    self._alter(working, topic.name, asked)
                except KafkaError as error:
                    code, message = error.code, error.message or None
                answers.append(
                    response.ReassignablePartitionResponse(
                        partition_index=asked.partition_index, error_code=int(code), error_message=message
                    )
                )
            topics.append(response.ReassignableTopicResponse(name=topic.name, partitions=answers))
        reply = response(
            allow_replication_factor_change=self.request.allow_replication_factor_change,
            error_message=None,
            responses=topics,
        )
        step.records += working.records
        return reply

    def _alter(self, working: Working, name: str, asked: Any) -> None:
        """Raises KafkaError."""
        topic = working.rules.state.topics.by_name(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
        partition = working.partition(topic, asked.partition_index)
        if partition is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{asked.partition_index}."
            )
        change = working.change(topic, asked.partition_index)
        if asked.replicas is None:
            _cancel(change)
        else:
            placement.check_manual(working.rules.state, asked.replicas, None)
            if not self.request.allow_replication_factor_change:
                _check_factor(partition, asked.replicas)
            # Not `UNCLEAN`, as in Kafka: moving replicas is no reason to lose records.
            change.election = Election.ONLINE
            _retarget(change, asked.replicas)
        working.apply(change)


def _retarget(change: PartitionChange, target: list[int]) -> None:
    """Begin the reassignment to `target`, or replace the current one.

    Replicas that an earlier reassignment was adding, and that are in the target or leave again, stay marked as added,
    so that cancelling restores the replicas before both reassignments (Kafka restores those before the second one).
    """
    old = change.partition
    original = set(old.replicas) - set(old.adding_replicas)
    removing = tuple(sorted(set(old.replicas) - set(target)))
    change.replicas = (*target, *removing)
    change.removing, change.adding = removing, tuple(sorted(set(change.replicas) - original))


def _cancel(change: PartitionChange) -> None:
    """Raises KafkaError(NO_REASSIGNMENT_IN_PROGRESS), and INVALID_REPLICA_ASSIGNMENT if that would lose records."""
    old = change.partition
    if not is_reassigning(old):
        # Kafka sends no message here; clients show their own text for the error code.
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    change.replicas = tuple(r for r in old.replicas if r not in old.adding_replicas)
    change.isr = tuple(r for r in old.isr if r not in old.adding_replicas)
    change.removing, change.adding = (), ()
    if change.isr:
        return
    if not change.replicas:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Invalid replica assignment: addingReplicas contains all replicas."
        )
    if change.election is not Election.UNCLEAN:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {change.topic.name}:{change.index} because it would require "
            "an unclean leader election.",
        )
    change.isr = change.replicas[:1]


def _check_factor(partition: PartitionImage, target: list[int]) -> None:
    """Raises KafkaError(INVALID_REPLICATION_FACTOR) if the target has another replication factor than the partition has
    without the replicas that leave (KIP-860).
    """
    before = len(partition.replicas) - len(partition.removing_replicas)
    if len(target) != before:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {before} to {len(target)}",
        )


def list_reassignments(
    image: MetadataImage, asked: Iterable[Any] | None
) -> messages.ListPartitionReassignmentsResponse:
    """The reassignments of the committed state, as a ListPartitionReassignmentsResponse. `asked` has the topics of the
    request; None: all. O(partitions that are being reassigned, or asked for).
    """
    found: dict[str, list[Any]] = {}
    if asked is None:
        for topic, index, partition in image.topics.reassigning():
            found.setdefault(topic.name, []).append(_ongoing(index, partition))
    else:
        for wanted in asked:
            known: TopicImage | None = image.topics.by_name(wanted.name)
            for index in wanted.partition_indexes if known else ():
                partition_or_none = known.partitions.get(index) if known else None
                if partition_or_none is not None and is_reassigning(partition_or_none):
                    found.setdefault(wanted.name, []).append(_ongoing(index, partition_or_none))
    response = messages.ListPartitionReassignmentsResponse
    topics = [response.OngoingTopicReassignment(name=name, partitions=parts) for name, parts in found.items()]
    return response(error_message=None, topics=topics)


def _ongoing(index: int, partition: PartitionImage) -> Any:
    ongoing = messages.ListPartitionReassignmentsResponse.OngoingPartitionReassignment
    return ongoing(
        partition_index=index,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding_replicas),
        removing_replicas=list(partition.removing_replicas),
    )
