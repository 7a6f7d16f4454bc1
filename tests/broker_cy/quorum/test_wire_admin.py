"""DescribeQuorum and the requests that change voters, in each version of Kafka 4.3.1."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from broker_cy.core import uuid as uuids
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.quorum import wire, wire_admin
from broker_cy.quorum.messages import add_request, remove_request, update_request
from broker_cy.quorum.step import Description, RemoveVoter, ReplicaDescription, Reply
from broker_cy.quorum.voters import Endpoint, ReplicaKey, Voter
from broker_cy.wire import messages
from broker_cy.wire.codec import decode, encode

ONE, TWO = UUID(int=1 << 70), UUID(int=2 << 70)
ME = wire.Identity("cluster", ReplicaKey(1, ONE), "CONTROLLER")
ADDRESSES = (Endpoint("CONTROLLER", "host-2", 9093), Endpoint("OTHER", "host-2", 19093))


def add(**fields: Any) -> messages.AddRaftVoterRequest:
    listeners = [messages.AddRaftVoterRequest.Listener(name=n, host=h, port=p) for n, h, p in ADDRESSES]
    given = {"cluster_id": "cluster", "timeout_ms": 100, "voter_id": 2, "voter_directory_id": TWO}
    return messages.AddRaftVoterRequest(**{**given, "listeners": listeners, **fields})


def remove(**fields: Any) -> messages.RemoveRaftVoterRequest:
    given = {"cluster_id": "cluster", "voter_id": 2, "voter_directory_id": TWO}
    return messages.RemoveRaftVoterRequest(**{**given, **fields})


@pytest.mark.parametrize("version", [0, 1])
def test_a_voter_to_add(version: int) -> None:
    """If this fails, kafka-metadata-quorum add-controller adds another node than the one it was asked for."""
    arrived = decode(messages.AddRaftVoterRequest, version, encode(add(), version))
    assert wire_admin.voter_to_add(ME, arrived) == Voter(ReplicaKey(2, TWO), ADDRESSES)
    assert arrived.ack_when_committed


def test_a_voter_to_remove() -> None:
    """If this fails, kafka-metadata-quorum remove-controller removes another node."""
    arrived = decode(messages.RemoveRaftVoterRequest, 0, encode(remove(), 0))
    assert wire_admin.voter_to_remove(ME, arrived) == RemoveVoter(ReplicaKey(2, TWO))


@pytest.mark.parametrize("version", [0, 1])
def test_an_observer_that_joins_by_itself(version: int) -> None:
    """If this fails, Kafka's controllers do not take a node of ours as a voter, or its lost disk stays one."""
    me = wire.Identity("cluster", ReplicaKey(2, TWO), "CONTROLLER")
    voter = Voter(ReplicaKey(2, TWO), ADDRESSES)
    request = add_request(voter)
    wire.fit_request(me, request, version)
    arrived = decode(messages.AddRaftVoterRequest, version, encode(request, version))
    assert wire_admin.voter_to_add(ME, arrived) == voter
    # The new voter has to acknowledge its own record; version 0 waits for that.
    assert arrived.ack_when_committed == (version == 0)
    drop = remove_request(ReplicaKey(2, ONE))
    wire.fit_request(me, drop, 0)
    removed = decode(messages.RemoveRaftVoterRequest, 0, encode(drop, 0))
    assert wire_admin.voter_to_remove(ME, removed) == RemoveVoter(ReplicaKey(2, ONE))


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (add(cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (add(voter_id=-1), ErrorCode.INVALID_REQUEST),
        (add(voter_directory_id=uuids.ZERO), ErrorCode.INVALID_REQUEST),
        (add(listeners=[]), ErrorCode.INVALID_REQUEST),
        (remove(cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (remove(voter_id=-1), ErrorCode.INVALID_REQUEST),
        (remove(voter_directory_id=uuids.ZERO), ErrorCode.INVALID_REQUEST),
    ],
    ids=str,
)
def test_wrong_requests_are_refused_with_a_reason(request_: Any, error: ErrorCode) -> None:
    """If this fails, an operator does not learn what is wrong with a request, or the request changes another
    cluster.
    """
    is_add = isinstance(request_, messages.AddRaftVoterRequest)
    with pytest.raises(wire.Refused) as refused:
        (wire_admin.voter_to_add if is_add else wire_admin.voter_to_remove)(ME, request_)
    response: Any = decode(type(refused.value.response), 0, encode(refused.value.response, 0))
    assert (response.error_code, refused.value.error) == (error, error)
    assert response.error_message


def test_an_update_without_an_address_is_refused() -> None:
    """If this fails, a voter disappears from the addresses that the others use."""
    for cluster_id, error in (
        ("cluster", ErrorCode.INVALID_REQUEST),
        ("other", ErrorCode.INCONSISTENT_CLUSTER_ID),
    ):
        request = update_request(7, Voter(ReplicaKey(2, TWO), ADDRESSES[1:]))
        request.cluster_id = cluster_id
        with pytest.raises(wire.Refused) as refused:
            wire.sender_of(ME, request)
        response: Any = refused.value.response
        assert response.error_code == error
        with pytest.raises(KafkaError, match=error.name):
            wire.check_response(response)


def test_replies() -> None:
    """If this fails, kafka-metadata-quorum reports success for a change that failed."""
    failed = Reply(7, ErrorCode.DUPLICATE_VOTER, "is a voter already")
    for make in (wire_admin.add_response, wire_admin.remove_response):
        answer: Any = make(failed)
        assert (answer.error_code, answer.error_message) == (126, "is a voter already")
        answer = make(Reply(7, ErrorCode.NONE, ""))
        assert (answer.error_code, answer.error_message) == (0, None)


DESCRIBED = Description(
    1,
    7,
    40,
    (ReplicaDescription(ReplicaKey(1, ONE), 42, 500, 500), ReplicaDescription(ReplicaKey(2, TWO), -1, -1, -1)),
    (ReplicaDescription(ReplicaKey(9, TWO), 30, 400, 300),),
    (Voter(ReplicaKey(2, TWO), ADDRESSES),),
)


def describe(topic: str = "__cluster_metadata", *partitions: int) -> messages.DescribeQuorumRequest:
    parts = [messages.DescribeQuorumRequest.PartitionData(partition_index=index) for index in partitions]
    return messages.DescribeQuorumRequest(
        topics=[messages.DescribeQuorumRequest.TopicData(topic_name=topic, partitions=parts)]
    )


@pytest.mark.parametrize("version", [0, 1, 2])
def test_describe_quorum(version: int) -> None:
    """If this fails, kafka-metadata-quorum describe shows wrong lags or addresses."""
    made = wire_admin.describe_response(describe("__cluster_metadata", 0), DESCRIBED, version, 1_000_000)
    arrived = decode(messages.DescribeQuorumResponse, version, encode(made, version))
    (part,) = arrived.topics[0].partitions
    assert (part.error_code, part.leader_id, part.leader_epoch, part.high_watermark) == (0, 1, 7, 40)
    times = (1_000_500, 1_000_500) if version else (-1, -1)
    first, second = part.current_voters
    assert (first.replica_id, first.log_end_offset) == (1, 42)
    assert (first.last_fetch_timestamp, first.last_caught_up_timestamp) == times
    assert (second.log_end_offset, second.last_fetch_timestamp) == (-1, -1)
    (observer,) = part.observers
    assert (observer.replica_id, observer.log_end_offset) == (9, 30)
    directories = [one.replica_directory_id for one in (first, second, observer)]
    assert directories == ([ONE, TWO, TWO] if version == 2 else [uuids.ZERO] * 3)
    addresses = [(n.node_id, [(at.name, at.host, at.port) for at in n.listeners]) for n in arrived.nodes]
    assert addresses == ([(2, list(ADDRESSES))] if version == 2 else [])


@pytest.mark.parametrize(
    ("request_", "described", "error"),
    [
        (describe("__cluster_metadata", 0), None, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (describe("orders", 0), DESCRIBED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (describe("__cluster_metadata", 1), DESCRIBED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (describe("__cluster_metadata", 0, 1), DESCRIBED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_describe_quorum_errors(request_: Any, described: Description | None, error: ErrorCode) -> None:
    """If this fails, a client treats the answer of a node that does not lead as the state of the quorum."""
    response: Any = wire_admin.describe_response(request_, described, 2, 0)
    assert {part.error_code for part in response.topics[0].partitions} == {error}
