"""Voters that report themselves to the leader, and the upgrade of kraft.version (KIP-853)."""

from __future__ import annotations

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.quorum.election_state import ElectionState
from broker_cy.quorum.elections import PRE_VOTE, VOTE
from broker_cy.quorum.entries import Batch, KRaftVersion
from broker_cy.quorum.history import VoterHistory
from broker_cy.quorum.messages import (
    begin_request,
    update_request,
    update_response,
    vote_response,
)
from broker_cy.quorum.step import UpgradeKRaftVersion
from broker_cy.quorum.voters import ReplicaKey, Voter, VoterSet
from broker_cy.wire import messages as wire
from tests.broker_cy.quorum.voters import (
    Node,
    addresses,
    dynamic,
    errors,
    fetch,
    leader_of,
    replica,
    sent,
    voter,
)


def test_a_voter_reports_its_new_address() -> None:
    """If this fails, other nodes cannot reach a voter that has moved."""
    moved = Voter(replica(2), addresses(2, port=19093))
    follower = Node(moved, dynamic(1, 2, 3))
    output = follower.receive(1, begin_request(1, 1, replica(2), addresses(1)))
    (report,) = [each for each in sent(output, 1) if isinstance(each, wire.UpdateRaftVoterRequest)]
    assert report == update_request(1, moved)
    assert not [each for each in sent(follower.tick(1), 1) if isinstance(each, wire.UpdateRaftVoterRequest)]
    node = leader_of(1, 2, 3)
    output = node.receive(2, report)
    assert sent(output, 2)[-1] == update_response(1, 1, ErrorCode.NONE, *addresses(1))
    assert node.quorum.endpoints(2) == addresses(2, port=19093)
    node.synced()
    fetch(node, 2, 4)
    # The same report again changes nothing.
    output = node.receive(2, report)
    assert (output.append, sent(output, 2)) == ((), [update_response(1, 1, ErrorCode.NONE, *addresses(1))])


@pytest.mark.parametrize(
    ("reported", "error"),
    [
        (Voter(ReplicaKey(2), addresses(2)), ErrorCode.INVALID_REQUEST),
        (Voter(replica(2)), ErrorCode.INVALID_REQUEST),
        (voter(2)._replace(min_kraft_version=2, max_kraft_version=1), ErrorCode.INVALID_REQUEST),
        (voter(2)._replace(max_kraft_version=0), ErrorCode.INVALID_REQUEST),
        (voter(2, disk=1), ErrorCode.VOTER_NOT_FOUND),
    ],
    ids=str,
)
def test_wrong_reports_are_refused(reported: Voter, error: ErrorCode) -> None:
    """If this fails, a broken report takes a voter's address away."""
    node = leader_of(1, 2, 3)
    output = node.receive(2, update_request(1, reported))
    assert (sent(output, 2), output.append) == ([update_response(1, 1, error, *addresses(1))], ())
    output = node.receive(2, update_request(9, voter(2)))
    assert sent(output, 2) == [update_response(1, 1, ErrorCode.UNKNOWN_LEADER_EPOCH, *addresses(1))]


def test_static_voters_become_dynamic() -> None:
    """If this fails, a cluster with controller.quorum.voters can never change its voters without an outage."""
    static = VoterSet(Voter(ReplicaKey(node_id), addresses(node_id)) for node_id in (1, 2, 3))
    node = Node(voter(1), VoterHistory(static))
    node.tick(1000)
    for pre_vote in (True, False):
        node.receive(2, vote_response(0 if pre_vote else 1, -1, True), PRE_VOTE if pre_vote else VOTE)
    node.synced()
    fetch(node, 2, 1)
    # Voter 3 has not fetched, so that its directory id is unknown.
    assert errors(node.change(UpgradeKRaftVersion(1))) == [ErrorCode.REQUEST_TIMED_OUT]
    fetch(node, 3, 0)
    moved = Voter(replica(3), addresses(3, port=19093))
    assert sent(node.receive(3, update_request(1, moved)), 3) == [update_response(1, 1, ErrorCode.NONE, *addresses(1))]
    output = node.change(UpgradeKRaftVersion(1))
    voters = VoterSet([voter(1), voter(2), moved])
    assert output.append == (Batch(1, 3, 1, None, (KRaftVersion(1), voters)),)
    # The next change of quorum-state leaves the voters to the log; this record may not be in the log yet.
    assert output.persist is None
    node.synced()
    assert errors(fetch(node, 2, 3)) == [ErrorCode.NONE]
    assert fetch(node, 2, 3, disk=1).high_watermark == 3
    assert node.receive(2, begin_request(2, 2)).persist == ElectionState(2, 2, voters=None)


def test_an_upgrade_is_only_checked_if_asked_for() -> None:
    """If this fails, a dry run of kafka-features changes the cluster, or says that it would succeed."""
    static = Node(voter(1), VoterHistory(VoterSet([Voter(ReplicaKey(1), addresses(1))])))
    static.synced()
    output = static.change(UpgradeKRaftVersion(1, validate_only=True))
    assert (errors(output), output.append) == ([ErrorCode.NONE], ())
    assert errors(static.change(UpgradeKRaftVersion(2, validate_only=True))) == [ErrorCode.UNSUPPORTED_VERSION]


def test_a_voter_that_nobody_can_reach_keeps_the_quorum_static() -> None:
    """If this fails, a single node without a listener for controllers names voters that no other node can join."""
    node = Node(Voter(replica(1)), VoterHistory(VoterSet([Voter(ReplicaKey(1))])))
    node.synced()
    output = node.change(UpgradeKRaftVersion(1))
    assert errors(output) == [ErrorCode.UNSUPPORTED_VERSION]
    assert "controller.listener.names" in output.replies[0].message
