"""The state of the flows of a process, for people (JSON) and metrics (Prometheus). docs/mirror.md has the table of
metrics; a test keeps it up to date.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

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
class PartitionState:
    """A partition of the source and its copy. None: not known yet. `waits`: the problem stops the partition."""

    topic: str
    partition: int
    remote_topic: str
    source_position: int | None
    source_end: int | None
    target_end: int | None
    lag_records: int | None
    lag_ms: int | None
    records: int
    bytes: int
    problem: str | None
    waits: bool


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


@dataclass(frozen=True, slots=True)
class Restart:
    """A restart of a flow: its time, and the reason for which the flow had ended."""

    time_ms: int
    cause: str


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """A flow in this process. `state` is starting, running, waiting (after a failure) or stopped; `share` is the part
    of this process, such as "1 of 2". `problems` are sentences by topic or task; `loops` are topics that come from the
    target. `groups` have the number of partitions with translated offsets. Rates are of one second.
    """

    source: str
    target: str
    kind: str
    state: str
    share: str | None = None
    leads: bool = False
    partitions: tuple[PartitionState, ...] = ()
    problems: Mapping[str, str] = field(default_factory=dict)
    loops: tuple[str, ...] = ()
    groups: Mapping[str, int] = field(default_factory=dict)
    records_per_s: float = 0.0
    bytes_per_s: float = 0.0
    checkpoint_ms: int | None = None
    restarts: int = 0
    last_restarts: tuple[Restart, ...] = ()

    @property
    def lag_records(self) -> int | None:
        """The records of all partitions that were not copied yet; None if no partition is known."""
        known = [each.lag_records for each in self.partitions if each.lag_records is not None]
        return sum(known) if known else None

    @property
    def lag_ms(self) -> int | None:
        known = [each.lag_ms for each in self.partitions if each.lag_ms is not None]
        return max(known) if known else None


@dataclass(frozen=True, slots=True)
class MirrorStatus:
    """The flows of a process."""

    version: str
    flows: tuple[FlowStatus, ...]

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), ensure_ascii=False).encode()


def status_of(found: Any) -> MirrorStatus:
    """Return the status of a JSON value (to_json). Raises KeyError, TypeError or ValueError if it is none."""
    flows = []
    for each in found["flows"]:
        parts = tuple(PartitionState(**part) for part in each["partitions"])
        last = tuple(Restart(**restart) for restart in each["last_restarts"])
        flows.append(FlowStatus(**{**each, "partitions": parts, "last_restarts": last, "loops": tuple(each["loops"])}))
    return MirrorStatus(found["version"], tuple(flows))


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
        }[name]
        if value is not None:
            page.sample(name, value, flow.source, flow.target, part.remote_topic, str(part.partition))


def _problems(flow: FlowStatus) -> int:
    return len(flow.problems) + sum(part.problem is not None for part in flow.partitions)
