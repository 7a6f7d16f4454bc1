"""A controller with several brokers: shorthands for the requests of brokers and operators."""

from __future__ import annotations

from typing import Any

from broker_cy.controller.alter_partition import AlterPartition
from broker_cy.controller.broker_states import Withdrawal
from broker_cy.controller.create_topics import CreateTopics
from broker_cy.controller.elections import PREFERRED, ElectLeaders
from broker_cy.controller.reassignment import AlterReassignments
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata import features
from broker_cy.metadata.image import RESOURCE_TOPIC, MetadataImage, PartitionImage
from broker_cy.metadata.records import VersionedRecord
from broker_cy.wire import messages
from tests.broker_cy.controller.cluster import CLUSTER_ID, Cluster, R, Records, directory
from tests.support.images import topic_in


class Brokers(Cluster):
    """`register` registers a broker, and `join` puts it in service. `partition(topic)` is the committed state of
    partition 0 of the topic.
    """

    @classmethod
    def of(cls, *ids: int, elr: bool = True, settings: dict[str, str] | None = None) -> Brokers:
        """A cluster in which the brokers `ids` are in service."""
        cluster = cls(settings)
        levels = {features.METADATA_VERSION: features.MV_LATEST, features.ELIGIBLE_LEADER_REPLICAS: int(elr)}
        cluster.run(
            Records(
                *(
                    VersionedRecord(messages.FeatureLevelRecord(name=name, feature_level=level))
                    for name, level in levels.items()
                )
            )
        )
        for broker_id in ids:
            cluster.join(broker_id)
        return cluster

    def withdraw(self, step: Withdrawal | None) -> list[int]:
        """Run the step and those that follow. Returns how many records each of them had."""
        counts = []
        while step is not None:
            before = self.next_offset
            step = self.run(step)
            counts.append(self.next_offset - before)
        return counts

    def create(
        self, name: str, *assignments: list[int], min_isr: int = 1, unclean: bool = False, check: bool = True
    ) -> Any:
        """Create a topic whose partitions have these replicas."""
        request = messages.CreateTopicsRequest
        topic = request.CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                request.CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
                for index, replicas in enumerate(assignments)
            ],
            configs=[
                request.CreatableTopicConfig(name="min.insync.replicas", value=str(min_isr)),
                request.CreatableTopicConfig(name="unclean.leader.election.enable", value=str(unclean).lower()),
            ],
        )
        (result,) = self.run(CreateTopics(request(topics=[topic]))).topics
        if check:
            assert result.error_code == 0, result
        return result

    def records(self, *found: Any) -> Records:
        """An operation that writes these messages, in version 0."""
        return Records(*(VersionedRecord(message) for message in found))

    def configure(self, topic: str, name: str, value: str | None) -> None:
        record = messages.ConfigRecord(resource_type=RESOURCE_TOPIC, resource_name=topic, name=name, value=value)
        self.run(Records(VersionedRecord(record)))

    def partition(self, topic: str, index: int = 0) -> PartitionImage:
        return topic_in(self.image, topic).partitions[index]

    def proposal(self, topic: str, isr: list[int], index: int = 0, **fields: Any) -> AlterPartition:
        """Return the in-sync set that the leader of a partition proposes, based on the committed image."""
        partition = self.partition(topic, index)
        request = messages.AlterPartitionRequest
        data = request.PartitionData(
            partition_index=index,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            leader_recovery_state=0,
            new_isr_with_epochs=[
                request.BrokerState(
                    broker_id=b, broker_epoch=known.epoch if (known := self.image.brokers.get(b)) else 0
                )
                for b in isr
            ],
        )
        leader = fields.pop("broker_id", partition.leader)
        epoch = fields.pop("broker_epoch", self.image.brokers[leader].epoch)
        for name, value in fields.items():
            setattr(data, name, value)
        topic_id = topic_in(self.image, topic).topic_id
        whole = request(
            broker_id=leader,
            broker_epoch=epoch,
            topics=[request.TopicData(topic_id=topic_id, partitions=[data])],
        )
        return AlterPartition(whole, 3)

    def propose(self, topic: str, isr: list[int], index: int = 0, **fields: Any) -> ErrorCode:
        response = self.run(self.proposal(topic, isr, index, **fields))
        return ErrorCode(response.topics[0].partitions[0].error_code)

    def elect(self, topic: str, kind: int = PREFERRED, index: int = 0) -> ErrorCode:
        request = messages.ElectLeadersRequest
        asked = request(election_type=kind, topic_partitions=[request.TopicPartitions(topic=topic, partitions=[index])])
        response = self.run(ElectLeaders(asked))
        return ErrorCode(response.replica_election_results[0].partition_result[0].error_code)

    def reassign(
        self, topic: str, replicas: list[int] | None, index: int = 0, factor_may_change: bool = True
    ) -> ErrorCode:
        request = messages.AlterPartitionReassignmentsRequest
        part = request.ReassignablePartition(partition_index=index, replicas=replicas)
        asked = request(
            allow_replication_factor_change=factor_may_change,
            topics=[request.ReassignableTopic(name=topic, partitions=[part])],
        )
        return ErrorCode(self.run(AlterReassignments(asked)).responses[0].partitions[0].error_code)

    def restarted(self) -> Brokers:
        """Another controller, from the log alone; sessions start afresh."""
        image: MetadataImage = self.replayed()
        other = Brokers(image=image)
        other.config = self.config
        other.log = list(self.log)
        other.now_ms = self.now_ms
        other.wall_ms = self.wall_ms
        other.controller.heartbeats.activate(image.brokers, other.next_offset, self.now_ms)
        return other


__all__ = ["CLUSTER_ID", "Brokers", "R", "directory"]
