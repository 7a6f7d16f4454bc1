"""Eligible leaders (KIP-966) on a broker that starts without one of its disks: with the two disks it had, it leads
again; without one of them, it leads nothing, not even partitions of its healthy disk, until the other replica is back.

Its disk may come back later as an empty one, so the broker cannot prove that it has every record that it acknowledged.
Kafka asks for that proof for the broker as a whole, and this broker does the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from broker_cy.client.errors import ClientError
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from tests.support import needs
from tests.support.cluster import ask
from tests.support.mixed_cluster import MixedNode, mixed_cluster
from tests.support.two_disks import give_two_disks, mend_second, places, spoil_second
from tests.support.wait import until

WAIT_S = 60.0
PARTITIONS = 4
SETTINGS = {"offsets.topic.num.partitions": "2"}
State = tuple[int, tuple[int, ...], tuple[int, ...]]


def create(port: int) -> None:
    """Create t with replicas on the brokers 1 and 2, which both are needed for acks=all."""
    kind = messages.CreateTopicsRequest
    topic = kind.CreatableTopic(
        name="t",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            kind.CreatableReplicaAssignment(partition_index=index, broker_ids=[1, 2]) for index in range(PARTITIONS)
        ],
        configs=[kind.CreatableTopicConfig(name="min.insync.replicas", value="2")],
    )
    found = ask(port, kind(topics=[topic], timeout_ms=30_000), messages.CreateTopicsResponse)
    assert ErrorCode(found.topics[0].error_code) is ErrorCode.NONE, found


def states(port: int) -> set[State]:
    """Leader, in-sync and eligible replicas of the partitions of t: equal ones once."""
    kind = messages.DescribeTopicPartitionsRequest
    request = kind(topics=[kind.TopicRequest(name="t")], response_partition_limit=PARTITIONS)
    found: Any = ask(port, request, messages.DescribeTopicPartitionsResponse)
    return {
        (part.leader_id, tuple(sorted(part.isr_nodes)), tuple(sorted(part.eligible_leader_replicas or ())))
        for part in found.topics[0].partitions
    }


def wait_for(node: MixedNode, wanted: State) -> None:
    seen: list[set[State]] = []

    def reached() -> bool:
        seen[:] = [states(node.port)]
        return seen[0] == {wanted}

    until(reached, f"{wanted}, but {seen}", WAIT_S, tolerate=(ClientError,))


def leave_in_order(nodes: Sequence[MixedNode]) -> None:
    """Stop node 1, and then kill node 2: node 1 has every record that was acknowledged."""
    first, second, third = nodes
    wait_for(third, (1, (1, 2), ()))
    first.stop()
    wait_for(third, (2, (2,), (1,)))
    second.kill()


@pytest.mark.full
@pytest.mark.parametrize("kind", ["ours", pytest.param("kafka", marks=needs.kafka)])
@pytest.mark.timeout(600)
def test_a_broker_without_one_of_its_disks_is_no_eligible_leader(kind: str, tmp_path: Path) -> None:
    """If this fails, a broker that may have lost records leads, and its followers lose them as well; or one with all
    its records does not lead.
    """
    with mixed_cluster(tmp_path, (kind,) * 3, SETTINGS, prepare=give_two_disks) as nodes:
        first, second, third = nodes
        create(third.port)
        until(lambda: len(places(first, "t")) == PARTITIONS, "the logs", WAIT_S)
        assert set(places(first, "t").values()) == {0, 1}
        leave_in_order(nodes)
        first.restart()
        wait_for(third, (1, (1,), (2,)))
        second.restart()
        wait_for(third, (1, (1, 2), ()))

        leave_in_order(nodes)
        spoil_second(first)
        first.restart()
        wait_for(third, (-1, (), (2,)))
        second.restart()
        until(lambda: {state[0] for state in states(third.port)} == {2}, "the other leader", WAIT_S)
        assert first.stop() == 0
        mend_second(first)
        first.restart()
        wait_for_all_in_sync(third)


def wait_for_all_in_sync(node: MixedNode) -> None:
    until(lambda: {state[1:] for state in states(node.port)} == {((1, 2), ())}, "all in sync", WAIT_S)
