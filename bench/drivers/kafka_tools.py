"""Kafka's own performance tools as a driver, for figures that are widely known.

The tools report latency in whole milliseconds, measured from the send and not from the due time, as percentiles and not
as a histogram. The figures are therefore in `reported` (avg_ms, max_ms, p50_ms, p95_ms, p99_ms, p999_ms; the rates of a
consumer), and the histograms stay empty. The tools end after a number of records, not of seconds: that number is
computed from the rate or from the previous run. `cpu_s` includes the start of Java, which `seconds` does not.
"""

import math
import os
import re
import select
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import IO

from confluent_kafka import Consumer, KafkaException, TopicPartition

from bench.drivers.base import SAMPLE_S, DriverError, DriverResult, Sample
from bench.drivers.series import Series
from bench.launch import kafka_dist
from bench.measuring.histogram import Histogram
from bench.spec.workload import Workload
from bench.wire.endpoint import Endpoint, config_of, for_librdkafka
from broker_cy.launch.processes import ProcessError, die_with_parent

PROCESSES_MAX = 8
# The flags of kafka-producer-perf-test.sh and kafka-run-class.sh.
JVM_FLAGS = (
    "-Xmx512M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
)  # fmt: skip
PILOT_RECORDS = 20_000  # to measure the rate if there was no run before; then one second of that rate
TIMEOUT_S = 30.0  # of one record, or of one response
OVERDUE_S = 60.0  # in addition to what a run should take, to start Java and to give up on records
_COUNTED = (
    r"(\d+) records sent, ([\d.]+) records/sec \([\d.]+ MB/sec\), ([\d.]+) ms avg latency, ([\d.]+) ms max latency"
)
_INTERVAL = re.compile(_COUNTED + r"\.$")
_TOTAL = re.compile(_COUNTED + r", (\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th, (\d+) ms 99\.9th\.$")
_CONSUMED_FIELDS = 10


@dataclass
class _Tool:
    """One JVM and its output."""

    process: subprocess.Popen[bytes]
    stderr: IO[bytes]
    expected: int  # records
    result: DriverResult = field(default_factory=DriverResult)
    pending: bytes = b""
    sampled_s: float = 0.0
    sampled_records: int = 0
    finished: bool = False  # its last line was read
    note: str | None = None  # its message about missing records

    @property
    def output(self) -> IO[bytes]:
        assert self.process.stdout is not None  # _start gives it a pipe
        return self.process.stdout

    def words(self) -> str:
        """Return the first exception that it printed, or otherwise its note, its last line or its exit code."""
        self.stderr.seek(0)
        lines = self.stderr.read().decode(errors="replace").splitlines()
        wrong = [line.strip() for line in lines if "Exception" in line or "Error" in line]
        ended = f"it ended with {self.process.returncode}"
        return (wrong or ([self.note] if self.note else lines[-1:]) or [ended])[0][:300]


class KafkaToolsDriver:
    """See bench.drivers.base.LoadDriver. Producers, each a JVM, or a consumer that reads the existing records once."""

    def __init__(self, address: tuple[str, int], topic: str, workload: Workload) -> None:
        self.address, self.topic, self.workload = address, topic, workload
        self._rate = 0.0  # records/s of one producer in the previous run
        self._tools: list[_Tool] = []

    def prepare(self) -> None:
        """Download Kafka's classes (once on a machine, 55 MB). Raises DriverError if they or Java are not available."""
        self._check()
        if (sentence := kafka_dist.missing()) is not None:
            raise DriverError(sentence)
        try:
            kafka_dist.kafka_classpath()
        except ProcessError as error:
            raise DriverError(f"Kafka {kafka_dist.VERSION} could not be fetched by Maven: {error}") from error

    def run(
        self, seconds: float, on_sample: Callable[[Sample], None] | None = None, stop: Event | None = None
    ) -> DriverResult:
        """Send as many records as `seconds` should take, or consume all existing records. Raises DriverError."""
        stop = stop or Event()
        try:
            if not self.workload.producers:
                return self._run([self._available()], seconds, on_sample, stop)
            return self._run(self._counts(seconds, stop), seconds, on_sample, stop)
        finally:
            self.close()

    def close(self) -> None:
        """End the tools that still run."""
        tools, self._tools = self._tools, []
        for tool in tools:
            if tool.process.poll() is None:
                tool.process.kill()
            tool.process.wait()
            tool.output.close()
            tool.stderr.close()

    def _check(self) -> None:
        workload = self.workload
        refusals = {
            "producers and consumers": bool(workload.producers and workload.consumers),
            f"{workload.producers} producers (at most {PROCESSES_MAX})": workload.producers > PROCESSES_MAX,
            "more than one consumer": workload.consumers > 1,
            "records of more than one size": not workload.record_size.fixed,
            "keys": workload.producers > 0 and workload.keys > 0,
            f"entropy {workload.entropy:g} (its values are random letters)": workload.entropy != 1.0,
            "a ramp": workload.rate.start != workload.rate.end,
            "a rate of requests": not workload.rate.unlimited and workload.rate.unit == "requests",
            "a rate for a consumer": workload.producers == 0 and not workload.rate.unlimited,
        }
        if wrong := [text for text, is_so in refusals.items() if is_so]:
            raise DriverError(f"Kafka's own tools do not support: {', '.join(wrong)}")

    @property
    def _bootstrap(self) -> str:
        return Endpoint(*self.address).text

    @property
    def _security(self) -> tuple[str, ...]:
        path = config_of(self.address)
        return () if path is None else ("--command-config", str(path))

    def _record_rate(self) -> float:
        """Return the records per second of one producer; 0: as fast as possible."""
        rate = self.workload.rate
        per_record = self.workload.record_size.least if rate.unit == "bytes" else 1
        return rate.start / per_record / max(1, self.workload.producers)

    def _counts(self, seconds: float, stop: Event) -> list[int]:
        """Return the number of records of each producer for a run that takes about `seconds`."""
        producers = self.workload.producers
        if rate := self._record_rate():
            return [max(1, round(rate * seconds))] * producers
        if not self._rate:
            for _ in range(2):
                pilot = self._run([max(PILOT_RECORDS, math.ceil(self._rate))] * producers, 1.0, None, stop)
                self.close()
                if stop.is_set() or pilot.errors:
                    break
        return [max(PILOT_RECORDS, math.ceil(self._rate * seconds))] * producers

    def _available(self) -> int:
        """Return the number of records in the topic."""
        settings = {"bootstrap.servers": self._bootstrap, "group.id": "broker-bench", "log_level": 2}
        consumer = Consumer({**settings, **for_librdkafka(self.address)})
        count = 0
        try:
            for partition in range(self.workload.partitions):
                at = TopicPartition(self.topic, partition)
                low, high = consumer.get_watermark_offsets(at, TIMEOUT_S)
                count += high - low
        except KafkaException as error:
            raise DriverError(f"the offsets of topic {self.topic}: {error.args[0].str()}") from error
        finally:
            consumer.close()
        if not count:
            raise DriverError(f"topic {self.topic} has no records to consume")
        return count

    def _producer(self, count: int) -> list[str]:
        workload = self.workload
        record = workload.record_size.least
        properties = {
            "acks": workload.acks,
            "compression.type": workload.codec,
            "batch.size": workload.batch_bytes,
            "linger.ms": round(workload.linger_s * 1000),
            "max.in.flight.requests.per.connection": workload.in_flight,
            # Kafka's producer requires these settings to be idempotent.
            "enable.idempotence": str(workload.acks == "all" and workload.in_flight <= 5).lower(),
            "max.request.size": max(1 << 20, workload.batch_bytes + 1024, record + 1024),
            "buffer.memory": max(32 << 20, 4 * workload.batch_bytes, 4 * record),
            "request.timeout.ms": round(TIMEOUT_S * 500),
            "delivery.timeout.ms": round((TIMEOUT_S + workload.linger_s) * 1000),
            "max.block.ms": round(TIMEOUT_S * 1000),
        }
        return [
            "org.apache.kafka.tools.ProducerPerformance",
            *("--bootstrap-server", self._bootstrap, "--topic", self.topic, "--num-records", str(count)),
            *("--record-size", str(record), "--throughput", str(self._record_rate() or -1)),
            *(*self._security, "--reporting-interval", str(round(SAMPLE_S * 1000)), "--command-property"),
            *(f"{name}={value}" for name, value in properties.items()),
        ]

    def _consumer(self, count: int) -> list[str]:
        return [
            "org.apache.kafka.tools.ConsumerPerformance",
            *("--bootstrap-server", self._bootstrap, "--topic", self.topic, "--num-records", str(count)),
            *("--fetch-size", str(self.workload.fetch_bytes), "--group", f"broker-bench-{uuid.uuid4()}"),
            *("--timeout", str(round(TIMEOUT_S * 1000)), "--hide-header", *self._security),
        ]

    def _run(
        self, counts: list[int], seconds: float, on_sample: Callable[[Sample], None] | None, stop: Event
    ) -> DriverResult:
        producing = self.workload.producers > 0
        for count in counts:
            command = (self._producer if producing else self._consumer)(count)
            self._tools.append(_start([*kafka_dist.java(*JVM_FLAGS), *command], count))
        series = Series(len(counts), on_sample)
        deadline = time.monotonic() + 3 * seconds + OVERDUE_S
        running = dict(enumerate(self._tools))
        while running and not stop.is_set() and time.monotonic() < deadline:
            outputs = {tool.output.fileno(): number for number, tool in running.items()}
            for descriptor in select.select(list(outputs), [], [], 0.1)[0]:
                number = outputs[descriptor]
                if not self._read(running[number], number, series):
                    _reap(running.pop(number))
                    series.end(number)
        overdue = not stop.is_set()
        for number, tool in running.items():
            tool.process.kill()
            _reap(tool)
            series.end(number)
            if overdue:
                tool.note = f"it did not end within {3 * seconds + OVERDUE_S:g} s"
        result = DriverResult(processes=0)
        for tool in self._tools:
            _conclude(tool, stopped=stop.is_set())
            result.merge(tool.result)
        result.samples = series.samples()
        if producing and not result.errors and result.seconds and not stop.is_set():
            self._rate = result.records / result.seconds / len(counts)
        return result

    def _read(self, tool: _Tool, number: int, series: Series) -> bool:
        """Parse the output of the tool; returns False at its end."""
        part = os.read(tool.output.fileno(), 1 << 16)
        *lines, tool.pending = (tool.pending + part).split(b"\n")
        for line in lines:
            text = line.decode(errors="replace").strip()
            if (sample := self._reported(tool, text)) is not None:
                series.add(number, sample)
        return bool(part)

    def _reported(self, tool: _Tool, line: str) -> Sample | None:
        """Parse one line; returns its sample, or None."""
        record_bytes = self.workload.record_size.least
        result = tool.result
        if total := _TOTAL.search(line):
            result.records = int(total[1])
            result.bytes = result.records * record_bytes
            result.seconds = result.records / float(total[2]) if float(total[2]) else 0.0
            names = ("avg_ms", "max_ms", "p50_ms", "p95_ms", "p99_ms", "p999_ms")
            result.reported = {name: float(total[at]) for at, name in enumerate(names, start=3)}
            tool.finished = True
            rest = result.records - tool.sampled_records
            if rest <= 0:
                return None
            return Sample(max(result.seconds, tool.sampled_s), rest, rest * record_bytes, 0, 0, Histogram())
        if interval := _INTERVAL.search(line):
            records, rate = int(interval[1]), float(interval[2])
            if not records or not rate:
                return None
            tool.sampled_records += records
            tool.sampled_s += records / rate
            return Sample(tool.sampled_s, records, records * record_bytes, 0, 0, Histogram())
        if self.workload.producers == 0 and len(fields := line.split(", ")) == _CONSUMED_FIELDS:
            return _consumed(tool, [float(value) for value in fields[2:]])
        if "WARNING" in line:
            tool.note = line
        return None


def _consumed(tool: _Tool, fields: list[float]) -> Sample:
    """Parse ConsumerPerformance's one line: MiB, MiB/s, records, records/s, rebalance ms, fetch ms, and fetch rates."""
    mebibytes, _, records, _, rebalance_ms, fetch_ms, fetch_mib_per_s, fetch_records_per_s = fields
    result = tool.result
    result.records = result.consumed_records = int(records)
    result.bytes = result.consumed_bytes = round(mebibytes * (1 << 20))  # printed with four decimals: about 50 B off
    result.seconds = (
        fetch_ms / 1000
    )  # without waiting for the group, which is not the target's rate; it is in `reported`
    result.reported = {
        "rebalance_ms": rebalance_ms,
        "fetch_ms": fetch_ms,
        "fetch_mib_per_s": fetch_mib_per_s,
        "fetch_records_per_s": fetch_records_per_s,
    }
    tool.finished = True
    return Sample(result.seconds, result.records, result.bytes, 0, 0, Histogram())


def _start(command: list[str], expected: int) -> _Tool:
    """Start a tool in a separate process group, so that Ctrl-C only reaches this process, which then ends the tool."""
    stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  closed by KafkaToolsDriver.close
    try:
        process = subprocess.Popen(
            die_with_parent(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, process_group=0
        )
    except OSError as error:
        stderr.close()
        raise DriverError(f"{command[0]}: {error}") from error
    return _Tool(process, stderr, expected)


def _reap(tool: _Tool) -> None:
    """Wait until the tool ends, and add the CPU time that it used."""
    _, status, usage = os.wait4(tool.process.pid, 0)
    tool.process.returncode = os.waitstatus_to_exitcode(status)
    tool.result.cpu_s = usage.ru_utime + usage.ru_stime


def _conclude(tool: _Tool, stopped: bool) -> None:
    """Count missing records as errors, unless stopped; without a last line, use the sum of the intervals."""
    result = tool.result
    if not tool.finished:
        result.records, result.seconds = tool.sampled_records, tool.sampled_s
    if stopped:
        return
    result.errors = max(0, tool.expected - result.records)
    if tool.process.returncode and not result.errors:
        result.errors = 1
    if result.errors:
        result.first_error = f"{result.errors} of {tool.expected} records missing: {tool.words()}"
