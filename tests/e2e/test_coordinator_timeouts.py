"""Coordinators with frozen followers answer in time, and keep the records; the same test runs on Apache Kafka."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest

from bench.launch.nodes import Node
from broker_cy.client.address import Address
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from tests.support import needs
from tests.support.cluster import ask, cluster, create_topic, in_sync
from tests.support.kafka_cluster import kafka_cluster
from tests.support.wait import until

TOPIC, GROUP, TRANSACTION = "committed", "readers", "payments"
SETTINGS = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "offsets.commit.timeout.ms": "500",
    # No session expires, and no follower leaves the in-sync set, during this test.
    "replica.lag.time.max.ms": "600000",
    "broker.session.timeout.ms": "600000",
}
TRANSACTION_MS = 1_000
WAIT_S = 60.0


@contextmanager
def ours(directory: Path) -> Iterator[list[Node]]:
    with cluster(directory, settings=SETTINGS) as nodes:
        yield list(nodes)


@contextmanager
def kafkas(directory: Path) -> Iterator[list[Node]]:
    with kafka_cluster(directory) as nodes:
        yield list(nodes)


def coordinator(nodes: list[Node], kind: int, key: str) -> Node | None:
    request = m.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
    (found,) = ask(Address(nodes[0].host, nodes[0].port), request, m.FindCoordinatorResponse).coordinators
    return nodes[found.node_id - 1] if found.error_code == ErrorCode.NONE else None


def commit(node: Node, offset: int) -> ErrorCode:
    part = m.OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    # The newest version names topics by their ids.
    topic = m.OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=[part])
    topic.topic_id = topic_id(node)
    request = m.OffsetCommitRequest(group_id=GROUP, topics=[topic])
    answer = ask(Address(node.host, node.port), request, m.OffsetCommitResponse)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def topic_id(node: Node) -> UUID:
    wanted = [m.MetadataRequest.MetadataRequestTopic(name=TOPIC)]
    found = ask(Address(node.host, node.port), m.MetadataRequest(topics=wanted), m.MetadataResponse)
    found_id: UUID = found.topics[0].topic_id
    return found_id


def init(node: Node) -> ErrorCode:
    request = m.InitProducerIdRequest(transactional_id=TRANSACTION, transaction_timeout_ms=TRANSACTION_MS)
    return ErrorCode(ask(Address(node.host, node.port), request, m.InitProducerIdResponse).error_code)


def is_ready(nodes: list[Node], topic: str) -> bool:
    return all(in_sync(Address(node.host, node.port), topic, 3) for node in nodes)


@contextmanager
def standing_still(nodes: list[Node], leader: Node) -> Iterator[None]:
    followers = [node.pid for node in nodes if node is not leader]
    for pid in followers:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in followers:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.full
@pytest.mark.parametrize("system", [ours, pytest.param(kafkas, marks=needs.kafka)])
def test_coordinators_answer_although_followers_stand_still(system: object, tmp_path: Path) -> None:
    """If this fails, commitSync or initTransactions hangs for as long as a follower does, whereas Kafka answers."""
    with system(tmp_path) as nodes:  # type: ignore[operator]
        address = Address(nodes[0].host, nodes[0].port)
        assert create_topic(address, TOPIC, replicas=3) is ErrorCode.NONE
        groups = until(lambda: coordinator(nodes, 0, GROUP), "a group coordinator", WAIT_S)
        until(lambda: commit(groups, 1) is ErrorCode.NONE, "a commit", WAIT_S)
        until(lambda: is_ready(nodes, "__consumer_offsets"), "replicas of the offsets in sync", WAIT_S)
        transactions = until(lambda: coordinator(nodes, 1, TRANSACTION), "a transaction coordinator", WAIT_S)
        until(lambda: init(transactions) is ErrorCode.NONE, "a producer id", WAIT_S)
        until(lambda: is_ready(nodes, "__transaction_state"), "replicas of the transactions in sync", WAIT_S)
        with standing_still(nodes, groups):
            assert commit(groups, 2) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        until(lambda: commit(groups, 3) is ErrorCode.NONE, "a commit with followers", WAIT_S)
        with standing_still(nodes, transactions):
            assert init(transactions) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        until(lambda: init(transactions) is ErrorCode.NONE, "a producer id with followers", WAIT_S)
