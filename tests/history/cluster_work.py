"""Real clients of a cluster while something happens to it: an idempotent producer, a group, and a transactional copier.

Afterwards every acknowledged record exists once, committed offsets never went back, and the copy has each input once
(tests/history/checker.py).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from confluent_kafka import Consumer, TopicPartition

from broker_cy.client.address import Address
from broker_cy.client.errors import ClientError
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from tests.history.checker import check
from tests.history.cluster_clients import Client, Member, SteadyProducer, Watcher, reads_of
from tests.history.cluster_copiers import Copier
from tests.history.operations import Assign, Place, Poll, Recorder, Send, Transaction
from tests.support.cluster import ClusterNode, ask, create_topic, quorum, topics
from tests.support.confluent import close_consumer
from tests.support.wait import until

PARTITIONS = 3
MEMBERS = "members"
WAIT_S = 90.0
# Lines of a failure.
FINDINGS_MAX = 60


class LiveNode(Protocol):
    """A node of ours or of Kafka, as this module needs it."""

    host: str
    port: int

    @property
    def bootstrap(self) -> str: ...
    def alive(self) -> bool: ...


def at(node: LiveNode) -> Address:
    """The address at which clients reach a node."""
    return Address(node.host, node.port)


class Work:
    """The clients of one cluster."""

    def __init__(
        self, nodes: Sequence[LiveNode], servers: str = "", producer: Mapping[str, str | int] | None = None
    ) -> None:
        """`servers` are the clients' bootstrap servers, by default all of `nodes`; `producer` has settings of the
        steady producer that replace its own.
        """
        self.nodes = nodes
        self.servers = servers or ",".join(node.bootstrap for node in nodes)
        for name in ("in", "out"):
            assert create_topic(at(nodes[0]), name, PARTITIONS, 3) is ErrorCode.NONE
        for node in nodes:
            until(lambda node=node: {"in", "out"} <= set(topics(at(node))), "the topics")  # type: ignore[misc]
        self.recorder = Recorder()
        self.inputs: list[Place] = [("in", index) for index in range(PARTITIONS)]
        self.steady = SteadyProducer(self.servers, self.recorder, self.inputs, producer)
        self.members = self.new_members()
        self.copiers = self.new_copiers()
        groups = (MEMBERS, self.copiers[0].group)
        self.watchers = [Watcher(self.servers, self.recorder, self.inputs, group) for group in groups]
        self.clients: list[Client] = [self.steady, *self.members, *self.copiers, *self.watchers]
        for client in self.clients:
            client.start()

    def new_members(self) -> list[Member]:
        """The members of the group `members`, which read `in`, not started."""
        return [Member(f"member{n}", self.servers, self.recorder, "in", MEMBERS) for n in range(2)]

    def new_copiers(self) -> Sequence[Copier]:
        """The copiers of `in` to `out`, which have one group, not started."""
        return [Copier(self.servers, self.recorder, "in", "out", PARTITIONS)]

    def check_clients(self) -> None:
        for client in self.clients:
            client.check()
        for copier in self.copiers:
            if copier.is_stuck:
                print(f"    {copier.name} is replaced ({copier.doing})")
                successor = copier.successor()
                self.copiers = [successor if each is copier else each for each in self.copiers]
                self.clients = [successor if each is copier else each for each in self.clients]
                successor.start()

    @property
    def copied(self) -> int:
        """The number of records that were copied in committed transactions."""
        return sum(each.copied for each in self.copiers)

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

    def alive(self) -> LiveNode:
        return next(node for node in self.nodes if node.alive())

    def metadata(self, name: str) -> list[messages.MetadataResponse.MetadataResponsePartition]:
        return list(topics(at(self.alive()))[name].partitions)

    def in_sync(self) -> float:
        """Wait until all replicas of each partition are in sync; return the seconds that it took."""
        behind: list[str] = []

        def full() -> bool:
            behind[:] = [
                f"{name}-{part.partition_index}: leader {part.leader_id}, {part.isr_nodes}"
                for name, topic in topics(at(self.alive())).items()
                for part in topic.partitions
                if len(part.isr_nodes) < len(part.replica_nodes)
            ]
            return not behind

        since = time.monotonic()
        try:
            until(full, "all replicas in sync", WAIT_S, 0.1, tolerate=(ClientError,))
        except AssertionError as error:
            raise AssertionError(f"{error}: {behind[:8]}") from error
        return time.monotonic() - since

    def finish(self) -> None:
        """End the clients, read everything and check it."""
        self.steady.finish()
        acked = sum(self.steady.acked.values())
        assert acked == self.steady.sent

        def consumed() -> bool:
            self.check_clients()
            return self.copied >= acked and len(set.union(*(each.seen for each in self.members))) >= acked

        # There is no time limit as long as the clients advance: on a slow machine they fall behind.
        while not consumed():
            before = self.copied, sum(len(each.seen) for each in self.members)

            def advanced(before: tuple[int, int] = before) -> bool:
                return consumed() or (self.copied, sum(len(each.seen) for each in self.members)) != before

            until(advanced, f"{acked} records in the copy ({self.copied}) and at the members", WAIT_S, 0.1)
        for client in self.clients:
            client.finish()
        copied: list[str] = []
        for committed in (False, True):
            copied = self.read_all(committed)
        counts = Counter(value.split("/")[1] for value in copied)
        twice = {value for value in copied if counts[value.split("/")[1]] > 1}
        findings = [str(each) for each in check(self.recorder.operations)]
        if twice:
            findings += ["copied more than once:", *self._origins(twice), *self.errors()]
        assert not findings, "\n".join(findings[:FINDINGS_MAX])
        assert len(counts) == acked
        count, aborts = sum(each.count for each in self.copiers), sum(each.aborts for each in self.copiers)
        print(f"{acked} records, {count} transactions, {aborts} aborted")

    def _origins(self, copies: set[str]) -> list[str]:
        """How records came into the copy: each with its transaction."""
        operations = self.recorder.operations
        outcomes = {each.name: each for each in operations if isinstance(each, Transaction)}
        sends = [each for each in operations if isinstance(each, Send) and each.value in copies]
        return [f"{each}: {outcomes.get(each.transaction or '')}" for each in sends]

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
            return bool(found)

        # There is no time limit as long as reading advances.
        while len(ended) < len(places):
            until(read, f"the ends of all partitions; {sorted(ended)} were reached", WAIT_S)
        close_consumer(consumer)
        return copied

    def errors(self) -> list[str]:
        """The errors that the clients reported but recovered from."""
        return [f"{client.name}: {error}" for client in self.clients for error in client.errors]

    def stop(self) -> None:
        """End the clients' threads in any state."""
        for client in self.clients:
            client.over.set()
        for client in self.clients:
            client.join(10)


class DisturbedWork(Work):
    """The clients of a broker-cy cluster, for a test that disturbs a node."""

    nodes: Sequence[ClusterNode]

    def leader(self) -> ClusterNode:
        """The leader of the first partition."""
        return self.nodes[self.metadata("in")[0].leader_id - 1]

    def coordinator(self, key: str, key_type: int) -> ClusterNode:
        """The coordinator of a group (key type 0), or of a transactional id (1)."""
        request = messages.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])

        def found() -> int:
            answer = ask(at(self.alive()), request, messages.FindCoordinatorResponse).coordinators[0]
            return answer.node_id if answer.error_code == 0 else 0

        return self.nodes[until(found, f"the coordinator of {key}", WAIT_S, tolerate=(ClientError,)) - 1]

    def controller(self) -> ClusterNode:
        """The active controller."""

        def found() -> int:
            return max(int(quorum(at(self.alive())).leader_id), 0)

        return self.nodes[until(found, "a controller", WAIT_S, tolerate=(ClientError, AssertionError)) - 1]
