"""Creates the internal topics of streams groups, as their coordinators ask for it (KIP-1071).

As in Kafka, they are created in the name of the member: the active controller authorizes it, and charges its quota.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from broker_cy.coordinator.streams.internal_topics import CreateInternalTopics, NotCreated, Requester
from broker_cy.coordinator.streams.topology import InternalTopic
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages

Request = messages.CreateTopicsRequest
CreateTopics = Callable[[Requester, Request], Awaitable[messages.CreateTopicsResponse]]
"""Answers a CreateTopicsRequest in the name of a client."""

# Lets the broker decide.
_DEFAULT_REPLICATION_FACTOR: Final = -1


class InternalTopics:
    """`create` is bounded by the groups: each asks for a topic once at a time."""

    def __init__(self, create_topics: CreateTopics) -> None:
        self._create_topics = create_topics

    async def create(self, call: CreateInternalTopics) -> tuple[NotCreated, ...]:
        """Create topics, and return those that could not be created. Raises KafkaError if that is true for all."""
        request = Request(topics=[_creatable(topic) for topic in call.topics])
        response = await self._create_topics(call.requester, request)
        return tuple(
            NotCreated(topic.name, topic.error_message or ErrorCode(topic.error_code).name)
            for topic in response.topics
            if topic.error_code != ErrorCode.NONE
        )


def _creatable(topic: InternalTopic) -> Request.CreatableTopic:
    return Request.CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or _DEFAULT_REPLICATION_FACTOR,
        configs=[Request.CreatableTopicConfig(name=name, value=value) for name, value in topic.configs],
    )
