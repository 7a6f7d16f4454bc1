"""Groups of the consumer protocol (KIP-848) and share groups (KIP-932) in a cluster of two nodes of Apache Kafka 4.3.1
and one of broker-cy: coordinators and leaders move between the two kinds, and nodes are killed.

Committed offsets never go back, and members read everything (tests/history/checker.py). Share consumers acknowledge
explicitly: no record comes again after the answer to its acknowledgement.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaException, ShareConsumer

from tests.compat.test_confluent_share import configure
from tests.e2e.test_mixed_under_load import INTERNAL, MixedWork
from tests.history.cluster_clients import QUIET, Client, ConsumerMember, Member
from tests.history.cluster_work import MEMBERS, WAIT_S
from tests.history.operations import Place, Recorder
from tests.support import needs
from tests.support.cluster import ClusterNode
from tests.support.kafka_peer import KafkaPeer
from tests.support.migration import COMMON
from tests.support.mixed_cluster import let_lead, mixed_cluster
from tests.support.wait import until

pytestmark = [pytest.mark.full, needs.java]

SHARERS = "sharers"
# librdkafka gives a commit up that waits 10 s for a coordinator; brokers notice the death of one after 9 s.
LATE = re.compile(r"member\d+: commit: .*code=_TIMED_OUT,")
SETTINGS = {
    **COMMON,
    "share.coordinator.state.topic.num.partitions": "4",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "15000",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
}


class Acknowledged:
    """The records that came, those whose acknowledgements were answered, and those that came again afterwards."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.seen: set[tuple[Place, int]] = set()
        self.records: set[tuple[Place, int]] = set()
        self.again: list[tuple[Place, int]] = []

    def came(self, record: tuple[Place, int]) -> None:
        with self._lock:
            self.seen.add(record)
            if record in self.records:
                self.again.append(record)

    def add(self, records: set[tuple[Place, int]]) -> None:
        with self._lock:
            self.records |= records


class Sharer(Client):
    """A share consumer that accepts each record, and waits for the answers."""

    def __init__(self, name: str, servers: str, recorder: Recorder, topic: str, acknowledged: Acknowledged) -> None:
        super().__init__(name, servers, recorder)
        self.acknowledged = acknowledged
        # Acknowledgements without an answer or with an error: these records may come again, but need not.
        self.refused = 0
        own = {"bootstrap.servers": servers, "group.id": SHARERS, "share.acknowledgement.mode": "explicit"}
        self.consumer = ShareConsumer({**own, **QUIET})
        self.consumer.subscribe([topic])

    def step(self) -> None:
        taken: set[tuple[Place, int]] = set()
        for message in self.consumer.poll(0.2):
            error = message.error()
            if error is not None:
                assert not error.fatal(), f"{self.name}: {error}"
                continue
            record = (str(message.topic()), int(message.partition() or 0)), int(message.offset() or 0)
            self.acknowledged.came(record)
            self.consumer.acknowledge(message)
            taken.add(record)
        if not taken:
            return
        try:
            answers = self.consumer.commit_sync(30.0)
        except KafkaException as error:
            if error.args[0].fatal():
                raise
            answers = {}
        accepted = {(each.topic, each.partition) for each, error in answers.items() if error is None}
        self.acknowledged.add({record for record in taken if record[0] in accepted})
        self.refused += sum(record[0] not in accepted for record in taken)
        self.progress += bool(accepted)

    def end(self) -> None:
        self.consumer.close()


class NewerGroups(MixedWork):
    """The clients of a mixed cluster, with members of the consumer protocol, and a share group."""

    internal = (*INTERNAL, "__share_group_state")

    def new_members(self) -> list[Member]:
        return [ConsumerMember(f"member{n}", self.servers, self.recorder, "in", MEMBERS) for n in range(2)]

    def reported(self) -> list[str]:
        return [each for each in super().reported() if not LATE.match(each)]

    def share(self) -> None:
        """Start the members of the share group."""
        configure(cast(Any, SimpleNamespace(bootstrap=self.servers)), SHARERS, "share.auto.offset.reset", "earliest")
        self.acknowledged = Acknowledged()
        self.sharers = [Sharer(f"sharer{n}", self.servers, self.recorder, "in", self.acknowledged) for n in range(2)]
        self.clients += self.sharers
        for sharer in self.sharers:
            sharer.start()

    def finish(self) -> None:
        self.steady.finish()
        wanted = sum(self.steady.acked.values())

        def shared() -> bool:
            self.check_clients()
            return len(self.acknowledged.seen) >= wanted

        try:
            until(shared, "all records at the share group", WAIT_S, 0.1)
        finally:
            found = self.acknowledged
            refused = sum(each.refused for each in self.sharers)
            print(
                f"{wanted} shared records, {len(found.seen)} came, {len(found.records)} are acknowledged, {refused} "
                f"acknowledgements failed",
                flush=True,
            )
        super().finish()
        assert len(found.seen) == wanted
        assert not found.again, found.again[:20]


@pytest.mark.timeout(600)
def test_newer_groups_move_between_kafka_and_ours(tmp_path: Path) -> None:
    """If this fails, a cluster under migration loses committed offsets of consumer groups, or repeats records that a
    share group has acknowledged, when a coordinator or leader moves from Kafka to broker-cy or back.
    """
    with mixed_cluster(tmp_path, ("kafka", "kafka", "ours"), SETTINGS) as nodes:
        let_lead(nodes, ClusterNode)
        work = NewerGroups(nodes, tmp_path)
        try:
            work.share()
            work.go_on()
            work.move_leaders(KafkaPeer)
            work.move_leaders(ClusterNode)
            (ours,) = work.numbers(ClusterNode)
            work.kill(ours)
            work.move_leaders(KafkaPeer)
            work.kill(work.numbers(KafkaPeer)[0])
            work.move_leaders(ClusterNode)
            work.finish()
            for node in nodes:
                assert "Traceback" not in node.stderr(), node.stderr()
        finally:
            work.stop()
