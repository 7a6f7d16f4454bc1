"""A member of a consumer group of the newer protocol (KIP-848), without input or output: for hosts of ConsumerMember.

    UNJOINED -> ConsumerGroupHeartbeat of epoch 0 -> STABLE -> ConsumerGroupHeartbeat ... -> ConsumerGroupHeartbeat -1

The coordinator assigns the partitions, and tells them in answers to heartbeats. If they are other ones than the host
uses, the member wants to join again, as the hosts call it: the host gives up what it has, and gets the new partitions
at once. The next heartbeat reports them, so that the coordinator gives those that were given up to other members.

`generation` is the epoch of the member. The coordinator sets the session timeout and the heartbeat interval.
HeartbeatMember has the part that streams groups share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from broker_cy.client.consumer_member import NOT_COMMITTED, OFFSET_FETCH, ConsumerMember, ConsumerProtocol
from broker_cy.client.consumer_protocol import Partition, by_topic
from broker_cy.client.group_member import (
    RETRY_S,
    Assign,
    MemberSettings,
    Revoke,
    Send,
    State,
    error_name,
)
from broker_cy.client.heartbeat_member import JOIN_EPOCH, LEAVE_EPOCH, HeartbeatMember, Outcome, outcome_of
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages

EPOCH_HEARTBEAT: Final = "ConsumerGroupHeartbeat"
# The version of OffsetFetch with member epochs, which still has names of topics.
_OFFSET_FETCH_BY_NAME: Final = 9


class EpochMember(HeartbeatMember[Partition], ConsumerMember):
    """One member. `names` are the topics that it knows by id, `new_id` makes the id of a new member."""

    def __init__(
        self,
        settings: MemberSettings,
        topics: Sequence[str],
        names: Mapping[UUID, str],
        new_id: Callable[[], str],
    ) -> None:
        super().__init__(settings, ConsumerProtocol(topics), new_id)
        self._topics, self._names = tuple(topics), names

    # ---- actions ----

    def next(self, now_s: float, *, may_join: bool = True) -> Send | Revoke[Partition] | Assign | None:
        if self.state is State.FAILED or now_s < self._retry_s:
            return None
        if may_join and self.must_rejoin:
            if self.owned:
                return Revoke(self.owned)
            self.owned, self.must_rejoin, self._reports = self._target, False, True
        if self.state is State.UNJOINED:
            return self._beat(now_s) if may_join else None
        if self._reports or now_s >= self._beat_s:
            return self._beat(now_s)
        if not self.must_rejoin and self.owned - self.committed.keys():
            return self._fetch_offsets()
        return None

    def _beat(self, now_s: float) -> Send:
        epoch = self._begin_beat(now_s)
        request = messages.ConsumerGroupHeartbeatRequest(
            group_id=self.settings.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.settings.instance_id,
            topic_partitions=None,
        )
        if epoch == JOIN_EPOCH:
            request.rebalance_timeout_ms = self.settings.rebalance_timeout_ms
            request.subscribed_topic_names = list(self._topics)
        if epoch == JOIN_EPOCH or self._reports:
            ids = {name: topic_id for topic_id, name in self._names.items()}
            part = messages.ConsumerGroupHeartbeatRequest.TopicPartitions
            request.topic_partitions = [
                part(topic_id=ids[topic], partitions=numbers) for topic, numbers in by_topic(self.owned)
            ]
        self._reports = False
        return self.send(EPOCH_HEARTBEAT, request, messages.ConsumerGroupHeartbeatResponse)

    def _fetch_offsets(self) -> Send:
        wanted = messages.OffsetFetchRequest.OffsetFetchRequestTopics
        group = messages.OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id=self.settings.group_id,
            member_id=self.member_id,
            member_epoch=self.generation,
            topics=[
                wanted(name=topic, partition_indexes=numbers)
                for topic, numbers in by_topic(self.owned - self.committed.keys())
            ],
        )
        request = messages.OffsetFetchRequest(groups=[group], require_stable=True)
        return self.send(OFFSET_FETCH, request, messages.OffsetFetchResponse, at_most=_OFFSET_FETCH_BY_NAME)

    def leave(self) -> Send | None:
        """Return the heartbeat by which a member leaves; None if the coordinator does not know it."""
        send = None
        if self.generation > 0:
            request = messages.ConsumerGroupHeartbeatRequest(
                group_id=self.settings.group_id,
                member_id=self.member_id,
                member_epoch=LEAVE_EPOCH,
                instance_id=self.settings.instance_id,
                topic_partitions=None,
            )
            # The answer belongs to the life that ends, and changes nothing.
            send = self.send(EPOCH_HEARTBEAT, request, messages.ConsumerGroupHeartbeatResponse)
        self.forget()
        return send

    def _lose(self) -> None:
        super()._lose()
        self.committed = {}

    # ---- answers ----

    def take(self, send: Send, answer: Any, now_s: float) -> str:
        if send.api == EPOCH_HEARTBEAT:
            return self._heard(send, answer, now_s)
        if send.api == OFFSET_FETCH:
            return self._located(send, answer, now_s)
        # A commit in an older epoch is refused, and a later one follows.
        codes = {part.error_code for topic in answer.topics for part in topic.partitions if part.error_code}
        return error_name(codes.pop()) if codes else ""

    def _heard(self, send: Send, answer: messages.ConsumerGroupHeartbeatResponse, now_s: float) -> str:
        if not self.is_of_now(send):
            return error_name(answer.error_code) if answer.error_code else ""
        if answer.error_code:
            return self._refused_heartbeat(ErrorCode(answer.error_code), now_s)
        self._accepted(answer, now_s)
        if answer.assignment is not None:
            self._target = frozenset(
                (self._names[each.topic_id], number)
                for each in answer.assignment.topic_partitions
                if each.topic_id in self._names
                for number in each.partitions
            )
            self.must_rejoin = self._target != self.owned
        return ""

    def _located(self, send: Send, answer: messages.OffsetFetchResponse, now_s: float) -> str:
        (group,) = answer.groups
        if group.error_code:
            # The epoch may have changed meanwhile.
            self._retry_s = now_s + RETRY_S
            self.is_coordinator_lost |= outcome_of(ErrorCode(group.error_code)) is Outcome.FIND_COORDINATOR
            return error_name(group.error_code)
        if self.is_of_now(send):
            found = {
                (topic.name, each.partition_index): each.committed_offset
                for topic in group.topics
                for each in topic.partitions
            }
            for topic in send.request.groups[0].topics:
                for number in topic.partition_indexes:
                    if (topic.name, number) in self.owned:
                        self.committed[topic.name, number] = found.get((topic.name, number), NOT_COMMITTED)
        return ""
