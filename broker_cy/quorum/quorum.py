"""One node of the metadata quorum as a state machine (KIP-595): `step(event, now_ms)` returns the data to persist, to
append and to send, and their order. It holds no file, socket or clock, and draws only from the source that it is given.

A quorum of one behaves like a larger one: it stands for election, votes for itself, and leads when its vote is a
majority, all in the step of the first event. It commits entries when they are synced.

A node that is not among the voters is an observer: it searches for the leader, fetches the log, and never stands.
"""

from __future__ import annotations

from broker_cy.quorum import changes, elections, replication, snapshots
from broker_cy.quorum.election_state import ElectionState, QuorumError
from broker_cy.quorum.entries import OffsetAndEpoch
from broker_cy.quorum.epochs import LogEpochs
from broker_cy.quorum.history import VoterHistory, VotersAt
from broker_cy.quorum.messages import leader_of
from broker_cy.quorum.state import NEVER, Draw, Progress, QuorumState
from broker_cy.quorum.step import (
    Append,
    ChangeVoters,
    ChunkWritten,
    Description,
    Event,
    LeaderGone,
    NotLeaderError,
    NotWritten,
    Output,
    Received,
    ReplicaDescription,
    Role,
    SnapshotDone,
    Snapshotted,
    Start,
    Stop,
    Synced,
    Tick,
    Timeouts,
)
from broker_cy.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet
from broker_cy.wire import messages as wire


class Quorum:
    """The caller carries out an Output (see there) before the next step."""

    __slots__ = ("_state",)

    def __init__(
        self,
        me: Voter,
        history: VoterHistory,
        stored: ElectionState | None,
        log: LogEpochs,
        draw: Draw,
        timeouts: Timeouts | None = None,
        *,
        snapshot_id: OffsetAndEpoch | None = None,
        bootstrap_servers: int = 0,
        auto_join: bool = False,
    ) -> None:
        """`me` is this node, even if it is not a voter; without `endpoints` it never reports them to the leader.
        `history` has the configured voters (kraft.version 0) or those of the newest snapshot, and later changes in the
        log. `stored` is the content of quorum-state, None for a node that never voted; `log` is the log on disk. The
        machine keeps both `history` and `log` up to date. `draw` draws the election timeouts. `snapshot_id` is the
        newest snapshot on disk, None without one above offset 0 (`storage format` writes one with offset 0); a log that
        does not contain the snapshot's last entry was emptied, and begins behind it.
        `bootstrap_servers` is the number of controller.quorum.bootstrap.servers; with `auto_join` an observer asks to
        become a voter. Raises QuorumError if log and snapshot do not fit together.
        """
        if snapshot_id is not None and not log.contains(snapshot_id):
            raise QuorumError(f"the log from {log.start} to {log.end} does not continue snapshot {snapshot_id}")
        if log.start.offset and (snapshot_id is None or snapshot_id < log.start):
            raise QuorumError(f"the log begins at {log.start}, and the newest snapshot is {snapshot_id}")
        self._state = QuorumState(
            me, history, stored, log, draw, timeouts or Timeouts(), snapshot_id, bootstrap_servers, auto_join
        )

    @property
    def role(self) -> Role:
        assert self._state.role is not None
        return self._state.role

    @property
    def epoch(self) -> int:
        return self._state.epoch

    @property
    def leader_id(self) -> int:
        """NO_LEADER if unknown."""
        return self._state.leader_id

    @property
    def high_watermark(self) -> int:
        """Everything below it is committed. Until the first leader after a start is known, the end of the newest
        snapshot, or 0.
        """
        return self._state.high_watermark

    @property
    def announced_end(self) -> int:
        """The end that the leader of this epoch has announced as committed, maybe beyond this log; 0 before that."""
        state = self._state
        if state.role is Role.LEADER:
            return state.high_watermark if state.high_watermark > state.epoch_start_offset else 0
        return max(0, state.leader_high_watermark)

    @property
    def end_offset(self) -> int:
        """The end of the log, written or not."""
        return self._state.log.end_offset

    @property
    def voters(self) -> VoterSet:
        """The newest ones in the log, committed or not."""
        return self._state.voters

    @property
    def kraft_version(self) -> int:
        return self._state.kraft_version

    @property
    def is_voter(self) -> bool:
        return self._state.is_voter

    def voters_at(self, end_offset: int) -> VotersAt:
        """The quorum's own state in a snapshot that ends at `end_offset`."""
        return self._state.history.at(end_offset)

    def endpoints(self, node_id: int) -> tuple[Endpoint, ...]:
        """The addresses of a node that a Send names: of a voter, or of the leader as it has announced them."""
        state = self._state
        if node_id == state.leader_id and state.leader_endpoints:
            return state.leader_endpoints
        return state.voters.endpoints(node_id)

    def describe(self, now_ms: int) -> Description | None:
        """Facts for DescribeQuorum; None unless this node leads. Static voters have no directory id, as in Kafka."""
        state = self._state
        if state.role is not Role.LEADER:
            return None
        state.now_ms = now_ms
        replication.drop_silent_observers(state)
        voters = [
            ReplicaDescription(key, state.log.end_offset, now_ms, now_ms)
            if key.id == state.node_id
            else _described(key, state.progress[key.id])
            for key in state.voters.keys
        ]
        observers = [_described(key, progress) for key, progress in state.observers.items()]
        if not state.is_voter:
            observers.append(ReplicaDescription(state.key, state.log.end_offset, now_ms, now_ms))
        is_known = state.high_watermark > state.epoch_start_offset
        return Description(
            state.node_id,
            state.epoch,
            state.high_watermark if is_known else -1,
            tuple(voters),
            tuple(sorted(observers)),
            state.voters.voters,
        )

    def __repr__(self) -> str:
        state = self._state
        return (
            f"Quorum(node {state.key} of {state.voters}, {self.role.value} in epoch {state.epoch}, leader "
            f"{state.leader_id}, voted {state.voted}, log {state.log.start} to {state.log.end}, synced "
            f"{state.synced_end}, high watermark {state.high_watermark})"
        )

    def step(self, event: Event, now_ms: int) -> Output:
        """Take one event. `now_ms` is on a clock that never goes back. Raises NotLeaderError for an Append, ValueError
        for a Snapshotted, and AssertionError if another node breaks the rules of the protocol.
        """
        state = self._state
        state.now_ms = now_ms
        if state.role is not Role.CLOSED:
            self._take(event)
            changes.settle(state)
            replication.answer_parked(state)
            replication.fetch(state)
            snapshots.fetch(state)
            changes.report(state)
            changes.join(state)
        elif isinstance(event, Append):
            raise NotLeaderError(f"{self!r} has stopped")
        return self._output()

    def _take(self, event: Event) -> None:
        state = self._state
        match event:
            case Received():
                _receive(state, event)
            case Tick():
                _tick(state)
            case LeaderGone():
                elections.leader_gone(state, event)
            case Synced(end_offset):
                replication.synced(state, end_offset)
            case Append(epoch, offset, proposals):
                if state.role is not Role.LEADER or epoch != state.epoch or offset != state.log.end_offset:
                    raise NotLeaderError(f"cannot append at offset {offset} in epoch {epoch}: {self!r}")
                for proposal in proposals:
                    state.append(proposal.entries, proposal.content)
            case Start():
                _start(state)
            case NotWritten(end_offset):
                _not_written(state, end_offset)
            case ChangeVoters():
                changes.change(state, event)
            case Snapshotted():
                snapshots.taken(state, event)
            case ChunkWritten():
                snapshots.chunk_written(state, event)
            case SnapshotDone():
                snapshots.done(state, event)
            case Stop():
                if state.role is Role.LEADER:
                    state.resign()
                state.become(Role.CLOSED)
                state.deadline_ms = NEVER

    def _output(self) -> Output:
        state = self._state
        output = Output(
            self.role,
            state.epoch,
            state.leader_id,
            state.high_watermark,
            state.take_record(),
            state.truncate_to,
            tuple(state.to_append),
            tuple(state.to_send),
            _wake_ms(state),
            state.replace_log,
            state.chunk,
            tuple(state.replies),
            state.leader_endpoints,
            state.record_binds,
        )
        state.record_binds = False
        state.truncate_to = -1
        state.replace_log = state.chunk = None
        state.to_append.clear()
        state.to_send.clear()
        state.replies.clear()
        return output


def _described(key: ReplicaKey, progress: Progress) -> ReplicaDescription:
    return ReplicaDescription(key, progress.end_offset, progress.fetched_ms, progress.caught_up_ms)


def _start(state: QuorumState) -> None:
    if state.is_voter and not state.others:
        elections.stand(state)
    elif state.role is Role.FOLLOWER:
        state.deadline_ms = state.now_ms + state.timeouts.fetch_ms
    elif state.may_stand:
        state.wait_for_election()
    else:
        elections.stand(state)


def _tick(state: QuorumState) -> None:
    if 0 <= state.retry_ms <= state.now_ms:
        state.retry_ms = NEVER
        state.is_fetching = False
    if state.role is Role.LEADER:
        if 0 <= replication.quorum_lost_ms(state) <= state.now_ms:
            state.resign()
            return
        if 0 <= state.deadline_ms <= state.now_ms:
            replication.remind(state)
    elif 0 <= state.deadline_ms <= state.now_ms:
        elections.stand(state)


def _receive(state: QuorumState, event: Received) -> None:
    match event.message:
        case wire.FetchRequest() as message:
            replication.fetch_requested(state, event, message)
        case wire.FetchResponse() as message:
            replication.fetch_answered(state, event, message)
        case wire.VoteRequest() as message:
            elections.vote_requested(state, event, message)
        case wire.VoteResponse() as message:
            _learn(state, event)
            elections.vote_answered(state, event, message)
        case wire.BeginQuorumEpochRequest() as message:
            elections.epoch_begun(state, event, message)
        case wire.EndQuorumEpochRequest() as message:
            elections.epoch_ended(state, event, message)
        case wire.BeginQuorumEpochResponse() | wire.EndQuorumEpochResponse() | wire.UpdateRaftVoterResponse():
            _learn(state, event)
        case wire.FetchSnapshotRequest() as message:
            snapshots.requested(state, event, message)
        case wire.FetchSnapshotResponse() as message:
            _learn(state, event)
            snapshots.fetch_answered(state, event, message)
        case wire.UpdateRaftVoterRequest() as message:
            changes.update_requested(state, event, message)
        case wire.AddRaftVoterResponse() | wire.RemoveRaftVoterResponse():
            # An observer that is a voter now learns it from its log; another one asks again.
            pass
        case wire.AddRaftVoterRequest() | wire.RemoveRaftVoterRequest():
            raise AssertionError(f"{event.message} is a ChangeVoters for its receiver")


def _learn(state: QuorumState, event: Received) -> None:
    elections.learn(state, event.source, *leader_of(event.message, event.listener))


def _not_written(state: QuorumState, end_offset: int) -> None:
    """The entries from `end_offset` on were not appended. If its Leadership is among them, a leader cannot lead."""
    state.truncate(end_offset)
    if state.role is Role.FOLLOWER:
        state.refetch_later()
    if state.role is Role.LEADER:
        changes.not_written(state, end_offset)
        if end_offset <= state.epoch_start_offset:
            state.resign()


def _wake_ms(state: QuorumState) -> int:
    times = [state.deadline_ms, state.retry_ms]
    if state.role is Role.LEADER:
        times.append(replication.quorum_lost_ms(state))
        times += [parked.until_ms for parked in state.parked.values()]
        if state.change is not None:
            times.append(state.change.until_ms)
    return min((time for time in times if time >= 0), default=NEVER)
