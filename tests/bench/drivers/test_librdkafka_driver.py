"""The driver of real clients, with our own broker: its counts are correct, and no process or topic is left."""

import dataclasses
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, TopicPartition

from bench.drivers.base import DriverError, DriverResult, Sample
from bench.drivers.librdkafka import LibrdkafkaDriver
from bench.spec.workload import CODECS, Rate, Workload, parse
from broker_cy.client.payload.draws import Size
from broker_cy.client.toml_file import Table
from tests.support.broker import Target
from tests.support.confluent import close_consumer, send
from tests.support.topics import create_topic
from tests.support.wait import until

PARTITIONS = 2


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """A client process that keeps running would affect every later figure."""
    before = set(psutil.Process().children(recursive=True))
    yield
    left = [child for child in psutil.Process().children(recursive=True) if child not in before]
    assert not [child for child in left if is_client(child)]


def is_client(process: psutil.Process) -> bool:
    """Return whether a process is a running client process."""
    try:
        return "client_process" in " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False


def workload(**changed: Any) -> Workload:
    """One producer of 100 B records by default."""
    made = parse(Table("test.toml", {}, {}), "test")
    settings: dict[str, Any] = {"driver": "librdkafka", "partitions": PARTITIONS, "producers": 1, "linger_s": 0.001}
    return dataclasses.replace(made, **{**settings, **changed})


def run(
    broker: Target, topic: str, load: Workload, seconds: float = 0.5, runs: int = 1, **arguments: Any
) -> DriverResult:
    """Return the last of `runs` windows."""
    driver = LibrdkafkaDriver((broker.host, broker.port), topic, load)
    try:
        driver.prepare()
        for _ in range(runs):
            result = driver.run(seconds, **arguments)
    finally:
        driver.close()
    return result


def records_in(broker: Target, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "counts"})
    try:
        return sum(consumer.get_watermark_offsets(TopicPartition(topic, p), 30)[1] for p in range(PARTITIONS))
    finally:
        close_consumer(consumer)


@pytest.mark.parametrize(
    "codec", [pytest.param(codec, marks=pytest.mark.full) if codec != "lz4" else codec for codec in CODECS]
)
def test_counts_what_the_broker_has(broker: Target, topic: str, codec: str) -> None:
    """A record that is counted but not stored, or stored but not counted, makes every figure wrong."""
    create_topic(broker.bootstrap, topic, PARTITIONS)
    samples: list[Sample] = []
    load = workload(codec=codec, producers=2, keys=50, entropy=0.5, record_size=Size(50, 150, "lognormal"))
    result = run(broker, topic, load, on_sample=samples.append)
    assert (result.errors, result.first_error) == (0, None)
    assert result.records == records_in(broker, topic) > 0
    assert 58 * result.records < result.bytes < 158 * result.records
    assert (result.latency.count, result.latency.negative) == (result.records, 0)
    assert 0 < result.requests < result.records
    assert result.processes == 2
    assert result.cpu_s > 0
    for name in ("records", "bytes", "requests", "errors"):
        assert sum(getattr(sample, name) for sample in samples) == getattr(result, name)
        assert sum(getattr(sample, name) for sample in result.samples) == getattr(result, name)
    assert sum(sample.latency.count for sample in samples) == result.records
    assert [sample.t_s for sample in result.samples] == sorted(sample.t_s for sample in result.samples)


@pytest.mark.full
def test_an_open_loop_hands_over_what_its_rate_says(broker: Target, topic: str) -> None:
    """A generator that does less than the workload specifies would make the target look better than it is."""
    create_topic(broker.bootstrap, topic, PARTITIONS)
    result = run(broker, topic, workload(producers=2, rate=Rate(2000, 2000, "records")), seconds=1.0, runs=2)
    assert result.errors == 0, result.first_error
    assert result.records == pytest.approx(2000, rel=0.05)
    assert result.lateness.count == result.latency.count == result.records
    assert result.lateness.negative == 0
    result = run(broker, topic, workload(record_size=Size(1000, 1000), rate=Rate(1e6, 1e6, "bytes")), seconds=1.0)
    assert result.bytes == pytest.approx(1e6, rel=0.05)


@pytest.mark.full
def test_a_target_that_stops_for_a_while_is_charged_for_it(broker: Target, topic: str) -> None:
    """Latency from the hand-over would hide waiting before it (coordinated omission)."""
    create_topic(broker.bootstrap, topic, PARTITIONS)

    def freeze() -> None:
        os.kill(broker.pid, signal.SIGSTOP)
        # The stop is at least this long, however late the other signal is.
        threading.Event().wait(1.0)
        os.kill(broker.pid, signal.SIGCONT)

    freezing = threading.Thread(target=freeze)

    def freeze_once(sample: Sample) -> None:
        if freezing.ident is None:
            freezing.start()

    driver = LibrdkafkaDriver((broker.host, broker.port), topic, workload(rate=Rate(1000, 1000, "records")))
    try:
        driver.prepare()
        result = driver.run(4.0, freeze_once)
    finally:
        if freezing.ident is not None:
            freezing.join()
        driver.close()
    assert (result.errors, result.records) == (0, 4000), result.first_error
    # 1000 of the 4000 were due during the second, so an eighth of them waited for more than half of it.
    assert result.latency.percentile(89) > 0.48e9


@pytest.mark.full
def test_consumers_follow_producers_live(broker: Target, topic: str) -> None:
    """If this fails, the end-to-end latency is that of records of another run, or a loss goes unnoticed."""
    create_topic(broker.bootstrap, topic, PARTITIONS)
    send(broker, topic, [b"of nobody's run"] * 10)
    load = workload(producers=2, consumers=2, rate=Rate(2000, 2000, "records"))
    result = run(broker, topic, load, runs=2)
    assert result.errors == 0, result.first_error
    assert result.end_to_end is not None
    assert (result.end_to_end.count, result.end_to_end.negative) == (result.records, 0)
    assert result.records == 1000
    assert 0 < result.consumed_records <= result.records
    assert result.consumed_bytes == 100 * result.consumed_records
    assert result.processes == 4
    # All due records were produced: a record arrives before its acknowledgement only by the clients' own time.
    assert result.end_to_end.percentile(50) > 0


@pytest.mark.full
def test_a_consumer_alone_reads_what_is_there_round_and_round(broker: Target, topic: str) -> None:
    """If this fails, a short topic ends the window immediately, and the figure is that of an idle client."""
    create_topic(broker.bootstrap, topic, PARTITIONS)
    for partition in range(PARTITIONS):
        send(broker, topic, [bytes(100)] * 500, partition)
    result = run(broker, topic, workload(producers=0, consumers=1), seconds=2.0, runs=2)
    assert result.errors == 0, result.first_error
    assert result.records == result.consumed_records > 3000
    assert result.bytes == 100 * result.records
    assert result.end_to_end is None
    assert result.requests > 1
    assert sum(sample.records for sample in result.samples) == result.records


@pytest.mark.full
def test_a_consumer_of_nothing_has_failed(broker: Target, topic: str) -> None:
    """A figure of 0 records/s would look like a slow target."""
    create_topic(broker.bootstrap, topic, PARTITIONS)
    result = run(broker, topic, workload(producers=0, consumers=1), seconds=0.3)
    assert result.errors == 1
    assert result.first_error == "no record arrived within 0.3 s"


@pytest.mark.full
@pytest.mark.parametrize("rate", [Rate(), Rate(1000, 1000, "records")], ids=["closed", "open"])
def test_a_broker_that_dies_makes_errors_and_no_endless_run(
    make_broker: Callable[..., Target], topic: str, rate: Rate
) -> None:
    """If this fails, a run with lost records has a figure."""
    broker = make_broker()
    create_topic(broker.bootstrap, topic, PARTITIONS)

    def kill_when_under_way(sample: Sample) -> None:
        if sample.records:
            broker.kill()

    driver = LibrdkafkaDriver((broker.host, broker.port), topic, workload(consumers=1, rate=rate), flush_s=0.5)
    try:
        driver.prepare()
        # Long enough that the first sample is seen before the end, also on a busy machine.
        result = driver.run(3.0, kill_when_under_way)
    finally:
        driver.close()
    assert result.errors > 0
    assert result.first_error is not None
    assert "not acknowledged within 0.5 s" in result.first_error
    assert result.records > 0
    # Records that are given up at the end may belong to no interval.
    assert 0 < sum(sample.errors for sample in result.samples) <= result.errors


def test_stop_ends_a_run_and_keeps_what_was_measured(broker: Target, topic: str) -> None:
    """If this fails, Ctrl-C waits for the end of an hour's window, or discards what was measured."""
    create_topic(broker.bootstrap, topic, PARTITIONS)
    driver = LibrdkafkaDriver((broker.host, broker.port), topic, workload(consumers=1))
    stop = threading.Event()

    def stop_when_under_way(sample: Sample) -> None:
        if sample.records:
            stop.set()

    try:
        driver.prepare()
        result = driver.run(600.0, stop_when_under_way, stop)
        assert result.seconds < 600
        assert result.records > 0
        assert result.errors == 0, result.first_error
        assert driver.run(0.3).records > 0  # and another run is possible
    finally:
        driver.close()


def test_a_client_process_that_is_killed_fails_the_run(broker: Target, topic: str) -> None:
    """Half of a load would be reported as all of it."""
    create_topic(broker.bootstrap, topic, PARTITIONS)
    driver = LibrdkafkaDriver((broker.host, broker.port), topic, workload(producers=2))
    driver.prepare()
    victim = next(c for c in psutil.Process().children() if "client_process" in " ".join(c.cmdline()))
    with pytest.raises(DriverError, match=r"producer \d: the client process ended with -9"):
        driver.run(600.0, lambda sample: victim.kill())
    driver.close()


@pytest.mark.full
def test_clients_end_when_their_parent_is_killed(broker: Target, topic: str, tmp_path: Path) -> None:
    """If this fails, a load without a parent process keeps running."""
    create_topic(broker.bootstrap, topic, PARTITIONS)
    script = f"""
import dataclasses, threading
from bench.drivers.librdkafka import LibrdkafkaDriver
from broker_cy.client.toml_file import Table
from bench.spec.workload import parse
load = dataclasses.replace(parse(Table("t", {{}}, {{}}), "t"), partitions={PARTITIONS}, consumers=1)
driver = LibrdkafkaDriver(("{broker.host}", {broker.port}), "{topic}", load)
driver.prepare()
print("ready", flush=True)
driver.run(60.0)
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, cwd=Path(__file__).parents[3], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        clients = psutil.Process(process.pid).children()
        process.kill()
    assert len(clients) == 3
    until(lambda: not any(client.is_running() for client in clients), "the clients to end")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"rate": Rate(10, 10, "requests")}, "decides which records form a request"),
        ({"consumers": 1, "record_size": Size(4, 4)}, "records of 4 B are too small"),
        ({"producers": 100}, "100 are too many"),
        ({"keys": 300, "key_bytes": 1}, "there are fewer than 300 different keys of 1 bytes"),
    ],
    ids=["requests", "small", "many", "keys"],
)
def test_what_it_cannot_do_is_refused(broker: Target, topic: str, changed: dict[str, Any], words: str) -> None:
    """If this fails, another workload is measured without a warning."""
    create_topic(broker.bootstrap, topic, PARTITIONS)
    with pytest.raises(DriverError, match=words):
        LibrdkafkaDriver((broker.host, broker.port), topic, workload(**changed)).prepare()


def test_a_missing_topic_is_reported(make_broker: Callable[..., Target], topic: str) -> None:
    """A missing topic is reported and not measured; a target that creates topics automatically reports none."""
    alone = make_broker({"auto.create.topics.enable": "false"})
    with pytest.raises(DriverError, match=topic):
        LibrdkafkaDriver((alone.host, alone.port), topic, workload()).prepare()


def test_refused_records_are_errors(broker: Target, topic: str) -> None:
    """Errors of the broker itself are reported with their text."""
    create_topic(broker.bootstrap, topic, PARTITIONS, {"max.message.bytes": "500"})
    result = run(broker, topic, workload(record_size=Size(1000, 1000), rate=Rate(100, 100, "records")))
    assert (result.records, result.errors) == (0, 50)
    assert result.first_error is not None
    assert "large" in result.first_error
