"""A group of any type: what the operations on groups and their offsets ask of it.

A type of groups is a subclass of `Group`, and the function that applies its records, in `group_machine`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from broker_cy.coordinator.offset_record import CommittedOffset
from broker_cy.coordinator.step import Now, Record, Step
from broker_cy.coordinator.timers import TimerKey
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages

if TYPE_CHECKING:
    from broker_cy.coordinator.group_machine import GroupMachine


class GroupType(Enum):
    """Kafka's group types. The values are their names in responses."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class Group(ABC):
    """One group. `GroupMachine.groups` has those of all types, by id."""

    __slots__ = ("group_id", "number")

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        # Distinguishes it from another group of the same id, before or after it; the state machine sets it.
        self.number = 0

    # ---- ListGroups and DeleteGroups ----

    @property
    @abstractmethod
    def group_type(self) -> GroupType: ...

    @property
    @abstractmethod
    def state_name(self) -> str:
        """The name of its state in responses."""

    @property
    @abstractmethod
    def listed_protocol_type(self) -> str:
        """The protocol type in ListGroups."""

    @abstractmethod
    def check_deletion(self) -> ErrorCode:
        """Return NONE if the group may be deleted."""

    @abstractmethod
    def tombstones(self) -> list[Record]:
        """Return the tombstones of the group itself: dependent records first, its own record last."""

    # ---- offsets ----

    @abstractmethod
    def check_commit(
        self, machine: GroupMachine, request: messages.OffsetCommitRequest, version: int, now: Now
    ) -> None:
        """Raises KafkaError if this sender may not commit."""

    @abstractmethod
    def check_transactional_commit(self, request: messages.TxnOffsetCommitRequest) -> None:
        """Raises KafkaError if this sender may not commit. Before version 3 (KIP-447) the request does not identify the
        member, and nothing is checked.
        """

    @abstractmethod
    def shows_offsets(self, request: messages.OffsetFetchRequest.OffsetFetchRequestGroup) -> bool:
        """Return whether its offsets may be returned. Raises KafkaError if the sender is refused."""

    @abstractmethod
    def check_offset_deletion(self) -> None:
        """Raises KafkaError if none of its offsets may be deleted."""

    @abstractmethod
    def is_subscribed(self, topic: str) -> bool:
        """Whether its members read `topic`, or might read it: offsets there are neither deleted nor expired."""

    @abstractmethod
    def retention_begin(self) -> Callable[[CommittedOffset], int] | None:
        """Return the start of an offset's retention; None if no offset of the group expires now."""

    @property
    @abstractmethod
    def is_unused(self) -> bool:
        """Whether the group is deleted once it has no offsets."""

    # ---- life cycle ----

    @abstractmethod
    def loaded(self, machine: GroupMachine, step: Step, now: Now) -> None:
        """All records of the log are applied: the live state of the group begins."""

    @abstractmethod
    def on_timer(self, machine: GroupMachine, step: Step, key: TimerKey, now: Now) -> None:
        """A deadline that the group has set has passed."""

    @abstractmethod
    def discard(self, machine: GroupMachine, step: Step, code: ErrorCode) -> None:
        """Remove the group and its deadlines, and answer `code` to all requests that wait in it."""


def names_member(request: messages.TxnOffsetCommitRequest) -> bool:
    """Whether the request identifies a member."""
    return request.generation_id >= 0 or bool(request.member_id) or request.group_instance_id is not None
