"""A broker with ACLs, the client that prepares it, and a guest without most ACLs, for test_denied_answers.

Brokers and clients are all anonymous, so that ACLs are by host: the broker itself, and the client that prepares
everything, connect from 127.0.0.1 and have every permission; the client under test connects from 127.0.0.3.
"""

from __future__ import annotations

import uuid
from typing import Any

from broker_cy.core.errors import ErrorCode
from broker_cy.security.acls import Operation, PatternType, Permission, ResourceType
from broker_cy.wire import messages as m
from tests.compat.differential.client import Client
from tests.compat.differential.plain import Names
from tests.support.broker import QUICK, Target
from tests.support.raw_wire import RawBatch, RawRecord
from tests.support.wait import until

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SETTINGS = {
    **QUICK,
    "authorizer.class.name": STANDARD,
    # Until the ACLs are created, any client can create them.
    "allow.everyone.if.no.acl.found": "true",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "auto.create.topics.enable": "true",
    # Batches have timestamps of years ago.
    "log.retention.ms": "-1",
}
TRUSTED, GUEST = "127.0.0.1", "127.0.0.3"
# Topics, groups and transactional ids: one on which the guest has the permission in question, and others without it.
OPEN, SEEN, SHUT, NONE = "open", "seen", "shut", "none"
UNKNOWN_ID = uuid.UUID("5f8f1f0e-6f1d-4a6e-9d0b-0c1e5a9b7d11")
NOBODY = -1
ZERO = uuid.UUID(int=0)
EACH = (OPEN, SEEN, SHUT, NONE)


def acl(
    resource: ResourceType,
    name: str,
    operation: Operation,
    host: str,
    permission: Permission = Permission.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
) -> Any:
    return m.CreateAclsRequest.AclCreation(
        resource_type=resource,
        resource_name=name,
        resource_pattern_type=pattern,
        principal="User:*",
        host=host,
        operation=operation,
        permission_type=permission,
    )


TYPES = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)


def base_acls() -> list[Any]:
    """The trusted host has every permission; the guest has ALL on the prefix OPEN and DESCRIBE on SEEN."""
    found = [acl(kind, "*", Operation.ALL, TRUSTED) for kind in TYPES]
    found.append(acl(ResourceType.CLUSTER, "kafka-cluster", Operation.ALL, TRUSTED))
    for kind in TYPES:
        found.append(acl(kind, OPEN, Operation.ALL, GUEST, pattern=PatternType.PREFIXED))
        found.append(acl(kind, SEEN, Operation.DESCRIBE, GUEST))
    return found


def batch(transactional: bool = False) -> bytes:
    fields: dict[str, Any] = {"attributes": 0x10, "producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    return RawBatch(
        records=[RawRecord(value=b"v")], base_timestamp=1_700_000_000_000, **(fields if transactional else {})
    ).encode()


class World:
    """One broker with its topics and ACLs, and the guest."""

    def __init__(self, target: Target) -> None:
        self.target = target
        address = (target.host, target.port)
        self.trusted, self.guest = Client(address, TRUSTED), Client(address, GUEST)
        self.names = Names()
        self.ids: dict[str, uuid.UUID] = {}

    def prepare(self) -> None:
        topic = m.CreateTopicsRequest.CreatableTopic
        made = self.trusted.ask(
            m.CreateTopicsRequest(
                topics=[topic(name=each, num_partitions=1, replication_factor=1) for each in (OPEN, SEEN, SHUT)]
            ),
            7,
        )
        for each in made.topics:
            assert each.error_code == 0
            self.ids[each.name] = each.topic_id
            self.names.give(f"id of {each.name}", each.topic_id)
        self.names.give("unknown id", UNKNOWN_ID)
        for kind in (0, 1):
            until(lambda kind=kind: self._coordinated(kind), "coordinators")  # type: ignore[misc]
        for group in (OPEN, SEEN, SHUT):
            topics = m.OffsetCommitRequest.OffsetCommitRequestTopic
            parts = m.OffsetCommitRequest.OffsetCommitRequestPartition
            asked = m.OffsetCommitRequest(
                group_id=group,
                topics=[
                    topics(name=name, partitions=[parts(partition_index=0, committed_offset=0)])
                    for name in (OPEN, SEEN, SHUT)
                ],
            )

            def committed(asked: Any = asked) -> bool:
                answer = self.trusted.ask(asked, 5)
                return not any(each.error_code for topic in answer.topics for each in topic.partitions)

            until(committed, "committed offsets")
            init = m.InitProducerIdRequest(transactional_id=group, transaction_timeout_ms=60_000)
            until(lambda init=init: self.trusted.ask(init, 3).error_code == 0, "producer ids")  # type: ignore[misc]
        for name in (OPEN, SHUT):
            request = produce_request([name], 9, self)
            until(lambda request=request: not self._produced(request), "a leader")  # type: ignore[misc]
        created = self.trusted.ask(m.CreateAclsRequest(creations=base_acls()), 3)
        assert not any(each.error_code for each in created.results), created
        # The broker applies the ACLs a moment later.
        shut = m.ListOffsetsRequest(replica_id=-1, topics=[list_offsets_topic(SHUT)])
        until(
            lambda: self.guest.ask(shut, 5).topics[0].partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "the ACLs",
        )

    def level(self, feature: str) -> int:
        """The finalized level of a feature."""
        request = m.ApiVersionsRequest(client_software_name="tests", client_software_version="1")
        features = self.trusted.ask(request, 3).finalized_features
        return next((each.max_version_level for each in features if each.name == feature), 0)

    def _coordinated(self, kind: int) -> bool:
        asked = m.FindCoordinatorRequest(key_type=kind, coordinator_keys=["x"])
        return bool(self.trusted.ask(asked, 4).coordinators[0].error_code == 0)

    def _produced(self, request: Any) -> int:
        return int(self.trusted.ask(request, 9).responses[0].partition_responses[0].error_code)

    def id_of(self, name: str) -> uuid.UUID:
        return self.ids.get(name, UNKNOWN_ID)

    def close(self) -> None:
        self.trusted.close()
        self.guest.close()


def produce_request(
    names: list[str],
    v: int,
    w: World,
    *,
    transactional: bool = False,
    transactional_id: str | None = None,
    acks: int = -1,
) -> Any:
    request = m.ProduceRequest
    return request(
        acks=acks,
        timeout_ms=10_000,
        transactional_id=transactional_id,
        topic_data=[
            request.TopicProduceData(
                name=name,
                topic_id=w.id_of(name) if v >= 13 else ZERO,
                partition_data=[request.PartitionProduceData(index=0, records=batch(transactional))],
            )
            for name in names
        ],
    )


def list_offsets_topic(name: str) -> Any:
    part = m.ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-2)
    return m.ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=[part])
