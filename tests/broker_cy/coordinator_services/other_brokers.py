"""Other brokers of a cluster, as one broker sees them: entries of its metadata, and links that call handlers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from broker_cy.control.controller_service import ControllerService
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.image import BrokerImage, Endpoint, ImageDelta, MetadataImage, PartitionImage
from broker_cy.metadata.topics import TopicImage

Answer = Callable[[Any], Awaitable[Any]]
# A time, and an offset, that no test sees.
_NEVER = 1 << 60


def broker_image(broker_id: int, *, fenced: bool = False, rack: str | None = None) -> BrokerImage:
    """A registered broker with the listener PLAINTEXT, and, unless it is broker 3, the listener OTHER."""
    listeners = {"PLAINTEXT": Endpoint(f"host-{broker_id}", 9092, 0)}
    if broker_id != 3:
        listeners["OTHER"] = Endpoint(f"other-{broker_id}", 9093, 0)
    return BrokerImage(
        broker_id, 10 + broker_id, UUID(int=broker_id), listeners, {}, rack, fenced, False, (UUID(int=1),), None
    )


def partition_image(leader: int, replicas: tuple[int, ...] = (), epoch: int = 1) -> PartitionImage:
    """A partition whose replicas are all in sync; without `replicas` the leader is the only one."""
    replicas = replicas or (leader,)
    return PartitionImage(replicas, replicas, leader, epoch, epoch, (UUID(int=1),) * len(replicas))


def change(
    image: MetadataImage, brokers: list[BrokerImage], leaders: dict[tuple[str, int], PartitionImage]
) -> ImageDelta:
    """Change a committed image in place: register these brokers, and set these partitions."""
    above = image.branch()
    for broker in brokers:
        above.brokers[broker.broker_id] = broker
    for (name, index), partition in leaders.items():
        topic = above.topics.by_name(name)
        if topic is None:
            topic = TopicImage(name, UUID(int=hash(name) & 0xFFFF_FFFF | 1 << 64), {})
            above.topics.put(topic)
        above.topics.partitions_for_write(topic.topic_id)[index] = partition
    return image.absorb(above)


def learn(
    controller: ControllerService, brokers: list[BrokerImage], leaders: dict[tuple[str, int], PartitionImage]
) -> ImageDelta:
    """Change the image of a running controller. The brokers send no heartbeats, so each gets a session that outlasts
    the test (else the controller's next check would fence it in the middle of the test), and has read all metadata
    (else the broker that stops would wait for it).
    """
    for broker in brokers:
        contact = controller.heartbeats.contact(broker)
        contact.beat(_NEVER)
        contact.heard = True
        contact.metadata_offset = _NEVER
    return change(controller.image, brokers, leaders)


class FakeLinks:
    """A Caller whose brokers are functions; a broker without one cannot be reached. `hold` delays all answers."""

    def __init__(self) -> None:
        self.brokers: dict[int, Answer] = {}
        self.sent: list[tuple[int, Any]] = []
        self.hold: asyncio.Event | None = None

    async def ask(
        self, broker_id: int, request: Any, response: type[Any], *, at_least: int = 0, at_most: int = 32767
    ) -> Any:
        self.sent.append((broker_id, request))
        if self.hold is not None:
            await self.hold.wait()
        if broker_id not in self.brokers:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"broker {broker_id} cannot be reached")
        return await self.brokers[broker_id](request)
