"""The description of one group of a newer type, for the API of its type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

from broker_cy.coordinator.assignors.spec import Assignment
from broker_cy.core.classes import NamedTuple
from broker_cy.metadata.image import MetadataImage


class _DescribedGroup(Protocol):
    members: list[Any]


D = TypeVar("D", bound=_DescribedGroup)


class Description(NamedTuple, Generic[D]):
    """A group as the answer has it, with its members apart: they may be 10,000.

    `members` describes each member as it is taken; later changes of the group do not change it. `topics` are those that
    the group itself names, `topics_of` those that a described member names.
    """

    group: D
    members: Iterator[Any] = iter(())
    topics: Set[str] = frozenset()
    topics_of: Callable[[Any], Iterable[str]] = lambda _: ()

    def whole(self) -> D:
        """The group with all of its members."""
        self.group.members = list(self.members)
        return self.group


def existing_topics(assignment: Assignment, image: MetadataImage) -> Iterator[tuple[UUID, str, list[int]]]:
    """The id, name and partitions of each assigned topic that was not deleted."""
    for topic_id, partitions in assignment.items():
        topic = image.topics.by_id(topic_id)
        if topic is not None:
            yield topic_id, topic.name, sorted(partitions)
