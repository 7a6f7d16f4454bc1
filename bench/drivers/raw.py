"""The `raw` driver: sends and fetches pre-encoded batches over many connections, one thread per side without the GIL.

Producing: a closed loop with `in_flight` requests per connection, or the workload's schedule, whose requests go to the
connections in turn. Partitions are spread over the connections; with more connections than partitions, several share
one. In a cluster each producer and each consumer has a connection to every node that leads a partition, as Kafka's
clients have; the leaders are looked up once, in `prepare`. On a schedule, only the ring of a connection limits the
requests in flight (8,192, fewer with thousands of connections): a due request without room waits and keeps its due
time. With acks=0, a request counts when it is written to the socket, and there is no end-to-end latency because no
response has the base offsets.

Consuming with concurrent producers follows the log, starting at its end when a run begins; without producers, each run
repeatedly reads from the log's start to the end it found. With more consumers than partitions, several consumers read
the same partition, like different groups. End-to-end latency has one value for each batch.

`cpu_s` excludes the time in which the sending thread polled because the next request was due within microseconds.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Event

from bench.drivers.base import DriverError, DriverResult, Sample
from bench.measuring.histogram import Histogram
from bench.spec.workload import READ_COMMITTED, Workload
from bench.targets.brokers import raise_file_limit
from bench.wire import batches, protocol, transactional
from bench.wire.end_to_end import Arrivals, DueTimes
from bench.wire.protocol import Template
from bench.wire.raw import Driver, LoadError

ACKS = {"all": protocol.ACKS_ALL, "1": 1, "0": 0}
TEMPLATES_MAX = 1 << 16  # request frames of all connections; each partition of a connection has at least four
ROTATIONS_MAX = 8  # frames of a consumer, each with another partition first, because the first is served first
SPARE_FILES = 64
POLL_S = 0.02
CATCH_UP_S = 5.0  # acknowledged records are lost if no record arrives for this long
FOREVER_S = 30 * 24 * 3600.0
NO_LIMIT = 1 << 62
Address = tuple[str, int]
Leaders = Mapping[int, Address]  # where each partition is written and read
Share = tuple[Address, tuple[int, ...]]  # of a connection: its node, and its partitions
Interval = tuple[float, int, int, int, int, Histogram]  # the fields of a Sample


class RawDriver:
    """LoadDriver of `workload` on `topic`, which exists with all its partitions. Times and bounds: see the module."""

    def __init__(
        self,
        address: Address,
        topic: str,
        workload: Workload,
        answer_timeout_s: float = 30,
        leaders: Callable[[], Leaders] | None = None,
    ) -> None:
        self.address, self.topic, self.workload = address, topic, workload
        self.answer_timeout_s = answer_timeout_s
        self._find = leaders
        self.leaders: Leaders = dict.fromkeys(range(workload.partitions), address)
        self.producer: Driver | None = None
        self.consumer: Driver | None = None
        self.arrivals: Arrivals | None = None
        self.rate = (0.0, 0.0)  # requests per second at the beginning and at the end of the ramp

    def prepare(self) -> None:
        """Encode and connect; raises DriverError."""
        try:
            if self._find is not None:
                self.leaders = self._find()
            clients = self.workload.producers + self.workload.consumers
            wanted = clients * len(set(self.leaders.values())) + SPARE_FILES
            if (allowed := raise_file_limit(wanted)) < wanted:
                raise DriverError(f"{wanted} open files are needed, the system allows {allowed} (ulimit -n)")
            due_times = self._prepare_producer() if self.workload.producers else None
            if self.workload.consumers:
                self._prepare_consumer(due_times)
        except protocol.ProtocolError:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise DriverError(f"cannot connect to {self.address[0]}:{self.address[1]}: {error}") from error

    def _prepare_producer(self) -> DueTimes | None:
        """Create the producer; returns the due times for a consumer, or None if none needs them."""
        workload = self.workload
        shares = shares_of(workload.producers, self.leaders)
        plan = produce_plan(self.topic, workload, shares)
        self.rate = requests_per_s(workload, plan)
        least = min(template.records for templates in plan for template in templates)
        wanted = workload.consumers > 0 and workload.acks != "0"
        due_times = DueTimes(workload.partitions, least) if wanted else None
        self.producer = Driver(
            [address for address, _ in shares],
            plan,
            unanswered=workload.acks == "0",
            producers=self._producer_ids(len(shares)) if workload.idempotent else None,
            due_times=due_times,
            answer_timeout_s=self.answer_timeout_s,
        )
        return due_times

    def _producer_ids(self, connections: int) -> list[tuple[int, int]]:
        """Request a producer id and epoch for each connection."""
        with protocol.Client(self.address, self.answer_timeout_s) as client:
            return [transactional.init_producer(client) for _ in range(connections)]

    def _prepare_consumer(self, due_times: DueTimes | None) -> None:
        self.arrivals = None if due_times is None else Arrivals(due_times)
        shares = shares_of(self.workload.consumers, self.leaders)
        self.consumer = Driver(
            [address for address, _ in shares],
            fetch_plan(self.topic, self.workload, shares),
            fetching=True,
            committed=self.workload.isolation == READ_COMMITTED,
            arrivals=self.arrivals,
            answer_timeout_s=self.answer_timeout_s,
        )

    def acknowledged(self) -> dict[int, int]:
        """Return the offset after the acknowledged records of each partition; empty if no producer was prepared."""
        return {} if self.producer is None else self.producer.next_offsets(self.workload.partitions)

    def close(self) -> None:
        """Close the connections."""
        for driver in (self.producer, self.consumer):
            if driver is not None:
                driver.close()
        self.producer = self.consumer = None

    def run(
        self, seconds: float, on_sample: Callable[[Sample], None] | None = None, stop: Event | None = None
    ) -> DriverResult:
        """See LoadDriver. Reconnects connections that a previous run lost."""
        main = self.producer or self.consumer
        if main is None:
            raise DriverError("prepare was not called")
        try:
            self._begin(seconds)
        except (OSError, LoadError, protocol.ProtocolError) as error:
            return DriverResult(errors=1, first_error=str(error))
        run = _Run(main, self.consumer if self.producer is not None else None, on_sample)
        drivers = [driver for driver in (self.consumer, self.producer) if driver is not None]
        threads = [_thread(driver) for driver in drivers]
        try:
            run.follow(threads[-1], stop)
            missing = 0
            if self.producer is not None and self.consumer is not None:
                missing = self._catch_up(self.producer, self.consumer, threads[0], stop)
                run.consumed()
        finally:
            for driver in drivers:
                driver.stop()
            for thread in threads:
                thread.join()
        return self._result(main, run, missing)

    def _begin(self, seconds: float) -> None:
        workload = self.workload
        if (consumer := self.consumer) is not None:
            consumer.reconnect()
            ends = list_offsets(self.leaders, self.topic, protocol.LATEST)
            if self.producer is not None:
                consumer.seek(ends, {})
                consumer.start_closed(depth=1, requests=NO_LIMIT, seconds=FOREVER_S)
            else:
                starts = list_offsets(self.leaders, self.topic, protocol.EARLIEST)
                if empty := [partition for partition in ends if starts[partition] == ends[partition]]:
                    raise LoadError(f"partition {empty[0]} of {self.topic} is empty")
                consumer.seek(starts, ends)
                consumer.start_closed(depth=1, requests=NO_LIMIT, seconds=seconds)
        if (producer := self.producer) is not None:
            producer.reconnect()
            start, end = self.rate
            if workload.rate.unlimited:
                producer.start_closed(depth=workload.in_flight, requests=NO_LIMIT, seconds=seconds)
            else:
                producer.start_open(start=start, end=end, ramp_s=workload.rate.ramp_s, seconds=seconds)
        if self.arrivals is not None:
            self.arrivals.clear()

    def _catch_up(self, producer: Driver, consumer: Driver, thread: threading.Thread, stop: Event | None) -> int:
        """Let the consumer read all acknowledged records, as long as any arrive.

        Returns how many of them it did not receive; 0 if the run was stopped.
        """
        ends = producer.next_offsets(self.workload.partitions)
        records, since = consumer.records, time.monotonic()
        while thread.is_alive() and not consumer.has_reached(ends):
            if stop is not None and stop.is_set():
                return 0
            thread.join(POLL_S)
            if consumer.records != records:
                records, since = consumer.records, time.monotonic()
            elif time.monotonic() - since > CATCH_UP_S:
                break
        consumed = consumer.next_offsets(self.workload.partitions)
        return sum(max(0, end - consumed[partition]) for partition, end in ends.items())

    def _result(self, main: Driver, run: "_Run", missing: int) -> DriverResult:
        run.finish()
        result = DriverResult(
            records=main.records,
            bytes=main.bytes,
            requests=main.responses,
            errors=main.errors,
            first_error=main.first_error,
            seconds=main.seconds,
            latency=main.latency,
            lateness=main.lateness,
            cpu_s=main.cpu_seconds,
            samples=run.samples,
        )
        if (consumer := self.consumer) is not None:
            result.consumed_records, result.consumed_bytes = consumer.records, consumer.bytes
            if consumer is not main:
                result.errors += consumer.errors
                result.first_error = result.first_error or consumer.first_error
                result.cpu_s += consumer.cpu_seconds
                result.processes = 2
                result.consumed_s = max(main.seconds, run.consumed_s)
        if self.arrivals is not None:
            self.arrivals.finish()
            result.end_to_end = self.arrivals.latency
            result.unmatched = self.arrivals.unmatched
        if missing:
            result.errors += missing
            result.first_error = result.first_error or f"{missing} records acknowledged, but not received by consumers"
        return result


class _Run:
    """The samples of one run; `beside` consumes the records that `driver` produces, or is None."""

    def __init__(self, driver: Driver, beside: Driver | None, on_sample: Callable[[Sample], None] | None) -> None:
        self.driver, self.beside, self.on_sample = driver, beside, on_sample
        self.samples: list[Sample] = []
        self.consumed_s = 0.0
        self._begun = time.monotonic()
        self._records = self._bytes = 0  # of `beside`, already in samples

    def follow(self, thread: threading.Thread, stop: Event | None) -> None:
        """Take samples until the loop ends; let it end when `stop` is set."""
        while thread.is_alive():
            thread.join(POLL_S)
            if stop is not None and stop.is_set():
                self.driver.stop()
            self._take(self.driver.take_sample())

    def consumed(self) -> None:
        """Record the current time as that at which the last record was consumed."""
        self.consumed_s = time.monotonic() - self._begun

    def finish(self) -> None:
        for interval in self.driver.last_samples():
            self._take(interval)

    def _take(self, interval: Interval | None) -> None:
        if interval is None:
            return
        records = size = 0
        if self.beside is not None:
            records, size = self.beside.records - self._records, self.beside.bytes - self._bytes
            self._records += records
            self._bytes += size
        self.samples.append(Sample(*interval, records, size))
        if self.on_sample is not None:
            self.on_sample(self.samples[-1])


def _thread(driver: Driver) -> threading.Thread:
    thread = threading.Thread(target=driver.loop, name="raw driver")
    thread.start()
    return thread


def produce_plan(topic: str, workload: Workload, shares: Sequence[Share]) -> list[list[Template]]:
    """Return the Produce requests of each connection, sent in turn: one batch of each of its partitions, repeatedly."""
    connections, partitions = len(shares), workload.partitions
    each = max(batches.BATCHES_MIN, TEMPLATES_MAX // max(connections, partitions))
    pool = batches.pool(workload, each)
    payloads = [batch.data + protocol.PRODUCE_TAIL for batch in pool]
    acks = ACKS[workload.acks]
    frames: list[list[Template]] = []
    for partition in range(partitions):
        # Adjacent partitions begin at different batches, so that the whole pool is in use from the start.
        order = [(partition + number) % len(pool) for number in range(min(each, len(pool)))]
        frames.append([protocol.produce_apart(topic, partition, payloads[at], pool[at].records, acks) for at in order])
    plan = []
    for _, share in shares:
        mine = [frames[p] for p in share]
        plan.append([one[number] for number in range(len(mine[0])) for one in mine])
    return plan


def fetch_plan(topic: str, workload: Workload, shares: Sequence[Share]) -> list[list[Template]]:
    """Return the Fetch requests of each connection.

    With concurrent producers, each request has all partitions of the connection; otherwise one partition, in turn.
    """
    plan = []
    committed = workload.isolation == READ_COMMITTED
    for _, mine in shares:
        if workload.producers == 0:
            plan.append([protocol.fetch_request(topic, p, workload.fetch_bytes, committed=committed) for p in mine])
            continue
        turns = [(len(mine) * turn) // ROTATIONS_MAX for turn in range(ROTATIONS_MAX)]
        plan.append(
            [
                protocol.fetch_all_request(topic, (*mine[at:], *mine[:at]), workload.fetch_bytes, committed=committed)
                for at in dict.fromkeys(turns)
            ]
        )
    return plan


def shares_of(clients: int, leaders: Leaders) -> list[Share]:
    """Return the connections of `clients`; each client has one to every leader.

    Every partition has a connection, and every connection a partition.
    """
    led: dict[Address, list[int]] = {}
    for partition in sorted(leaders):
        led.setdefault(leaders[partition], []).append(partition)
    return [
        (address, tuple(partitions[client::clients] or [partitions[client % len(partitions)]]))
        for client in range(clients)
        for address, partitions in led.items()
    ]


def requests_per_s(workload: Workload, plan: list[list[Template]]) -> tuple[float, float]:
    """Return the rate's beginning and end in requests per second, given the plan's mean records or bytes a request."""
    rate = workload.rate
    factor = 1.0
    if rate.unit != "requests":
        sizes = (
            [each.records if rate.unit == "records" else each.batch_bytes for each in templates] for templates in plan
        )
        factor = sum(sum(each) / len(each) for each in sizes) / len(plan)
    return rate.start / factor, rate.end / factor


def list_offsets(leaders: Leaders, topic: str, which: int) -> dict[int, int]:
    """Return the first or next offset of each partition. Raises OSError and ProtocolError."""
    found: dict[int, int] = {}
    for address in dict.fromkeys(leaders.values()):
        with protocol.Client(address) as client:
            found |= client.list_offsets(topic, [each for each, at in leaders.items() if at == address], which)
    return found
