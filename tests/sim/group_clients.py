"""The clients of the group simulation, and the coordinator that they use."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, cast

from broker_cy.coordinator_services.coordinator_runtime import CoordinatorRuntime
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.replica.partition import Partition
from tests.broker_cy.coordinator.harness import Harness
from tests.sim.real_partitions import Partitions

GROUPS = ("a", "b", "c")
LOG = ("__consumer_offsets", 0)
MEMBERS_MAX = 4
# Number of past memberships that are kept.
PAST_MAX = 50
SESSION_MS = 10_000
REBALANCE_MS = 20_000
DELAY_MAX_MS = 3_000
# No request may wait for longer: each of the two phases of a rebalance ends by then.
ANSWER_WITHIN_MS = REBALANCE_MS + DELAY_MAX_MS


class LoggedHarness(Harness):
    """A harness whose log is a partition, which it may write to in one leader epoch."""

    def __init__(self, partitions: Partitions, **settings: Any) -> None:
        self.partitions = partitions
        self.leader_epoch = self.partition.leader_epoch
        super().__init__(**settings)

    @property
    def partition(self) -> Partition:
        return self.partitions[LOG]

    def write(self) -> None:
        found = [record for step in self.held for record in step.records]
        if found:
            try:
                # The runtime does the same before each append.
                CoordinatorRuntime._check_epoch(cast(Any, self))
            except KafkaError as error:
                self.fail(error.code)
                return
            self.partitions.append(LOG, found, self.wall_ms)
        super().write()

    def restart(self) -> None:
        self.partitions.crash()
        self.load()

    def load(self) -> None:
        """Begin to coordinate in the current leader epoch, with the records in the log."""
        self.leader_epoch = self.partition.leader_epoch
        found = self.partitions.records(LOG)
        assert found == self.log, "the log of the coordinator lost records"
        self.log = found
        super().restart()

    def successor(self, kept: int) -> LoggedHarness:
        """Return the coordinator of the next leader epoch, on the broker that also has the records of the first `kept`
        pending steps. It shares the answers, and no other mutable state.
        """
        records = [record for step in self.held[:kept] for record in step.records]
        if records:
            self.partitions.append(LOG, records, self.wall_ms)
        self.partitions.elect(LOG)
        found = copy.copy(self)
        found.held, found.committed = [], []
        found.log = self.log + records
        found.hold = False
        found.load()
        return found

    def learn(self) -> None:
        """This is no longer the coordinator: pending requests are answered, as the runtime does when it is closed."""
        self.hold = True
        self.fail(ErrorCode.NOT_COORDINATOR)
        self.take(self.machine.unload())


@dataclass
class Client:
    """One consumer: its view of its membership, and the request that it waits for."""

    name: str
    group_id: str
    instance_id: str | None
    version: int
    member_id: str = ""
    generation: int = -1
    is_leader: bool = False
    members: list[str] = field(default_factory=list)
    waiting: object | None = None
    waits_for: str = ""
    since_ms: int = 0
    alive: bool = True
    topics: tuple[str, ...] = ("t",)
    heard_ms: int | None = None
    """When its last heartbeat got the response NONE; None if something happened since that may end its membership."""


@dataclass(frozen=True)
class Past:
    """A membership that is over, which a client that hung may still assume."""

    group_id: str
    incarnation: int
    member_id: str
    instance_id: str | None
    generation: int
