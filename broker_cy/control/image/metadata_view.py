"""The metadata image as clients of one listener see it: brokers with the address of that listener, partitions with an
error if no leader can be reached. Metadata and DescribeTopicPartitions share it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from broker_cy.controller.rules import directory_of, has_online_directory
from broker_cy.core.errors import ErrorCode
from broker_cy.core.randomness import Randomness
from broker_cy.metadata import topic_names
from broker_cy.metadata.image import NO_LEADER, BrokerImage, Endpoint, MetadataImage, PartitionImage


def visible_brokers(
    image: MetadataImage, listener: str, *, fenced: bool = False, also: frozenset[int] = frozenset()
) -> Iterator[tuple[BrokerImage, Endpoint]]:
    """Brokers with an endpoint of that listener, lowest id first; fenced ones only if `fenced` is set, or if they are
    in `also`.
    """
    for broker_id in sorted(image.brokers):
        broker = image.brokers[broker_id]
        if broker.fenced and not fenced and broker_id not in also:
            continue
        endpoint = broker.listeners.get(listener)
        if endpoint is not None:
            yield broker, endpoint


def leader_error(image: MetadataImage, partition: PartitionImage, listener: str) -> ErrorCode:
    """NONE if the leader can be reached over the listener."""
    leader = image.brokers.get(partition.leader)
    if leader is None or leader.fenced:
        return ErrorCode.LEADER_NOT_AVAILABLE
    return ErrorCode.NONE if listener in leader.listeners else ErrorCode.LISTENER_NOT_FOUND


def reported_leader(image: MetadataImage, partition: PartitionImage, listener: str) -> int:
    """The leader's id; NO_LEADER if it has no address on the listener."""
    return partition.leader if leader_error(image, partition, listener) is ErrorCode.NONE else NO_LEADER


def is_reachable(image: MetadataImage, broker_id: int, listener: str) -> bool:
    """Whether the broker is up, as far as the log knows, and has the listener."""
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.fenced and listener in broker.listeners


def offline_replicas(image: MetadataImage, partition: PartitionImage, listener: str) -> list[int]:
    """Replicas on brokers that cannot be reached over the listener, or in directories that are offline (KIP-858)."""
    return [
        replica
        for replica in partition.replicas
        if not is_reachable(image, replica, listener)
        or not has_online_directory(image.brokers[replica], directory_of(partition, replica))
    ]


def a_controller(broker_ids: Sequence[int], randomness: Randomness) -> int:
    """The broker that clients take for the controller: any running one, because each forwards their requests (KIP-590).
    NO_LEADER without a running broker.
    """
    if len(broker_ids) <= 1:
        return broker_ids[0] if broker_ids else NO_LEADER
    return broker_ids[randomness.integer(0, len(broker_ids) - 1)]


def absent_partition_error(image: MetadataImage, name: str, index: int) -> ErrorCode:
    """The error of a partition that this broker does not have: others may have it."""
    topic = image.topics.by_name(name)
    if topic is None or index not in topic.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NOT_LEADER_OR_FOLLOWER


def absent_topic_error(name: str) -> ErrorCode:
    """The error of a topic that does not exist: UNKNOWN_TOPIC_OR_PARTITION, or that the name is invalid."""
    if topic_names.invalid_reason(name) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
