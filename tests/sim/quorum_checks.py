"""The invariants of a quorum. They are checked after each step, against everything that has ever been true."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from typing import Protocol

from broker_cy.core.uuid import ZERO
from broker_cy.quorum import elections
from broker_cy.quorum.entries import Batch, KRaftVersion, Leadership
from broker_cy.quorum.history import VoterHistory
from broker_cy.quorum.messages import leader_of, part_of
from broker_cy.quorum.quorum import Quorum
from broker_cy.quorum.replication import CHECK_QUORUM_TENTHS
from broker_cy.quorum.step import Answer, Event, Output, Received, Role, Send, Tick, Timeouts
from broker_cy.quorum.voters import ReplicaKey, VoterSet
from broker_cy.wire import messages as wire
from broker_cy.wire.codec import Message
from tests.sim.quorum_disk import Disk, find


class Machine(Protocol):
    """A node as the checks see it."""

    node_id: int
    disk: Disk

    @property
    def key(self) -> ReplicaKey: ...


def epoch_of(message: Message) -> int:
    """The epoch in a message, -1 for a change of the voters, which has none."""
    match message:
        case wire.VoteRequest():
            return message.topics[0].partitions[0].replica_epoch
        case wire.BeginQuorumEpochRequest() | wire.EndQuorumEpochRequest():
            return message.topics[0].partitions[0].leader_epoch
        case wire.FetchRequest() | wire.FetchSnapshotRequest():
            return message.topics[0].partitions[0].current_leader_epoch
        case wire.UpdateRaftVoterRequest():
            return message.current_leader_epoch
        case wire.AddRaftVoterRequest() | wire.RemoveRaftVoterRequest():
            return -1
    return leader_of(message, "")[0]


class Checks:
    """These invariants are checked:

    - Each epoch has at most one leader. Each replica votes at most once per epoch, and has the epoch on disk before it
      sends anything in it.
    - A committed batch is on the disks of a majority of the voters that are in force when it is committed, never
      changes, and is in the log of the leader of each later epoch, or in a snapshot of it. No node truncates it.
    - Logs are equal up to the high watermark, which never goes back while a node lives.
    - A leader that a majority no longer fetches from resigns (KAFKA-15489), and so does one that is removed.
    - Voters are those of the newest record in the log. A change concerns one voter, and follows the commit of the
      change before, and of an entry of the leader's epoch. Only voters stand. A removed voter is a voter again only if
      an operator has added it (KAFKA-19850).
    - A log begins where a snapshot ends (KAFKA-14238).
    """

    def __init__(self, nodes: Mapping[int, Machine], timeouts: Timeouts) -> None:
        self.check_quorum_ms = timeouts.fetch_ms * CHECK_QUORUM_TENTHS // 10
        self.nodes = nodes
        self.committed: list[Batch] = []
        self.committed_in: list[int] = []  # the epoch of the leader that committed each of them; ascends
        self.committed_voters: VoterSet | None = None
        self.leaders: dict[int, int] = {}  # by epoch
        self.votes: dict[tuple[ReplicaKey, int], tuple[int, object]] = {}  # (replica, epoch) -> candidate
        self.added: set[ReplicaKey] = set()  # by operators, and not removed since
        self.changes = 0  # of the voters, committed
        self._voters: dict[int, VoterHistory] = {}  # by node: what its log says
        self._epoch_start: dict[int, int] = {}  # the offset of the newest Leadership that a node has written
        self._marks: dict[int, int] = {}  # the high watermark of each node in this life
        self._checked: dict[int, int] = {}  # the end of its log that was compared in this life
        self._heard: dict[int, dict[ReplicaKey, int]] = {}  # when a leader was fetched from

    def begin_life(self, node_id: int, history: VoterHistory) -> None:
        disk = self.nodes[node_id].disk
        self._marks[node_id] = 0
        self._checked[node_id] = disk.start.offset
        self._heard.pop(node_id, None)
        copy = self._voters[node_id] = VoterHistory(disk.formatted.voters, disk.formatted.kraft_version)
        if disk.start.offset:
            base = disk.snapshots[disk.start]
            copy.replace(base.voters, base.kraft_version)
        for batch in disk.log:
            copy.note(batch.offset, batch.control)
        assert copy.newest == history.newest

    # --- what a node does

    def sent(self, node_id: int, message: Send | Answer) -> None:
        node = self.nodes[node_id]
        state = node.disk.state
        content = message.message
        assert state is not None, f"{node_id} has persisted nothing"
        epoch = epoch_of(content)
        assert state.epoch >= epoch, f"{node_id} has not persisted the epoch of {message}"
        match content:
            case wire.VoteResponse() if part_of(content).vote_granted and message.correlation == elections.VOTE:
                assert state.voted_id == message.to, f"{node_id} has not persisted its vote for {message.to}"
                self._voted(node.key, epoch, (message.to, state.voted_directory_id))
            case wire.VoteRequest():
                self._check_stands(node)
                if not part_of(content).pre_vote:
                    self._voted(node.key, epoch, (node_id, state.voted_directory_id))

    def _check_stands(self, node: Machine) -> None:
        """A voter stands, also one that a change removes which may not be committed."""
        history = self._voters[node.node_id]
        before = history.before_newest
        is_removed = self._marks[node.node_id] > history.newest.offset or before is None
        assert node.key in history.newest.voters or (not is_removed and before and node.key in before.voters), (
            f"{node.key} stands, and the voters are {history.newest.voters}"
        )

    def _voted(self, voter: ReplicaKey, epoch: int, candidate: tuple[int, object]) -> None:
        before = self.votes.setdefault((voter, epoch), candidate)
        assert before == candidate, f"{voter} voted for {before} and for {candidate} in epoch {epoch}"

    def appended(self, node_id: int, batch: Batch, output: Output) -> None:
        """A batch was written to the log of a node."""
        if not batch.control:
            return
        history = self._voters[node_id]
        before = history.newest
        if isinstance(batch.control[0], Leadership):
            self._epoch_start[node_id] = batch.offset
        elif output.role is Role.LEADER:
            start = self._epoch_start[node_id]
            assert output.high_watermark > start, f"{node_id} changes the voters, and {start} is not committed"
        if not history.note(batch.offset, batch.control) or output.role is not Role.LEADER:
            return
        after = history.newest
        changed = set(before.voters.keys) ^ set(after.voters.keys)
        if before.kraft_version and after.kraft_version and before.offset >= 0:
            assert len(changed) <= 1, f"{node_id} changes the voters {before.voters} to {after.voters}"
            assert before.offset < output.high_watermark, f"{node_id} changes the voters, and {before} is not committed"

    def truncated(self, node_id: int, end_offset: int, removed: list[Batch]) -> None:
        self._voters[node_id].truncate(end_offset)
        for batch in removed:
            assert find(self.committed, batch.offset) != batch, f"{node_id} truncated {batch}, which is committed"

    def replaced(self, node_id: int) -> None:
        """The log of a node begins after a snapshot."""
        disk = self.nodes[node_id].disk
        snapshot = disk.snapshots[disk.start]
        self._voters[node_id].replace(snapshot.voters, snapshot.kraft_version)
        self._checked[node_id] = disk.start.offset
        assert self._end() >= disk.start.offset, f"{node_id} has snapshot {disk.start}, which is not committed"

    def _end(self) -> int:
        return self.committed[-1].end_offset if self.committed else 0

    # --- what a node is

    def after(self, node_id: int, quorum: Quorum, event: Event, now_ms: int) -> None:
        """Check a node after it has taken an event."""
        disk = self.nodes[node_id].disk
        assert quorum.voters is self._voters[node_id].newest.voters or (
            quorum.voters == self._voters[node_id].newest.voters
        ), f"{node_id} counts {quorum.voters} as voters, its log has {self._voters[node_id].newest}"
        newest = disk.newest
        assert disk.start.offset == 0 or (newest is not None and newest >= disk.start)
        if quorum.role is Role.LEADER:
            self._check_leader(node_id, quorum, event, now_ms)
        else:
            self._heard.pop(node_id, None)
        self._check_mark(node_id, quorum)

    def _check_leader(self, node_id: int, quorum: Quorum, event: Event, now_ms: int) -> None:
        leader = self.leaders.setdefault(quorum.epoch, node_id)
        assert leader == node_id, f"epoch {quorum.epoch} has the leaders {leader} and {node_id}"
        voters = quorum.voters
        is_removed = not quorum.is_voter and self._voters[node_id].newest.offset < quorum.high_watermark
        assert not is_removed, f"{node_id} leads, and it is committed that it is no voter"
        if node_id not in self._heard:
            self._heard[node_id] = {}
            self._check_complete(node_id, quorum)
        heard = self._heard[node_id]
        others = [key for key in voters.keys if key.id != node_id]
        for key in others:
            heard.setdefault(key, now_ms)
        match event:
            case Received(source, wire.FetchRequest() | wire.FetchSnapshotRequest() as request):
                part = request.topics[0].partitions[0]
                if part.current_leader_epoch == quorum.epoch:
                    heard[ReplicaKey(source, part.replica_directory_id)] = heard[ReplicaKey(source)] = now_ms
            case Tick() if others:
                needed = voters.majority - (1 if quorum.is_voter else 0)
                times = sorted((heard[key] for key in others), reverse=True)
                newest = times[needed - 1] if needed else now_ms
                assert now_ms < newest + self.check_quorum_ms, f"{node_id} leads without a majority since {newest} ms"

    def _check_complete(self, node_id: int, quorum: Quorum) -> None:
        """The log of a new leader has everything that was committed in epochs before its own."""
        disk = self.nodes[node_id].disk
        # Votes that arrive late may make a leader of an epoch that is over. It commits nothing any more.
        needed = self.committed[: bisect_right(self.committed_in, quorum.epoch)]
        at = bisect_left(needed, disk.start.offset, key=lambda batch: batch.offset)
        for mine, batch in zip(disk.log, needed[at:], strict=False):
            assert mine == batch, f"the leader {node_id} has {mine} instead of {batch}"
        assert len(disk.log) >= len(needed) - at, f"the leader {node_id} lacks {needed[at + len(disk.log)]}"

    def _check_mark(self, node_id: int, quorum: Quorum) -> None:
        mark = quorum.high_watermark
        if mark == self._marks[node_id]:
            return
        assert mark >= self._marks[node_id], f"the high watermark of {node_id} went back"
        self._marks[node_id] = mark
        disk = self.nodes[node_id].disk
        assert disk.start.offset <= mark <= disk.end
        log = disk.log
        checked = self._checked[node_id]
        at = bisect_left(log, checked, key=lambda batch: batch.offset)
        known = bisect_left(self.committed, checked, key=lambda batch: batch.offset)
        while at < len(log) and log[at].end_offset <= mark:
            if known == len(self.committed):
                self._commit(log[at], quorum)
            assert log[at] == self.committed[known], f"{node_id} has {log[at]} committed, not {self.committed[known]}"
            at += 1
            known += 1
        self._checked[node_id] = log[at - 1].end_offset if at else checked

    def _commit(self, batch: Batch, quorum: Quorum) -> None:
        voters = quorum.voters
        holders = [node.key for node in self.nodes.values() if node.key in voters and node.disk.has_durable(batch)]
        # A lost disk counts as a holder while it is among the voters: it acknowledged the batch.
        there = {node.key for node in self.nodes.values()}
        holders += [key for key in voters.keys if key.directory_id != ZERO and key not in there]
        assert len(holders) >= voters.majority, f"{batch} is committed by {voters}, and only {holders} have it on disk"
        self.committed.append(batch)
        self.committed_in.append(quorum.epoch)
        found = [entry for entry in batch.control if isinstance(entry, VoterSet)]
        if not found:
            return
        self.changes += 1
        before = set(self.committed_voters.keys) if self.committed_voters is not None else set(found[-1].keys)
        after = set(found[-1].keys)
        if not any(isinstance(entry, KRaftVersion) for entry in batch.control):
            rejoined = after - before - self.added
            assert not rejoined, f"{rejoined} became voters without being added"
        self.added -= before - after
        self.committed_voters = found[-1]
