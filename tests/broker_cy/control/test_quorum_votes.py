"""Votes of a node of the metadata quorum: a worker brings them to the disk, and nothing leaves before that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from types import SimpleNamespace
from typing import Any, cast

from broker_cy.control.quorum.quorum_driver import QuorumDriver, QuorumListener
from broker_cy.core.clock import ManualClock
from broker_cy.metadata.loader import Loader
from broker_cy.metadata.snapshot import SnapshotId
from broker_cy.quorum.election_state import ElectionState
from broker_cy.quorum.entries import OffsetAndEpoch
from broker_cy.quorum.epochs import LogEpochs
from broker_cy.quorum.history import VoterHistory
from broker_cy.quorum.messages import begin_request, begin_response, vote_request
from broker_cy.quorum.quorum import Quorum
from broker_cy.quorum.step import Answer, Role, Send, SnapshotChunk, SnapshotDone
from broker_cy.quorum.voters import ReplicaKey, Voter, VoterSet
from broker_cy.wire import messages

VOTERS = (1, 2, 3)


class Held(Executor):
    """Workers whose jobs run when the test lets them."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.jobs.append((future, lambda: fn(*args, **kwargs)))
        return future

    def run(self) -> None:
        future, work = self.jobs.pop(0)
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)


class Files:
    """The files of a metadata log. Each write is noted with the messages that were sent by then."""

    def __init__(self) -> None:
        self.log = SimpleNamespace(log_end_offset=0)
        self.written: list[ElectionState] = []
        self.bound: list[bool] = []
        self.syncs: list[OffsetAndEpoch] = []
        self.error: OSError | None = None

    def write_election_state(self, state: ElectionState, *, is_bound: bool) -> None:
        if self.error is not None:
            raise self.error
        self.written.append(state)
        self.bound.append(is_bound)

    def replace(self, start: OffsetAndEpoch, now_ms: int) -> Callable[[], None]:
        self.log.log_end_offset = start.offset
        return lambda: self.syncs.append(start)

    def write_chunk(self, chunk: SnapshotChunk) -> tuple[SnapshotDone, Loader]:
        return SnapshotDone(chunk.snapshot_id, 0, None), LOADER


LOADER = Loader()


class Node:
    """One of three voters; the test plays the others."""

    def __init__(self) -> None:
        self.files, self.workers = Files(), Held()
        self.sent: list[Send] = []
        self.reasons: list[str] = []
        self.replaced: list[tuple[SnapshotId, Loader]] = []
        history = VoterHistory(VoterSet.of_ids(VOTERS))
        quorum = Quorum(
            Voter(ReplicaKey(1)), history, None, LogEpochs(0, [], OffsetAndEpoch(0, 0)), lambda low, high: low
        )
        listener = QuorumListener(
            lambda output: None,
            lambda error: None,
            self.reasons.append,
            lambda snapshot_id, loader: self.replaced.append((snapshot_id, loader)),
        )
        loop, clock = asyncio.get_running_loop(), ManualClock()
        self.driver = QuorumDriver(
            quorum, cast(Any, self.files), clock, loop, self.workers, listener, self, self.workers
        )
        self.driver.start()

    def send(self, request: Send) -> None:
        self.sent.append(request)

    def asked(self, epoch: int, source: int) -> asyncio.Future[Any]:
        request = vote_request(ReplicaKey(source), epoch, OffsetAndEpoch(0, 0), pre_vote=False)
        return self.driver.ask(source, request)


def is_granted(answer: Answer) -> bool:
    assert isinstance(answer.message, messages.VoteResponse)
    return answer.message.topics[0].partitions[0].vote_granted


async def turns() -> None:
    """Let everything happen that waits for nothing but the loop."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_vote_leaves_when_a_worker_has_brought_it_to_the_disk() -> None:
    """If this fails, each vote blocks the event loop for two syncs, or a node that loses power after its vote votes
    twice in one epoch, and two controllers lead it.
    """

    async def work() -> None:
        node = Node()
        vote = node.asked(5, 2)
        other = node.asked(5, 3)
        await turns()
        assert not node.files.written, "a vote was written on the loop"
        assert not vote.done()
        assert not other.done(), "it would show for whom this node has voted"
        node.workers.run()
        await turns()
        assert is_granted(vote.result())
        assert not is_granted(other.result())
        assert [(each.epoch, each.voted_id) for each in node.files.written] == [(5, 2)]

    asyncio.run(work())


def test_a_leader_is_followed_before_its_name_is_on_the_disk() -> None:
    """If this fails, each failover of the active controller takes four more syncs, one after the other, until clients
    have other leaders: on a busy disk half a second.
    """

    async def work() -> None:
        node = Node()
        vote = node.asked(5, 2)
        await turns()
        begun = node.driver.ask(2, begin_request(2, 5))
        await turns()
        assert not begun.done(), "what leaves shows an epoch in which a vote is not on disk"
        node.workers.run()
        await turns()
        assert is_granted(vote.result())
        answer = begun.result()
        assert answer is not None
        assert answer.message == begin_response(5, 2)
        assert [(each.to, type(each.message)) for each in node.sent] == [(2, messages.FetchRequest)]
        assert len(node.workers.jobs) == 1
        node.workers.run()
        await turns()
        assert [(each.voted_id, each.leader_id) for each in node.files.written] == [(2, -1), (-1, 2)]
        assert node.files.bound == [True, False]
        # A newer vote is waited for all the same.
        again = node.asked(6, 3)
        await turns()
        assert not again.done()
        node.workers.run()
        await turns()
        assert is_granted(again.result())

    asyncio.run(work())


def test_votes_of_several_epochs_share_a_write() -> None:
    """If this fails, a slow disk has a queue of votes, although only the last one counts."""

    async def work() -> None:
        node = Node()
        votes = [node.asked(5, 2)]
        await turns()
        votes += [node.asked(epoch, 3) for epoch in (6, 7, 8)]
        await turns()
        node.workers.run()
        await turns()
        assert not any(each.done() for each in votes), "one of a later epoch is not on disk"
        node.workers.run()
        await turns()
        assert [is_granted(each.result()) for each in votes] == [True] * 4
        assert [each.epoch for each in node.files.written] == [5, 8]
        assert not node.workers.jobs

    asyncio.run(work())


def test_a_node_that_cannot_write_its_vote_leaves_the_quorum() -> None:
    """If this fails, a node with a dead disk votes, and votes differently after its next start; or a request of another
    node waits forever.
    """

    async def work() -> None:
        node = Node()
        vote = node.asked(5, 2)
        await turns()
        node.files.error = OSError(5, "Input/output error")
        node.workers.run()
        await turns()
        assert vote.result() is None
        assert len(node.reasons) == 1
        assert "cannot be changed" in node.reasons[0]
        assert node.driver.quorum.role is Role.CLOSED
        node.driver.halt("again")
        assert len(node.reasons) == 1

    asyncio.run(work())


def test_a_fetched_snapshot_is_parsed_once_and_by_a_worker() -> None:
    """If this fails, a controller that has fetched a snapshot of 100,000 partitions blocks for seconds while it reads
    it a second time, and is considered dead.
    """

    async def work() -> None:
        node = Node()
        await turns()
        node.workers.run()  # the voters that it has begun with
        await turns()
        snapshot = OffsetAndEpoch(100, 3)
        chunk = SnapshotChunk(snapshot, 0, b"content", is_last=True)
        node.driver._write_chunk(chunk)
        node.workers.run()
        await turns()
        assert node.replaced == [(SnapshotId(100, 3), LOADER)]
        assert node.files.syncs == [], "the names of the new log were synced on the loop"
        node.workers.run()
        await turns()
        assert node.files.syncs == [snapshot]
        assert not node.workers.jobs

    asyncio.run(work())
