"""The base of members that join, stay and leave by heartbeats alone: of consumer groups (KIP-848) and streams groups
(KIP-1071), without input or output.

    UNJOINED -> heartbeat of epoch 0 -> STABLE -> heartbeat ... -> heartbeat of epoch -1

The coordinator tells the assignment in answers to heartbeats, and sets their interval. `generation` is the epoch of the
member. A subclass builds the requests, and reads the assignment into `_target`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from broker_cy.client.group_member import RETRY_S, GroupMember, GroupProtocol, MemberSettings, Part, State, error_name
from broker_cy.core.errors import ErrorCode

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1


class Outcome(enum.Enum):
    """The consequence of an error of a heartbeat."""

    RETRY = enum.auto()
    FIND_COORDINATOR = enum.auto()
    LOSE_ALL = enum.auto()
    FAIL = enum.auto()


_E = ErrorCode
_OUTCOMES: Final[Mapping[ErrorCode, Outcome]] = {
    _E.COORDINATOR_NOT_AVAILABLE: Outcome.FIND_COORDINATOR,
    _E.NOT_COORDINATOR: Outcome.FIND_COORDINATOR,
    _E.COORDINATOR_LOAD_IN_PROGRESS: Outcome.RETRY,
    # The member that had the instance id is still in its session.
    _E.UNRELEASED_INSTANCE_ID: Outcome.RETRY,
    _E.UNKNOWN_MEMBER_ID: Outcome.LOSE_ALL,
    _E.FENCED_MEMBER_EPOCH: Outcome.LOSE_ALL,
}


def outcome_of(code: ErrorCode) -> Outcome:
    """Return the consequence of an error of a heartbeat."""
    return _OUTCOMES.get(code, Outcome.RETRY if code.retriable else Outcome.FAIL)


class HeartbeatMember(GroupMember[Part]):
    """One member. `new_id` makes the id of a new member."""

    def __init__(self, settings: MemberSettings, protocol: GroupProtocol[Part], new_id: Callable[[], str]) -> None:
        super().__init__(settings, protocol)
        self._new_id = new_id
        # The parts that the coordinator has told last.
        self._target: frozenset[Part] = frozenset()
        # Whether the next heartbeat tells what the member owns.
        self._reports = False
        self._interval_s = settings.heartbeat_interval_ms / 1000

    def wait_s(self, now_s: float, *, may_join: bool = True) -> float:
        if self.state is State.FAILED or (self.state is State.UNJOINED and not may_join):
            return math.inf
        due_s = max(self._retry_s, self._beat_s) if self.state is State.STABLE else self._retry_s
        return max(0.0, due_s - now_s)

    def forget(self) -> None:
        super().forget()
        self._lose()

    def _lose(self) -> None:
        """Forget what the coordinator told in the life that ended."""
        self._target, self._reports = frozenset(), False

    def _begin_beat(self, now_s: float) -> int:
        """Note that a heartbeat is sent now. Returns its epoch, JOIN_EPOCH if the member is not in the group."""
        self._beat_s = now_s + self._interval_s
        if self.state is not State.UNJOINED:
            return self.generation
        if not self.member_id:
            self.member_id = self._new_id()
        return JOIN_EPOCH

    def _accepted(self, answer: Any, now_s: float) -> None:
        """Take the epoch and the interval of an answer without an error."""
        if self.state is State.UNJOINED:
            self.joins += 1
        self.state, self.generation = State.STABLE, answer.member_epoch
        self._interval_s = answer.heartbeat_interval_ms / 1000
        self._beat_s = now_s + self._interval_s

    def _refused_heartbeat(self, code: ErrorCode, now_s: float) -> str:
        """Take the error of an answer; returns its name."""
        outcome = outcome_of(code)
        self._retry_s = now_s + RETRY_S
        if outcome is Outcome.LOSE_ALL:
            self.fenced += self.state is State.STABLE
            self._out(State.UNJOINED)
            self._lose()
        elif outcome is Outcome.FAIL:
            self.fail(code)
        else:
            self.is_coordinator_lost |= outcome is Outcome.FIND_COORDINATOR
            self._beat_s = self._retry_s
        return error_name(code)
