"""A member of a classic group without input or output: of consumers, Connect workers or any other protocol type.

    UNJOINED -> JoinGroup -> JOINED -> SyncGroup -> STABLE -> Heartbeat ... -> LeaveGroup

A host asks `next` for the action that is due, and carries it out: a `Send` goes to the coordinator, and its answer to
`take` (or `no_answer`); after a `Revoke`, the host gives parts up and calls `revoked`; after an `Assign`, the leader of
the group distributes all parts and calls `assigned`. An error of an answer causes the reaction that `REACTIONS` names.
All times are seconds of one clock, which the host passes.

A part is what the leader distributes, such as a partition; `GroupProtocol` knows its bytes. An eager member revokes all
its parts before it joins again. A cooperative member keeps them (KIP-429): it revokes those that a new assignment no
longer has, and then joins again, so that the leader gives them to another member.

Invariants: `generation` is -1 exactly in UNJOINED and FAILED, and `owned` is empty there. An answer to a request of an
earlier life (`forget`, `leave`) or of another generation changes nothing.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.core.errors import ErrorCode, WireError
from broker_cy.wire import messages

Part = TypeVar("Part", bound=Hashable)
# The pause between attempts after a retriable error: Kafka's retry.backoff.ms.
RETRY_S: Final = 0.1
# The additional wait for the answer to JoinGroup after the rebalance timeout, as in Kafka's client.
JOIN_MARGIN_S: Final = 5.0
NO_GENERATION: Final = -1
# The name of an error of `take`: the assignment cannot be decoded.
CORRUPT: Final = "CORRUPT_ANSWER"
JOIN, SYNC, HEARTBEAT, LEAVE = "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"


class Mode(enum.Enum):
    """How a member joins again: EAGER revokes all its partitions first, COOPERATIVE only those that move (KIP-429)."""

    EAGER = enum.auto()
    COOPERATIVE = enum.auto()


class State(enum.Enum):
    """See the module. FAILED: `failure` says why, and only `forget` leaves it."""

    UNJOINED = enum.auto()
    JOINED = enum.auto()
    STABLE = enum.auto()
    FAILED = enum.auto()


class Reaction(enum.Enum):
    """The consequence of an answer's error for the member."""

    RETRY = "send the same request again after a pause"
    FIND_COORDINATOR = "look up the coordinator, and send the same request again after a pause"
    TAKE_ID = "join again immediately with the member id of the answer (KIP-394)"
    REJOIN = "join again as the same member; the parts are still owned"
    LOSE_GENERATION = "the group went on without the member: its parts are lost; join again as the same member"
    LOSE_MEMBER = "the group has forgotten the member: its parts are lost; join again as a new one"
    FAIL = "no attempt can succeed: its parts are lost, and the member ends"
    IGNORE = "the request failed; the membership is not affected"


_E, _R = ErrorCode, Reaction
# The reaction to each error. Errors that an API is not listed for are retried if Kafka calls them retriable; others are
# fatal, or only fail the request (UNEXPECTED).
REACTIONS: Final[Mapping[ErrorCode, Mapping[str, Reaction] | Reaction]] = {
    _E.COORDINATOR_LOAD_IN_PROGRESS: _R.RETRY,
    _E.COORDINATOR_NOT_AVAILABLE: _R.FIND_COORDINATOR,
    _E.NOT_COORDINATOR: _R.FIND_COORDINATOR,
    _E.MEMBER_ID_REQUIRED: {JOIN: _R.TAKE_ID},
    # A Heartbeat, SyncGroup or commit of a member while the group waits for its JoinGroup.
    _E.REBALANCE_IN_PROGRESS: {JOIN: _R.RETRY, "*": _R.REJOIN},
    _E.ILLEGAL_GENERATION: _R.LOSE_GENERATION,
    _E.UNKNOWN_MEMBER_ID: _R.LOSE_MEMBER,
    # Another process uses the instance id (KIP-345).
    _E.FENCED_INSTANCE_ID: _R.FAIL,
    _E.INCONSISTENT_GROUP_PROTOCOL: _R.FAIL,
    _E.INVALID_SESSION_TIMEOUT: _R.FAIL,
    _E.INVALID_GROUP_ID: _R.FAIL,
    _E.GROUP_MAX_SIZE_REACHED: _R.FAIL,
    _E.GROUP_AUTHORIZATION_FAILED: _R.FAIL,
    _E.UNSUPPORTED_VERSION: _R.FAIL,
}
UNEXPECTED: Final = {JOIN: _R.FAIL, SYNC: _R.FAIL, "OffsetFetch": _R.FAIL, "*": _R.IGNORE}
# Errors that are a regular part of the protocol, which `take` does not report.
_REGULAR = frozenset(
    {(_E.MEMBER_ID_REQUIRED, JOIN), (_E.REBALANCE_IN_PROGRESS, HEARTBEAT), (_E.REBALANCE_IN_PROGRESS, SYNC)}
)


def reaction_to(api: str, code: int) -> Reaction:
    """Return the reaction to an error of the answer to a request."""
    found = ErrorCode(code)
    listed = REACTIONS.get(found, {})
    if isinstance(listed, Reaction):
        return listed
    if (reaction := listed.get(api, listed.get("*"))) is not None:
        return reaction
    return Reaction.RETRY if found.retriable else UNEXPECTED.get(api, UNEXPECTED["*"])


class Joined(NamedTuple):
    """A member as JoinGroup names it to the leader."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class GroupProtocol(Protocol[Part]):
    """The protocol type of a group: what its members say when they join, and the form of their assignments."""

    protocol_type: str
    mode: Mode

    def metadata(self, owned: frozenset[Part]) -> Sequence[tuple[str, bytes]]:
        """Return the protocols that the member can follow, the preferred first, each with its metadata."""

    def parts(self, assignment: bytes) -> frozenset[Part]:
        """Decode an assignment. Raises WireError."""


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """The settings of a member, with Kafka's defaults. With `instance_id` it is static (KIP-345)."""

    group_id: str
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 300_000
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Send:
    """A request for the coordinator, the type of its answer, its highest version, and the time to wait for the answer
    in addition to that of other requests.
    """

    api: str
    request: Any
    answer: type[Any]
    life: int
    generation: int
    more_s: float = 0.0
    at_most: int = 32767

    def __str__(self) -> str:
        return f"{self.api} of generation {self.generation}"


@dataclass(frozen=True, slots=True)
class Revoke(Generic[Part]):
    """Parts to give up: commit, stop using them, and call `revoked`."""

    parts: frozenset[Part]

    def __str__(self) -> str:
        return "revoke " + ", ".join(sorted(map(str, self.parts)))


@dataclass(frozen=True, slots=True)
class Assign:
    """This member leads the group: distribute the parts by this protocol, and call `assigned`."""

    protocol: str
    members: tuple[Joined, ...]
    epoch: tuple[int, int]

    def __str__(self) -> str:
        return f"assign by {self.protocol} to " + ", ".join(each.member_id for each in self.members)


class GroupMember(Generic[Part]):
    """One member. `owned`: the parts that the host uses now."""

    def __init__(self, settings: MemberSettings, protocol: GroupProtocol[Part]) -> None:
        self.settings, self.protocol = settings, protocol
        self.state = State.UNJOINED
        self.member_id = ""
        self.generation = NO_GENERATION
        self.owned: frozenset[Part] = frozenset()
        # Whether the member has to send JoinGroup although it is in the group.
        self.must_rejoin = False
        # Set when the coordinator has to be looked up; the host resets it.
        self.is_coordinator_lost = False
        # The error of FAILED.
        self.failure = ErrorCode.NONE
        # How often the group continued without the member, and how often it joined.
        self.fenced = self.joins = 0
        # The task of the leader until it is done, and its result.
        self._to_assign: Assign | None = None
        self._assignments: Mapping[str, bytes] = {}
        self._chosen = ""
        # Parts that the new assignment no longer has, and that the host has not given up.
        self._moving: frozenset[Part] = frozenset()
        self._life = 0
        self._retry_s = self._beat_s = 0.0

    def __str__(self) -> str:
        name = self.member_id or "new member"
        owned = f" owns {len(self.owned)}" if self.owned else ""
        again = ", must rejoin" if self.must_rejoin else ""
        return f"{name} {self.state.name} in generation {self.generation}{owned}{again}"

    # ------------------------------------------------------------------------------------------------ questions

    @property
    def wants_to_join(self) -> bool:
        """Whether the member is not in the group, or the group is rebalancing."""
        return self.state is State.UNJOINED or self.must_rejoin

    @property
    def epoch(self) -> tuple[int, int]:
        """Changes with each life and generation."""
        return self._life, self.generation

    def is_of_now(self, send: Send) -> bool:
        """Whether a request belongs to this life."""
        return send.life == self._life

    def next(self, now_s: float, *, may_join: bool = True) -> Send | Revoke[Part] | Assign | None:
        """Return the action that is due now, if any. While `may_join` is false, because the host still uses its parts,
        a member that is in the group only sends heartbeats.
        """
        if self.state is State.FAILED or now_s < self._retry_s:
            return None
        if may_join:
            if self._moving:
                return Revoke(self._moving)
            if self.wants_to_join:
                if self.owned and self.protocol.mode is Mode.EAGER:
                    return Revoke(self.owned)
                return self._join()
        if self.state is State.UNJOINED:
            return None
        if self.state is State.JOINED and not self.must_rejoin:
            return self._to_assign or self._sync()
        if now_s >= self._beat_s:
            self._beat_s = now_s + self.settings.heartbeat_interval_ms / 1000
            return self._heartbeat()
        return None

    def wait_s(self, now_s: float, *, may_join: bool = True) -> float:
        """Return the time until `next` has an action, if nothing happens; infinity if only the host can cause one."""
        if self.state is State.FAILED or (self.state is State.UNJOINED and not may_join):
            return math.inf
        idle = self.state is State.STABLE if may_join and not self.must_rejoin else not may_join
        due_s = max(self._retry_s, self._beat_s) if idle else self._retry_s
        return max(0.0, due_s - now_s)

    def send(self, api: str, request: Any, answer: type[Any], *, more_s: float = 0.0, at_most: int = 32767) -> Send:
        """Return a request of this life and generation; also for commits of a consumer."""
        return Send(api, request, answer, self._life, self.generation, more_s, at_most)

    def _join(self) -> Send:
        settings = self.settings
        protocol = messages.JoinGroupRequest.JoinGroupRequestProtocol
        request = messages.JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=settings.instance_id,
            protocol_type=self.protocol.protocol_type,
            protocols=[protocol(name=name, metadata=data) for name, data in self.protocol.metadata(self.owned)],
        )
        more_s = settings.rebalance_timeout_ms / 1000 + JOIN_MARGIN_S
        return self.send(JOIN, request, messages.JoinGroupResponse, more_s=more_s)

    def _sync(self) -> Send:
        part = messages.SyncGroupRequest.SyncGroupRequestAssignment
        request = messages.SyncGroupRequest(
            group_id=self.settings.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.settings.instance_id,
            protocol_type=self.protocol.protocol_type,
            protocol_name=self._chosen,
            assignments=[part(member_id=member, assignment=data) for member, data in self._assignments.items()],
        )
        return self.send(SYNC, request, messages.SyncGroupResponse, more_s=self.settings.rebalance_timeout_ms / 1000)

    def _heartbeat(self) -> Send:
        request = messages.HeartbeatRequest(
            group_id=self.settings.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.settings.instance_id,
        )
        return self.send(HEARTBEAT, request, messages.HeartbeatResponse)

    # ------------------------------------------------------------------------------------------------ the host's acts

    def revoked(self, parts: Iterable[Part]) -> None:
        """Note that the host has given parts up."""
        self.owned -= frozenset(parts)
        self._moving &= self.owned

    def assigned(self, task: Assign, assignments: Mapping[str, bytes]) -> None:
        """Take the assignment of each member, as bytes of the protocol; nothing happens in another generation."""
        if task is self._to_assign and task.epoch == self.epoch:
            self._to_assign, self._assignments = None, assignments

    def fail(self, code: ErrorCode) -> None:
        """Give everything up: no attempt can succeed."""
        self._out(State.FAILED)
        self.failure = code

    def rejoin(self) -> None:
        """Join again although the group is stable, because the metadata of the member has changed."""
        self.must_rejoin = self.state in (State.JOINED, State.STABLE)

    def leave(self) -> Send | None:
        """Return the LeaveGroup request of a member, which has then left; None if the coordinator does not know it.

        A static member that only stops does not leave: it gets its parts again within the session timeout (KIP-345).
        """
        known = self.member_id
        self.forget()
        if not known:
            return None
        who = messages.LeaveGroupRequest.MemberIdentity(member_id=known, group_instance_id=self.settings.instance_id)
        request = messages.LeaveGroupRequest(group_id=self.settings.group_id, members=[who])
        return self.send(LEAVE, request, messages.LeaveGroupResponse)

    def forget(self) -> None:
        """Begin again like a process that has just started: only the instance id of a static member is kept."""
        self._life += 1
        self.member_id = ""
        self.failure = ErrorCode.NONE
        self._retry_s = 0.0
        self._out(State.UNJOINED)

    def _out(self, state: State) -> None:
        self.state, self.generation, self.must_rejoin = state, NO_GENERATION, False
        self.owned = self._moving = frozenset()

    # ------------------------------------------------------------------------------------------------ answers

    def no_answer(self, send: Send, now_s: float) -> None:
        """Note that a request got no answer: the coordinator is looked up again."""
        if self.is_of_now(send):
            self.is_coordinator_lost = True
            self._retry_s = now_s + RETRY_S
            self._beat_s = min(self._beat_s, self._retry_s)

    def take(self, send: Send, answer: Any, now_s: float) -> str:
        """Take an answer; returns the name of its error, "" for none and for errors that are a regular part of the
        protocol.
        """
        code = code_of(send.api, answer)
        if not self.is_of_now(send) or (send.api != JOIN and send.generation != self.generation):
            return error_name(code)
        if code != ErrorCode.NONE:
            return self._refused(send.api, code, answer, now_s)
        if send.api == JOIN:
            self._joined(answer, now_s)
        return self._synced(answer) if send.api == SYNC else ""

    def _joined(self, answer: messages.JoinGroupResponse, now_s: float) -> None:
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self._chosen = answer.protocol_name or ""
        self.state, self.must_rejoin = State.JOINED, False
        self._assignments, self._to_assign = {}, None
        self.joins += 1
        self._beat_s = now_s + self.settings.heartbeat_interval_ms / 1000
        if answer.leader == self.member_id and not answer.skip_assignment:
            members = (Joined(each.member_id, each.group_instance_id, each.metadata) for each in answer.members)
            self._to_assign = Assign(self._chosen, tuple(members), self.epoch)

    def _synced(self, answer: messages.SyncGroupResponse) -> str:
        try:
            assigned = self.protocol.parts(answer.assignment)
        except WireError:
            self.must_rejoin = True
            return CORRUPT
        self._assignments = {}
        self.state = State.STABLE
        # The leader has not given the parts away that this member gives up: it does that in the next generation.
        self._moving = self.owned - assigned
        self.must_rejoin = bool(self._moving)
        self.owned |= assigned
        return ""

    def _refused(self, api: str, code: int, answer: Any, now_s: float) -> str:
        reaction = reaction_to(api, code)
        name = "" if (code, api) in _REGULAR else error_name(code)
        if reaction is Reaction.TAKE_ID:
            self.member_id = answer.member_id
        elif reaction is Reaction.REJOIN:
            self.must_rejoin = True
        elif reaction in (Reaction.LOSE_GENERATION, Reaction.LOSE_MEMBER):
            self._note_fenced(api)
            self._out(State.UNJOINED)
            if reaction is Reaction.LOSE_MEMBER:
                self.member_id = ""
            if api == JOIN:
                self._retry_s = now_s + RETRY_S
        elif reaction is Reaction.FAIL:
            if code == ErrorCode.FENCED_INSTANCE_ID:
                self._note_fenced(api)
            self.fail(ErrorCode(code))
        elif reaction is not Reaction.IGNORE:
            self.is_coordinator_lost |= reaction is Reaction.FIND_COORDINATOR
            self._retry_s = now_s + RETRY_S
        return name

    def _note_fenced(self, api: str) -> None:
        """Count that the group went on without the member."""
        self.fenced += self.state is State.STABLE or api == "OffsetCommit"


def error_name(code: int) -> str:
    """Return Kafka's name of an error code, "" for none."""
    found = ErrorCode(code)
    return "" if code == 0 else found.name if found == code else f"ERROR_{code}"


def code_of(api: str, answer: Any) -> int:
    """Return the first error of an answer, also of one for several partitions or members."""
    codes = [] if api == "OffsetCommit" else [answer.error_code]
    if api == LEAVE:
        codes += [each.error_code for each in answer.members]
    elif api in ("OffsetCommit", "OffsetFetch"):
        codes += [each.error_code for topic in answer.topics for each in topic.partitions]
    return next((code for code in codes if code), 0)
