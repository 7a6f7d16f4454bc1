"""The `raw` driver against our broker, and servers that stall, hang or die: its requests and its reports."""

import contextlib
import dataclasses
import itertools
import selectors
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition

from bench.drivers import raw
from bench.drivers.base import DriverError, DriverResult, Sample
from bench.drivers.raw import RawDriver
from bench.spec.workload import Rate, Workload
from bench.targets.brokers import BrokerCy
from bench.wire import batches, protocol
from bench.wire.raw import due_time_s
from broker_cy.client.payload.draws import Size
from tests.bench.drivers.test_driver import produced

TOPIC = "t"
numbers = itertools.count()


def workload(**changes: Any) -> Workload:
    defaults = Workload(
        name="test",
        driver="raw",
        partitions=2,
        record_size=Size(100, 100),
        keys=0,
        key_bytes=8,
        entropy=1.0,
        producers=2,
        acks="all",
        codec="none",
        batch_bytes=4096,
        linger_s=0.0,
        in_flight=3,
        rate=Rate(),
        consumers=0,
        fetch_bytes=1 << 20,
        warm_up_s=0.0,
        steady_s=0.0,
        duration_s=1.0,
    )
    return dataclasses.replace(defaults, **changes)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCy]:
    with BrokerCy(tmp_path_factory.mktemp("raw") / "data").running() as target:
        assert isinstance(target, BrokerCy)
        yield target


@contextlib.contextmanager
def driver(target: BrokerCy, settings: Workload) -> Iterator[RawDriver]:
    """Use a separate topic."""
    topic = f"raw-{next(numbers)}"
    with protocol.Client(target.address) as client:
        client.create_topic(topic, settings.partitions, {})
    made = RawDriver(target.address, topic, settings)
    made.prepare()
    try:
        yield made
    finally:
        made.close()


def written(target: BrokerCy, made: RawDriver) -> int:
    """Return the number of records in the log, independently of the driver."""
    return sum(
        raw.list_offsets(target.leaders(made.topic, made.workload.partitions), made.topic, protocol.LATEST).values()
    )


def check_sums(result: DriverResult) -> None:
    """The samples add up to the whole run."""
    assert sum(sample.records for sample in result.samples) == result.records
    assert sum(sample.bytes for sample in result.samples) == result.bytes
    assert sum(sample.requests for sample in result.samples) == result.requests
    assert sum(sample.latency.count for sample in result.samples) == result.latency.count
    times = [sample.t_s for sample in result.samples]
    assert times == sorted(times)


@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_what_is_counted_is_in_the_log(broker: BrokerCy, acks: str) -> None:
    """A figure from records that were never written would be worthless."""
    seen: list[Sample] = []
    with driver(broker, workload(acks=acks, producers=3)) as made:
        result = made.run(1.0, on_sample=seen.append)
        if acks == "0":  # the broker answers in order: this response comes after all that was sent
            made.close()
            deadline = time.monotonic() + 30
            while written(broker, made) < result.records and time.monotonic() < deadline:
                time.sleep(0.01)
        assert written(broker, made) == result.records > 0
    assert (result.errors, result.first_error) == (0, None)
    assert result.requests == result.latency.count
    assert result.latency.negative == 0
    assert len(seen) >= 2
    assert seen == result.samples
    assert result.cpu_s > 0
    check_sums(result)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_another_client_reads_what_was_asked_for(broker: BrokerCy, codec: str) -> None:
    """Keys, sizes and entropy are those of the workload, in framings that Kafka's clients read."""
    settings = workload(
        codec=codec, keys=10, key_bytes=5, record_size=Size(50, 70_000, "lognormal"), entropy=0.25, batch_bytes=200_000
    )
    with driver(broker, settings) as made:
        # On a busy machine, one run may write less than is read below.
        while raw.list_offsets({0: broker.address}, made.topic, protocol.LATEST)[0] < 300:
            assert made.run(0.3).errors == 0
        bootstrap = f"{broker.address[0]}:{broker.address[1]}"
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", check_crcs=True)
        consumer.assign([TopicPartition(made.topic, 0)])
        records: list[Any] = []
        while len(records) < 300:
            for batch in consumer.poll(timeout_ms=10_000, max_records=300).values():
                records += batch
        consumer.close()
    keys = {record.key for record in records}
    assert {len(key) for key in keys} == {5}
    assert len(keys) == 10
    sizes = [len(record.value) for record in records]
    assert 50 <= min(sizes) < max(sizes) <= 70_000
    for record in records:
        assert record.value.endswith(b"x" * (len(record.value) - round(len(record.value) * 0.25)))
    assert len({record.value for record in records}) > 100


def test_entropy_decides_what_compression_saves() -> None:
    """A workload of constant bytes says nothing about a codec, and neither does one of random bytes."""
    sizes = {}
    for entropy in (0.0, 0.5, 1.0):
        [batch, *_] = batches.pool(workload(codec="zstd", entropy=entropy, batch_bytes=50_000), most=4)
        sizes[entropy] = len(batch.data) / batch.records
    assert sizes[0.0] < 5
    assert 48 < sizes[0.5] < 70
    assert 100 < sizes[1.0] < 115


@pytest.mark.parametrize("limit", [1, 1000, 16384])
def test_a_batch_holds_as_many_records_as_fit(limit: int) -> None:
    """`batch = "1 B"` is one record per request; a batch above the limit is another workload."""
    made = batches.pool(workload(batch_bytes=limit), most=5)
    assert len({batch.data for batch in made}) == len(made) == 5
    for batch in made:
        assert batch.records == max(1, (limit - 61) // (len(batch.data) - 61) * batch.records)
        assert batch.records == 1 or len(batch.data) <= limit < len(batch.data) + 110
        assert struct.unpack_from(">i", batch.data, 57)[0] == batch.records


def test_every_partition_has_a_connection_and_every_connection_a_partition() -> None:
    """Idle connections or unused partitions would be another workload than the requested one."""
    for producers, partitions in ((3, 7), (7, 3), (1, 5), (4, 4)):
        shares = raw.shares_of(producers, dict.fromkeys(range(partitions), ("127.0.0.1", 1)))
        plan = raw.produce_plan(TOPIC, workload(producers=producers, partitions=partitions), shares)
        assert len(plan) == producers
        each = [{p for template in templates for p in template.partitions} for templates in plan]
        assert all(each)
        assert set().union(*each) == set(range(partitions))
        assert all(len({template.payload for template in templates}) >= 4 for templates in plan)


def test_ramp_arithmetic() -> None:
    """A ramp from 100 to 300/s in 2 s sends 400 requests in it, and 300/s from then on."""
    assert due_time_s(0, 100, 300, 2) == 0
    assert due_time_s(400, 100, 300, 2) == pytest.approx(2)
    assert due_time_s(150, 100, 300, 2) == pytest.approx(1)  # 100 t + 50 t^2
    assert due_time_s(700, 100, 300, 2) == pytest.approx(3)
    assert due_time_s(150, 300, 100, 2) == pytest.approx(3 - 6**0.5, rel=1e-9)  # 300 t - 50 t^2, downwards
    assert due_time_s(10, 100, 100, 2) == pytest.approx(0.1)
    assert due_time_s(10, 0, 100, 0) == pytest.approx(0.1)
    times = [due_time_s(number, 10, 10_000, 5) for number in range(60_000)]
    assert all(a < b for a, b in itertools.pairwise(times))


@pytest.mark.parametrize(
    ("rate", "requests", "records"),
    [
        (Rate(500, 500, "requests"), 500, None),
        (Rate(7000, 7000, "records"), None, 7000),
        (Rate(100, 700, "requests", 1.0), 400, None),
    ],
)
def test_open_loop_sends_at_the_rate(broker: BrokerCy, rate: Rate, requests: int | None, records: int | None) -> None:
    """The load must be the requested one, as counted by the contents of the log."""
    with driver(broker, workload(rate=rate, producers=5)) as made:
        result = made.run(1.0)
        assert written(broker, made) == result.records
    assert result.errors == 0
    assert result.lateness.count == result.requests
    if requests is not None:
        assert result.requests == pytest.approx(requests, rel=0.02)
    if records is not None:
        assert result.records == pytest.approx(records, rel=0.02)


def test_bytes_a_second(broker: BrokerCy) -> None:
    """The third unit of a rate; batches have different sizes here."""
    settings = workload(rate=Rate(2e6, 2e6, "bytes"), record_size=Size(400, 600), batch_bytes=1)
    with driver(broker, settings) as made:
        result = made.run(1.0)
    assert result.bytes == pytest.approx(2e6, rel=0.02)
    assert result.records == result.requests


@pytest.mark.full
def test_two_thousand_connections(broker: BrokerCy) -> None:
    """Each of them is used, and the schedule is kept."""
    settings = workload(producers=2000, rate=Rate(4000, 4000, "requests"), batch_bytes=1)
    with driver(broker, settings) as made:
        result = made.run(1.0)
        assert written(broker, made) == result.records == result.requests == 4000
    assert result.errors == 0


def test_consumers_follow_producers(broker: BrokerCy) -> None:
    """Every acknowledged record is consumed, and each batch has one end-to-end latency; twice, as after a warm-up."""
    settings = workload(consumers=2, partitions=5, rate=Rate(400, 400, "requests"))
    with driver(broker, settings) as made:
        for _ in range(2):
            result = made.run(0.7)
            assert (result.errors, result.first_error) == (0, None)
            assert result.consumed_records == result.records > 0
            assert result.consumed_bytes == result.bytes
            assert result.end_to_end is not None
            assert result.end_to_end.count == result.requests
            assert result.end_to_end.negative == 0
            assert made.arrivals is not None
            assert made.arrivals.unmatched == 0
            assert result.unmatched == 0
            assert result.consumed_s >= result.seconds
            assert result.processes == 2
            assert sum(sample.consumed_records for sample in result.samples) > 0
            check_sums(result)


def test_what_was_acknowledged_and_does_not_come_is_an_error(broker: BrokerCy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run with lost records has no figures: here no consumer reads partition 1."""
    # Enough for the records of partition 0 on a busy machine.
    monkeypatch.setattr(raw, "CATCH_UP_S", 3.0)
    monkeypatch.setattr(raw, "fetch_plan", lambda topic, *_: [[protocol.fetch_all_request(topic, (0,), 1 << 20)]])
    with driver(broker, workload(consumers=1, rate=Rate(400, 400, "requests"))) as made:
        result = made.run(0.5)
        missing = raw.list_offsets(dict.fromkeys(range(2), broker.address), made.topic, protocol.LATEST)[1]
    assert result.errors == missing > 0
    assert result.first_error == f"{missing} records acknowledged, but not received by consumers"


def test_consumers_alone_read_the_log_round_and_round(broker: BrokerCy) -> None:
    """Reads from offset 0; each run starts there again, so that it can begin cold."""
    with driver(broker, workload(partitions=3, rate=Rate(100, 100, "requests"))) as made:
        first = made.run(0.3)
        consumer = RawDriver(broker.address, made.topic, workload(partitions=3, producers=0, consumers=2))
        consumer.prepare()
        try:
            for _ in range(2):
                result = consumer.run(0.5)
                assert (result.errors, result.first_error) == (0, None)
                assert result.records == result.consumed_records > first.records
                assert result.end_to_end is None
                check_sums(result)
        finally:
            consumer.close()


def test_an_empty_topic_cannot_be_consumed(broker: BrokerCy) -> None:
    """It would be a run without records, or one that never ends."""
    with driver(broker, workload(producers=0, consumers=1)) as made:
        result = made.run(5)
    assert result.errors == 1
    assert "is empty" in (result.first_error or "")


@pytest.mark.parametrize("rate", [Rate(), Rate(500, 500, "requests")])
def test_stop_ends_a_run_and_keeps_what_was_measured(broker: BrokerCy, rate: Rate) -> None:
    """Ctrl-C after an hour must not lose the hour; the next run starts clean."""
    with driver(broker, workload(rate=rate, consumers=1)) as made:
        stop = threading.Event()
        result = made.run(600, on_sample=lambda sample: stop.set(), stop=stop)
        assert result.seconds < 600
        assert result.records > 0
        assert result.errors == 0
        check_sums(result)
        again = made.run(0.3)
        assert again.records > 0
        assert again.errors == 0


@pytest.mark.parametrize("rate", [Rate(), Rate(500, 500, "requests")])
@pytest.mark.parametrize("acks", ["all", "0"])
def test_a_target_killed_in_mid_run_is_reported_as_errors(tmp_path: Path, rate: Rate, acks: str) -> None:
    """The run ends soon, keeps its measurements, and never looks successful; nor does the next one."""
    with BrokerCy(tmp_path / "data").running() as target:
        assert isinstance(target, BrokerCy)
        with driver(target, workload(rate=rate, acks=acks, consumers=1)) as made:
            killed = threading.Event()

            def kill(sample: Sample) -> None:
                if not killed.is_set():
                    killed.set()
                    target.kill()

            result = made.run(600, on_sample=kill)
            assert result.errors > 0
            assert result.first_error is not None
            assert "Produce" in result.first_error or "Fetch" in result.first_error
            assert result.records > 0
            again = made.run(600)
            assert again.errors > 0
            assert again.records == 0
            with pytest.raises(DriverError, match="cannot connect"):
                RawDriver(target.address, TOPIC, workload()).prepare()


# ---------------------------------------------------------------------------------------- servers that misbehave


class Server:
    """Answers Produce on all connections from one thread, with `code`; stalls once, or never answers."""

    def __init__(self, stall_at: int = -1, stall_s: float = 0.0, code: int = 0, silent: bool = False) -> None:
        self.stall_at, self.stall_s, self.code, self.silent = stall_at, stall_s, code, silent
        self.answered = 0
        self.selector = selectors.DefaultSelector()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.ended = False
        self.thread = threading.Thread(target=self._serve)

    def __enter__(self) -> "Server":
        self.thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.ended = True
        self.thread.join()
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self.selector.close()

    def _serve(self) -> None:
        while not self.ended:
            for key, _ in self.selector.select(0.05):
                if key.fileobj is self.listener:
                    peer, _ = self.listener.accept()
                    self.selector.register(peer, selectors.EVENT_READ, bytearray())
                else:
                    self._read(key)

    def _read(self, key: selectors.SelectorKey) -> None:
        peer, inbox = key.fileobj, key.data
        assert isinstance(peer, socket.socket)
        with contextlib.suppress(ConnectionError):
            if part := peer.recv(1 << 16):
                inbox += part
                while len(inbox) >= 4 and len(inbox) >= (whole := 4 + struct.unpack_from(">i", inbox)[0]):
                    self._answer(peer, struct.unpack_from(">i", inbox, 8)[0])
                    del inbox[:whole]
                return
        self.selector.unregister(peer)
        peer.close()

    def _answer(self, peer: socket.socket, correlation_id: int) -> None:
        if self.silent:
            return
        if self.answered == self.stall_at:
            time.sleep(self.stall_s)
        reply = produced(correlation_id, self.answered * 1000, self.code)
        self.answered += 1
        peer.sendall(struct.pack(">i", len(reply)) + reply)


def against(server: Server, seconds: float, answer_timeout_s: float = 30, **changes: Any) -> DriverResult:
    made = RawDriver(server.address, TOPIC, workload(partitions=1, batch_bytes=1, **changes), answer_timeout_s)
    made.prepare()
    try:
        return made.run(seconds)
    finally:
        made.close()


@pytest.mark.full
def test_a_stall_of_a_second_is_a_second_in_the_tail() -> None:
    """Coordinated omission: latency from the actual send would charge the stall to the few requests in flight alone."""
    with Server(stall_at=100, stall_s=1.0) as server:
        result = against(server, 2.0, rate=Rate(1000, 1000, "requests"), producers=4)
    assert (result.errors, result.requests) == (0, 2000)
    assert result.latency.percentile(99.9) > 0.99e9
    # Due in the first half of the stall, and so late by more than half a second: 500 of 2,000.
    assert result.latency.percentile(80) > 0.4e9
    assert result.lateness.count == 2000


@pytest.mark.full
def test_a_stall_that_fills_every_ring_loses_nothing() -> None:
    """A request without room in flight keeps its due time: 20,000 due in the stall, at most 8,192 in flight."""
    with Server(stall_at=0, stall_s=1.0) as server:
        result = against(server, 1.0, rate=Rate(20_000, 20_000, "requests"), producers=1)
    assert (result.errors, result.requests) == (0, 20_000)
    assert result.latency.percentile(100) > 0.99e9
    assert result.latency.percentile(55) > 0.4e9


def test_error_codes_are_counted_and_the_run_goes_on() -> None:
    """The first text names API, partition and code; a refused record does not count."""
    with Server(code=6) as server:
        result = against(server, 0.3, rate=Rate(100, 100, "requests"))
    assert result.errors == result.requests == 30
    assert result.first_error == "Produce error 6 on partition 0"
    assert (result.records, result.bytes) == (0, 0)


@pytest.mark.parametrize("rate", [Rate(), Rate(100, 100, "requests")])
def test_a_target_that_does_not_answer_ends_the_run(rate: Rate) -> None:
    """Every request that waits for a response is an error."""
    with Server(silent=True) as server:
        result = against(server, 600, answer_timeout_s=1, rate=rate, in_flight=3, producers=2)
    assert result.errors >= 6 if rate.unlimited else result.errors > 50
    assert "no answer within 1 s" in (result.first_error or "")
    assert result.requests == 0
