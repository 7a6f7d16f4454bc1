"""Writes to own topics that another broker leads: they go to their leader, with an ordinary Produce.

The leader accepts it from a client with the client id OWN_CLIENT. Like Kafka's rule for its internal topics, that
prevents mistakes, not attacks: keep clients that must not write away from the inter-broker listener.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.topic_names import OWN_CLIENT
from broker_cy.network.broker_calls import BrokerCalls
from broker_cy.wire import messages

if TYPE_CHECKING:
    from broker_cy.client.outgoing import Outgoing
    from broker_cy.metadata.image import MetadataImage

# The newest version with names instead of ids.
PRODUCE_VERSION: Final = 12
PRODUCE_MS: Final = 10_000
REPLICAS: Final = 3
NO_LEADER: Final = -1


class OwnTopicLeader:
    """`image` returns the committed metadata, `has_peers` whether the cluster may have other brokers."""

    def __init__(
        self,
        node_id: int,
        listener: str,
        image: Callable[[], MetadataImage],
        has_peers: Callable[[], bool],
        outgoing: Outgoing,
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._has_peers = has_peers
        self._calls = BrokerCalls(node_id, listener, image, outgoing, OWN_CLIENT)

    def replicas(self) -> int:
        """The number of replicas of a new topic: three if three brokers are active."""
        active = sum(broker.is_active for broker in self._image().brokers.values())
        return min(REPLICAS, max(1, active))

    @property
    def may_grow(self) -> bool:
        """Whether brokers may still join that a new topic needs for its replicas."""
        return self._has_peers() and self.replicas() < REPLICAS

    def exists(self, topic: str) -> bool:
        return self._image().topics.by_name(topic) is not None

    def elsewhere(self, topic: str) -> int:
        """The other broker that leads partition 0 of the topic; NO_LEADER if it has no leader, or this one leads it."""
        found = self._image().topics.by_name(topic)
        leader = found.partitions[0].leader if found is not None and 0 in found.partitions else NO_LEADER
        return NO_LEADER if leader == self._node_id else leader

    async def write(self, leader: int, topic: str, batch: bytes) -> None:
        """Append a batch to partition 0. Raises KafkaError."""
        request = messages.ProduceRequest(
            acks=-1,
            timeout_ms=PRODUCE_MS,
            topic_data=[
                messages.ProduceRequest.TopicProduceData(
                    name=topic,
                    partition_data=[messages.ProduceRequest.PartitionProduceData(index=0, records=batch)],
                )
            ],
        )
        answer = await self._calls.ask(leader, request, messages.ProduceResponse, at_most=PRODUCE_VERSION)
        code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
        if code is not ErrorCode.NONE:
            raise KafkaError(code, f"broker {leader} refused a batch of {topic}")

    async def close(self) -> None:
        await self._calls.close()
