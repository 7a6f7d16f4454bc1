"""The world's knowledge of consumer groups: the owners of partitions, committed offsets, active sessions, and past
generations.

A group that is deleted and recreated has other generations and no offsets. Here, each request to delete something
begins another life of the group, whether it succeeds or not: earlier requests prove nothing about the state after it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.history.operations import Place

if TYPE_CHECKING:
    from tests.sim.world.world import World

# The timeouts of members. No session ends sooner than a rebalance, so that no member is dropped between two heartbeats.
SESSION_MS, REBALANCE_MS = 3_000, 4_000
SIZE_MAX = 3
# The same for groups of the consumer protocol: some of them are too large for the classic one.
CONSUMERS_MAX = 4
# A timer of the coordinator may be this late, and a drifting clock this far ahead.
LATE_US = 100_000
# A request without an answer may still arrive within this time.
ARRIVES_US = 20_000_000


@dataclass(frozen=True)
class Deletion:
    """The offsets, and the members with their last heartbeats, that a deletion of a group or an offset may remove."""

    offsets: dict[Place, int]
    heard_us: dict[str, int]


class Groups:
    def __init__(self, world: World) -> None:
        self._world = world
        self._lives: dict[str, int] = {}
        # Until then a requested deletion may take place, and no commit is certain to stay.
        self._unsure_until_us: dict[str, int] = {}
        self._owners: dict[tuple[str, int, int, Place], str] = {}
        self._leaders: dict[tuple[str, int, int, int], str] = {}
        self._committed: dict[tuple[str, Place], int] = {}
        # By group and life: the newest generation in which a member got its assignment, and the newest epoch that one
        # has got. They are on disk.
        self._newest: dict[tuple[str, int], int] = {}
        # By group and client: the time at which it sent its newest successful heartbeat.
        self._heard_us: dict[str, dict[str, int]] = defaultdict(dict)
        # By group and client: a time; earlier heartbeats prove nothing.
        self._silent_us: dict[tuple[str, str], int] = {}
        # By group, life, life of the process and generation: the time since which one of its members is gone.
        self._over_us: dict[tuple[str, int, int, int], int] = {}

    def life(self, group: str) -> int:
        return self._lives.get(group, 0)

    # --- generations

    def lead(self, group: str, generation: int, member_id: str, host: str) -> None:
        """A member leads a generation. Raises AssertionError if another one leads it, too."""
        # A generation without assignments is not written, so that another life of the process may repeat it.
        key = group, self.life(group), self._world.sites[host].ends, generation
        leader = self._leaders.setdefault(key, member_id)
        assert leader == member_id, f"{group}: {leader} and {member_id} lead generation {generation}"

    def unled(self, group: str, generation: int, member_id: str, host: str) -> None:
        """The group has forgotten its leader: it begins again if the record of the new group cannot be written."""
        key = group, self.life(group), self._world.sites[host].ends, generation
        if self._leaders.get(key) == member_id:
            del self._leaders[key]

    def own(self, group: str, life: int, generation: int, place: Place, member_id: str) -> None:
        """A member begins with a partition. Raises AssertionError if another one owns it in this generation."""
        owner = self._owners.setdefault((group, life, generation, place), member_id)
        assert owner == member_id, f"{group}: {place} has two owners in generation {generation}: {owner}, {member_id}"

    def assigned(self, group: str, life: int, generation: int) -> None:
        """A member got its assignment."""
        key = group, life
        self._newest[key] = max(self._newest.get(key, -1), generation)

    def newest(self, group: str) -> int:
        """The newest epoch of the group that a member knows."""
        return self._newest.get((group, self.life(group)), -1)

    def is_over(self, group: str, life: int, generation: int) -> bool:
        """Whether a request with that generation must be refused."""
        return life == self.life(group) and generation < self._newest.get((group, life), -1)

    # --- sessions

    def heard(self, group: str, client: str, sent_us: int) -> None:
        """A heartbeat that was sent then succeeded."""
        if sent_us >= self._silent_us.get((group, client), 0):
            self._heard_us[group][client] = sent_us

    def silent(self, group: str, client: str, until_us: int) -> None:
        """The membership of this client may end before its session does, whatever it receives until then."""
        self._heard_us[group].pop(client, None)
        self._silent_us[group, client] = until_us

    def check_dropped(self, group: str, client: str, host: str) -> None:
        """A member is unknown. Raises AssertionError if its session cannot have ended."""
        sent_us = self._heard_us[group].get(client)
        if sent_us is not None and self._world.sites[host].is_calm_since(sent_us):
            passed_us = self._world.time.now_us - sent_us
            assert passed_us >= SESSION_MS * 1000 - LATE_US, f"{client} was dropped {passed_us} us after its heartbeat"

    def member_went(self, group: str, life: int, generation: int, host: str, at_us: int) -> None:
        """From `at_us` on, a member of this generation is no longer in the group."""
        if generation >= 0:
            key = group, life, self._world.sites[host].ends, generation
            self._over_us[key] = min(self._over_us.get(key, at_us), at_us)

    def member_came(self, group: str, life: int, generation: int, host: str, at_us: int) -> None:
        """Cancel what `member_went` noted for `at_us`."""
        key = group, life, self._world.sites[host].ends, generation
        if self._over_us.get(key) == at_us:
            del self._over_us[key]

    def check_goes_on(self, group: str, life: int, generation: int, host: str, sent_us: int) -> None:
        """A heartbeat succeeded. Raises AssertionError if a member had gone before, and no rebalance began."""
        since_us = self._over_us.get((group, life, self._world.sites[host].ends, generation))
        if since_us is None or since_us >= sent_us:
            return
        if self._world.sites[host].is_calm_since(since_us - SESSION_MS * 1000 - 2 * LATE_US):
            raise AssertionError(f"{group}: generation {generation} goes on after a member went")

    # --- commits

    def commit(self, group: str, life: int, place: Place, offset: int) -> None:
        """A commit was acknowledged. Positions of a group only increase, so that the greatest one counts."""
        if life == self.life(group) and self._world.time.now_us >= self._unsure_until_us.get(group, 0):
            key = group, place
            self._committed[key] = max(self._committed.get(key, -1), offset)

    def committed(self, group: str, place: Place) -> int:
        return self._committed.get((group, place), -1)

    def check_fetched(self, group: str, life: int, place: Place, offset: int, acknowledged: int) -> None:
        """Raises AssertionError if a member finds less than was acknowledged, or found, before it asked."""
        if life == self.life(group):
            assert offset >= acknowledged, f"{group}: the commit of {acknowledged} in {place} is lost: found {offset}"
            self.commit(group, life, place, offset)

    # --- deletions

    def deleting(self, group: str, place: Place | None = None) -> Deletion | None:
        """A request to delete the group, or its offset of one partition, is about to be sent. Returns None if another
        one is in flight: the state after two of them is unknown.
        """
        if self._world.time.now_us < self._unsure_until_us.get(group, 0):
            return None
        self._unsure_until_us[group] = self._world.time.now_us + ARRIVES_US
        return Deletion(self._forget(group, place), dict(self._heard_us[group]))

    def _forget(self, group: str, place: Place | None) -> dict[Place, int]:
        self._lives[group] = self.life(group) + 1
        gone = {key: at for key, at in self._committed.items() if key[0] == group and place in (None, key[1])}
        for key in gone:
            del self._committed[key]
        return {where: at for (_, where), at in gone.items()}

    def refused(self, group: str, deletion: Deletion) -> None:
        """Nothing was deleted."""
        self._unsure_until_us.pop(group, None)
        for where, offset in deletion.offsets.items():
            self.commit(group, self.life(group), where, offset)

    def deleted(self, group: str, place: Place | None = None) -> None:
        """The group, or its offset of one partition, was deleted."""
        self._forget(group, place)
        self._unsure_until_us.pop(group, None)

    def check_was_empty(self, group: str, deletion: Deletion, host: str) -> None:
        """Raises AssertionError if a deleted group had a member."""
        for client, sent_us in deletion.heard_us.items():
            is_known = self._heard_us[group].get(client) == sent_us and not self._world.owners.is_overdue(group, client)
            if is_known and self._world.sites[host].is_calm_since(sent_us):
                passed_us = self._world.time.now_us - sent_us
                assert passed_us >= SESSION_MS * 1000 - LATE_US, f"{group} was deleted, and {client} was a member"
        self._heard_us[group].clear()
