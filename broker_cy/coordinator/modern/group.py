"""The common state of consumer, share and streams groups: epochs, members, and the target assignment; for the first
two, also the subscriptions of their members.

All of it follows from records, except the deadline of the next look at the metadata. Members are immutable values, so a
record replaces one entry, and its undoing puts the old one back.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Set
from typing import Any, Final, Generic, Protocol, Self, TypeVar
from uuid import UUID

from broker_cy.coordinator.assignors.spec import Assignment
from broker_cy.coordinator.group import Group, GroupTable
from broker_cy.coordinator.modern.journal import Journal
from broker_cy.coordinator.modern.metadata_hash import NO_TOPICS_HASH, group_hash, topic_hashes
from broker_cy.coordinator.modern.steady_member import SteadyMember
from broker_cy.coordinator.modern.topic_values import count
from broker_cy.coordinator.step import GroupStep
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.step import Now
from broker_cy.metadata.image import MetadataImage
from broker_cy.metrics.events import Trigger

# As in Kafka: without a change of its topics, a group looks at the metadata again after 24 days.
METADATA_REFRESH_MS: Final = (1 << 31) - 1
# Topics of a group that the index of topics has; the names of more are looked at when topics change.
INDEXED_MAX: Final = 1_000
# Changed topics that a group notes for the event of its next epoch, about 100 bytes each.
CHANGED_NOTED_MAX: Final = 20
# The epochs of a group without records: its first member makes 2 of them.
FIRST_EPOCH: Final = 1
NO_ASSIGNMENT_EPOCH: Final = 1
UNKNOWN_TIME_MS: Final = 0
NO_PARTITIONS: Final[Assignment] = {}


class EpochMember(Protocol):
    """A member of any of these groups."""

    @property
    def member_id(self) -> str: ...
    @property
    def epoch(self) -> int: ...
    @property
    def client_id(self) -> str: ...
    @property
    def client_host(self) -> str: ...
    def is_reconciled_to(self, assignment_epoch: int) -> bool: ...


class ModernMember(EpochMember, Protocol):
    """A member that subscribes to topics itself."""

    @property
    def topics(self) -> frozenset[str]: ...


E = TypeVar("E", bound=EpochMember)
M = TypeVar("M", bound=ModernMember)
# The target assignment of one member.
T = TypeVar("T")
# The partitions of one topic.
V = TypeVar("V")


class EpochGroup(Group, Generic[E, T]):
    """Invariants: `epoch` and `assignment_epoch` only grow, and `assignment_epoch` is at most `epoch`."""

    __slots__ = (
        "_all_read",
        "_is_unchanged",
        "_settled_epoch",
        "assigned_at_ms",
        "assignment_epoch",
        "changed",
        "epoch",
        "hash_now",
        "journal",
        "members",
        "metadata_hash",
        "refresh_at_ms",
        "refresh_epoch",
        "shown",
        "steady",
        "target",
    )

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.epoch = FIRST_EPOCH
        self.metadata_hash = NO_TOPICS_HASH
        self.assignment_epoch = NO_ASSIGNMENT_EPOCH
        # Wall clock of the last assignment.
        self.assigned_at_ms = UNKNOWN_TIME_MS
        self.members: dict[str, E] = {}
        # The newest result of the assignor, by member id.
        self.target: dict[str, T] = {}
        # Live state: the targets before the first part of a newer assignment, until all of its parts are appended.
        self.shown: Mapping[str, T] | None = None
        # Live state: when the metadata hash is computed again (monotonic), and the epoch of the group then. A later
        # epoch than the group's was undone.
        self.refresh_at_ms = 0
        self.refresh_epoch = 0
        # Live state: topics that have changed since the metadata hash was computed, with their hashes before; None: not
        # known.
        self.changed: dict[str, int | None] = {}
        # Live state: the metadata hash over the topics as they are now; None: not known.
        self.hash_now: int | None = None
        # Live state: the assignment whose parts all members are known to have. Each sample of the metrics asks.
        self._settled_epoch: int | None = None
        # Live state: the names that a member read when its target was computed, and that target, which has no other
        # topics; until a topic changes. Bounded by the members.
        self._all_read: dict[str, tuple[Set[str], T]] = {}
        # Live state: whether no topic has changed since those of the newest assignment were looked up.
        self._is_unchanged = False
        self.journal = Journal()
        # Live state: the members whose newest heartbeat had nothing new. Bounded by the members.
        self.steady: dict[str, SteadyMember[Any]] = {}

    def copied(self) -> Self:
        found = type(self)(self.group_id)
        found.number = self.number
        found.epoch, found.metadata_hash = self.epoch, self.metadata_hash
        found.assignment_epoch, found.assigned_at_ms = self.assignment_epoch, self.assigned_at_ms
        found.members, found.target = dict(self.members), dict(self.target)
        return found

    # ---- metadata ----

    @abstractmethod
    def subscribed_topics(self) -> set[str]:
        """The names of all topics whose metadata the assignment depends on; they need not exist."""

    def named_topics(self) -> Collection[str]:
        """Those of them that the index of topics has."""
        return self.subscribed_topics()

    @property
    def is_wide(self) -> bool:
        """Whether the index does not have all of them."""
        return False

    def topics_changed(self, before: Mapping[str, int | None]) -> None:
        """Subscribed topics were created, changed or deleted: the next heartbeat computes the metadata hash again."""
        self.refresh_at_ms = 0
        self.hash_now = None
        self._all_read = {}
        self._is_unchanged = False
        for name, hash_before in before.items():
            if len(self.changed) < CHANGED_NOTED_MAX:
                self.changed.setdefault(name, hash_before)

    @property
    def is_unchanged(self) -> bool:
        """Whether no topic has changed since `look_up_begins`."""
        return self._is_unchanged

    def look_up_begins(self) -> None:
        """The topics of an assignment, or of a topology, are looked up from now on."""
        self._is_unchanged = True

    def note_read(self, member_id: str, names: Set[str], target: T) -> None:
        """This target has topics of these names alone, as they were when the assignment was computed."""
        if self._is_unchanged and names:
            self._all_read[member_id] = names, target

    def known_read(self, member_id: str, names: Set[str]) -> T | None:
        """A target of the member with topics that all exist, and have these names; None if there may be others."""
        found = self._all_read.get(member_id)
        return found[1] if found is not None and found[0] is names else None

    def put_back(self) -> None:
        """Its removal was undone: topics may have changed meanwhile."""
        self.topics_changed({})

    def metadata_trigger(self, hashes: Mapping[str, int]) -> Trigger:
        """The cause of an epoch that begins because the metadata hash is another one. `hashes` are those of the topics
        now. A change of leaders alone leaves the hash of a topic as it was.
        """
        return Trigger(
            "metadata", topics=sorted(name for name, before in self.changed.items() if hashes.get(name) != before)
        )

    def subscription_changed(self) -> None:
        """The names of the subscribed topics have changed."""
        self.hash_now = None

    def is_refresh_due(self, mono_ms: int) -> bool:
        return mono_ms >= self.refresh_at_ms or self.epoch < self.refresh_epoch

    def refreshed(self, mono_ms: int) -> None:
        """The metadata hash was computed."""
        self.refresh_at_ms = mono_ms + METADATA_REFRESH_MS
        self.refresh_epoch = self.epoch
        if self.changed:
            self.changed = {}

    def known_metadata_hash(self, hashes: Mapping[str, int]) -> int | None:
        """The hash over the subscribed topics, if the hashes of all of them are known, by name."""
        names = self.subscribed_topics()
        found = _of_names(names, hashes) if len(names) <= len(hashes) else {}
        return group_hash(found) if len(found) == len(names) else None

    def compute_metadata_hash(self, image: MetadataImage, hashes: dict[str, int]) -> int:
        """The hash over the subscribed topics that exist. `hashes` are those of topics by name, known or not yet. The
        hashes of many topics have been computed in the order of their names, in which they are needed.
        """
        names = self.subscribed_topics()
        hashes.update(topic_hashes(image.topics.named(names.difference(hashes)), image))
        return group_hash(_of_names(names, hashes))

    # ---- state ----

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def has_members(self) -> bool:
        return bool(self.members)

    def put_member(self, member_id: str, new: E | None) -> E | None:
        """Add, replace or (None) remove a member; returns the old one."""
        self.steady.pop(member_id, None)
        self._settled_epoch = None
        if new is None:
            self._all_read.pop(member_id, None)
            return self.members.pop(member_id, None)
        old = self.members.get(member_id)
        self.members[member_id] = new
        return old

    def put_target(self, member_id: str, new: T | None) -> None:
        """Set the target assignment of a member, or (None) remove it."""
        if new is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = new

    @property
    def assignable(self) -> Any:
        """The partitions that targets may have, as a value; None if those are all of the topics."""
        return None

    def may_assign(self, assignable: Any) -> bool:
        """Whether targets may still have all partitions that were assignable before."""
        return True

    @property
    @abstractmethod
    def no_target(self) -> T:
        """The target of a member without an assignment."""

    def target_of(self, member_id: str) -> T:
        """The target of a member in the epoch of the assignment."""
        known = self.target.get(member_id)
        if known is None:
            # It has left, or joined since.
            return self.no_target
        # A static member that came back meanwhile is not among those shown.
        return known if self.shown is None else self.shown.get(member_id, known)

    def member(self, member_id: str) -> E:
        """Raises KafkaError(UNKNOWN_MEMBER_ID)."""
        found = self.members.get(member_id)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not a member of the group {self.group_id}")
        return found

    def loaded(self, machine: GroupTable, step: GroupStep, now: Now) -> None:
        """All sessions begin again."""
        self.start_deadlines(machine, self.members, now)

    @abstractmethod
    def start_deadlines(self, machine: GroupTable, member_ids: Iterable[str], now: Now) -> None:
        """Set the deadlines of those of these members that the group has: it was loaded, or their removal was
        undone.
        """

    @property
    def is_stable(self) -> bool:
        """Whether every member has its part of the newest assignment."""
        assignment_epoch = self.assignment_epoch
        if self.epoch > assignment_epoch:
            return False
        if self._settled_epoch != assignment_epoch and all(
            member.is_reconciled_to(assignment_epoch) for member in self.members.values()
        ):
            self._settled_epoch = assignment_epoch
        return self._settled_epoch == assignment_epoch


def _of_names(names: Set[str], hashes: Mapping[str, int]) -> Mapping[str, int]:
    """The hashes of these topics: most of the time, those of all or of many topics, whose order is kept then."""
    if len(names) == len(hashes) and hashes.keys() == names:
        return hashes
    if 4 * len(names) > len(hashes):
        return {name: value for name, value in hashes.items() if name in names}
    return {name: hashes[name] for name in names if name in hashes}


class ModernGroup(EpochGroup[M, Assignment]):
    """Invariant: `by_name[topic]` is the number of members that name the topic, never 0."""

    __slots__ = ("by_name",)

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.by_name: dict[str, int] = {}

    def copied(self) -> Self:
        found = super().copied()
        found.by_name = dict(self.by_name)
        return found

    @property
    def has_equal_names(self) -> bool:
        """Whether all members name the same topics."""
        everyone = len(self.members)
        return all(count == everyone for count in self.by_name.values())

    def subscribed_topics(self) -> set[str]:
        """The names of all topics that members read."""
        return set(self.by_name)

    def named_topics(self) -> Collection[str]:
        return () if len(self.by_name) > INDEXED_MAX else self.by_name

    @property
    def is_wide(self) -> bool:
        return len(self.by_name) > INDEXED_MAX

    def is_subscribed(self, topic: str) -> bool:
        return topic in self.by_name

    def read_of(self, topics: Set[str]) -> Set[str]:
        return self.by_name.keys() & topics

    def shared_names(self, names: Iterable[str]) -> frozenset[str]:
        """The names that a member gives, as one object with those of the first member if they are the same: 10,000 take
        1 MB, and sets are compared name by name.
        """
        found = frozenset(names)
        first = next(iter(self.members.values()), None)
        return first.topics if first is not None and first.topics == found else found

    def put_member(self, member_id: str, new: M | None) -> M | None:
        old = super().put_member(member_id, new)
        before, after = (frozenset[str]() if each is None else each.topics for each in (old, new))
        # Sets are compared name by name.
        if before is not after and before != after:
            self._count_names(before - after, after - before)
        return old

    def _count_names(self, gone: frozenset[str], came: frozenset[str]) -> None:
        """One member names other topics. Those that no other member names are counted together: there may be 10,000."""
        counts = self.by_name
        fresh = came - counts.keys() if came else came
        count(counts, came - fresh, 1)
        counts.update(dict.fromkeys(fresh, 1))
        size = len(counts)
        count(counts, gone, -1)
        if fresh or len(counts) < size:
            self.subscription_changed()

    @property
    def no_target(self) -> Assignment:
        return NO_PARTITIONS


class TopicsRead:
    """Those of the named topics that exist. The names are not looked up: a member may read 10,000 topics, and have
    partitions of a few. `known` has such topics alone.
    """

    __slots__ = ("_known", "_names", "_topics")

    def __init__(self, names: Set[str], image: MetadataImage, known: Assignment | None = None) -> None:
        self._names = names
        self._topics = image.topics
        self._known = known

    def part_of(self, held: Mapping[UUID, V]) -> Mapping[UUID, V]:
        """The part of these topics that is read: usually all, which is the same object then. All ids are looked up at
        once: there may be 1,000.
        """
        if held is self._known:
            return held
        topics, names = self._topics.with_ids(held), self._names
        if not [topic for topic in topics if topic is None or topic.name not in names]:
            return held
        return {
            topic_id: value
            for (topic_id, value), topic in zip(held.items(), topics, strict=True)
            if topic is not None and topic.name in names
        }
