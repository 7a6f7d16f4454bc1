"""Kafka's form of requests about the quorum: DescribeQuorum 0-2, AddRaftVoter 0-1, RemoveRaftVoter 0 (KIP-853), and of
UpdateRaftVoter 0, the report of a voter about itself. Pure functions, as in `wire`.
"""

from __future__ import annotations

from typing import Any

from broker_cy.core import uuid as uuids
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.quorum.messages import ChangeResponse, DropVoter, JoinVoters, UpdateVoter, UpdateVoterResponse
from broker_cy.quorum.step import Description, RemoveVoter, ReplicaDescription, Reply
from broker_cy.quorum.voters import Endpoint, ReplicaKey, Voter
from broker_cy.quorum.wire_common import (
    PARTITION,
    TOPIC,
    Identity,
    Refused,
    address_on,
    endpoints_of,
    is_strange,
    listeners_of,
    replica_key,
)
from broker_cy.wire import messages as wire
from broker_cy.wire.codec import Message

# --- voters


def voter_to_add(me: Identity, request: wire.AddRaftVoterRequest) -> Voter:
    """The voter of an AddRaftVoter, without its range of kraft.version: that is in the response to an ApiVersions
    request, which the leader sends it. Raises Refused.
    """
    _check_cluster(me, request, wire.AddRaftVoterResponse)
    key = replica_key(request.voter_id, request.voter_directory_id)
    endpoints = endpoints_of(request.listeners)
    if key is None or key.directory_id == uuids.ZERO:
        raise _invalid(wire.AddRaftVoterResponse, "the request names no voter: an id and a directory id are needed")
    if address_on(endpoints, me.listener) is None:
        raise _invalid(
            wire.AddRaftVoterResponse,
            f"voter {key} has the listeners {[one.name for one in endpoints]}; {me.listener} is needed",
        )
    return Voter(key, endpoints)


def voter_to_remove(me: Identity, request: wire.RemoveRaftVoterRequest) -> RemoveVoter:
    """Raises Refused."""
    _check_cluster(me, request, wire.RemoveRaftVoterResponse)
    key = replica_key(request.voter_id, request.voter_directory_id)
    if key is None or key.directory_id == uuids.ZERO:
        raise _invalid(wire.RemoveRaftVoterResponse, "the request names no voter: an id and a directory id are needed")
    return RemoveVoter(key)


def add_response(reply: Reply) -> Message:
    return wire.AddRaftVoterResponse(error_code=reply.error, error_message=reply.message or None)


def remove_response(reply: Reply) -> Message:
    return wire.RemoveRaftVoterResponse(error_code=reply.error, error_message=reply.message or None)


def _check_cluster(me: Identity, request: Any, response: type[Any]) -> None:
    if is_strange(me, request.cluster_id):
        text = f"the request is for cluster {request.cluster_id!r}, and this is {me.cluster_id!r}"
        error = ErrorCode.INCONSISTENT_CLUSTER_ID
        raise Refused(response(error_code=error, error_message=text), error)


def _invalid(response: type[Any], text: str) -> Refused:
    error = ErrorCode.INVALID_REQUEST
    return Refused(response(error_code=error, error_message=text), error)


def join_request(me: Identity, message: JoinVoters, version: int, timeout_ms: int) -> Message:
    """Before version 1 the response follows the commit, which the new voter itself has to acknowledge."""
    request = wire.AddRaftVoterRequest(
        cluster_id=me.cluster_id,
        timeout_ms=timeout_ms,
        voter_id=message.voter.key.id,
        voter_directory_id=message.voter.key.directory_id,
        listeners=listeners_of(wire.AddRaftVoterRequest.Listener, message.voter.endpoints),
    )
    if version >= 1:
        request.ack_when_committed = False
    return request


def drop_request(me: Identity, message: DropVoter) -> Message:
    return wire.RemoveRaftVoterRequest(
        cluster_id=me.cluster_id, voter_id=message.key.id, voter_directory_id=message.key.directory_id
    )


def change_result(response: wire.AddRaftVoterResponse | wire.RemoveRaftVoterResponse) -> ChangeResponse:
    error = ErrorCode(response.error_code)
    return ChangeResponse(error, response.error_message or ("" if error is ErrorCode.NONE else error.name))


# --- UpdateRaftVoter


def update_request(me: Identity, message: UpdateVoter) -> Message:
    voter = message.voter
    return wire.UpdateRaftVoterRequest(
        cluster_id=me.cluster_id,
        current_leader_epoch=message.epoch,
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        listeners=listeners_of(wire.UpdateRaftVoterRequest.Listener, voter.endpoints),
        kraft_version_feature=wire.UpdateRaftVoterRequest.KRaftVersionFeature(
            min_supported_version=voter.min_kraft_version, max_supported_version=voter.max_kraft_version
        ),
    )


def update_value(me: Identity, request: wire.UpdateRaftVoterRequest) -> UpdateVoter:
    """Raises Refused. The machine checks the voter itself."""
    if is_strange(me, request.cluster_id):
        error = ErrorCode.INCONSISTENT_CLUSTER_ID
        raise Refused(wire.UpdateRaftVoterResponse(error_code=error), error)
    endpoints = endpoints_of(request.listeners)
    if request.voter_id < 0 or address_on(endpoints, me.listener) is None:
        error = ErrorCode.INVALID_REQUEST
        raise Refused(wire.UpdateRaftVoterResponse(error_code=error), error)
    versions = request.kraft_version_feature
    return UpdateVoter(
        request.current_leader_epoch,
        Voter(
            ReplicaKey(request.voter_id, request.voter_directory_id),
            endpoints,
            versions.min_supported_version,
            versions.max_supported_version,
        ),
    )


def update_response(message: UpdateVoterResponse, listener: str) -> Message:
    leader = wire.UpdateRaftVoterResponse.CurrentLeader(leader_id=message.leader_id, leader_epoch=message.epoch)
    address = address_on(message.leader_endpoints, listener)
    if address is not None:
        leader.host, leader.port = address.host, address.port
    return wire.UpdateRaftVoterResponse(error_code=message.error, current_leader=leader)


def update_result(me: Identity, response: wire.UpdateRaftVoterResponse) -> UpdateVoterResponse:
    """Raises KafkaError for a response without the epoch."""
    leader, error = response.current_leader, ErrorCode(response.error_code)
    if leader.leader_epoch < 0:
        raise KafkaError(error, "the response to UpdateRaftVoter names no epoch")
    endpoints = (Endpoint(me.listener, leader.host, leader.port),) if leader.host else ()
    return UpdateVoterResponse(leader.leader_epoch, leader.leader_id, error, endpoints)


# --- DescribeQuorum


def describe_response(
    request: wire.DescribeQuorumRequest, described: Description | None, version: int, wall_offset_ms: int
) -> Message:
    """The response to encode in `version`. `described` is None unless this node leads. Add `wall_offset_ms` to a time
    of the machine's clock to get the wall clock's.
    """
    is_metadata = len(request.topics) == 1 and request.topics[0].topic_name == TOPIC
    if not is_metadata or [part.partition_index for part in request.topics[0].partitions] != [PARTITION]:
        return _described_error(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if described is None:
        return _described_error(request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    part = wire.DescribeQuorumResponse.PartitionData(
        partition_index=PARTITION,
        leader_id=described.leader_id,
        leader_epoch=described.epoch,
        high_watermark=described.high_watermark,
        current_voters=[_replica(one, version, wall_offset_ms) for one in described.voters],
        observers=[_replica(one, version, wall_offset_ms) for one in described.observers],
    )
    topic = wire.DescribeQuorumResponse.TopicData(topic_name=TOPIC, partitions=[part])
    response = wire.DescribeQuorumResponse(topics=[topic])
    if version >= 2:
        response.nodes = [
            wire.DescribeQuorumResponse.Node(
                node_id=voter.key.id,
                listeners=listeners_of(wire.DescribeQuorumResponse.Listener, voter.endpoints),
            )
            for voter in described.nodes
        ]
    return response


def _described_error(request: wire.DescribeQuorumRequest, error: ErrorCode) -> Message:
    topics = [
        wire.DescribeQuorumResponse.TopicData(
            topic_name=topic.topic_name,
            partitions=[
                wire.DescribeQuorumResponse.PartitionData(partition_index=part.partition_index, error_code=error)
                for part in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return wire.DescribeQuorumResponse(topics=topics)


def _replica(replica: ReplicaDescription, version: int, wall_offset_ms: int) -> Any:
    found = wire.DescribeQuorumResponse.ReplicaState(
        replica_id=replica.key.id,
        log_end_offset=replica.end_offset,
        last_fetch_timestamp=_wall(replica.fetched_ms, wall_offset_ms),
        last_caught_up_timestamp=_wall(replica.caught_up_ms, wall_offset_ms),
    )
    if version >= 2:
        found.replica_directory_id = replica.key.directory_id
    return found


def _wall(at_ms: int, wall_offset_ms: int) -> int:
    return at_ms + wall_offset_ms if at_ms >= 0 else -1
