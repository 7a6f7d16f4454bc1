"""Nodes of a quorum for tests: a machine without a network, on which events are taken one by one."""

from __future__ import annotations

from uuid import UUID

from broker_cy.core.errors import ErrorCode
from broker_cy.quorum.election_state import ElectionState
from broker_cy.quorum.elections import PRE_VOTE, VOTE
from broker_cy.quorum.entries import Batch, OffsetAndEpoch
from broker_cy.quorum.epochs import LogEpochs
from broker_cy.quorum.history import VoterHistory
from broker_cy.quorum.messages import fetch_request, vote_response
from broker_cy.quorum.quorum import Quorum
from broker_cy.quorum.step import (
    AddVoter,
    Answer,
    Append,
    ChangeVoters,
    LeaderGone,
    Output,
    Proposal,
    Received,
    RemoveVoter,
    Role,
    Send,
    Start,
    Synced,
    Tick,
    Timeouts,
    UpgradeKRaftVersion,
)
from broker_cy.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet
from broker_cy.wire import messages as wire
from broker_cy.wire.codec import Message

LISTENER = "CONTROLLER"
WAIT_MS = Timeouts().fetch_wait_ms


def keys(*ids: int) -> tuple[ReplicaKey, ...]:
    return tuple(map(ReplicaKey, ids))


def directory(node_id: int, disk: int = 0) -> UUID:
    """The directory id of a node, on its first disk or a later one."""
    return UUID(int=node_id << 8 | disk + 1 << 40)


def replica(node_id: int, disk: int = 0) -> ReplicaKey:
    return ReplicaKey(node_id, directory(node_id, disk))


def addresses(node_id: int, port: int = 9093) -> tuple[Endpoint, ...]:
    return (Endpoint(LISTENER, f"host-{node_id}", port),)


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

    def receive(self, source: int, message: Message, correlation: int = 0, *batches: Batch) -> Output:
        return self.quorum.step(Received(source, message, correlation, LISTENER, batches), self.now_ms)

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


def answers(output: Output, to: int) -> list[Send | Answer]:
    """The messages to a node with their correlations, and with the place of their records."""
    return [each for each in output.send if each.to == to]


def fetch_to(output: Output, to: int) -> Send:
    """The only fetch that is sent to a node."""
    (found,) = [each for each in answers(output, to) if isinstance(each.message, wire.FetchRequest)]
    assert isinstance(found, Send)
    return found


def part_of_fetch(fetch: Send) -> wire.FetchRequest.FetchPartition:
    assert isinstance(fetch.message, wire.FetchRequest)
    return fetch.message.topics[0].partitions[0]


def end_of(fetch: Send) -> OffsetAndEpoch:
    """The end of the log that a fetch continues."""
    part = part_of_fetch(fetch)
    return OffsetAndEpoch(part.fetch_offset, part.last_fetched_epoch)


def errors(output: Output) -> list[ErrorCode]:
    """Those of the replies to changes of the voters."""
    return [reply.error for reply in output.replies]


def fetch(node: Node, source: int, end: int, disk: int = 0) -> Output:
    """A fetch of `source`, which has everything below `end`."""
    epoch = node.quorum.epoch
    message = fetch_request(replica(source, disk), epoch, OffsetAndEpoch(end, epoch if end else 0), 0, WAIT_MS)
    return node.receive(source, message, 7)


def lone_leader() -> Node:
    """Node 1 leads as the only voter, with three entries: Leadership, kraft.version and voters, all committed."""
    node = Node(voter(1), dynamic(1))
    node.synced()
    return node


def leader_of(*ids: int) -> Node:
    """Node 1 leads epoch 1 of the voters `ids`; everything is committed, and all have fetched it."""
    node = Node(voter(1), dynamic(*ids))
    node.tick(1000)
    for pre_vote in (True, False):
        for other in ids[1:]:
            node.receive(other, vote_response(0 if pre_vote else 1, -1, True), PRE_VOTE if pre_vote else VOTE)
    assert node.quorum.role is Role.LEADER
    node.synced()
    for other in ids[1:]:
        fetch(node, other, 3)
    assert node.quorum.high_watermark == 3
    return node
