"""The members of the simulation of share groups, and the coordinator that they use."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Final, cast

from broker_cy.coordinator.share.state_calls import DeleteState, InitializeState, Outcomes
from broker_cy.coordinator.share_state.answers import Outcome
from broker_cy.coordinator.share_state.state import SharePartitionKey
from broker_cy.coordinator.step import CallFailed, GroupStep
from broker_cy.core.errors import ErrorCode
from tests.broker_cy.coordinator.consumer_harness import Place, Topics
from tests.broker_cy.coordinator.share_harness import ShareHarness, StateModel
from tests.sim.group_clients import LoggedHarness
from tests.sim.real_partitions import Partitions

GROUPS: Final = ("k", "l", "m")
# The last group has few members, so that administrators may change its offsets.
MEMBERS_OF, CHANGES_OF = (5, 5, 1), (1, 1, 4)
TOPICS: Final = ("t", "u", "v")
MEMBERS_MAX: Final = 6
PARTITIONS_MAX: Final = 6
SESSION_MS: Final = 45_000
RETRY_MS: Final = 5_000
# Rounds of heartbeats after which a group without faults is stable; the last of them without a change of the group.
SETTLE_ROUNDS: Final = 12
QUIET_ROUNDS: Final = 4
ROUND_MS: Final = 1_500
FAILURE: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE


class ShareCoordinatorModel(StateModel):
    """The share coordinator, and the members that use its state. `precious` are share partitions whose state must not
    be reset: members have consumed them, or an administrator knows that their offset was altered.
    """

    def __init__(self) -> None:
        super().__init__()
        self.precious: set[SharePartitionKey] = set()

    def _initialize(self, request: InitializeState, key: SharePartitionKey) -> Outcome:
        is_reset = not request.keeps and request.start_offsets[key.topic_id][key.partition] == -1
        assert not (is_reset and key in self.precious and key in self.states), f"the state of {key} is reset"
        return super()._initialize(request, key)


class ShareCoordinator(LoggedHarness, ShareHarness):
    """The coordinator on a partition, with topics."""

    def __init__(self, partitions: Partitions, topics: Topics, **settings: Any) -> None:
        self.partitions = partitions
        self.leader_epoch = self.partition.leader_epoch
        ShareHarness.__init__(self, topics, **settings)
        self.state = ShareCoordinatorModel()

    @property
    def model(self) -> ShareCoordinatorModel:
        return cast(ShareCoordinatorModel, self.state)

    def take(self, step: GroupStep) -> GroupStep:
        # A request that was refused after a time has its answer, and gets no other one when its call has a result.
        step.replies = [each for each in step.replies if not (is_admin(each.token) and each.token in self.answers)]
        return super().take(step)

    def serve_one(self, rng: random.Random) -> None:
        """The share coordinator answers one of the requests; it may fail, before or after it has done its work."""
        if not self.calls:
            return
        call = self.calls.pop(rng.randrange(len(self.calls)))
        result: Outcomes | CallFailed
        how = rng.random()
        if how < 0.05:
            result = CallFailed(ErrorCode.UNKNOWN_SERVER_ERROR, "a defect")
        elif how < 0.15:
            result = _failed(self.state.serve(call.request), rng)
        elif how < 0.25:
            self.state.failing = {index: FAILURE for index in range(6) if rng.random() < 0.5}
            result = self.state.serve(call.request)
            self.state.failing = {}
        else:
            result = self.state.serve(call.request)
        self.run(call.then, *call.about, result)

    def lose_calls(self, rng: random.Random) -> None:
        """The coordinator is gone: its requests may arrive, and their answers do not count."""
        calls, self.calls = self.calls, []
        for call in calls:
            if rng.random() < 0.5:
                self.state.serve(call.request)

    def successor(self, kept: int) -> ShareCoordinator:
        calls, self.calls = self.calls, []
        found = cast(ShareCoordinator, super().successor(kept))
        self.calls = calls
        return found

    def learn(self) -> None:
        """As the runtime does when it is closed."""
        super().learn()
        for call in self.calls:
            if call.waiting is not None and call.waiting.token not in self.answers:
                self.answers[call.waiting.token] = call.waiting.refused(ErrorCode.NOT_COORDINATOR)


def _failed(found: Outcomes, rng: random.Random) -> Outcomes:
    """Some of the answers are lost."""
    return {key: Outcome(FAILURE) if rng.random() < 0.5 else outcome for key, outcome in found.items()}


def is_admin(token: object) -> bool:
    """Whether a token is that of a request of an administrator."""
    return isinstance(token, tuple)


def deleted_keys(request: DeleteState) -> set[SharePartitionKey]:
    return {
        SharePartitionKey(group_id, topic_id, partition)
        for group_id, partitions in request.groups.items()
        for topic_id, numbers in partitions.items()
        for partition in numbers
    }


@dataclass
class Sharer:
    """One share consumer: what it knows of its membership, and the request that it waits for."""

    name: str
    group_id: str
    topics: tuple[str, ...]
    epoch: int = 0
    owned: set[Place] = field(default_factory=set)
    is_full: bool = True
    """Its next heartbeat has all fields, because an answer may be lost."""
    waiting: object | None = None
    waits_epoch: int = 0
    """The epoch of the request that it waits for."""
    alive: bool = True

    def gone(self) -> None:
        """It is no longer a member, and stops reading."""
        self.epoch, self.is_full, self.owned = 0, True, set()


@dataclass(frozen=True)
class Past:
    """A membership that is over, which a client that hung may still assume."""

    group_id: str
    member_id: str
    epoch: int
