"""Producers that wait for all replicas while the disk of one of them dies (replicating.Cluster)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.storage.log_config import LogConfig
from tests.broker_cy.replication.replicating import Cluster, Node, produce

# Longer than any test: a producer that waits for it fails the test.
NEVER_MS = 3_600_000


@pytest.fixture(params=[LogConfig(), LogConfig(flush_messages=1)], ids=["", "synced"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    cluster = Cluster(3, request.param)
    cluster.give()
    yield cluster
    cluster.close()


def lose_disk(node: Node) -> None:
    """As LogManager and PartitionService do when the disk of a data directory fails."""

    def lose() -> None:
        node.log.lose_disk("the disk died")
        node.partition.lose_disk()

    node.harness.on_loop(lose)


def test_a_removed_follower_without_a_disk_holds_no_producer(cluster: Cluster) -> None:
    """If this fails, acks=all waits for replica.lag.time.max.ms after the disk of a follower died, although the
    controller removed it from the in-sync set: its session reports afterwards that it had kept up.
    """
    assert produce(cluster, 1, b"first") == ErrorCode.NONE
    leader = cluster.nodes[1]
    state = leader.partition.replica.in_sync
    assert state is not None
    state.lag_max_ms = NEVER_MS
    leader.wait(lambda partition: all(each.end_offset == 1 for each in state.followers.values()))
    lose_disk(cluster.nodes[3])
    cluster.give(isr=(1, 2))
    assert produce(cluster, 1, b"second") == ErrorCode.NONE
    assert produce(cluster, 1, b"third") == ErrorCode.NONE
    assert cluster.image.isr == (1, 2)


def test_a_producer_that_waits_hears_when_the_disk_of_a_follower_died(cluster: Cluster) -> None:
    """If this fails, a request that was sent before the controller removed the follower is answered at its timeout."""
    leader, victim = cluster.nodes[1], cluster.nodes[3]
    state = leader.partition.replica.in_sync
    assert state is not None
    state.lag_max_ms = NEVER_MS
    with ThreadPoolExecutor(1) as pool:
        lose_disk(victim)
        waiting = pool.submit(produce, cluster, 1, b"value")
        leader.wait(lambda partition: state.followers[2].end_offset == 1)
        assert leader.partition.high_watermark == 0
        cluster.give(isr=(1, 2))
        assert waiting.result() == ErrorCode.NONE


def test_a_producer_that_waits_hears_when_the_disk_of_its_leader_died(cluster: Cluster) -> None:
    """If this fails, a producer waits for its timeout before it looks for the new leader."""
    leader = cluster.nodes[1]
    for each in (2, 3):
        cluster.nodes[each].cut()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(produce, cluster, 1, b"value")
        leader.wait(lambda partition: partition.log.written_end_offset == 1)
        lose_disk(leader)
        assert waiting.result() == ErrorCode.KAFKA_STORAGE_ERROR
    assert produce(cluster, 1, b"more") == ErrorCode.KAFKA_STORAGE_ERROR
