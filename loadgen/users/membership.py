"""A member of a classic consumer group without input or output: eager rebalances, dynamic or static (KIP-345).

    OUT -> JoinGroup -> JOINED -> SyncGroup -> SYNCED -> OffsetFetch -> STABLE -> Heartbeat ...

`next` returns the request to send to the coordinator now; its answer is passed to `take`, and a missing answer to
`lost`. All times are seconds of one clock.

Invariants: `generation` is -1 exactly in OUT; `assigned` and `committed` are those of `generation`, and are complete in
STABLE. An answer to a request of an earlier life (`forget`, `leave`) or of another generation changes nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, NamedTuple

from broker_cy.core.errors import ErrorCode, WireError
from broker_cy.wire import messages
from loadgen.net.cluster import error_name
from loadgen.users.assignors import ASSIGNORS, assignment, partitions_of, subscription
from loadgen.users.settings import Member

PROTOCOL_TYPE = "consumer"
# The pause between attempts after a retriable error.
RETRY_S = 0.1
# The additional wait for the answer to JoinGroup after the rebalance timeout, as in Kafka's client.
JOIN_MARGIN_S = 5.0
# The last version of OffsetFetch for a single group.
OFFSET_FETCH_ONE_GROUP, OFFSET_COMMIT_BY_NAME = 7, 9
CORRUPT = "CORRUPT_ANSWER"

_COORDINATOR_MOVED = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
_LATER = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNSTABLE_OFFSET_COMMIT}
# The coordinator has replaced or forgotten this member, or the group continued without it.
_FENCED = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID}


class State(enum.Enum):
    """See the module."""

    OUT = enum.auto()
    JOINED = enum.auto()
    SYNCED = enum.auto()
    STABLE = enum.auto()


class Ask(NamedTuple):
    """A request, the type of its answer, its highest version, and the additional time to wait for it."""

    api: str
    request: Any
    answer: type[Any]
    at_most: int
    more_s: float
    life: int
    generation: int


class Membership:
    """One member. `partitions` is the number of partitions of `topic`, which the leader distributes."""

    def __init__(self, settings: Member, group: str, topic: str, partitions: int, instance_id: str | None) -> None:
        self.settings, self.group, self.topic, self.partitions = settings, group, topic, partitions
        self.instance_id = instance_id
        self.state = State.OUT
        self.member_id = ""
        self.generation = -1
        self.protocol = settings.assignor
        self.assigned: list[int] = []
        # The committed offsets of `assigned`, -1 for a partition without one.
        self.committed: dict[int, int] = {}
        self.must_rejoin = False
        self.is_coordinator_lost = False
        self.fenced = self.joins = 0
        # Since when the member has had no partitions to read; None in STABLE.
        self.stalled_since_s: float | None = None
        self._parts: dict[str, list[int]] = {}
        self._life = 0
        self._retry_s = 0.0
        self._beat_s = 0.0

    # ------------------------------------------------------------------------------------------------ questions

    @property
    def wants_to_join(self) -> bool:
        """Whether the member is not in the group, or the group is rebalancing."""
        return self.state is State.OUT or self.must_rejoin

    def next(self, now_s: float, *, may_join: bool = True) -> Ask | None:
        """Return the request to send now, if any. While `may_join` is false, a member that is still in the group only
        sends heartbeats.
        """
        if self.stalled_since_s is None and self.wants_to_join and may_join:
            self.stalled_since_s = now_s
        if now_s < self._retry_s:
            return None
        if self.wants_to_join and may_join:
            return self._join()
        if self.state is State.OUT:
            return None
        if self.state is State.JOINED:
            return self._sync()
        if now_s >= self._beat_s:
            self._beat_s = now_s + self.settings.heartbeat_interval_ms / 1000
            return self._heartbeat()
        return self._offsets() if self.state is State.SYNCED else None

    def wait_s(self, now_s: float) -> float:
        """Return the time until `next` has a request to send, if nothing happens."""
        if self.state is State.STABLE or self.must_rejoin:
            return max(0.0, max(self._beat_s, self._retry_s) - now_s)
        return max(0.0, self._retry_s - now_s)

    def _ask(self, api: str, request: Any, answer: type[Any], at_most: int = 32767, more_s: float = 0.0) -> Ask:
        return Ask(api, request, answer, at_most, more_s, self._life, self.generation)

    def _join(self) -> Ask:
        settings = self.settings
        protocol = messages.JoinGroupRequest.JoinGroupRequestProtocol(
            name=settings.assignor, metadata=subscription(self.topic)
        )
        request = messages.JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[protocol],
        )
        more_s = settings.rebalance_timeout_ms / 1000 + JOIN_MARGIN_S
        return self._ask("JoinGroup", request, messages.JoinGroupResponse, more_s=more_s)

    def _sync(self) -> Ask:
        part = messages.SyncGroupRequest.SyncGroupRequestAssignment
        request = messages.SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self.protocol,
            assignments=[
                part(member_id=member, assignment=assignment(self.topic, theirs))
                for member, theirs in self._parts.items()
            ],
        )
        more_s = self.settings.rebalance_timeout_ms / 1000
        return self._ask("SyncGroup", request, messages.SyncGroupResponse, more_s=more_s)

    def _heartbeat(self) -> Ask:
        request = messages.HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        return self._ask("Heartbeat", request, messages.HeartbeatResponse)

    def _offsets(self) -> Ask:
        wanted = messages.OffsetFetchRequest.OffsetFetchRequestTopic(name=self.topic, partition_indexes=self.assigned)
        request = messages.OffsetFetchRequest(group_id=self.group, topics=[wanted], require_stable=True)
        return self._ask("OffsetFetch", request, messages.OffsetFetchResponse, OFFSET_FETCH_ONE_GROUP)

    def commit(self, offsets: Mapping[int, int]) -> Ask | None:
        """Return a commit of the next offsets of partitions; None if the member is not in the group."""
        if self.generation < 0 or not offsets:
            return None
        part = messages.OffsetCommitRequest.OffsetCommitRequestPartition
        parts = [part(partition_index=number, committed_offset=offset) for number, offset in offsets.items()]
        request = messages.OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            topics=[messages.OffsetCommitRequest.OffsetCommitRequestTopic(name=self.topic, partitions=parts)],
        )
        return self._ask("OffsetCommit", request, messages.OffsetCommitResponse, OFFSET_COMMIT_BY_NAME)

    def leave(self) -> Ask | None:
        """Return the LeaveGroup request of a member, which has then left; None if the coordinator does not know it."""
        known = self.member_id
        self.forget()
        if not known:
            return None
        who = messages.LeaveGroupRequest.MemberIdentity(member_id=known, group_instance_id=self.instance_id)
        request = messages.LeaveGroupRequest(group_id=self.group, members=[who])
        return self._ask("LeaveGroup", request, messages.LeaveGroupResponse)

    def forget(self) -> None:
        """Begin again like a process that has just started: only the instance id of a static member is kept."""
        self._life += 1
        self.member_id = ""
        self.stalled_since_s = None
        self._retry_s = 0.0
        self._out()

    def relocate(self) -> None:
        """Request the committed offsets again."""
        if self.state is State.STABLE:
            self.state = State.SYNCED

    @property
    def epoch(self) -> tuple[int, int]:
        """Changes with each life and generation."""
        return self._life, self.generation

    def is_of_now(self, ask: Ask) -> bool:
        """Whether a request belongs to this life."""
        return ask.life == self._life

    def settle(self, now_s: float) -> float:
        """Note that the member reads its partitions; returns the number of seconds in which it did not."""
        since_s, self.stalled_since_s = self.stalled_since_s, None
        return 0.0 if since_s is None else now_s - since_s

    def _out(self) -> None:
        self.state, self.generation, self.must_rejoin = State.OUT, -1, False
        self.assigned, self.committed = [], {}

    # ------------------------------------------------------------------------------------------------ answers

    def lost(self, ask: Ask, now_s: float) -> None:
        """Note that a request got no answer: the coordinator is looked up again."""
        if self.is_of_now(ask):
            self.is_coordinator_lost = True
            self._retry_s = now_s + RETRY_S
            self._beat_s = min(self._beat_s, self._retry_s)

    def take(self, ask: Ask, answer: Any, now_s: float) -> str:
        """Take an answer; returns the name of its error, "" for none and for errors that are a regular part of the
        protocol.
        """
        api = ask.api
        code = _code_of(api, answer)
        if not self.is_of_now(ask) or (api != "JoinGroup" and ask.generation != self.generation):
            return error_name(code) if code else ""
        if code == ErrorCode.NONE:
            if api == "JoinGroup":
                self._joined(answer, now_s)
            elif api == "SyncGroup":
                return self._synced(answer)
            elif api == "OffsetFetch":
                self._located(answer)
            return ""
        return self._refused(api, code, answer, now_s)

    def _joined(self, answer: messages.JoinGroupResponse, now_s: float) -> None:
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self.protocol = answer.protocol_name or self.settings.assignor
        self.state, self.must_rejoin = State.JOINED, False
        self.assigned, self.committed, self._parts = [], {}, {}
        self.joins += 1
        self._beat_s = now_s + self.settings.heartbeat_interval_ms / 1000
        if answer.leader == self.member_id and not answer.skip_assignment:
            # Sorted by the id that a returning static member keeps, so that it gets the same partitions.
            members = sorted(answer.members, key=lambda each: each.group_instance_id or each.member_id)
            self._parts = ASSIGNORS[self.protocol]([each.member_id for each in members], self.partitions)

    def _synced(self, answer: messages.SyncGroupResponse) -> str:
        try:
            self.assigned = partitions_of(answer.assignment, self.topic)
        except WireError:
            self.must_rejoin = True
            return CORRUPT
        self._parts = {}
        self.state = State.SYNCED if self.assigned else State.STABLE
        return ""

    def _located(self, answer: messages.OffsetFetchResponse) -> None:
        self.committed = {
            each.partition_index: each.committed_offset for topic in answer.topics for each in topic.partitions
        }
        self.state = State.STABLE

    def _refused(self, api: str, code: int, answer: Any, now_s: float) -> str:
        if code == ErrorCode.MEMBER_ID_REQUIRED and api == "JoinGroup":
            # The first answer to a new member (KIP-394); the next JoinGroup has its id.
            self.member_id = answer.member_id
            return ""
        if code == ErrorCode.REBALANCE_IN_PROGRESS and api != "JoinGroup":
            self.must_rejoin = True
            return "" if api in ("Heartbeat", "SyncGroup") else error_name(code)
        if code in _FENCED:
            self.fenced += self.state is State.STABLE or api == "OffsetCommit"
            if code != ErrorCode.ILLEGAL_GENERATION:
                self.member_id = ""
            self._out()
        self.is_coordinator_lost |= code in _COORDINATOR_MOVED
        if code not in _FENCED or api == "JoinGroup":
            self._retry_s = now_s + RETRY_S
        if api == "SyncGroup" and code not in _COORDINATOR_MOVED | _LATER:
            self.must_rejoin = self.state is not State.OUT
        return error_name(code)


def _code_of(api: str, answer: Any) -> int:
    """Return the first error of an answer, also of one for several partitions or members."""
    if api == "OffsetCommit":
        codes = [each.error_code for topic in answer.topics for each in topic.partitions]
    elif api == "OffsetFetch":
        codes = [answer.error_code, *(each.error_code for topic in answer.topics for each in topic.partitions)]
    elif api == "LeaveGroup":
        codes = [answer.error_code, *(each.error_code for each in answer.members)]
    else:
        codes = [answer.error_code]
    return next((code for code in codes if code), 0)
