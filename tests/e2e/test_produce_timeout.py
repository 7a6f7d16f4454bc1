"""acks=all with frozen followers: the leader answers after the request's timeout, and keeps the record."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.launch.nodes import Node
from broker_cy.client.address import Address
from broker_cy.core.errors import ErrorCode
from tests.support import needs
from tests.support.cluster import cluster, create_topic, in_sync, topics
from tests.support.kafka_cluster import kafka_cluster
from tests.support.raw_wire import PRODUCE, Connection, RawBatch, parse_produced, produce_body
from tests.support.wait import until

TOPIC = "waits"
# No session expires, and no follower leaves the in-sync set, during this test.
SETTINGS = {"replica.lag.time.max.ms": "600000", "broker.session.timeout.ms": "600000"}
WAIT_S = 60.0
LONG_MS = 60_000


@contextmanager
def ours(directory: Path) -> Iterator[list[Node]]:
    with cluster(directory, settings=SETTINGS) as nodes:
        yield list(nodes)


@contextmanager
def kafkas(directory: Path) -> Iterator[list[Node]]:
    with kafka_cluster(directory) as nodes:
        yield list(nodes)


def send(node: Node, timeout_ms: int, acks: int = -1) -> tuple[int, int]:
    """Send one record; return the error code and the base offset."""
    with Connection((node.host, node.port), timeout_s=WAIT_S) as connection:
        body = produce_body({TOPIC: {0: RawBatch().encode()}}, acks, timeout_ms)
        answer = parse_produced(connection.ask(PRODUCE, 8, body), 8)[TOPIC, 0]
        return answer.error, answer.base_offset


@pytest.mark.parametrize("system", [ours, pytest.param(kafkas, marks=[pytest.mark.full, needs.kafka])])
def test_a_record_that_followers_lack_is_answered_in_time_and_stays(system: object, tmp_path: Path) -> None:
    with system(tmp_path) as nodes:  # type: ignore[operator]
        address = Address(nodes[0].host, nodes[0].port)
        assert create_topic(address, TOPIC, replicas=3) is ErrorCode.NONE
        until(lambda: in_sync(address, TOPIC, 3), "all replicas in sync", WAIT_S)
        leader = nodes[topics(address)[TOPIC].partitions[0].leader_id - 1]
        # The metadata of one node may be older than another's.
        until(lambda: send(leader, LONG_MS) == (ErrorCode.NONE, 0), "a leader that knows the topic", WAIT_S)
        followers = [node.pid for node in nodes if node is not leader]
        for pid in followers:
            os.kill(pid, signal.SIGSTOP)
        try:
            for offset in (1, 2):
                assert send(leader, 500) == (ErrorCode.REQUEST_TIMED_OUT, offset)
            assert send(leader, 0) == (ErrorCode.REQUEST_TIMED_OUT, 3)
            assert send(leader, -1) == (ErrorCode.REQUEST_TIMED_OUT, 4)
            # This request does not wait for followers.
            assert send(leader, 0, acks=1) == (ErrorCode.NONE, 5)
        finally:
            for pid in followers:
                os.kill(pid, signal.SIGCONT)
        until(lambda: send(leader, LONG_MS)[0] == ErrorCode.NONE, "followers that fetch again", WAIT_S)
        assert send(leader, LONG_MS)[1] >= 7
