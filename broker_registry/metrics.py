"""The metrics of an instance for Prometheus: their table, the counts of requests, and the page.

docs/registry.md has the table; a test keeps it up to date.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from broker_cy import __version__
from broker_cy.metrics import process
from broker_cy.metrics.definitions import Metric
from broker_cy.metrics.exposition import Page
from broker_cy.metrics.histogram import Histogram

RESOURCES: Final = ("subjects", "schemas", "compatibility", "config", "mode", "contexts", "v1")
_CONTEXTS: Final = "contexts"
_RESOURCES: Final = frozenset(RESOURCES)
OTHER: Final = "other"
"""The resource of all other paths: those that clients make up do not become labels."""

_TABLE: Final = (
    Metric(
        "broker_registry_build_info", "gauge", ("version", "cluster_id"), "Always 1; the labels identify the instance."
    ),
    Metric(
        "broker_registry_following",
        "gauge",
        (),
        "1 while the instance follows the topic of the schemas; 0: its answers may be old, and it has to be restarted.",
    ),
    Metric("broker_registry_subjects", "gauge", (), "Subjects, with those that are deleted softly."),
    Metric("broker_registry_versions", "gauge", (), "Versions of all subjects, with those that are deleted softly."),
    Metric("broker_registry_schemas", "gauge", (), "Ids of schemas, over all contexts."),
    Metric("broker_registry_changes_total", "counter", (), "Parts of the topic that were applied."),
    Metric(
        "broker_registry_problems_total",
        "counter",
        (),
        "Records of the topic that were not taken, because they are damaged or give an id a second meaning.",
    ),
    Metric(
        "broker_registry_takeovers_total",
        "counter",
        (),
        "How often this instance took over writing; it grows fast if several instances write at the same time.",
    ),
    Metric(
        "broker_registry_requests_total",
        "counter",
        ("resource", "status"),
        "Answers by the first part of the path and the HTTP status.",
    ),
    Metric(
        "broker_registry_request_seconds", "histogram", ("resource",), "Time from a request to the begin of its answer."
    ),
    Metric("process_cpu_seconds_total", "counter", (), "User and system CPU time of the process."),
    Metric("process_resident_memory_bytes", "gauge", (), "Resident memory of the process."),
    Metric("process_open_fds", "gauge", (), "Open file descriptors."),
    Metric("process_start_time_seconds", "gauge", (), "Start time of the process, in seconds since 1970."),
)
METRICS: Final = {metric.name: metric for metric in _TABLE}


class RequestCounts:
    """Answers by resource and status, and their times."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, int], int] = {}
        self._times = {name: Histogram() for name in (*RESOURCES, OTHER)}

    def note(self, path: str, status: int, ns: int) -> None:
        """Count an answer that took `ns` nanoseconds."""
        resource = resource_of(path)
        key = resource, status
        self._answers[key] = self._answers.get(key, 0) + 1
        self._times[resource].observe_ns(ns)

    def write(self, page: Page) -> None:
        page.family("broker_registry_requests_total")
        for (resource, status), count in sorted(self._answers.items()):
            page.sample("broker_registry_requests_total", count, resource, str(status))
        page.family("broker_registry_request_seconds")
        for resource, times in self._times.items():
            page.histogram("broker_registry_request_seconds", times.snapshot(), resource)


def resource_of(path: str) -> str:
    """Return the first part of a path, behind that of a context, if it is one of RESOURCES; OTHER else."""
    first, _, rest = path.lstrip("/").partition("/")
    if first == _CONTEXTS:
        first = rest.partition("/")[2].partition("/")[0] or _CONTEXTS
    return first if first in _RESOURCES else OTHER


class Sizes(NamedTuple):
    """See the metrics of these names."""

    subjects: int
    versions: int
    schemas: int


class Counted(Protocol):
    """An instance, as the page sees it (service.Service)."""

    @property
    def cluster_id(self) -> str: ...
    @property
    def is_following(self) -> bool: ...
    @property
    def takeovers(self) -> int: ...
    @property
    def changes(self) -> int: ...
    @property
    def problems(self) -> int: ...
    def sizes(self) -> Sizes: ...


def render(instance: Counted, requests: RequestCounts) -> bytes:
    """Return the page of a scrape; it takes a millisecond for each 10,000 subjects."""
    page = Page(METRICS)
    page.one("broker_registry_build_info", 1, __version__, instance.cluster_id)
    page.one("broker_registry_following", int(instance.is_following))
    sizes = instance.sizes()
    page.one("broker_registry_subjects", sizes.subjects)
    page.one("broker_registry_versions", sizes.versions)
    page.one("broker_registry_schemas", sizes.schemas)
    page.one("broker_registry_changes_total", instance.changes)
    page.one("broker_registry_problems_total", instance.problems)
    page.one("broker_registry_takeovers_total", instance.takeovers)
    requests.write(page)
    stats = process.read()
    page.one("process_cpu_seconds_total", stats.cpu_s)
    page.one("process_resident_memory_bytes", stats.resident_bytes)
    page.one("process_open_fds", stats.open_fds)
    page.one("process_start_time_seconds", stats.start_time_s)
    return page.encode()
