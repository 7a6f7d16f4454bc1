"""What must be true of a quorum whatever happens. Checked after each step, against what has ever been true."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Protocol

from broker_cy.quorum.election_state import ElectionState
from broker_cy.quorum.messages import Batch, Fetch, VoteRequest, VoteResponse
from broker_cy.quorum.quorum import Quorum
from broker_cy.quorum.replication import CHECK_QUORUM_TENTHS
from broker_cy.quorum.step import Event, Received, Role, Send, Tick, Timeouts


class Logs(Protocol):
    log: list[Batch]
    durable: list[Batch]
    state: ElectionState | None


def end_of(log: Sequence[Batch]) -> int:
    return log[-1].end_offset if log else 0


def shared_length(one: Sequence[Batch], other: Sequence[Batch]) -> int:
    """The number of batches with which both begin."""
    for length, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return length
    return min(len(one), len(other))


class Checks:
    """What is checked:

    - One leader in each epoch, and one vote of each voter, whose epoch is on disk before anything is sent in it.
    - A committed batch is on the disks of a majority when it is committed, never changes, and is in the log of the
      leader of each later epoch. No voter truncates it.
    - Logs are equal up to the high watermark, which never goes back while a voter lives.
    - A leader that a majority no longer fetches from resigns (KAFKA-15489).
    """

    def __init__(self, voters: Sequence[int], logs: Mapping[int, Logs], timeouts: Timeouts) -> None:
        self.check_quorum_ms = timeouts.fetch_ms * CHECK_QUORUM_TENTHS // 10
        self.voters = voters
        self.logs = logs
        self.committed: list[Batch] = []
        self.committed_in: list[int] = []  # the epoch of the leader that committed each of them; ascends
        self.leaders: dict[int, int] = {}  # by epoch
        self.votes: dict[tuple[int, int], int] = {}  # (voter, epoch) -> candidate
        self._marks: dict[int, int] = {}  # the high watermark of each voter in this life
        self._checked: dict[int, int] = {}  # batches of its log that were compared in this life
        self._heard: dict[int, dict[int, int]] = {}  # when a leader was fetched from, by voter

    def begin_life(self, node_id: int) -> None:
        self._marks[node_id] = self._checked[node_id] = 0
        self._heard.pop(node_id, None)

    def sent(self, node_id: int, message: Send) -> None:
        state = self.logs[node_id].state
        assert state is not None, f"{node_id} has persisted nothing"
        assert state.epoch >= message.message.epoch, f"{node_id} has not persisted the epoch of {message}"
        match message.message:
            case VoteResponse(epoch, _, True, False):
                self._voted(node_id, epoch, message.to)
            case VoteRequest(epoch, _, False):
                self._voted(node_id, epoch, node_id)

    def _voted(self, voter: int, epoch: int, candidate: int) -> None:
        before = self.votes.setdefault((voter, epoch), candidate)
        assert before == candidate, f"{voter} voted for {before} and for {candidate} in epoch {epoch}"

    def truncated(self, node_id: int, removed: list[Batch]) -> None:
        committed = {batch.offset: batch for batch in self.committed}
        for batch in removed:
            assert committed.get(batch.offset) != batch, f"{node_id} truncated {batch}, which is committed"

    def after(self, node_id: int, quorum: Quorum, event: Event, now_ms: int) -> None:
        """Check a voter after it has taken an event."""
        if quorum.role is Role.LEADER:
            self._check_leader(node_id, quorum, event, now_ms)
        else:
            self._heard.pop(node_id, None)
        self._check_mark(node_id, quorum)

    def _check_leader(self, node_id: int, quorum: Quorum, event: Event, now_ms: int) -> None:
        leader = self.leaders.setdefault(quorum.epoch, node_id)
        assert leader == node_id, f"epoch {quorum.epoch} has the leaders {leader} and {node_id}"
        if node_id not in self._heard:
            self._heard[node_id] = {voter: now_ms for voter in self.voters if voter != node_id}
            length = shared_length(self.logs[node_id].log, self.committed)
            # Votes that arrive late may make a leader of an epoch that is over. It commits nothing any more.
            needed = bisect_right(self.committed_in, quorum.epoch)
            assert length >= needed, f"the leader {node_id} lacks {self.committed[length]}"
        heard = self._heard[node_id]
        match event:
            case Received(source, Fetch(epoch)) if epoch == quorum.epoch:
                heard[source] = now_ms
            case Tick():
                newest = sorted(heard.values(), reverse=True)[len(self.voters) // 2 - 1]
                assert now_ms < newest + self.check_quorum_ms, f"{node_id} leads without a majority since {newest} ms"

    def _check_mark(self, node_id: int, quorum: Quorum) -> None:
        mark = quorum.high_watermark
        assert mark >= self._marks[node_id], f"the high watermark of {node_id} went back"
        self._marks[node_id] = mark
        log = self.logs[node_id].log
        assert mark <= end_of(log)
        at = self._checked[node_id]
        while at < len(log) and log[at].end_offset <= mark:
            if at == len(self.committed):
                self._check_majority(at, log[at])
                self.committed.append(log[at])
                self.committed_in.append(quorum.epoch)
            assert log[at] == self.committed[at], f"{node_id} has {log[at]} committed, not {self.committed[at]}"
            at += 1
        self._checked[node_id] = at

    def _check_majority(self, at: int, batch: Batch) -> None:
        holders = [voter for voter, logs in self.logs.items() if at < len(logs.durable) and logs.durable[at] == batch]
        assert len(holders) * 2 > len(self.voters), f"{batch} is committed, and only {holders} have it on disk"
