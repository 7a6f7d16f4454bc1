"""Three processes, three replicas of everything: brokers are killed, stopped and frozen while real clients work.

Afterwards every acknowledged record is there once, committed offsets never went back, and a transactional copy has each
input once (tests/history/checker.py).
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from broker_cy.client.errors import ClientError
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from tests.history.checker import check
from tests.history.cluster_clients import Client, Copier, Member, SteadyProducer, Watcher, reads_of
from tests.history.operations import Assign, Place, Poll, Recorder
from tests.support.cluster import ClusterNode, ask, cluster, create_topic, quorum, topics
from tests.support.confluent import close_consumer
from tests.support.wait import until

PARTITIONS = 3
WAIT_S = 90.0
FROZEN_S = 3.0
SETTINGS = {
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    # Kafka's defaults, in place of the quick ones of tests/support/cluster.py.
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "2000",
    "broker.session.timeout.ms": "9000",
}


class Work:
    """The clients of one cluster, and what disturbs it."""

    def __init__(self, nodes: list[ClusterNode]) -> None:
        self.nodes = nodes
        self.servers = ",".join(node.bootstrap for node in nodes)
        for name in ("in", "out"):
            assert create_topic(nodes[0].port, name, PARTITIONS, 3) is ErrorCode.NONE
        for node in nodes:
            until(lambda node=node: {"in", "out"} <= set(topics(node.port)), "the topics")  # type: ignore[misc]
        self.recorder = Recorder()
        self.inputs: list[Place] = [("in", index) for index in range(PARTITIONS)]
        self.steady = SteadyProducer(self.servers, self.recorder, self.inputs)
        self.members = [Member(f"member{n}", self.servers, self.recorder, "in", "members") for n in range(2)]
        self.copier = Copier(self.servers, self.recorder, "in", "out", PARTITIONS)
        self.watchers = [Watcher(self.servers, self.recorder, self.inputs, group) for group in ("members", "copier")]
        self.clients: list[Client] = [self.steady, *self.members, self.copier, *self.watchers]
        for client in self.clients:
            client.start()

    def check_clients(self) -> None:
        for client in self.clients:
            client.check()
        if self.copier.is_stuck:
            print(f"    the copier is replaced ({self.copier.doing})")
            self.clients.remove(self.copier)
            self.copier = self.copier.successor()
            self.clients.append(self.copier)
            self.copier.start()

    def go_on(self) -> None:
        """Wait until each partition and each client has made progress."""
        acked = dict(self.steady.acked)
        made = {client.name: client.progress for client in self.clients}

        def done() -> list[str] | bool:
            self.check_clients()
            behind = [
                f"{client.name} ({client.doing})" for client in self.clients if client.progress < made[client.name] + 2
            ]
            behind += [str(place) for place, least in acked.items() if self.steady.acked[place] < least + 20]
            self.behind = behind
            return not behind

        try:
            until(done, "progress", WAIT_S, 0.05)
        except AssertionError as error:
            raise AssertionError(f"{error}; behind: {self.behind}") from error

    def leader(self) -> ClusterNode:
        return self.nodes[self.metadata("in")[0].leader_id - 1]

    def coordinator(self, key: str, key_type: int) -> ClusterNode:
        request = messages.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])

        def found() -> int:
            answer = ask(self.alive().port, request, messages.FindCoordinatorResponse).coordinators[0]
            return answer.node_id if answer.error_code == 0 else 0

        return self.nodes[until(found, f"the coordinator of {key}", WAIT_S, tolerate=(ClientError,)) - 1]

    def controller(self) -> ClusterNode:
        def found() -> int:
            return max(int(quorum(self.alive().port).leader_id), 0)

        return self.nodes[until(found, "a controller", WAIT_S, tolerate=(ClientError, AssertionError)) - 1]

    def alive(self) -> ClusterNode:
        return next(node for node in self.nodes if node.alive())

    def metadata(self, name: str) -> list[messages.MetadataResponse.MetadataResponsePartition]:
        return list(topics(self.alive().port)[name].partitions)

    def in_sync(self) -> None:
        """Wait until each partition has all its replicas in sync."""
        behind: list[str] = []

        def full() -> bool:
            behind[:] = [
                f"{name}-{part.partition_index}: leader {part.leader_id}, {part.isr_nodes}"
                for name, topic in topics(self.nodes[0].port).items()
                for part in topic.partitions
                if len(part.isr_nodes) < len(part.replica_nodes)
            ]
            return not behind

        since = time.monotonic()
        try:
            until(full, "all replicas in sync", WAIT_S, 0.1, tolerate=(ClientError,))
        except AssertionError as error:
            raise AssertionError(f"{error}: {behind[:8]}") from error
        print(f"    all in sync after {time.monotonic() - since:.2f} s")

    def disturb(self, what: str, node: ClusterNode, act: Callable[[ClusterNode], None]) -> None:
        """Disturb a node, wait until everything goes on, bring the node back, and wait until all is in sync."""
        self.go_on()
        self.steady.gap_s = dict.fromkeys(self.inputs, 0.0)
        also = ", also the active controller" if node is self.controller() else ""
        print(f"{what}: node {node.node_id}{also}", flush=True)
        began = time.monotonic()
        act(node)
        self.go_on()
        gaps = " ".join(f"{gap:.2f}" for gap in self.steady.gap_s.values())
        print(f"    all clients went on after {time.monotonic() - began:.2f} s; longest gaps of partitions: {gaps} s")
        if not node.alive():
            node.restart()
            print(f"    back after {time.monotonic() - began:.2f} s")
        self.in_sync()
        self.go_on()

    def finish(self) -> None:
        """End the clients, read everything and check it."""
        self.steady.finish()
        acked = sum(self.steady.acked.values())
        assert acked == self.steady.sent

        def consumed() -> bool:
            self.check_clients()
            return self.copier.copied >= acked and len(set.union(*(each.seen for each in self.members))) >= acked

        until(consumed, f"{acked} records in the copy and at the members", WAIT_S, 0.1)
        for client in self.clients:
            client.finish()
        for committed in (False, True):
            copied = self.read_all(committed)
            if committed:
                counts = Counter(value.split("/")[1] for value in copied)
                twice = [value for value, count in counts.items() if count > 1]
                assert not twice, f"copied more than once: {twice[:10]}"
                assert len(counts) == acked
        findings = check(self.recorder.operations)
        assert not findings, "\n".join(map(str, findings[:20]))
        print(f"{acked} records, {self.copier.count} transactions, {self.copier.aborts} aborted")

    def read_all(self, committed: bool) -> list[str]:
        """Read both topics to their ends; returns the values in the copy."""
        places = [TopicPartition(topic, index, 0) for topic in ("in", "out") for index in range(PARTITIONS)]
        level = "read_committed" if committed else "read_uncommitted"
        settings = {"group.id": "last", "isolation.level": level, "enable.partition.eof": True}
        consumer = Consumer({"bootstrap.servers": self.servers, "enable.auto.commit": False, **settings})
        name = f"last-{committed}"
        self.recorder.add(Assign(name, committed, {(each.topic, each.partition): 0 for each in places}))
        consumer.assign(places)
        ended: set[Place] = set()
        copied: list[str] = []

        def read() -> bool:
            found = consumer.consume(1000, 0.2)
            for message in found:
                if message.error() is not None:
                    ended.add((message.topic() or "", message.partition() or 0))
            reads = reads_of(name, found)
            self.recorder.add(Poll(name, self.recorder.now(), tuple(reads)))
            copied.extend(each.value for each in reads if each.place[0] == "out")
            return len(ended) == len(places)

        until(read, "the ends of all partitions", WAIT_S)
        close_consumer(consumer)
        return copied


def kill(node: ClusterNode) -> None:
    node.kill()


def stop(node: ClusterNode) -> None:
    assert node.stop() == 0


def freeze(node: ClusterNode) -> None:
    os.kill(node.pid, signal.SIGSTOP)
    try:
        time.sleep(FROZEN_S)
    finally:
        os.kill(node.pid, signal.SIGCONT)


def run(tmp_path: Path, rounds: int) -> None:
    with cluster(tmp_path, settings=SETTINGS) as nodes:
        work = Work(nodes)
        try:
            for _ in range(rounds):
                work.disturb("the leader is killed", work.leader(), kill)
                work.disturb("the coordinator of the copier is killed", work.coordinator("copier", 1), kill)
                work.disturb("the active controller is killed", work.controller(), kill)
                work.disturb("a broker is stopped", work.coordinator("members", 0), stop)
                work.disturb("a broker stands still", work.leader(), freeze)
            work.finish()
            for node in nodes:
                assert "Traceback" not in node.stderr(), node.stderr()
        finally:
            for client in work.clients:
                client.over.set()
            for client in work.clients:
                client.join(10)


def test_clients_of_a_disturbed_cluster(tmp_path: Path) -> None:
    """If this fails, a cluster loses or repeats records, offsets or transactions when one of its brokers fails."""
    run(tmp_path, 1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_clients_of_a_disturbed_cluster_for_long(tmp_path: Path) -> None:
    """The same with more rounds, for rare moments."""
    run(tmp_path, 20)
