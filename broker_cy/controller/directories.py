"""AssignReplicasToDirs (73): a broker reports which of its log directories holds a replica (KIP-858).

A replica that is reported in a directory that is offline is out of service: the broker leaves the in-sync set and the
leadership of the partition.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from broker_cy.controller.broker_records import check_epoch
from broker_cy.controller.elections import Working
from broker_cy.controller.operation import MetadataStep, Operation, OperationContext
from broker_cy.controller.partition_change import Election
from broker_cy.controller.rules import Rules, has_online_directory
from broker_cy.core.classes import dataclass
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata import features
from broker_cy.metadata.image import BrokerImage, MetadataImage
from broker_cy.metadata.topics import TopicImage
from broker_cy.wire import messages


@dataclass(slots=True)
class AssignReplicasToDirectories(Operation[Any]):
    """`request` is an AssignReplicasToDirsRequest; the reply is the response; every partition succeeds or fails by
    itself. Raises KafkaError: STALE_BROKER_EPOCH, UNSUPPORTED_VERSION before metadata.version 17.
    """

    request: Any

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> Any:
        if state.features.metadata_version < features.MV_DIRECTORIES:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "Directory assignment is not supported yet.")
        broker = check_epoch(state, self.request.broker_id, self.request.broker_epoch)
        working = Working(Rules(state, context.config))
        response = messages.AssignReplicasToDirsResponse
        directories = []
        for directory in self.request.directories:
            topics = []
            for asked in directory.topics:
                topic = state.topics.by_id(asked.topic_id)
                answers = [
                    response.PartitionData(
                        partition_index=part.partition_index,
                        error_code=int(self._assign(working, broker, directory.id, topic, part.partition_index)),
                    )
                    for part in asked.partitions
                ]
                topics.append(response.TopicData(topic_id=asked.topic_id, partitions=answers))
            directories.append(response.DirectoryData(id=directory.id, topics=topics))
        reply = response(directories=directories)
        step.atomic = False
        step.records += working.records
        return reply

    def _assign(
        self, working: Working, broker: BrokerImage, directory: UUID, topic: TopicImage | None, index: int
    ) -> ErrorCode:
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        partition = working.partition(topic, index)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if broker.broker_id not in partition.replicas:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        change = working.change(topic, index)
        change.directories = {broker.broker_id: directory}
        # Not `UNCLEAN`, as in Kafka: the place of a replica is no reason to lose records. That it is lost is one.
        change.election = Election.ONLINE
        after = working.apply(change) or partition
        if not has_online_directory(broker, directory):
            leaving = working.change(topic, index)
            leaving.isr = tuple(r for r in after.isr if r != broker.broker_id)
            working.apply(leaving)
        return ErrorCode.NONE
