"""Replication of the metadata log (KIP-595): followers fetch, and the offset of a fetch is the acknowledgement of
everything before it. The high watermark is what a majority has on disk. A leader that a majority no longer fetches from
resigns (KAFKA-15489).
"""

from __future__ import annotations

from broker_cy.core.errors import ErrorCode
from broker_cy.quorum import elections
from broker_cy.quorum.messages import BeginQuorumEpoch, Fetch, FetchResponse
from broker_cy.quorum.state import NEVER, Progress, QuorumState
from broker_cy.quorum.step import Role

# Kafka's CHECK_QUORUM_TIMEOUT_FACTOR, in tenths: the leader gives up later than its followers do.
CHECK_QUORUM_TENTHS = 15

# --- the follower


def fetch(state: QuorumState) -> None:
    """Fetch from the leader, unless a fetch is on its way or the log is not on disk up to its end."""
    if state.role is not Role.FOLLOWER or state.is_fetching or state.synced_end < state.log.end_offset:
        return
    state.correlation += 1
    state.is_fetching = True
    state.retry_ms = state.now_ms + state.timeouts.request_ms
    state.send(state.leader_id, Fetch(state.epoch, state.correlation, state.log.end, state.high_watermark))


def fetch_answered(state: QuorumState, source: int, response: FetchResponse) -> None:
    elections.learn(state, source, response.epoch, response.leader_id)
    if not _is_expected(state, source, response):
        return
    if response.leader_id != source:
        # It leads no longer. The fetch is repeated after the request timeout, unless the fetch timeout ends before.
        return
    state.is_fetching = False
    state.retry_ms = NEVER
    state.has_fetched = True
    state.deadline_ms = state.now_ms + state.timeouts.fetch_ms
    if response.diverging is not None:
        shared = state.log.end_of(response.diverging.epoch)
        # Without entries of that epoch here, the next fetch asks about the newest epoch before it. Truncating it to the
        # leader's offset could cut a batch, whose epoch is another one there.
        is_shared = shared.epoch == response.diverging.epoch
        end_offset = min(shared.offset, response.diverging.offset) if is_shared else shared.offset
        if end_offset < state.high_watermark:
            raise AssertionError(f"truncation to {end_offset}, below the high watermark {state.high_watermark}")
        state.log.truncate(end_offset)
        state.synced_end = min(state.synced_end, end_offset)
        state.truncate_to = end_offset
        return
    for batch in response.batches:
        if batch.epoch > state.epoch:
            raise AssertionError(f"the leader of epoch {state.epoch} sent an entry of epoch {batch.epoch}")
        state.log.append(batch.epoch, batch.offset, batch.end_offset)
        state.to_append.append(batch)
    state.leader_high_watermark = response.high_watermark
    advance(state)


def _is_expected(state: QuorumState, source: int, response: FetchResponse) -> bool:
    """Whether it answers the newest fetch: an older one may have been sent before the log was truncated."""
    return (
        state.role is Role.FOLLOWER
        and source == state.leader_id
        and response.epoch == state.epoch
        and state.is_fetching
        and response.correlation == state.correlation
    )


# --- the leader


def fetch_requested(state: QuorumState, source: int, request: Fetch) -> None:
    if state.role is not Role.LEADER or request.epoch != state.epoch or source not in state.progress:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if request.epoch != state.epoch:
            is_older = request.epoch < state.epoch
            error = ErrorCode.FENCED_LEADER_EPOCH if is_older else ErrorCode.UNKNOWN_LEADER_EPOCH
        state.send(source, FetchResponse(state.epoch, request.correlation, state.leader_id, error=error))
        return
    progress = state.progress[source]
    progress.fetched_ms = state.now_ms
    progress.parked = None
    shared = state.log.end_of(request.end.epoch)
    if request.end.offset and (shared.epoch != request.end.epoch or shared.offset < request.end.offset):
        # Nothing is learned from a log that may have other entries (KAFKA-13141).
        response = FetchResponse(
            state.epoch, request.correlation, state.node_id, state.high_watermark, diverging=shared
        )
        state.send(source, response)
        return
    # A fetch that was overtaken by a later one moves nothing back.
    progress.end_offset = max(progress.end_offset, request.end.offset)
    progress.parked = request
    progress.parked_until_ms = state.now_ms + state.timeouts.fetch_wait_ms
    advance(state)


def synced(state: QuorumState, end_offset: int) -> None:
    """Everything below `end_offset` is on disk here."""
    assert end_offset <= state.log.end_offset
    state.synced_end = max(state.synced_end, end_offset)
    advance(state)


def advance(state: QuorumState) -> None:
    """Move the high watermark: of the leader to what a majority has on disk, of a follower to that of its leader, as
    far as its own disk has it.
    """
    if state.role is Role.FOLLOWER:
        state.high_watermark = max(state.high_watermark, min(state.leader_high_watermark, state.synced_end))
    if state.role is not Role.LEADER:
        return
    ends = sorted([state.synced_end, *(progress.end_offset for progress in state.progress.values())], reverse=True)
    held = ends[state.majority - 1]
    # Entries of earlier epochs are committed only together with one of this epoch (Raft, section 5.4.2).
    if held > state.epoch_start_offset:
        state.high_watermark = max(state.high_watermark, held)


def answer_parked(state: QuorumState) -> None:
    """Answer the fetches for which there is something new, or which have waited long enough."""
    for voter, progress in state.progress.items():
        request = progress.parked
        if request is not None and _is_due(state, progress, request):
            progress.parked = None
            response = FetchResponse(
                state.epoch, request.correlation, state.node_id, state.high_watermark, offset=request.end.offset
            )
            state.send(voter, response)


def _is_due(state: QuorumState, progress: Progress, request: Fetch) -> bool:
    return (
        request.end.offset < state.log.end_offset
        or request.high_watermark < state.high_watermark
        or state.now_ms >= progress.parked_until_ms
    )


def quorum_lost_ms(state: QuorumState) -> int:
    """When the leader resigns unless a majority fetches before, NEVER for an only voter."""
    needed = state.majority - 1
    if not needed:
        return NEVER
    fetched = sorted((progress.fetched_ms for progress in state.progress.values()), reverse=True)
    return fetched[needed - 1] + state.timeouts.fetch_ms * CHECK_QUORUM_TENTHS // 10


def remind(state: QuorumState) -> None:
    """Tell the voters who leads that have not fetched for half a fetch timeout."""
    interval_ms = state.timeouts.fetch_ms // 2
    for voter, progress in state.progress.items():
        if progress.end_offset < 0 or state.now_ms - progress.fetched_ms >= interval_ms:
            state.send(voter, BeginQuorumEpoch(state.epoch))
    state.deadline_ms = state.now_ms + interval_ms
