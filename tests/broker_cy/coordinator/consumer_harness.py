"""Consumer groups in the harness of the group coordinator: topics, heartbeats in short form, and their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

from broker_cy.coordinator.consumer import heartbeat
from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.coordinator.step import ClientFacts, GroupStep
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.image import BrokerImage, ImageDelta, MetadataImage
from broker_cy.metadata.partition import PartitionImage
from broker_cy.metadata.topics import TopicImage
from broker_cy.wire import messages
from tests.broker_cy.coordinator.harness import GROUP, Harness

Place = tuple[str, int]
REBALANCE_MS = 20_000
# A member that sends no owned partitions at all.
UNSAID = None


def topic_id(name: str, generation: int = 0) -> UUID:
    return UUID(int=int.from_bytes(name.encode(), "big") << 16 | generation)


class Topics:
    """The committed metadata, with topics that come, grow and go."""

    def __init__(self, **partitions: int) -> None:
        self.image = MetadataImage()
        self.image.brokers[1] = BrokerImage(1, 0, UUID(int=1), {}, {}, "rack", False, False, (), None)
        self.generations: dict[str, int] = {}
        for name, count in partitions.items():
            self._put(name, count)

    def _put(self, name: str, count: int) -> None:
        self.image.offset += 1
        generation = self.generations.setdefault(name, 0)
        partition = PartitionImage((1,), (1,), 1, 0, 0)
        self.image.topics.put(TopicImage(name, topic_id(name, generation), dict.fromkeys(range(count), partition)))

    def put(self, name: str, count: int) -> ImageDelta:
        """Create the topic, or give it more partitions."""
        before = MetadataImage()
        for topic in self.image.topics:
            before.topics.put(topic)
        self._put(name, count)
        return ImageDelta.between(before, self.image)

    def delete(self, name: str) -> ImageDelta:
        """Delete the topic; another one of its name gets another id."""
        before = MetadataImage()
        for topic in self.image.topics:
            before.topics.put(topic)
        gone = self.image.topics.by_name(name)
        assert gone is not None
        self.image.topics.remove(gone.topic_id)
        self.image.offset += 1
        self.generations[name] += 1
        return ImageDelta.between(before, self.image)

    def places(self, assignment: Mapping[UUID, Iterable[int]]) -> set[Place]:
        """Partitions by the names of their topics; those of deleted topics by their ids."""
        found = set()
        for each, partitions in assignment.items():
            topic = self.image.topics.by_id(each)
            found |= {(str(each) if topic is None else topic.name, partition) for partition in partitions}
        return found


class ConsumerHarness(Harness):
    """`topics` are in the metadata of the state machine."""

    def __init__(self, topics: Topics | None = None, **settings: Any) -> None:
        self.may_describe: Callable[[str], bool] | None = None
        super().__init__(**settings)
        self.topics = topics or Topics(t=4)
        self.machine.take_image(self.topics.image)

    def consumers(self, group_id: str = GROUP) -> ConsumerGroup:
        group = self.machine.groups.get(group_id)
        assert isinstance(group, ConsumerGroup)
        return group

    def change(self, delta: ImageDelta) -> GroupStep:
        return self.take(self.machine.metadata_changed(delta, self.topics.image))

    def beat(
        self,
        token: object,
        member_id: str,
        epoch: int,
        *,
        group_id: str = GROUP,
        instance_id: str | None = None,
        rack_id: str | None = None,
        names: Iterable[str] | None = None,
        regex: str | None = None,
        assignor: str | None = None,
        owned: Mapping[UUID, Iterable[int]] | None = UNSAID,
        rebalance_ms: int = -1,
        client_id: str = "client",
    ) -> Any:
        """Return the response, None while it is awaited."""
        request = messages.ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance_id,
            rack_id=rack_id,
            rebalance_timeout_ms=rebalance_ms,
            subscribed_topic_names=None if names is None else list(names),
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=None
            if owned is None
            else [
                messages.ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=each, partitions=list(partitions))
                for each, partitions in owned.items()
            ],
        )
        client = ClientFacts(client_id, "/127.0.0.1", 1)
        self.run(heartbeat.heartbeat, request, client, f"made-{token}", self.may_describe, token)
        return self.answers.get(token)

    def enter(self, token: object, member_id: str, *names: str, **how: Any) -> Any:
        """Join with a first heartbeat."""
        how.setdefault("rebalance_ms", REBALANCE_MS)
        return self.beat(token, member_id, 0, names=names or ("t",), owned={}, **how)

    def code(self, token: object) -> ErrorCode:
        return ErrorCode(self.answers[token].error_code)

    def assigned(self, token: object) -> set[Place] | None:
        """The partitions in an answer; None if it has no assignment."""
        assignment = self.answers[token].assignment
        if assignment is None:
            return None
        return self.topics.places({each.topic_id: each.partitions for each in assignment.topic_partitions})
