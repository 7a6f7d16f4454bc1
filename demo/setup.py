"""The demo's use of the admin client: topics, and the replicas of several nodes."""

from __future__ import annotations

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.reassignments import ElectionType
from broker_cy.admin.topics import NewTopic
from broker_cy.core.errors import ErrorCode
from demo.topics import HEARTBEATS, HEARTBEATS_CONFIGS, HEARTBEATS_OF_A_NODE, TOPICS

_CLIENT_ID = "demo"
REPLICAS_MAX = 3


async def create_topics(bootstrap: str, nodes: int) -> None:
    """Create the topics that an earlier run has not created. Raises ClientError."""
    replicas = min(REPLICAS_MAX, nodes)
    wanted = [NewTopic(name, partitions, replicas, configs=configs) for name, (partitions, configs) in TOPICS.items()]
    if nodes > 1:
        wanted.append(NewTopic(HEARTBEATS, heartbeats_of(nodes), replicas, configs=HEARTBEATS_CONFIGS))
    async with AdminClient(bootstrap, client_id=_CLIENT_ID) as client:
        for error in (await client.topics.create(wanted)).failed.values():
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise error


def heartbeats_of(nodes: int) -> int:
    """The partitions of the topic of heartbeats."""
    return nodes * HEARTBEATS_OF_A_NODE


async def is_in_sync(bootstrap: str) -> bool:
    """Whether every partition has a leader and all its replicas in sync. Raises ClientError."""
    async with AdminClient(bootstrap, client_id=_CLIENT_ID) as client:
        return not any(
            part.is_offline or part.is_under_replicated
            for topic in await client.topics.list_all()
            for part in topic.partitions
        )


async def elect_preferred(bootstrap: str) -> int:
    """Return leadership to the first replica of each partition, and return how many changed. Otherwise a node that was
    killed would lead no partition. Raises ClientError.
    """
    async with AdminClient(bootstrap, client_id=_CLIENT_ID) as client:
        away = [
            TopicPartition(topic.name, part.partition)
            for topic in await client.topics.list_all()
            for part in topic.partitions
            if part.leader_id != part.replicas[0]
        ]
        return len((await client.reassignments.elect(ElectionType.PREFERRED, away)).found) if away else 0
