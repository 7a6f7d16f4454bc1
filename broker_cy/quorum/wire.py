"""Kafka's form of the messages between the nodes of the quorum: Vote 0-2, BeginQuorumEpoch 0-1, EndQuorumEpoch 0-1,
Fetch 4-18 and FetchSnapshot 0-1, as Kafka 4.3.1 speaks them. Pure functions between the values of `messages` and those
of `wire.messages`; `wire_log` converts the entries, `wire_admin` requests of operators and tools and UpdateRaftVoter 0.

The sender of a request keeps its value: `from_response` needs it, because a response does not repeat the request.
The `correlation` of a Fetch or FetchSnapshot is local to each side: the receiver chooses its own with `from_request`,
and finds the request that waits by it.

A request that another cluster sent, or that is not about the metadata log, never reaches the state machine: it is
Refused, with the response to send. The machine checks all that depends on its state (epochs, roles).
"""

from __future__ import annotations

from typing import Any, Final

from broker_cy.core import uuid as uuids
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.quorum import wire_admin
from broker_cy.quorum.messages import (
    BeginQuorumEpoch,
    BeginQuorumEpochResponse,
    ChangeResponse,
    DropVoter,
    EndQuorumEpoch,
    EndQuorumEpochResponse,
    Fetch,
    FetchResponse,
    FetchSnapshot,
    FetchSnapshotResponse,
    JoinVoters,
    OffsetAndEpoch,
    Request,
    Response,
    UpdateVoter,
    UpdateVoterResponse,
    VoteRequest,
    VoteResponse,
)
from broker_cy.quorum.voters import Endpoint, ReplicaKey
from broker_cy.quorum.wire_common import (
    PARTITION,
    TOPIC,
    address_on,
    endpoints_of,
    is_strange,
    listeners_of,
    replica_key,
)
from broker_cy.quorum.wire_common import Identity as Identity
from broker_cy.quorum.wire_common import Refused as Refused
from broker_cy.quorum.wire_log import batches_of
from broker_cy.wire import messages as wire
from broker_cy.wire.api_keys import ApiKey
from broker_cy.wire.codec import Message

VERSIONS: Final = {
    ApiKey.VOTE: (0, 2),
    ApiKey.BEGIN_QUORUM_EPOCH: (0, 1),
    ApiKey.END_QUORUM_EPOCH: (0, 1),
    # Older versions do not have the epoch of the last entry, which a replica of the quorum must send.
    ApiKey.FETCH: (12, 18),
    ApiKey.FETCH_SNAPSHOT: (0, 1),
    ApiKey.ADD_RAFT_VOTER: (0, 1),
    ApiKey.REMOVE_RAFT_VOTER: (0, 0),
    ApiKey.UPDATE_RAFT_VOTER: (0, 0),
}
"""The versions of the requests that nodes of the quorum send."""
JOIN_MS: Final = 2000
"""How long the leader may take to add a voter that asks for it: Kafka's controller.quorum.request.timeout.ms."""
FETCH_BYTES_MAX: Final = 8 << 20
"""The size that a follower's fetch asks for, as in Kafka; a leader sends at least one batch."""
PRE_VOTE_VERSION: Final = 2


# --- requests


def to_request(me: Identity, message: Request, version: int) -> Message:
    """The request of `message`, to encode in `version`. Raises KafkaError (UNSUPPORTED_VERSION) for a pre-vote in a
    version before 2: the receiver knows no pre-votes, and a prospective voter treats it as granted.
    """
    match message:
        case VoteRequest():
            return _vote_request(me, message, version)
        case BeginQuorumEpoch():
            return _begin_request(me, message)
        case EndQuorumEpoch():
            return _end_request(me, message, version)
        case Fetch():
            return _fetch_request(me, message, version)
        case FetchSnapshot():
            return _snapshot_request(me, message)
        case UpdateVoter():
            return wire_admin.update_request(me, message)
        case JoinVoters():
            return wire_admin.join_request(me, message, version, JOIN_MS)
        case DropVoter():
            return wire_admin.drop_request(me, message)


def from_request(me: Identity, request: Message, correlation: int = 0) -> tuple[int, Request]:
    """The sender of the request, and its value. Raises Refused. A Fetch or FetchSnapshot gets `correlation`."""
    match request:
        case wire.VoteRequest():
            part = _part(me, request, wire.VoteResponse)
            return part.replica_id, VoteRequest(
                part.replica_epoch,
                OffsetAndEpoch(part.last_offset, part.last_offset_epoch),
                part.pre_vote,
                part.replica_directory_id,
                replica_key(request.voter_id, part.voter_directory_id),
            )
        case wire.BeginQuorumEpochRequest():
            part = _part(me, request, wire.BeginQuorumEpochResponse)
            voter = replica_key(request.voter_id, part.voter_directory_id)
            return part.leader_id, BeginQuorumEpoch(part.leader_epoch, voter, endpoints_of(request.leader_endpoints))
        case wire.EndQuorumEpochRequest():
            part = _part(me, request, wire.EndQuorumEpochResponse)
            keys = tuple(ReplicaKey(one.candidate_id, one.candidate_directory_id) for one in part.preferred_candidates)
            successors = keys or tuple(map(ReplicaKey, part.preferred_successors))
            return part.leader_id, EndQuorumEpoch(part.leader_epoch, successors, endpoints_of(request.leader_endpoints))
        case wire.FetchRequest():
            part = _part(me, request, wire.FetchResponse)
            # Version 15 moved the id.
            source = request.replica_id if request.replica_id >= 0 else request.replica_state.replica_id
            return source, Fetch(
                part.current_leader_epoch,
                correlation,
                OffsetAndEpoch(part.fetch_offset, part.last_fetched_epoch),
                part.high_watermark,
                part.replica_directory_id,
                request.max_wait_ms,
            )
        case wire.FetchSnapshotRequest():
            part = _part(me, request, wire.FetchSnapshotResponse)
            return request.replica_id, FetchSnapshot(
                part.current_leader_epoch,
                correlation,
                OffsetAndEpoch(part.snapshot_id.end_offset, part.snapshot_id.epoch),
                part.position,
                part.replica_directory_id,
                request.max_bytes,
            )
        case wire.UpdateRaftVoterRequest():
            return request.voter_id, wire_admin.update_value(me, request)
    raise TypeError(f"{type(request).__name__} is no request between nodes of the quorum")


def _part(me: Identity, request: Any, response: type[Any]) -> Any:
    """The part of the request that is about the metadata log. Raises Refused."""
    if is_strange(me, request.cluster_id):
        error = ErrorCode.INCONSISTENT_CLUSTER_ID
        raise Refused(response(error_code=error), error)
    found = _only_part(request)
    if found is None:
        error = ErrorCode.INVALID_REQUEST
        raise Refused(response(error_code=error), error)
    return found


# The attributes with the name of the topic and the index of the partition, for requests with other names.
_PLACES: Final = {
    "FetchRequest": ("topic", "partition"),
    "FetchResponse": ("topic", "partition_index"),
    "FetchSnapshotRequest": ("name", "partition"),
    "FetchSnapshotResponse": ("name", "index"),
}


def _only_part(message: Any) -> Any:
    """The part of a message about the metadata log, None unless the message has this one part."""
    topics = message.responses if isinstance(message, wire.FetchResponse) else message.topics
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    topic, part = topics[0], topics[0].partitions[0]
    name, index = _PLACES.get(type(message).__name__, ("topic_name", "partition_index"))
    # Fetch has the id instead of the name from version 13 on.
    is_metadata = getattr(topic, name) == TOPIC or getattr(topic, "topic_id", None) == uuids.METADATA_TOPIC_ID
    return part if is_metadata and getattr(part, index) == PARTITION else None


def _vote_request(me: Identity, message: VoteRequest, version: int) -> Message:
    if message.pre_vote and version < PRE_VOTE_VERSION:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Vote {version} has no pre-vote; version 2 does")
    voter = message.voter or ReplicaKey(-1)
    part = wire.VoteRequest.PartitionData(
        partition_index=PARTITION,
        replica_epoch=message.epoch,
        replica_id=me.replica.id,
        replica_directory_id=message.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=message.last.epoch,
        last_offset=message.last.offset,
        pre_vote=message.pre_vote,
    )
    topic = wire.VoteRequest.TopicData(topic_name=TOPIC, partitions=[part])
    return wire.VoteRequest(cluster_id=me.cluster_id, voter_id=voter.id, topics=[topic])


def _begin_request(me: Identity, message: BeginQuorumEpoch) -> Message:
    voter = message.voter or ReplicaKey(-1)
    part = wire.BeginQuorumEpochRequest.PartitionData(
        partition_index=PARTITION,
        voter_directory_id=voter.directory_id,
        leader_id=me.replica.id,
        leader_epoch=message.epoch,
    )
    topic = wire.BeginQuorumEpochRequest.TopicData(topic_name=TOPIC, partitions=[part])
    endpoints = listeners_of(wire.BeginQuorumEpochRequest.LeaderEndpoint, message.leader_endpoints)
    return wire.BeginQuorumEpochRequest(
        cluster_id=me.cluster_id, voter_id=voter.id, topics=[topic], leader_endpoints=endpoints
    )


def _end_request(me: Identity, message: EndQuorumEpoch, version: int) -> Message:
    part = wire.EndQuorumEpochRequest.PartitionData(
        partition_index=PARTITION, leader_id=me.replica.id, leader_epoch=message.epoch
    )
    if version == 0:
        part.preferred_successors = [key.id for key in message.successors]
    else:
        part.preferred_candidates = [
            wire.EndQuorumEpochRequest.ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id)
            for key in message.successors
        ]
    topic = wire.EndQuorumEpochRequest.TopicData(topic_name=TOPIC, partitions=[part])
    endpoints = listeners_of(wire.EndQuorumEpochRequest.LeaderEndpoint, message.leader_endpoints)
    return wire.EndQuorumEpochRequest(cluster_id=me.cluster_id, topics=[topic], leader_endpoints=endpoints)


def _fetch_request(me: Identity, message: Fetch, version: int) -> Message:
    part = wire.FetchRequest.FetchPartition(
        partition=PARTITION,
        current_leader_epoch=message.epoch,
        fetch_offset=message.end.offset,
        last_fetched_epoch=message.end.epoch,
        partition_max_bytes=FETCH_BYTES_MAX,
        replica_directory_id=message.directory_id,
        high_watermark=message.high_watermark,
    )
    topic = wire.FetchRequest.FetchTopic(topic=TOPIC, topic_id=uuids.METADATA_TOPIC_ID, partitions=[part])
    request = wire.FetchRequest(
        cluster_id=me.cluster_id, max_wait_ms=message.max_wait_ms, max_bytes=FETCH_BYTES_MAX, topics=[topic]
    )
    if version < 15:
        request.replica_id = me.replica.id
    else:
        request.replica_state = wire.FetchRequest.ReplicaState(replica_id=me.replica.id)
    return request


def _snapshot_request(me: Identity, message: FetchSnapshot) -> Message:
    part = wire.FetchSnapshotRequest.PartitionSnapshot(
        partition=PARTITION,
        current_leader_epoch=message.epoch,
        snapshot_id=wire.FetchSnapshotRequest.SnapshotId(
            end_offset=message.snapshot_id.offset, epoch=message.snapshot_id.epoch
        ),
        position=message.position,
        replica_directory_id=message.directory_id,
    )
    topic = wire.FetchSnapshotRequest.TopicSnapshot(name=TOPIC, partitions=[part])
    return wire.FetchSnapshotRequest(
        cluster_id=me.cluster_id, replica_id=me.replica.id, max_bytes=message.max_bytes, topics=[topic]
    )


# --- responses

# The responses that name a leader.
_Named = VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse | FetchResponse | FetchSnapshotResponse


def to_response(message: Response, version: int, listener: str, records: bytes = b"") -> Message:
    """The response of `message`, to encode in the `version` of the request, which arrived on `listener`. `records` are
    the whole batches that a FetchResponse carries, from its `offset` on.
    """
    match message:
        case VoteResponse(epoch, leader_id, granted):
            vote = wire.VoteResponse.PartitionData(
                partition_index=PARTITION,
                error_code=message.error,
                leader_id=leader_id,
                leader_epoch=epoch,
                vote_granted=granted,
            )
            topic = wire.VoteResponse.TopicData(topic_name=TOPIC, partitions=[vote])
            return _with_endpoint(wire.VoteResponse(topics=[topic]), message, listener, version >= 1)
        case BeginQuorumEpochResponse(epoch, leader_id, error):
            begin = wire.BeginQuorumEpochResponse.PartitionData(
                partition_index=PARTITION, error_code=error, leader_id=leader_id, leader_epoch=epoch
            )
            began = wire.BeginQuorumEpochResponse.TopicData(topic_name=TOPIC, partitions=[begin])
            return _with_endpoint(wire.BeginQuorumEpochResponse(topics=[began]), message, listener, version >= 1)
        case EndQuorumEpochResponse(epoch, leader_id, error):
            end = wire.EndQuorumEpochResponse.PartitionData(
                partition_index=PARTITION, error_code=error, leader_id=leader_id, leader_epoch=epoch
            )
            ended = wire.EndQuorumEpochResponse.TopicData(topic_name=TOPIC, partitions=[end])
            return _with_endpoint(wire.EndQuorumEpochResponse(topics=[ended]), message, listener, version >= 1)
        case FetchResponse():
            return _with_endpoint(_fetch_response(message, version, records), message, listener, version >= 17)
        case FetchSnapshotResponse():
            return _with_endpoint(_snapshot_response(message), message, listener, version >= 1)
        case UpdateVoterResponse():
            return wire_admin.update_response(message, listener)
        case ChangeResponse():
            raise TypeError("the response to a change of the voters is made of the machine's reply")


def from_response(me: Identity, sent: Request, response: Message) -> Response:
    """The value of the response to `sent`. Raises KafkaError with the error of a response that is about the request as
    a whole, such as INCONSISTENT_CLUSTER_ID; WireError for entries that are damaged.
    """
    if isinstance(sent, UpdateVoter) and isinstance(response, wire.UpdateRaftVoterResponse):
        return wire_admin.update_result(me, response)
    if isinstance(response, (wire.AddRaftVoterResponse, wire.RemoveRaftVoterResponse)):
        return wire_admin.change_result(response)
    found: Any = response
    code = found.error_code
    part = _only_part(found)
    if code or part is None:
        # A response without the requested part has no result.
        raise KafkaError(ErrorCode(code or ErrorCode.UNKNOWN_SERVER_ERROR), f"{type(response).__name__} has no result")
    error = ErrorCode(part.error_code)
    match sent, response:
        case VoteRequest(), wire.VoteResponse():
            endpoints = _leader_endpoints(me, found, part.leader_id)
            granted = part.vote_granted
            return VoteResponse(part.leader_epoch, part.leader_id, granted, sent.pre_vote, error, endpoints)
        case BeginQuorumEpoch(), wire.BeginQuorumEpochResponse():
            endpoints = _leader_endpoints(me, found, part.leader_id)
            return BeginQuorumEpochResponse(part.leader_epoch, part.leader_id, error, endpoints)
        case EndQuorumEpoch(), wire.EndQuorumEpochResponse():
            endpoints = _leader_endpoints(me, found, part.leader_id)
            return EndQuorumEpochResponse(part.leader_epoch, part.leader_id, error, endpoints)
        case Fetch(), wire.FetchResponse():
            return _fetch_value(me, sent, response, part)
        case FetchSnapshot(), wire.FetchSnapshotResponse():
            leader = part.current_leader
            return FetchSnapshotResponse(
                leader.leader_epoch,
                sent.correlation,
                leader.leader_id,
                OffsetAndEpoch(part.snapshot_id.end_offset, part.snapshot_id.epoch),
                part.position,
                sent.max_bytes,
                part.size,
                bytes(part.unaligned_records),
                error,
                _leader_endpoints(me, found, leader.leader_id),
            )
    raise TypeError(f"{type(response).__name__} is no response to {type(sent).__name__}")


def _with_endpoint(response: Any, message: _Named, listener: str, is_known: bool) -> Message:
    """Add the address of the leader that the message names, if the version of the response has one."""
    address = address_on(message.leader_endpoints, listener)
    if is_known and address is not None and message.leader_id >= 0:
        node = type(response).NodeEndpoint(node_id=message.leader_id, host=address.host, port=address.port)
        response.node_endpoints = [node]
    found: Message = response
    return found


def _leader_endpoints(me: Identity, response: Any, leader_id: int) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(me.listener, node.host, node.port) for node in response.node_endpoints if node.node_id == leader_id
    )


def _fetch_response(message: FetchResponse, version: int, records: bytes) -> Message:
    part = wire.FetchResponse.PartitionData(
        partition_index=PARTITION,
        error_code=message.error,
        high_watermark=message.high_watermark,
        log_start_offset=message.log_start_offset,
        records=records,
    )
    if version >= 12:
        part.current_leader = wire.FetchResponse.LeaderIdAndEpoch(
            leader_id=message.leader_id, leader_epoch=message.epoch
        )
        if message.diverging is not None:
            part.diverging_epoch = wire.FetchResponse.EpochEndOffset(
                epoch=message.diverging.epoch, end_offset=message.diverging.offset
            )
        if message.snapshot_id is not None:
            part.snapshot_id = wire.FetchResponse.SnapshotId(
                end_offset=message.snapshot_id.offset, epoch=message.snapshot_id.epoch
            )
    topic = wire.FetchResponse.FetchableTopicResponse(topic=TOPIC, topic_id=uuids.METADATA_TOPIC_ID, partitions=[part])
    return wire.FetchResponse(responses=[topic])


def _fetch_value(me: Identity, sent: Fetch, response: wire.FetchResponse, part: Any) -> FetchResponse:
    diverging, snapshot_id, leader = part.diverging_epoch, part.snapshot_id, part.current_leader
    error = ErrorCode(part.error_code)
    return FetchResponse(
        leader.leader_epoch,
        sent.correlation,
        leader.leader_id,
        part.high_watermark,
        OffsetAndEpoch(diverging.end_offset, diverging.epoch) if diverging.epoch >= 0 else None,
        OffsetAndEpoch(snapshot_id.end_offset, snapshot_id.epoch) if snapshot_id.epoch >= 0 else None,
        sent.end.offset if error is ErrorCode.NONE else -1,
        batches_of(part.records or b""),
        error,
        _leader_endpoints(me, response, leader.leader_id),
        part.log_start_offset,
    )


def _snapshot_response(message: FetchSnapshotResponse) -> Message:
    part = wire.FetchSnapshotResponse.PartitionSnapshot(
        index=PARTITION,
        error_code=message.error,
        snapshot_id=wire.FetchSnapshotResponse.SnapshotId(
            end_offset=message.snapshot_id.offset, epoch=message.snapshot_id.epoch
        ),
        current_leader=wire.FetchSnapshotResponse.LeaderIdAndEpoch(
            leader_id=message.leader_id, leader_epoch=message.epoch
        ),
        size=max(message.size, 0),
        position=message.position,
        unaligned_records=message.content,
    )
    topic = wire.FetchSnapshotResponse.TopicSnapshot(name=TOPIC, partitions=[part])
    return wire.FetchSnapshotResponse(topics=[topic])
