"""The world's knowledge of members of consumer groups: which partitions each of them reads, and how long its session
lasts at least.

A member reads a partition from the answer that gives it until it sends a heartbeat without it, leaves or ends. Another
member may get the partition meanwhile only if the session of the first one can be over, or its time to give up what it
has to: then it is no member any more.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from broker_cy.coordinator.routing import OFFSETS_TOPIC, partition_for
from tests.history.operations import Place
from tests.sim.world.groups import LATE_US, SESSION_MS

if TYPE_CHECKING:
    from tests.sim.world.world import World

# As in the settings of the machines.
OFFSETS_PARTITIONS = 2
FOREVER_US = 1 << 62
SURELY_US = SESSION_MS * 1000 - LATE_US


class Mark(NamedTuple):
    """The beginning of a request. `process` changes when a process ends or another broker leads a partition. Only the
    answer of the one leader proves anything: a broker that does not know yet that it was replaced keeps no session.
    """

    sent_us: int
    process: int
    has_one_leader: bool


class Owners:
    def __init__(self, world: World) -> None:
        self._world = world
        # By group and partition: the clients that read it.
        self._readers: dict[tuple[str, Place], set[str]] = defaultdict(set)
        # By group and partition: when a client last began to read it, and which.
        self._taken: dict[tuple[str, Place], tuple[int, str]] = {}
        # By group and client: when its newest heartbeat was sent that the coordinator has received.
        self._heard_us: dict[tuple[str, str], int] = {}
        # By group and client: when it has to have given up what it has to.
        self._must_give_us: dict[tuple[str, str], int] = {}
        # By group and client: until then, a late request may change its membership.
        self._unsure_until_us: dict[tuple[str, str], int] = {}

    # --- sessions

    def mark(self, group: str, host: str) -> Mark:
        world = self._world
        has_one_leader = not world.plan.is_cluster or not world.cluster.has_deposed_leader(
            OFFSETS_TOPIC, partition_for(group, OFFSETS_PARTITIONS)
        )
        return Mark(world.time.now_us, world.sites[host].ends, has_one_leader)

    def is_proof(self, mark: Mark, host: str) -> bool:
        """Whether the answer to a request, which has just come, is that of the group's coordinator."""
        if not self._world.plan.is_cluster:
            return True
        return mark.has_one_leader and mark.process == self._world.sites[host].ends

    def heard(self, group: str, client: str, mark: Mark, host: str) -> None:
        """A heartbeat succeeded."""
        if self.is_proof(mark, host):
            self._heard_us[group, client] = mark.sent_us
            self._world.groups.heard(group, client, mark.sent_us)

    def is_alive(self, group: str, client: str) -> bool:
        """Whether the session of a client cannot be over."""
        if self.is_unsure(group, client) or self.is_overdue(group, client):
            return False
        return self._world.time.now_us - self._heard_us.get((group, client), -SURELY_US) < SURELY_US

    def is_overdue(self, group: str, client: str) -> bool:
        """Whether a client may be none any more because it has not given up what it had to."""
        return self._world.time.now_us >= self._must_give_us.get((group, client), FOREVER_US)

    def is_unsure(self, group: str, client: str) -> bool:
        return self._world.time.now_us < self._unsure_until_us.get((group, client), 0)

    def unsure(self, group: str, client: str, until_us: int) -> None:
        """A request that was not answered may arrive until then, and change the membership."""
        self._unsure_until_us[group, client] = until_us

    def check_dropped(self, group: str, client: str, mark: Mark, host: str, code: str) -> None:
        """A member is none any more. Raises AssertionError if its session cannot be over."""
        if self.is_proof(mark, host) and self.is_alive(group, client):
            passed_us = self._world.time.now_us - self._heard_us[group, client]
            raise AssertionError(f"{client} is dropped {passed_us} us after its last heartbeat: {code}")

    # --- partitions

    def take(self, group: str, place: Place, client: str) -> None:
        """A client begins to read a partition. Raises AssertionError if another member reads it."""
        others = sorted(other for other in self._readers[group, place] - {client} if self.is_alive(group, other))
        assert not others, f"{group}: {client} gets {place}, which {', '.join(others)} still read"
        self._readers[group, place].add(client)
        self._taken[group, place] = self._world.time.now_us, client

    def must_give(self, group: str, client: str, until_us: int) -> None:
        """A client has to give partitions up until then."""
        self._must_give_us.setdefault((group, client), until_us)

    def has_given(self, group: str, client: str) -> None:
        """The coordinator knows that a client has nothing to give up."""
        self._must_give_us.pop((group, client), None)

    def give(self, group: str, place: Place, client: str) -> None:
        """A client has stopped reading a partition."""
        self._readers[group, place].discard(client)

    def gone(self, group: str, client: str) -> None:
        """A client has stopped reading, and its membership may end at any time."""
        for (of, _), readers in self._readers.items():
            if of == group:
                readers.discard(client)
        self._heard_us.pop((group, client), None)
        self._must_give_us.pop((group, client), None)
        self._world.groups.silent(group, client, self._world.time.now_us)

    def is_taken(self, group: str, place: Place, client: str, since_us: int) -> bool:
        """Whether another client has begun to read a partition after that time."""
        at_us, by = self._taken.get((group, place), (-1, client))
        return by != client and at_us > since_us
