"""The data of a broker's samples that the dashboard keeps: the measures, and the values of each sample.

Formulas are those of broker_cy.console.figures. A latency keeps more than a value: minimum and maximum are of the p99
of each sample (quantiles of several samples cannot be combined, so the p99 of a range is that of its worst sample),
while sum and count are those of the requests, so that the mean is that of all requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final, NamedTuple

import orjson

from broker_cy.console import figures
from broker_cy.metrics import sample as samples
from broker_cy.metrics.sample import Api, Sample, Times, Topic
from dashboard.collector.history_topics import Busiest
from dashboard.collector.rings import RESOLUTIONS_MS, Key, Rings

_LOG = logging.getLogger(__name__)

# Limits of the series that one broker may add: APIs that exist (Kafka has fewer than 100), phases, directories.
APIS_MAX: Final = 100
PHASES_MAX: Final = 16
DIRECTORIES_MAX: Final = 64
BROKERS_MAX: Final = 200
# A sample whose time is further ahead of this computer's clock is ignored: it would end all windows in the future.
AHEAD_MS_MAX: Final = 3_600_000


class Absent(Enum):
    """The meaning of a missing value in a sample."""

    ZERO = "zero"
    UNKNOWN = "unknown"


class Measure(NamedTuple):
    """Unit of a measure, and the meaning of a missing value."""

    unit: str
    absent: Absent = Absent.ZERO


# One value for each sample of a broker: it shows when other measures were 0.
PRESENCE: Final = "samples"
LATENCY: Final = "phase_us"
LOOP_LAG: Final = "loop_lag_us"
DISK_FREE: Final = "disk_free_bytes"
API_REQUESTS: Final = "api_requests_per_s"
API_ERRORS: Final = "api_errors_per_s"
TOPIC_IN: Final = "topic_in_bytes_per_s"
TOPIC_OUT: Final = "topic_out_bytes_per_s"
TOPIC_RECORDS: Final = "topic_in_records_per_s"
TOPIC_MEASURES: Final = (TOPIC_IN, TOPIC_OUT, TOPIC_RECORDS)

# Measures of a whole broker that are one value of each sample.
_SIMPLE: Final[dict[str, tuple[Measure, Callable[[Sample], float]]]] = {
    PRESENCE: (Measure("samples", Absent.UNKNOWN), lambda each: 1.0),
    "in_bytes_per_s": (Measure("bytes/s"), figures.in_bytes_per_s),
    "out_bytes_per_s": (Measure("bytes/s"), figures.out_bytes_per_s),
    "in_records_per_s": (Measure("records/s"), figures.in_records_per_s),
    "requests_per_s": (Measure("requests/s"), figures.requests_per_s),
    "errors_per_s": (Measure("errors/s"), figures.errors_per_s),
    "cpu_percent": (Measure("% of a core"), figures.cpu_percent),
    "resident_bytes": (Measure("bytes"), lambda each: each.resident_bytes),
    "connections": (Measure("connections"), lambda each: each.connections),
    "connections_opened_per_s": (
        Measure("connections/s"),
        lambda each: figures.rate(each, each.connections_opened),
    ),
    "connections_closed_per_s": (
        Measure("connections/s"),
        lambda each: figures.rate(each, each.connections_closed),
    ),
    "loop_lag_max_us": (Measure("us"), lambda each: each.loop_lag.max_us),
    "unflushed_bytes": (Measure("bytes"), lambda each: each.unflushed_bytes),
    "major_faults_per_s": (Measure("faults/s"), lambda each: figures.rate(each, each.major_faults)),
    "cold_reads_per_s": (Measure("reads/s"), lambda each: figures.rate(each, each.cold_reads)),
    "groups": (Measure("groups"), lambda each: sum(each.groups.values())),
    "members": (Measure("members"), lambda each: each.members),
    "throttled_ms_per_s": (Measure("ms/s"), lambda each: figures.rate(each, each.throttled_ms)),
    "open_transactions": (Measure("transactions"), figures.open_transactions),
}
MEASURES: Final[dict[str, Measure]] = {
    **{name: measure for name, (measure, _) in _SIMPLE.items()},
    LOOP_LAG: Measure("us", Absent.UNKNOWN),
    LATENCY: Measure("us", Absent.UNKNOWN),
    DISK_FREE: Measure("bytes", Absent.UNKNOWN),
    API_REQUESTS: Measure("requests/s"),
    API_ERRORS: Measure("errors/s"),
    TOPIC_IN: Measure("bytes/s"),
    TOPIC_OUT: Measure("bytes/s"),
    TOPIC_RECORDS: Measure("records/s"),
}


def decode(value: bytes) -> Sample | None:
    """Return a sample without its connections and quotas, which no chart needs; None for an unknown version. This
    takes half the time of metrics.sample.decode. Raises ValueError if the value is not a sample.
    """
    try:
        found = orjson.loads(value)
        if found["version"] != samples.VERSION:
            return None
        found["busy"] = found["quotas"] = []
        found["loop_lag"] = Times(**found.get("loop_lag", {}))
        found["apis"] = {name: _api(api) for name, api in found.get("apis", {}).items()}
        found["topics"] = {name: Topic(**topic) for name, topic in found.get("topics", {}).items()}
        found["disks"] = {path: (room[0], room[1]) for path, room in found.get("disks", {}).items()}
        return Sample(**found)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        # Fields of a later version, names that are not valid Unicode, or not a sample.
        return samples.decode(value)


def _api(found: dict[str, object]) -> Api:
    phases = found.get("phases")
    if isinstance(phases, dict):
        found["phases"] = {name: Times(**times) for name, times in phases.items()}
    return Api(**found)  # type: ignore[arg-type]


class _Values:
    """Values of a series that belong to one bucket and are not in the rings yet. `totals` and `counts` are empty unless
    the mean is not that of the values.
    """

    __slots__ = ("counts", "key", "totals", "values")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.values: list[float] = []
        self.totals: list[float] = []
        self.counts: list[float] = []


class _Broker:
    """The places of a broker's series, so that no key is built for each value."""

    def __init__(self, broker: int) -> None:
        self.broker = broker
        self.simple = [(_Values(Key(broker, name)), of) for name, (_, of) in _SIMPLE.items()]
        self.loop_lag = _Values(Key(broker, LOOP_LAG))
        self.disks: dict[str, _Values] = {}
        self.apis: dict[str, tuple[_Values, _Values, dict[str, _Values]]] = {}
        self.topics: dict[str, tuple[_Values, _Values, _Values]] = {}
        # Bucket of the values that were taken since the last flush.
        self.level = 0
        self.bucket = -1
        self.resolution_ms = 1
        self.dirty: list[_Values] = []


class Recorder:
    """Takes samples, and puts their values into rings: those of one bucket together.

    Call `flush` at last; until then the rings lack the newest values. `ignored` counts samples that are older than all
    windows or further ahead than AHEAD_MS_MAX; `unreadable` counts records that are not samples. `newest_ms` is the
    time of the newest sample of each broker.
    """

    def __init__(self, rings: Rings, busiest: Busiest) -> None:
        self._rings = rings
        self._busiest = busiest
        self._brokers: dict[int, _Broker] = {}
        self.newest_ms: dict[int, int] = {}
        self.ignored = 0
        self.unreadable = 0

    def take(self, value: bytes, now_ms: int) -> None:
        """Take the value of a record."""
        try:
            sample = decode(value)
            if sample is None:
                self.unreadable += 1
                return
            self._take(sample, now_ms)
        except (ValueError, TypeError, OverflowError, AttributeError) as error:
            if not self.unreadable:
                _LOG.warning("a record of the metrics topic is no sample: %s", error)
            self.unreadable += 1

    def _take(self, sample: Sample, now_ms: int) -> None:
        time_ms = sample.time_ms
        broker = self._brokers.get(sample.broker)
        if broker is None:
            if len(self._brokers) >= BROKERS_MAX:
                self.ignored += 1
                return
            broker = self._brokers[sample.broker] = _Broker(sample.broker)
        level = self._rings.level_of(time_ms)
        if level is None or time_ms > now_ms + AHEAD_MS_MAX:
            self.ignored += 1
            return
        resolution_ms = RESOLUTIONS_MS[level]
        bucket = time_ms // resolution_ms
        if level != broker.level or bucket != broker.bucket:
            self._flush(broker)
            broker.level, broker.bucket, broker.resolution_ms = level, bucket, resolution_ms
        self._rings.advance(time_ms)
        self.newest_ms[sample.broker] = max(time_ms, self.newest_ms.get(sample.broker, 0))
        self._add_all(broker, sample)

    def _add_all(self, broker: _Broker, sample: Sample) -> None:
        dirty = broker.dirty
        for place, of in broker.simple:
            if value := of(sample):
                _add(dirty, place, value)
        _add_times(dirty, broker.loop_lag, sample.loop_lag)
        for path, room in sample.disks.items():
            disk = broker.disks.get(path)
            if disk is None:
                if len(broker.disks) >= DIRECTORIES_MAX:
                    continue
                disk = broker.disks[path] = _Values(Key(broker.broker, DISK_FREE, path))
            _add(dirty, disk, room[0])
        for name, api in sample.apis.items():
            self._add_api(broker, name, api, sample)
        per = figures.rate(sample, 1.0)
        for name, topic in sample.topics.items():
            self._add_topic(broker, name, topic, per)

    def _add_api(self, broker: _Broker, name: str, api: Api, sample: Sample) -> None:
        places = broker.apis.get(name)
        if places is None:
            if len(broker.apis) >= APIS_MAX:
                return
            node = broker.broker
            places = broker.apis[name] = (
                _Values(Key(node, API_REQUESTS, name)),
                _Values(Key(node, API_ERRORS, name)),
                {},
            )
        requests, errors, phases = places
        if api.requests:
            _add(broker.dirty, requests, figures.rate(sample, api.requests))
        if api.errors:
            _add(broker.dirty, errors, figures.rate(sample, sum(api.errors.values())))
        for phase, times in api.phases.items():
            place = phases.get(phase)
            if place is None:
                if len(phases) >= PHASES_MAX:
                    continue
                place = phases[phase] = _Values(Key(broker.broker, LATENCY, name, phase))
            _add_times(broker.dirty, place, times)

    def _add_topic(self, broker: _Broker, name: str, topic: Topic, per: float) -> None:
        places = broker.topics.get(name)
        admitted, evicted = self._busiest.take((broker.broker, name), topic.in_bytes + topic.out_bytes)
        if evicted is not None:
            self.drop_topic(*evicted)
        if not admitted:
            return
        if places is None:
            node = broker.broker
            places = broker.topics[name] = (
                _Values(Key(node, TOPIC_IN, name)),
                _Values(Key(node, TOPIC_OUT, name)),
                _Values(Key(node, TOPIC_RECORDS, name)),
            )
        if topic.in_bytes:
            _add(broker.dirty, places[0], topic.in_bytes * per)
        if topic.out_bytes:
            _add(broker.dirty, places[1], topic.out_bytes * per)
        if topic.in_records:
            _add(broker.dirty, places[2], topic.in_records * per)

    def drop_topic(self, node: int, name: str) -> None:
        """Forget a topic: busier topics take its place."""
        for measure in TOPIC_MEASURES:
            self._rings.drop(Key(node, measure, name))
        broker = self._brokers.get(node)
        for place in broker.topics.pop(name, ()) if broker is not None else ():
            place.values.clear()

    def flush(self) -> None:
        """Put the values that were taken into the rings."""
        for broker in self._brokers.values():
            self._flush(broker)

    def _flush(self, broker: _Broker) -> None:
        places = self._rings.places(broker.bucket * broker.resolution_ms, broker.level)
        series_of = self._rings.series
        for place in broker.dirty:
            values, place.values = place.values, []
            if place.counts:
                total, count = sum(place.totals), sum(place.counts)
                place.totals, place.counts = [], []
            else:
                total, count = sum(values), len(values)
            if values and (series := series_of(place.key)) is not None:
                series.put(places, min(values), max(values), total, count)
        broker.dirty.clear()


def _add(dirty: list[_Values], place: _Values, value: float) -> None:
    # A number that does not fit a float raises OverflowError here, not later when the values are put into the rings.
    value += 0.0
    if not place.values:
        dirty.append(place)
    place.values.append(value)


def _add_times(dirty: list[_Values], place: _Values, times: Times) -> None:
    if times.count:
        total, count = times.sum_us + 0.0, times.count + 0.0
        _add(dirty, place, times.p99_us)
        place.totals.append(total)
        place.counts.append(count)


def presence_of(key: Key) -> Key | None:
    """Return the series that says when `key` was 0; None if a missing value of it is unknown, not 0."""
    return Key(key.broker, PRESENCE) if MEASURES[key.measure].absent is Absent.ZERO else None


def latencies(keys: Iterable[Key]) -> list[Key]:
    """Return the latencies among some series, by broker, API and phase."""
    return sorted(key for key in keys if key.measure == LATENCY)
