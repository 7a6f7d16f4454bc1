"""Numbers that people compare with those of Kafka's tools must be in their columns and units."""

import io
import re
import zipfile
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from rich.console import Console

from bench.drivers.base import DriverResult
from bench.launch import kafka_dist
from bench.measuring.histogram import Histogram
from bench.report import columns
from bench.report.result import Run
from tests.support import needs
from tests.support.bench_results import document, driver_result


def shown(table: object) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_lines_of_the_producer() -> None:
    """Texts and digits are those of ProducerPerformance 4.3.1, where MB is 2^20 bytes."""
    lines = columns.producer_lines(driver_result().samples, interval_s=0.5)
    expected = "5000 records sent, 10000.0 records/sec (0.95 MB/sec), 2.5 ms avg latency, 4.0 ms max latency."
    assert lines == [expected, expected]
    assert columns.producer_lines(driver_result().samples) == []


def test_last_line_of_the_producer() -> None:
    """Everything before the percentiles is as Kafka prints it; the percentiles have decimal places that its clock
    lacks.
    """
    assert re.fullmatch(
        r"10000 records sent, 10000\.000000 records/sec \(0\.95 MB/sec\), 2\.49 ms avg latency, 4\.00 ms max latency, "
        r"2\.0\d ms 50th, 4\.00 ms 95th, 4\.00 ms 99th, 4\.00 ms 99\.9th\.",
        columns.producer_total(driver_result()),
    )


def test_interval_without_an_answer_is_shown_as_kafka_does() -> None:
    """A stall of seconds must not end the tool with a division by zero."""
    assert columns.producer_line(0, 0, 1.0, Histogram()).endswith("nan ms avg latency, 0.0 ms max latency.")
    silent = columns.producer_total(DriverResult(records=1, seconds=1.0))
    assert "nan ms 50th" in silent


def test_columns_of_the_consumer() -> None:
    """Header and row have the same columns, in ConsumerPerformance's order."""
    row = columns.consumer_row(datetime(2026, 1, 2, 3, 4, 5, 678_900), 1000, 10 << 20, 2.0, rebalance_s=0.5)
    assert row == (
        "2026-01-02 03:04:05:678, 2026-01-02 03:04:07:678, 10.0000, 5.0000, 1000, 500.0000, 500, 1500, 6.6667, 666.6667"
    )
    assert len(row.split(", ")) == len(columns.CONSUMER_HEADER.split(", ")) == 10


def test_tables_show_spending_pairs_and_failures() -> None:
    """The terminal must show the same as the report, including the failed run."""
    known = document(repeats=4)
    text = shown(columns.spending_table([known.runs[0], Run("kafka", "now", 1, failed="the target died")]))
    assert re.search(r"Broker CPU per GB \(s/GB\)\s*│\s*250\.000", text)
    assert "kafka, pair 2 failed: the target died" in " ".join(text.split())
    text = shown(columns.pairs_table(known.pairs))
    assert re.search(r"Latency p99.*ours / kafka.*0\.500.*0\.500 to 0\.500 \(95%\)", text)
    assert re.search(r"Latency p99.*│\s*4\.060 : 8\.120 ms │", text)
    few = [replace(pair, interval=None, note="1 pair: no interval") for pair in known.pairs[:1]]
    text = shown(columns.pairs_table(few))
    assert "none" in text
    assert "1 pair: no interval" in text


@pytest.mark.full
@needs.kafka
def test_texts_are_those_of_the_real_tools() -> None:
    """A program that parses Kafka's output must be able to parse ours: the formats come from its own classes."""
    jar = Path(kafka_dist.kafka_classpath()).parent / f"kafka-tools-{kafka_dist.VERSION}.jar"
    with zipfile.ZipFile(jar) as classes:
        stats = classes.read("org/apache/kafka/tools/ProducerPerformance$Stats.class")
        consumer = classes.read("org/apache/kafka/tools/ConsumerPerformance.class")
    window, total = re.findall(rb"%d(?:%s)? records sent[ -~]+?%n", stats)
    mib = 1_000_000 / (1 << 20)
    ours = columns.producer_lines(driver_result().samples, interval_s=0.99)
    mean_ms = driver_result().latency.mean() / 1e6
    assert ours == [window.decode().removesuffix("%n") % (10_000, 10_000, mib, mean_ms, 4)]
    plain = total.decode().removesuffix("%n").replace("%d ms", "%s ms")
    percentiles = [f"{driver_result().latency.percentile(percent) / 1e6:.2f}" for percent in (50, 95, 99, 99.9)]
    assert columns.producer_total(driver_result()) == plain % (10_000, "", 10_000, mib, mean_ms, 4, *percentiles)
    for part in columns.CONSUMER_HEADER.partition(", rebalance")[0], columns.CONSUMER_HEADER.partition("nMsg.sec")[2]:
        assert part.encode() in consumer
    assert b"%s, %s, %.4f, %.4f, %d, %.4f, %d, %d, %.4f, %.4f%n" in consumer
