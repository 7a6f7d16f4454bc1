"""The messages between nodes of the quorum in Kafka's form, in every version that Kafka 4.3.1 speaks."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from broker_cy.core import uuid as uuids
from broker_cy.core.errors import ErrorCode, KafkaError, WireError
from broker_cy.quorum import wire, wire_log
from broker_cy.quorum.messages import (
    MARK_UNKNOWN,
    Batch,
    BeginQuorumEpoch,
    BeginQuorumEpochResponse,
    EndQuorumEpoch,
    EndQuorumEpochResponse,
    Fetch,
    FetchResponse,
    FetchSnapshot,
    FetchSnapshotResponse,
    KRaftVersion,
    Leadership,
    OffsetAndEpoch,
    Request,
    Response,
    UpdateVoter,
    UpdateVoterResponse,
    VoteRequest,
    VoteResponse,
)
from broker_cy.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet
from broker_cy.wire import messages
from broker_cy.wire.api_keys import ApiKey
from broker_cy.wire.codec import Message, decode, encode
from broker_cy.wire.control import LeaderChange, decode_control
from broker_cy.wire.control import Voter as ControlVoter
from broker_cy.wire.records import decode_batches

ONE = UUID(int=0x1111_2222)
TWO = UUID(int=0x3333_4444)
ME = wire.Identity("cluster", ReplicaKey(1, ONE), "CONTROLLER")
PEER = wire.Identity("cluster", ReplicaKey(2, TWO), "CONTROLLER")
ADDRESSES = (Endpoint("CONTROLLER", "host-1", 9093), Endpoint("OTHER", "10.0.0.1", 19093))

VOTE = VoteRequest(7, OffsetAndEpoch(40, 6), False, ONE, ReplicaKey(2, TWO))
PRE_VOTE = VOTE._replace(pre_vote=True)
BEGIN = BeginQuorumEpoch(7, ReplicaKey(2, TWO), ADDRESSES)
END = EndQuorumEpoch(7, (ReplicaKey(3, TWO), ReplicaKey(1, ONE)), ADDRESSES)
FETCH = Fetch(7, 99, OffsetAndEpoch(40, 6), 38, ONE, 250)
SNAPSHOT = FetchSnapshot(7, 99, OffsetAndEpoch(30, 5), 4096, ONE, 1000)
UPDATE = UpdateVoter(7, Voter(ReplicaKey(1, ONE), ADDRESSES, 0, 1))
KEYS = (ReplicaKey(3), ReplicaKey(1))

# Each request, and its fields that survive a version: older versions do not have every field.
REQUESTS: list[tuple[int, Request, Request]] = [
    (0, VOTE, VoteRequest(7, OffsetAndEpoch(40, 6), False)),
    (1, VOTE, VOTE),
    (2, VOTE, VOTE),
    (2, PRE_VOTE, PRE_VOTE),
    (2, VOTE._replace(voter=None), VOTE._replace(voter=None)),
    (0, BEGIN, BeginQuorumEpoch(7)),
    (1, BEGIN, BEGIN),
    (0, END, EndQuorumEpoch(7, KEYS)),
    (1, END, END),
    *[
        (version, FETCH, FETCH._replace(directory_id=uuids.ZERO, high_watermark=MARK_UNKNOWN))
        for version in range(12, 17)
    ],
    (17, FETCH, FETCH._replace(high_watermark=MARK_UNKNOWN)),
    (18, FETCH, FETCH),
    (0, SNAPSHOT, SNAPSHOT._replace(directory_id=uuids.ZERO)),
    (1, SNAPSHOT, SNAPSHOT),
    (0, UPDATE, UPDATE),
]


@pytest.mark.parametrize(("version", "sent", "expected"), REQUESTS, ids=str)
def test_requests_arrive(version: int, sent: Request, expected: Request) -> None:
    """If this fails, a node of the quorum understands another epoch, log end or directory than was sent."""
    request = wire.to_request(ME, sent, version)
    arrived = decode(type(request), version, encode(request, version))
    assert wire.from_request(PEER, arrived, 99) == (1, expected)


VOTED = VoteResponse(8, 1, True, False, ErrorCode.NONE, ADDRESSES[:1])
REJECTED = VoteResponse(8, -1, False, False, ErrorCode.INVALID_VOTER_KEY)
BEGUN = BeginQuorumEpochResponse(8, 1, ErrorCode.FENCED_LEADER_EPOCH, ADDRESSES[:1])
ENDED = EndQuorumEpochResponse(8, 1, ErrorCode.NONE, ADDRESSES[:1])
MARKS = FetchResponse(7, 99, 1, 38, offset=40, leader_endpoints=ADDRESSES[:1], log_start_offset=12)
DIVERGING = MARKS._replace(diverging=OffsetAndEpoch(20, 3))
NEEDS_SNAPSHOT = MARKS._replace(snapshot_id=OffsetAndEpoch(30, 5))
FENCED = FetchResponse(8, 99, 2, 0, error=ErrorCode.FENCED_LEADER_EPOCH)
CHUNK = FetchSnapshotResponse(
    7, 99, 1, OffsetAndEpoch(30, 5), 4096, 1000, 9000, b"bytes", ErrorCode.NONE, ADDRESSES[:1]
)
NOT_FOUND = FetchSnapshotResponse(7, 99, 1, OffsetAndEpoch(30, 5), 0, 1000, 0, b"", ErrorCode.SNAPSHOT_NOT_FOUND)

UPDATED = UpdateVoterResponse(7, 1, ErrorCode.NONE, ADDRESSES[:1])
NOT_VOTER = UpdateVoterResponse(8, -1, ErrorCode.VOTER_NOT_FOUND)


def without(response: Any) -> Any:
    return response._replace(leader_endpoints=())


RESPONSES: list[tuple[int, Request, Response, Response]] = [
    (0, VOTE, VOTED, without(VOTED)),
    (1, VOTE, VOTED, VOTED),
    (2, VOTE, VOTED, VOTED),
    (2, PRE_VOTE, VOTED, VOTED._replace(pre_vote=True)),
    (2, VOTE, REJECTED, REJECTED),
    (0, BEGIN, BEGUN, without(BEGUN)),
    (1, BEGIN, BEGUN, BEGUN),
    (0, END, ENDED, without(ENDED)),
    (1, END, ENDED, ENDED),
    *[(version, FETCH, MARKS, without(MARKS)) for version in range(12, 17)],
    *[(version, FETCH, each, each) for version in (17, 18) for each in (MARKS, DIVERGING, NEEDS_SNAPSHOT, FENCED)],
    (0, SNAPSHOT, CHUNK, without(CHUNK)),
    (1, SNAPSHOT, CHUNK, CHUNK),
    (1, SNAPSHOT, NOT_FOUND, NOT_FOUND),
    (0, UPDATE, UPDATED, UPDATED),
    (0, UPDATE, NOT_VOTER, NOT_VOTER),
]


@pytest.mark.parametrize(("version", "asked", "sent", "expected"), RESPONSES, ids=str)
def test_responses_arrive(version: int, asked: Request, sent: Response, expected: Response) -> None:
    """If this fails, a node counts a vote that was not given, or truncates its log to a wrong offset."""
    response = wire.to_response(sent, version, "CONTROLLER")
    arrived = decode(type(response), version, encode(response, version))
    assert wire.from_response(PEER, asked, arrived) == expected


def test_a_vote_has_kafkas_fields() -> None:
    """If this fails, Kafka's voters would read a vote of this broker in another way."""
    part = messages.VoteRequest.PartitionData(
        replica_epoch=7,
        replica_id=1,
        replica_directory_id=ONE,
        voter_directory_id=TWO,
        last_offset_epoch=6,
        last_offset=40,
        pre_vote=True,
    )
    topic = messages.VoteRequest.TopicData(topic_name="__cluster_metadata", partitions=[part])
    assert wire.to_request(ME, PRE_VOTE, 2) == messages.VoteRequest(cluster_id="cluster", voter_id=2, topics=[topic])


def test_a_fetch_has_kafkas_fields() -> None:
    """If this fails, Kafka's leader would not count the fetches of this broker."""
    request = wire.to_request(ME, FETCH, 18)
    assert isinstance(request, messages.FetchRequest)
    assert (request.cluster_id, request.replica_id, request.replica_state.replica_id) == ("cluster", -1, 1)
    assert (request.max_wait_ms, request.min_bytes, request.session_id, request.session_epoch) == (250, 0, 0, -1)
    (topic,) = request.topics
    (part,) = topic.partitions
    assert topic.topic_id == uuids.METADATA_TOPIC_ID
    assert (part.current_leader_epoch, part.fetch_offset, part.last_fetched_epoch) == (7, 40, 6)
    assert (part.replica_directory_id, part.high_watermark) == (ONE, 38)


def test_a_pre_vote_needs_a_receiver_that_knows_it() -> None:
    """If this fails, a node of an older version treats a pre-vote as a vote, and gives its vote away."""
    for version in (0, 1):
        with pytest.raises(KafkaError, match="UNSUPPORTED_VERSION"):
            wire.to_request(ME, PRE_VOTE, version)


@pytest.mark.parametrize(("sent", "version"), [(VOTE, 2), (BEGIN, 1), (END, 1), (FETCH, 18), (SNAPSHOT, 1)], ids=str)
def test_strange_requests_are_refused(sent: Request, version: int) -> None:
    """If this fails, a node of another cluster takes part in elections."""

    def refusal(request: Message) -> Any:
        with pytest.raises(wire.Refused) as refused:
            wire.from_request(PEER, decode(type(request), version, encode(request, version)))
        response = refused.value.response
        answer = decode(type(response), version, encode(response, version))
        with pytest.raises(KafkaError) as error:
            wire.from_response(ME, sent, answer)
        return error.value.code

    stranger = ME._replace(cluster_id="other")
    assert refusal(wire.to_request(stranger, sent, version)) is ErrorCode.INCONSISTENT_CLUSTER_ID
    empty: Any = wire.to_request(ME, sent, version)
    empty.topics = []
    assert refusal(empty) is ErrorCode.INVALID_REQUEST
    # Kafka does not insist on a cluster id.
    nameless: Any = wire.to_request(ME, sent, version)
    nameless.cluster_id = None
    assert wire.from_request(PEER, nameless)[0] == 1


def test_entries_arrive_with_what_the_quorum_reads() -> None:
    """If this fails, a follower misses a change of the voters, and counts another majority than the leader."""
    voters = VoterSet([Voter(ReplicaKey(1, ONE), ADDRESSES, 0, 1), Voter(ReplicaKey(2, TWO), ADDRESSES[:1], 1, 1)])
    control = (Leadership(1, voters.keys, voters.keys[:1]), KRaftVersion(1), voters)
    first = wire_log.encoded(Batch(40, 43, 7, None, control), now_ms=1)
    second = wire_log.encoded(Batch(43, 44, 7, None, (Leadership(2, voters.keys, ()),)), now_ms=2)
    response = wire.to_response(MARKS, 18, "CONTROLLER", first + second + second[:20])
    arrived = wire.from_response(PEER, FETCH, decode(type(response), 18, encode(response, 18)))
    assert isinstance(arrived, FetchResponse)
    one, two = ReplicaKey(1), ReplicaKey(2)
    assert arrived.batches == (
        Batch(40, 43, 7, first, (Leadership(1, (one, two), (one,)), *control[1:])),
        Batch(43, 44, 7, second, (Leadership(2, (one, two), ()),)),
    )
    assert wire_log.encoded(arrived.batches[0], now_ms=9) == first


def test_a_leader_is_announced_in_the_version_that_kafka_reads() -> None:
    """If this fails, every Kafka node of a cluster ends when our controller leads with voters in the log: Kafka 4.3.1
    reads each LeaderChangeMessage as version 0, whatever version it has.
    """
    keys = (ReplicaKey(1, ONE), ReplicaKey(2, TWO))
    (batch,) = decode_batches(wire_log.encoded(Batch(7, 8, 3, None, (Leadership(1, keys, keys[:1]),)), 1))
    (message,) = (decode_control(record) for record in batch.records())
    assert message == LeaderChange(1, (ControlVoter(1), ControlVoter(2)), (ControlVoter(1),), version=0)


def test_damaged_entries_are_refused() -> None:
    """If this fails, a follower appends entries that were damaged in transit."""
    good = wire_log.encoded(Batch(40, 41, 7, None, (KRaftVersion(1),)), now_ms=1)
    with pytest.raises(WireError, match="offset 40 has a wrong checksum"):
        wire_log.batches_of(good[:-1] + bytes([good[-1] ^ 1]))


def test_entries_must_follow_each_other() -> None:
    """If this fails, a follower appends a log with a gap."""
    one, other = (wire_log.encoded(Batch(at, at + 1, 7, None, (KRaftVersion(1),)), 1) for at in (40, 42))
    with pytest.raises(WireError, match="offsets 42 to 43"):
        wire_log.batches_of(one + other)
    with pytest.raises(WireError, match="of epoch -1"):
        wire_log.batches_of(wire_log.encoded(Batch(40, 41, -1, None, (KRaftVersion(1),)), 1))


def test_unknown_errors_are_errors() -> None:
    """If this fails, an error of a newer version stops the node that reads it."""
    response: Any = wire.to_response(VOTED, 2, "CONTROLLER")
    response.topics[0].partitions[0].error_code = 12345
    answer = wire.from_response(PEER, VOTE, response)
    assert isinstance(answer, VoteResponse)
    assert answer.error is ErrorCode.UNKNOWN_SERVER_ERROR
    response.error_code = 12345
    with pytest.raises(KafkaError, match="UNKNOWN_SERVER_ERROR"):
        wire.from_response(PEER, VOTE, response)


def test_each_api_in_each_of_kafkas_versions() -> None:
    """If this fails, this node and a Kafka node have no version in common that both understand."""
    classes = (messages.VoteRequest, messages.BeginQuorumEpochRequest, messages.EndQuorumEpochRequest)
    for cls in (*classes, messages.FetchSnapshotRequest, messages.UpdateRaftVoterRequest):
        assert wire.VERSIONS[ApiKey(cls.API_KEY)] == cls.VERSIONS
    assert wire.VERSIONS[ApiKey.FETCH][1] == messages.FetchRequest.VERSIONS[1]
