"""One voter of the metadata quorum as a state machine (KIP-595): `step(event, now_ms)` returns what must be persisted,
appended and sent, and in which order. It holds no file, socket or clock, and draws only from the source that it is
given.

A quorum of one takes the same way as a larger one: it stands for election, votes for itself, and leads when its vote is
a majority, all in the step of the first event. It commits what it has synced.

Not implemented yet: observers, snapshots for a voter that needs what the log no longer has (FetchSnapshot), changes of
the voters (KIP-853), the directory ids of votes.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from broker_cy.core import uuid as uuids
from broker_cy.quorum import elections, replication
from broker_cy.quorum.election_state import ElectionState
from broker_cy.quorum.epochs import LogEpochs
from broker_cy.quorum.messages import (
    BeginQuorumEpoch,
    BeginQuorumEpochResponse,
    EndQuorumEpoch,
    EndQuorumEpochResponse,
    Fetch,
    FetchResponse,
    Message,
    VoteRequest,
    VoteResponse,
)
from broker_cy.quorum.state import NEVER, Draw, QuorumState
from broker_cy.quorum.step import (
    Append,
    Event,
    NotLeaderError,
    NotWritten,
    Output,
    Received,
    Role,
    Start,
    Stop,
    Synced,
    Tick,
    Timeouts,
)


class Quorum:
    """The caller carries out an Output (see there) before the next step."""

    __slots__ = ("_state",)

    def __init__(
        self,
        node_id: int,
        voters: Sequence[int],
        stored: ElectionState | None,
        log: LogEpochs,
        draw: Draw,
        timeouts: Timeouts | None = None,
        *,
        static_voters: bool = True,
        directory_id: UUID = uuids.ZERO,
    ) -> None:
        """`stored` is the content of quorum-state, None for a node that never voted; `log` is the log as it is on disk,
        which the machine keeps up to date; `draw` is what election timeouts are drawn with; `static_voters` is True
        for kraft.version 0, where quorum-state contains the voters; `directory_id` is that of the log's directory.
        """
        self._state = QuorumState(
            node_id,
            voters,
            stored,
            log,
            draw,
            timeouts or Timeouts(),
            static_voters=static_voters,
            directory_id=directory_id,
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
        """Everything below it is committed. 0 until the first leader after a start is known."""
        return self._state.high_watermark

    @property
    def end_offset(self) -> int:
        """The end of the log, written or not."""
        return self._state.log.end_offset

    def __repr__(self) -> str:
        state = self._state
        return (
            f"Quorum(node {state.node_id} of {state.voters}, {self.role.value} in epoch {state.epoch}, leader "
            f"{state.leader_id}, voted {state.voted_id}, log {state.log.end}, synced {state.synced_end}, high "
            f"watermark {state.high_watermark})"
        )

    def step(self, event: Event, now_ms: int) -> Output:
        """Take one event. `now_ms` is on a clock that never goes back. Raises NotLeaderError for an Append, and
        AssertionError if another voter breaks the rules of the protocol.
        """
        state = self._state
        state.now_ms = now_ms
        if state.role is not Role.CLOSED:
            self._take(event)
            replication.answer_parked(state)
            replication.fetch(state)
        elif isinstance(event, Append):
            raise NotLeaderError(f"{self!r} has stopped")
        return self._output()

    def _take(self, event: Event) -> None:
        state = self._state
        match event:
            case Start():
                _start(state)
            case Tick():
                _tick(state)
            case Received(source, message):
                if source in state.others:
                    _receive(state, source, message)
            case Append(epoch, offset, proposals):
                if state.role is not Role.LEADER or epoch != state.epoch or offset != state.log.end_offset:
                    raise NotLeaderError(f"cannot append at offset {offset} in epoch {epoch}: {self!r}")
                for proposal in proposals:
                    state.append(proposal.entries, proposal.content)
            case NotWritten(end_offset):
                _not_written(state, end_offset)
            case Synced(end_offset):
                replication.synced(state, end_offset)
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
        )
        state.truncate_to = -1
        state.to_append.clear()
        state.to_send.clear()
        return output


def _start(state: QuorumState) -> None:
    if not state.others:
        elections.stand(state)
    elif state.role is Role.FOLLOWER:
        state.deadline_ms = state.now_ms + state.timeouts.fetch_ms
    else:
        state.wait_for_election()


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


def _receive(state: QuorumState, source: int, message: Message) -> None:
    match message:
        case VoteRequest():
            elections.vote_requested(state, source, message)
        case VoteResponse():
            elections.vote_answered(state, source, message)
        case BeginQuorumEpoch():
            elections.epoch_begun(state, source, message)
        case BeginQuorumEpochResponse():
            elections.epoch_begin_answered(state, source, message)
        case EndQuorumEpoch():
            elections.epoch_ended(state, source, message)
        case EndQuorumEpochResponse():
            elections.epoch_end_answered(state, source, message)
        case Fetch():
            replication.fetch_requested(state, source, message)
        case FetchResponse():
            replication.fetch_answered(state, source, message)


def _not_written(state: QuorumState, end_offset: int) -> None:
    """What was to be appended is not in the log. A leader whose Leadership is among it has nothing to lead with."""
    state.log.truncate(end_offset)
    if state.role is Role.FOLLOWER:
        state.refetch_later()
    if state.role is Role.LEADER and end_offset <= state.epoch_start_offset:
        state.resign()


def _wake_ms(state: QuorumState) -> int:
    times = [state.deadline_ms, state.retry_ms]
    if state.role is Role.LEADER:
        times.append(replication.quorum_lost_ms(state))
        times += [progress.parked_until_ms for progress in state.progress.values() if progress.parked is not None]
    return min((time for time in times if time >= 0), default=NEVER)
