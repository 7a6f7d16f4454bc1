"""How a topic that nobody created by hand is created: Kafka's defaults, and the special settings of its internal
topics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from broker_cy.metadata import topic_names
from broker_cy.wire import messages

# Internal topics whose coordinator is not part of this broker yet: they are never created on the side.
_NOT_SERVED: Final = frozenset({topic_names.SHARE_GROUP_STATE})


def is_creatable(name: str) -> bool:
    """Whether the topic may be created because somebody asked for it."""
    return topic_names.invalid_reason(name) is None and name not in _NOT_SERVED


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
    else:
        return messages.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
    settings["cleanup.policy"] = "compact"
    return messages.CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[
            messages.CreateTopicsRequest.CreatableTopicConfig(name=key, value=value) for key, value in settings.items()
        ],
    )
