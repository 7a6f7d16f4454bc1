"""A share group: its members, and its share partitions. All of it follows from records, but for the live state of
initializations and deletions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn, Self
from uuid import UUID

from broker_cy.coordinator.assignors.spec import Assignment
from broker_cy.coordinator.group import CommitCheck, Group, GroupTable, GroupType
from broker_cy.coordinator.modern.group import ModernGroup
from broker_cy.coordinator.offset_record import CommittedOffset
from broker_cy.coordinator.share.member import ShareMember
from broker_cy.coordinator.share.state_partitions import NO_SHARE_PARTITIONS, Partitions, SharePartitions, without
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.step import Now
from broker_cy.wire import messages


class SharePartitionsBefore(NamedTuple):
    """The share partitions of a group before a record."""

    group_id: str
    share_partitions: SharePartitions

    def undo(self, group: Group | None) -> Group | None:
        if isinstance(group, ShareGroup):
            group.put_share_partitions(self.share_partitions)
        return group

    def restore(self, machine: GroupTable) -> None:
        self.undo(machine.groups[self.group_id])


class ShareGroup(ModernGroup[ShareMember]):
    """It stays without members, until it is deleted, and commits no offsets."""

    __slots__ = ("asked_at_ms", "has_stateless", "has_unassigned", "share_partitions", "under_way")

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.share_partitions: SharePartitions = NO_SHARE_PARTITIONS
        # Live state, by topic: when the state of its initializing partitions was last asked for (monotonic), and the
        # number of requests to the share coordinator that are under way.
        self.asked_at_ms: dict[UUID, int] = {}
        self.under_way: dict[UUID, int] = {}
        # Whether partitions that the group may read are assigned to no member; None: not known.
        self.has_unassigned: bool | None = None
        # Whether partitions of topics that members read have no state; None: not known. A search that finds None at its
        # end is out of date.
        self.has_stateless: bool | None = None

    def copied(self) -> Self:
        found = super().copied()
        found.share_partitions = self.share_partitions
        return found

    # ---- what any group has ----

    @property
    def group_type(self) -> GroupType:
        return GroupType.SHARE

    @property
    def state_name(self) -> str:
        return "Stable" if self.members else "Empty"

    @property
    def listed_protocol_type(self) -> str:
        return "share"

    @property
    def is_unused(self) -> bool:
        return False

    def check_deletion(self) -> ErrorCode:
        """The state of its share partitions is deleted first (`deletion`); it may get some again meanwhile. Clients
        repeat the request.
        """
        if self.members:
            return ErrorCode.NON_EMPTY_GROUP
        state = self.share_partitions
        has_state = bool(state.initializing or state.initialized or self.under_way)
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if has_state else ErrorCode.NONE

    # ---- offsets: share groups commit none ----

    def check_commit(
        self, machine: GroupTable, request: messages.OffsetCommitRequest, version: int, now: Now
    ) -> CommitCheck | None:
        self._refuse()

    def check_transactional_commit(self, request: messages.TxnOffsetCommitRequest) -> CommitCheck | None:
        self._refuse()

    def check_offset_deletion(self) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{self.group_id} is a share group, which commits no offsets")

    def shows_offsets(self, request: messages.OffsetFetchRequest.OffsetFetchRequestGroup) -> bool:
        return False

    def retention_begin(self) -> Callable[[CommittedOffset], int] | None:
        return None

    # ---- members ----

    def put_member(self, member_id: str, new: ShareMember | None) -> ShareMember | None:
        old = super().put_member(member_id, new)
        if old is None or new is None or (old.topics is not new.topics and old.topics != new.topics):
            self._partitions_changed()
        return old

    def put_target(self, member_id: str, new: Assignment | None) -> None:
        self._partitions_changed()
        super().put_target(member_id, new)

    def topics_changed(self, before: Mapping[str, int | None]) -> None:
        self._partitions_changed()
        super().topics_changed(before)

    def _partitions_changed(self) -> None:
        """The next heartbeat looks again for partitions without a member, and without state."""
        self.has_unassigned = self.has_stateless = None
        self.steady.clear()

    # ---- share partitions ----

    @property
    def assignable(self) -> Partitions:
        return self.share_partitions.initialized

    def may_assign(self, assignable: Partitions) -> bool:
        """Whether none of these partitions has lost its state."""
        known = self.assignable
        return assignable is known or not without(assignable, known)

    def note_request(self, topic_ids: Iterable[UUID], mono_ms: int) -> None:
        """State of partitions of these topics is asked for now. Bounded by the topics of `share_partitions`."""
        known = self.share_partitions.topic_ids
        kept = {topic_id: asked_ms for topic_id, asked_ms in self.asked_at_ms.items() if topic_id in known}
        self.asked_at_ms = kept | dict.fromkeys(topic_ids, mono_ms)

    def call_begins(self, topic_ids: Iterable[UUID]) -> None:
        """The share coordinator is asked about partitions of these topics."""
        counts = dict.fromkeys(topic_ids, 1)
        for topic_id in set(counts).intersection(set(self.under_way)):
            counts[topic_id] += self.under_way[topic_id]
        self.under_way.update(counts)

    def call_ends(self, topic_ids: Iterable[UUID]) -> None:
        """It has answered, or it is not asked."""
        for topic_id in topic_ids:
            count = self.under_way.pop(topic_id) - 1
            if count:
                self.under_way[topic_id] = count

    def put_share_partitions(self, new: SharePartitions) -> None:
        self._partitions_changed()
        self.share_partitions = new
