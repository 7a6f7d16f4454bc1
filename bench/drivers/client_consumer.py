"""A consumer process: a member of one group that follows producers live, or reads the existing records repeatedly."""

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Message, TopicPartition

from bench.drivers.base import DriverResult, Sample
from bench.drivers.client_parts import NS, ClientError, ClientSpec, Control, Requests, Sampler, partitions_of
from bench.drivers.deliveries import Arrivals
from bench.measuring.histogram import Histogram

POLL_S = 0.02
TAKE_RECORDS = 1000  # at most at once: they get the same time of arrival
ANSWER_TIMEOUT_S = 10.0
FLOW_S = 2.0  # wait for the first record of a reader; without one, the window begins anyway
RECEIVE_BYTES_MIN = 50 << 20  # librdkafka's own fetch.max.bytes


class ConsumerClient:
    """A consumer: created once and polled by `idle` until it has partitions; `run` may be called repeatedly."""

    def __init__(self, spec: ClientSpec, on_assigned: Callable[[int], None]) -> None:
        self.spec = spec
        self.live = spec.workload.producers > 0
        self._on_assigned = on_assigned
        self._arrivals: Arrivals | None = None
        self._last_ns = 0  # when the last records arrived
        self._came = False  # whether a record has arrived since _await_flow
        self._begun = False  # the first run has begun: the group continues at its committed offsets
        self._bounds: dict[int, tuple[int, int]] = {}  # start and end offset of each partition when it was assigned
        self._requests = Requests("Fetch")
        self._requests.on_outage = self._fail
        try:
            self._consumer = Consumer({**self._requests.settings(), **self._settings()})
        except KafkaException as error:
            raise ClientError(f"librdkafka refuses the workload's settings: {error.args[0].str()}") from error
        self.partitions = partitions_of(self._consumer, spec.topic)
        self._consumer.subscribe([spec.topic], on_assign=self._assigned, on_revoke=self._revoked)

    def _settings(self) -> dict[str, Any]:
        workload = self.spec.workload
        fetch_max_bytes = max(RECEIVE_BYTES_MIN, workload.fetch_bytes)
        return {
            **self.spec.security,
            "bootstrap.servers": self.spec.bootstrap,
            "group.id": self.spec.group,
            "auto.offset.reset": "earliest",
            "isolation.level": workload.isolation,
            "enable.partition.eof": not self.live,
            # A reader of existing records detects a partition's end by an empty response, which must not be delayed.
            "fetch.wait.max.ms": 500 if self.live else 1,
            "max.partition.fetch.bytes": workload.fetch_bytes,
            "fetch.max.bytes": fetch_max_bytes,
            "receive.message.max.bytes": fetch_max_bytes + (1 << 20),
            # librdkafka's default, one second after each time the queue is full, would be measured, not the target.
            "fetch.queue.backoff.ms": 5,
        }

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def idle(self) -> None:
        """Take part in the group's rebalances between runs; records that arrive now belong to no run."""
        self._rewind(self._take(0.0, 1))

    def run(
        self, start_ns: int, seconds: float, control: Control, send_sample: Callable[[Sample], None]
    ) -> tuple[DriverResult, int]:
        """Measure one window; returns the result, and how many records arrived in the window and after it."""
        self._begun = True
        if not self.live:
            start_ns = max(start_ns, self._await_flow(control))
        arrivals = self._arrivals = Arrivals(self.spec.stamps, self.spec.key_bytes)
        sent_before = self._requests.sent
        self._requests.last_error = None
        cpu_s = time.process_time()
        while (left_ns := start_ns - time.monotonic_ns()) > 0:
            time.sleep(left_ns / NS)
        end_ns = start_ns + int(seconds * NS)
        sampler = Sampler(start_ns, send_sample)

        def sample(last: bool = False) -> None:
            requests = self._requests.sent - sent_before
            done = (arrivals.records, arrivals.bytes)
            # With concurrent producers, records and requests are those of the producers.
            counters = (0, 0, 0, arrivals.errors, *done) if self.live else (*done, requests, arrivals.errors, 0, 0)
            sampler.take(counters, Histogram(), last)

        while not control.look() and (control.finish is False if self.live else time.monotonic_ns() < end_ns):
            self._rewind(self._take(POLL_S, TAKE_RECORDS))
            if sampler.due():
                sample()
        ended_ns = time.monotonic_ns()
        self._pause(True)
        if not self.live and not arrivals.records and not control.stop:
            self._fail(f"no record arrived within {seconds:g} s")
        if self.live and not control.stop:
            self._drain(seconds + self.spec.flush_s, control)
        records, size = arrivals.records, arrivals.bytes
        cpu_s = time.process_time() - cpu_s
        sample(last=True)
        self._arrivals = None
        result = DriverResult(
            errors=arrivals.errors,
            first_error=arrivals.first_error,
            end_to_end=arrivals.end_to_end if self.live else None,
            consumed_records=records,
            consumed_bytes=size,
            consumed_s=max(0.0, (self._last_ns - start_ns) / NS) if self.live else 0.0,
            cpu_s=cpu_s,
        )
        if not self.live:
            result.records, result.bytes = records, size
            result.requests = self._requests.sent - sent_before
            result.seconds = (ended_ns - start_ns) / NS
        return result, records

    def _await_flow(self, control: Control) -> int:
        """Resume fetching; returns when the first records arrived, which are not counted.

        librdkafka itself takes up to a second to resume, which is not the target's time.
        """
        self._pause(False)
        deadline = time.monotonic() + FLOW_S
        self._came = False
        while not self._came and time.monotonic() < deadline and not control.look():
            self._rewind(self._take(POLL_S, TAKE_RECORDS))
        return time.monotonic_ns()

    def _take(self, wait_s: float, most: int) -> list[int]:
        """Wait for a record, count those that are available, and return the partitions whose end was reached.

        consume() alone would wait for `most` records, and so add to the latency of each.
        """
        first: Message | None = self._consumer.poll(wait_s)
        if first is None:
            return []
        self._came |= first.error() is None
        self._last_ns = time.monotonic_ns()
        messages = [first, *(self._consumer.consume(most - 1, 0) if most > 1 else ())]
        if self._arrivals is not None:
            return self._arrivals.take(messages)
        ended = (m for m in messages if (error := m.error()) and error.code() == KafkaError._PARTITION_EOF)
        return [partition for m in ended if (partition := m.partition()) is not None]

    def _rewind(self, ended: list[int]) -> None:
        """Start over with partitions that were read to their end."""
        for partition in ended:
            low, high = self._bounds.get(partition, (0, 0))
            if low < high:
                self._consumer.seek(TopicPartition(self.spec.topic, partition, low))

    def _drain(self, timeout_s: float, control: Control) -> None:
        """Consume the remaining records of the producers, up to the end of each partition. Missing records count as
        errors in the parent, which compares the sums."""
        deadline = time.monotonic() + timeout_s
        try:
            assigned = self._consumer.assignment()
            ends = {at.partition: self._consumer.get_watermark_offsets(at, ANSWER_TIMEOUT_S)[1] for at in assigned}
            while time.monotonic() < deadline and not control.look():
                positions = {at.partition: at.offset for at in self._consumer.position(assigned)}
                if all(self._position(positions, p) >= end for p, end in ends.items()):
                    return
                self._take(POLL_S, TAKE_RECORDS)
        except KafkaException as error:
            self._fail(f"consumer: {error.args[0].str()}")

    def _position(self, positions: dict[int, int], partition: int) -> int:
        """Return the next offset of a partition, also before its first record."""
        offset = positions.get(partition, OFFSET_INVALID)
        return offset if offset >= 0 else self._bounds.get(partition, (0, 0))[1]

    def _pause(self, paused: bool) -> None:
        """Pause or resume readers of existing records: a run would count what was fetched before it."""
        if self.live:
            return
        assigned = self._consumer.assignment()
        (self._consumer.pause if paused else self._consumer.resume)(assigned)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if not self._begun:
            for at in partitions:
                low, high = consumer.get_watermark_offsets(at, ANSWER_TIMEOUT_S)
                self._bounds[at.partition] = low, high
                at.offset = high if self.live else low
            consumer.assign(partitions)
            self._pause(True)
        self._on_assigned(len(partitions))

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._on_assigned(0)

    def _fail(self, text: str) -> None:
        if self._arrivals is not None:
            self._arrivals.fail(text)
