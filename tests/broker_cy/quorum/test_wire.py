"""The messages between nodes of the quorum, in every version that Kafka 4.3.1 speaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from broker_cy.core import uuid as uuids
from broker_cy.core.errors import ErrorCode, KafkaError, WireError
from broker_cy.quorum import wire, wire_log
from broker_cy.quorum.election_state import NO_LEADER
from broker_cy.quorum.entries import Batch, KRaftVersion, Leadership, OffsetAndEpoch
from broker_cy.quorum.messages import (
    begin_request,
    begin_response,
    end_request,
    end_response,
    endpoints_of,
    fetch_request,
    fetch_response,
    leader_of,
    part_of,
    receiver_of,
    snapshot_request,
    snapshot_response,
    successors_of,
    update_request,
    update_response,
    vote_request,
    vote_response,
    voter_of,
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
END = OffsetAndEpoch(40, 6)
SUCCESSORS = (ReplicaKey(3, TWO), ReplicaKey(1, ONE))
SELF = Voter(ReplicaKey(1, ONE), ADDRESSES, 0, 1)
MARK_UNKNOWN = (1 << 63) - 1
"""The high watermark in the Fetch of a replica that does not send it: it is woken only by new entries."""


def vote(*, pre_vote: bool = False) -> Message:
    return vote_request(ME.replica, 7, END, pre_vote, ReplicaKey(2, TWO))


def begin() -> Message:
    return begin_request(1, 7, ReplicaKey(2, TWO), ADDRESSES)


def end() -> Message:
    return end_request(1, 7, SUCCESSORS, ADDRESSES)


def fetch() -> Message:
    return fetch_request(ME.replica, 7, END, 38, 250)


def fetch_snapshot() -> Message:
    return snapshot_request(ME.replica, 7, OffsetAndEpoch(30, 5), 4096)


def update() -> Message:
    return update_request(7, SELF)


def arrived(request: Message, version: int) -> Any:
    """The request of node 1 as the receiver reads it."""
    wire.fit_request(ME, request, version)
    return decode(type(request), version, encode(request, version))


@pytest.mark.parametrize("make", [vote, begin, end, fetch, fetch_snapshot, update])
def test_requests_arrive(make: Callable[[], Message]) -> None:
    """If this fails, a node of the quorum cannot send a request in a version that Kafka speaks, or its receiver takes
    it for that of another node.
    """
    request: Any = make()
    low, high = wire.VERSIONS[ApiKey(request.API_KEY)]
    # A request that is repeated may find another version.
    for version in (*range(low, high + 1), low):
        assert wire.sender_of(PEER, arrived(request, version)) == 1


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_vote_arrives(version: int) -> None:
    """If this fails, a voter grants its vote to another epoch, log or directory than the candidate's."""
    request = arrived(vote(pre_vote=version == 2), version)
    part = part_of(request)
    assert (part.replica_epoch, part.last_offset, part.last_offset_epoch) == (7, 40, 6)
    assert (part.replica_directory_id, part.pre_vote) == (ONE if version else uuids.ZERO, version == 2)
    receiver = ReplicaKey(2, TWO) if version else None
    assert receiver_of(request.voter_id, part.voter_directory_id) == receiver


@pytest.mark.parametrize("version", [0, 1])
def test_a_leader_arrives(version: int) -> None:
    """If this fails, a voter follows a leader of another epoch, or does not find its address."""
    request = arrived(begin(), version)
    part = part_of(request)
    assert part.leader_epoch == 7
    assert endpoints_of(request.leader_endpoints) == (ADDRESSES if version else ())
    assert receiver_of(request.voter_id, part.voter_directory_id) == (ReplicaKey(2, TWO) if version else None)
    request = arrived(end(), version)
    assert part_of(request).leader_epoch == 7
    assert endpoints_of(request.leader_endpoints) == (ADDRESSES if version else ())
    # Version 0 has no directory ids.
    assert successors_of(request) == (SUCCESSORS if version else (ReplicaKey(3), ReplicaKey(1)))


@pytest.mark.parametrize("version", range(12, 19))
def test_a_fetch_arrives(version: int) -> None:
    """If this fails, a leader counts entries that the follower does not have, or does not wake it after a commit."""
    request = arrived(fetch(), version)
    part = part_of(request)
    assert (part.current_leader_epoch, part.fetch_offset, part.last_fetched_epoch) == (7, 40, 6)
    assert part.replica_directory_id == (ONE if version >= 17 else uuids.ZERO)
    assert (part.high_watermark, request.max_wait_ms) == (38 if version >= 18 else MARK_UNKNOWN, 250)


@pytest.mark.parametrize("version", [0, 1])
def test_a_fetch_of_a_snapshot_arrives(version: int) -> None:
    """If this fails, a leader sends another part of a snapshot than the follower asked for."""
    part = part_of(arrived(fetch_snapshot(), version))
    assert (part.current_leader_epoch, part.position) == (7, 4096)
    assert (part.snapshot_id.end_offset, part.snapshot_id.epoch) == (30, 5)
    assert part.replica_directory_id == (ONE if version else uuids.ZERO)


def test_an_update_arrives() -> None:
    """If this fails, the leader records another address or version of a voter than it has reported."""
    request = arrived(update(), 0)
    assert (request.current_leader_epoch, voter_of(request)) == (7, SELF)


def answered(response: Message, version: int) -> Any:
    """The response as the sender of the request reads it. Raises KafkaError."""
    wire.fit_response(response, version)
    found = decode(type(response), version, encode(response, version))
    wire.check_response(found)
    return found


NEWEST = {
    vote_response: 2,
    begin_response: 1,
    end_response: 1,
    fetch_response: 18,
    snapshot_response: 1,
    update_response: 0,
}


def response_of(kind: Any, leader_id: int, error: ErrorCode, address: Endpoint | None) -> Message:
    extra = {vote_response: (True,), fetch_response: (38,), snapshot_response: (OffsetAndEpoch(30, 5), 4096)}
    response: Message = kind(8, leader_id, *extra.get(kind, ()), error, address)
    return response


@pytest.mark.parametrize("kind", NEWEST)
def test_the_leader_in_a_response_arrives(kind: Any) -> None:
    """If this fails, a node does not find the leader, or follows another one than the responding node."""
    oldest = 12 if kind is fetch_response else 0
    address_since = {fetch_response: 17, update_response: 0}.get(kind, 1)
    for version in range(oldest, NEWEST[kind] + 1):
        found = answered(response_of(kind, 1, ErrorCode.NONE, ADDRESSES[0]), version)
        assert leader_of(found, "CONTROLLER") == (8, 1, ADDRESSES[:1] if version >= address_since else ())
        assert wire.error_of(found) is ErrorCode.NONE
        found = answered(response_of(kind, NO_LEADER, ErrorCode.FENCED_LEADER_EPOCH, None), version)
        assert leader_of(found, "CONTROLLER") == (8, NO_LEADER, ())
        assert wire.error_of(found) is ErrorCode.FENCED_LEADER_EPOCH


def test_results_arrive() -> None:
    """If this fails, a node counts a vote that was not given, or truncates its log to a wrong offset."""
    for granted in (True, False):
        assert part_of(answered(vote_response(8, 1, granted), 2)).vote_granted == granted
    part = part_of(answered(fetch_response(7, 1, 38, log_start_offset=12), 18))
    assert (part.high_watermark, part.log_start_offset) == (38, 12)
    assert (part.diverging_epoch.epoch, part.snapshot_id.epoch) == (-1, -1)
    place = OffsetAndEpoch(20, 3)
    part = part_of(answered(fetch_response(7, 1, diverging=place), 18))
    assert (part.diverging_epoch.end_offset, part.diverging_epoch.epoch, part.snapshot_id.epoch) == (20, 3, -1)
    part = part_of(answered(fetch_response(7, 1, snapshot_id=place), 18))
    assert (part.snapshot_id.end_offset, part.snapshot_id.epoch, part.diverging_epoch.epoch) == (20, 3, -1)
    response = snapshot_response(7, 1, place, 4096)
    chunk = part_of(response)
    chunk.size, chunk.unaligned_records = 9000, b"bytes"
    part = part_of(answered(response, 1))
    assert (part.snapshot_id.end_offset, part.snapshot_id.epoch, part.position) == (20, 3, 4096)
    assert (part.size, bytes(part.unaligned_records)) == (9000, b"bytes")


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
    expected = messages.VoteRequest(cluster_id="cluster", voter_id=2, topics=[topic])
    assert arrived(vote(pre_vote=True), 2) == expected


def test_a_fetch_has_kafkas_fields() -> None:
    """If this fails, Kafka's leader would not count the fetches of this broker."""
    request = arrived(fetch(), 18)
    assert (request.cluster_id, request.replica_id, request.replica_state.replica_id) == ("cluster", -1, 1)
    assert (request.max_wait_ms, request.min_bytes, request.session_id, request.session_epoch) == (250, 0, 0, -1)
    (topic,) = request.topics
    assert (topic.topic_id, len(topic.partitions)) == (uuids.METADATA_TOPIC_ID, 1)


def test_a_pre_vote_needs_a_receiver_that_knows_it() -> None:
    """If this fails, a node of an older version treats a pre-vote as a vote, and gives its vote away."""
    for version in range(wire.PRE_VOTE_VERSION):
        with pytest.raises(WireError, match="pre_vote"):
            arrived(vote(pre_vote=True), version)


@pytest.mark.parametrize(("make", "version"), [(vote, 2), (begin, 1), (end, 1), (fetch, 18), (fetch_snapshot, 1)])
def test_strange_requests_are_refused(make: Callable[[], Message], version: int) -> None:
    """If this fails, a node of another cluster takes part in elections."""

    def refusal(request: Message) -> ErrorCode:
        with pytest.raises(wire.Refused) as refused:
            wire.sender_of(PEER, request)
        with pytest.raises(KafkaError) as error:
            answered(refused.value.response, version)
        return error.value.code

    request = arrived(make(), version)
    request.cluster_id = "other"
    assert refusal(request) is ErrorCode.INCONSISTENT_CLUSTER_ID
    # Kafka does not insist on a cluster id.
    request.cluster_id = None
    assert wire.sender_of(PEER, request) == 1
    request.topics = []
    assert refusal(request) is ErrorCode.INVALID_REQUEST


def test_entries_arrive_with_what_the_quorum_reads() -> None:
    """If this fails, a follower misses a change of the voters, and counts another majority than the leader."""
    voters = VoterSet([Voter(ReplicaKey(1, ONE), ADDRESSES, 0, 1), Voter(ReplicaKey(2, TWO), ADDRESSES[:1], 1, 1)])
    control = (Leadership(1, voters.keys, voters.keys[:1]), KRaftVersion(1), voters)
    first = wire_log.encoded(Batch(40, 43, 7, None, control), now_ms=1)
    second = wire_log.encoded(Batch(43, 44, 7, None, (Leadership(2, voters.keys, ()),)), now_ms=2)
    batches = wire_log.batches_of(first + second + second[:20])
    one, two = ReplicaKey(1), ReplicaKey(2)
    assert batches == (
        Batch(40, 43, 7, first, (Leadership(1, (one, two), (one,)), *control[1:])),
        Batch(43, 44, 7, second, (Leadership(2, (one, two), ()),)),
    )
    assert wire_log.encoded(batches[0], now_ms=9) == first


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
    response: Any = vote_response(8, 1, granted=True)
    response.topics[0].partitions[0].error_code = 12345
    assert wire.error_of(answered(response, 2)) is ErrorCode.UNKNOWN_SERVER_ERROR
    response.error_code = 12345
    with pytest.raises(KafkaError, match="UNKNOWN_SERVER_ERROR"):
        answered(response, 2)


def test_each_api_in_each_of_kafkas_versions() -> None:
    """If this fails, this node and a Kafka node have no version in common that both understand."""
    classes = (messages.VoteRequest, messages.BeginQuorumEpochRequest, messages.EndQuorumEpochRequest)
    for cls in (*classes, messages.FetchSnapshotRequest, messages.UpdateRaftVoterRequest):
        assert wire.VERSIONS[ApiKey(cls.API_KEY)] == cls.VERSIONS
    assert wire.VERSIONS[ApiKey.FETCH][1] == messages.FetchRequest.VERSIONS[1]
