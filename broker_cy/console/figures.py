"""Figures from the broker's own samples: rates, latencies and health, as both consoles show them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker_cy.admin.cluster import ClusterDescription
from broker_cy.admin.metadata import TopicInfo
from broker_cy.admin.sample_window import TOTAL, merged
from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.metrics.sample import Connection, Sample, Times, Topic
from broker_cy.reporting.numbers import count, duration, micros, percent, size
from broker_cy.reporting.tone import Tone

# Time over which a rate is computed, before the newest sample of any broker. Each broker writes one sample a second.
RATE_MS = 10_000
_DISK_FREE_SHARE_LOW = 0.1
_LOOP_LAG_HIGH_US = 100_000


class Fact(NamedTuple):
    """A name, its value as text, and its tone."""

    name: str
    value: str
    tone: Tone = Tone.PLAIN


class TopicCounts(NamedTuple):
    """Topics and partitions of a cluster; `behind` are under-replicated, and not offline."""

    topics: int
    partitions: int
    offline: int
    behind: int


def counts_of(topics: Sequence[TopicInfo]) -> TopicCounts:
    partitions = offline = behind = 0
    for topic in topics:
        for part in topic.partitions:
            partitions += 1
            if part.is_offline:
                offline += 1
            elif part.is_under_replicated:
                behind += 1
    return TopicCounts(len(topics), partitions, offline, behind)


@dataclass(frozen=True, slots=True)
class BusyTopic:
    """Rates of a topic."""

    name: str
    records_per_s: float
    in_per_s: float
    out_per_s: float


@dataclass(frozen=True, slots=True)
class ApiRow:
    """An API over a window. `p99_us` and `max_us` are those of the worst sample; None without requests."""

    name: str
    per_s: float
    errors: int
    in_per_s: float
    out_per_s: float
    mean_us: float | None
    p99_us: int | None
    max_us: int | None


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """A phase of one API; `share` of the API's whole time."""

    name: str
    count: int
    mean_us: float | None
    p50_us: int
    p99_us: int
    max_us: int
    share: str


def rate(sample: Sample, amount: float) -> float:
    """Return an amount of the sample's interval per second."""
    return amount * 1000 / (sample.interval_ms or 1_000)


def per_second(sample: Sample, amount: Callable[[Topic], int]) -> float:
    """The sum of `amount` over the topics of a sample, per second."""
    return rate(sample, sum(map(amount, sample.topics.values())))


def in_bytes_per_s(sample: Sample) -> float:
    return per_second(sample, lambda topic: topic.in_bytes)


def out_bytes_per_s(sample: Sample) -> float:
    return per_second(sample, lambda topic: topic.out_bytes)


def in_records_per_s(sample: Sample) -> float:
    return per_second(sample, lambda topic: topic.in_records)


def requests_per_s(sample: Sample) -> float:
    """Requests of all APIs."""
    return rate(sample, sum(api.requests for api in sample.apis.values()))


def errors_per_s(sample: Sample) -> float:
    """Errors in the answers of all APIs."""
    return rate(sample, sum(sum(api.errors.values()) for api in sample.apis.values()))


def cpu_percent(sample: Sample) -> float:
    """CPU time of the broker's process, in percent of one core."""
    return rate(sample, sample.cpu_us) / 10_000


def open_transactions(sample: Sample) -> int:
    return sample.transactions.get("Ongoing", 0)


def api_p99_us(sample: Sample, name: str) -> float | None:
    """The p99 of whole requests of an API; None without requests."""
    api = sample.apis.get(name)
    times = None if api is None else api.phases.get(TOTAL)
    return times.p99_us if times is not None and times.count else None


def newest_of(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples of the last RATE_MS, of all brokers, the oldest first."""
    found: list[Sample] = []
    for sample in reversed(samples):
        if samples[-1].time_ms - sample.time_ms >= RATE_MS:
            break
        found.append(sample)
    return found[::-1]


def _weights(samples: Sequence[Sample]) -> dict[int, float]:
    """Return the factor from amounts of a broker's samples to amounts per second; rates of brokers can be added."""
    covered_ms: dict[int, int] = {}
    for sample in samples:
        covered_ms[sample.broker] = covered_ms.get(sample.broker, 0) + sample.interval_ms
    return {broker: 1000 / (ms or 1000) for broker, ms in covered_ms.items()}


def busiest(samples: Sequence[Sample]) -> list[BusyTopic]:
    """Rates of each topic over the samples, which may be those of several brokers."""
    weights = _weights(samples)
    rates: dict[str, list[float]] = {}
    for sample in samples:
        weight = weights[sample.broker]
        for name, topic in sample.topics.items():
            total = rates.setdefault(name, [0.0, 0.0, 0.0])
            total[0] += topic.in_records * weight
            total[1] += topic.in_bytes * weight
            total[2] += topic.out_bytes * weight
    return [BusyTopic(name, *total) for name, total in rates.items()]


def health_of(cluster: ClusterDescription | None, topics: TopicCounts | None, sample: Sample | None) -> list[Fact]:
    """Return the known facts about the cluster's health; None for parts that are not known yet."""
    facts: list[Fact] = []
    if cluster is not None:
        fenced = sum(broker.is_fenced for broker in cluster.brokers)
        brokers = f"{len(cluster.brokers)}, {fenced} fenced" if fenced else str(len(cluster.brokers))
        facts.append(Fact("brokers", brokers, Tone.BAD if fenced else Tone.GOOD))
        has_controller = cluster.controller_id >= 0
        controller = str(cluster.controller_id) if has_controller else "none"
        facts.append(Fact("controller", controller, Tone.PLAIN if has_controller else Tone.BAD))
    if topics is not None:
        facts.append(Fact("topics", count(topics.topics)))
        facts.append(Fact("partitions", count(topics.partitions)))
        facts.append(Fact("offline", count(topics.offline), Tone.BAD if topics.offline else Tone.GOOD))
        if topics.behind:
            facts.append(Fact("under-replicated", count(topics.behind), Tone.WARN))
    if sample is None:
        return facts
    lag_us = sample.loop_lag.p99_us
    facts += [
        Fact("up", duration(sample.uptime_ms)),
        Fact("CPU", percent(sample.cpu_us / 1000, sample.interval_ms)),
        Fact("memory", size(sample.resident_bytes)),
        Fact("loop lag p99", micros(lag_us), Tone.WARN if lag_us > _LOOP_LAG_HIGH_US else Tone.PLAIN),
        Fact("connections", count(sample.connections)),
        Fact("groups", count(sum(sample.groups.values()))),
        Fact("members", count(sample.members)),
        Fact("transactions open", count(open_transactions(sample))),
        Fact("not flushed", size(sample.unflushed_bytes)),
    ]
    if sample.disks:
        free, total = min(sample.disks.values(), key=lambda room: room[0] / max(1, room[1]))
        tone = Tone.BAD if free < total * _DISK_FREE_SHARE_LOW else Tone.PLAIN
        facts.append(Fact("disk free", f"{size(free)} ({percent(free, total)})", tone))
    return facts


def process_facts(sample: Sample) -> list[Fact]:
    """Return the resources that the broker's process uses."""
    return [
        Fact("CPU", percent(sample.cpu_us / 1000, sample.interval_ms)),
        Fact("memory", size(sample.resident_bytes)),
        Fact("files", count(sample.open_fds)),
        Fact("loop lag p99", micros(sample.loop_lag.p99_us)),
        Fact("max", micros(sample.loop_lag.max_us)),
        Fact("major faults", count(sample.major_faults)),
        Fact("disk read", f"{size(sample.disk_read_bytes)}/s"),
        Fact("written", f"{size(sample.disk_written_bytes)}/s"),
        Fact("hot reads", count(sample.hot_reads)),
        Fact("cold reads", count(sample.cold_reads)),
        Fact("syncs", count(sample.sync_rounds)),
        Fact("not flushed", size(sample.unflushed_bytes)),
    ]


def _mean(times: Times) -> float | None:
    return times.sum_us / times.count if times.count else None


def api_rows(samples: Sequence[Sample]) -> list[ApiRow]:
    """Each API over the samples, which may be those of several brokers."""
    weights = _weights(samples)
    rows = []
    for name in sorted({name for sample in samples for name in sample.apis}):
        weighed = [(weights[sample.broker], sample.apis[name]) for sample in samples if name in sample.apis]
        apis = [api for _, api in weighed]
        times = merged([api.phases[TOTAL] for api in apis if TOTAL in api.phases])
        rows.append(
            ApiRow(
                name,
                sum(weight * api.requests for weight, api in weighed),
                sum(sum(api.errors.values()) for api in apis),
                sum(weight * api.in_bytes for weight, api in weighed),
                sum(weight * api.out_bytes for weight, api in weighed),
                _mean(times),
                times.p99_us if times.count else None,
                times.max_us if times.count else None,
            )
        )
    return rows


def phase_rows(name: str, samples: Sequence[Sample]) -> list[PhaseRow]:
    """Each phase of one API over the samples."""
    found: dict[str, list[Times]] = {}
    for sample in samples:
        if name in sample.apis:
            for phase, times in sample.apis[name].phases.items():
                found.setdefault(phase, []).append(times)
    phases = {phase: merged(every) for phase, every in found.items()}
    whole = phases[TOTAL].sum_us if TOTAL in phases else sum(times.sum_us for times in phases.values())
    return [
        PhaseRow(
            phase, times.count, _mean(times), times.p50_us, times.p99_us, times.max_us, percent(times.sum_us, whole)
        )
        for phase, times in phases.items()
    ]


def connection_rates(samples: Sequence[Sample]) -> list[Connection]:
    """Return the connections in the samples, which may be those of several brokers; requests and bytes are per second
    over all samples of the connection's broker.
    """
    weights = _weights(samples)
    newest: dict[tuple[int, str], Connection] = {}
    sums: dict[tuple[int, str], list[float]] = {}
    for sample in samples:
        weight = weights[sample.broker]
        for each in sample.busy:
            key = (sample.broker, each.id)
            newest[key] = each
            total = sums.setdefault(key, [0.0, 0.0, 0.0])
            total[0] += each.requests * weight
            total[1] += each.in_bytes * weight
            total[2] += each.out_bytes * weight
    return [
        Connection(
            each.id,
            each.client_id,
            each.host,
            each.listener,
            each.age_ms,
            *map(round, sums[key]),
        )
        for key, each in newest.items()
    ]
