"""A consumer group: members, who holds which partition, and its regular expressions. All of it follows from records."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Self
from uuid import UUID

from broker_cy.coordinator.assignors.spec import Assignment
from broker_cy.coordinator.consumer.member import NOTHING_ASSIGNED, AssignedEpochs, ConsumerMember
from broker_cy.coordinator.consumer.reconcile import Gains
from broker_cy.coordinator.group import GroupType
from broker_cy.coordinator.modern.commits import CommittingGroup
from broker_cy.coordinator.modern.group import ModernGroup
from broker_cy.coordinator.modern.member import MemberState
from broker_cy.coordinator.modern.topic_values import added_to, count, disown, has_other_epochs, other_values, own
from broker_cy.core.classes import NamedTuple

if TYPE_CHECKING:
    from broker_cy.wire.codec import EncodedElements
    from broker_cy.wire.messages import ConsumerGroupHeartbeatResponse


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matched, with the version of the metadata and the time."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class Paged(NamedTuple):
    """The parts of a member that gets its partitions in pages. They are of use while it has `assigned` as this object,
    and `target` is its target: then `left` are the topics that it may still get, in the order in which they are tried.
    `encoded` are the structures of `assigned` as its record has them, `answered` as the answers have them.
    """

    assigned: AssignedEpochs
    target: Assignment
    left: Gains
    encoded: EncodedElements
    answered: list[ConsumerGroupHeartbeatResponse.TopicPartitions]


class Difference(NamedTuple):
    """The partitions that a member with very many topics keeps, those that it has to give up, and the topics that it is
    then to get, in their order. It is of use while the member has `assigned` or `kept` as these objects, reads the
    topics of `names`, and `target` is its target. `encoded` and `encoded_gone` are the structures of `kept` and `gone`
    as the record of a member has them, `answered` those of `kept` as the answers have them.
    """

    assigned: AssignedEpochs
    target: Assignment
    names: frozenset[str]
    kept: AssignedEpochs
    gone: AssignedEpochs
    left: Gains
    encoded: EncodedElements
    encoded_gone: EncodedElements
    answered: list[ConsumerGroupHeartbeatResponse.TopicPartitions]


class ConsumerGroup(ModernGroup[ConsumerMember], CommittingGroup[ConsumerMember, Assignment]):
    """Invariants: `owners` has each partition that a member holds, with that member's id; its values are replaced and
    never changed, as many topics have the same one. `static_members` maps each instance id to its member.
    `regex_members`, `assignors` and `classic_protocols` count members, and are never 0.
    """

    __slots__ = (
        "assignors",
        "by_regex",
        "classic_members",
        "classic_protocols",
        "comparing",
        "differences",
        "has_partition_metadata",
        "held_total",
        "owners",
        "pages",
        "prompted",
        "regex_members",
        "resolved",
        "static_members",
        "unreleased",
    )

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.static_members: dict[str, str] = {}
        self.owners: dict[UUID, Mapping[int, str]] = {}
        # The number of partitions in it.
        self.held_total = 0
        self.regex_members: dict[str, int] = {}
        self.resolved: dict[str, ResolvedRegex] = {}
        # The number of resolved expressions that match each topic, never 0.
        self.by_regex: dict[str, int] = {}
        self.assignors: dict[str, int] = {}
        # Members that use the classic protocol, and the number of them that support each of its protocols.
        self.classic_members = 0
        self.classic_protocols: dict[str, int] = {}
        # The number of members that wait for partitions of others.
        self.unreleased = 0
        # Live state: when members that were told a shorter interval send their next heartbeat (monotonic). An entry in
        # the past says nothing. Bounded by the members.
        self.prompted: dict[str, int] = {}
        # Live state: the members that get more than one answer can give, in pages. Bounded by the members.
        self.pages: dict[str, Paged] = {}
        # Live state: the members with very many topics whose difference to their target is being looked up, and the
        # results, until they are used. Bounded by the members.
        self.comparing: set[str] = set()
        self.differences: dict[str, Difference] = {}
        # Whether the log has a record of Kafka before 4.1 that the metadata hash replaces.
        self.has_partition_metadata = False

    def copied(self) -> Self:
        found = super().copied()
        found.by_regex = self.by_regex.copy()
        found.static_members = dict(self.static_members)
        found.held_total = self.held_total
        found.owners = dict(self.owners)
        found.regex_members, found.resolved = dict(self.regex_members), dict(self.resolved)
        found.assignors = dict(self.assignors)
        found.classic_members, found.classic_protocols = self.classic_members, dict(self.classic_protocols)
        found.unreleased = self.unreleased
        found.has_partition_metadata = self.has_partition_metadata
        return found

    # ---- what any group has ----

    @property
    def group_type(self) -> GroupType:
        return GroupType.CONSUMER

    @property
    def listed_protocol_type(self) -> str:
        return "consumer"

    def is_subscribed(self, topic: str) -> bool:
        return topic in self.by_name or topic in self.by_regex

    def read_of(self, topics: Set[str]) -> Set[str]:
        return (self.by_name.keys() & topics) | (self.by_regex.keys() & topics)

    def subscribed_topics(self) -> set[str]:
        return {*self.by_name, *self.by_regex}

    @property
    def is_wide(self) -> bool:
        return super().is_wide or bool(self.by_regex)

    def put_back(self) -> None:
        super().put_back()
        # Results that came meanwhile were dropped.
        self.comparing.clear()

    # ---- commits ----

    def sends_epochs(self, member: ConsumerMember) -> bool:
        return member.classic is None

    def assigned_since(self, member: ConsumerMember, topic: str, topic_id: UUID, partition: int) -> int | None:
        return member.assigned_at(topic_id, partition)

    # ---- members ----

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def is_held(self, topic_id: UUID, partition: int) -> bool:
        """Whether a member holds the partition, also if it has been asked to give it up."""
        return partition in self.owners.get(topic_id, ())

    def holder(self, topic_id: UUID, partition: int) -> ConsumerMember | None:
        """The member that holds the partition."""
        return self.members.get(self.owners.get(topic_id, {}).get(partition, ""))

    def put_member(self, member_id: str, new: ConsumerMember | None) -> ConsumerMember | None:
        old = super().put_member(member_id, new)
        had_regexes = bool(self.regex_members)
        self._count(old, new)
        if self.regex_members and not had_regexes:
            self.steady.clear()
        self._move(member_id, old, new)
        if old is not None and old.instance_id is not None and self.static_members.get(old.instance_id) == member_id:
            del self.static_members[old.instance_id]
        if new is None:
            self.prompted.pop(member_id, None)
            self.pages.pop(member_id, None)
            self.differences.pop(member_id, None)
        elif new.instance_id is not None:
            self.static_members[new.instance_id] = member_id
        return old

    def _count(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        _count(self.regex_members, old and old.regex, new and new.regex)
        _count(self.assignors, old and old.assignor, new and new.assignor)
        self.unreleased += _is_unreleased(new) - _is_unreleased(old)
        was, is_now = (None if each is None else each.classic for each in (old, new))
        if was != is_now:
            self.classic_members += (is_now is not None) - (was is not None)
            for classic, change in ((was, -1), (is_now, 1)):
                for name in () if classic is None else {name for name, _ in classic.protocols}:
                    _add(self.classic_protocols, name, change)

    # ---- who holds which partition: a member may hold those of 10,000 topics ----

    def _move(self, member_id: str, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """The member holds what `new` has, and no longer what `old` has. A log that is compacted while it is read may
        show two holders for a while: the newest record is right.
        """
        was, has = (NOTHING_ASSIGNED if each is None else each.assigned for each in (old, new))
        gives = NOTHING_ASSIGNED if new is None else new.revoking
        if old is not None and new is not None and not old.revoking:
            if (was is has or has_other_epochs(was, has)) and not gives:
                return
            added = added_to(was, has) if was else None
            if added is not None:
                self.held_total += own(self.owners, member_id, added)
                self._hold(member_id, gives, NOTHING_ASSIGNED)
                return
        if old is not None:
            self._release(member_id, old, has, gives)
        if new is not None:
            self._hold(member_id, has, was)
            self._hold(member_id, gives, was)

    def _release(self, member_id: str, member: ConsumerMember, has: AssignedEpochs, gives: AssignedEpochs) -> None:
        """Release what a member held. It goes on to hold what it has, or has to give up, as the same value."""
        owners = self.owners
        if not has and not gives and self.members.keys() <= {member_id}:
            # No other member holds anything.
            owners.clear()
            self.held_total = 0
            return
        for held in (member.assigned, member.revoking):
            for others in (has, gives):
                if held and others:
                    held = other_values(held, others)[0]
            self.held_total -= disown(owners, member_id, held)

    def _hold(self, member_id: str, held: AssignedEpochs, before: AssignedEpochs) -> None:
        new = other_values(held, before)[0] if held and before else held
        self.held_total += own(self.owners, member_id, new.items())

    # ---- regular expressions ----

    def put_regex(self, regex: str, new: ResolvedRegex | None) -> None:
        """Set the topics that an expression matches, or (None) remove them. The topics that it goes on to match are not
        counted again: there may be 10,000.
        """
        old = self.resolved.pop(regex, None)
        if new is not None:
            self.resolved[regex] = new
        before, after = (frozenset[str]() if each is None else each.topics for each in (old, new))
        gone, came = before - after, after - before
        counts = self.by_regex
        fresh = came - counts.keys() if came else came
        count(counts, came - fresh, 1)
        counts.update(dict.fromkeys(fresh, 1))
        if self.resolved:
            count(counts, gone, -1)
        else:
            counts.clear()
        if gone or came:
            self.subscription_changed()

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The names of the topics that the member reads. An expression without a result matches nothing yet."""
        return topics_read(member, self.resolved)

    @property
    def subscription_count(self) -> int:
        """The sum over its members of the topics that they read."""
        named = sum(self.by_name.values())
        return named + sum(
            count * len(self.resolved[regex].topics)
            for regex, count in self.regex_members.items()
            if regex in self.resolved
        )

    # ---- assignment ----

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members read the same topics: all by the same names, or all by one expression."""
        if not self.regex_members:
            return self.has_equal_names
        if next(iter(self.regex_members.values())) != len(self.members):
            return False
        return not self.by_name and self.resolved.keys() <= self.regex_members.keys()

    def preferred_assignor(self, default: str) -> str:
        """The assignor that most members with a preference want; `default` if none has one. A tie goes to "uniform",
        as in Kafka: any coordinator gets the same one.
        """
        return max(sorted(self.assignors, reverse=True), key=self.assignors.__getitem__, default=default)


def topics_read(member: ConsumerMember, resolved: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    """`ConsumerGroup.topics_of`, given the resolved expressions."""
    found = resolved.get(member.regex) if member.regex else None
    if found is None:
        return member.topics
    # The members of one expression share its topics: there may be 10,000 of them.
    return member.topics | found.topics if member.topics else found.topics


def _is_unreleased(member: ConsumerMember | None) -> bool:
    return member is not None and member.state is MemberState.UNRELEASED_PARTITIONS


def _count(counts: dict[str, int], old: str | None, new: str | None) -> None:
    """Count a name out and another one in. An empty name is none."""
    if old != new:
        if old:
            _add(counts, old, -1)
        if new:
            _add(counts, new, 1)


def _add(counts: dict[str, int], name: str, change: int) -> None:
    count = counts.get(name, 0) + change
    if count:
        counts[name] = count
    else:
        del counts[name]
