"""The metrics of the registry, read by Prometheus' own parser."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker_registry.metrics import METRICS, OTHER, RESOURCES, RequestCounts, Sizes, render, resource_of
from tests.support.registry import RegistryProcess

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "registry.md"
Labels = tuple[tuple[str, str], ...]


class Instance:
    cluster_id = "c"
    is_following = True
    takeovers = 2
    changes = 9
    problems = 1

    def sizes(self) -> Sizes:
        return Sizes(3, 5, 4)


def samples(page: str) -> dict[tuple[str, Labels], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def test_the_page_has_each_metric_once() -> None:
    """If this fails, a graph or an alert of an operator has no data."""
    counts = RequestCounts()
    counts.note("/subjects/a/versions", 200, 1_000_000)
    counts.note("/subjects", 404, 1_000)
    page = render(Instance(), counts).decode()
    assert {family.name for family in text_string_to_metric_families(page)} == {
        name.removesuffix("_total") for name in METRICS
    }
    found = samples(page)
    assert found["broker_registry_versions", ()] == 5
    assert found["broker_registry_problems_total", ()] == 1
    assert found["broker_registry_requests_total", (("resource", "subjects"), ("status", "404"))] == 1
    assert found["broker_registry_request_seconds_count", (("resource", "subjects"),)] == 2


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("/subjects/a/versions/1", "subjects"),
        ("/contexts", "contexts"),
        ("/contexts/.test/subjects/a", "subjects"),
        ("/contexts/.test", "contexts"),
        ("/", OTHER),
        ("", OTHER),
        ("/made-up-by-a-client", OTHER),
        ("//subjects", "subjects"),
    ],
)
def test_paths_are_counted_by_their_resource(path: str, resource: str) -> None:
    """If this fails, each path that a client makes up is a label, and fills the memory of Prometheus."""
    assert resource_of(path) == resource
    assert resource in (*RESOURCES, OTHER)


def test_an_instance_serves_its_metrics(registry: RegistryProcess, subject: str) -> None:
    """If this fails, Prometheus cannot read the registry, or reads counts of something else."""
    assert registry.register(subject, '{"type":"string"}').status == 200
    with urllib.request.urlopen(f"{registry.url}/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        found = samples(answer.read().decode())
    assert found["broker_registry_following", ()] == 1
    assert found["broker_registry_subjects", ()] >= 1
    assert found["broker_registry_takeovers_total", ()] >= 1
    assert found["broker_registry_requests_total", (("resource", "subjects"), ("status", "200"))] >= 1


def test_the_document_has_each_metric() -> None:
    """If this fails, operators cannot look up a metric."""
    text = DOCUMENT.read_text()
    for metric in METRICS.values():
        if metric.name.startswith("broker_registry_"):
            labels = ", ".join(metric.labels)
            assert f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |" in text, metric.name
