"""Replication of the metadata log (KIP-595): followers fetch, and the offset of a fetch is the acknowledgement of
all entries before it. The high watermark is the offset that a majority of the voters has on disk. A leader resigns if a
majority no longer fetches from it (KAFKA-15489).

A replica that fetches and is not a voter is an observer: it gets the same entries, but no majority counts it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_cy.core.errors import ErrorCode
from broker_cy.quorum import elections
from broker_cy.quorum.entries import OffsetAndEpoch
from broker_cy.quorum.messages import fetch_request, fetch_response, leader_of
from broker_cy.quorum.state import NEVER, OBSERVERS_MAX, Parked, Progress, QuorumState, SnapshotFetch
from broker_cy.quorum.step import BOOTSTRAP, Received, Role
from broker_cy.quorum.voters import ReplicaKey

if TYPE_CHECKING:
    from broker_cy.wire import messages as wire

# Kafka's CHECK_QUORUM_TIMEOUT_FACTOR, in tenths: the leader resigns later than its followers time out.
CHECK_QUORUM_TENTHS = 15
# As in Kafka, an observer that did not fetch for this time is no longer shown.
OBSERVER_MS = 300_000

# --- the follower


def fetch(state: QuorumState) -> None:
    """Fetch from the leader, unless a fetch is on its way or the log is not on disk up to its end."""
    if (
        state.role is not Role.FOLLOWER
        or state.is_fetching
        or state.snapshot_fetch is not None
        or state.synced_end < state.log.end_offset
    ):
        return
    state.correlation += 1
    state.is_fetching = True
    state.retry_ms = state.now_ms + state.timeouts.request_ms
    request = fetch_request(state.key, state.epoch, state.log.end, state.high_watermark, state.timeouts.fetch_wait_ms)
    state.send(state.leader_id, request, state.correlation)


def fetch_answered(state: QuorumState, event: Received, response: wire.FetchResponse) -> None:
    part = response.responses[0].partitions[0]
    epoch, leader_id, addresses = leader_of(response, event.listener)
    # Only the leader answers without an error, so that a bootstrap server of unknown id is known then.
    is_leader = event.source <= BOOTSTRAP and not part.error_code
    elections.learn(state, leader_id if is_leader else event.source, epoch, leader_id, addresses)
    if not _is_expected(state, event, epoch):
        return
    if leader_id != event.source or part.error_code:
        # It leads no longer. The fetch is repeated after the request timeout, unless the fetch timeout ends before.
        return
    state.fetch_arrived(event.correlation)
    if part.diverging_epoch.epoch >= 0:
        _truncate(state, OffsetAndEpoch(part.diverging_epoch.end_offset, part.diverging_epoch.epoch))
        return
    if part.snapshot_id.epoch >= 0:
        if part.snapshot_id.end_offset > state.high_watermark:
            state.snapshot_fetch = SnapshotFetch(OffsetAndEpoch(part.snapshot_id.end_offset, part.snapshot_id.epoch))
        else:
            # Its content is already committed here. A leader has no reason to offer it.
            state.refetch_later()
        return
    for batch in event.batches:
        if batch.epoch > state.epoch:
            raise AssertionError(f"the leader of epoch {state.epoch} sent an entry of epoch {batch.epoch}")
        state.log.append(batch.epoch, batch.offset, batch.end_offset)
        state.to_append.append(batch)
        if batch.control and state.history.note(batch.offset, batch.control):
            state.take_voters()
    state.leader_high_watermark = part.high_watermark
    advance(state)


def _truncate(state: QuorumState, diverging: OffsetAndEpoch) -> None:
    """Truncate to the entries that the leader may also have."""
    shared = state.log.end_of(diverging.epoch)
    # Without entries of that epoch here, the next fetch asks about the newest epoch before it. Truncating it to the
    # leader's offset could cut a batch, whose epoch is another one there.
    is_shared = shared.epoch == diverging.epoch
    end_offset = min(shared.offset, diverging.offset) if is_shared else shared.offset
    if end_offset < state.high_watermark:
        raise AssertionError(f"truncation to {end_offset}, below the high watermark {state.high_watermark}")
    state.truncate(end_offset)
    state.truncate_to = end_offset


def _is_expected(state: QuorumState, event: Received, epoch: int) -> bool:
    """Whether a response of a node in `epoch` answers the newest fetch: an older one may have been sent before the log
    was truncated.
    """
    return (
        state.role is Role.FOLLOWER
        and event.source == state.leader_id
        and epoch == state.epoch
        and state.is_fetching
        and event.correlation == state.correlation
    )


# --- the leader


def leader_error(state: QuorumState, epoch: int) -> ErrorCode:
    """The error of a request of `epoch` that only the leader of this epoch takes."""
    if epoch < state.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > state.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE if state.role is Role.LEADER else ErrorCode.NOT_LEADER_OR_FOLLOWER


def fetch_requested(state: QuorumState, event: Received, request: wire.FetchRequest) -> None:
    part = request.topics[0].partitions[0]
    epoch, end = part.current_leader_epoch, OffsetAndEpoch(part.fetch_offset, part.last_fetched_epoch)
    error = leader_error(state, epoch)
    if end.offset < 0 or request.max_wait_ms < 0 or not 0 <= end.epoch <= epoch:
        error = ErrorCode.INVALID_REQUEST
    if error is not ErrorCode.NONE:
        _refuse(state, event, error)
        return
    key = ReplicaKey(event.source, part.replica_directory_id)
    progress = progress_of(state, key)
    before_ms = NEVER
    if progress is not None:
        before_ms = progress.fetched_ms
        progress.counted_ms = progress.fetched_ms = state.now_ms
    parked = state.parked.pop(key, None)
    if parked is not None and parked.event.correlation != event.correlation:
        # Its sender has given it up, but its connection still needs a response.
        _answer(state, parked.event, parked.end_offset)
    needed = _snapshot_needed(state, end)
    if needed is not None:
        _answer(state, event, snapshot_id=needed)
        return
    shared = state.log.end_of(end.epoch)
    if end.offset and (shared.epoch != end.epoch or shared.offset < end.offset):
        # Nothing is learned from a log that may have other entries (KAFKA-13141).
        _answer(state, event, diverging=shared)
        return
    if progress is not None:
        _acknowledge(state, progress, end.offset, before_ms)
        advance(state)
    if len(state.parked) < OBSERVERS_MAX or key in state.voters:
        until_ms = state.now_ms + request.max_wait_ms
        state.parked[key] = Parked(event, epoch, end.offset, part.high_watermark, until_ms)
    else:
        _answer(state, event, end.offset)


def progress_of(state: QuorumState, key: ReplicaKey) -> Progress | None:
    """The progress of the replica. None if the key is not a replica's, and for this node: it may have sent a request to
    itself, as one of the bootstrap servers, before it became the leader.
    """
    if key.id < 0 or key == state.key:
        return None
    if key.id != state.node_id and key in state.voters:
        found = state.progress[key.id]
        if state.kraft_version == 0:
            found.directory_id = key.directory_id
        return found
    observer = state.observers.get(key)
    if observer is None:
        if len(state.observers) >= OBSERVERS_MAX:
            del state.observers[min(state.observers, key=lambda one: state.observers[one].fetched_ms)]
        observer = state.observers[key] = Progress(state.now_ms, key.directory_id)
    return observer


def _acknowledge(state: QuorumState, progress: Progress, end_offset: int, before_ms: int) -> None:
    """Note a fetch from `end_offset` on; the replica fetched at `before_ms` before."""
    if end_offset >= state.log.end_offset:
        progress.caught_up_ms = state.now_ms
    elif 0 <= progress.leader_end_offset <= end_offset:
        # It has all that the leader had then, which may be long ago.
        progress.caught_up_ms = max(progress.caught_up_ms, before_ms)
    progress.leader_end_offset = state.log.end_offset
    # A fetch that was overtaken by a later one moves nothing back.
    progress.end_offset = max(progress.end_offset, end_offset)


def _snapshot_needed(state: QuorumState, end: OffsetAndEpoch) -> OffsetAndEpoch | None:
    """The snapshot for a replica whose log ends at `end`, if this log no longer has the next entries (KIP-630)."""
    start = state.log.start
    if state.snapshot_id is None or not (
        end.offset == 0  # A snapshot is smaller than the log.
        or end.offset < start.offset
        or end.epoch < start.epoch
        or (end.offset == start.offset and end.epoch != start.epoch)
    ):
        return None
    return state.snapshot_id


def _answer(
    state: QuorumState,
    event: Received,
    records_from: int = -1,
    *,
    diverging: OffsetAndEpoch | None = None,
    snapshot_id: OffsetAndEpoch | None = None,
) -> None:
    response = fetch_response(
        state.epoch,
        state.node_id,
        # A follower may know more than a leader that has not committed an entry yet, and Kafka's follower insists that
        # the high watermark never goes back: -1 means that it is unknown.
        state.high_watermark if state.high_watermark > state.epoch_start_offset else -1,
        address=state.leader_address(event),
        log_start_offset=state.log.start.offset,
        diverging=diverging,
        snapshot_id=snapshot_id,
    )
    state.answer(event, response, records_from)


def _refuse(state: QuorumState, event: Received, error: ErrorCode) -> None:
    address = state.leader_address(event)
    state.answer(event, fetch_response(state.epoch, state.leader_id, error=error, address=address))


def synced(state: QuorumState, end_offset: int) -> None:
    """Everything below `end_offset` is on disk here."""
    assert end_offset <= state.log.end_offset
    state.synced_end = max(state.synced_end, end_offset)
    advance(state)


def advance(state: QuorumState) -> None:
    """Move the high watermark: a leader's to the end that a majority of the voters has on disk, a follower's to that of
    its leader, as far as its own disk has it.
    """
    if state.role is Role.FOLLOWER:
        state.high_watermark = max(state.high_watermark, min(state.leader_high_watermark, state.synced_end))
    if state.role is not Role.LEADER:
        return
    ends = [progress.end_offset for progress in state.progress.values()]
    if state.is_voter:
        # A leader that has removed itself does not count.
        ends.append(state.synced_end)
    ends.sort(reverse=True)
    held = ends[state.voters.majority - 1]
    # Entries of earlier epochs are committed only together with one of this epoch (Raft, section 5.4.2).
    if held > state.epoch_start_offset:
        state.high_watermark = max(state.high_watermark, held)


def answer_parked(state: QuorumState) -> None:
    """Answer the fetches with news, and those that have waited long enough."""
    if not state.parked:
        return
    is_leader = state.role is Role.LEADER
    for key, parked in list(state.parked.items()):
        if not is_leader:
            del state.parked[key]
            _refuse(state, parked.event, leader_error(state, parked.epoch))
        elif _is_due(state, parked):
            del state.parked[key]
            _answer(state, parked.event, parked.end_offset)


def _is_due(state: QuorumState, parked: Parked) -> bool:
    return (
        parked.end_offset < state.log.end_offset
        or parked.high_watermark < state.high_watermark
        or state.now_ms >= parked.until_ms
    )


def quorum_lost_ms(state: QuorumState) -> int:
    """When the leader resigns unless a majority of the voters fetches before, NEVER for an only voter."""
    needed = state.voters.majority - (1 if state.is_voter else 0)
    if not needed:
        return NEVER
    counted = sorted((progress.counted_ms for progress in state.progress.values()), reverse=True)
    return counted[needed - 1] + state.timeouts.fetch_ms * CHECK_QUORUM_TENTHS // 10


def remind(state: QuorumState) -> None:
    """Send BeginQuorumEpoch to the voters that have not fetched for half a fetch timeout."""
    interval_ms = state.timeouts.fetch_ms // 2
    for voter, progress in state.progress.items():
        if progress.end_offset < 0 or state.now_ms - progress.counted_ms >= interval_ms:
            state.send_begin(voter)
    state.deadline_ms = state.now_ms + interval_ms


def drop_silent_observers(state: QuorumState) -> None:
    for key, progress in list(state.observers.items()):
        if state.now_ms - progress.fetched_ms >= OBSERVER_MS:
            del state.observers[key]
