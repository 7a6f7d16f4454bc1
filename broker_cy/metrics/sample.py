"""One sample of a broker's metrics, as written to the topic `__broker_metrics`: the counts of one interval.

The value of a record is JSON with the fields of `Sample`; the key is the node id as text. Later releases may add
fields; a change of meaning raises `version`. Fields that are 0 or empty are omitted, and readers restore them.
"""

from __future__ import annotations

import json
from dataclasses import field, fields
from typing import Any, TypeVar

from broker_cy.core.classes import dataclass
from broker_cy.metrics import topics

TOPIC = topics.SAMPLES
VERSION = 1


@dataclass(slots=True)
class Times:
    """Durations that ended in the interval, in microseconds; quantiles are at most one sixteenth too high."""

    count: int = 0
    sum_us: int = 0
    p50_us: int = 0
    p99_us: int = 0
    max_us: int = 0


@dataclass(slots=True)
class Api:
    """Requests of one API; `phases` has the phases of docs/metrics.md."""

    requests: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    in_bytes: int = 0
    out_bytes: int = 0
    phases: dict[str, Times] = field(default_factory=dict)


@dataclass(slots=True)
class Topic:
    in_records: int = 0
    in_bytes: int = 0
    out_bytes: int = 0


@dataclass(slots=True)
class Connection:
    """One connection that sent or received data in the interval."""

    id: str = ""
    client_id: str = ""
    host: str = ""
    listener: str = ""
    age_ms: int = 0
    requests: int = 0
    in_bytes: int = 0
    out_bytes: int = 0


@dataclass(slots=True)
class QuotaUse:
    """The use of a quota by an entity. `rate` is the rate that counts against `limit`, over the windows of the quota;
    it is 0 for controller_mutation_rate, which has no rate. `waits` and `waited_ms` are the throttles of the interval.
    `user` or `client_id` is empty if all of them share the quota. For connection_creation_rate, `client_id` is the
    address.
    """

    key: str = ""
    user: str = ""
    client_id: str = ""
    limit: float = 0.0
    rate: float = 0.0
    waits: int = 0
    waited_ms: int = 0


@dataclass(slots=True)
class Sample:
    """Counts such as `cpu_us`, page faults and bytes cover the interval. Amounts such as memory and descriptors are
    those at its end.
    """

    version: int = VERSION
    time_ms: int = 0
    broker: int = 0
    interval_ms: int = 0
    uptime_ms: int = 0
    cpu_us: int = 0
    resident_bytes: int = 0
    open_fds: int = 0
    minor_faults: int = 0
    major_faults: int = 0
    disk_read_bytes: int = 0
    disk_written_bytes: int = 0
    loop_lag: Times = field(default_factory=Times)
    connections: int = 0
    connections_opened: int = 0
    connections_closed: int = 0
    partitions: int = 0
    offline: int = 0
    hot_reads: int = 0
    cold_reads: int = 0
    hot_bytes: int = 0
    cold_bytes: int = 0
    sync_rounds: int = 0
    unflushed_bytes: int = 0
    groups: dict[str, int] = field(default_factory=dict)
    members: int = 0
    transactions: dict[str, int] = field(default_factory=dict)
    oldest_transaction_ms: int = 0
    disks: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Free and total bytes of the file system of each log directory."""
    apis: dict[str, Api] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    topics_left_out: int = 0
    busy: list[Connection] = field(default_factory=list)
    busy_left_out: int = 0
    quotas: list[QuotaUse] = field(default_factory=list)
    """Entities with use in the interval: those that were throttled longest, then those nearest to their limit."""
    quotas_left_out: int = 0
    throttles: int = 0
    throttled_ms: int = 0
    """How often, and for how long, clients were throttled because of quotas."""


T = TypeVar("T", Times, Api, Topic, Connection, QuotaUse, Sample)
_FIELDS: dict[type[Any], tuple[str, ...]] = {
    cls: tuple(each.name for each in fields(cls)) for cls in (Times, Api, Topic, Connection, QuotaUse, Sample)
}
_NAMES: dict[type[Any], frozenset[str]] = {cls: frozenset(names) for cls, names in _FIELDS.items()}


def encode(sample: Sample) -> bytes:
    """Return the value of its record."""
    return json.dumps(_without_zeros(sample), separators=(",", ":"), ensure_ascii=False).encode(
        "utf-8", "surrogatepass"
    )


def _without_zeros(value: Any) -> Any:
    # dataclasses.asdict copies each value deeply first, which takes three times as long.
    names = _FIELDS.get(type(value))
    if names is not None or isinstance(value, dict):
        pairs = value.items() if names is None else ((name, getattr(value, name)) for name in names)
        small = {key: _without_zeros(each) for key, each in pairs}
        return {key: each for key, each in small.items() if each not in (0, "", {}, [])}
    if isinstance(value, list):
        return [_without_zeros(each) for each in value]
    return value


def decode(value: bytes) -> Sample | None:
    """Return the sample of a record; None for a version that this code does not know. Raises ValueError if it is not
    a sample.
    """
    try:
        found = json.loads(value)
        if found["version"] != VERSION:
            return None
        found["loop_lag"] = _known(Times, found.get("loop_lag", {}))
        found["apis"] = {name: _api(api) for name, api in found.get("apis", {}).items()}
        found["topics"] = {name: _known(Topic, topic) for name, topic in found.get("topics", {}).items()}
        found["busy"] = [_known(Connection, each) for each in found.get("busy", [])]
        found["quotas"] = [_known(QuotaUse, each) for each in found.get("quotas", [])]
        found["disks"] = {path: (room[0], room[1]) for path, room in found.get("disks", {}).items()}
        return _known(Sample, found)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"not a sample: {error!r} in {value[:100]!r}") from error


def _api(found: dict[str, Any]) -> Api:
    phases = {name: _known(Times, times) for name, times in found.get("phases", {}).items()}
    return _known(Api, {**found, "phases": phases})


def _known(cls: type[T], found: dict[str, Any]) -> T:
    """Return a `cls` of those fields that this code knows: a newer broker may write more."""
    known = _NAMES[cls]
    if not found.keys() <= known:
        found = {name: value for name, value in found.items() if name in known}
    return cls(**found)
