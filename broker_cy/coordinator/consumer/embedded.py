"""The consumer protocol inside of the classic one: the subscriptions that members send with JoinGroup, and the
assignments that SyncGroup returns. Both begin with their version. A newer one than we know begins with the same fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar
from uuid import UUID

from broker_cy.coordinator.assignors.spec import Assignment
from broker_cy.coordinator.modern.topic_values import of_each
from broker_cy.core.classes import NamedTuple
from broker_cy.core.cursor import Cursor
from broker_cy.core.errors import WireError
from broker_cy.metadata.image import MetadataImage
from broker_cy.wire import codec, messages

VERSION_MAX: Final = 3

M = TypeVar("M", bound=codec.Message)
Partitions = dict[UUID, frozenset[int]]


class Subscription(NamedTuple):
    """`owned` are the partitions that the member still reads, without those of unknown topics."""

    topics: frozenset[str]
    owned: Partitions
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
    owned = _by_id(((each.topic, each.partitions) for each in data.owned_partitions), image)
    return Subscription(frozenset(data.topics), owned, data.rack_id)


def assignment_of(data: bytes, image: MetadataImage) -> Partitions:
    """The partitions of an assignment, empty for an empty one. Raises WireError if it is malformed, or
    CustomAssignorError.
    """
    if not data:
        return {}
    found = _decoded(messages.ConsumerProtocolAssignment, data)
    if found.user_data:
        raise CustomAssignorError("the assignment has data of a custom assignor")
    return _by_id(((each.topic, each.partitions) for each in found.assigned_partitions), image)


def encode_assignment(assignment: Assignment, version: int, image: MetadataImage) -> bytes:
    """The bytes for a member whose subscription has this version; topics that were deleted are left out."""
    topics = image.topics.with_ids(assignment)
    found = zip(topics, of_each(assignment.values(), sorted), strict=True)
    structures = codec.structures(
        messages.ConsumerProtocolAssignment.TopicPartition,
        [topic.name for topic in topics if topic is not None],
        [partitions for topic, partitions in found if topic is not None],
    )
    value = messages.ConsumerProtocolAssignment(assigned_partitions=structures)
    return codec.encode_versioned(value, min(version, VERSION_MAX))


def _by_id(topics: Iterable[tuple[str, Iterable[int]]], image: MetadataImage) -> Partitions:
    found: Partitions = {}
    # Most topics have one of few values, if they have few partitions.
    known: dict[frozenset[int], frozenset[int]] = {}
    for name, partitions in topics:
        topic = image.topics.by_name(name)
        numbers = frozenset(partitions)
        if topic is not None and numbers:
            before = found.get(topic.topic_id)
            found[topic.topic_id] = known.setdefault(numbers, numbers) if before is None else before | numbers
    return found
