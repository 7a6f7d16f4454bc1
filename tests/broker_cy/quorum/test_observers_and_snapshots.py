"""Observers, and logs that begin after a snapshot (KIP-630)."""

from __future__ import annotations

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.quorum.election_state import ElectionState, QuorumError
from broker_cy.quorum.entries import Batch, OffsetAndEpoch
from broker_cy.quorum.epochs import LogEpochs
from broker_cy.quorum.history import VoterHistory
from broker_cy.quorum.messages import (
    begin_request,
    fetch_request,
    fetch_response,
    part_of,
    snapshot_request,
    snapshot_response,
    vote_request,
    vote_response,
)
from broker_cy.quorum.step import (
    BOOTSTRAP,
    Answer,
    ChunkWritten,
    Output,
    Role,
    Send,
    SnapshotChunk,
    SnapshotDone,
    Snapshotted,
    Timeouts,
    bootstrap_id,
)
from broker_cy.quorum.voters import ReplicaKey, VoterSet
from broker_cy.wire import messages as wire
from tests.broker_cy.quorum.voters import (
    WAIT_MS,
    Node,
    addresses,
    answers,
    directory,
    dynamic,
    end_of,
    fetch,
    fetch_to,
    leader_of,
    part_of_fetch,
    replica,
    sent,
    voter,
)

SNAPSHOT = OffsetAndEpoch(40, 3)
VOTERS = VoterSet(map(voter, (1, 2, 3)))


# --- observers


def test_an_observer_finds_the_leader_by_bootstrap_servers() -> None:
    """If this fails, a broker without a vote never finds its controller, or takes part in elections."""
    node = Node(voter(9), VoterHistory(VoterSet(), 1), bootstrap_servers=2)
    asked = [BOOTSTRAP, *(each.to for _ in range(3) for each in node.tick(1000).send)]
    assert asked == [bootstrap_id(0), bootstrap_id(0), bootstrap_id(1), bootstrap_id(0)]
    assert node.quorum.role is Role.UNATTACHED
    output = node.tick(1000)
    asks = fetch_to(output, bootstrap_id(1))
    assert isinstance(asks.message, wire.FetchRequest)
    assert (end_of(asks), asks.message.max_wait_ms) == (OffsetAndEpoch(0, 0), 0)
    assert part_of_fetch(asks).replica_directory_id == directory(9)
    answer = fetch_response(5, 2, error=ErrorCode.FENCED_LEADER_EPOCH, address=addresses(2)[0])
    output = node.receive(bootstrap_id(1), answer, asks.correlation)
    assert (output.role, output.leader_id, output.leader_endpoints) == (Role.FOLLOWER, 2, addresses(2))
    assert output.persist == ElectionState(5, leader_id=2)
    assert node.quorum.endpoints(2) == addresses(2)
    assert part_of_fetch(fetch_to(output, 2)).current_leader_epoch == 5


def test_an_observer_that_loses_its_leader_searches_and_does_not_vote_in_the_epoch() -> None:
    """If this fails, an observer votes for a second leader in the epoch whose leader it followed."""
    node = Node(voter(9), dynamic(1, 2, 3))
    output = node.receive(2, begin_request(2, 5, None, addresses(2)))
    assert output.role is Role.FOLLOWER
    output = node.tick(2000)
    assert (output.role, output.leader_id, output.epoch) == (Role.UNATTACHED, 2, 5)
    # It knows the voters, and asks them one after the other.
    assert [each.to for each in output.send] in ([1], [2], [3])
    output = node.receive(3, vote_request(replica(3), 5, OffsetAndEpoch(9, 1), pre_vote=False, voter=replica(9)))
    assert sent(output, 3) == [vote_response(5, 2, False, address=addresses(2)[0])]
    # A response that names the leader makes it a follower again.
    output = node.receive(1, fetch_response(5, 2, error=ErrorCode.NOT_LEADER_OR_FOLLOWER), 0)
    assert (output.role, output.leader_id) == (Role.FOLLOWER, 2)


def test_an_observer_believes_no_voter_that_a_leader_is_there_which_has_gone() -> None:
    """If this fails, a broker without the controller role follows a dead active controller until its fetch timeout."""
    node = Node(voter(9), dynamic(1, 2, 3))
    node.receive(2, begin_request(2, 5, None, addresses(2)))
    asked: list[int] = []
    output = node.gone(2, 5)
    for _ in range(10):
        asked += [each.to for each in output.send]
        output = node.receive(1, fetch_response(5, 2, error=ErrorCode.NOT_LEADER_OR_FOLLOWER), 0)
        assert (output.role, output.leader_id) == (Role.UNATTACHED, 2)
        # No longer than two rounds of gone_ms: many questions fit into the fetch timeout.
        assert output.wake_ms <= node.now_ms + 2 * Timeouts().gone_ms
        output = node.tick(output.wake_ms - node.now_ms)
    assert set(asked) == {1, 2, 3}
    # Leader 2 has not gone: it answers itself.
    assert node.receive(2, fetch_response(5, 2), 0).role is Role.FOLLOWER


def test_an_observer_believes_a_leader_that_answers_as_a_bootstrap_server() -> None:
    """If this fails, a new broker that wrongly takes its leader for gone never finds it again in this epoch."""
    node = Node(voter(9), VoterHistory(VoterSet(), 1), bootstrap_servers=1)
    node.receive(2, begin_request(2, 5, None, addresses(2)))
    node.gone(2, 5)
    for error, role in ((ErrorCode.NOT_LEADER_OR_FOLLOWER, Role.UNATTACHED), (ErrorCode.NONE, Role.FOLLOWER)):
        answer = fetch_response(5, 2, error=error, address=addresses(2)[0])
        output = node.receive(bootstrap_id(0), answer)
        assert (output.role, output.leader_id) == (role, 2)


def test_a_response_from_before_the_end_of_the_leader_is_no_sign_of_life() -> None:
    """If this fails, the metadata have no leader until the fetch timeout, although the end of the leader is known."""
    node = Node(voter(3), dynamic(1, 2, 3))
    first = fetch_to(node.receive(1, begin_request(1, 5, None, addresses(1))), 1)
    assert node.gone(1, 5).wake_ms == node.now_ms + Timeouts().gone_ms
    batch = Batch(0, 2, 5, b"")
    output = node.receive(1, fetch_response(5, 1, 2), first.correlation, batch)
    assert (output.append, output.wake_ms) == ((batch,), node.now_ms + Timeouts().gone_ms)
    # A response to a fetch from later shows that the leader still runs.
    later = fetch_to(node.synced(), 1)
    output = node.receive(1, fetch_response(5, 1, 2), later.correlation)
    again = fetch_to(output, 1)
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
    output = node.receive(-1, fetch_request(ReplicaKey(-1), 1, OffsetAndEpoch(3, 1), 0, 0), 7)
    assert [type(message) for message in sent(output, -1)] == [wire.FetchResponse]
    described = node.quorum.describe(node.now_ms)
    assert described is not None
    assert [one.key.id for one in described.observers] == [9]


def test_a_fetch_that_was_given_up_is_answered() -> None:
    """If this fails, the connection of the given-up fetch stays blocked behind a response that never comes."""
    node = leader_of(1, 2, 3)
    node.receive(2, fetch_request(replica(2), 1, OffsetAndEpoch(3, 1), 3, WAIT_MS), 20)
    output = node.receive(2, fetch_request(replica(2), 1, OffsetAndEpoch(3, 1), 3, WAIT_MS), 21)
    assert [each.correlation for each in answers(output, 2)] == [20]
    output = node.receive(3, begin_request(3, 4, replica(1), addresses(3)))
    refused = fetch_response(4, 3, error=ErrorCode.FENCED_LEADER_EPOCH, address=addresses(3)[0])
    assert Answer(2, refused, 21) in output.send


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
    output = node.receive(2, fetch_request(replica(2), 4, end, 0, WAIT_MS), 7)
    (answer,) = answers(output, 2)
    part = part_of(answer.message)
    expected = (SNAPSHOT.offset, SNAPSHOT.epoch) if is_needed else (-1, -1)
    assert (part.snapshot_id.end_offset, part.snapshot_id.epoch) == expected
    assert (part.diverging_epoch.epoch >= 0, part.log_start_offset) == (end.offset == 51, 40)


def test_a_leader_answers_for_a_snapshot_and_waits_for_who_fetches_it() -> None:
    """If this fails, a leader resigns while all its voters fetch a long snapshot."""
    node = leader_of(1, 2, 3)
    node.tick(2000)
    output = node.receive(2, snapshot_request(replica(2), 1, SNAPSHOT, 4096), 7)
    answer = snapshot_response(1, 1, SNAPSHOT, 4096, address=addresses(1)[0])
    assert Answer(2, answer, 7) in output.send
    assert node.tick(2000).role is Role.LEADER
    for epoch, position, error in (
        (0, 0, ErrorCode.FENCED_LEADER_EPOCH),
        (9, 0, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (1, -1, ErrorCode.POSITION_OUT_OF_RANGE),
    ):
        (refused,) = sent(node.receive(2, snapshot_request(replica(2), epoch, SNAPSHOT, position)), 2)
        assert part_of(refused).error_code == error
    output = Node(voter(1), dynamic(1, 2, 3)).receive(2, snapshot_request(replica(2), 0, SNAPSHOT, 0))
    (refused,) = sent(output, 2)
    assert part_of(refused).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


# --- the follower


def chunk_fetch(output: Output, leader_id: int, position: int) -> Send:
    """The only message to the leader, which asks for SNAPSHOT from `position` on."""
    (ask,) = answers(output, leader_id)
    assert isinstance(ask.message, wire.FetchSnapshotRequest)
    part = ask.message.topics[0].partitions[0]
    assert ((part.snapshot_id.end_offset, part.snapshot_id.epoch), part.position) == (SNAPSHOT, position)
    assert isinstance(ask, Send)
    return ask


def follower_that_needs_it() -> tuple[Node, Send]:
    """Node 9 follows leader 1 and has begun to fetch SNAPSHOT."""
    node = Node(voter(9), VoterHistory(VoterSet(), 1), log=LogEpochs(20, [(1, 0), (2, 15)]))
    asks = fetch_to(node.receive(1, begin_request(1, 4, None, addresses(1))), 1)
    output = node.receive(1, fetch_response(4, 1, 51, snapshot_id=SNAPSHOT), asks.correlation)
    return node, chunk_fetch(output, 1, 0)


def receive_chunk(node: Node, ask: Send, content: bytes, **changes: object) -> Output:
    """Leader 1 has answered with a chunk of SNAPSHOT, which has 5 bytes, or with a response with `changes`."""
    response = snapshot_response(4, 1, SNAPSHOT, part_of(ask.message).position)
    part = response.topics[0].partitions[0]
    part.size, part.unaligned_records = 5, content
    for name, value in changes.items():
        setattr(part, name, value)
    return node.receive(1, response, ask.correlation)


def test_a_snapshot_replaces_the_log_when_it_is_on_disk() -> None:
    """If this fails, a node relies on half a snapshot, or loses its log before it has anything instead."""
    node, ask = follower_that_needs_it()
    output = receive_chunk(node, ask, b"abc")
    assert (output.chunk, output.send) == (SnapshotChunk(SNAPSHOT, 0, b"abc", is_last=False), ())
    output = node.quorum.step(ChunkWritten(SNAPSHOT, 3), node.now_ms)
    more = chunk_fetch(output, 1, 3)
    output = receive_chunk(node, more, b"de")
    assert (output.chunk, output.replace_log, node.quorum.end_offset) == (
        SnapshotChunk(SNAPSHOT, 3, b"de", is_last=True),
        None,
        20,
    )
    output = node.quorum.step(SnapshotDone(SNAPSHOT, 1, VOTERS), node.now_ms)
    assert (output.replace_log, output.high_watermark, node.quorum.voters) == (SNAPSHOT, 40, VOTERS)
    asks = fetch_to(output, 1)
    assert (end_of(asks), part_of_fetch(asks).high_watermark) == (SNAPSHOT, 40)
    output = node.receive(1, fetch_response(4, 1, 51), asks.correlation, Batch(40, 51, 4, b""))
    assert output.append == (Batch(40, 51, 4, b""),)
    # A copy of an old response starts nothing again.
    assert receive_chunk(node, more, b"de").chunk is None


@pytest.mark.parametrize(
    "change",
    [
        {"error_code": ErrorCode.SNAPSHOT_NOT_FOUND},
        {"error_code": ErrorCode.POSITION_OUT_OF_RANGE},
        {"snapshot_id": wire.FetchSnapshotResponse.SnapshotId(end_offset=41, epoch=3)},
        {"position": 1},
        {"unaligned_records": b""},
        {"size": 1},
    ],
    ids=str,
)
def test_a_snapshot_that_does_not_fit_is_given_up(change: dict[str, object]) -> None:
    """If this fails, a follower writes the bytes of one snapshot into another, or waits without end for a deleted
    one.
    """
    node, ask = follower_that_needs_it()
    output = receive_chunk(node, ask, b"abc", **change)
    assert (output.chunk, output.send) == (None, ())
    assert end_of(fetch_to(node.tick(20), 1)) == OffsetAndEpoch(20, 2)


def test_a_chunk_that_cannot_be_written_begins_again_later() -> None:
    """If this fails, a full disk stops a follower forever."""
    node, ask = follower_that_needs_it()
    receive_chunk(node, ask, b"abc")
    assert node.quorum.step(ChunkWritten(SNAPSHOT, -1), node.now_ms).send == ()
    assert end_of(fetch_to(node.tick(20), 1)) == OffsetAndEpoch(20, 2)


def test_one_chunk_is_written_at_a_time() -> None:
    """If this fails, the end of a fetch that was given up is written into the file of the next one."""
    node, ask = follower_that_needs_it()
    receive_chunk(node, ask, b"abc")
    output = node.receive(2, begin_request(2, 5, None, addresses(2)))
    asks = fetch_to(output, 2)
    output = node.receive(2, fetch_response(5, 2, 51, snapshot_id=SNAPSHOT), asks.correlation)
    assert output.send == ()
    output = node.quorum.step(ChunkWritten(SNAPSHOT, 3), node.now_ms)
    chunk_fetch(output, 2, 0)


def test_the_answer_to_a_fetch_from_a_replaced_log_is_ignored() -> None:
    """If this fails, a follower leaves the quorum when the snapshot of a fetch that it gave up reaches its disk."""
    node, ask = follower_that_needs_it()
    receive_chunk(node, ask, b"abcde")
    early = fetch_to(node.receive(2, begin_request(2, 5, None, addresses(2))), 2)
    assert end_of(early) == OffsetAndEpoch(20, 2)
    output = node.quorum.step(SnapshotDone(SNAPSHOT, 1, VOTERS), node.now_ms)
    assert output.replace_log == SNAPSHOT
    again = fetch_to(output, 2)
    assert end_of(again) == SNAPSHOT
    entry = Batch(20, 21, 2, b"old")
    late = fetch_response(5, 2, 51)
    assert node.receive(2, late, early.correlation, entry).append == ()


def test_a_snapshot_of_what_is_here_is_not_fetched() -> None:
    """If this fails, a follower replaces its log by an older state."""
    log = LogEpochs(50, [(3, 30)], SNAPSHOT)
    node = Node(voter(2), dynamic(1, 2, 3), None, log, SNAPSHOT)
    asks = fetch_to(node.receive(1, begin_request(1, 4, replica(2), addresses(1))), 1)
    output = node.receive(1, fetch_response(4, 1, 51, snapshot_id=OffsetAndEpoch(35, 3)), asks.correlation)
    assert [message for message in sent(output, 1) if isinstance(message, wire.FetchSnapshotRequest)] == []
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
    answer = fetch_response(1, 1, 11, log_start_offset=7, snapshot_id=taken, address=addresses(1)[0])
    assert sent(fetch(node, 9, 3), 9) == [answer]


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
