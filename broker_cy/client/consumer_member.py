"""A member of a group of consumers without input or output: a GroupMember of partitions, and their offsets.

    STABLE -> OffsetFetch of new partitions -> located -> OffsetCommit ...

`committed` has the committed offset of each owned partition, -1 without one, as soon as it is known; `is_located` says
that all are. The host reads from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from broker_cy.client.consumer_protocol import (
    ASSIGNORS,
    COOPERATIVE_STICKY,
    PROTOCOL_TYPE,
    RANGE,
    Partition,
    Subscriber,
    Subscription,
    assignment_bytes,
    assignment_of,
    by_topic,
    subscription_bytes,
    subscription_of,
)
from broker_cy.client.group_member import Assign, GroupMember, MemberSettings, Mode, Revoke, Send, State
from broker_cy.core.errors import ErrorCode, WireError
from broker_cy.wire import messages

# A Partition, or a subclass of it.
P = TypeVar("P", bound=Partition)
OFFSET_FETCH, OFFSET_COMMIT = "OffsetFetch", "OffsetCommit"
# The last version of OffsetFetch for a single group, and of OffsetCommit with names of topics.
OFFSET_FETCH_ONE_GROUP, OFFSET_COMMIT_BY_NAME = 7, 9
NOT_COMMITTED = -1


class ConsumerProtocol:
    """The subscription of a member. It is cooperative only if all its assignors are, as in Kafka."""

    protocol_type = PROTOCOL_TYPE

    def __init__(self, topics: Sequence[str], assignors: Sequence[str] = (RANGE,)) -> None:
        if unknown := [name for name in assignors if name not in ASSIGNORS]:
            raise ValueError(f"assignor {unknown[0]!r} is not known (allowed: {', '.join(ASSIGNORS)})")
        self.topics, self.assignors = tuple(topics), tuple(assignors)
        self.mode = Mode.COOPERATIVE if set(assignors) == {COOPERATIVE_STICKY} else Mode.EAGER

    def metadata(self, owned: frozenset[Partition]) -> list[tuple[str, bytes]]:
        data = subscription_bytes(Subscription(self.topics, owned))
        return [(name, data) for name in self.assignors]

    def parts(self, assignment: bytes) -> frozenset[Partition]:
        return assignment_of(assignment)


def topics_of(task: Assign) -> list[str]:
    """Return the topics of all members of a group, whose partitions its leader distributes."""
    found: set[str] = set()
    for each in task.members:
        with suppress(WireError):
            found.update(subscription_of(each.metadata).topics)
    return sorted(found)


class ConsumerMember(GroupMember[Partition]):
    """One member. `committed`: see the module."""

    def __init__(self, settings: MemberSettings, protocol: ConsumerProtocol) -> None:
        super().__init__(settings, protocol)
        self.committed: dict[Partition, int] = {}

    def distribute(self, task: Assign, partitions: Mapping[str, int]) -> None:
        """Perform the leader's task: `partitions` has the number of partitions of each topic, and lacks unknown ones.
        A member with metadata that cannot be decoded makes this one fail.
        """
        try:
            members = [
                Subscriber(each.member_id, each.instance_id, subscription_of(each.metadata)) for each in task.members
            ]
            parts = ASSIGNORS[task.protocol](members, partitions)
        except (WireError, KeyError):
            if task.epoch == self.epoch:
                self.fail(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            return
        self.assigned(task, {member_id: assignment_bytes(theirs) for member_id, theirs in parts.items()})

    @property
    def is_located(self) -> bool:
        """Whether the member has its partitions, and the committed offset of each."""
        return self.state is State.STABLE and not self.must_rejoin and self.owned == self.committed.keys()

    def next(self, now_s: float, *, may_join: bool = True) -> Send | Revoke[Partition] | Assign | None:
        found = super().next(now_s, may_join=may_join)
        if (
            found is None
            and self.state is State.STABLE
            and now_s >= self._retry_s
            and self.owned - self.committed.keys()
        ):
            return self._fetch_offsets()
        return found

    def _fetch_offsets(self) -> Send:
        wanted = messages.OffsetFetchRequest.OffsetFetchRequestTopic
        request = messages.OffsetFetchRequest(
            group_id=self.settings.group_id,
            topics=[
                wanted(name=topic, partition_indexes=numbers)
                for topic, numbers in by_topic(self.owned - self.committed.keys())
            ],
            require_stable=True,
        )
        return self.send(OFFSET_FETCH, request, messages.OffsetFetchResponse, at_most=OFFSET_FETCH_ONE_GROUP)

    def relocate(self) -> None:
        """Request the committed offsets again."""
        self.committed = {}

    def commit(self, offsets: Mapping[P, int]) -> Send | None:
        """Return a commit of the next offsets of owned partitions; None without any, or outside of the group."""
        mine: dict[Partition, int] = {key: offset for key, offset in offsets.items() if key in self.owned}
        if self.generation < 0 or not mine:
            return None
        part = messages.OffsetCommitRequest.OffsetCommitRequestPartition
        topic = messages.OffsetCommitRequest.OffsetCommitRequestTopic
        request = messages.OffsetCommitRequest(
            group_id=self.settings.group_id,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.settings.instance_id,
            topics=[
                topic(
                    name=name,
                    partitions=[
                        part(partition_index=number, committed_offset=mine[name, number]) for number in numbers
                    ],
                )
                for name, numbers in by_topic(mine)
            ],
        )
        return self.send(OFFSET_COMMIT, request, messages.OffsetCommitResponse, at_most=OFFSET_COMMIT_BY_NAME)

    def take(self, send: Send, answer: Any, now_s: float) -> str:
        name = super().take(send, answer, now_s)
        if send.api == OFFSET_FETCH and not name and self.is_of_now(send) and send.generation == self.generation:
            found = {
                (topic.name, each.partition_index): each.committed_offset
                for topic in answer.topics
                for each in topic.partitions
            }
            for topic in send.request.topics:
                for number in topic.partition_indexes:
                    self.committed[topic.name, number] = found.get((topic.name, number), NOT_COMMITTED)
        self._forget_others()
        return name

    def revoked(self, parts: Iterable[Partition]) -> None:
        super().revoked(parts)
        self._forget_others()

    def forget(self) -> None:
        super().forget()
        self._forget_others()

    def _forget_others(self) -> None:
        self.committed = {key: offset for key, offset in self.committed.items() if key in self.owned}
