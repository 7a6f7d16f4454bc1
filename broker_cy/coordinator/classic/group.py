"""A classic group: its members, generation and state. All of this is live state; `record` is the durable part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_cy.coordinator.classic import subscription
from broker_cy.coordinator.classic.journal import Journal
from broker_cy.coordinator.classic.member import ClassicMember, Protocols
from broker_cy.coordinator.classic.state import PREDECESSORS, GroupState
from broker_cy.coordinator.group import CommitCheck, Group, GroupType, names_member
from broker_cy.coordinator.offset_record import CommittedOffset
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.step import Token
from broker_cy.wire import messages

CONSUMER_PROTOCOL_TYPE = "consumer"


class ClassicGroup(Group):
    """Invariants: `leader_id` names a member, or is None in an empty group. `static_members` maps the instance id of
    each static member to its member id. `pending_members` (ids handed out by KIP-394, not joined yet) and `members` are
    disjoint. `pending_sync` (members of this generation whose SyncGroup has not come) is a subset of `members`.
    `waiting_joins` counts the members whose JoinGroup waits.
    """

    __slots__ = (
        "conversion",
        "generation",
        "initial_delay",
        "journal",
        "leader_id",
        "members",
        "new_member_added",
        "pending_members",
        "pending_sync",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "record",
        "speakers",
        "state",
        "state_timestamp_ms",
        "static_members",
        "subscribed_topics",
        "waiting_joins",
    )

    def __init__(self, group_id: str, wall_ms: int | None) -> None:
        super().__init__(group_id)
        # The value of its newest record; None for a group without one, which has only committed offsets or is new.
        self.record: bytes | None = None
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        # Wall clock of the last change of state; None in records of old Kafka versions.
        self.state_timestamp_ms = wall_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        self.pending_members: set[str] = set()
        self.pending_sync: set[str] = set()
        self.waiting_joins = 0
        # The number of members that support each protocol, so that a join need not walk over all members.
        self.speakers: dict[str, int] = {}
        # Topics of the members' subscriptions; None unless they use the consumer protocol and it could be read.
        self.subscribed_topics: frozenset[str] | None = None
        # First rebalance of an empty group: whether a member came since the delay began, and (delay, the rest of it) in
        # ms.
        self.new_member_added = False
        self.initial_delay: tuple[int, int] | None = None
        self.journal = Journal()
        # The consumer group that a worker has made of it (a `consumer.upgrade.Conversion`), until a member joins by the
        # consumer protocol.
        self.conversion: Any = None

    # ---- what any group has ----

    @property
    def group_type(self) -> GroupType:
        return GroupType.CLASSIC

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def listed_protocol_type(self) -> str:
        return self.protocol_type or ""

    @property
    def is_unused(self) -> bool:
        return self.state is GroupState.EMPTY

    def check_transactional_commit(self, request: messages.TxnOffsetCommitRequest) -> CommitCheck | None:
        """As in any group. A rebalance in progress is no reason to refuse."""
        if not names_member(request) or (request.generation_id < 0 and self.state is GroupState.EMPTY):
            return None
        code = self.member_error(request.member_id, request.group_instance_id)
        if code is not ErrorCode.NONE:
            raise KafkaError(code)
        if request.generation_id != self.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        return None

    def shows_offsets(self, request: messages.OffsetFetchRequest.OffsetFetchRequestGroup) -> bool:
        return True

    def check_offset_deletion(self) -> None:
        if self.state is not GroupState.EMPTY and not self.uses_consumer_protocol:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def check_deletion(self) -> ErrorCode:
        return ErrorCode.NONE if self.state is GroupState.EMPTY else ErrorCode.NON_EMPTY_GROUP

    def is_subscribed(self, topic: str) -> bool:
        """Return whether the members read `topic`, or might read it if their subscriptions are not known."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def retention_begin(self) -> Callable[[CommittedOffset], int] | None:
        if self.protocol_type is None:
            # A group without members ever: offsets of consumers that assign their partitions themselves.
            return lambda offset: offset.commit_timestamp_ms
        if self.state is GroupState.EMPTY:
            empty_since_ms = self.state_timestamp_ms
            return lambda offset: offset.commit_timestamp_ms if empty_since_ms is None else empty_since_ms
        if self.state is GroupState.STABLE and self.uses_consumer_protocol and self.subscribed_topics is not None:
            # Offsets of topics that the group no longer reads.
            return lambda offset: offset.commit_timestamp_ms
        return None

    # ---- properties ----

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def can_rebalance(self) -> bool:
        return self.state in PREDECESSORS[GroupState.PREPARING_REBALANCE]

    @property
    def all_joined(self) -> bool:
        return len(self.members) == self.waiting_joins and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id is not None and self.leader_id == member_id

    def member_error(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Return NONE if the pair names a member; FENCED_INSTANCE_ID if another member has taken over the instance
        id.
        """
        if instance_id is not None:
            holder = self.static_members.get(instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Return whether a member with these `protocols` can join: all current members support at least one of them."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        everyone = len(self.members)
        return self.protocol_type == protocol_type and any(
            self.speakers.get(name, 0) == everyone for name, _ in protocols
        )

    # ---- members ----

    def add(self, member: ClassicMember, join_token: Token | None) -> None:
        """Add a new member whose protocols are supported. The first one sets the protocol type and becomes leader."""
        if member.member_id in self.members or (
            member.instance_id is not None and member.instance_id in self.static_members
        ):
            raise ValueError(f"{member.member_id} is already a member of {self.group_id}")
        if not self.members:
            self.protocol_type = member.protocol_type
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member.protocols, 1)
        self.pending_members.discard(member.member_id)
        self.set_join_token(member, join_token)

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending member id. Its waiting requests must have been answered."""
        member = self.members.get(member_id)
        if member is not None:
            if member.join_token is not None or member.sync_token is not None:
                raise ValueError(f"a request of member {member_id} of {self.group_id} waits for its answer")
            del self.members[member_id]
            self._count_protocols(member.protocols, -1)
            if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
                del self.static_members[member.instance_id]
        if self.is_leader(member_id):
            self.leader_id = next(iter(self.members), None)
        self.pending_members.discard(member_id)
        self.pending_sync.discard(member_id)

    def replace_static(self, instance_id: str, old_id: str, new_id: str) -> ClassicMember:
        """Give a static member another member id, keeping its place, role and assignment. Returns the new one."""
        old = self.members[old_id]
        if old.join_token is not None or old.sync_token is not None:
            raise ValueError(f"a request of member {old_id} of {self.group_id} waits for its answer")
        new = ClassicMember(
            new_id,
            instance_id,
            old.client_id,
            old.client_host,
            old.rebalance_timeout_ms,
            old.session_timeout_ms,
            old.protocol_type,
            old.protocols,
            old.assignment,
        )
        del self.members[old_id]
        self.members[new_id] = new
        if old_id in self.pending_sync:
            self.pending_sync.discard(old_id)
            self.pending_sync.add(new_id)
        if self.is_leader(old_id):
            self.leader_id = new_id
        self.static_members[instance_id] = new_id
        return new

    def update(
        self, member: ClassicMember, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        """Update the protocols and timeouts of a member that joined again."""
        self._count_protocols(member.protocols, -1)
        member.protocols = protocols
        self._count_protocols(protocols, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def set_join_token(self, member: ClassicMember, token: Token | None) -> Token | None:
        """Set the JoinGroup of the member that waits; returns the previous one."""
        before = member.join_token
        member.join_token = token
        self.waiting_joins += (token is not None) - (before is not None)
        return before

    # ---- generations ----

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it waits for the join to end, otherwise select the first member that waits. False if none
        does.
        """
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].join_token is not None:
            return True
        for member in self.members.values():
            if member.join_token is not None:
                self.leader_id = member.member_id
                return True
        return False

    def select_protocol(self) -> str:
        """Select the protocol that all members support and most of them prefer; among equals the one voted for
        first.
        """
        candidates = {name for name, count in self.speakers.items() if count == len(self.members)}
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def next_generation(self, wall_ms: int) -> None:
        """End the join phase: COMPLETING_REBALANCE with members, EMPTY without."""
        self.generation += 1
        self.conversion = None
        self.protocol_name = self.select_protocol() if self.members else None
        self.refresh_subscription()
        self.transition(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, wall_ms)
        self.pending_sync.clear()

    def refresh_subscription(self) -> None:
        """Read from the members' metadata which topics they subscribe to."""
        self.subscribed_topics = None
        if not self.uses_consumer_protocol:
            return
        if not self.members:
            self.subscribed_topics = frozenset()
        elif self.protocol_name is not None:
            self.subscribed_topics = subscription.topics_of(
                member.metadata(self.protocol_name) for member in self.members.values()
            )

    def transition(self, state: GroupState, wall_ms: int) -> None:
        """Change the state; ValueError for a change that PREDECESSORS does not allow."""
        if self.state not in PREDECESSORS[state]:
            raise ValueError(f"group {self.group_id} cannot go from {self.state.value} to {state.value}")
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = wall_ms

    def _count_protocols(self, protocols: Protocols, change: int) -> None:
        for name in {name for name, _ in protocols}:
            count = self.speakers.get(name, 0) + change
            if count:
                self.speakers[name] = count
            else:
                del self.speakers[name]
