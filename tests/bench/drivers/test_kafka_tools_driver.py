"""Kafka's own performance tools with our broker: the driver reports what they print."""

import dataclasses
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from bench.drivers import kafka_tools
from bench.drivers.base import DriverError, Sample
from bench.drivers.kafka_tools import KafkaToolsDriver
from bench.launch import kafka_dist
from bench.spec.workload import Rate, Workload, parse
from broker_cy.client.payload.draws import Size
from broker_cy.client.toml_file import Table
from tests.support import needs
from tests.support.broker import Target
from tests.support.confluent import send
from tests.support.topics import create_topic


def workload(**changed: Any) -> Workload:
    made = parse(Table("test.toml", {}, {}), "test")
    return dataclasses.replace(made, **{"driver": "kafka", "partitions": 2, "producers": 1, **changed})


def driver(broker: Target, topic: str, **changed: Any) -> KafkaToolsDriver:
    made = KafkaToolsDriver((broker.host, broker.port), topic, workload(**changed))
    made.prepare()
    return made


def java_children() -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if "java" in child.name()]


@pytest.fixture(autouse=True)
def no_java_is_left() -> Iterator[None]:
    """Other tests of this process may have their own JVM."""
    before = java_children()
    yield
    assert [child for child in java_children() if child not in before] == []


@pytest.mark.full
@needs.kafka
def test_producers_records_and_their_own_percentiles(broker: Target, topic: str) -> None:
    """The figures are those that the tool printed."""
    create_topic(broker.bootstrap, topic, 2)
    samples: list[Sample] = []
    load = driver(broker, topic, codec="lz4", rate=Rate(2000, 2000, "records"))
    # Long enough that the start of the JVM leaves time for samples on a busy machine.
    result = load.run(3.5, samples.append)
    assert (result.errors, result.first_error) == (0, None)
    assert (result.records, result.bytes) == (7000, 700_000)
    assert set(result.reported) == {"avg_ms", "max_ms", "p50_ms", "p95_ms", "p99_ms", "p999_ms"}
    assert 0 <= result.reported["p50_ms"] <= result.reported["p99_ms"] <= result.reported["max_ms"]
    assert result.latency.count == 0  # nothing is invented
    assert result.cpu_s > 0.3
    assert len(samples) > 2
    assert sum(sample.records for sample in samples) == 7000


@pytest.mark.full
@needs.kafka
def test_a_consumer_reads_all_that_is_there(broker: Target, topic: str) -> None:
    create_topic(broker.bootstrap, topic, 2)
    for partition in range(2):
        send(broker, topic, [bytes(1024)] * 500, partition)
    result = driver(broker, topic, producers=0, consumers=1).run(1.0)
    assert (result.errors, result.first_error) == (0, None)
    assert result.records == result.consumed_records == 1000
    assert result.bytes == pytest.approx(1000 * 1024, abs=60)
    assert result.seconds > 0
    assert result.reported["fetch_ms"] == pytest.approx(result.seconds * 1000)
    create_topic(broker.bootstrap, topic + "-empty", 2)
    load = driver(broker, topic + "-empty", producers=0, consumers=1)
    with pytest.raises(DriverError, match="has no records to consume"):
        load.run(1.0)


@pytest.mark.full
@needs.kafka
def test_a_broker_that_dies_makes_errors(
    make_broker: Callable[..., Target], topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's tool itself exits with 0 and prints the total that was sent."""
    monkeypatch.setattr(kafka_tools, "TIMEOUT_S", 2.0)
    monkeypatch.setattr(kafka_tools, "OVERDUE_S", 15.0)
    broker = make_broker()
    create_topic(broker.bootstrap, topic, 2)
    load = driver(broker, topic, rate=Rate(500, 500, "records"))

    def kill_when_under_way(sample: Sample) -> None:
        broker.kill()

    # Long enough that the first sample is seen before the end, also on a busy machine.
    result = load.run(3.0, kill_when_under_way)
    assert result.errors > 0
    assert result.first_error is not None
    assert f"{result.errors} of 1500 records missing: " in result.first_error
    assert result.records + result.errors == 1500


@pytest.mark.full
@needs.kafka
def test_stop_ends_java_and_keeps_what_was_reported(broker: Target, topic: str) -> None:
    """If this fails, Ctrl-C waits for the end of an hour's window."""
    create_topic(broker.bootstrap, topic, 2)
    stop = threading.Event()
    load = driver(broker, topic, rate=Rate(1000, 1000, "records"))
    result = load.run(3600.0, lambda sample: stop.set(), stop)
    assert 0 < result.records < 100_000
    assert result.errors == 0


# The output of Kafka 4.3.1's tools; test_columns.py compares the texts with their classes.
PRODUCED = """\
3501 records sent, 2000.6 records/sec (0.19 MB/sec), 3.1 ms avg latency, 151.0 ms max latency.
2999 records sent, 1999.3 records/sec (0.19 MB/sec), 1.0 ms avg latency, 12.0 ms max latency.
7000 records sent, 2000.000000 records/sec (0.19 MB/sec), 2.07 ms avg latency, 151.00 ms max latency, \
1 ms 50th, 4 ms 95th, 30 ms 99th, 150 ms 99.9th.
"""
CONSUMED = """\
2026-01-02 03:04:05:678, 2026-01-02 03:04:07:678, 10.0000, 5.0000, 1000, 500.0000, 500, 1500, 6.6667, 666.6667
"""


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Replace the tools by programs that print a text."""

    def install(text: str) -> None:
        monkeypatch.setattr(kafka_dist, "missing", lambda: None)
        monkeypatch.setattr(kafka_dist, "kafka_classpath", lambda: "")
        monkeypatch.setattr(kafka_dist, "java", lambda *_: [sys.executable, "-c", f"print({text!r}, end='')"])

    return install


def test_what_a_producer_prints_is_its_result(printed: Callable[[str], None]) -> None:
    """If this fails, a comparison shows other figures than Kafka's own tool."""
    printed(PRODUCED)
    samples: list[Sample] = []
    load = KafkaToolsDriver(("127.0.0.1", 1), "t", workload(rate=Rate(2000, 2000, "records")))
    load.prepare()
    result = load.run(3.5, samples.append)
    assert (result.errors, result.first_error) == (0, None)
    assert (result.records, result.bytes, result.seconds) == (7000, 700_000, 3.5)
    assert result.reported == {
        "avg_ms": 2.07, "max_ms": 151.0, "p50_ms": 1.0, "p95_ms": 4.0, "p99_ms": 30.0, "p999_ms": 150.0,
    }  # fmt: skip
    assert result.latency.count == 0
    assert [sample.records for sample in samples] == [3501, 2999, 500]


def test_records_that_were_not_sent_are_errors(printed: Callable[[str], None]) -> None:
    """If this fails, a run with a dead broker has a figure: the tool itself exits with 0."""
    printed(PRODUCED)
    load = KafkaToolsDriver(("127.0.0.1", 1), "t", workload(rate=Rate(2100, 2100, "records")))
    load.prepare()
    result = load.run(3.5)
    assert (result.records, result.errors) == (7000, 350)
    assert (result.first_error or "").startswith("350 of 7350 records missing: ")


def test_what_a_consumer_prints_is_its_result(printed: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the rate of a consumer contains the time in which its group was formed."""
    printed(CONSUMED)
    monkeypatch.setattr(KafkaToolsDriver, "_available", lambda _: 1000)
    load = KafkaToolsDriver(("127.0.0.1", 1), "t", workload(producers=0, consumers=1))
    load.prepare()
    result = load.run(1.0)
    assert (result.errors, result.records, result.consumed_records) == (0, 1000, 1000)
    assert (result.bytes, result.seconds) == (10 << 20, 1.5)
    assert result.reported["rebalance_ms"] == 500


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"consumers": 1}, "producers and consumers"),
        ({"producers": 0, "consumers": 2}, "more than one consumer"),
        ({"record_size": Size(1, 9)}, "more than one size"),
        ({"entropy": 0.5}, "entropy 0.5"),
        ({"rate": Rate(1, 2, "records", 1.0)}, "a ramp"),
        ({"rate": Rate(1, 1, "requests")}, "a rate of requests"),
        ({"keys": 5}, "keys"),
    ],
)
def test_what_the_tools_cannot_do_is_refused(changed: dict[str, Any], words: str) -> None:
    """If this fails, another workload is measured without a warning."""
    with pytest.raises(DriverError, match=words):
        KafkaToolsDriver(("127.0.0.1", 1), "t", workload(**changed)).prepare()


def test_a_missing_java_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python stack trace would not say what to install."""
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(DriverError, match=r"needs java .*apt-get install"):
        KafkaToolsDriver(("127.0.0.1", 1), "t", workload()).prepare()
