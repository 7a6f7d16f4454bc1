"""Nodes of a quorum for tests: a machine without a network, on which events are taken one by one."""

from __future__ import annotations

from uuid import UUID

from broker_cy.core.errors import ErrorCode
from broker_cy.quorum.election_state import ElectionState
from broker_cy.quorum.epochs import LogEpochs
from broker_cy.quorum.history import VoterHistory
from broker_cy.quorum.messages import Message, OffsetAndEpoch
from broker_cy.quorum.quorum import Quorum
from broker_cy.quorum.step import (
    AddVoter,
    Append,
    ChangeVoters,
    LeaderGone,
    Output,
    Proposal,
    Received,
    RemoveVoter,
    Send,
    Start,
    Synced,
    Tick,
    UpgradeKRaftVersion,
)
from broker_cy.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet


def keys(*ids: int) -> tuple[ReplicaKey, ...]:
    return tuple(map(ReplicaKey, ids))


def directory(node_id: int, disk: int = 0) -> UUID:
    """The directory id of a node, on its first disk or a later one."""
    return UUID(int=node_id << 8 | disk + 1 << 40)


def replica(node_id: int, disk: int = 0) -> ReplicaKey:
    return ReplicaKey(node_id, directory(node_id, disk))


def addresses(node_id: int, port: int = 9093) -> tuple[Endpoint, ...]:
    return (Endpoint("CONTROLLER", f"host-{node_id}", port),)


def voter(node_id: int, disk: int = 0) -> Voter:
    return Voter(replica(node_id, disk), addresses(node_id))


def dynamic(*ids: int) -> VoterHistory:
    """Voters of kraft.version 1, as `storage format --initial-controllers` writes them."""
    return VoterHistory(VoterSet(map(voter, ids)), 1)


def least(low: int, high: int) -> int:
    """Draws the least: an election starts after exactly the election timeout."""
    return low


class Node:
    """A node of the quorum. Each method is one step at `now_ms`."""

    def __init__(
        self,
        me: Voter,
        history: VoterHistory,
        stored: ElectionState | None = None,
        log: LogEpochs | None = None,
        snapshot_id: OffsetAndEpoch | None = None,
        bootstrap_servers: int = 0,
    ) -> None:
        self.quorum = Quorum(
            me,
            history,
            stored,
            log or LogEpochs(0),
            least,
            snapshot_id=snapshot_id,
            bootstrap_servers=bootstrap_servers,
        )
        self.now_ms = 1000
        self.first = self.quorum.step(Start(), self.now_ms)

    def receive(self, source: int, message: Message) -> Output:
        return self.quorum.step(Received(source, message), self.now_ms)

    def synced(self, end_offset: int | None = None) -> Output:
        end = self.quorum.end_offset if end_offset is None else end_offset
        return self.quorum.step(Synced(end), self.now_ms)

    def append(self, *entries: int) -> Output:
        proposals = tuple(Proposal(count, b"") for count in entries)
        return self.quorum.step(Append(self.quorum.epoch, self.quorum.end_offset, proposals), self.now_ms)

    def tick(self, after_ms: int) -> Output:
        self.now_ms += after_ms
        return self.quorum.step(Tick(), self.now_ms)

    def gone(self, leader_id: int, epoch: int) -> Output:
        return self.quorum.step(LeaderGone(leader_id, epoch), self.now_ms)

    def change(self, change: AddVoter | RemoveVoter | UpgradeKRaftVersion, request_id: int = 1) -> Output:
        return self.quorum.step(ChangeVoters(request_id, change), self.now_ms)


class StaticVoter(Node):
    """Voter 1 of the static `voters`."""

    def __init__(
        self, voters: tuple[int, ...] = (1,), stored: ElectionState | None = None, log: LogEpochs | None = None
    ) -> None:
        super().__init__(Voter(ReplicaKey(1)), VoterHistory(VoterSet.of_ids(voters)), stored, log)


def sent(output: Output, to: int) -> list[Message]:
    return [each.message for each in output.send if each.to == to]


def to_all(others: tuple[int, ...], message: Message) -> tuple[Send, ...]:
    return tuple(Send(other, message) for other in others)


def errors(output: Output) -> list[ErrorCode]:
    """Those of the replies to changes of the voters."""
    return [reply.error for reply in output.replies]
