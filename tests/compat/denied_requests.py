"""Requests of a guest for test_denied_answers. The file is long because it is one table: requests for each API."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

from broker_cy.metadata.features import SHARE_VERSION, STREAMS_VERSION
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages as m
from broker_cy.wire.frame import ApiKey
from tests.compat.denied_world import (
    EACH,
    GUEST,
    NOBODY,
    NONE,
    OPEN,
    SEEN,
    SHUT,
    ZERO,
    World,
    acl,
    list_offsets_topic,
    produce_request,
)

# --- requests: name -> (api, request of a version), each for every version of the API

# A group in which the guest may do everything, and that does not exist.
SHARERS = f"{OPEN}-share"

Build = Callable[[int, World], Any]
REQUESTS: dict[str, tuple[ApiKey, Build]] = {}


def asks(api: ApiKey, *names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the function for the API; with `names`, once for each of them, as its first argument."""

    def register(build: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            REQUESTS[f"{build.__name__} {name}"] = (api, partial(build, name))
        if not names:
            REQUESTS[build.__name__] = (api, build)
        return build

    return register


@asks(ApiKey.PRODUCE, *EACH)
def produce(name: str, v: int, w: World) -> Any:
    return produce_request([name], v, w)


@asks(ApiKey.PRODUCE)
def produce_to_several(v: int, w: World) -> Any:
    return produce_request([SHUT, OPEN, NONE, SEEN], v, w)


@asks(ApiKey.PRODUCE, OPEN, SEEN, SHUT)
def produce_in_transaction(name: str, v: int, w: World) -> Any:
    """CVE-2018-17196: the ACL on the transactional id decides, whatever the request claims."""
    return produce_request([SHUT], v, w, transactional=True, transactional_id=name)


@asks(ApiKey.PRODUCE)
def produce_in_transaction_without_id(v: int, w: World) -> Any:
    return produce_request([OPEN, SHUT], v, w, transactional=True)


@asks(ApiKey.PRODUCE)
def produce_unacknowledged(v: int, w: World) -> Any:
    return produce_request([SHUT], v, w, acks=0)


@asks(ApiKey.FETCH, *EACH)
def fetch(name: str, v: int, w: World) -> Any:
    return _fetch([name], v, w)


@asks(ApiKey.FETCH)
def fetch_several(v: int, w: World) -> Any:
    return _fetch([SHUT, OPEN, NONE], v, w)


@asks(ApiKey.FETCH, OPEN, SHUT)
def fetch_as_a_follower(name: str, v: int, w: World) -> Any:
    """CVE-2018-1288: a client that sends a replica id needs a broker's permissions."""
    return _fetch([name], v, w, replica_id=1)


def _fetch(names: list[str], v: int, w: World, replica_id: int = NOBODY) -> Any:
    request = m.FetchRequest
    state = {"replica_state": request.ReplicaState(replica_id=replica_id)} if v >= 15 else {"replica_id": replica_id}
    part = request.FetchPartition(partition=0, fetch_offset=10**9, partition_max_bytes=1000)
    return request(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1000,
        session_epoch=-1,
        topics=[
            request.FetchTopic(topic=name, topic_id=w.id_of(name) if v >= 13 else ZERO, partitions=[part])
            for name in names
        ],
        **state,
    )


@asks(ApiKey.LIST_OFFSETS)
def list_offsets(v: int, w: World) -> Any:
    return m.ListOffsetsRequest(replica_id=-1, topics=[list_offsets_topic(name) for name in EACH])


@asks(ApiKey.METADATA)
def metadata_of_all(v: int, w: World) -> Any:
    return m.MetadataRequest(topics=[] if v == 0 else None, **_operations(v))


@asks(ApiKey.METADATA)
def metadata_by_name(v: int, w: World) -> Any:
    topics = [m.MetadataRequest.MetadataRequestTopic(name=name) for name in (*EACH, "__consumer_offsets")]
    return m.MetadataRequest(topics=topics, **_operations(v))


@asks(ApiKey.METADATA)
def metadata_by_id(v: int, w: World) -> Any:
    if v < 12:
        return None
    topic = m.MetadataRequest.MetadataRequestTopic
    return m.MetadataRequest(topics=[topic(name=None, topic_id=w.id_of(name)) for name in EACH], **_operations(v))


def _operations(v: int) -> dict[str, Any]:
    found: dict[str, Any] = {"allow_auto_topic_creation": True} if v >= 4 else {}
    if v >= 8:
        found["include_topic_authorized_operations"] = True
        if v <= 10:
            found["include_cluster_authorized_operations"] = True
    return found


@asks(ApiKey.OFFSET_COMMIT, *EACH)
def offset_commit(group: str, v: int, w: World) -> Any:
    request = m.OffsetCommitRequest
    part = request.OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
    return request(
        group_id=group,
        topics=[
            request.OffsetCommitRequestTopic(
                name=name if v < 10 else "", topic_id=w.id_of(name) if v >= 10 else ZERO, partitions=[part]
            )
            for name in EACH
        ],
    )


@asks(ApiKey.OFFSET_FETCH, *EACH)
def offset_fetch(group: str, v: int, w: World) -> Any:
    return _offset_fetch(group, v, w, list(EACH))


@asks(ApiKey.OFFSET_FETCH, OPEN, SHUT)
def offset_fetch_of_all(group: str, v: int, w: World) -> Any:
    return _offset_fetch(group, v, w, None) if v >= 2 else None


def _offset_fetch(group: str, v: int, w: World, names: list[str] | None) -> Any:
    request = m.OffsetFetchRequest
    if v < 8:
        old = [request.OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in names or ()]
        return request(group_id=group, topics=None if names is None else old)
    new = [
        request.OffsetFetchRequestTopics(
            name=name if v < 10 else "", topic_id=w.id_of(name) if v >= 10 else ZERO, partition_indexes=[0]
        )
        for name in names or ()
    ]
    return request(groups=[request.OffsetFetchRequestGroup(group_id=group, topics=None if names is None else new)])


@asks(ApiKey.FIND_COORDINATOR)
def find_coordinators(v: int, w: World) -> Any:
    if v < 4:
        return m.FindCoordinatorRequest(key=SHUT)
    return m.FindCoordinatorRequest(coordinator_keys=list(EACH))


@asks(ApiKey.FIND_COORDINATOR)
def find_transaction_coordinators(v: int, w: World) -> Any:
    if v < 1:
        return None
    if v < 4:
        return m.FindCoordinatorRequest(key=SHUT, key_type=1)
    return m.FindCoordinatorRequest(coordinator_keys=list(EACH), key_type=1)


@asks(ApiKey.FIND_COORDINATOR)
def find_share_coordinator(v: int, w: World) -> Any:
    key = f"g:{uuid.UUID(int=1)}:0"
    return m.FindCoordinatorRequest(coordinator_keys=[key], key_type=2) if v >= 6 else None


@asks(ApiKey.JOIN_GROUP, SEEN, SHUT)
def join_group(group: str, v: int, w: World) -> Any:
    protocol = m.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    return m.JoinGroupRequest(
        group_id=group, session_timeout_ms=10_000, protocol_type="consumer", protocols=[protocol], member_id="x"
    )


@asks(ApiKey.HEARTBEAT, SEEN, SHUT)
def heartbeat(group: str, v: int, w: World) -> Any:
    return m.HeartbeatRequest(group_id=group, generation_id=1, member_id="x")


@asks(ApiKey.LEAVE_GROUP, SEEN, SHUT)
def leave_group(group: str, v: int, w: World) -> Any:
    if v < 3:
        return m.LeaveGroupRequest(group_id=group, member_id="x")
    return m.LeaveGroupRequest(group_id=group, members=[m.LeaveGroupRequest.MemberIdentity(member_id="x")])


@asks(ApiKey.SYNC_GROUP, SEEN, SHUT)
def sync_group(group: str, v: int, w: World) -> Any:
    fields: dict[str, Any] = {"protocol_type": "consumer", "protocol_name": "range"} if v >= 5 else {}
    return m.SyncGroupRequest(group_id=group, generation_id=1, member_id="x", **fields)


@asks(ApiKey.DESCRIBE_GROUPS)
def describe_groups(v: int, w: World) -> Any:
    fields: dict[str, Any] = {"include_authorized_operations": True} if v >= 3 else {}
    return m.DescribeGroupsRequest(groups=[SHUT, OPEN, SEEN], **fields)


@asks(ApiKey.LIST_GROUPS)
def list_groups(v: int, w: World) -> Any:
    return m.ListGroupsRequest()


@asks(ApiKey.DELETE_GROUPS)
def delete_groups(v: int, w: World) -> Any:
    return m.DeleteGroupsRequest(groups_names=[SHUT, SEEN, NONE])


@asks(ApiKey.CREATE_TOPICS)
def create_topics(v: int, w: World) -> Any:
    request = m.CreateTopicsRequest
    names = (SHUT, SEEN, NONE, OPEN, "twice", "twice", "__cluster_metadata")
    return request(
        topics=[request.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names],
        validate_only=True,
    )


@asks(ApiKey.DELETE_TOPICS)
def delete_topics(v: int, w: World) -> Any:
    names = [SHUT, SEEN, NONE, "open-absent", "twice", "twice"]
    if v < 6:
        return m.DeleteTopicsRequest(topic_names=names, timeout_ms=10_000)
    topic = m.DeleteTopicsRequest.DeleteTopicState
    by_id = [topic(name=None, topic_id=w.id_of(name)) for name in (SHUT, SEEN, NONE)]
    return m.DeleteTopicsRequest(topics=[topic(name=name) for name in names] + by_id, timeout_ms=10_000)


@asks(ApiKey.CREATE_PARTITIONS)
def create_partitions(v: int, w: World) -> Any:
    topic = m.CreatePartitionsRequest.CreatePartitionsTopic
    names = (SHUT, SEEN, NONE, "open-absent", "twice", "twice")
    return m.CreatePartitionsRequest(topics=[topic(name=name, count=9) for name in names], timeout_ms=10_000)


@asks(ApiKey.DELETE_RECORDS)
def delete_records(v: int, w: World) -> Any:
    request = m.DeleteRecordsRequest
    part = request.DeleteRecordsPartition(partition_index=0, offset=0)
    return request(
        topics=[request.DeleteRecordsTopic(name=name, partitions=[part]) for name in EACH], timeout_ms=10_000
    )


@asks(ApiKey.INIT_PRODUCER_ID, SEEN, SHUT)
def init_producer_id(name: str, v: int, w: World) -> Any:
    return m.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)


@asks(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def offset_for_leader_epoch(v: int, w: World) -> Any:
    request = m.OffsetForLeaderEpochRequest
    part = request.OffsetForLeaderPartition(partition=0, leader_epoch=0)
    topics = [request.OffsetForLeaderTopic(topic=name, partitions=[part]) for name in EACH]
    return request(topics=topics)


@asks(ApiKey.ADD_PARTITIONS_TO_TXN, OPEN, SEEN)
def add_partitions_to_txn(name: str, v: int, w: World) -> Any:
    request = m.AddPartitionsToTxnRequest
    names = (OPEN, SEEN, SHUT, NONE, "__consumer_offsets")
    topics = [request.AddPartitionsToTxnTopic(name=each, partitions=[0]) for each in names]
    if v < 4:
        return request(v3_and_below_transactional_id=name, v3_and_below_topics=topics)
    return request(transactions=[request.AddPartitionsToTxnTransaction(transactional_id=name, topics=topics)])


@asks(ApiKey.ADD_OFFSETS_TO_TXN)
def add_offsets_to_txn(v: int, w: World) -> Any:
    return m.AddOffsetsToTxnRequest(transactional_id=SEEN, group_id=SHUT)


@asks(ApiKey.ADD_OFFSETS_TO_TXN)
def add_offsets_of_another_group(v: int, w: World) -> Any:
    return m.AddOffsetsToTxnRequest(transactional_id=OPEN, group_id=SEEN)


@asks(ApiKey.END_TXN)
def end_txn(v: int, w: World) -> Any:
    return m.EndTxnRequest(transactional_id=SEEN, producer_id=1, producer_epoch=0)


@asks(ApiKey.WRITE_TXN_MARKERS)
def write_txn_markers(v: int, w: World) -> Any:
    request = m.WriteTxnMarkersRequest
    topics = [request.WritableTxnMarkerTopic(name=OPEN, partition_indexes=[0])]
    return request(markers=[request.WritableTxnMarker(producer_id=7, topics=topics)])


@asks(ApiKey.TXN_OFFSET_COMMIT, OPEN, SEEN)
def txn_offset_commit(name: str, v: int, w: World) -> Any:
    return _txn_commit(name, SEEN, v)


@asks(ApiKey.TXN_OFFSET_COMMIT)
def txn_offset_commit_of_topics(v: int, w: World) -> Any:
    request = _txn_commit(OPEN, OPEN, v)
    request.topics = request.topics[1:]
    return request


def _txn_commit(name: str, group: str, v: int) -> Any:
    request = m.TxnOffsetCommitRequest
    part = request.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=0)
    topics = [request.TxnOffsetCommitRequestTopic(name=each, partitions=[part]) for each in (OPEN, SEEN, SHUT, NONE)]
    return request(transactional_id=name, group_id=group, topics=topics)


@asks(ApiKey.DESCRIBE_ACLS)
def describe_acls(v: int, w: World) -> Any:
    return m.DescribeAclsRequest(
        resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1, resource_name_filter=None
    )


@asks(ApiKey.CREATE_ACLS)
def create_acls(v: int, w: World) -> Any:
    return m.CreateAclsRequest(creations=[acl(ResourceType.TOPIC, SHUT, Operation.ALL, GUEST)] * 2)


@asks(ApiKey.DELETE_ACLS)
def delete_acls(v: int, w: World) -> Any:
    one = m.DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1, resource_name_filter=None
    )
    return m.DeleteAclsRequest(filters=[one, one])


CONFIGS = ((2, SHUT), (2, OPEN), (2, NONE), (4, ""), (8, "1"), (16, "metrics"), (32, SHUT))


@asks(ApiKey.DESCRIBE_CONFIGS)
def describe_configs(v: int, w: World) -> Any:
    resource = m.DescribeConfigsRequest.DescribeConfigsResource
    return m.DescribeConfigsRequest(
        resources=[
            resource(resource_type=kind, resource_name=name, configuration_keys=["retention.ms"])
            for kind, name in CONFIGS
        ]
    )


@asks(ApiKey.ALTER_CONFIGS)
def alter_configs(v: int, w: World) -> Any:
    resource = m.AlterConfigsRequest.AlterConfigsResource
    return m.AlterConfigsRequest(
        resources=[resource(resource_type=kind, resource_name=name) for kind, name in CONFIGS if kind != 8],
        validate_only=True,
    )


@asks(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def incremental_alter_configs(v: int, w: World) -> Any:
    resource = m.IncrementalAlterConfigsRequest.AlterConfigsResource
    return m.IncrementalAlterConfigsRequest(
        resources=[resource(resource_type=kind, resource_name=name) for kind, name in CONFIGS], validate_only=True
    )


@asks(ApiKey.DESCRIBE_LOG_DIRS)
def describe_log_dirs(v: int, w: World) -> Any:
    return m.DescribeLogDirsRequest(topics=None)


@asks(ApiKey.ALTER_REPLICA_LOG_DIRS)
def alter_replica_log_dirs(v: int, w: World) -> Any:
    request = m.AlterReplicaLogDirsRequest
    topic = request.AlterReplicaLogDirTopic(name=OPEN, partitions=[0])
    return request(dirs=[request.AlterReplicaLogDir(path="/elsewhere", topics=[topic])])


@asks(ApiKey.ELECT_LEADERS)
def elect_leaders(v: int, w: World) -> Any:
    topic = m.ElectLeadersRequest.TopicPartitions(topic=OPEN, partitions=[0])
    return m.ElectLeadersRequest(topic_partitions=[topic], timeout_ms=10_000)


@asks(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
def alter_partition_reassignments(v: int, w: World) -> Any:
    request = m.AlterPartitionReassignmentsRequest
    part = request.ReassignablePartition(partition_index=0, replicas=[1])
    return request(topics=[request.ReassignableTopic(name=OPEN, partitions=[part])], timeout_ms=10_000)


@asks(ApiKey.LIST_PARTITION_REASSIGNMENTS)
def list_partition_reassignments(v: int, w: World) -> Any:
    request = m.ListPartitionReassignmentsRequest
    topics = [request.ListPartitionReassignmentsTopics(name=OPEN, partition_indexes=[0])]
    return request(topics=topics, timeout_ms=10_000)


@asks(ApiKey.OFFSET_DELETE, OPEN, SEEN)
def offset_delete(group: str, v: int, w: World) -> Any:
    request = m.OffsetDeleteRequest
    part = request.OffsetDeleteRequestPartition(partition_index=0)
    topics = [request.OffsetDeleteRequestTopic(name=name, partitions=[part]) for name in (SEEN, SHUT, NONE, "open-x")]
    return request(group_id=group, topics=topics)


@asks(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
def describe_user_scram_credentials(v: int, w: World) -> Any:
    request = m.DescribeUserScramCredentialsRequest
    return request(users=[request.UserName(name="a"), request.UserName(name="b")])


@asks(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
def alter_user_scram_credentials(v: int, w: World) -> Any:
    request = m.AlterUserScramCredentialsRequest
    return request(deletions=[request.ScramCredentialDeletion(name="a", mechanism=1)])


@asks(ApiKey.CREATE_DELEGATION_TOKEN)
def create_delegation_token(v: int, w: World) -> Any:
    return m.CreateDelegationTokenRequest()


@asks(ApiKey.RENEW_DELEGATION_TOKEN)
def renew_delegation_token(v: int, w: World) -> Any:
    return m.RenewDelegationTokenRequest(hmac=b"x")


@asks(ApiKey.EXPIRE_DELEGATION_TOKEN)
def expire_delegation_token(v: int, w: World) -> Any:
    return m.ExpireDelegationTokenRequest(hmac=b"x")


@asks(ApiKey.DESCRIBE_DELEGATION_TOKEN)
def describe_delegation_token(v: int, w: World) -> Any:
    return m.DescribeDelegationTokenRequest(owners=None)


@asks(ApiKey.DESCRIBE_CLIENT_QUOTAS)
def describe_client_quotas(v: int, w: World) -> Any:
    return m.DescribeClientQuotasRequest(components=[], strict=False)


@asks(ApiKey.ALTER_CLIENT_QUOTAS)
def alter_client_quotas(v: int, w: World) -> Any:
    request = m.AlterClientQuotasRequest
    part = request.EntityData(entity_type="user", entity_name="a")
    op = request.OpData(key="producer_byte_rate", value=1.0, remove=False)
    return request(entries=[request.EntryData(entity=[part], ops=[op])], validate_only=False)


@asks(ApiKey.DESCRIBE_QUORUM)
def describe_quorum(v: int, w: World) -> Any:
    request = m.DescribeQuorumRequest
    part = request.PartitionData(partition_index=0)
    return request(topics=[request.TopicData(topic_name="__cluster_metadata", partitions=[part])])


@asks(ApiKey.UPDATE_FEATURES)
def update_features(v: int, w: World) -> Any:
    request = m.UpdateFeaturesRequest
    update = request.FeatureUpdateKey(feature="group.version", max_version_level=1)
    return request(feature_updates=[update], timeout_ms=10_000)


@asks(ApiKey.DESCRIBE_CLUSTER)
def describe_cluster(v: int, w: World) -> Any:
    return m.DescribeClusterRequest(include_cluster_authorized_operations=True)


@asks(ApiKey.DESCRIBE_PRODUCERS)
def describe_producers(v: int, w: World) -> Any:
    topic = m.DescribeProducersRequest.TopicRequest
    names = (OPEN, SEEN, SHUT, NONE, "inv@lid")
    return m.DescribeProducersRequest(topics=[topic(name=name, partition_indexes=[0]) for name in names])


@asks(ApiKey.UNREGISTER_BROKER)
def unregister_broker(v: int, w: World) -> Any:
    return m.UnregisterBrokerRequest(broker_id=99)


@asks(ApiKey.DESCRIBE_TRANSACTIONS)
def describe_transactions(v: int, w: World) -> Any:
    return m.DescribeTransactionsRequest(transactional_ids=[SHUT, SEEN, NONE])


@asks(ApiKey.LIST_TRANSACTIONS)
def list_transactions(v: int, w: World) -> Any:
    return m.ListTransactionsRequest()


@asks(ApiKey.LIST_CONFIG_RESOURCES)
def list_config_resources(v: int, w: World) -> Any:
    return m.ListConfigResourcesRequest()


@asks(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
def describe_topic_partitions(v: int, w: World) -> Any:
    request = m.DescribeTopicPartitionsRequest
    return request(topics=[request.TopicRequest(name=name) for name in EACH])


@asks(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
def describe_all_topic_partitions(v: int, w: World) -> Any:
    return m.DescribeTopicPartitionsRequest()


@asks(ApiKey.ADD_RAFT_VOTER)
def add_raft_voter(v: int, w: World) -> Any:
    request = m.AddRaftVoterRequest
    return request(voter_id=9, listeners=[request.Listener(name="CONTROLLER", host="h", port=1)], timeout_ms=1_000)


@asks(ApiKey.REMOVE_RAFT_VOTER)
def remove_raft_voter(v: int, w: World) -> Any:
    return m.RemoveRaftVoterRequest(voter_id=9)


@asks(ApiKey.CONSUMER_GROUP_HEARTBEAT, SEEN, SHUT)
def consumer_group_heartbeat(group: str, v: int, w: World) -> Any:
    """The guest may not see one of the topics to which the member subscribes."""
    return m.ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=[OPEN, SHUT],
        topic_partitions=[],
    )


@asks(ApiKey.CONSUMER_GROUP_DESCRIBE)
def consumer_group_describe(v: int, w: World) -> Any:
    return m.ConsumerGroupDescribeRequest(group_ids=[SHUT, NONE], include_authorized_operations=True)


@asks(ApiKey.STREAMS_GROUP_HEARTBEAT, SEEN, SHUT)
def streams_group_heartbeat(group: str, v: int, w: World) -> Any:
    """The guest may not see one of the topics of the topology."""
    if w.level(STREAMS_VERSION) == 0:
        return None
    request = m.StreamsGroupHeartbeatRequest
    part = request.Subtopology(subtopology_id="0", source_topics=[OPEN, SHUT])
    return request(
        group_id=group,
        member_id="m",
        rebalance_timeout_ms=1_000,
        topology=request.Topology(subtopologies=[part]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )


@asks(ApiKey.STREAMS_GROUP_DESCRIBE)
def streams_group_describe(v: int, w: World) -> Any:
    if w.level(STREAMS_VERSION) == 0:
        return None
    return m.StreamsGroupDescribeRequest(group_ids=[SHUT, NONE], include_authorized_operations=True)


@asks(ApiKey.SHARE_GROUP_HEARTBEAT, SHARERS, SHUT)
def share_group_heartbeat(group: str, v: int, w: World) -> Any:
    """The guest may not see one of the topics to which the member subscribes."""
    if w.level(SHARE_VERSION) == 0:
        return None
    return m.ShareGroupHeartbeatRequest(
        group_id=group, member_id="m", member_epoch=0, subscribed_topic_names=[OPEN, SHUT]
    )


@asks(ApiKey.SHARE_GROUP_DESCRIBE)
def share_group_describe(v: int, w: World) -> Any:
    if w.level(SHARE_VERSION) == 0:
        return None
    return m.ShareGroupDescribeRequest(group_ids=[SHUT, NONE], include_authorized_operations=True)


@asks(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, SHARERS, SHUT)
def describe_share_group_offsets(group: str, v: int, w: World) -> Any:
    if w.level(SHARE_VERSION) == 0:
        return None
    request = m.DescribeShareGroupOffsetsRequest
    topics = [request.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=[0]) for name in (NONE, SHUT)]
    return request(groups=[request.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=topics)])


@asks(ApiKey.ALTER_SHARE_GROUP_OFFSETS, SHARERS, SHUT)
def alter_share_group_offsets(group: str, v: int, w: World) -> Any:
    if w.level(SHARE_VERSION) == 0:
        return None
    request = m.AlterShareGroupOffsetsRequest
    partition = request.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)
    topics = [
        request.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=[partition])
        for name in (SEEN, SHUT, NONE)
    ]
    return request(group_id=group, topics=topics)


@asks(ApiKey.DELETE_SHARE_GROUP_OFFSETS, SHARERS, SHUT)
def delete_share_group_offsets(group: str, v: int, w: World) -> Any:
    if w.level(SHARE_VERSION) == 0:
        return None
    request = m.DeleteShareGroupOffsetsRequest
    topics = [request.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in (OPEN, SHUT)]
    return request(group_id=group, topics=topics)


@asks(ApiKey.INITIALIZE_SHARE_GROUP_STATE)
def initialize_share_group_state(v: int, w: World) -> Any:
    request = m.InitializeShareGroupStateRequest
    partition = request.PartitionData(partition=0, state_epoch=1, start_offset=0)
    return request(group_id=OPEN, topics=[request.InitializeStateData(topic_id=w.id_of(OPEN), partitions=[partition])])


@asks(ApiKey.READ_SHARE_GROUP_STATE)
def read_share_group_state(v: int, w: World) -> Any:
    request = m.ReadShareGroupStateRequest
    partition = request.PartitionData(partition=0, leader_epoch=0)
    return request(group_id=OPEN, topics=[request.ReadStateData(topic_id=w.id_of(OPEN), partitions=[partition])])


@asks(ApiKey.SHARE_FETCH, OPEN, SEEN, SHUT)
def share_fetch(group: str, v: int, w: World) -> Any:
    """Opens a session that has a topic which the guest may not read. Without bytes, the answer does not wait."""
    if w.level(SHARE_VERSION) == 0:
        return None
    request = m.ShareFetchRequest
    return request(
        group_id=group,
        member_id="m",
        share_session_epoch=0,
        max_bytes=0,
        topics=[
            request.FetchTopic(topic_id=w.id_of(name), partitions=[request.FetchPartition(partition_index=0)])
            for name in (OPEN, SEEN, SHUT)
        ],
    )


@asks(ApiKey.SHARE_ACKNOWLEDGE, OPEN, SEEN, SHUT)
def share_acknowledge(group: str, v: int, w: World) -> Any:
    """In the session that `share_fetch` has opened: each version is one request."""
    if w.level(SHARE_VERSION) == 0:
        return None
    request = m.ShareAcknowledgeRequest
    batch = request.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])
    part = request.AcknowledgePartition(partition_index=0, acknowledgement_batches=[batch])
    return request(
        group_id=group,
        member_id="m",
        share_session_epoch=v,
        topics=[request.AcknowledgeTopic(topic_id=w.id_of(name), partitions=[part]) for name in (OPEN, SEEN, SHUT)],
    )


@asks(ApiKey.WRITE_SHARE_GROUP_STATE)
def write_share_group_state(v: int, w: World) -> Any:
    request = m.WriteShareGroupStateRequest
    partition = request.PartitionData(partition=0, state_epoch=1, leader_epoch=0, start_offset=0, state_batches=[])
    return request(group_id=OPEN, topics=[request.WriteStateData(topic_id=w.id_of(OPEN), partitions=[partition])])


@asks(ApiKey.DELETE_SHARE_GROUP_STATE)
def delete_share_group_state(v: int, w: World) -> Any:
    request = m.DeleteShareGroupStateRequest
    partition = request.PartitionData(partition=0)
    return request(group_id=OPEN, topics=[request.DeleteStateData(topic_id=w.id_of(OPEN), partitions=[partition])])


@asks(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY)
def read_share_group_state_summary(v: int, w: World) -> Any:
    request = m.ReadShareGroupStateSummaryRequest
    partition = request.PartitionData(partition=0, leader_epoch=0)
    return request(group_id=OPEN, topics=[request.ReadStateSummaryData(topic_id=w.id_of(OPEN), partitions=[partition])])
