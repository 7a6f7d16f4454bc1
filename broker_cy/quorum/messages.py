"""The messages between the nodes of the metadata quorum (KIP-595, KIP-630, KIP-853), in Kafka's classes: Vote,
BeginQuorumEpoch, EndQuorumEpoch, Fetch, FetchSnapshot, UpdateRaftVoter, AddRaftVoter and RemoveRaftVoter about
`__cluster_metadata-0`. Pure functions that make them and read their common parts.

The state machine takes and returns messages with the fields of all versions. `wire` checks those of other nodes before
that, and completes those of this node for the version of a connection.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from broker_cy.core import uuid as uuids
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.quorum.entries import OffsetAndEpoch
from broker_cy.quorum.voters import Endpoint, ReplicaKey, Voter
from broker_cy.wire import messages as wire
from broker_cy.wire.codec import Message

R = TypeVar("R", bound=Message)

TOPIC: Final = "__cluster_metadata"
PARTITION: Final = 0
JOIN_MS: Final = 2000
"""How long the leader may take to add a voter that asks for it: Kafka's controller.quorum.request.timeout.ms."""
FETCH_BYTES_MAX: Final = 8 << 20
"""The size that a fetch of the log or of a snapshot asks for, as in Kafka, and the most that a leader sends, except for
a single batch that is larger.
"""


# --- parts

# The attributes with the name of the topic and the index of the partition, for messages with other names.
_PLACES: Final = {
    "FetchRequest": ("topic", "partition"),
    "FetchResponse": ("topic", "partition_index"),
    "FetchSnapshotRequest": ("name", "partition"),
    "FetchSnapshotResponse": ("name", "index"),
}


def part_of(message: Any) -> Any:
    """The part of a message about the metadata log, None unless the message has this one part."""
    topics = message.responses if isinstance(message, wire.FetchResponse) else message.topics
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    topic, part = topics[0], topics[0].partitions[0]
    name, index = _PLACES.get(type(message).__name__, ("topic_name", "partition_index"))
    # Fetch has the id instead of the name from version 13 on.
    is_metadata = getattr(topic, name) == TOPIC or getattr(topic, "topic_id", None) == uuids.METADATA_TOPIC_ID
    return part if is_metadata and getattr(part, index) == PARTITION else None


def endpoints_of(listeners: list[Any]) -> tuple[Endpoint, ...]:
    """The endpoints in a list of structures with name, host and port, without a second one of the same name."""
    return tuple({one.name: Endpoint(one.name, one.host, one.port) for one in reversed(listeners)}.values())[::-1]


def listeners_of(cls: type[Any], endpoints: tuple[Endpoint, ...]) -> list[Any]:
    """The reverse, with structures of class `cls`."""
    return [cls(name=name, host=host, port=port) for name, host, port in endpoints]


def address_on(endpoints: tuple[Endpoint, ...], listener: str) -> Endpoint | None:
    return next((one for one in endpoints if one.name == listener), None)


def receiver_of(voter_id: int, directory_id: Any) -> ReplicaKey | None:
    """The voter that a request is meant for; None if the request does not name one."""
    return ReplicaKey(voter_id, directory_id) if voter_id >= 0 else None


def successors_of(request: wire.EndQuorumEpochRequest) -> tuple[ReplicaKey, ...]:
    """The voters in the order in which they stand. Version 0 does not have their directory ids."""
    part = request.topics[0].partitions[0]
    keys = tuple(ReplicaKey(one.candidate_id, one.candidate_directory_id) for one in part.preferred_candidates)
    return keys or tuple(map(ReplicaKey, part.preferred_successors))


def voter_of(request: wire.UpdateRaftVoterRequest | wire.AddRaftVoterRequest) -> Voter:
    """The voter in a request. An AddRaftVoter does not have its range of kraft.version."""
    voter = Voter(ReplicaKey(request.voter_id, request.voter_directory_id), endpoints_of(request.listeners))
    if isinstance(request, wire.AddRaftVoterRequest):
        return voter
    versions = request.kraft_version_feature
    return voter._replace(
        min_kraft_version=versions.min_supported_version, max_kraft_version=versions.max_supported_version
    )


def leader_of(response: Any, listener: str) -> tuple[int, int, tuple[Endpoint, ...]]:
    """The epoch of the responding node, the leader that it names (NO_LEADER without one), and the leader's address.
    `listener` is the name of the listener to which the request was sent. Raises KafkaError for an UpdateRaftVoter
    response without the epoch.
    """
    if isinstance(response, wire.UpdateRaftVoterResponse):
        leader = response.current_leader
        if leader.leader_epoch < 0:
            raise KafkaError(ErrorCode(response.error_code), "the response to UpdateRaftVoter names no epoch")
        address = (Endpoint(listener, leader.host, leader.port),) if leader.host else ()
        return leader.leader_epoch, leader.leader_id, address
    found = part_of(response)
    part = found.current_leader if isinstance(response, (wire.FetchResponse, wire.FetchSnapshotResponse)) else found
    nodes = response.node_endpoints
    addresses = tuple(Endpoint(listener, one.host, one.port) for one in nodes if one.node_id == part.leader_id)
    return part.leader_epoch, part.leader_id, addresses


# --- requests


def vote_request(
    me: ReplicaKey, epoch: int, last: OffsetAndEpoch, pre_vote: bool, voter: ReplicaKey | None = None
) -> wire.VoteRequest:
    """A candidate whose log ends at `last` asks `voter`. A pre-vote asks whether the receiver would vote for the sender
    in the next epoch, and binds no node.
    """
    receiver = voter or ReplicaKey(-1)
    part = wire.VoteRequest.PartitionData(
        replica_epoch=epoch,
        replica_id=me.id,
        replica_directory_id=me.directory_id,
        voter_directory_id=receiver.directory_id,
        last_offset_epoch=last.epoch,
        last_offset=last.offset,
        pre_vote=pre_vote,
    )
    topic = wire.VoteRequest.TopicData(topic_name=TOPIC, partitions=[part])
    return wire.VoteRequest(voter_id=receiver.id, topics=[topic])


def begin_request(
    leader_id: int, epoch: int, voter: ReplicaKey | None = None, endpoints: tuple[Endpoint, ...] = ()
) -> wire.BeginQuorumEpochRequest:
    """The sender leads the epoch, and is reached at `endpoints`."""
    receiver = voter or ReplicaKey(-1)
    part = wire.BeginQuorumEpochRequest.PartitionData(
        voter_directory_id=receiver.directory_id, leader_id=leader_id, leader_epoch=epoch
    )
    topic = wire.BeginQuorumEpochRequest.TopicData(topic_name=TOPIC, partitions=[part])
    listeners = listeners_of(wire.BeginQuorumEpochRequest.LeaderEndpoint, endpoints)
    return wire.BeginQuorumEpochRequest(voter_id=receiver.id, topics=[topic], leader_endpoints=listeners)


def end_request(
    leader_id: int, epoch: int, successors: tuple[ReplicaKey, ...], endpoints: tuple[Endpoint, ...] = ()
) -> wire.EndQuorumEpochRequest:
    """The sender leads the epoch no longer. `successors` are the voters with the longest logs first."""
    part = wire.EndQuorumEpochRequest.PartitionData(
        leader_id=leader_id,
        leader_epoch=epoch,
        preferred_successors=[key.id for key in successors],
        preferred_candidates=[
            wire.EndQuorumEpochRequest.ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id)
            for key in successors
        ],
    )
    topic = wire.EndQuorumEpochRequest.TopicData(topic_name=TOPIC, partitions=[part])
    listeners = listeners_of(wire.EndQuorumEpochRequest.LeaderEndpoint, endpoints)
    return wire.EndQuorumEpochRequest(topics=[topic], leader_endpoints=listeners)


def fetch_request(
    me: ReplicaKey, epoch: int, end: OffsetAndEpoch, high_watermark: int, max_wait_ms: int
) -> wire.FetchRequest:
    """Ask for the entries behind `end`, and state that everything before it is on this replica's disk."""
    part = wire.FetchRequest.FetchPartition(
        current_leader_epoch=epoch,
        fetch_offset=end.offset,
        last_fetched_epoch=end.epoch,
        partition_max_bytes=FETCH_BYTES_MAX,
        replica_directory_id=me.directory_id,
        high_watermark=high_watermark,
    )
    topic = wire.FetchRequest.FetchTopic(topic=TOPIC, topic_id=uuids.METADATA_TOPIC_ID, partitions=[part])
    return wire.FetchRequest(
        replica_state=wire.FetchRequest.ReplicaState(replica_id=me.id),
        max_wait_ms=max_wait_ms,
        max_bytes=FETCH_BYTES_MAX,
        topics=[topic],
    )


def snapshot_request(
    me: ReplicaKey, epoch: int, snapshot_id: OffsetAndEpoch, position: int
) -> wire.FetchSnapshotRequest:
    """Ask for the bytes of a snapshot from `position` on."""
    part = wire.FetchSnapshotRequest.PartitionSnapshot(
        current_leader_epoch=epoch,
        snapshot_id=wire.FetchSnapshotRequest.SnapshotId(end_offset=snapshot_id.offset, epoch=snapshot_id.epoch),
        position=position,
        replica_directory_id=me.directory_id,
    )
    topic = wire.FetchSnapshotRequest.TopicSnapshot(name=TOPIC, partitions=[part])
    return wire.FetchSnapshotRequest(replica_id=me.id, max_bytes=FETCH_BYTES_MAX, topics=[topic])


def update_request(epoch: int, voter: Voter) -> wire.UpdateRaftVoterRequest:
    """A voter reports its own endpoints and kraft versions to the leader of the epoch (KIP-853)."""
    return wire.UpdateRaftVoterRequest(
        current_leader_epoch=epoch,
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        listeners=listeners_of(wire.UpdateRaftVoterRequest.Listener, voter.endpoints),
        kraft_version_feature=wire.UpdateRaftVoterRequest.KRaftVersionFeature(
            min_supported_version=voter.min_kraft_version, max_supported_version=voter.max_kraft_version
        ),
    )


def add_request(voter: Voter) -> wire.AddRaftVoterRequest:
    """An observer asks the leader to make it a voter, which is answered when the record is written."""
    return wire.AddRaftVoterRequest(
        timeout_ms=JOIN_MS,
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        listeners=listeners_of(wire.AddRaftVoterRequest.Listener, voter.endpoints),
        ack_when_committed=False,
    )


def remove_request(key: ReplicaKey) -> wire.RemoveRaftVoterRequest:
    """A node asks the leader to remove the voter that it was with another disk."""
    return wire.RemoveRaftVoterRequest(voter_id=key.id, voter_directory_id=key.directory_id)


# --- responses
# The epoch is that of the responding node, which is the newer one if the request was outdated. `address` is that of the
# leader on the listener of the request, None if the responding node does not know it.


def vote_response(
    epoch: int, leader_id: int, granted: bool, error: ErrorCode = ErrorCode.NONE, address: Endpoint | None = None
) -> wire.VoteResponse:
    part = wire.VoteResponse.PartitionData(
        error_code=error, leader_id=leader_id, leader_epoch=epoch, vote_granted=granted
    )
    topic = wire.VoteResponse.TopicData(topic_name=TOPIC, partitions=[part])
    return _with_leader(wire.VoteResponse(topics=[topic]), leader_id, address)


def begin_response(
    epoch: int, leader_id: int, error: ErrorCode = ErrorCode.NONE, address: Endpoint | None = None
) -> wire.BeginQuorumEpochResponse:
    part = wire.BeginQuorumEpochResponse.PartitionData(error_code=error, leader_id=leader_id, leader_epoch=epoch)
    topic = wire.BeginQuorumEpochResponse.TopicData(topic_name=TOPIC, partitions=[part])
    return _with_leader(wire.BeginQuorumEpochResponse(topics=[topic]), leader_id, address)


def end_response(
    epoch: int, leader_id: int, error: ErrorCode = ErrorCode.NONE, address: Endpoint | None = None
) -> wire.EndQuorumEpochResponse:
    part = wire.EndQuorumEpochResponse.PartitionData(error_code=error, leader_id=leader_id, leader_epoch=epoch)
    topic = wire.EndQuorumEpochResponse.TopicData(topic_name=TOPIC, partitions=[part])
    return _with_leader(wire.EndQuorumEpochResponse(topics=[topic]), leader_id, address)


def fetch_response(
    epoch: int,
    leader_id: int,
    high_watermark: int = 0,
    error: ErrorCode = ErrorCode.NONE,
    address: Endpoint | None = None,
    *,
    log_start_offset: int = 0,
    diverging: OffsetAndEpoch | None = None,
    snapshot_id: OffsetAndEpoch | None = None,
) -> wire.FetchResponse:
    """`diverging` is the end of the newest epoch that both logs may share: the receiver truncates to it. `snapshot_id`
    names the snapshot that the receiver must fetch, because the log no longer has the entries that it needs.
    """
    part = wire.FetchResponse.PartitionData(
        error_code=error,
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
        current_leader=wire.FetchResponse.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch),
        records=b"",
    )
    if diverging is not None:
        part.diverging_epoch = wire.FetchResponse.EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.offset)
    if snapshot_id is not None:
        part.snapshot_id = wire.FetchResponse.SnapshotId(end_offset=snapshot_id.offset, epoch=snapshot_id.epoch)
    topic = wire.FetchResponse.FetchableTopicResponse(topic=TOPIC, topic_id=uuids.METADATA_TOPIC_ID, partitions=[part])
    return _with_leader(wire.FetchResponse(responses=[topic]), leader_id, address)


def snapshot_response(
    epoch: int,
    leader_id: int,
    snapshot_id: OffsetAndEpoch,
    position: int,
    error: ErrorCode = ErrorCode.NONE,
    address: Endpoint | None = None,
) -> wire.FetchSnapshotResponse:
    """Without the bytes, and the size of the whole snapshot: the sender of the response fills them in, or answers
    SNAPSHOT_NOT_FOUND or POSITION_OUT_OF_RANGE.
    """
    part = wire.FetchSnapshotResponse.PartitionSnapshot(
        error_code=error,
        snapshot_id=wire.FetchSnapshotResponse.SnapshotId(end_offset=snapshot_id.offset, epoch=snapshot_id.epoch),
        current_leader=wire.FetchSnapshotResponse.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch),
        position=position,
        unaligned_records=b"",
    )
    topic = wire.FetchSnapshotResponse.TopicSnapshot(name=TOPIC, partitions=[part])
    return _with_leader(wire.FetchSnapshotResponse(topics=[topic]), leader_id, address)


def update_response(
    epoch: int, leader_id: int, error: ErrorCode = ErrorCode.NONE, address: Endpoint | None = None
) -> wire.UpdateRaftVoterResponse:
    leader = wire.UpdateRaftVoterResponse.CurrentLeader(leader_id=leader_id, leader_epoch=epoch)
    if address is not None:
        leader.host, leader.port = address.host, address.port
    return wire.UpdateRaftVoterResponse(error_code=error, current_leader=leader)


def failed(request: Message, epoch: int, leader_id: int, error: ErrorCode) -> Message:
    """The response of a node that does not process the request."""
    match request:
        case wire.FetchRequest():
            return fetch_response(epoch, leader_id, error=error)
        case wire.VoteRequest():
            return vote_response(epoch, leader_id, granted=False, error=error)
        case wire.BeginQuorumEpochRequest():
            return begin_response(epoch, leader_id, error)
        case wire.EndQuorumEpochRequest():
            return end_response(epoch, leader_id, error)
        case wire.FetchSnapshotRequest():
            return snapshot_response(epoch, leader_id, OffsetAndEpoch(-1, -1), 0, error)
        case wire.UpdateRaftVoterRequest():
            return update_response(epoch, leader_id, error)
    raise TypeError(f"{type(request).__name__} is no request between nodes of the quorum")


def _with_leader(response: R, leader_id: int, address: Endpoint | None) -> R:
    """Add the address of the leader that the response names."""
    if address is not None and leader_id >= 0:
        found: Any = response
        found.node_endpoints = [found.NodeEndpoint(node_id=leader_id, host=address.host, port=address.port)]
    return response
