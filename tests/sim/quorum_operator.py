"""The operator of the simulated quorum, who adds, removes and replaces voters, and upgrades kraft.version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_cy.core.errors import ErrorCode
from broker_cy.core.uuid import ZERO
from broker_cy.quorum.messages import voter_of
from broker_cy.quorum.step import AddVoter, ChangeVoters, RemoveVoter, Reply, UpgradeKRaftVersion
from broker_cy.quorum.voters import ReplicaKey, VoterSet
from broker_cy.wire import messages as wire

if TYPE_CHECKING:
    from tests.sim.quorum_world import Node, World

Change = AddVoter | RemoveVoter | UpgradeKRaftVersion


class Operator:
    """Knows which disks are lost, and never removes or loses so many voters that no majority is left."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.requests: dict[int, Change] = {}  # without a reply
        self.replies: dict[ErrorCode, int] = {}

    def act(self) -> None:
        """Ask a node that considers itself the leader for one change, sometimes for two."""
        draw = self.world.draw
        leaders = [node for node in self.world.nodes.values() if node.is_leader]
        if not leaders:
            return
        leader = draw.choice(leaders)
        for _ in range(draw.choice([1, 1, 1, 2])):
            if not leader.is_leader:
                return
            change = self._change(leader)
            if change is not None:
                self._ask(leader, change)

    def _change(self, leader: Node) -> Change | None:
        quorum, draw = leader.quorum, self.world.draw
        assert quorum is not None
        if quorum.kraft_version == 0:
            return UpgradeKRaftVersion(1) if draw.random() < 0.2 else None
        voters = quorum.voters
        lost = [key for key in voters.keys if self.world.nodes[key.id].key != key]
        if lost:
            return RemoveVoter(lost[0])
        others = [node for node in self.world.nodes.values() if node.key not in voters]
        if others and draw.random() < 0.6:
            return AddVoter(draw.choice(others).me, draw.choice([100, 2000]), draw.random() < 0.8)
        key = draw.choice(voters.keys)
        left = VoterSet(voter for voter in voters.voters if voter.key != key)
        return RemoveVoter(key) if len(left) and self._has_majority(left) else None

    def asked_by_a_node(self, node: Node, message: wire.AddRaftVoterRequest | wire.RemoveRaftVoterRequest) -> None:
        """An observer asks to become a voter, or to remove the voter of a disk that it has lost (KIP-1186)."""
        assert self.world.auto_join, f"{message} was sent although nodes do not join by themselves"
        if node.quorum is None:
            return
        if isinstance(message, wire.AddRaftVoterRequest):
            self.world.joined += 1
            self._ask(node, AddVoter(voter_of(message), message.timeout_ms, message.ack_when_committed))
        else:
            key = ReplicaKey(message.voter_id, message.voter_directory_id)
            assert self.world.nodes[key.id].key != key, f"{message} removes a disk that works"
            self._ask(node, RemoveVoter(key))

    def _ask(self, node: Node, change: Change) -> None:
        quorum = node.quorum
        assert quorum is not None
        number = len(self.requests) + sum(self.replies.values())
        self.requests[number] = change
        before = quorum.voters
        if isinstance(change, AddVoter):
            # The output may be carried out only in part, and the record is committed all the same.
            was_added = change.voter.key in self.world.checks.added
            self.world.checks.added.add(change.voter.key)
        self.world.take(node, ChangeVoters(number, change))
        if isinstance(change, AddVoter) and node.quorum is quorum and quorum.voters is before and not was_added:
            self.world.checks.added.discard(change.voter.key)

    def answered(self, node: Node, reply: Reply) -> None:
        """Exactly one reply to each request, except for those that a crash takes."""
        change = self.requests.pop(reply.request_id)
        self.replies[reply.error] = self.replies.get(reply.error, 0) + 1
        assert (reply.error is ErrorCode.NONE) == (not reply.message), f"{reply} says nothing"
        if reply.error is ErrorCode.NONE and isinstance(change, RemoveVoter) and node.quorum is not None:
            assert change.key not in node.quorum.voters, f"{change} was answered with {reply}"

    # --- what can be lost

    def may_lose(self, node: Node) -> bool:
        """Whether the quorum can continue without this disk, whichever of its voter records is in force."""
        sets = [one.quorum.voters for one in self.world.nodes.values() if one.quorum is not None]
        for one in self.world.nodes.values():
            sets += [one.disk.formatted.voters, *(snapshot.voters for snapshot in one.disk.snapshots.values())]
            sets += [entry for b in one.disk.log for entry in b.control if isinstance(entry, VoterSet)]
            sets += [entry for b in one.disk.durable for entry in b.control if isinstance(entry, VoterSet)]
        return all(
            ReplicaKey(node.node_id, ZERO) not in voters.keys and self._has_majority(voters, without=node.key)
            for voters in sets
            if len(voters)
        )

    def _has_majority(self, voters: VoterSet, without: ReplicaKey | None = None) -> bool:
        nodes = self.world.nodes
        there = [key for key in voters.keys if key.directory_id == ZERO or nodes[key.id].key == key]
        return sum(key != without for key in there) >= voters.majority
