"""DeleteRecords in a cluster: its response covers all replicas that consumers can read, in broker-cy as in Kafka."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from tests.support import needs
from tests.support.acked import fetch
from tests.support.cluster import ClusterNode, ask, cluster, create_topic, in_sync, topics
from tests.support.kafka_cluster import kafka_cluster
from tests.support.kafka_peer import KafkaPeer
from tests.support.raw_wire import METADATA, Connection, RawBatch, RawRecord, array, produce
from tests.support.wait import until

TOPIC = "t"
RECORDS = 10
WAIT_S = 60.0
PATIENT_MS, SHORT_MS = 30_000, 500
# A frozen follower counts until its session expires.
SETTINGS = {"brokercy.liveness.interval.ms": "0", "broker.session.timeout.ms": "9000"}

Node = ClusterNode | KafkaPeer


@contextmanager
def nodes_of(kind: str, directory: Path) -> Iterator[list[Node]]:
    if kind == "ours":
        with cluster(directory, settings=SETTINGS) as ours:
            yield list(ours)
    else:
        with kafka_cluster(directory) as kafkas:
            yield list(kafkas)


def brokers(node: Node) -> int:
    with Connection((node.host, node.port)) as connection:
        return connection.ask(METADATA, 1, array([])).i32()


def append(connection: Connection) -> int:
    """Write a record; returns the error."""
    batch = RawBatch([RawRecord(value=b"v")]).encode()
    return produce(connection, {TOPIC: {0: batch}})[TOPIC, 0].error


def delete(leader: Node, offset: int, timeout_ms: int) -> tuple[ErrorCode, int]:
    """Delete records; return the error and the low watermark."""
    part = messages.DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = messages.DeleteRecordsRequest.DeleteRecordsTopic(name=TOPIC, partitions=[part])
    request = messages.DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms)
    (found,) = ask(leader.port, request, messages.DeleteRecordsResponse).topics[0].partitions
    return ErrorCode(found.error_code), found.low_watermark


def first_offset(node: Node) -> int:
    """The first offset that a consumer can read at this replica, leader or not."""
    with Connection((node.host, node.port)) as connection:
        for offset in range(RECORDS + 1):
            if fetch(connection, TOPIC, 0, offset)[0] != ErrorCode.OFFSET_OUT_OF_RANGE:
                return offset
    raise AssertionError("nothing can be read")


@pytest.mark.parametrize("kind", ["ours", pytest.param("kafka", marks=[pytest.mark.full, needs.kafka])])
def test_the_answer_waits_for_all_replicas(tmp_path: Path, kind: str) -> None:
    """If this fails, deleted records come back when another replica becomes the leader, or a deletion waits for a
    broker that is down.
    """
    with nodes_of(kind, tmp_path) as nodes:
        assert create_topic(nodes[0].port, TOPIC, 1, 3) is ErrorCode.NONE
        until(lambda: in_sync(nodes[0].port, TOPIC, 3), "three replicas in sync", WAIT_S)
        leader = nodes[topics(nodes[0].port)[TOPIC].partitions[0].leader_id - 1]
        followers = [node for node in nodes if node is not leader]
        with Connection((leader.host, leader.port)) as connection:
            # The leader may not know yet that it leads.
            until(lambda: append(connection) != ErrorCode.NOT_LEADER_OR_FOLLOWER, "a leader that leads", WAIT_S)
            for _ in range(1, RECORDS):
                assert append(connection) == ErrorCode.NONE

        assert delete(leader, 5, PATIENT_MS) == (ErrorCode.NONE, 5)
        assert [first_offset(node) for node in nodes] == [5, 5, 5]

        os.kill(followers[0].pid, signal.SIGSTOP)
        try:
            assert delete(leader, 8, SHORT_MS) == (ErrorCode.REQUEST_TIMED_OUT, 5)
        finally:
            os.kill(followers[0].pid, signal.SIGCONT)
        assert delete(leader, 8, PATIENT_MS) == (ErrorCode.NONE, 8)
        assert [first_offset(node) for node in nodes] == [8, 8, 8]

        followers[0].kill()
        until(lambda: brokers(leader) == 2, "two brokers", WAIT_S)
        assert delete(leader, -1, PATIENT_MS) == (ErrorCode.NONE, RECORDS)
        assert [first_offset(leader), first_offset(followers[1])] == [RECORDS, RECORDS]
