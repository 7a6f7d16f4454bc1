"""The `raw` driver of a workload with `[transactions]`: one producer that sends a request after each response.

A transaction is one Produce request with a batch for every partition, encoded in advance and stamped with the epoch
that the end of the previous transaction returned (bench.wire.transactional), then EndTxn. If the target answers that it
is not ready (the previous transaction is still being ended, or no producer id is available), the same request is sent
again immediately, as often as necessary: this time is part of the transaction's time, and each such response is
counted. Any other error code ends the run.

After each run every transaction must be decided: the last stable offset of each partition is its end offset, and not
below the end of the acknowledged records.
"""

import itertools
import math
import time
from collections.abc import Callable
from threading import Event
from typing import TypeVar

from bench.drivers.base import SAMPLE_S, DriverError, DriverResult, Sample
from bench.measuring.histogram import Histogram
from bench.spec.workload import NEW_IDS, Transactions, Workload
from bench.wire import batches
from bench.wire.framing import frame
from bench.wire.protocol import Client, ProtocolError, check
from bench.wire.transactional import (
    INIT_PRODUCER_ID,
    INIT_PRODUCER_ID_VERSION,
    NOBODY,
    NOT_YET,
    Connection,
    EndFrame,
    ProduceFrame,
    Producer,
    await_stable,
    coordinator,
    init_body,
    init_producer,
    producer_of,
)

FRAMES = 16  # distinct Produce requests, sent in turn
STUCK_S = 30.0  # in which the target only answers that a transaction is being ended
NS = 1_000_000_000
Address = tuple[str, int]
T = TypeVar("T")
_numbers = itertools.count(1)


class _Run:
    """The counts of one run so far, with its samples."""

    def __init__(self, seconds: float, on_sample: Callable[[Sample], None] | None, stop: Event | None) -> None:
        self.result = DriverResult()
        self.on_sample, self.stop = on_sample, stop
        self.interval = Histogram()
        self.reported = (0, 0, 0)
        self.cpu_s = time.thread_time()
        self.begun_ns = self.now_ns = time.monotonic_ns()
        self.end_ns = self.begun_ns + int(seconds * NS)
        self.next_ns = self.begun_ns + int(SAMPLE_S * NS)

    def goes_on(self) -> bool:
        return self.now_ns < self.end_ns and not (self.stop is not None and self.stop.is_set())

    def done(self, begun_ns: int, now_ns: int) -> None:
        """Add the latency of an operation that is complete and counted."""
        self.now_ns = now_ns
        self.interval.add(self.now_ns - begun_ns)
        if self.now_ns >= self.next_ns:
            self._sample()
            self.next_ns += int(SAMPLE_S * NS)

    def finish(self) -> DriverResult:
        self.result.seconds = (self.now_ns - self.begun_ns) / NS
        self.result.cpu_s = time.thread_time() - self.cpu_s
        if self.interval.count:
            self._sample()
        return self.result

    def _sample(self) -> None:
        found = self.result
        counts = (found.records, found.bytes, found.requests)
        records, size, requests = (now - before for now, before in zip(counts, self.reported, strict=True))
        t_s = (self.now_ns - self.begun_ns) / NS
        found.samples.append(Sample(t_s, records, size, requests, 0, self.interval))
        found.latency.merge(self.interval)
        self.reported, self.interval = counts, Histogram()
        if self.on_sample is not None:
            self.on_sample(found.samples[-1])


class _OneByOne:
    """Base class of both drivers: one connection, and errors that end a run."""

    def __init__(self, address: Address, topic: str, workload: Workload, answer_timeout_s: float = 30) -> None:
        assert workload.transactions is not None
        self.address, self.topic, self.workload = address, topic, workload
        self.asked: Transactions = workload.transactions
        self.answer_timeout_s = answer_timeout_s
        self.id = f"{topic}-{next(_numbers)}"
        self.connection: Connection | None = None

    def prepare(self) -> None:
        """Encode and connect; raises DriverError."""
        try:
            self._prepare(coordinator(self.address, self.id))
        except OSError as error:
            self.close()
            raise DriverError(f"cannot connect to {self.address[0]}:{self.address[1]}: {error}") from error

    def _prepare(self, at: Address) -> None:
        """Encode and connect, with the coordinator's address."""
        raise NotImplementedError

    def _turn(self, run: _Run) -> None:
        """Run one operation. Raises OSError, ProtocolError."""
        raise NotImplementedError

    def _after(self, run: _Run) -> None:
        """Check the result after the window. Raises OSError, ProtocolError."""

    def close(self) -> None:
        """Close the connection."""
        if self.connection is not None:
            self.connection.close()
        self.connection = None

    def run(
        self, seconds: float, on_sample: Callable[[Sample], None] | None = None, stop: Event | None = None
    ) -> DriverResult:
        """See LoadDriver."""
        if self.connection is None:
            raise DriverError("prepare was not called")
        run = _Run(seconds, on_sample, stop)
        error: Exception | None = None
        try:
            while run.goes_on():
                self._turn(run)
        except (OSError, ProtocolError) as caught:
            error = caught
        result = run.finish()
        try:
            if error is None:
                self._after(run)
        except (OSError, ProtocolError) as caught:
            error = caught
        if error is not None:
            result.errors += 1
            result.first_error = result.first_error or str(error) or type(error).__name__
        return result


def ask(run: _Run, connection: Connection, whole: bytearray, read: Callable[[bytes], tuple[int, T]], what: str) -> T:
    """Send a request until the target is ready; returns the response's content. Raises OSError, ProtocolError."""
    deadline = 0.0
    while True:
        code, reported = read(connection.call(whole))
        run.result.requests += 1
        if code not in NOT_YET:
            check(code, what)
            return reported
        run.result.retries += 1
        deadline = deadline or time.monotonic() + STUCK_S
        if time.monotonic() > deadline:
            check(code, f"{what}, for {STUCK_S:g} s")


class TransactionDriver(_OneByOne):
    """LoadDriver: transactions of one producer, one after the other."""

    def _prepare(self, at: Address) -> None:
        records, partitions = self.asked.records, self.workload.partitions
        sizes = [records // partitions + (partition < records % partitions) for partition in range(partitions)]
        pool = [batches.of_records(self.workload, size, seed) for seed, size in enumerate(sizes * FRAMES, 1)]
        parts = [pool[place : place + partitions] for place in range(0, len(pool), partitions)]
        names = [f"{self.id}-{number}" for number in range(self.asked.ids)]
        # Batches and ids are both used in turn, so that each id has separate frames.
        count = math.lcm(FRAMES, len(names)) if len(names) < FRAMES else len(names)
        self.frames = [
            ProduceFrame(self.topic, names[number % len(names)], parts[number % FRAMES]) for number in range(count)
        ]
        self.ends = [EndFrame(name) for name in names]
        self.number = 0
        self.next_offsets = dict.fromkeys(range(partitions), 0)
        with Client(at, self.answer_timeout_s) as client:
            self.producers = [init_producer(client, name) for name in names]
        self.connection = Connection(self.address, self.answer_timeout_s)
        self.ending = self.connection if at == self.address else Connection(at, self.answer_timeout_s)

    def close(self) -> None:
        """Close the connections."""
        if self.connection is not None and self.ending is not self.connection:
            self.ending.close()
        super().close()

    def _turn(self, run: _Run) -> None:
        assert self.connection is not None
        made = self.frames[self.number % len(self.frames)]
        mine = self.number % len(self.producers)
        before, end = self.producers[mine], self.ends[mine]
        share, self.number = self.asked.aborted, self.number + 1
        committed = math.floor(self.number * share) == math.floor((self.number - 1) * share)
        made.stamp(before)
        begun_ns = time.monotonic_ns()
        offsets = ask(run, self.connection, made.frame, made.offsets, "Produce")
        end.stamp(before, committed)
        ending_ns = time.monotonic_ns()
        producer = ask(run, self.ending, end.frame, _ended, "EndTxn")
        ended_ns = time.monotonic_ns()
        if producer == before:
            raise ProtocolError(f"EndTxn v5 left the epoch at {producer.epoch} (needed: transaction.version 2)")
        self.producers[mine] = producer
        for partition, offset in offsets.items():
            if offset < self.next_offsets[partition]:
                due = self.next_offsets[partition]
                raise ProtocolError(f"base offset {offset} of partition {partition}, but {due} was expected")
            self.next_offsets[partition] = offset + made.parts[partition].records
        run.result.transactions += 1
        run.result.records += made.records
        run.result.bytes += made.batch_bytes
        run.result.commit.add(ended_ns - ending_ns)
        run.done(begun_ns, ended_ns)

    def _after(self, run: _Run) -> None:
        with Client(self.address, self.answer_timeout_s) as client:
            ends = await_stable(client, self.topic, self.workload.partitions)
        missing = sum(max(0, due - ends[partition]) for partition, due in self.next_offsets.items())
        if missing:
            run.result.errors += missing
            run.result.first_error = f"{missing} records acknowledged, but the log ends before them"


def _ended(answer: bytes) -> tuple[int, Producer]:
    return producer_of(answer, "EndTxn")


class StartDriver(_OneByOne):
    """LoadDriver: InitProducerId for one transactional id after the other, either new or known already."""

    def _prepare(self, at: Address) -> None:
        self.number = 0
        self.ids = 0 if self.asked.measure == NEW_IDS else self.asked.ids  # 0: each one is new
        self.known: dict[int, Producer] = {}
        self.given: set[int] = set()
        name = self._name(0)
        self.frame = bytearray(frame(INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, init_body(name)))
        self.name_at = self.frame.index(name.encode())
        with Client(at, self.answer_timeout_s) as client:
            for number in range(self.ids):
                self.known[number] = init_producer(client, self._name(number))
        self.connection = Connection(at, self.answer_timeout_s)

    def _name(self, number: int) -> str:
        return f"{self.id}-{number:012}"

    def _turn(self, run: _Run) -> None:
        assert self.connection is not None
        number = self.number % self.ids if self.ids else self.number
        name = self._name(number).encode()
        self.number += 1
        self.frame[self.name_at : self.name_at + len(name)] = name
        begun_ns = time.monotonic_ns()
        producer = ask(run, self.connection, self.frame, _started, "InitProducerId")
        ended_ns = time.monotonic_ns()
        before = self.known.get(number)
        if before is None:
            sound = producer.epoch == 0 and producer.id not in self.given
            self.given.add(producer.id)
        else:  # the next epoch, or another producer id after the last epoch
            sound = producer.epoch == before.epoch + 1 if producer.id == before.id else producer.epoch == 0
            self.known[number] = producer
        run.result.starts += 1
        run.done(begun_ns, ended_ns)
        if not sound:
            raise ProtocolError(f"InitProducerId returned {producer} for {name.decode()}, which had {before or NOBODY}")


def _started(answer: bytes) -> tuple[int, Producer]:
    return producer_of(answer, "InitProducerId")
