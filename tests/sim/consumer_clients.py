"""The members of the simulation of consumer groups, and the coordinator that they use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.broker_cy.coordinator.consumer_harness import ConsumerHarness, Place, Topics
from tests.sim.group_clients import LoggedHarness
from tests.sim.real_partitions import Partitions

GROUPS = ("k", "l")
TOPICS = ("t", "u", "v")
MEMBERS_MAX = 6
SESSION_MS = CLASSIC_SESSION_MS = 45_000
REBALANCE_MS = 20_000
# Rounds of heartbeats after which a group without faults is stable. They take longer than a rebalance timeout, because
# a classic group waits for a member that has an id and does not join.
SETTLE_ROUNDS = 16
# The last of them without a change of the group.
QUIET_ROUNDS = 6
# Requests of a client in one round: a classic one joins, asks for its assignment, and has to join again.
ROUND_REQUESTS = 3
ROUND_MS = 1_500


class ConsumerCoordinator(LoggedHarness, ConsumerHarness):
    """The coordinator on a partition, with topics."""

    def __init__(self, partitions: Partitions, topics: Topics, **settings: Any) -> None:
        self.partitions = partitions
        self.leader_epoch = self.partition.leader_epoch
        ConsumerHarness.__init__(self, topics, **settings)


@dataclass
class Consumer:
    """One consumer: what it knows of its membership, and the request that it waits for."""

    name: str
    group_id: str
    instance_id: str | None
    topics: tuple[str, ...]
    assignor: str | None
    member_id: str
    epoch: int = 0
    owned: set[Place] = field(default_factory=set)
    """Partitions that it reads."""
    lost: set[Place] = field(default_factory=set)
    """Partitions that the last answer took from it; it goes on reading them for a while."""
    is_full: bool = True
    """Its next heartbeat has all fields, because an answer may be lost."""
    waiting: object | None = None
    waits_epoch: int = 0
    """The epoch of the request that it waits for."""
    alive: bool = True
    is_slow: bool = False
    """It never gives partitions up."""
    regex: str | None = None
    """It reads the topics that match, in place of `topics`."""
    is_classic: bool = False
    phase: str = ""
    """"sync" after a join by the classic protocol."""
    sent: str = ""
    """The request of the classic protocol that it waits for, or sent last."""
    was_removed: bool = False
    """Its last join was one of a member that the coordinator had removed: it has no assignment since."""
    must_join: bool = False
    members: dict[str, bytes] = field(default_factory=dict)
    """The members with their subscriptions, if it is the leader of a classic group."""

    @property
    def is_member(self) -> bool:
        return self.alive and self.epoch > 0

    def gone(self) -> None:
        """It is no longer a member, and stops reading."""
        self.epoch, self.is_full = 0, True
        self.owned, self.lost = set(), set()
        self.phase, self.must_join, self.members = "", False, {}
        self.was_removed = False


@dataclass(frozen=True)
class Past:
    """A membership that is over, which a client that hung may still assume."""

    group_id: str
    member_id: str
    epoch: int
    owned: frozenset[Place]
