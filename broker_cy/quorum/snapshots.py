"""Snapshots (KIP-630): a replica whose log ends before the leader's begins fetches the leader's newest snapshot in
chunks, and then its log begins behind the snapshot. A snapshot is not used before it is completely on disk.

The machine decides; the caller that carries out its outputs stores and sends the bytes. One snapshot is fetched at a
time, one chunk after the other, each when the previous one is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_cy.core.errors import ErrorCode
from broker_cy.quorum.entries import OffsetAndEpoch
from broker_cy.quorum.messages import snapshot_request, snapshot_response
from broker_cy.quorum.replication import leader_error, progress_of
from broker_cy.quorum.state import NEVER, QuorumState
from broker_cy.quorum.step import ChunkWritten, Received, Role, SnapshotChunk, SnapshotDone, Snapshotted
from broker_cy.quorum.voters import ReplicaKey

if TYPE_CHECKING:
    from broker_cy.wire import messages as wire

# --- the follower


def fetch(state: QuorumState) -> None:
    """Fetch the next chunk, unless one is on its way to here or to the disk."""
    fetching = state.snapshot_fetch
    if state.role is not Role.FOLLOWER or state.is_fetching or fetching is None or state.is_writing_chunk:
        return
    state.correlation += 1
    state.is_fetching = True
    state.retry_ms = state.now_ms + state.timeouts.request_ms
    request = snapshot_request(state.key, state.epoch, fetching.snapshot_id, fetching.position)
    state.send(state.leader_id, request, state.correlation)


def fetch_answered(state: QuorumState, event: Received, response: wire.FetchSnapshotResponse) -> None:
    part = response.topics[0].partitions[0]
    fetching = state.snapshot_fetch
    if (
        fetching is None
        or event.source != state.leader_id
        or part.current_leader.leader_epoch != state.epoch
        or not state.is_fetching
        or event.correlation != state.correlation
    ):
        return
    if part.error_code in (ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE):
        # The leader has deleted it since: the next fetch asks for a newer one.
        _give_up(state)
        return
    if part.error_code:
        return
    content = bytes(part.unaligned_records or b"")
    end = part.position + len(content)
    if (
        (part.snapshot_id.end_offset, part.snapshot_id.epoch) != fetching.snapshot_id
        or part.position != fetching.position
        or not content
        or end > part.size
    ):
        _give_up(state)
        return
    state.fetch_arrived(event.correlation)
    state.is_writing_chunk = fetching.is_writing = True
    state.chunk = SnapshotChunk(fetching.snapshot_id, part.position, content, end == part.size)


def _give_up(state: QuorumState) -> None:
    state.snapshot_fetch = None
    state.refetch_later()


def chunk_written(state: QuorumState, event: ChunkWritten) -> None:
    fetching = state.snapshot_fetch
    state.is_writing_chunk = False
    if fetching is None or not fetching.is_writing:
        return
    fetching.is_writing = False
    if event.position < 0:
        _give_up(state)
        return
    fetching.position = event.position
    if state.has_fetched:
        # The disk may be slower than the leader.
        state.deadline_ms = state.now_ms + state.timeouts.fetch_ms


def done(state: QuorumState, event: SnapshotDone) -> None:
    """A fetched snapshot is on disk. It has committed entries only, so that it may replace a log without them."""
    state.is_writing_chunk = False
    if state.snapshot_fetch is not None and state.snapshot_fetch.snapshot_id == event.snapshot_id:
        state.snapshot_fetch = None
    snapshot_id = event.snapshot_id
    if state.snapshot_id is None or snapshot_id > state.snapshot_id:
        state.snapshot_id = snapshot_id
    if not state.log.contains(snapshot_id) and snapshot_id.offset > state.high_watermark:
        assert state.role is not Role.LEADER, f"the leader lacks the committed entries of snapshot {snapshot_id}"
        state.log.replace(snapshot_id)
        state.synced_end = snapshot_id.offset
        state.history.replace(event.voters or state.history.newest.voters, event.kraft_version)
        state.take_voters()
        state.replace_log = snapshot_id
        forget_fetch(state)
    if snapshot_id.offset <= state.log.end_offset and state.role is not Role.LEADER:
        state.high_watermark = max(state.high_watermark, snapshot_id.offset)


def forget_fetch(state: QuorumState) -> None:
    """Ignore the response to the current fetch: it continues the log that this snapshot has replaced. The snapshot may
    come from a fetch that ended with its leader; then the node fetches from the log again.
    """
    if state.is_fetching and state.snapshot_fetch is None:
        state.correlation += 1
        state.is_fetching = False
        state.retry_ms = NEVER


# --- any node


def taken(state: QuorumState, event: Snapshotted) -> None:
    """This node has written a snapshot of its own log. Raises ValueError: see Snapshotted."""
    snapshot_id, start = event.snapshot_id, event.start
    if snapshot_id.offset > state.high_watermark or not state.log.contains(snapshot_id):
        raise ValueError(
            f"snapshot {snapshot_id} is not of the committed log, which begins at {state.log.start} and ends at "
            f"{state.high_watermark}"
        )
    if start.offset > snapshot_id.offset or not state.log.contains(start):
        # Otherwise a replica could need entries that neither log nor snapshot have (KAFKA-14238).
        raise ValueError(f"the log cannot begin at {start}: its newest snapshot is {snapshot_id}")
    if state.snapshot_id is None or snapshot_id > state.snapshot_id:
        state.snapshot_id = snapshot_id
    state.log.begin_at(start)
    state.history.begin_at(start.offset)


# --- the leader


def requested(state: QuorumState, event: Received, request: wire.FetchSnapshotRequest) -> None:
    """Answer with the place of the chunk; the sender of the response reads it."""
    part = request.topics[0].partitions[0]
    error = leader_error(state, part.current_leader_epoch)
    if error is ErrorCode.NONE and part.position < 0:
        error = ErrorCode.POSITION_OUT_OF_RANGE
    if error is ErrorCode.NONE:
        # A voter that fetches a snapshot counts as alive (KAFKA-15489), although it acknowledges nothing.
        progress = progress_of(state, ReplicaKey(event.source, part.replica_directory_id))
        if progress is not None:
            progress.counted_ms = state.now_ms
            progress.fetched_ms = state.now_ms
    snapshot_id = OffsetAndEpoch(part.snapshot_id.end_offset, part.snapshot_id.epoch)
    address = state.leader_address(event)
    state.answer(event, snapshot_response(state.epoch, state.leader_id, snapshot_id, part.position, error, address))
