"""A cluster whose nodes get their permissions only from ACLs: no node is a super user. It has one controller: several
would have to be super users, as with Kafka, to elect a leader before they have read the ACLs.

All connections are anonymous, so that ACLs are by host: nodes connect from 127.0.0.1, the client from 127.0.0.2.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broker_cy.core.errors import ErrorCode
from broker_cy.security.acls import Operation, PatternType, Permission, ResourceType
from broker_cy.wire import messages
from tests.compat.differential.client import Client
from tests.support.cluster import ClusterNode, cluster
from tests.support.raw_wire import RawBatch, RawRecord
from tests.support.wait import until

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Only until the first ACL is created.
    "allow.everyone.if.no.acl.found": "true",
    "replica.lag.time.max.ms": "2000",
}
NODES, CLIENT = "127.0.0.1", "127.0.0.2"
DONE_S = 60.0


def acl(kind: ResourceType, name: str, operation: Operation, host: str) -> Any:
    return messages.CreateAclsRequest.AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=PatternType.LITERAL,
        principal="User:ANONYMOUS",
        host=host,
        operation=operation,
        permission_type=Permission.ALLOW,
    )


ACLS = [
    acl(ResourceType.CLUSTER, "kafka-cluster", Operation.CLUSTER_ACTION, NODES),
    *(acl(kind, "*", Operation.ALL, CLIENT) for kind in (ResourceType.TOPIC, ResourceType.GROUP)),
    acl(ResourceType.CLUSTER, "kafka-cluster", Operation.ALL, CLIENT),
]


def ask(node: ClusterNode, request: Any, version: int, host: str = CLIENT) -> Any:
    client = Client((node.host, node.port), host)
    try:
        return client.ask(request, version)
    finally:
        client.close()


def partition(nodes: list[ClusterNode]) -> Any:
    topic = messages.MetadataRequest.MetadataRequestTopic(name="t")
    found = ask(nodes[0], messages.MetadataRequest(topics=[topic]), 9).topics[0]
    return (
        found.partitions[0] if found.partitions else messages.MetadataResponse.MetadataResponsePartition(leader_id=-1)
    )


def leader(nodes: list[ClusterNode]) -> ClusterNode | None:
    number = partition(nodes).leader_id
    return nodes[number - 1] if number > 0 else None


def produced(nodes: list[ClusterNode], host: str = CLIENT) -> ErrorCode:
    """Produce a record that all three replicas have to store, and return the error."""
    node = leader(nodes)
    if node is None:
        return ErrorCode.LEADER_NOT_AVAILABLE
    request = messages.ProduceRequest
    data = request.PartitionProduceData(index=0, records=RawBatch(records=[RawRecord(value=b"v")]).encode())
    topics = [request.TopicProduceData(name="t", partition_data=[data])]
    answer = ask(node, request(acks=-1, timeout_ms=10_000, topic_data=topics), 9, host)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def test_nodes_need_cluster_action_alone(tmp_path: Path) -> None:
    """If this fails, a cluster with ACLs stops replicating, or a node cannot rejoin it; or every client has a node's
    permissions.
    """
    with cluster(tmp_path, ("broker,controller", "broker", "broker"), SETTINGS) as nodes:
        config = messages.CreateTopicsRequest.CreatableTopicConfig(name="min.insync.replicas", value="3")
        topic = messages.CreateTopicsRequest.CreatableTopic(
            name="t", num_partitions=1, replication_factor=3, configs=[config]
        )
        created = ask(nodes[0], messages.CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        assert created.topics[0].error_code == 0
        until(lambda: produced(nodes) is ErrorCode.NONE, "three replicas in sync", DONE_S)
        results = ask(nodes[0], messages.CreateAclsRequest(creations=ACLS), 3).results
        assert {result.error_code for result in results} == {0}
        until(lambda: produced(nodes, NODES) is ErrorCode.TOPIC_AUTHORIZATION_FAILED, "the ACLs", DONE_S)
        assert produced(nodes) is ErrorCode.NONE
        first = leader(nodes)
        follower = next(node for node in nodes[1:] if node is not first)
        follower.kill()
        # The leader can change the in-sync set, and add the follower again.
        until(lambda: len(partition(nodes).isr_nodes) == 2, "a smaller in-sync set", DONE_S)
        follower.restart()
        until(lambda: len(partition(nodes).isr_nodes) == 3, "the node to be back in sync", DONE_S)
        assert produced(nodes) is ErrorCode.NONE
