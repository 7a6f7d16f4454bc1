"""A producer process: hands records over in batches, in a closed loop or on a schedule, and times acknowledgements."""

import itertools
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException, Producer

from bench.drivers import payload
from bench.drivers.base import DriverResult, Sample
from bench.drivers.client_parts import NS, ClientError, ClientSpec, Control, Requests, Sampler, partitions_of
from bench.drivers.deliveries import Deliveries, Delivery, mark, stamp_all
from bench.drivers.schedule import Schedule
from bench.measuring.histogram import Histogram

HAND_OVER_RECORDS = 1000  # at most at once: reports that wait for a hand-over to end are timed that much later
HAND_OVER_BYTES = 256 << 10
NAP_S = 0.0005  # minimum between two hand-overs of a schedule: one wake-up per record would measure the wake-ups
QUEUED_RECORDS = 100_000  # not yet acknowledged; librdkafka's own default
QUEUED_BYTES = 32 << 20  # buffer.memory of Kafka's own producer
POLL_S = 0.005
STOP_FLUSH_S = 0.25  # for outstanding records when the run is stopped
PURGE_S = 1.0
MESSAGE_TIMEOUT_MS = 30_000  # in addition to linger: a target that does not answer for this long has failed
SEED = 4


class ProducerClient:
    """A producer: created once; `run` may be called repeatedly."""

    def __init__(self, spec: ClientSpec) -> None:
        self.spec = spec
        workload = spec.workload
        values = payload.values(workload, SEED + spec.index)
        self._mean_bytes = sum(map(len, values)) / len(values) + spec.key_bytes
        self._keys = payload.keys(workload, SEED + spec.index)
        self._messages: list[dict[str, Any]] = [{"value": value} for value in values]
        self._at = 0
        self._queued_max = int(
            max(4, min(QUEUED_RECORDS, max(QUEUED_BYTES, 4 * workload.batch_bytes) / self._mean_bytes))
        )
        self._hand_over = int(max(1, min(HAND_OVER_RECORDS, HAND_OVER_BYTES / self._mean_bytes, self._queued_max // 4)))
        self._requests = Requests("Produce")
        largest = max(map(len, values)) + spec.key_bytes
        try:
            self._producer = Producer({**self._requests.settings(), **self._settings(largest)})
        except KafkaException as error:
            raise ClientError(f"librdkafka refuses the workload's settings: {error.args[0].str()}") from error
        self.partitions = partitions_of(self._producer, spec.topic)

    def _settings(self, largest_bytes: int) -> dict[str, Any]:
        workload = self.spec.workload
        linger_ms = workload.linger_s * 1000
        return {
            **self.spec.security,
            "bootstrap.servers": self.spec.bootstrap,
            "acks": workload.acks,
            "compression.codec": workload.codec,
            "batch.size": workload.batch_bytes,
            "batch.num.messages": 1_000_000,  # the maximum: only the size ends a batch, as in Kafka's own producer
            "linger.ms": linger_ms,
            "enable.idempotence": workload.idempotent,
            "max.in.flight.requests.per.connection": workload.in_flight,
            "message.max.bytes": max(1_000_000, workload.batch_bytes, largest_bytes + 1024),
            "message.timeout.ms": int(MESSAGE_TIMEOUT_MS + linger_ms),
            # Never reached: the queue is bounded here, before the hand-over.
            "queue.buffering.max.messages": 2 * self._queued_max,
            "queue.buffering.max.kbytes": 1 << 21,
        }

    def close(self) -> None:
        """Drop the queued records."""
        self._producer.purge()

    def run(
        self, start_ns: int, seconds: float, control: Control, send_sample: Callable[[Sample], None]
    ) -> tuple[DriverResult, int]:
        """Measure one window; the second value is only used for consumers."""
        return _Run(self, start_ns, seconds, control, send_sample).result(), 0

    def take(self, count: int) -> list[dict[str, Any]]:
        """Return the next `count` messages of the pool, or fewer at its end."""
        messages = self._messages[self._at : self._at + count]
        self._at = (self._at + len(messages)) % len(self._messages)
        if self._keys is not None:
            for message, key in zip(messages, itertools.islice(self._keys, len(messages)), strict=True):
                message["key"] = key
        return messages


class _Run:
    """One window of one producer."""

    def __init__(
        self,
        client: ProducerClient,
        start_ns: int,
        seconds: float,
        control: Control,
        send_sample: Callable[[Sample], None],
    ) -> None:
        self.client, self.control = client, control
        self.start_ns, self.seconds = start_ns, seconds
        self.producer, self.requests = client._producer, client._requests
        self.deliveries = Deliveries(client.spec.key_bytes)
        self.latency, self.lateness = Histogram(), Histogram()
        self.handed = 0
        self.refused = 0  # never handed over
        self.first_refusal: str | None = None
        self.purged = 0  # errors of the deliveries that our own purge caused
        self.sent_before = self.requests.sent
        self.sampler = Sampler(start_ns, send_sample)

    def result(self) -> DriverResult:
        cpu_s = time.process_time()
        self.requests.last_error = None
        while (left_ns := self.start_ns - time.monotonic_ns()) > 0:
            time.sleep(left_ns / NS)
        if self.client.spec.workload.rate.unlimited:
            self._closed_loop()
        else:
            self._open_loop()
        self._flush()
        ended_ns = time.monotonic_ns()
        cpu_s = time.process_time() - cpu_s
        self._purge()
        self._await_statistics()
        self._sample(last=True)
        done = self.deliveries
        return DriverResult(
            records=done.acked,
            bytes=done.acked_bytes,
            requests=self.requests.sent - self.sent_before,
            errors=self.errors,
            first_error=(self.first_refusal or done.first_error) if self.errors else None,
            seconds=(ended_ns - self.start_ns) / NS,
            latency=self.latency,
            lateness=self.lateness,
            cpu_s=cpu_s,
        )

    @property
    def outstanding(self) -> int:
        """Number of records that were handed over and have no report yet."""
        return self.handed - self.deliveries.acked - self.deliveries.errors

    @property
    def errors(self) -> int:
        return self.deliveries.errors - self.purged + self.refused

    def _closed_loop(self) -> None:
        client, topic = self.client, self.client.spec.topic
        end_ns = self.start_ns + int(self.seconds * NS)
        size = client._hand_over
        while not self.control.look() and (now := time.monotonic_ns()) < end_ns and not self.refused:
            self._sample_when_due()
            if self.outstanding + size > client._queued_max:
                self.producer.poll(POLL_S)
                continue
            messages = client.take(size)
            if client.spec.stamps:
                stamp_all(messages, now)
            self._handed(
                messages, self.producer.produce_batch(topic, messages, on_delivery=Delivery(self.deliveries, now))
            )
            self.producer.poll(0)

    def _open_loop(self) -> None:
        client, spec = self.client, self.client.spec
        schedule = Schedule.of(spec.workload.rate, client._mean_bytes, spec.workload.producers, spec.index)
        total = schedule.due_by(self.seconds)
        while self.handed < total and not self.control.look() and not self.refused:
            self._sample_when_due()
            elapsed_s = (time.monotonic_ns() - self.start_ns) / NS
            room = client._queued_max - self.outstanding
            count = min(schedule.due_by(elapsed_s), total) - self.handed
            if room <= 0:
                # Records that become due now are late, and their latency counts from their due time.
                if elapsed_s > self.seconds + spec.flush_s:
                    self._refuse(
                        total - self.handed, f"due, but the queue was full for {spec.flush_s:g} s after the end"
                    )
                self.producer.poll(POLL_S)
            elif count > 0:
                self._hand_over_due(schedule, min(count, room, client._hand_over))
            else:
                self._wait(schedule.due_s(self.handed) - elapsed_s)

    def _hand_over_due(self, schedule: Schedule, count: int) -> None:
        client = self.client
        messages = client.take(count)
        due_ns = [
            self.start_ns + int(schedule.due_s(number) * NS)
            for number in range(self.handed, self.handed + len(messages))
        ]
        mark(messages, due_ns, self.deliveries, client.spec.stamps)
        now_ns = time.monotonic_ns()
        for due in due_ns:
            self.lateness.add(now_ns - due)
        self._handed(messages, self.producer.produce_batch(client.spec.topic, messages))
        self.producer.poll(0)

    def _wait(self, left_s: float) -> None:
        """Wait for the next due record and handle acknowledgements; librdkafka itself waits in whole milliseconds."""
        if left_s >= 0.002:
            self.producer.poll(min(left_s - 0.001, POLL_S))
        else:
            time.sleep(max(left_s, NAP_S))
            self.producer.poll(0)

    def _handed(self, messages: list[dict[str, Any]], count: int) -> None:
        """Count the records that librdkafka accepted, and those that it refused."""
        self.handed += count
        if count < len(messages):
            errors = [message["_error"] for message in messages if message.get("_error") is not None]
            self._refuse(len(messages) - count, f"refused by librdkafka: {errors[0] if errors else 'no reason given'}")

    def _refuse(self, count: int, why: str) -> None:
        self.refused += count
        self.first_refusal = self.first_refusal or f"{count} records {why}"

    def _flush(self) -> None:
        """Wait for outstanding records."""
        deadline = time.monotonic() + self.client.spec.flush_s
        while self.outstanding and (left_s := deadline - time.monotonic()) > 0:
            self.producer.flush(min(left_s, 0.02))
            self._sample_when_due()
            if self.control.look():
                deadline = min(deadline, time.monotonic() + STOP_FLUSH_S)

    def _purge(self) -> None:
        """Purge unacknowledged records, so that no later run counts them. They are errors unless it was stopped."""
        if not self.outstanding:
            return
        before = self.deliveries.errors
        self.producer.purge()
        self.producer.flush(PURGE_S)
        self.purged = self.deliveries.errors - before  # each has its report, which says only that it was purged
        lost = self.purged + self.outstanding
        if lost and not self.control.stop:
            because = f" ({self.requests.last_error})" if self.requests.last_error else ""
            self._refuse(lost, f"not acknowledged within {self.client.spec.flush_s:g} s after the window{because}")

    def _await_statistics(self) -> None:
        """Wait until librdkafka has reported how many requests it sent."""
        if self.control.stop:
            return
        reports, deadline = self.requests.reports, time.monotonic() + 0.3
        while self.requests.reports == reports and time.monotonic() < deadline:
            self.producer.poll(0.02)

    def _sample_when_due(self) -> None:
        if self.sampler.due():
            self._sample()

    def _sample(self, last: bool = False) -> None:
        done, latency = self.deliveries, self.deliveries.take_latency()
        self.latency.merge(latency)
        requests = self.requests.sent - self.sent_before
        self.sampler.take((done.acked, done.acked_bytes, requests, self.errors, 0, 0), latency, last)
