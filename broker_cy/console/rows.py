"""Rows of lists, which combine several answers about one broker, topic or group."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from broker_cy.admin.caller import Outcome
from broker_cy.admin.cluster import BrokerInfo, ClusterDescription
from broker_cy.admin.group_lag import PartitionLag
from broker_cy.admin.group_values import GroupListing
from broker_cy.admin.lag import Status, Trend, catch_up_s, judge, trend
from broker_cy.admin.lag_history import LagHistory
from broker_cy.admin.log_dirs import LogDir, ReplicaOnDisk
from broker_cy.admin.metadata import TopicInfo, TopicPartition
from broker_cy.console.feed_values import GroupSummary, GroupView
from broker_cy.console.figures import busiest, newest_of
from broker_cy.console.hosts import by_host
from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.metrics.sample import Sample
from broker_cy.reporting.numbers import count, duration
from broker_cy.reporting.tone import Tone

LogDirs = Outcome[int, tuple[LogDir, ...]]

# A smaller change of the lag counts as none: it is one record in twenty seconds.
TREND_LEAST_PER_S: Final = 0.05
STATUS_TONES = {
    Status.OK: Tone.GOOD,
    Status.UNKNOWN: Tone.MUTED,
    Status.WARN: Tone.WARN,
    Status.REWOUND: Tone.WARN,
    Status.STALLED: Tone.BAD,
    Status.STOPPED: Tone.BAD,
}


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """A broker. `sample` is its newest sample, None if it writes none; counts are None if they are not known.
    `is_cordoned`: none of its directories takes new replicas.
    """

    info: BrokerInfo
    is_controller: bool
    leads: int | None
    size_bytes: int | None
    sample: Sample | None
    is_cordoned: bool = False
    shards: tuple[BrokerRow, ...] = ()  # of a host, in one row: which has no sample; empty for a broker

    @property
    def parts(self) -> tuple[BrokerRow, ...]:
        """The brokers that the row shows."""
        return self.shards or (self,)


def host_rows(rows: Sequence[BrokerRow], opened: Collection[int]) -> list[BrokerRow]:
    """Return one row for each host with shards, and for each other broker. A host whose first broker is in `opened` is
    followed by the rows of its shards.
    """
    found = []
    for host in by_host(rows, lambda row: row.info):
        if len(host) == 1:
            found.append(host[0])
            continue
        found.append(_host_row(host))
        if host[0].info.broker_id in opened:
            found += host
    return found


def _host_row(host: tuple[BrokerRow, ...]) -> BrokerRow:
    leads = [row.leads for row in host if row.leads is not None]
    sizes = [row.size_bytes for row in host if row.size_bytes is not None]
    return BrokerRow(
        host[0].info,
        any(row.is_controller for row in host),
        sum(leads) if len(leads) == len(host) else None,
        sum(sizes) if len(sizes) == len(host) else None,
        None,
        all(row.is_cordoned for row in host),
        host,
    )


def broker_rows(
    cluster: ClusterDescription,
    topics: Iterable[TopicInfo] | None,
    dirs: LogDirs | None,
    samples: Sequence[Sample],
) -> list[BrokerRow]:
    """Return a row for every broker of the cluster. `topics` and `dirs` are None until they are known."""
    leads: dict[int, int] = {}
    for topic in topics or ():
        for part in topic.partitions:
            leads[part.leader_id] = leads.get(part.leader_id, 0) + 1
    newest = {sample.broker: sample for sample in newest_of(samples)}
    return [
        BrokerRow(
            info,
            info.broker_id == cluster.controller_id,
            None if topics is None else leads.get(info.broker_id, 0),
            None
            if dirs is None or info.broker_id not in dirs.found
            else sum(each.size_bytes for each in dirs.found[info.broker_id]),
            newest.get(info.broker_id),
            dirs is not None and is_cordoned(dirs.found.get(info.broker_id, ())),
        )
        for info in cluster.brokers
    ]


def is_cordoned(dirs: Sequence[LogDir]) -> bool:
    """Return whether there are directories, and none of them takes new replicas (KIP-1066)."""
    return bool(dirs) and all(each.is_cordoned for each in dirs)


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic. Size and rates are None if they are not known."""

    info: TopicInfo
    size_bytes: int | None
    records_per_s: float | None
    in_per_s: float | None

    @property
    def offline(self) -> int:
        return sum(part.is_offline for part in self.info.partitions)

    @property
    def under_replicated(self) -> int:
        return sum(part.is_under_replicated for part in self.info.partitions)


def is_own_topic(info: TopicInfo) -> bool:
    """Return whether the cluster itself uses the topic."""
    return info.is_own or info.name.startswith("__")


def topic_rows(
    topics: Iterable[TopicInfo], sizes: Mapping[str, int] | None, samples: Sequence[Sample]
) -> list[TopicRow]:
    """Return a row for each of `topics`. `sizes` is Session.topic_sizes."""
    return list(each_topic_row(topics, sizes, samples))


def each_topic_row(
    topics: Iterable[TopicInfo], sizes: Mapping[str, int] | None, samples: Sequence[Sample]
) -> Iterator[TopicRow]:
    """Yield the rows of `topic_rows`: with 15,000 topics, the caller lets other tasks run in between."""
    rates = {each.name: each for each in busiest(newest_of(samples))}
    idle = 0.0 if samples else None
    for info in topics:
        rate = rates.get(info.name)
        yield TopicRow(
            info,
            None if sizes is None else sizes.get(info.name, 0),
            idle if rate is None else rate.records_per_s,
            idle if rate is None else rate.in_per_s,
        )


class ReplicaRow(NamedTuple):
    """A replica and its log directory."""

    broker_id: int
    path: str
    replica: ReplicaOnDisk


def replica_rows(dirs: Iterable[LogDir]) -> list[ReplicaRow]:
    return [ReplicaRow(each.broker_id, each.path, replica) for each in dirs for replica in each.replicas]


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group; `summary` is None until its lag is known."""

    listing: GroupListing
    summary: GroupSummary | None

    @property
    def lag(self) -> int | None:
        return None if self.summary is None else self.summary.lag

    @property
    def trend(self) -> Trend | None:
        return None if self.summary is None else self.summary.trend

    @property
    def status(self) -> Status | None:
        return None if self.summary is None else self.summary.status


@dataclass(frozen=True, slots=True)
class LagRow:
    """A partition of a group. `is_exact`: the time lag comes from the broker's event of the commit."""

    part: PartitionLag
    owner: str
    time_ms: int | None
    is_exact: bool
    trend: Trend | None
    status: Status

    @property
    def lag(self) -> int | None:
        return self.part.lag


def lag_rows(view: GroupView, history: LagHistory) -> list[LagRow]:
    """Return a row for every partition with a committed offset of the group."""
    owners: dict[TopicPartition, list[str]] = {}
    for member in view.description.members:
        for key in member.assignment:
            owners.setdefault(key, []).append(member.client_id)
    rows = []
    for part in view.lag.partitions:
        key = part.partition
        samples = history.samples(view.description.group_id, key)
        rows.append(
            LagRow(
                part,
                _owner_text(owners.get(key, ())),
                view.times_ms.get(key),
                key in view.exact,
                trend(samples),
                judge(samples),
            )
        )
    return rows


def _owner_text(client_ids: Sequence[str]) -> str:
    """Return the client id of the owner. The members of a share group share their partitions."""
    return client_ids[0] if len(client_ids) == 1 else f"{count(len(client_ids))} members" if client_ids else "-"


def catch_up_text(lag_trend: Trend | None, lag: int | None) -> str:
    """Return the estimated time until the group has caught up.

    The slowest partition decides. If it does not catch up although the lag of the group falls, the time is a lower
    bound, from the sum: "never" beside a falling trend would be a contradiction.
    """
    if lag == 0 or lag_trend is None:
        return "-"
    if lag_trend.catch_up_s is not None:
        return duration(lag_trend.catch_up_s * 1000)
    # The sum of rates that cancel each other out is not exactly 0.
    is_falling = lag_trend.lag_per_s <= -TREND_LEAST_PER_S
    least_s = catch_up_s(lag, -lag_trend.lag_per_s) if lag is not None and is_falling else None
    return "never" if least_s is None else f"≥ {duration(least_s * 1000)}"


def assignment_text(assignment: Iterable[TopicPartition]) -> str:
    """Format an assignment by topic, with ranges: `orders 0-3,7  payments 1`."""
    by_topic: dict[str, list[int]] = {}
    for key in assignment:
        by_topic.setdefault(key.topic, []).append(key.partition)
    return "  ".join(f"{topic} {ranges(numbers)}" for topic, numbers in by_topic.items())


def ranges(numbers: Iterable[int]) -> str:
    """Format numbers in ascending order as ranges: `0-3,7` for 0, 1, 2, 3 and 7."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)
