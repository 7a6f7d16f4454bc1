"""The state of the flows of a process (broker_cy.client.mirror_status) as metrics, and its rates. docs/mirror.md has
the table of metrics; a test keeps it up to date.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from broker_cy.client.mirror_status import FlowStatus, MirrorStatus
from broker_cy.metrics.definitions import Metric
from broker_cy.metrics.exposition import Page

RATE_S: Final = 10.0
"""The window of rates."""
RESTARTS_MAX: Final = 20
"""Restarts of a flow that are remembered."""
_FLOW: Final = ("source", "target")
_PARTITION: Final = (*_FLOW, "topic", "partition")
_TABLE: Final = (
    Metric("broker_mirror_flow_running", "gauge", _FLOW, "1 while the flow runs in this process; 0 after a failure."),
    Metric("broker_mirror_restarts_total", "counter", _FLOW, "How often the flow was started again after a failure."),
    Metric("broker_mirror_leads", "gauge", _FLOW, "1 in the process that runs the tasks of the flow that run once."),
    Metric(
        "broker_mirror_problems",
        "gauge",
        _FLOW,
        "Topics, partitions and tasks of the flow that have a problem now; the status names them.",
    ),
    Metric("broker_mirror_loops", "gauge", _FLOW, "Topics that are not copied because they come from the target."),
    Metric(
        "broker_mirror_circles",
        "gauge",
        _FLOW,
        "Topics of these that neither of two flows copies: each would copy them back under the same name.",
    ),
    Metric(
        "broker_mirror_record_count_total",
        "counter",
        _PARTITION,
        "Records that were copied: record-count of MirrorMaker 2.",
    ),
    Metric(
        "broker_mirror_byte_count_total", "counter", _PARTITION, "Bytes that were copied: byte-count of MirrorMaker 2."
    ),
    Metric(
        "broker_mirror_byte_rate", "gauge", _FLOW, "Bytes copied in a second, over 10 s: byte-rate of MirrorMaker 2."
    ),
    Metric("broker_mirror_record_rate", "gauge", _FLOW, "Records copied in a second, over 10 s."),
    Metric("broker_mirror_lag_records", "gauge", _PARTITION, "Records of the source that were not copied yet."),
    Metric(
        "broker_mirror_record_age_ms",
        "gauge",
        _PARTITION,
        "Age of the last copied record while records wait, else 0: record-age-ms of MirrorMaker 2.",
    ),
    Metric(
        "broker_mirror_replication_latency_ms",
        "gauge",
        _PARTITION,
        "Age of the newest record of the last batch when the target had it: replication-latency-ms of MirrorMaker 2.",
    ),
    Metric(
        "broker_mirror_checkpoint_latency_ms",
        "gauge",
        _FLOW,
        "Time of the last turn of emit.checkpoints, from reading offsets until the checkpoints were stored:"
        " checkpoint-latency-ms of MirrorMaker 2.",
    ),
    Metric("broker_mirror_groups", "gauge", _FLOW, "Groups with translated offsets."),
)
METRICS: Final = {metric.name: metric for metric in _TABLE}


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """A partition of the source. `position` is the next offset to copy, None if nothing was copied yet; `end` is the
    end of the partition for readers of committed records, None if its leader does not answer.
    """

    flow: str
    topic: str
    partition: int
    position: int | None
    end: int | None
    lag: int | None


class Rate:
    """The growth of two counts in a second, over a window."""

    def __init__(self, window_s: float = RATE_S) -> None:
        self._window_s = window_s
        # At most a sample a second.
        self._samples: deque[tuple[float, int, int]] = deque(maxlen=int(window_s) + 1)

    def note(self, now_s: float, records: int, size_bytes: int) -> None:
        """Take the counts at a time, once a second. Counts that are smaller than before are those of a new begin."""
        if self._samples and records < self._samples[-1][1]:
            self._samples.clear()
        self._samples.append((now_s, records, size_bytes))

    def per_s(self) -> tuple[float, float]:
        """Return records and bytes of a second."""
        if len(self._samples) < 2:
            return 0.0, 0.0
        (begin_s, *begin), (end_s, *end) = self._samples[0], self._samples[-1]
        length_s = max(end_s - begin_s, 0.001)
        return (end[0] - begin[0]) / length_s, (end[1] - begin[1]) / length_s


def metrics_page(status: MirrorStatus) -> bytes:
    """Return the page of a scrape."""
    page = Page(METRICS)
    of_flows: dict[str, list[tuple[FlowStatus, float | None]]] = {
        "broker_mirror_flow_running": [(flow, int(flow.state == "running")) for flow in status.flows],
        "broker_mirror_restarts_total": [(flow, flow.restarts) for flow in status.flows],
        "broker_mirror_leads": [(flow, int(flow.leads)) for flow in status.flows],
        "broker_mirror_problems": [(flow, _problems(flow)) for flow in status.flows],
        "broker_mirror_loops": [(flow, len(flow.loops)) for flow in status.flows],
        "broker_mirror_circles": [(flow, len(flow.circles)) for flow in status.flows],
        "broker_mirror_byte_rate": [(flow, flow.bytes_per_s) for flow in status.flows],
        "broker_mirror_record_rate": [(flow, flow.records_per_s) for flow in status.flows],
        "broker_mirror_checkpoint_latency_ms": [(flow, flow.checkpoint_ms) for flow in status.flows],
        "broker_mirror_groups": [(flow, len(flow.groups)) for flow in status.flows],
    }
    for name in METRICS:
        page.family(name)
        for flow, value in of_flows.get(name, ()):
            if value is not None:
                page.sample(name, value, flow.source, flow.target)
        if name not in of_flows:
            for flow in status.flows:
                _write_partitions(page, name, flow)
    return page.encode()


def _write_partitions(page: Page, name: str, flow: FlowStatus) -> None:
    for part in flow.partitions:
        value = {
            "broker_mirror_record_count_total": part.records,
            "broker_mirror_byte_count_total": part.bytes,
            "broker_mirror_lag_records": part.lag_records,
            "broker_mirror_record_age_ms": part.lag_ms,
            "broker_mirror_replication_latency_ms": part.latency_ms,
        }[name]
        if value is not None:
            page.sample(name, value, flow.source, flow.target, part.remote_topic, str(part.partition))


def _problems(flow: FlowStatus) -> int:
    return len(flow.problems) + sum(part.problem is not None for part in flow.partitions)
