"""Prometheus reads the counted values: its own parser checks the page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker_cy.metrics.definitions import METRICS
from broker_cy.metrics.exposition import Page
from broker_cy.metrics.histogram import BOUNDS_S, Histogram

ROOT = Path(__file__).resolve().parents[3]


def parsed(page: Page) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page.encode().decode())
        for sample in family.samples
    }


def test_labels_with_every_odd_character_arrive() -> None:
    """Client ids may be any bytes that clients send."""
    page = Page()
    page.family("broker_cy_client_connections")
    odd = 'a"b\\c\nd é \t{}=,'
    page.sample("broker_cy_client_connections", 3, odd)
    assert parsed(page) == {("broker_cy_client_connections", (("client_id", odd),)): 3}


def test_large_counters_are_exact() -> None:
    page = Page()
    page.one("broker_cy_connections_opened_total", 2**53 + 1)
    assert b"opened_total 9007199254740993\n" in page.encode()


def test_histogram_has_what_prometheus_wants() -> None:
    histogram = Histogram()
    for value in (1_000, 1_000_000, 2_000_000_000, 3_600_000_000_000):
        histogram.observe_ns(value)
    page = Page()
    page.family("broker_cy_request_phase_seconds")
    page.histogram("broker_cy_request_phase_seconds", histogram.snapshot(), "Fetch", "data")
    found = parsed(page)
    labels = (("api", "Fetch"), ("phase", "data"))
    assert found["broker_cy_request_phase_seconds_count", labels] == 4
    assert found["broker_cy_request_phase_seconds_sum", labels] == pytest.approx(3602.001001)
    buckets = {dict(where)["le"]: value for (name, where), value in found.items() if name.endswith("_bucket")}
    assert len(buckets) == len(BOUNDS_S) + 1
    assert buckets["+Inf"] == 4
    counts = [value for _, value in sorted(buckets.items(), key=lambda item: float(item[0]))]
    assert counts == sorted(counts)


def test_a_family_is_reported_once_and_only_if_it_is_defined() -> None:
    """Prometheus refuses a page on which a family is split into two parts."""
    page = Page()
    page.family("broker_cy_topics")
    with pytest.raises(ValueError, match="twice"):
        page.family("broker_cy_topics")
    with pytest.raises(KeyError):
        page.family("broker_cy_unheard_of")


def test_names_follow_the_conventions() -> None:
    """https://prometheus.io/docs/practices/naming: base units, `_total` on counters and nothing else."""
    for metric in METRICS.values():
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert not metric.name.endswith(("_ms", "_kb", "_mb", "_us")), metric.name
        assert metric.kind != "histogram" or metric.name.endswith("_seconds"), metric.name
        assert metric.help.endswith("."), metric.name


def test_page_of_metrics_is_in_step() -> None:
    """docs/metrics.md names every metric."""
    result = subprocess.run(
        [sys.executable, "tools/metrics_doc.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
