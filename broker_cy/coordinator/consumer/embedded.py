"""The consumer protocol inside of the classic one: the subscriptions that members send with JoinGroup, and the
assignments that SyncGroup returns. Both begin with their version. A newer one than we know begins with the same fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

from broker_cy.coordinator.assignors.spec import Assignment
from broker_cy.coordinator.modern.topic_values import of_each
from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.core.cursor import Cursor
from broker_cy.core.errors import WireError
from broker_cy.metadata.image import MetadataImage
from broker_cy.metadata.topics import TopicImage, TopicsImage
from broker_cy.wire import codec, messages

VERSION_MAX: Final = 3

M = TypeVar("M", bound=codec.Message)
Partitions = dict[UUID, frozenset[int]]


class Topics(Protocol):
    """Topics by name."""

    def with_names(self, names: Iterable[str]) -> list[TopicImage | None]:
        """The topic of each name, in their order; None for one that does not exist."""


class FoundTopics(NamedTuple):
    """Topics that were looked up, as a value."""

    by_name: Mapping[str, TopicImage]

    def with_names(self, names: Iterable[str]) -> list[TopicImage | None]:
        return list(map(self.by_name.get, names))


class _Named(Protocol):
    topic: str
    partitions: list[int]


@dataclass(frozen=True, slots=True)
class Owned:
    """The partitions that a member still reads, without those of unknown topics. They are looked up one after the
    other: there may be 10,000, and most of the time the first one answers the question.
    """

    given: Sequence[_Named]
    topics: TopicsImage

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[UUID]:
        return (topic_id for topic_id, _ in self.items())

    def items(self) -> Iterator[tuple[UUID, list[int]]]:
        for each in self.given:
            topic = self.topics.by_name(each.topic)
            if topic is not None and each.partitions:
                yield topic.topic_id, each.partitions


class Subscription(NamedTuple):
    """`topics` as the client sends them."""

    topics: Sequence[str]
    owned: Owned
    rack_id: str | None


class CustomAssignorError(ValueError):
    """The assignment has data of a custom assignor, which a consumer group cannot keep."""


def _decoded(cls: type[M], data: bytes) -> M:
    """Raises WireError."""
    found, _ = codec.decode_prefix(cls, min(version_of(data), VERSION_MAX), data[2:])
    return found


def version_of(data: bytes) -> int:
    """Raises WireError."""
    version = Cursor(data).read_i16()
    if version < 0:
        raise WireError(f"version {version} of the consumer protocol")
    return version


def subscription_of(metadata: bytes, image: MetadataImage) -> Subscription:
    """Raises WireError if the metadata is malformed."""
    data = _decoded(messages.ConsumerProtocolSubscription, metadata)
    return Subscription(data.topics, Owned(data.owned_partitions, image.topics), data.rack_id)


def subscribed(metadata: bytes) -> tuple[Sequence[str], str | None]:
    """The topics of a subscription, and the rack. Raises WireError if the metadata is malformed."""
    data = _decoded(messages.ConsumerProtocolSubscription, metadata)
    return data.topics, data.rack_id


def assignment_of(data: bytes, topics: Topics) -> Partitions:
    """The partitions of an assignment, empty for an empty one. Raises WireError if it is malformed, or
    CustomAssignorError.
    """
    if not data:
        return {}
    found = _decoded(messages.ConsumerProtocolAssignment, data)
    if found.user_data:
        raise CustomAssignorError("the assignment has data of a custom assignor")
    return _by_id(found.assigned_partitions, topics)


def assigned_names(data: bytes) -> list[str]:
    """The names of the topics in an assignment; none in an empty one, or in one that cannot be read."""
    if not data:
        return []
    try:
        return [each.topic for each in _decoded(messages.ConsumerProtocolAssignment, data).assigned_partitions]
    except WireError:
        return []


def encode_assignment(assignment: Assignment, version: int, image: MetadataImage) -> bytes:
    """The bytes for a member whose subscription has this version; topics that were deleted are left out."""
    known = min(version, VERSION_MAX)
    topics = image.topics.with_ids(assignment)
    found = zip(topics, of_each(assignment.values(), sorted), strict=True)
    encoded: Any = codec.EncodedElements(messages.ConsumerProtocolAssignment.TopicPartition, known)
    encoded.add_columns(
        [topic.name for topic in topics if topic is not None],
        [partitions for topic, partitions in found if topic is not None],
    )
    # Encoded elements stand in place of a list.
    return codec.encode_versioned(messages.ConsumerProtocolAssignment(assigned_partitions=encoded), known)


class _Sets(dict[tuple[int, ...], frozenset[int]]):
    """Equal partitions are one value: 10,000 topics have few."""

    def __missing__(self, partitions: tuple[int, ...]) -> frozenset[int]:
        found = self[partitions] = frozenset(partitions)
        return found


_topic = attrgetter("topic")
_partitions = attrgetter("partitions")
_topic_id = attrgetter("topic_id")


def _by_id(given: Sequence[_Named], topics: Topics) -> Partitions:
    known = _Sets()
    numbers = list(map(known.__getitem__, map(tuple, map(_partitions, given))))
    found = topics.with_names(map(_topic, given))
    if None not in found and all(known):
        by_id = dict(zip(map(_topic_id, found), numbers, strict=True))
        if len(by_id) == len(found):
            return by_id
    united: Partitions = {}
    for topic, partitions in zip(found, numbers, strict=True):
        if topic is not None and partitions:
            before = united.get(topic.topic_id)
            united[topic.topic_id] = partitions if before is None else before | partitions
    return united
