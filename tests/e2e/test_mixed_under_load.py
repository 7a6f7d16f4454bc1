"""Partitions with replicas on a broker-cy node and on two of Apache Kafka 4.3.1: leaders move between them, and nodes
are killed, while real clients work.

The clients are an idempotent producer, a group of two members, a transactional copier that aborts some of its
transactions (tests/history/cluster_work.py), and a Java producer with a separate group. Afterwards every acknowledged
record exists once and in order, no read_committed consumer got an aborted record (tests/history/checker.py), and all
replicas have the same bytes. While leaders move, no client reports anything.

After the death of its group's coordinator, librdkafka may wait forever in send_offsets_to_transaction, also in a
cluster of three Kafka nodes (tests/history/cluster_copiers.py): then the copier is replaced.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from broker_cy.client.errors import ClientError
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from tests.history.cluster_work import PARTITIONS, WAIT_S, Work
from tests.support import needs
from tests.support.acked import records_of
from tests.support.cluster import ClusterNode, ask, create_topic, topics
from tests.support.kafka_peer import KafkaPeer
from tests.support.migration import COMMON
from tests.support.mixed_cluster import MixedNode, active_controller, let_lead, mixed_cluster
from tests.support.replicas import equal_replicas
from tests.support.steady_client import SteadyClient
from tests.support.tool_session import ToolSession
from tests.support.wait import until

pytestmark = [pytest.mark.full, needs.java]

Alter = messages.AlterPartitionReassignmentsRequest
Part = messages.MetadataResponse.MetadataResponsePartition
INTERNAL = ("__consumer_offsets", "__transaction_state")
# Calls that were repeated: once in about fifty kills, librdkafka gets no committed offsets within its timeout; and it
# waits that long for the answers of a node that died before it aborts a transaction.
LATE = re.compile(r"(watcher-\w+: committed|copier: abort): .*code=_TIMED_OUT,")


class MixedWork(Work):
    """The clients of a mixed cluster, and the disturbances of its nodes."""

    nodes: Sequence[MixedNode]
    internal: Sequence[str] = INTERNAL

    def __init__(self, nodes: Sequence[MixedNode], directory: Path) -> None:
        assert create_topic(nodes[0].port, "java", PARTITIONS, len(nodes)) is ErrorCode.NONE
        for node in nodes:
            until(lambda node=node: "java" in topics(node.port), "the topic at each node")  # type: ignore[misc]
        super().__init__(nodes)
        self.directory = directory
        self.java = SteadyClient("java", self.servers, "java", PARTITIONS, directory)
        self.moves = 0

    @property
    def topics(self) -> tuple[str, ...]:
        return ("in", "out", "java", *self.internal)

    def numbers(self, kind: type[MixedNode]) -> list[int]:
        """The ids of the nodes of a kind."""
        return [number for number, node in enumerate(self.nodes, 1) if isinstance(node, kind)]

    def kind(self, number: int) -> type[MixedNode]:
        return type(self.nodes[number - 1])

    def go_on(self) -> None:
        super().go_on()
        self.java.go_on(WAIT_S)

    def controller(self) -> int:
        """The id of the active controller."""
        node = self.alive()
        assert isinstance(node, KafkaPeer | ClusterNode)
        return until(
            lambda: max(active_controller(node), 0), "a controller", WAIT_S, tolerate=(ClientError, AssertionError)
        )

    def move_leaders(self, kind: type[MixedNode]) -> None:
        """Make nodes of a kind lead all partitions, by reordering the replicas and with Kafka's election tool; a node
        of the other kind receives both requests.
        """
        began, copiers, reported = time.monotonic(), self.copiers, self.reported()
        targets, others = self.numbers(kind), [each for each in (1, 2, 3) if each not in self.numbers(kind)]
        through = others[self.moves % len(others)]
        self.moves += 1
        wanted = {
            (name, part.partition_index): targets[part.partition_index % len(targets)]
            for name in self.topics
            for part in self.metadata(name)
        }
        orders = {place: [first, *(each for each in (3, 2, 1) if each != first)] for place, first in wanted.items()}
        altered = [
            Alter.ReassignableTopic(
                name=name,
                partitions=[
                    Alter.ReassignablePartition(partition_index=index, replicas=order)
                    for (topic, index), order in orders.items()
                    if topic == name
                ],
            )
            for name in self.topics
        ]
        found = ask(
            self.nodes[through - 1].port,
            Alter(timeout_ms=30_000, topics=altered),
            messages.AlterPartitionReassignmentsResponse,
        )
        assert {found.error_code, *(part.error_code for topic in found.responses for part in topic.partitions)} == {0}
        self._see(lambda part: list(part.replica_nodes[:1]), {place: [first] for place, first in wanted.items()})
        # A replica that lags behind on a busy machine cannot be elected yet.
        self._see(lambda part: sorted(part.isr_nodes), {place: [1, 2, 3] for place in wanted})
        tool = ToolSession(self.nodes, self.directory)
        elected = [{"topic": topic, "partition": index} for topic, index in wanted]
        path = tool.json_file("elections.json", {"partitions": elected})
        words = ("--election-type", "preferred", "--path-to-json-file", path)
        said = tool.run("kafka-leader-election.sh", *words, at=through)
        assert "[0]" in tool.transcript.splitlines(), said
        self._see(lambda part: [part.leader_id], {place: [first] for place, first in wanted.items()})
        self.go_on()
        assert self.reported() == reported
        assert self.copiers is copiers, "the copier was replaced"
        print(f"{time.monotonic() - began:5.1f} s  leaders on {targets}, through {through}", flush=True)

    def _see(self, of: Callable[[Part], list[int]], wanted: dict[tuple[str, int], list[int]]) -> None:
        """Wait until the metadata of every node satisfies the condition for each partition."""

        def seen() -> bool:
            for node in self.nodes:
                found = topics(node.port)
                for (topic, index), value in wanted.items():
                    (part,) = [each for each in found[topic].partitions if each.partition_index == index]
                    if of(part) != value:
                        return False
            return True

        until(seen, f"{wanted} at all nodes", WAIT_S, 0.05, tolerate=(ClientError,))

    def kill(self, number: int) -> None:
        """Kill a node, check that the clients continue without it, restart it, and wait until all replicas are in
        sync.
        """
        led = sum(part.leader_id == number for name in self.topics for part in self.metadata(name))
        assert led, f"node {number} leads nothing"
        active = self.controller()
        began = time.monotonic()
        self.nodes[number - 1].kill()
        self.go_on()
        on_s = time.monotonic() - began
        self.nodes[number - 1].restart()
        back_s = time.monotonic() - began
        self.in_sync()
        until(lambda: self._all_here() == 3, "three brokers", WAIT_S, tolerate=(ClientError,))
        self.go_on()
        print(
            f"{time.monotonic() - began:5.1f} s  node {number} killed, which led {led}, active controller {active}: "
            f"the clients went on after {on_s:.1f} s, it was back after {back_s:.1f} s",
            flush=True,
        )

    def _all_here(self) -> int:
        found = ask(self.nodes[0].port, messages.MetadataRequest(topics=[]), messages.MetadataResponse)
        return len(found.brokers)

    def reported(self) -> list[str]:
        """The errors that the clients reported but recovered from."""
        return [*self.errors(), *(f"java: {line}" for line in self.java.reported)]

    def finish(self) -> None:
        acked = set(self.java.acked)
        until(lambda: acked <= self.java.read, "the group of the Java client to read everything", WAIT_S)
        self.java.finish()
        super().finish()
        self._check_replicas()

    def _check_replicas(self) -> None:
        """Check that all replicas are equal, and that they have the records of each producer once and in order."""
        addresses = {number: (node.host, node.port) for number, node in enumerate(self.nodes, 1)}
        written: list[int] = []
        java: list[int] = []
        for name in self.topics:
            for part in self.metadata(name):
                content = equal_replicas(addresses, name, part.partition_index)
                if name in self.internal:
                    continue
                values = [value for _, value in records_of(content)]
                # Markers of transactions have other values.
                prefix = {"in": b"r", "out": b"copier.", "java": b""}[name]
                numbers = [int(value[len(prefix) :].split(b"/")[0]) for value in values if value.startswith(prefix)]
                assert all(one < following for one, following in pairwise(numbers)), (
                    f"{name}-{part.partition_index} is not in order"
                )
                if name == "in":
                    written += numbers
                elif name == "java":
                    java += numbers
        assert sorted(written) == list(range(self.steady.sent))
        assert len(java) == len(set(java))
        assert set(self.java.acked) <= set(java)

    def stop(self) -> None:
        self.java.close()
        super().stop()


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(("kafka", "kafka", "ours"), id="two-of-kafka"),
        pytest.param(("ours", "ours", "kafka"), marks=pytest.mark.soak, id="two-of-ours"),
    ],
)
def test_leaders_move_and_nodes_die_under_load(tmp_path: Path, kinds: Sequence[str]) -> None:
    """If this fails, a cluster loses, repeats or reorders records while some of its nodes are Kafka's."""
    with mixed_cluster(tmp_path, kinds, COMMON) as nodes:
        let_lead(nodes, ClusterNode)
        work = MixedWork(nodes, tmp_path)
        try:
            work.go_on()
            work.move_leaders(KafkaPeer)
            work.move_leaders(ClusterNode)
            work.move_leaders(KafkaPeer)
            # Kafka brokers with a broker-cy controller.
            work.kill(work.numbers(KafkaPeer)[0])
            # On a busy machine, another node may be the controller by now.
            let_lead(nodes, ClusterNode)
            work.in_sync()
            work.move_leaders(ClusterNode)
            first = work.controller()
            work.kill(first)
            second = work.controller()
            # With two Kafka nodes and one of broker-cy, a Kafka node is the controller now, with a broker-cy broker.
            assert work.kind(second) is KafkaPeer or kinds.count("ours") > 1
            for kind in sorted((KafkaPeer, ClusterNode), key=lambda kind: kind is work.kind(second)):
                work.move_leaders(kind)
            work.kill(second)
            work.move_leaders(ClusterNode)
            print(f"active controllers: {first}, {second}, {work.controller()}", flush=True)
            work.finish()
            reported = [each for each in work.reported() if not LATE.match(each)]
            assert not reported, "\n".join(reported[:20])
            for node in nodes:
                assert "Traceback" not in node.stderr(), node.stderr()
        finally:
            work.stop()
