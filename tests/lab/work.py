"""The clients of the rounds, and the checks between two rounds.

Between two rounds nothing is sent until everything has been read, copied and committed. So the history of each round is
complete, and is checked by itself (tests/history/checker.py). At the end everything is read again from the beginning
and checked against all rounds: a record may also be lost, or written again, long after its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from broker_cy.client.errors import ClientError
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from tests.history.checker import Finding, check
from tests.history.cluster_clients import QUIET, Client, reads_of
from tests.history.cluster_copiers import GroupCopier
from tests.history.cluster_work import PARTITIONS, WAIT_S, DisturbedWork
from tests.history.operations import Assign, Operation, Outcome, Place, Poll, Recorder, Send, Transaction
from tests.support.cluster import ClusterNode, ask
from tests.support.confluent import close_consumer
from tests.support.wait import until

ASKED = messages.ListOffsetsRequest
LATEST = -1
COPIERS = 2
# The number of records acknowledged in each partition before a fault begins.
BEFORE = 10


class Reader(Client):
    """Reads all partitions from their beginning, at one isolation level."""

    def __init__(self, servers: str, recorder: Recorder, places: Sequence[Place], *, committed: bool) -> None:
        level = "read_committed" if committed else "read_uncommitted"
        super().__init__(f"reader-{level}", servers, recorder)
        self.committed = committed
        # The offsets at which the reader reached the end of its partitions.
        self.ends: dict[Place, int] = {}
        self.copies: Counter[str] = Counter()
        settings = {"group.id": self.name, "isolation.level": level, "enable.partition.eof": True}
        self.consumer = Consumer({"bootstrap.servers": servers, "enable.auto.commit": False, **settings, **QUIET})
        recorder.add(Assign(self.name, committed, dict.fromkeys(places, 0)))
        self.consumer.assign([TopicPartition(*place, 0) for place in places])

    def step(self) -> None:
        records: list[Message] = []
        ended: dict[Place, int] = {}
        for message in self.consumer.consume(500, 0.1):
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                ended[message.topic() or "", message.partition() or 0] = message.offset() or 0
            else:
                records.append(message)
        reads = reads_of(self.name, records, self.errors)
        if reads:
            self.recorder.add(Poll(self.name, self.recorder.now(), tuple(reads)))
            self.copies.update(read.value.split("/")[1] for read in reads if read.place[0] == "out")
        self.progress += len(reads)
        self.ends.update(ended)

    def end(self) -> None:
        close_consumer(self.consumer)


class LabWork(DisturbedWork):
    """The clients of a cluster on lab hosts."""

    def __init__(self, nodes: Sequence[ClusterNode], producer: Mapping[str, str | int] | None = None) -> None:
        super().__init__(nodes, producer=producer)
        # Nodes that do not have to answer at present.
        self.disturbed: set[int] = set()
        self.places: list[Place] = [(topic, index) for topic in ("in", "out") for index in range(PARTITIONS)]
        start = dict.fromkeys(self.places, 0)
        self.readers = [Reader(self.servers, self.recorder, self.places, committed=each) for each in (False, True)]
        for reader in self.readers:
            self.clients.append(reader)
            reader.start()
        # The records sent in completed rounds, and those that the readers read; a reader is assigned only once.
        self._past: list[Operation] = [Assign(each.name, each.committed, start) for each in self.readers]
        self.acked = 0

    def new_copiers(self) -> Sequence[GroupCopier]:
        copiers = [
            GroupCopier(self.servers, self.recorder, "in", "out", PARTITIONS, f"copier{number}")
            for number in range(1, COPIERS + 1)
        ]
        for copier in copiers:
            # The records of several seconds are waiting after a fault.
            copier.copied_max = 2_000
        return copiers

    def alive(self) -> ClusterNode:
        return next(node for node in self.nodes if node.alive() and node.node_id not in self.disturbed)

    def victim(self, role: str, other: int) -> ClusterNode:
        """The node that has a role of tests.lab.faults.ROLES."""
        if role == "controller":
            return self.controller()
        if role == "members":
            return self.coordinator("members", 0)
        if role == "copier":
            return self.coordinator(self.copiers[0].name, 1)
        leader = self.leader()
        return leader if role == "leader" else [node for node in self.nodes if node is not leader][other]

    def resume(self) -> None:
        """Resume the producer, and wait until each partition acknowledges its records."""
        before = dict(self.steady.acked)
        self.steady.reset_gaps()
        self.steady.paused.clear()
        self._until(
            lambda: [str(place) for place in self.inputs if self.steady.acked[place] < before[place] + BEFORE],
            "acknowledgements",
        )

    def settle(self) -> None:
        """Pause the producer, and wait until all its records are acknowledged, copied, read by all readers and members,
        and committed.
        """
        self.steady.paused.set()
        self._until(self._behind, "everything to be copied, read and committed")

    def _until(self, behind: Callable[[], list[str]], what: str) -> None:
        """Wait until no client is behind; the error names the clients that are."""
        last: list[str] = []

        def done() -> bool:
            self.check_clients()
            last[:] = behind()
            return not last

        try:
            until(done, what, WAIT_S, 0.05, tolerate=(ClientError,))
        except AssertionError as error:
            raise AssertionError(f"{error}; behind: {last}") from error

    def _behind(self) -> list[str]:
        if self.steady.unanswered:
            return [f"{len(self.steady.unanswered)} records are not acknowledged"]
        ends = self._ends(committed=False)
        if len(ends) < len(self.places):
            return [f"the ends of {sorted(set(self.places) - set(ends))} are not known"]
        behind = [
            f"{watcher.name}: {place} is committed up to {watcher.known.get(place)} of {ends[place]}"
            for watcher in self.watchers
            for place in self.inputs
            if watcher.known.get(place, 0) != ends[place]
        ]
        behind += [f"{copier.name} is {copier.doing}" for copier in self.copiers if copier.doing != "reading"]
        if behind:
            return behind
        # Only now, when all transactions have been decided.
        ends = self._ends(committed=False)
        stable = self._ends(committed=True)
        if stable != ends:
            return [f"transactions are open: {stable} is stable of {ends}"]
        return [
            f"{reader.name}: {place} is read up to {reader.ends.get(place)} of {end}"
            for reader in self.readers
            for place, end in ends.items()
            if reader.ends.get(place, 0) < end
        ]

    def _ends(self, *, committed: bool) -> dict[Place, int]:
        """The high watermarks, or the last stable offsets, of partitions whose leaders are known and show them. Raises
        ClientError if a leader does not answer.
        """
        # Not with librdkafka: its admin client sends the leader epoch that it knows, even if that is fenced.
        found: dict[Place, int] = {}
        for name in ("in", "out"):
            for part in self.metadata(name):
                if part.leader_id < 0:
                    continue
                asked = ASKED.ListOffsetsPartition(partition_index=part.partition_index, timestamp=LATEST)
                topic = ASKED.ListOffsetsTopic(name=name, partitions=[asked])
                request = ASKED(replica_id=-1, isolation_level=int(committed), topics=[topic])
                answer = ask(self.nodes[part.leader_id - 1].address, request, messages.ListOffsetsResponse)
                answered = answer.topics[0].partitions[0]
                if answered.error_code == ErrorCode.NONE:
                    found[name, part.partition_index] = answered.offset
        return found

    def judge(self) -> list[Finding | str]:
        """Return the anomalies of the history since the last call; call `settle` first."""
        ends = self._ends(committed=False)
        assigns = {each.consumer: each for each in self.recorder.operations if isinstance(each, Assign)}
        operations = self.recorder.take(
            Assign(name, each.committed, {place: ends[place] for place in each.positions})
            for name, each in assigns.items()
        )
        findings: list[Finding | str] = [*check(operations)]
        sent = Counter(each.value for each in operations if isinstance(each, Send) and each.transaction is None)
        self.acked += sum(sent.values())
        copies = self.readers[True].copies
        if copies != sent:
            wrong = sorted((copies - sent) + (sent - copies))
            findings.append(f"copied {len(copies)} of {len(sent)} records; lost, or more than once: {wrong[:10]}")
        for reader in self.readers:
            reader.copies = Counter()
        self._keep(operations)
        return findings

    def _keep(self, operations: list[Operation]) -> None:
        """Keep the operations that are checked again at the end: sends, and the readers' polls."""
        names = {reader.name for reader in self.readers}
        self._past += [
            each
            for each in operations
            if isinstance(each, Send | Transaction) or (isinstance(each, Poll) and each.consumer in names)
        ]

    def transactions(self) -> tuple[int, int]:
        """The number of transactions that have ended since `judge`, and the number of committed ones."""
        found = [each.outcome for each in self.recorder.operations if isinstance(each, Transaction)]
        return len(found), found.count(Outcome.COMMITTED)

    def judge_all(self) -> list[Finding]:
        """End the clients, read everything from the beginning, and return the anomalies of it and of all earlier
        histories.
        """
        self.stop()
        self._keep(self.recorder.take(()))
        for committed in (False, True):
            self.read_all(committed)
        return check([*self._past, *self.recorder.take(())])
