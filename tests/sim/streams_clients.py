"""The members of the simulation of streams groups, and the coordinator that they use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from tests.broker_cy.coordinator.consumer_harness import Topics
from tests.broker_cy.coordinator.streams_harness import Part, StreamsHarness, topology
from tests.sim.group_clients import LoggedHarness
from tests.sim.real_partitions import Partitions

GROUPS: Final = ("k", "l")
SOURCES: Final = ("t", "u")
PROCESSES: Final = ("p", "q", "r")
# Internal topics by group.
INTERNAL: Final = {"k": ("k-words", "k-counts"), "l": ("l-store",)}
TOPOLOGIES: Final = {
    "k": topology(Part(["t"], sinks=["k-words"]), Part(changelogs=["k-counts"], repartitions=["k-words"])),
    "l": topology(Part(["u"], changelogs=["l-store"]), Part(["t", "u"])),
}
# The subtopologies with state.
STATEFUL: Final = {"k": "1", "l": "0"}
MEMBERS_MAX: Final = 6
SESSION_MS: Final = 45_000
REBALANCE_MS: Final = 20_000
# Rounds of heartbeats after which a group without faults is stable.
SETTLE_ROUNDS: Final = 24
# The last of them without a change of the group.
QUIET_ROUNDS: Final = 8
ROUND_MS: Final = 1_500

Task = tuple[str, int]


class StreamsCoordinator(LoggedHarness, StreamsHarness):
    """The coordinator on a partition, with topics."""

    def __init__(self, partitions: Partitions, topics: Topics, **settings: Any) -> None:
        self.partitions = partitions
        self.leader_epoch = self.partition.leader_epoch
        StreamsHarness.__init__(self, topics, **settings)


@dataclass
class Thread:
    """One thread of an application: what it knows of its membership, and the request that it waits for."""

    name: str
    group_id: str
    process_id: str
    epoch: int = 0
    active: set[Task] = field(default_factory=set)
    """Tasks that it processes."""
    standby: set[Task] = field(default_factory=set)
    lost: set[Task] = field(default_factory=set)
    """Active tasks that the last answer took from it; it goes on processing them for a while."""
    lost_standby: set[Task] = field(default_factory=set)
    must_report: bool = True
    """Its next heartbeat has its tasks, because an answer may be lost."""
    waiting: object | None = None
    waits_epoch: int = 0
    alive: bool = True
    is_slow: bool = False
    """It never gives tasks up."""

    @property
    def member_id(self) -> str:
        return f"m-{self.name}"

    @property
    def is_member(self) -> bool:
        return self.alive and self.epoch > 0

    @property
    def processed(self) -> set[Task]:
        return self.active | self.lost

    def gone(self) -> None:
        """It is no longer a member, and stops processing."""
        self.epoch, self.must_report = 0, True
        self.active, self.standby, self.lost, self.lost_standby = set(), set(), set(), set()


@dataclass(frozen=True)
class Past:
    """A membership that is over, which a thread that hung may still assume."""

    group_id: str
    member_id: str
    epoch: int
    active: frozenset[Task]
