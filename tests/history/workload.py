"""Seeded random operations of real clients on a real broker, recorded as a history.

The seed determines what each client does in which order; how the clients' steps interleave depends on the machine. All
clients are those of confluent-kafka (librdkafka), each in a separate thread.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.history.clients import SOON, TIMEOUT_S, Client
from tests.history.consumers import Deleter, Member, Reader, poll
from tests.history.operations import Assign, Compact, Crash, Place, Recorder
from tests.history.producers import PlainProducer, RefusedProducer, TransactionalProducer
from tests.support.broker import Target
from tests.support.confluent import close_consumer, new_consumer
from tests.support.topics import create_topic
from tests.support.wait import until

PARTITIONS = 2
# The settings of each topic, by the suffix of its name.
CONFIGS: dict[str, dict[str, str]] = {
    "plain": {},
    "synced": {},  # flush.messages of the workload
    "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100"},
}


class Workload:
    """Clients on some topics of a broker that the caller kills; `finish` completes the history."""

    def __init__(self, broker: Target, name: str, seed: int) -> None:
        self.broker = broker
        self.name = name
        self.seed = seed
        self.recorder = Recorder()
        self.topics = [f"{name}-{kind}" for kind in CONFIGS]
        for kind, config in CONFIGS.items():
            limits = {"max.message.bytes": str(self.limit_bytes)}
            if kind == "synced":
                limits["flush.messages"] = str(self.flush_messages)
            create_topic(broker.bootstrap, f"{name}-{kind}", PARTITIONS, {**config, **limits})
        self.places: list[Place] = [(topic, partition) for topic in self.topics for partition in range(PARTITIONS)]
        self.compacted = [place for place in self.places if place[0] == f"{name}-compacted"]
        # The broker refuses DeleteRecords for topics that are only compacted.
        self.deletable = [place for place in self.places if place not in self.compacted]
        for place in self.compacted:
            self.recorder.add(Compact(place))
        self.over = threading.Event()
        self.acked = 0
        self.refused = 0
        self.kills = 0
        self.rebalances = 0
        # The offset up to which deletion was requested; while the lock is held no other deletion is requested.
        self.deleted = dict.fromkeys(self.places, 0)
        self.deleting = threading.Lock()
        self.readers = [Reader(self, f"reader{number}", committed=number > 0) for number in range(3)]
        self.clients: list[Client] = [
            *(PlainProducer(self, f"plain{number}") for number in range(2)),
            RefusedProducer(self, "refused"),
            *(TransactionalProducer(self, f"txn{number}") for number in range(3)),
            *self.readers,
            *(Member(self, f"member{number}") for number in range(2)),
            Deleter(self, "deleter"),
        ]
        for client in self.clients:
            client.start()

    limit_bytes = 100_000
    """max.message.bytes of the topics."""
    flush_messages = 3
    """flush.messages of the topic whose name ends with -synced."""

    def consumer(self, name: str, *, committed: bool, **settings: Any) -> Consumer:
        level = "read_committed" if committed else "read_uncommitted"
        # A client whose position was deleted moves to the log start; the checker reports any other reset.
        soon = {key.replace(".", "_"): value for key, value in SOON.items() if "." in key}
        return new_consumer(self.broker.bootstrap, name, isolation_level=level, **soon, **settings)

    def go_on(self, acks: int, steps: int) -> None:
        """Wait until `acks` more records are acknowledged and each client has made `steps` more steps."""
        acked, made = self.acked + acks, [client.steps + steps for client in self.clients]

        def done() -> bool:
            self.raise_failure()
            return self.acked >= acked and all(
                client.steps >= least for client, least in zip(self.clients, made, strict=True)
            )

        try:
            until(done, f"{acks} more acknowledged records and {steps} steps", TIMEOUT_S)
        except AssertionError as error:
            frames = sys._current_frames()
            behind = [
                f"{client.name} at {traceback.format_stack(frames[client.ident])[-1].strip()}"
                for client, least in zip(self.clients, made, strict=True)
                if client.steps < least and client.ident in frames
            ]
            raise AssertionError(f"{error}; {self.acked - acked + acks} came; too slow: {behind}") from error

    def kill_broker(self) -> None:
        """Kill the broker as in a crash, and restart it on the same port and data."""
        self.kills += 1
        self.end_broker()
        self.recorder.add(Crash("broker"))
        self.broker.restart()

    def end_broker(self) -> None:
        """End the broker by SIGKILL."""
        self.broker.kill()

    def raise_failure(self) -> None:
        for client in self.clients:
            if client.failure is not None:
                raise AssertionError(f"{client.name} failed: {client.failure!r}") from client.failure

    def finish(self) -> None:
        """End the clients and all transactions, then read everything at each isolation level."""
        self.over.set()
        for client in self.clients:
            client.join(2 * TIMEOUT_S)
            self.raise_failure()
            assert not client.is_alive(), f"{client.name} did not end"
        ends = until(self.stable_ends, "the last stable offset to reach the end", TIMEOUT_S)
        for committed in (False, True):
            self.read_all(f"last-{committed}", ends, committed=committed)

    def stable_ends(self) -> dict[Place, int] | None:
        """The end offsets of the partitions; None while a transaction is open or its markers are being written."""
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        asked = {TopicPartition(*place): OffsetSpec.latest() for place in self.places}
        found = [
            {
                (place.topic, place.partition): result.result(TIMEOUT_S).offset
                for place, result in admin.list_offsets(asked, isolation_level=level).items()
            }
            for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        ]
        return found[0] if found[0] == found[1] else None

    def read_all(self, name: str, ends: dict[Place, int], *, committed: bool) -> None:
        consumer = self.consumer(name, committed=committed, enable_partition_eof=True)
        self.recorder.add(Assign(name, committed, dict.fromkeys(ends, 0)))
        consumer.assign([TopicPartition(*place, 0) for place in ends])
        at_end: set[Place] = {place for place, end in ends.items() if end == 0}
        deadline = time.monotonic() + TIMEOUT_S
        while len(at_end) < len(ends):
            assert time.monotonic() < deadline, f"{name} did not come to the end: {at_end} of {ends}"
            at_end |= poll(self, name, consumer, 500, {}, {})
        close_consumer(consumer)
