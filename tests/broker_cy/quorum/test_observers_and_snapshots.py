"""Observers, and logs that begin after a snapshot (KIP-630)."""

from __future__ import annotations

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.quorum.election_state import ElectionState, QuorumError
from broker_cy.quorum.epochs import LogEpochs
from broker_cy.quorum.history import VoterHistory
from broker_cy.quorum.messages import (
    Batch,
    BeginQuorumEpoch,
    Fetch,
    FetchResponse,
    FetchSnapshot,
    FetchSnapshotResponse,
    OffsetAndEpoch,
    VoteRequest,
)
from broker_cy.quorum.step import (
    BOOTSTRAP,
    ChunkWritten,
    Output,
    Role,
    SnapshotChunk,
    SnapshotDone,
    Snapshotted,
    Timeouts,
    bootstrap_id,
)
from broker_cy.quorum.voters import VoterSet
from tests.broker_cy.quorum.test_voter_changes import fetch, leader_of
from tests.broker_cy.quorum.voters import Node, addresses, directory, dynamic, replica, sent, voter

SNAPSHOT = OffsetAndEpoch(40, 3)
VOTERS = VoterSet(map(voter, (1, 2, 3)))


def fetches(output: Output, to: int) -> Fetch:
    (found,) = [message for message in sent(output, to) if isinstance(message, Fetch)]
    return found


# --- observers


def test_an_observer_finds_the_leader_by_bootstrap_servers() -> None:
    """If this fails, a broker without a vote never finds its controller, or takes part in elections."""
    node = Node(voter(9), VoterHistory(VoterSet(), 1), bootstrap_servers=2)
    asked = [BOOTSTRAP, *(each.to for _ in range(3) for each in node.tick(1000).send)]
    assert asked == [bootstrap_id(0), bootstrap_id(0), bootstrap_id(1), bootstrap_id(0)]
    assert node.quorum.role is Role.UNATTACHED
    output = node.tick(1000)
    asks = fetches(output, bootstrap_id(1))
    assert (asks.end, asks.directory_id, asks.max_wait_ms) == (OffsetAndEpoch(0, 0), directory(9), 0)
    answer = FetchResponse(5, asks.correlation, 2, error=ErrorCode.FENCED_LEADER_EPOCH, leader_endpoints=addresses(2))
    output = node.receive(bootstrap_id(1), answer)
    assert (output.role, output.leader_id, output.leader_endpoints) == (Role.FOLLOWER, 2, addresses(2))
    assert output.persist == ElectionState(5, leader_id=2)
    assert node.quorum.endpoints(2) == addresses(2)
    assert fetches(output, 2).epoch == 5


def test_an_observer_that_loses_its_leader_searches_and_does_not_vote_in_the_epoch() -> None:
    """If this fails, an observer votes for a second leader in the epoch whose leader it followed."""
    node = Node(voter(9), dynamic(1, 2, 3))
    output = node.receive(2, BeginQuorumEpoch(5, None, addresses(2)))
    assert output.role is Role.FOLLOWER
    output = node.tick(2000)
    assert (output.role, output.leader_id, output.epoch) == (Role.UNATTACHED, 2, 5)
    # It knows the voters, and asks them one after the other.
    assert [each.to for each in output.send] in ([1], [2], [3])
    output = node.receive(3, VoteRequest(5, OffsetAndEpoch(9, 1), False, directory(3), replica(9)))
    assert [message.granted for message in sent(output, 3)] == [False]  # type: ignore[union-attr]
    # A response that names the leader makes it a follower again.
    output = node.receive(1, FetchResponse(5, 0, 2, error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert (output.role, output.leader_id) == (Role.FOLLOWER, 2)


def test_an_observer_believes_no_voter_that_a_leader_is_there_which_has_gone() -> None:
    """If this fails, a broker without the controller role follows a dead active controller until its fetch timeout."""
    node = Node(voter(9), dynamic(1, 2, 3))
    node.receive(2, BeginQuorumEpoch(5, None, addresses(2)))
    asked: list[int] = []
    output = node.gone(2, 5)
    for _ in range(10):
        asked += [each.to for each in output.send]
        output = node.receive(1, FetchResponse(5, 0, 2, error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
        assert (output.role, output.leader_id) == (Role.UNATTACHED, 2)
        # No longer than two rounds of gone_ms: many questions fit into the fetch timeout.
        assert output.wake_ms <= node.now_ms + 2 * Timeouts().gone_ms
        output = node.tick(output.wake_ms - node.now_ms)
    assert set(asked) == {1, 2, 3}
    # Leader 2 has not gone: it answers itself.
    assert node.receive(2, FetchResponse(5, 0, 2)).role is Role.FOLLOWER


def test_an_observer_believes_a_leader_that_answers_as_a_bootstrap_server() -> None:
    """If this fails, a new broker that wrongly takes its leader for gone never finds it again in this epoch."""
    node = Node(voter(9), VoterHistory(VoterSet(), 1), bootstrap_servers=1)
    node.receive(2, BeginQuorumEpoch(5, None, addresses(2)))
    node.gone(2, 5)
    for error, role in ((ErrorCode.NOT_LEADER_OR_FOLLOWER, Role.UNATTACHED), (ErrorCode.NONE, Role.FOLLOWER)):
        answer = FetchResponse(5, 0, 2, error=error, leader_endpoints=addresses(2))
        output = node.receive(bootstrap_id(0), answer)
        assert (output.role, output.leader_id) == (role, 2)


def test_a_response_from_before_the_end_of_the_leader_is_no_sign_of_life() -> None:
    """If this fails, the metadata have no leader until the fetch timeout, although the end of the leader is known."""
    node = Node(voter(3), dynamic(1, 2, 3))
    first = fetches(node.receive(1, BeginQuorumEpoch(5, None, addresses(1))), 1)
    assert node.gone(1, 5).wake_ms == node.now_ms + Timeouts().gone_ms
    batch = Batch(0, 2, 5, b"")
    output = node.receive(1, FetchResponse(5, first.correlation, 1, 2, batches=(batch,)))
    assert (output.append, output.wake_ms) == ((batch,), node.now_ms + Timeouts().gone_ms)
    # A response to a fetch from later shows that the leader still runs.
    later = fetches(node.synced(), 1)
    output = node.receive(1, FetchResponse(5, later.correlation, 1, 2))
    again = fetches(output, 1)
    assert again.correlation > later.correlation
    assert node.tick(Timeouts().gone_ms).role is Role.FOLLOWER


def test_an_observer_also_asks_the_voters_of_its_log() -> None:
    """If this fails, an observer whose bootstrap servers are hosts of former voters never finds the leader again."""
    node = Node(voter(9), dynamic(1, 2, 3), bootstrap_servers=2)
    asked = [each.to for _ in range(5) for each in node.tick(1000).send]
    assert len(asked) == len(set(asked)) == 5
    assert set(asked) == {bootstrap_id(0), bootstrap_id(1), 1, 2, 3}


def test_an_observer_commits_nothing() -> None:
    """If this fails, entries are committed that only a node without a vote has."""
    node = leader_of(1, 2, 3)
    node.append(5)
    node.synced()
    assert fetch(node, 9, 8).high_watermark == 3
    # A client that is not a replica also gets entries, and the leader does not remember it.
    output = node.receive(-1, Fetch(1, 7, OffsetAndEpoch(3, 1), 0, max_wait_ms=0))
    assert [type(message) for message in sent(output, -1)] == [FetchResponse]
    described = node.quorum.describe(node.now_ms)
    assert described is not None
    assert [one.key.id for one in described.observers] == [9]


def test_a_fetch_that_was_given_up_is_answered() -> None:
    """If this fails, the connection of the given-up fetch stays blocked behind a response that never comes."""
    node = leader_of(1, 2, 3)
    node.receive(2, Fetch(1, 20, OffsetAndEpoch(3, 1), 3, directory(2)))
    output = node.receive(2, Fetch(1, 21, OffsetAndEpoch(3, 1), 3, directory(2)))
    assert [message.correlation for message in sent(output, 2)] == [20]  # type: ignore[union-attr]
    output = node.receive(3, BeginQuorumEpoch(4, replica(1), addresses(3)))
    refused = [message for message in sent(output, 2) if isinstance(message, FetchResponse)]
    assert [(one.correlation, one.error, one.leader_id) for one in refused] == [(21, ErrorCode.FENCED_LEADER_EPOCH, 3)]


# --- the leader of a log that begins behind a snapshot


def leader_behind_a_snapshot() -> Node:
    """Node 1 leads epoch 4; its log begins at SNAPSHOT and ends at 51, and all of it is committed."""
    log = LogEpochs(50, [(3, 30)], SNAPSHOT)
    node = Node(voter(1), dynamic(1), ElectionState(3), log, SNAPSHOT)
    assert (node.first.epoch, node.first.high_watermark) == (4, 40)
    node.synced()
    return node


@pytest.mark.parametrize(
    ("end", "is_needed"),
    [
        (OffsetAndEpoch(0, 0), True),
        (OffsetAndEpoch(39, 3), True),
        (OffsetAndEpoch(45, 2), True),
        (OffsetAndEpoch(40, 2), True),
        (OffsetAndEpoch(40, 3), False),
        (OffsetAndEpoch(50, 3), False),
        (OffsetAndEpoch(51, 3), False),
    ],
)
def test_who_needs_a_snapshot(end: OffsetAndEpoch, is_needed: bool) -> None:
    """If this fails, a replica misses entries that the leader has deleted (KAFKA-14238), or keeps others instead."""
    node = leader_behind_a_snapshot()
    output = node.receive(2, Fetch(4, 7, end, 0, directory(2)))
    (answer,) = sent(output, 2)
    assert isinstance(answer, FetchResponse)
    assert (answer.snapshot_id, answer.log_start_offset) == (SNAPSHOT if is_needed else None, 40)
    assert (answer.diverging is not None) == (end.offset == 51)


def test_a_leader_answers_for_a_snapshot_and_waits_for_who_fetches_it() -> None:
    """If this fails, a leader resigns while all its voters fetch a long snapshot."""
    node = leader_of(1, 2, 3)
    node.tick(2000)
    ask = FetchSnapshot(1, 7, SNAPSHOT, 4096, directory(2), 1000)
    (answer,) = [m for m in sent(node.receive(2, ask), 2) if isinstance(m, FetchSnapshotResponse)]
    assert answer == FetchSnapshotResponse(1, 7, 1, SNAPSHOT, 4096, 1000, leader_endpoints=addresses(1))
    assert node.tick(2000).role is Role.LEADER
    for epoch, position, error in (
        (0, 0, ErrorCode.FENCED_LEADER_EPOCH),
        (9, 0, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (1, -1, ErrorCode.POSITION_OUT_OF_RANGE),
    ):
        (refused,) = sent(node.receive(2, ask._replace(epoch=epoch, position=position)), 2)
        assert isinstance(refused, FetchSnapshotResponse)
        assert refused.error is error
    (refused,) = sent(Node(voter(1), dynamic(1, 2, 3)).receive(2, ask._replace(epoch=0)), 2)
    assert isinstance(refused, FetchSnapshotResponse)
    assert refused.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


# --- the follower


def follower_that_needs_it() -> tuple[Node, FetchSnapshot]:
    """Node 9 follows leader 1 and has begun to fetch SNAPSHOT."""
    node = Node(voter(9), VoterHistory(VoterSet(), 1), log=LogEpochs(20, [(1, 0), (2, 15)]))
    asks = fetches(node.receive(1, BeginQuorumEpoch(4, None, addresses(1))), 1)
    output = node.receive(1, FetchResponse(4, asks.correlation, 1, 51, snapshot_id=SNAPSHOT))
    (ask,) = sent(output, 1)
    assert isinstance(ask, FetchSnapshot)
    assert (ask.snapshot_id, ask.position) == (SNAPSHOT, 0)
    return node, ask


def chunk(ask: FetchSnapshot, content: bytes, size: int = 5) -> FetchSnapshotResponse:
    return FetchSnapshotResponse(4, ask.correlation, 1, ask.snapshot_id, ask.position, 0, size, content)


def test_a_snapshot_replaces_the_log_when_it_is_on_disk() -> None:
    """If this fails, a node relies on half a snapshot, or loses its log before it has anything instead."""
    node, ask = follower_that_needs_it()
    output = node.receive(1, chunk(ask, b"abc"))
    assert (output.chunk, output.send) == (SnapshotChunk(SNAPSHOT, 0, b"abc", is_last=False), ())
    output = node.quorum.step(ChunkWritten(SNAPSHOT, 3), node.now_ms)
    (more,) = sent(output, 1)
    assert isinstance(more, FetchSnapshot)
    assert more.position == 3
    output = node.receive(1, chunk(more, b"de"))
    assert (output.chunk, output.replace_log, node.quorum.end_offset) == (
        SnapshotChunk(SNAPSHOT, 3, b"de", is_last=True),
        None,
        20,
    )
    output = node.quorum.step(SnapshotDone(SNAPSHOT, 1, VOTERS), node.now_ms)
    assert (output.replace_log, output.high_watermark, node.quorum.voters) == (SNAPSHOT, 40, VOTERS)
    asks = fetches(output, 1)
    assert (asks.end, asks.high_watermark) == (SNAPSHOT, 40)
    output = node.receive(1, FetchResponse(4, asks.correlation, 1, 51, offset=40, batches=(Batch(40, 51, 4, b""),)))
    assert output.append == (Batch(40, 51, 4, b""),)
    # A copy of an old response starts nothing again.
    assert node.receive(1, chunk(more, b"de")).chunk is None


@pytest.mark.parametrize(
    "change",
    [
        {"error": ErrorCode.SNAPSHOT_NOT_FOUND},
        {"error": ErrorCode.POSITION_OUT_OF_RANGE},
        {"snapshot_id": OffsetAndEpoch(41, 3)},
        {"position": 1},
        {"content": b""},
        {"size": 1},
    ],
    ids=str,
)
def test_a_snapshot_that_does_not_fit_is_given_up(change: dict[str, object]) -> None:
    """If this fails, a follower writes the bytes of one snapshot into another, or waits without end for a deleted
    one.
    """
    node, ask = follower_that_needs_it()
    output = node.receive(1, chunk(ask, b"abc")._replace(**change))  # type: ignore[arg-type]
    assert (output.chunk, output.send) == (None, ())
    assert fetches(node.tick(20), 1).end == OffsetAndEpoch(20, 2)


def test_a_chunk_that_cannot_be_written_begins_again_later() -> None:
    """If this fails, a full disk stops a follower forever."""
    node, ask = follower_that_needs_it()
    node.receive(1, chunk(ask, b"abc"))
    assert node.quorum.step(ChunkWritten(SNAPSHOT, -1), node.now_ms).send == ()
    assert fetches(node.tick(20), 1).end == OffsetAndEpoch(20, 2)


def test_one_chunk_is_written_at_a_time() -> None:
    """If this fails, the end of a fetch that was given up is written into the file of the next one."""
    node, ask = follower_that_needs_it()
    node.receive(1, chunk(ask, b"abc"))
    output = node.receive(2, BeginQuorumEpoch(5, None, addresses(2)))
    asks = fetches(output, 2)
    output = node.receive(2, FetchResponse(5, asks.correlation, 2, 51, snapshot_id=SNAPSHOT))
    assert output.send == ()
    output = node.quorum.step(ChunkWritten(SNAPSHOT, 3), node.now_ms)
    (again,) = sent(output, 2)
    assert isinstance(again, FetchSnapshot)
    assert again.position == 0


def test_the_answer_to_a_fetch_from_a_replaced_log_is_ignored() -> None:
    """If this fails, a follower leaves the quorum when the snapshot of a fetch that it gave up reaches its disk."""
    node, ask = follower_that_needs_it()
    node.receive(1, chunk(ask, b"abcde"))
    early = fetches(node.receive(2, BeginQuorumEpoch(5, None, addresses(2))), 2)
    assert early.end == OffsetAndEpoch(20, 2)
    output = node.quorum.step(SnapshotDone(SNAPSHOT, 1, VOTERS), node.now_ms)
    assert output.replace_log == SNAPSHOT
    again = fetches(output, 2)
    assert again.end == SNAPSHOT
    entry = Batch(20, 21, 2, b"old")
    late = FetchResponse(5, early.correlation, 2, 51, offset=20, batches=(entry,))
    assert node.receive(2, late).append == ()


def test_a_snapshot_of_what_is_here_is_not_fetched() -> None:
    """If this fails, a follower replaces its log by an older state."""
    log = LogEpochs(50, [(3, 30)], SNAPSHOT)
    node = Node(voter(2), dynamic(1, 2, 3), None, log, SNAPSHOT)
    asks = fetches(node.receive(1, BeginQuorumEpoch(4, replica(2), addresses(1))), 1)
    output = node.receive(1, FetchResponse(4, asks.correlation, 1, 51, snapshot_id=OffsetAndEpoch(35, 3)))
    assert [message for message in sent(output, 1) if isinstance(message, FetchSnapshot)] == []
    output = node.quorum.step(SnapshotDone(OffsetAndEpoch(35, 3), 1, VOTERS), node.now_ms)
    assert (output.replace_log, output.high_watermark) == (None, 40)


# --- snapshots of this node


def test_a_snapshot_of_this_node_lets_the_log_begin_later() -> None:
    """If this fails, followers are sent entries that were deleted."""
    node = leader_of(1, 2, 3)
    node.append(4, 4)
    node.synced()
    fetch(node, 2, 11)
    taken = OffsetAndEpoch(7, 1)
    node.quorum.step(Snapshotted(taken, taken), node.now_ms)
    assert node.quorum.voters_at(7).voters == VOTERS
    (answer,) = sent(fetch(node, 9, 3), 9)
    assert isinstance(answer, FetchResponse)
    assert answer.snapshot_id == taken


@pytest.mark.parametrize(
    ("snapshot_id", "start", "text"),
    [
        (OffsetAndEpoch(8, 1), OffsetAndEpoch(0, 0), "not of the committed log"),
        (OffsetAndEpoch(3, 9), OffsetAndEpoch(0, 0), "not of the committed log"),
        (OffsetAndEpoch(2, 1), OffsetAndEpoch(3, 1), "the log cannot begin at"),
    ],
)
def test_impossible_snapshots_are_refused(snapshot_id: OffsetAndEpoch, start: OffsetAndEpoch, text: str) -> None:
    """If this fails, a snapshot contains uncommitted entries, or entries are deleted that no snapshot contains
    (KAFKA-14238).
    """
    node = leader_of(1, 2, 3)
    node.append(5)
    with pytest.raises(ValueError, match=text):
        node.quorum.step(Snapshotted(snapshot_id, start), node.now_ms)


def test_a_log_and_a_snapshot_that_do_not_fit_are_refused() -> None:
    """If this fails, a node starts with a gap in its metadata."""
    with pytest.raises(QuorumError, match="does not continue snapshot"):
        Node(voter(1), dynamic(1), None, LogEpochs(20, [(1, 0)]), SNAPSHOT)
    with pytest.raises(QuorumError, match="the newest snapshot is None"):
        Node(voter(1), dynamic(1), None, LogEpochs(50, [(3, 30)], SNAPSHOT))
