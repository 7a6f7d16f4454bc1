"""A group of any type: what the operations on groups and their offsets ask of it; and the table of all groups of a
partition, which groups of any type use.

A type of groups is a subclass of `Group` (in the module `hooks` of its package), and the functions that apply its
records, in `group_machine`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence, Set
from enum import Enum
from typing import Any, Final, TypeVar
from uuid import UUID

from broker_cy.coordinator.base import StateMachine
from broker_cy.coordinator.offset_record import CommittedOffset
from broker_cy.coordinator.offsets import NO_PRODUCER_ID, OffsetStore
from broker_cy.coordinator.settings import ConsumerGroupConfig, GroupSettings, ShareGroupConfig, StreamsGroupConfig
from broker_cy.coordinator.step import GroupStep, Record
from broker_cy.coordinator.subscribers import Subscribers
from broker_cy.coordinator.timers import TimerKey
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.step import Now, Work
from broker_cy.metadata.image import RESOURCE_GROUP
from broker_cy.wire import messages

G = TypeVar("G", bound="Group")
# The settings of one group of some type.
C = TypeVar("C")

# Checks one partition (topic, its id, index) of a commit; raises KafkaError if this sender may not commit there.
CommitCheck = Callable[[str, UUID, int], None]

UNKNOWN_OFFSET: Final = -1
# Deletions wait this long after a failed write.
DELETIONS_RETRY_MS: Final = 1_000


class GroupType(Enum):
    """Kafka's group types. The values are their names in responses."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class Group(ABC):
    """One group. `GroupTable.groups` has those of all types, by id."""

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

    @property
    def member_count(self) -> int:
        """The number of its members; 0 for a group of a type that this broker only keeps."""
        return 0

    # ---- offsets ----

    @abstractmethod
    def check_commit(
        self, machine: GroupTable, request: messages.OffsetCommitRequest, version: int, now: Now
    ) -> CommitCheck | None:
        """Raises KafkaError if this sender may not commit. Returns the check of each partition, if there is one."""

    @abstractmethod
    def check_transactional_commit(self, request: messages.TxnOffsetCommitRequest) -> CommitCheck | None:
        """The same. Before version 3 (KIP-447) the request does not identify the member, and nothing is checked."""

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

    def read_of(self, topics: Set[str]) -> Set[str]:
        """Those of the topics that `is_subscribed` knows."""
        return {topic for topic in topics if self.is_subscribed(topic)}

    @property
    @abstractmethod
    def is_unused(self) -> bool:
        """Whether the group is deleted once it has no offsets."""

    # ---- reads of the written state ----

    def copied(self) -> Group:
        """Return a copy whose durable state `undo` of each Before of the group may change (`written`). A group without
        any but its existence returns itself.
        """
        return self

    # ---- changes from outside ----

    def topics_changed(self, before: Mapping[str, int | None]) -> None:  # noqa: B027
        """Topics that the group subscribes to (`GroupTable.subscribers`) were created, changed or deleted. The group is
        only marked: the next heartbeat of any member looks at the metadata. `before` has topics, as far as they are
        known, with the hashes of their metadata before that; None: not known.
        """

    # ---- life cycle ----

    @abstractmethod
    def loaded(self, machine: GroupTable, step: GroupStep, now: Now) -> None:
        """All records of the log are applied: the live state of the group begins."""

    @abstractmethod
    def on_timer(self, machine: GroupTable, step: GroupStep, key: TimerKey, now: Now) -> None:
        """A deadline that the group has set has passed."""

    @abstractmethod
    def discard(self, machine: GroupTable, step: GroupStep, code: ErrorCode) -> None:
        """Remove the group and its deadlines, and answer `code` to all requests that wait in it."""


def not_found(group: Group | None, group_id: str, wanted: GroupType) -> KafkaError:
    """The error for a group that does not exist (None) or is not of the wanted type, in Kafka's words."""
    reason = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a {wanted.value} group."
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, reason)


def names_member(request: messages.TxnOffsetCommitRequest) -> bool:
    """Whether the request identifies a member."""
    return request.generation_id >= 0 or bool(request.member_id) or request.group_instance_id is not None


class GoneTopic(NamedTuple):
    """A deleted topic in which a group has offsets, also those of open transactions. Records at `end_offset` and later
    are newer than the deletion, and may be offsets of another topic with this name.
    """

    group_id: str
    name: str
    topic_ids: frozenset[bytes]
    end_offset: int

    def has(self, offset: CommittedOffset) -> bool:
        """Whether this offset in the topics of this name is one of the deleted topic."""
        return offset.record_offset < self.end_offset and any(map(offset.is_of_topic, self.topic_ids))


class GroupTable(StateMachine[TimerKey, GroupStep]):
    """The groups of a partition of `__consumer_offsets`, of all types, and their offsets. `GroupMachine` adds the types
    of records and the life cycle.
    """

    new_step = GroupStep

    def __init__(self, settings: GroupSettings) -> None:
        super().__init__()
        self.settings = settings
        self.offsets = OffsetStore()
        self.groups: dict[str, Group] = {}
        self._groups_made = 0
        # The work in the background, by its operation and the number of its group, which may be deleted meanwhile.
        self._works: set[tuple[Callable[..., None], int]] = set()
        # Groups whose id belongs to another group again, after its deletion was undone; empty outside of `failed`.
        self._displaced: list[Group] = []
        self.deleted: deque[GoneTopic] = deque()
        """The topics that were deleted, for each group with offsets in them. Bounded by groups x topics."""
        self.subscribers = Subscribers()
        self.topic_hashes: dict[str, int] = {}
        """Hashes of the metadata of topics, by name, as groups have computed them; those of changed topics are gone."""
        self.topics_created_at = UNKNOWN_OFFSET
        """Offset of the metadata in which topics were created last: regular expressions may match them."""
        # The settings of groups that have settings of their own, with what they were made of; and those of all others.
        self._configs: dict[str, tuple[Mapping[str, str], GroupSettings, Callable[..., Any], Any]] = {}
        self._defaults: dict[Callable[..., Any], tuple[GroupSettings, Any]] = {}

    def consumer_config(self, group_id: str) -> ConsumerGroupConfig:
        """The settings of a consumer group now."""
        return self._config(group_id, GroupSettings.consumer_config)

    def share_config(self, group_id: str) -> ShareGroupConfig:
        """The settings of a share group now."""
        return self._config(group_id, GroupSettings.share_config)

    def streams_config(self, group_id: str) -> StreamsGroupConfig:
        """The settings of a streams group now."""
        return self._config(group_id, GroupSettings.streams_config)

    def _config(self, group_id: str, make: Callable[[GroupSettings, Mapping[str, str]], C]) -> C:
        """The settings of a group, which `make` computes from the broker's and the group's own."""
        overrides = self.image.configs.resource(RESOURCE_GROUP, group_id)
        config: C
        if not overrides:
            self._configs.pop(group_id, None)
            default = self._defaults.get(make)
            if default is None or default[0] is not self.settings:
                default = self._defaults[make] = (self.settings, make(self.settings, overrides))
            config = default[1]
            return config
        known = self._configs.get(group_id)
        # The first two are replaced when they change.
        if known is None or known[0] is not overrides or known[1] is not self.settings or known[2] is not make:
            known = self._configs[group_id] = (overrides, self.settings, make, make(self.settings, overrides))
        config = known[3]
        return config

    def begin_work(
        self,
        step: GroupStep,
        group: Group,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        then: Callable[..., None],
        *about: Any,
    ) -> None:
        """Let a worker compute `function(*arguments)` for a group. Then the operation `then(machine, step, group_id,
        number, *about, result, now)` runs, which calls `end_work`.
        """
        self._works.add((then, group.number))
        step.work.append(Work(function, arguments, then, (group.group_id, group.number, *about)))

    def has_work(self, group: Group, then: Callable[..., None]) -> bool:
        """Whether the work with this operation is under way for the group."""
        return (then, group.number) in self._works

    def end_work(self, number: int, then: Callable[..., None]) -> None:
        """The result has come."""
        self._works.discard((then, number))

    def add_group(self, group: G) -> G:
        """Add a group, in place of the one that has its id."""
        self._groups_made += 1
        group.number = self._groups_made
        self.groups[group.group_id] = group
        return group

    def remove_group(self, group: Group) -> None:
        """Remove a group, unless another one has its id."""
        if self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]

    def abandon(self, step: GroupStep) -> None:
        super().abandon(step)
        # No request waits in a group that the step has created.
        self._displaced.clear()

    def put_back(self, group: Group) -> None:
        """Undo the deletion of a group, which may have its place still. Requests that wait in a later group of its id
        are refused when the undoing is done.
        """
        later = self.groups.get(group.group_id, group)
        if later is not group:
            self._displaced.append(later)
        self.groups[group.group_id] = group

    def displace(self, group: Group) -> None:
        """Requests that wait in a group whose creation was undone are refused when the undoing is done."""
        self._displaced.append(group)

    def append(self, step: GroupStep, new: Sequence[Record], producer_id: int = NO_PRODUCER_ID) -> None:
        """Make records part of the step and apply them. With a producer id they belong to its transaction."""
        for record in new:
            step.records.append(record)
            step.before.append(self.apply(self.next_offset, producer_id, *record))

    def has_deletions(self) -> bool:
        return bool(self.deleted or self.unswept)

    def deletions_failed(self, taken: Sequence[GoneTopic], now: Now) -> None:
        """The next sweep finds the expired offsets again; those in deleted topics are known only here."""
        self.deleted.extendleft(reversed(taken))
        self.deletions_due_ms = now.mono_ms + DELETIONS_RETRY_MS


class GroupAdded(NamedTuple):
    """A record created a group, in place of another one or of none."""

    group_id: str
    replaced: Group | None

    def restore(self, machine: GroupTable) -> None:
        machine.displace(machine.groups.pop(self.group_id))
        if self.replaced is not None:
            machine.put_back(self.replaced)

    def undo(self, group: Group | None) -> Group | None:
        return None if self.replaced is None else self.replaced.copied()
