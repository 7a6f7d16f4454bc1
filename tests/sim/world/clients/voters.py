"""The operator of a metadata quorum with kraft.version 1. It removes voters, also the leader, adds up to two at once,
and replaces the disk of a controller by an empty one, whose old entry it removes before it adds the new one. Some
leaders end as soon as they have their own removal in their logs.

It never loses or removes so many voters that the remaining ones need a lost disk: a request with an unknown outcome may
still take effect.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from broker_cy.core.errors import ErrorCode
from broker_cy.quorum.messages import PARTITION, TOPIC
from broker_cy.quorum.voters import ReplicaKey
from broker_cy.wire import messages as m
from tests.sim.world.clients.base import Client
from tests.sim.world.cluster import CONTROLLER_PORT
from tests.sim.world.disks import End
from tests.sim.world.wire import Lost

if TYPE_CHECKING:
    from tests.sim.world.world import World

# The change was made or not, or is being made.
UNSURE = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
TIMEOUTS_MS = (300, 1_000, 4_000)
# For so long nothing arrives from a leader that was removed.
MEND_US = 2_500_000


class Change(NamedTuple):
    """A voter to add or to remove."""

    key: ReplicaKey
    adds: bool


class VotersOperator(Client):
    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world, name, host)
        assert world.cluster.committed is not None
        self._committed = world.cluster.committed
        self._machines = {
            each.key.id: each
            for each in world.machines.values()
            if not world.plan.controllers or each.host in world.plan.controllers
        }
        # Whether a replica is a voter, as far as it is known: the others are none.
        self._is_voter: dict[ReplicaKey, bool] = dict.fromkeys(self._committed.voters[0], True)
        # Replicas that may be voters or not.
        self._unsure: set[ReplicaKey] = set()
        # Changes that may be made at any time, because no answer came: by how many processes of nodes had ended then.
        self._late: dict[Change, dict[str, int]] = {}

    async def step(self) -> None:
        acts = [self._change, self._change, self._change, self._two_changes, self._describe, self._replace_disk]
        acts += [self._replace_voter, self._depose]
        try:
            await self.draw.choice(acts)()
        except Lost:
            await self.back_off()

    async def finish(self) -> None:
        """Repeat requests with an unknown outcome, and remove lost disks."""
        answered: set[ReplicaKey] = set()
        while left := sorted((self._possible() & self._lost() | self._unsure) - answered, key=self._order):
            if await self._ask(Change(left[0], adds=left[0] not in self._lost())):
                answered.add(left[0])
            await self.back_off()

    def _order(self, key: ReplicaKey) -> tuple[bool, ReplicaKey]:
        """Lost disks are removed first."""
        return key not in self._lost(), key

    def check_end(self) -> None:
        """Raises AssertionError if the voters are not those of the changes that were acknowledged."""
        voters = self._committed.voters[-1]
        certain = {key for key, is_voter in self._is_voter.items() if is_voter} - self._unsure
        assert certain - self._removed_late() <= voters <= self._possible(), (
            f"the voters are {voters} in the end, {certain} by the changes that were acknowledged, and it is not known "
            f"of {self._unsure}; {list(self._late)} may have been made"
        )

    # --- acts

    async def _change(self) -> None:
        if (change := self._some_change()) is not None:
            await self._ask(change)

    async def _two_changes(self) -> None:
        """Ask for two changes together: the second one waits for the first one, or is rejected."""
        first = self._some_change()
        if first is None:
            return
        asking = self.world.clients.create_task(self._ask(first))
        # It is under way now.
        await asyncio.sleep(0)
        second = self._some_change()
        if second is not None and second.key != first.key:
            await self._ask(second)
        await asking

    async def _replace_disk(self) -> tuple[ReplicaKey, ReplicaKey] | None:
        """The disk of a controller is lost, and the controller starts with an empty one, with which it is not a voter.
        Returns its keys before and after that, or None if no disk may be lost.
        """
        machines = [each for each in self._machines.values() if not each.is_broker]
        if not machines or self.world.recovers:
            return None
        machine = self.draw.choice(machines)
        before = machine.key
        if Change(before, adds=True) in self._late_changes() or not self._may_lose(before):
            return None
        self.world.note(f"{self.name}: {machine.host} gets another disk")
        machine.replace_disk()
        return before, machine.key

    async def _replace_voter(self) -> None:
        """Replace the disk of a voter, and its entry. The removal of the old entry is requested twice; the second time
        only the entry of the new disk is left.
        """
        if (keys := await self._replace_disk()) is None:
            return
        before, after = keys
        for change in (Change(before, adds=False), Change(after, adds=True), Change(before, adds=False)):
            if not await self._ask(change):
                return

    async def _depose(self) -> None:
        """Remove the leader, whose process ends when the change is in its log: no other node gets it."""
        leader = self.world.cluster.active_controller()
        if leader is None or leader.is_broker or leader.key not in self._possible() or self.world.recovers:
            return
        others = [host for host in self.world.machines if host != leader.host]
        # It is written a turn later.
        ends_us = self.draw.choice([200, 1_000, 20_000])

        def leaves() -> None:
            now_us = self.world.time.now_us
            for host in others:
                self.world.network.link(leader.host, host).is_cut = True
            self.world.at(now_us + ends_us, lambda: leader.end(End.KILLED))
            self.world.at(now_us + MEND_US, mend)

        def mend() -> None:
            for host in others:
                self.world.network.mend(leader.host, host)

        leader.when_leaving = leaves
        try:
            await self._ask(Change(leader.key, adds=False))
        finally:
            leader.when_leaving = None

    async def _describe(self) -> None:
        part = m.DescribeQuorumRequest.PartitionData(partition_index=PARTITION)
        topic = m.DescribeQuorumRequest.TopicData(topic_name=TOPIC, partitions=[part])
        answer: Any = await self.once(m.DescribeQuorumRequest(topics=[topic]), 2)
        code = ErrorCode(answer.error_code)
        assert code in UNSURE | {ErrorCode.NONE}, f"{self.name}: DescribeQuorum: {code.name}"
        if code is not ErrorCode.NONE:
            return
        found = answer.topics[0].partitions[0]
        code = ErrorCode(found.error_code)
        assert code in UNSURE | {ErrorCode.NONE}, f"{self.name}: DescribeQuorum: {code.name}"
        ids = [each.replica_id for each in found.current_voters]
        assert len(ids) == len(set(ids)), f"{self.name}: voters {ids} of one quorum"
        self.successes += code is ErrorCode.NONE

    def _some_change(self) -> Change | None:
        possible = self._possible()
        if lost := sorted(possible & self._lost()):
            return Change(self.draw.choice(lost), adds=False)
        if (removed := sorted(self._lost() - possible)) and self.draw.chance(0.15):
            # There is nothing to remove any more.
            return Change(self.draw.choice(removed), adds=False)
        others = [each.key for each in self._machines.values() if each.key not in possible]
        if others and self.draw.chance(0.55):
            return Change(self.draw.choice(others), adds=True)
        leader = self.world.cluster.active_controller()
        if leader is not None and leader.key in possible and self.draw.chance(0.3):
            return Change(leader.key, adds=False)
        key = self.draw.choice(sorted(possible))
        if key in self._unsure and self.draw.chance(0.5):
            return Change(key, adds=True)
        return Change(key, adds=False)

    async def _ask(self, change: Change) -> bool:
        """Ask once; returns whether the answer settles the outcome. Raises AssertionError for a wrong answer."""
        key, count = change.key, len(self._committed.voters)
        self._late[change] = {each.host: each.ends for each in self.world.machines.values()}
        waits = not change.adds or self.draw.chance(0.8)
        try:
            if change.adds:
                answer: Any = await self.once(self._add_request(key, waits=waits), 1)
            else:
                request = m.RemoveRaftVoterRequest(
                    cluster_id=None, voter_id=key.id, voter_directory_id=key.directory_id
                )
                answer = await self.once(request, 0)
            code = ErrorCode(answer.error_code)
        except Lost:
            self._unsure.add(key)
            return False
        if code in UNSURE:
            self._unsure.add(key)
            return False
        del self._late[change]
        self.successes += 1
        match code:
            case ErrorCode.NONE if key in self._lost() and change.adds:
                raise AssertionError(f"{self.name}: {key} was made a voter, and its disk is lost")
            case ErrorCode.NONE if waits:
                assert any((key in voters) == change.adds for voters in self._committed.since(count)), (
                    f"{self.name}: {change} was acknowledged, and is not committed: {self._committed.since(count)}"
                )
                self._know(key, is_voter=change.adds)
            case ErrorCode.NONE:
                self._unsure.add(key)
            case ErrorCode.VOTER_NOT_FOUND if not change.adds:
                self._know(key, is_voter=False)
            case ErrorCode.DUPLICATE_VOTER if change.adds:
                others = [each for each in self._possible() if each.id == key.id and each != key]
                if not others:
                    self._know(key, is_voter=True)
            case ErrorCode.INVALID_REQUEST if not change.adds:
                # It is the only voter.
                self._know(key, is_voter=True)
            case _:
                raise AssertionError(f"{self.name}: {change}: {code.name} {answer.error_message}")
        return True

    def _add_request(self, key: ReplicaKey, *, waits: bool) -> Any:
        Listener = m.AddRaftVoterRequest.Listener
        host = self._machines[key.id].host
        return m.AddRaftVoterRequest(
            cluster_id=None,
            timeout_ms=self.draw.choice(TIMEOUTS_MS),
            voter_id=key.id,
            voter_directory_id=key.directory_id,
            listeners=[Listener(name="CONTROLLER", host=host, port=CONTROLLER_PORT)],
            ack_when_committed=waits,
        )

    # --- what is known

    def _know(self, key: ReplicaKey, *, is_voter: bool) -> None:
        self._is_voter[key] = is_voter
        self._unsure.discard(key)
        if Change(key, adds=not is_voter) in self._late_changes():
            self._unsure.add(key)

    def _late_changes(self) -> list[Change]:
        """Those without an answer that some process may still have. They go with the processes."""
        for change, ends in list(self._late.items()):
            if all(self.world.machines[host].ends > count for host, count in ends.items()):
                del self._late[change]
        return list(self._late)

    def _removed_late(self) -> set[ReplicaKey]:
        return {change.key for change in self._late_changes() if not change.adds}

    def _possible(self) -> set[ReplicaKey]:
        """Return all replicas that may be voters, now or by pending changes."""
        late = {change.key for change in self._late_changes() if change.adds}
        return {key for key, is_voter in self._is_voter.items() if is_voter} | self._unsure | late

    def _lost(self) -> set[ReplicaKey]:
        """All replicas whose disks were replaced."""
        return {key for key in (*self._is_voter, *self._unsure) if self._machines[key.id].key != key}

    def _may_lose(self, lost: ReplicaKey) -> bool:
        """Whether the quorum can continue without this disk, for all outcomes that are unknown."""
        unsure = sorted(self._unsure | {change.key for change in self._late_changes()})
        certain = self._possible() - set(unsure)
        gone = self._lost() | {lost}
        for count in range(len(unsure) + 1):
            for more in itertools.combinations(unsure, count):
                voters = certain | set(more)
                if lost in voters and len(voters - gone) <= len(voters) // 2:
                    return False
        return True
