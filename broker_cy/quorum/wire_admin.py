"""Requests about the quorum, of operators and of nodes that join: DescribeQuorum 0-2, AddRaftVoter 0-1 and
RemoveRaftVoter 0 (KIP-853). Pure functions, as in `wire`.
"""

from __future__ import annotations

from typing import Any

from broker_cy.core import uuid as uuids
from broker_cy.core.errors import ErrorCode
from broker_cy.quorum.messages import PARTITION, TOPIC, address_on, listeners_of, voter_of
from broker_cy.quorum.step import Description, RemoveVoter, ReplicaDescription, Reply
from broker_cy.quorum.voters import ReplicaKey, Voter
from broker_cy.quorum.wire import Identity, Refused, is_strange
from broker_cy.wire import messages as wire
from broker_cy.wire.codec import Message

# --- voters


def voter_to_add(me: Identity, request: wire.AddRaftVoterRequest) -> Voter:
    """The voter of an AddRaftVoter, without its range of kraft.version: that is in the response to an ApiVersions
    request, which the leader sends it. Raises Refused.
    """
    _check_cluster(me, request, wire.AddRaftVoterResponse)
    voter = voter_of(request)
    _check_key(voter.key, wire.AddRaftVoterResponse)
    if address_on(voter.endpoints, me.listener) is None:
        raise _invalid(
            wire.AddRaftVoterResponse,
            f"voter {voter.key} has the listeners {[one.name for one in voter.endpoints]}; {me.listener} is needed",
        )
    return voter


def voter_to_remove(me: Identity, request: wire.RemoveRaftVoterRequest) -> RemoveVoter:
    """Raises Refused."""
    _check_cluster(me, request, wire.RemoveRaftVoterResponse)
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    _check_key(key, wire.RemoveRaftVoterResponse)
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


def _check_key(key: ReplicaKey, response: type[Any]) -> None:
    if key.id < 0 or key.directory_id == uuids.ZERO:
        raise _invalid(response, "the request names no voter: an id and a directory id are needed")


def _invalid(response: type[Any], text: str) -> Refused:
    error = ErrorCode.INVALID_REQUEST
    return Refused(response(error_code=error, error_message=text), error)


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
