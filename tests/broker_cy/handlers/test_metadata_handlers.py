"""Metadata, DescribeTopicPartitions, DescribeCluster and InitProducerId, seen by a client."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker_cy.core import uuid as uuids
from broker_cy.core.errors import ErrorCode
from broker_cy.handlers import (  # noqa: F401 - importing registers them
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_topic_partitions,
    init_producer_id,
    metadata,
)
from broker_cy.security.acls import ANONYMOUS
from broker_cy.security.authorizer import Authorizer
from broker_cy.storage import disk
from broker_cy.wire import messages
from tests.broker_cy.handlers.metadata_broker import MetadataBroker, create, errors, until, with_broker
from tests.support.images import topic_in


def topics_request(*names: str | UUID | None, auto: bool = False, **fields: Any) -> messages.MetadataRequest:
    wanted = []
    for name in names:
        if isinstance(name, UUID):
            wanted.append(messages.MetadataRequest.MetadataRequestTopic(topic_id=name, name=None))
        else:
            wanted.append(messages.MetadataRequest.MetadataRequestTopic(name=name))
    return messages.MetadataRequest(topics=wanted, allow_auto_topic_creation=auto, **fields)


@pytest.mark.parametrize("version", range(14))
def test_metadata_in_every_version(tmp_path: Path, version: int) -> None:
    """If this fails, a client that speaks this version would find no broker, no leader or no topic."""

    async def work(broker: MetadataBroker) -> None:
        made = await create(broker, "t", 3)
        response = await broker.call(topics_request("t", "none", auto=version < 4), version)
        (node,) = response.brokers
        assert (node.node_id, node.host, node.port) == (1, "host-a", 9092)
        assert errors(response) == {"t": "NONE", "none": "UNKNOWN_TOPIC_OR_PARTITION"}
        partitions = response.topics[0].partitions
        assert [(p.partition_index, p.leader_id, p.replica_nodes, p.isr_nodes) for p in partitions] == [
            (i, 1, [1], [1]) for i in range(3)
        ]
        if version >= 1:
            assert (node.rack, response.controller_id) == ("r1", 1)
        if version >= 2:
            assert response.cluster_id == broker.cluster_id
        if version >= 7:
            assert partitions[0].leader_epoch == 0
        if version >= 8:
            assert response.topics[0].topic_authorized_operations == -(2**31)
        if version >= 10:
            assert response.topics[0].topic_id == made.topic_id

    with_broker(tmp_path, work, {"auto.create.topics.enable": "false"})


def test_metadata_of_all_and_of_no_topics(tmp_path: Path) -> None:
    """Version 0 and later versions differ in the meaning of an empty list: clients would get everything, or nothing."""

    async def work(broker: MetadataBroker) -> None:
        await create(broker, "a")
        await create(broker, "__consumer_offsets")
        for version, request, names in [
            (0, messages.MetadataRequest(topics=[]), {"a", "__consumer_offsets"}),
            (1, messages.MetadataRequest(topics=[]), set()),
            (1, messages.MetadataRequest(topics=None), {"a", "__consumer_offsets"}),
            (13, messages.MetadataRequest(topics=None), {"a", "__consumer_offsets"}),
            (13, messages.MetadataRequest(topics=[]), set()),
        ]:
            response = await broker.call(request, version)
            assert {topic.name for topic in response.topics} == names
            if version:
                assert {t.name for t in response.topics if t.is_internal} == names & {"__consumer_offsets"}

    with_broker(tmp_path, work)


def test_metadata_has_the_address_of_the_listener(tmp_path: Path) -> None:
    """If this fails, an external client would be sent to an address that is only reachable internally."""

    async def work(broker: MetadataBroker) -> None:
        await create(broker, "t")
        response = await broker.call(topics_request("t"), 9, listener="OTHER")
        assert [(b.host, b.port) for b in response.brokers] == [("host-b", 9093)]
        for version, code in [(5, "LEADER_NOT_AVAILABLE"), (6, "LISTENER_NOT_FOUND")]:
            response = await broker.call(topics_request("t"), version, listener="NEITHER")
            (partition,) = response.topics[0].partitions
            assert (response.brokers, partition.leader_id) == ([], -1)
            assert ErrorCode(partition.error_code).name == code
            assert partition.offline_replicas == [1]

    with_broker(tmp_path, work)


def test_metadata_creates_topics(tmp_path: Path) -> None:
    """If this fails, a producer to a new topic would wait forever, or topics would be created although the client
    forbade it.
    """

    async def work(broker: MetadataBroker) -> None:
        async def there(name: str) -> Any:
            await until(lambda: broker.image.topics.by_name(name) is not None)
            response = await broker.call(topics_request(name, auto=True), 9)
            assert errors(response) == {name: "NONE"}
            return response.topics[0]

        response = await broker.call(topics_request("no"), 9)
        assert errors(response) == {"no": "UNKNOWN_TOPIC_OR_PARTITION"}
        response = await broker.call(topics_request("new", "bad/name", auto=True), 9)
        # As in Kafka, the response to the first request is that the topic does not exist yet.
        assert errors(response) == {
            "new": "UNKNOWN_TOPIC_OR_PARTITION",
            "bad/name": "INVALID_TOPIC_EXCEPTION",
        }
        assert [p.leader_id for p in (await there("new")).partitions] == [1, 1]
        # Versions before 4 have no field for it: then creation is allowed.
        await broker.call(topics_request("old", auto=True), 1)
        await there("old")
        before = broker.image.offset
        both = await asyncio.gather(*(broker.call(topics_request("twice", auto=True), 9) for _ in range(2)))
        assert [errors(response) for response in both] == [{"twice": "UNKNOWN_TOPIC_OR_PARTITION"}] * 2
        await there("twice")
        assert broker.image.offset == before + 3, "a topic and two partitions, once"
        await broker.call(topics_request("__consumer_offsets", auto=True), 9)
        assert len((await there("__consumer_offsets")).partitions) == 50
        assert broker.image.configs.topic("__consumer_offsets")["cleanup.policy"] == "compact"
        await broker.call(topics_request("__transaction_state", auto=True), 9)
        assert len((await there("__transaction_state")).partitions) == 50
        assert broker.image.configs.topic("__transaction_state") == {
            "unclean.leader.election.enable": "false",
            "compression.type": "uncompressed",
            "cleanup.policy": "compact",
            "min.insync.replicas": "1",
            "segment.bytes": "104857600",
        }
        await broker.call(topics_request("__share_group_state", auto=True), 9)
        assert len((await there("__share_group_state")).partitions) == 50
        assert broker.image.configs.topic("__share_group_state") == {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "segment.bytes": "104857600",
            "min.insync.replicas": "1",
            "retention.ms": "-1",
        }
        internal = {"__consumer_offsets", "__transaction_state", "__share_group_state"}
        assert {topic.name for topic in broker.image.topics} == {"new", "old", "twice", *internal}

    with_broker(tmp_path, work, {"num.partitions": "2"})


def test_metadata_does_not_create_where_the_broker_forbids_it(tmp_path: Path) -> None:
    """If this fails, auto.create.topics.enable=false would be ignored."""

    async def work(broker: MetadataBroker) -> None:
        response = await broker.call(topics_request("new", auto=True), 9)
        assert errors(response) == {"new": "UNKNOWN_TOPIC_OR_PARTITION"}
        assert len(broker.image.topics) == 0

    with_broker(tmp_path, work, {"auto.create.topics.enable": "false"})


def test_log_says_why_a_topic_is_not_created(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Clients get UNKNOWN_TOPIC_OR_PARTITION repeatedly; without the log line, the reason (a full disk, a name too
    similar to another one) is unknown.
    """

    def logged() -> list[dict[str, Any]]:
        return [record.fields for record in caplog.records if record.message == "could not create topics"]  # type: ignore[attr-defined]

    async def work(broker: MetadataBroker) -> None:
        disk.set_write_budget(0, 28)
        try:
            response = await broker.call(topics_request("new", auto=True), 9)
            assert errors(response) == {"new": "UNKNOWN_TOPIC_OR_PARTITION"}
            await until(lambda: len(logged()) == 1)
        finally:
            disk.set_write_budget(-1, 0)
        assert "KAFKA_STORAGE_ERROR" in logged()[0]["reason"]
        assert logged()[0]["topics"] == "new"
        # The next request tries again.
        await broker.call(topics_request("new", auto=True), 9)
        await until(lambda: broker.image.topics.by_name("new") is not None)
        await create(broker, "a.b")
        response = await broker.call(topics_request("a_b", auto=True), 9)
        assert errors(response) == {"a_b": "UNKNOWN_TOPIC_OR_PARTITION"}
        await until(lambda: len(logged()) == 2)
        assert "INVALID_TOPIC_EXCEPTION" in logged()[1]["reason"]

    with_broker(tmp_path, work)


def test_metadata_by_id(tmp_path: Path) -> None:
    """If this fails, consumers that follow topic ids (KIP-516) would lose an existing topic."""

    async def work(broker: MetadataBroker) -> None:
        made = await create(broker, "t")
        unknown = UUID(int=1 << 90)
        for version in (12, 13):
            response = await broker.call(topics_request(made.topic_id, unknown, made.topic_id), version)
            assert [(t.name, ErrorCode(t.error_code).name, t.topic_id) for t in response.topics] == [
                (None, "UNKNOWN_TOPIC_ID", unknown),
                ("t", "NONE", made.topic_id),
            ]
        for version in (10, 11):
            response = await broker.call(topics_request(made.topic_id), version)
            assert [ErrorCode(t.error_code).name for t in response.topics] == ["INVALID_REQUEST"]

    with_broker(tmp_path, work)


def test_metadata_has_operations_when_asked(tmp_path: Path) -> None:
    """If this fails, admin tools would show a client as allowed to do nothing."""

    async def work(broker: MetadataBroker) -> None:
        await create(broker, "t")
        plain = await broker.call(topics_request("t"), 8)
        asked = await broker.call(
            topics_request("t", include_topic_authorized_operations=True, include_cluster_authorized_operations=True),
            8,
        )
        assert asked.topics[0].topic_authorized_operations == 0b1101_1111_1000
        assert asked.cluster_authorized_operations == 0b1_1111_1010_0000
        again = await broker.call(topics_request("t"), 8)
        assert again == plain
        assert plain.topics[0].topic_authorized_operations == -(2**31)

    with_broker(tmp_path, work)


def test_metadata_follows_every_change(tmp_path: Path) -> None:
    """Responses are cached between changes: a client would not see a new partition, or see a deleted topic."""

    async def work(broker: MetadataBroker) -> None:
        first = await create(broker, "t")
        assert len((await broker.call(topics_request("t"), 9)).topics[0].partitions) == 1
        grown = messages.CreatePartitionsRequest(
            topics=[messages.CreatePartitionsRequest.CreatePartitionsTopic(name="t", count=3, assignments=None)]
        )
        response = await broker.call(grown, 3)
        assert [(r.name, r.error_code) for r in response.results] == [("t", 0)]
        assert len((await broker.call(topics_request("t"), 9)).topics[0].partitions) == 3
        await broker.call(messages.DeleteTopicsRequest(topic_names=["t"]), 5)
        assert errors(await broker.call(topics_request("t"), 9)) == {"t": "UNKNOWN_TOPIC_OR_PARTITION"}
        second = await create(broker, "t")
        response = await broker.call(topics_request("t"), 10)
        assert response.topics[0].topic_id == second.topic_id != first.topic_id

    with_broker(tmp_path, work)


def test_metadata_without_leader(tmp_path: Path) -> None:
    """If this fails, a client would send to a broker that is down."""

    async def work(broker: MetadataBroker) -> None:
        await create(broker, "t")
        await broker.controller._membership.leave()
        response = await broker.call(topics_request("t"), 9)
        (partition,) = response.topics[0].partitions
        assert (ErrorCode(partition.error_code).name, partition.leader_id) == ("LEADER_NOT_AVAILABLE", -1)
        assert ([each.node_id for each in response.brokers], response.controller_id) == ([1], -1)
        response = await broker.call(topics_request("t", auto=True), 0)
        assert response.topics[0].partitions[0].replica_nodes == []

    with_broker(tmp_path, work)


@pytest.mark.parametrize("version", range(6))
def test_init_producer_id(tmp_path: Path, version: int) -> None:
    """If this fails, two producers would get one id."""

    async def work(broker: MetadataBroker) -> None:
        request = messages.InitProducerIdRequest(transactional_id=None)
        first = await broker.call(request, version)
        second = await broker.call(request, version)
        assert [(r.error_code, r.producer_id, r.producer_epoch) for r in (first, second)] == [(0, 0, 0), (0, 1, 0)]
        if version >= 3:
            request = messages.InitProducerIdRequest(transactional_id=None, producer_id=1, producer_epoch=7)
            response = await broker.call(request, version)
            assert (response.error_code, response.producer_id, response.producer_epoch) == (0, 2, 0)
            request = messages.InitProducerIdRequest(transactional_id=None, producer_id=1)
            response = await broker.call(request, version)
            assert ErrorCode(response.error_code) is ErrorCode.INVALID_REQUEST

    with_broker(tmp_path, work)


def test_a_refused_producer_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, a producer that has no right to any topic ends, and neither the log nor an event says why."""

    async def work(broker: MetadataBroker) -> None:
        request = messages.InitProducerIdRequest(transactional_id=None)
        with caplog.at_level(logging.INFO):
            caplog.clear()  # the start of the broker
            assert (await broker.call(request, 5)).error_code == ErrorCode.NONE
            assert not caplog.records
            response = await broker.call(request, 5, principal="User:guest")
        assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        (record,) = caplog.records
        fields = getattr(record, "fields")  # noqa: B009
        assert (fields["principal"], fields["api"]) == ("User:guest", "INIT_PRODUCER_ID")
        assert (fields["operation"], fields["resource"]) == ("IDEMPOTENT_WRITE", "CLUSTER:kafka-cluster")

    with_broker(tmp_path, work, authorizer=Authorizer([ANONYMOUS]))


def test_a_broker_shows_itself_before_any_broker_is_in_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, librdkafka forgets the only address that it has, and its transaction hangs, if it asks a single
    node that has just been started again.
    """

    async def work(broker: MetadataBroker) -> None:
        await create(broker, "t")
        image = broker.image.copy()
        image.brokers[1] = image.brokers[1]._replace(fenced=True)
        monkeypatch.setattr(MetadataBroker, "image", image)
        response = await broker.call(topics_request("t"), 12)
        assert [each.node_id for each in response.brokers] == [1]
        assert response.controller_id == -1
        assert response.topics[0].partitions[0].leader_id == -1

    with_broker(tmp_path, work)


@pytest.mark.parametrize("version", range(3))
def test_describe_cluster(tmp_path: Path, version: int) -> None:
    """If this fails, admin tools would show no cluster, or another address than that of their listener."""

    async def work(broker: MetadataBroker) -> None:
        response = await broker.call(messages.DescribeClusterRequest(), version, listener="OTHER")
        assert (response.error_code, response.cluster_id, response.controller_id) == (0, broker.cluster_id, 1)
        assert [(b.broker_id, b.host, b.port, b.rack) for b in response.brokers] == [(1, "host-b", 9093, "r1")]
        assert response.cluster_authorized_operations == -(2**31)
        request = messages.DescribeClusterRequest(include_cluster_authorized_operations=True)
        response = await broker.call(request, version)
        assert response.cluster_authorized_operations == 0b1_1111_1010_0000
        if version >= 1:
            for endpoint_type, code in [(2, "MISMATCHED_ENDPOINT_TYPE"), (9, "UNSUPPORTED_ENDPOINT_TYPE")]:
                request = messages.DescribeClusterRequest(endpoint_type=endpoint_type)
                response = await broker.call(request, version)
                assert ErrorCode(response.error_code).name == code
        await broker.controller._membership.leave()
        response = await broker.call(messages.DescribeClusterRequest(), version)
        assert (response.brokers, response.controller_id) == ([], -1)
        if version >= 2:
            response = await broker.call(messages.DescribeClusterRequest(include_fenced_brokers=True), version)
            assert [(b.broker_id, b.is_fenced) for b in response.brokers] == [(1, True)]

    with_broker(tmp_path, work)


def pages_request(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    kind = messages.DescribeTopicPartitionsRequest
    return kind(
        topics=[kind.TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else kind.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


def pages(response: Any) -> tuple[dict[str, list[int]], tuple[str, int] | None]:
    cursor = response.next_cursor
    return (
        {topic.name: [p.partition_index for p in topic.partitions] for topic in response.topics},
        None if cursor is None else (cursor.topic_name, cursor.partition_index),
    )


def test_describe_topic_partitions(tmp_path: Path) -> None:
    """If this fails, an admin client that pages through topics would miss partitions or never end."""

    async def work(broker: MetadataBroker) -> None:
        for name, count in [("b", 3), ("a", 2), ("c", 1)]:
            await create(broker, name, count)
        response = await broker.call(pages_request(), 0)
        assert pages(response) == ({"a": [0, 1], "b": [0, 1, 2], "c": [0]}, None)
        topic = response.topics[0]
        assert (topic.topic_id, topic.is_internal) == (topic_in(broker.image, "a").topic_id, False)
        assert topic.topic_authorized_operations == 0b1101_1111_1000
        partition = topic.partitions[0]
        assert (partition.leader_id, partition.leader_epoch, partition.replica_nodes) == (1, 0, [1])
        assert (partition.isr_nodes, partition.eligible_leader_replicas, partition.offline_replicas) == ([1], [], [])

        assert pages(await broker.call(pages_request(limit=2), 0)) == ({"a": [0, 1]}, ("b", 0))
        assert pages(await broker.call(pages_request(limit=4, cursor=("b", 1)), 0)) == ({"b": [1, 2], "c": [0]}, None)
        assert pages(await broker.call(pages_request(limit=1, cursor=("b", 1)), 0)) == ({"b": [1]}, ("b", 2))
        assert pages(await broker.call(pages_request(limit=0), 0)) == ({"a": [0]}, ("a", 1))
        assert pages(await broker.call(pages_request("c", "b", limit=9, cursor=("c", 0)), 0)) == ({"c": [0]}, None)
        response = await broker.call(pages_request("none", "a", "x/y"), 0)
        assert errors(response) == {
            "a": "NONE",
            "none": "UNKNOWN_TOPIC_OR_PARTITION",
            "x/y": "INVALID_TOPIC_EXCEPTION",
        }

    with_broker(tmp_path, work)


def test_describe_topic_partitions_bounds(tmp_path: Path) -> None:
    """If this fails, one request could make the broker build a response of any size."""

    async def work(broker: MetadataBroker) -> None:
        await create(broker, "a", 9)
        assert pages(await broker.call(pages_request(), 0)) == ({"a": [0, 1, 2, 3]}, ("a", 4))
        for request in (pages_request("a", cursor=("b", 0)), pages_request("a", cursor=("a", -1))):
            assert errors(await broker.call(request, 0)) == {"a": "INVALID_REQUEST"}
        assert pages(await broker.call(pages_request("a", cursor=("a", 99)), 0)) == ({"a": []}, None)

    with_broker(tmp_path, work, {"max.request.partition.size.limit": "4"})


def test_zero_uuid_is_no_topic(tmp_path: Path) -> None:
    """The id that means no id would be looked up. Kafka fails on a topic with neither name nor id."""

    async def work(broker: MetadataBroker) -> None:
        response = await broker.call(topics_request(uuids.ZERO), 12)
        assert errors(response) == {"": "UNKNOWN_SERVER_ERROR"}

    with_broker(tmp_path, work)
