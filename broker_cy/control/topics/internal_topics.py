"""Settings of automatically created topics: Kafka's defaults, and the special settings of its internal topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from broker_cy.metadata import topic_names
from broker_cy.wire import messages

_DAY_MS: Final = 24 * 60 * 60 * 1000
# This broker's own topics, and their retention.
OWN_TOPICS: Final = {topic_names.CLUSTER_EVENTS: 30 * _DAY_MS, topic_names.BROKER_METRICS: 7 * _DAY_MS}
OWN_SEGMENT_BYTES: Final = 64 << 20


def creatable_topic(name: str, config: Mapping[str, Any]) -> messages.CreateTopicsRequest.CreatableTopic:
    """The topic for a CreateTopicsRequest; `config` is the broker's, by Kafka's names."""
    if name == topic_names.CONSUMER_OFFSETS:
        partitions = config["offsets.topic.num.partitions"]
        replicas = config["offsets.topic.replication.factor"]
        settings = {"compression.type": "producer", "segment.bytes": str(config["offsets.topic.segment.bytes"])}
    elif name == topic_names.TRANSACTION_STATE:
        partitions = config["transaction.state.log.num.partitions"]
        replicas = config["transaction.state.log.replication.factor"]
        settings = {
            "unclean.leader.election.enable": "false",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(config["transaction.state.log.min.isr"]),
            "segment.bytes": str(config["transaction.state.log.segment.bytes"]),
        }
    elif name == topic_names.SHARE_GROUP_STATE:
        partitions = config["share.coordinator.state.topic.num.partitions"]
        replicas = config["share.coordinator.state.topic.replication.factor"]
        settings = {
            # The share coordinator itself deletes redundant records.
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "segment.bytes": str(config["share.coordinator.state.topic.segment.bytes"]),
            "min.insync.replicas": str(config["share.coordinator.state.topic.min.isr"]),
            "retention.ms": "-1",
        }
    elif name in OWN_TOPICS:
        partitions, replicas = 1, 1
        settings = {
            "compression.type": "producer",
            "retention.ms": str(OWN_TOPICS[name]),
            # One, as for its replicas: with a larger default of the brokers it would always be below the minimum.
            "min.insync.replicas": "1",
            "cleanup.policy": "delete",
            # Small segments, so that expired records are deleted soon.
            "segment.bytes": str(OWN_SEGMENT_BYTES),
            "segment.ms": str(_DAY_MS),
        }
    else:
        return messages.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
    settings.setdefault("cleanup.policy", "compact")
    return messages.CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[
            messages.CreateTopicsRequest.CreatableTopicConfig(name=key, value=value) for key, value in settings.items()
        ],
    )
