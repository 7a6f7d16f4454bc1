"""Voters in the log (KIP-853): added and removed, one at a time; directory ids."""

from __future__ import annotations

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.quorum.election_state import ElectionState
from broker_cy.quorum.elections import PRE_VOTE
from broker_cy.quorum.entries import Batch, KRaftVersion, Leadership, OffsetAndEpoch
from broker_cy.quorum.epochs import LogEpochs
from broker_cy.quorum.history import VoterHistory
from broker_cy.quorum.messages import (
    begin_request,
    begin_response,
    end_request,
    fetch_response,
    update_request,
    update_response,
    vote_request,
    vote_response,
)
from broker_cy.quorum.step import AddVoter, NotWritten, RemoveVoter, Reply, Role, UpgradeKRaftVersion
from broker_cy.quorum.voters import ReplicaKey, Voter, VoterSet
from broker_cy.wire import messages as wire
from tests.broker_cy.quorum.voters import (
    Node,
    StaticVoter,
    addresses,
    directory,
    dynamic,
    errors,
    fetch,
    fetch_to,
    leader_of,
    lone_leader,
    replica,
    sent,
    voter,
)

BEGIN = OffsetAndEpoch(0, 0)


def test_the_first_leader_records_the_voters() -> None:
    """If this fails, the voters of a formatted directory are never in the log, and a node that is added sees none."""
    voters = VoterSet([voter(1)])
    control = (Leadership(1, voters.keys, voters.keys), KRaftVersion(1), voters)
    node = Node(voter(1), dynamic(1))
    assert node.first.append == (Batch(0, 3, 1, None, control),)
    assert node.first.persist == ElectionState(1, 1, voters=None)
    # The next leader finds them in the log.
    history = dynamic(1)
    history.note(0, control)
    again = Node(voter(1), history, node.first.persist, LogEpochs(3, [(1, 0)]))
    assert again.first.append == (Batch(3, 4, 2, None, (Leadership(1, voters.keys, voters.keys),)),)


def test_a_voter_is_added_when_it_has_caught_up() -> None:
    """If this fails, a voter that lags stops all changes of the metadata, or a majority misses the new voter."""
    node = lone_leader()
    add = AddVoter(voter(2), 5000)
    assert errors(node.change(add)) == [ErrorCode.REQUEST_TIMED_OUT]  # it has never fetched
    fetch(node, 2, 0)
    assert errors(node.change(add)) == [ErrorCode.REQUEST_TIMED_OUT]  # it lags behind
    fetch(node, 2, 3)
    output = node.change(add, request_id=9)
    voters = VoterSet([voter(1), voter(2)])
    assert (output.append, output.replies) == ((Batch(3, 4, 1, None, (voters,)),), ())
    assert node.quorum.voters == voters
    # The new voters decide, and node 2 has not acknowledged the record yet.
    assert node.synced().high_watermark == 3
    output = fetch(node, 2, 4)
    assert (output.high_watermark, output.replies) == (4, (Reply(9, ErrorCode.NONE, ""),))


def test_what_a_voter_had_long_ago_does_not_count() -> None:
    """If this fails, a node that was cut off for an hour becomes a voter at its first fetch, and delays all metadata
    changes until it has fetched the entries of that hour.
    """
    node = lone_leader()
    add = AddVoter(voter(2), 5000)
    fetch(node, 2, 3)
    node.append(1)
    node.synced()
    node.tick(2001)
    # It has all that the leader had when it fetched before.
    fetch(node, 2, 3)
    assert errors(node.change(add)) == [ErrorCode.REQUEST_TIMED_OUT]
    fetch(node, 2, 4)
    assert errors(node.change(add)) == []
    node = lone_leader()
    fetch(node, 2, 3)
    node.append(1)
    node.synced()
    node.tick(1000)
    fetch(node, 2, 3)
    assert errors(node.change(add)) == []


def test_a_change_is_answered_in_time() -> None:
    """If this fails, kafka-metadata-quorum waits without end for a voter that died."""
    node = lone_leader()
    fetch(node, 2, 3)
    output = node.change(AddVoter(voter(2), 700))
    assert output.wake_ms <= node.now_ms + 700
    node.tick(699)
    assert errors(node.tick(1)) == [ErrorCode.REQUEST_TIMED_OUT]
    assert len(node.quorum.voters) == 2
    node = lone_leader()
    fetch(node, 2, 3)
    assert errors(node.change(AddVoter(voter(2), 700, ack_when_committed=False))) == [ErrorCode.NONE]


def test_one_change_at_a_time() -> None:
    """If this fails, two majorities without a common voter commit different entries."""
    node = leader_of(1, 2, 3)
    assert errors(node.change(RemoveVoter(replica(2)))) == []
    assert errors(node.change(RemoveVoter(replica(3)))) == [ErrorCode.REQUEST_TIMED_OUT]
    # Also after the first one was answered, and not committed.
    assert errors(node.tick(2000)) == [ErrorCode.REQUEST_TIMED_OUT]
    assert errors(node.change(RemoveVoter(replica(3)))) == [ErrorCode.REQUEST_TIMED_OUT]
    node.synced()
    fetch(node, 3, 4)
    assert errors(node.change(RemoveVoter(replica(3)))) == []


def test_a_leader_changes_nothing_before_it_commits_its_epoch() -> None:
    """If this fails, a change of an earlier leader may be under way that this one does not know."""
    node = Node(voter(1), dynamic(1))
    assert errors(node.change(RemoveVoter(replica(1)))) == [ErrorCode.REQUEST_TIMED_OUT]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (AddVoter(voter(2), 100), ErrorCode.DUPLICATE_VOTER),
        (AddVoter(voter(2, disk=1), 100), ErrorCode.DUPLICATE_VOTER),
        (AddVoter(Voter(ReplicaKey(4), addresses(4)), 100), ErrorCode.INVALID_REQUEST),
        (AddVoter(Voter(replica(4)), 100), ErrorCode.INVALID_REQUEST),
        (AddVoter(voter(4)._replace(max_kraft_version=0), 100), ErrorCode.INVALID_REQUEST),
        (AddVoter(voter(4)._replace(endpoints=addresses(3)), 100), ErrorCode.INVALID_REQUEST),
        (RemoveVoter(replica(4)), ErrorCode.VOTER_NOT_FOUND),
        (RemoveVoter(replica(2, disk=1)), ErrorCode.VOTER_NOT_FOUND),
        (RemoveVoter(ReplicaKey(2)), ErrorCode.VOTER_NOT_FOUND),
        (UpgradeKRaftVersion(0), ErrorCode.INVALID_REQUEST),
        (UpgradeKRaftVersion(1), ErrorCode.NONE),
    ],
    ids=str,
)
def test_changes_with_kafkas_errors(change: AddVoter | RemoveVoter | UpgradeKRaftVersion, error: ErrorCode) -> None:
    """If this fails, a wrong change is made, or its operator does not learn the reason of the error."""
    node = leader_of(1, 2, 3)
    output = node.change(change)
    assert (errors(output), output.append) == ([error], ())
    assert bool(output.replies[0].message) == (error is not ErrorCode.NONE)


def test_others_change_nothing() -> None:
    """If this fails, a node that does not lead changes the voters of its own log."""
    node = Node(voter(1), dynamic(1, 2, 3))
    assert errors(node.change(RemoveVoter(replica(2)))) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert errors(StaticVoter().change(RemoveVoter(replica(2)))) == [ErrorCode.REQUEST_TIMED_OUT]
    static = StaticVoter()
    static.synced()
    assert errors(static.change(RemoveVoter(replica(2)))) == [ErrorCode.UNSUPPORTED_VERSION]
    assert errors(static.change(AddVoter(voter(2), 100))) == [ErrorCode.UNSUPPORTED_VERSION]
    assert errors(lone_leader().change(RemoveVoter(replica(1)))) == [ErrorCode.INVALID_REQUEST]


def test_a_change_fails_with_its_leader() -> None:
    """If this fails, an operator waits for a change that the next leader may have truncated."""
    node = leader_of(1, 2, 3)
    node.change(RemoveVoter(replica(3)), request_id=5)
    output = node.receive(2, begin_request(2, 4))
    assert [(reply.request_id, reply.error) for reply in output.replies] == [(5, ErrorCode.NOT_LEADER_OR_FOLLOWER)]


def test_a_change_that_cannot_be_written_is_undone() -> None:
    """If this fails, a full disk leaves voters that are in no log."""
    node = leader_of(1, 2, 3)
    node.change(RemoveVoter(replica(3)))
    output = node.quorum.step(NotWritten(3), node.now_ms)
    assert errors(output) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert node.quorum.voters.ids == (1, 2, 3)


def test_a_leader_that_removes_itself_does_not_count_and_resigns() -> None:
    """If this fails, the removal is committed without a majority of the remaining voters, or the removed node continues
    to lead.
    """
    node = leader_of(1, 2, 3)
    output = node.change(RemoveVoter(replica(1)), request_id=5)
    assert output.append == (Batch(3, 4, 1, None, (VoterSet([voter(2), voter(3)]),)),)
    node.synced()
    assert fetch(node, 2, 4).high_watermark == 3
    output = fetch(node, 3, 4)
    assert (output.role, output.high_watermark, errors(output)) == (Role.RESIGNED, 4, [ErrorCode.NONE])
    assert sent(output, 2)[-1] == end_request(1, 1, (replica(2), replica(3)), addresses(1))
    # It never stands again: it searches for the leader.
    output = node.tick(2000)
    assert output.role is Role.UNATTACHED
    assert [type(each.message) for each in output.send] == [wire.FetchRequest]


def test_a_removal_that_may_not_be_committed_does_not_keep_a_node_from_standing() -> None:
    """If this fails, the quorum loses its leader forever: the remaining voters have shorter logs."""
    history = dynamic(1, 2)
    history.note(3, (VoterSet([voter(2)]),))
    node = Node(voter(1), history, None, LogEpochs(4, [(1, 0)]))
    output = node.tick(1000)
    assert output.role is Role.PROSPECTIVE
    # Its own vote does not count.
    assert sent(output, 2) == [vote_request(replica(1), 1, OffsetAndEpoch(4, 1), pre_vote=True, voter=replica(2))]
    assert node.receive(2, vote_response(1, -1, True), PRE_VOTE).role is Role.CANDIDATE
    assert node.receive(2, vote_response(2, -1, True)).role is Role.LEADER


def test_truncation_goes_back_to_the_voters_before() -> None:
    """If this fails, a follower counts voters of a record that was never committed."""
    history = dynamic(1, 2, 3)
    history.note(5, (VoterSet([voter(1), voter(2)]),))
    node = Node(voter(1), history, None, LogEpochs(6, [(1, 0), (3, 5)]))
    assert node.quorum.voters.ids == (1, 2)
    output = node.receive(3, begin_request(3, 4, replica(1), addresses(3)))
    message = fetch_to(output, 3)
    output = node.receive(3, fetch_response(4, 3, diverging=OffsetAndEpoch(5, 1)), message.correlation)
    assert output.truncate_to == 5
    assert list(node.quorum.voters.ids) == [1, 2, 3]
    # A record counts as soon as it arrives.
    message = fetch_to(output, 3)
    added = VoterSet(map(voter, (1, 2, 3, 4)))
    node.receive(3, fetch_response(4, 3), message.correlation, Batch(5, 6, 4, b"", (added,)))
    assert (node.quorum.voters, node.quorum.high_watermark) == (added, 0)


def test_a_wiped_disk_is_another_replica() -> None:
    """If this fails, a node whose disk was replaced counts for entries of the old disk, and committed entries are
    lost.
    """
    # It gets a request for the vote of the old disk.
    wiped = Node(voter(1, disk=1), VoterHistory(VoterSet(), 1))
    ask = vote_request(replica(2), 1, OffsetAndEpoch(3, 0), pre_vote=False, voter=replica(1))
    output = wiped.receive(2, ask)
    assert sent(output, 2) == [vote_response(1, -1, False, ErrorCode.INVALID_VOTER_KEY)]
    assert output.persist == ElectionState(1)
    output = wiped.receive(2, begin_request(2, 1, replica(1), addresses(2)))
    answer = begin_response(1, 2, ErrorCode.INVALID_VOTER_KEY, *addresses(2))
    assert answer in sent(output, 2)
    # It fetches, and the leader treats it as an observer.
    node = leader_of(1, 2, 3)
    node.append(5)
    node.synced()
    assert fetch(node, 2, 8, disk=1).high_watermark == 3
    described = node.quorum.describe(node.now_ms)
    assert described is not None
    assert [one.key for one in described.observers] == [replica(2, disk=1)]
    assert fetch(node, 2, 8).high_watermark == 8


def test_votes_have_directory_ids() -> None:
    """If this fails, after a restart a node votes for another disk of the candidate that it voted for."""
    node = Node(voter(1), dynamic(1, 2, 3))
    output = node.receive(2, vote_request(replica(2), 5, BEGIN, pre_vote=False, voter=replica(1)))
    assert output.persist == ElectionState(5, voted_id=2, voted_directory_id=directory(2))
    again = Node(voter(1), dynamic(1, 2, 3), output.persist)
    refused = again.receive(2, vote_request(replica(2, disk=1), 5, BEGIN, pre_vote=False, voter=replica(1)))
    assert sent(refused, 2) == [vote_response(5, -1, False)]
    granted = again.receive(2, vote_request(replica(2), 5, BEGIN, pre_vote=False, voter=replica(1)))
    assert sent(granted, 2) == [vote_response(5, -1, True)]


def test_a_node_that_does_not_know_the_voters_votes() -> None:
    """If this fails, a voter that was added just now cannot help to elect the leader that knows it."""
    node = Node(voter(4), VoterHistory(VoterSet(), 1))
    output = node.receive(2, vote_request(replica(2), 5, OffsetAndEpoch(9, 1), pre_vote=False, voter=replica(4)))
    assert sent(output, 2) == [vote_response(5, -1, True)]
    assert output.persist == ElectionState(5, voted_id=2, voted_directory_id=directory(2))


def test_a_removed_voter_does_not_rejoin_by_itself() -> None:
    """If this fails, a voter that an operator has removed is a voter again a moment later (KAFKA-19850)."""
    node = leader_of(1, 2, 3)
    node.change(RemoveVoter(replica(3)))
    node.synced()
    fetch(node, 2, 4)
    output = node.receive(3, update_request(1, voter(3)))
    assert sent(output, 3) == [update_response(1, 1, ErrorCode.VOTER_NOT_FOUND, *addresses(1))]
    assert (output.append, node.quorum.voters.ids) == ((), (1, 2))
    # The removed node learns that it is no longer a voter, and neither reports nor stands.
    removed = Node(voter(3), dynamic(1, 2, 3))
    output = removed.receive(1, begin_request(1, 1, replica(3), addresses(1)))
    message = fetch_to(output, 1)
    left = VoterSet([voter(1), voter(2)])
    removed.receive(1, fetch_response(1, 1, 3), message.correlation, Batch(0, 3, 1, b"", (left,)))
    removed.synced()
    for _ in range(3):
        output = removed.tick(4000)
        assert output.role is Role.UNATTACHED
        assert output.epoch == 1
        assert not [
            each for each in output.send if isinstance(each.message, (wire.VoteRequest, wire.UpdateRaftVoterRequest))
        ]


def test_describe_shows_voters_and_observers() -> None:
    """If this fails, kafka-metadata-quorum shows wrong lags, or no observers."""
    node = leader_of(1, 2, 3)
    begun = node.now_ms
    node.append(5)
    node.now_ms += 100
    fetch(node, 4, 0)
    fetch(node, 2, 8)
    described = node.quorum.describe(node.now_ms + 1)
    assert described is not None
    assert (described.leader_id, described.epoch, described.high_watermark) == (1, 1, 3)
    assert described.voters == (
        (replica(1), 8, node.now_ms + 1, node.now_ms + 1),
        (replica(2), 8, node.now_ms, node.now_ms),
        (replica(3), 3, begun, begun),
    )
    assert described.observers == ((replica(4), 0, node.now_ms, -1),)
    assert described.nodes == tuple(map(voter, (1, 2, 3)))
    # Five minutes later.
    described = node.quorum.describe(node.now_ms + 300_000)
    assert described is not None
    assert described.observers == ()
    assert Node(voter(1), dynamic(1, 2, 3)).quorum.describe(0) is None


def test_a_removed_node_that_stands_does_not_follow_the_leader_that_is_gone() -> None:
    """If this fails, the voters that still name the lost leader keep the only node that can lead from standing."""
    history = dynamic(1, 2, 3)
    history.note(3, (VoterSet([voter(2), voter(3)]),))
    node = Node(voter(1), history, ElectionState(1, leader_id=3), LogEpochs(4, [(1, 0)]))
    assert node.tick(2000).role is Role.PROSPECTIVE
    assert node.receive(2, vote_response(1, 3, True), PRE_VOTE).role is Role.PROSPECTIVE


def test_an_only_voter_follows_no_leader_that_it_did_not_elect() -> None:
    """If this fails, a disk that was formatted as its own quorum is mistaken for that of a voter that lags, and its
    records count as those of the cluster.
    """
    node = lone_leader()
    # The voter that it has just added may be elected, with its vote, although it has lost the addition itself.
    node.receive(2, vote_request(replica(2), 5, OffsetAndEpoch(9, 1), pre_vote=False, voter=replica(1)))
    node.receive(2, begin_request(2, 5, voter=replica(1)))
    assert node.quorum.leader_id == 2
    for message in (begin_request(2, 2, voter=replica(1)), vote_response(2, 2, False)):
        node = lone_leader()
        with pytest.raises(AssertionError, match="2 leads epoch 2, and the only voter, 1"):
            node.receive(2, message)
