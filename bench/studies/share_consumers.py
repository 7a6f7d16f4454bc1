"""Share consuming of 1 KB records (KIP-932), beside Apache Kafka 4.3.1: `python -m bench.studies.share_consumers`.

Both brokers run at the same time, and are measured in turns. Their share consumers are those of `share_members` in this
process; `perf` has the rate of Kafka's ShareConsumerPerformance instead, whose JVM starts during its figure. `cpu_s` is
the CPU of the broker for a million records that are delivered and acknowledged. The latency is that of a fixed rate,
from the time at which a record was due to be sent until it was fetched.
"""

from __future__ import annotations

import argparse
import contextlib
import selectors
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.launch import kafka_dist
from bench.measuring import proc
from bench.spec.target import BROKER_SETTINGS
from bench.studies.goals import Figures, Goals, check, measure, parser
from bench.studies.heartbeats import find_coordinator
from bench.studies.peers import warm
from bench.studies.share_members import Members
from bench.targets.brokers import BrokerCy, Kafka, Spawned, TargetError
from bench.wire import protocol
from broker_cy.share import acknowledging, acquiring
from broker_cy.share.read_batches import ReadBatches
from broker_cy.share.share_partition import SharePartition

PROGRAM = "bench.studies.share_consumers"
PARTITIONS, MEMBERS = 4, 8
VALUE_BYTES, BATCH_BYTES = 1024, 16 << 10  # the default batch.size of producers
RECORDS, PAIRS, RATE, LATENCY_S = 100_000, 3, 1_000, 6.0
COUNTED = 0.95  # of the records: at the end of the topic, members wait for each other
WARM_MAX = 8
WARM_LATENCY_S = 2.0
RUNS = 1_000  # in flight at a time, for the memory of each
PERF_CLASS = "org.apache.kafka.tools.ShareConsumerPerformance"
PERF_RATE = 4  # the column of its records per second
GROUP_RESOURCE, INCREMENTAL_ALTER_CONFIGS, SET = 32, 44, 0
SETTINGS = {**BROKER_SETTINGS, "offsets.topic.num.partitions": "1", "share.coordinator.state.topic.num.partitions": "1"}
GOALS = Goals(at_least={"rate_ratio": 2.0}, at_most={"cpu_ratio": 0.4, "p99_ratio": 1.0, "ours_bytes_per_run": 100.0})
Pair = dict[str, Spawned]


class Study:
    """Both brokers, each with a topic of records; each measurement has a group of its own."""

    def __init__(self, brokers: Pair, given: argparse.Namespace) -> None:
        self.brokers, self.given = brokers, given
        self._groups = 0
        _, self.batch_records = protocol.largest_batch(VALUE_BYTES, BATCH_BYTES)
        self.records = 0

    def fill(self) -> None:
        batch = protocol.record_batch(VALUE_BYTES, self.batch_records)
        each = self.given.records // (self.batch_records * PARTITIONS)
        self.records = each * self.batch_records * PARTITIONS
        for broker in self.brokers.values():
            with protocol.Client(broker.address) as client:
                client.create_topic("filled", PARTITIONS, {})
                for index in range(PARTITIONS):
                    made = protocol.produce_request("filled", index, batch, self.batch_records)
                    client.produce_when_ready(made)
                    for _ in range(each - 1):
                        client.produce(made)
                find_coordinator(client, "first")

    def _group(self, broker: Spawned) -> str:
        """The name of a new group that begins at the start of a topic."""
        self._groups += 1
        group = f"group-{self._groups}"
        body = protocol.uvarint(2) + struct.pack(">b", GROUP_RESOURCE) + protocol.compact(group.encode())
        body += protocol.uvarint(2) + protocol.compact(b"share.auto.offset.reset") + struct.pack(">b", SET)
        body += protocol.compact(b"earliest") + b"\0\0\0\0"
        with protocol.Client(broker.address) as client:
            reader = client.call(INCREMENTAL_ALTER_CONFIGS, 1, body)
            reader.take(4)
            reader.uvarint()
            protocol.check(reader.number(2), "IncrementalAlterConfigs of a group", reader.string())
        return group

    @contextlib.contextmanager
    def members(self, broker: Spawned, topic: str) -> Iterator[Members]:
        members = Members(broker.address, self._group(broker), topic, MEMBERS)
        try:
            members.join(MEMBERS)
            yield members
        finally:
            members.close()

    # ---- figures

    def window(self, broker: Spawned) -> tuple[float, float]:
        """(records/s, CPU seconds per million records) of one group that reads the topic from its beginning."""
        counted = int(self.records * COUNTED)
        with self.members(broker, "filled") as members:
            before, began_s = proc.usage(broker.pid), time.monotonic()
            members.begin()
            members.run(counted)
            lasted_s, cpu_s = time.monotonic() - began_s, proc.usage(broker.pid).cpu_s - before.cpu_s
            done = members.acknowledged
            members.end()
        return done / lasted_s, cpu_s / done * 1e6

    def warm(self, broker: Spawned) -> None:
        warm(lambda: self.window(broker)[0], WARM_MAX)

    def throughput(self) -> Figures:
        rates: dict[str, list[float]] = {side: [] for side in self.brokers}
        cpu: dict[str, list[float]] = {side: [] for side in self.brokers}
        resident = {side: proc.resident_bytes(broker.pid) for side, broker in self.brokers.items()}
        for broker in self.brokers.values():
            self.warm(broker)
        for _ in range(self.given.pairs):
            for side, broker in self.brokers.items():
                rate, cost_s = self.window(broker)
                rates[side].append(rate)
                cpu[side].append(cost_s)
        found: Figures = {}
        for side, broker in self.brokers.items():
            found[f"{side}_records_per_s"] = rates[side]
            found[f"{side}_cpu_s"] = cpu[side]
            found[f"{side}_resident_mb"] = (proc.resident_bytes(broker.pid) - resident[side]) / 1e6
        return found | ratios(found, "records_per_s", "rate_ratio") | ratios(found, "cpu_s", "cpu_ratio")

    def latency(self) -> Figures:
        found: Figures = {}
        latencies: dict[str, list[list[float]]] = {side: [] for side in self.brokers}
        for turn in range(self.given.pairs + 1):
            for side, broker in self.brokers.items():
                seconds = self.given.latency / self.given.pairs if turn else WARM_LATENCY_S
                broker.create_topic(topic := f"timed-{turn}", PARTITIONS)
                with self.members(broker, topic) as members:
                    # The share partitions are loaded once the records of `create_topic` have come.
                    members.begin()
                    members.run(PARTITIONS)
                    latencies[side].append(timed(broker, members, topic, self.given.rate, seconds))
        for side, turns in latencies.items():
            for name, share in (("p50", 50), ("p99", 99)):
                found[f"{side}_{name}_ms"] = [each[len(each) * share // 100] for each in turns[1:]]
        return found | ratios(found, "p99_ms", "p99_ratio")

    def perf(self) -> Figures:
        found: Figures = {}
        for side, broker in self.brokers.items():
            before = proc.usage(broker.pid)
            arguments = ("--bootstrap-server", f"{broker.address[0]}:{broker.address[1]}", "--topic", "filled")
            group = ("--group", self._group(broker), "--num-records", str(self.records))
            done = kafka_dist.run_tool(PERF_CLASS, *arguments, *group, "--timeout", "30000", "--hide-header")
            values = done.stdout.decode().strip().splitlines()[-1].split(", ")
            found[f"{side}_perf_records_per_s"] = float(values[PERF_RATE])
            found[f"{side}_perf_cpu_s"] = (proc.usage(broker.pid).cpu_s - before.cpu_s) / self.records * 1e6
        found |= ratios(found, "perf_records_per_s", "perf_rate_ratio")
        return found | ratios(found, "perf_cpu_s", "perf_cpu_ratio")


def ratios(found: Figures, figure: str, name: str) -> Figures:
    """The ratios of the pairs, ours to Kafka's; none if one was not measured."""
    ours, kafka = found.get(f"ours_{figure}"), found.get(f"kafka_{figure}")
    if isinstance(ours, list) and isinstance(kafka, list):
        return {name: [one / other for one, other in zip(ours, kafka, strict=True)]}
    return {name: ours / kafka} if isinstance(ours, float) and isinstance(kafka, float) else {}


def timed(broker: Spawned, members: Members, topic: str, rate: int, seconds: float) -> list[float]:
    """The latencies in milliseconds, in order, of records that are sent one by one at a fixed rate while the members
    fetch.
    """
    found: list[float] = []
    padding = bytes(VALUE_BYTES - 8)

    def arrived(data: bytes) -> None:
        now = time.monotonic()
        at = 0
        while at < len(data):
            size = 12 + struct.unpack_from(">i", data, at + 8)[0]
            for _, _, value in protocol.records_of(bytes(data[at : at + size])):
                found.append((now - struct.unpack_from(">d", value or b"")[0]) * 1000)
            at += size

    members.on_records = arrived
    with protocol.Client(broker.address) as client:
        members.selector.register(client.socket, selectors.EVENT_READ, None)
        due_s, end_s, sent = time.monotonic(), time.monotonic() + seconds, 0
        while due_s < end_s or len(found) < sent:
            now = time.monotonic()
            while due_s <= now and due_s < end_s:
                batch = protocol.batch_of(protocol.record(0, None, struct.pack(">d", due_s) + padding), 1)
                made = protocol.produce_request(topic, sent % PARTITIONS, batch, 1, acks=1)
                client.socket.sendall(made.frame)
                sent += 1
                due_s += 1 / rate
            if now > end_s + 10:
                raise TargetError(f"{len(found)} of {sent} records arrived within 10 s after the last one")
            ready = members.selector.select(max(0.0, min(due_s - now, 0.1)))
            members.serve(ready)
            if any(key.data is None for key, _ in ready):
                client.socket.recv(1 << 16)
        members.selector.unregister(client.socket)
        members.end()
    return sorted(found)


def memory() -> Figures:
    """The memory of a run in flight: each other record of a read is acknowledged, so that no two can be one run."""
    share = SharePartition(0)
    share.configure(30_000, 5, 2 * RUNS, False)
    share.begin()
    share.load(0, 0, [])
    acquiring.acquire(share, "member", False, 2 * RUNS, 2 * RUNS, 0, ReadBatches([(0, 2 * RUNS - 1)]), 0)
    acknowledging.acknowledge(share, "member", [(at, at, b"\1") for at in range(1, 2 * RUNS, 2)], 0)
    return {"ours_bytes_per_run": share.bytes_in_memory / len(share.in_flight())}


def main() -> int:
    """Measure and print the figures; returns exit code 3 if --strict was given and a goal was missed."""
    parts = ("throughput", "latency", "perf", "memory")
    made = parser(PROGRAM, __doc__, parts)
    shown = " (default: %(default)s)"
    made.add_argument("--on", default="ours,kafka", help=f"brokers to measure{shown}")
    made.add_argument("--records", type=int, default=RECORDS, help=f"records that a group reads{shown}")
    made.add_argument("--pairs", type=int, default=PAIRS, help=f"turns of each broker{shown}")
    made.add_argument("--rate", type=int, default=RATE, help=f"records/s while the latency is measured{shown}")
    made.add_argument("--latency", type=float, default=LATENCY_S, metavar="S", help=f"time of that{shown}")
    given = made.parse_args()
    check(made, given, parts, ("records", "pairs", "rate"))
    kinds = {"ours": BrokerCy, "kafka": Kafka}
    if unknown := set(given.on.split(",")) - set(kinds):
        made.error(f"--on {', '.join(sorted(unknown))}: unknown (allowed: {', '.join(kinds)})")
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="share-consumers-")))
        brokers: Pair = {side: kinds[side](place / side, SETTINGS) for side in given.on.split(",")}
        for broker in brokers.values():
            stack.enter_context(broker.running())
        study = Study(brokers, given)
        study.fill()
        work = {"throughput": study.throughput, "latency": study.latency, "perf": study.perf, "memory": memory}
        return measure(PROGRAM, given, GOALS, lambda part: work[part]())


if __name__ == "__main__":
    sys.exit(main())
