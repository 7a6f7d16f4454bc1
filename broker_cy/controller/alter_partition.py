"""AlterPartition (56): a leader proposes an in-sync set (KIP-497, KIP-841, KIP-903).

A proposal is based on a leader epoch and a partition epoch, and holds only if both are those of the controller: a
change that the leader did not know, such as a fenced broker, may make its set wrong. A member must be in service and
have the broker epoch that the leader saw in its fetches. So a broker that was restarted without its records is not
taken for the one that had them.

The leader of a mirror may ask for a higher leader epoch with its set (mirror_ops.TAG).
"""

from __future__ import annotations

from typing import Any

from broker_cy.controller import mirror_ops
from broker_cy.controller.broker_records import check_epoch
from broker_cy.controller.elections import Working
from broker_cy.controller.operation import MetadataStep, Operation, OperationContext
from broker_cy.controller.partition_change import RECOVERED, RECOVERING
from broker_cy.controller.rules import Rules
from broker_cy.core.classes import dataclass
from broker_cy.core.errors import ErrorCode
from broker_cy.core.mirror_settings import is_mirror
from broker_cy.metadata.image import MetadataImage, PartitionImage
from broker_cy.metadata.topics import TopicImage
from broker_cy.wire import messages

WITH_EPOCHS_SINCE = 3
ANY_EPOCH = -1
"""Instead of the broker epoch of a member: not known, as before KIP-903."""


@dataclass(slots=True)
class AlterPartition(Operation[Any]):
    """`request` is an AlterPartitionRequest of `version` (2 or 3); the reply is an AlterPartitionResponse. Every
    partition succeeds or fails by itself. Raises KafkaError(STALE_BROKER_EPOCH).
    """

    request: Any
    version: int

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> Any:
        check_epoch(state, self.request.broker_id, self.request.broker_epoch)
        working = Working(Rules(state, context.config))
        topics = []
        for asked in self.request.topics:
            topic = state.topics.by_id(asked.topic_id)
            answers = [
                _refusal(part.partition_index, ErrorCode.UNKNOWN_TOPIC_ID)
                if topic is None
                else self._alter(working, topic, part)
                for part in asked.partitions
            ]
            topics.append(messages.AlterPartitionResponse.TopicData(topic_id=asked.topic_id, partitions=answers))
        step.atomic = False
        step.records += working.records
        return messages.AlterPartitionResponse(topics=topics)

    def _alter(self, working: Working, topic: TopicImage, asked: Any) -> Any:
        index = asked.partition_index
        partition = working.partition(topic, index)
        if partition is None:
            return _refusal(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        members = self._members(asked)
        error = self._stale(partition, asked) or self._invalid(partition, asked, tuple(members))
        if error is None and not _eligible(working.rules.state, members):
            error = ErrorCode.INELIGIBLE_REPLICA
        if error is not None:
            return _refusal(index, error)
        change = working.change(topic, index)
        change.isr = tuple(members)
        change.recovery = asked.leader_recovery_state
        after = working.apply(change) or partition
        needed = mirror_ops.read_tag(asked._unknown_tags)
        if after.leader_epoch < needed <= mirror_ops.EPOCH_MAX and is_mirror(
            working.rules.state.configs.topic(topic.name)
        ):
            after = working.raise_epoch(topic, index, after, needed)
        if after.leader != self.request.broker_id:
            # The set ended a reassignment that removes this leader: it has to learn of its successor first.
            return _refusal(index, ErrorCode.NEW_LEADER_ELECTED)
        return messages.AlterPartitionResponse.PartitionData(
            partition_index=index,
            leader_id=after.leader,
            leader_epoch=after.leader_epoch,
            isr=list(after.isr),
            leader_recovery_state=after.leader_recovery_state,
            partition_epoch=after.partition_epoch,
        )

    def _members(self, asked: Any) -> dict[int, int]:
        """The proposed members, with their broker epochs. A member that occurs twice makes the set invalid."""
        if self.version < WITH_EPOCHS_SINCE:
            found = [(broker_id, ANY_EPOCH) for broker_id in asked.new_isr]
        else:
            found = [(member.broker_id, member.broker_epoch) for member in asked.new_isr_with_epochs]
        members = dict(found)
        return members if len(members) == len(found) else {}

    def _stale(self, partition: PartitionImage, asked: Any) -> ErrorCode | None:
        """The error of a proposal that is not based on the newest state."""
        if asked.leader_epoch > partition.leader_epoch or asked.partition_epoch > partition.partition_epoch:
            # The leader knows of a later controller.
            return ErrorCode.NOT_CONTROLLER
        if asked.leader_epoch < partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if self.request.broker_id != partition.leader:
            return ErrorCode.INVALID_REQUEST
        if asked.partition_epoch < partition.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        return None

    def _invalid(self, partition: PartitionImage, asked: Any, isr: tuple[int, ...]) -> ErrorCode | None:
        recovery = asked.leader_recovery_state
        recovers = recovery == RECOVERING
        if (
            not isr
            or not set(isr) <= set(partition.replicas)
            or partition.leader not in isr
            or recovery not in (RECOVERED, RECOVERING)
            or (recovers and len(isr) > 1)
            or (recovers and partition.leader_recovery_state == RECOVERED)
        ):
            return ErrorCode.INVALID_REQUEST
        return None


def _refusal(index: int, error: ErrorCode) -> Any:
    return messages.AlterPartitionResponse.PartitionData(partition_index=index, error_code=int(error))


def _eligible(state: MetadataImage, members: dict[int, int]) -> bool:
    """Whether every member is in service (KAFKA-13916), with the broker epoch that the leader saw (KIP-903)."""
    for broker_id, epoch in members.items():
        broker = state.brokers.get(broker_id)
        if broker is None or not broker.is_active or epoch not in (ANY_EPOCH, broker.epoch):
            return False
    return True
