"""The content of a report as plain values: times are ms since 1970 (UTC), and the limits of everything are here.

A page of one cluster has about 2 MB, including 1.5 MB of the drawing library; each further cluster adds up to 0.5 MB.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from broker_cy.admin.lag import Status

# Clusters of a page; `--cluster` chooses others.
CLUSTERS_MAX = 6
# Points of a line: about the number of pixels of a screen. The length of periods follows from it.
POINTS_MAX = 1_000
# Lines of a chart: brokers or topics, those with the most bytes; the sum of the others is one more.
LINES_MAX = 7
GROUPS_MAX = 7
# Rows of tables.
REBALANCES_MAX = 20
SPENDERS_MAX = 5
HOT_MAX = 20
UNEVEN_MAX = 5
ANOMALIES_MAX = 100
DISKS_MAX = 50
GAPS_MAX = 10
FORECASTS_MAX = 4
# A text of a table, such as the ids of members.
NAMES_MAX = 3

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
# All of them divide a day.
PERIODS_MS = (MINUTE_MS, 5 * MINUTE_MS, 15 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS, DAY_MS)
# The status of a group in a period is the worst one that it reached or exceeded for this share of its minutes: in most
# hours even a healthy group has a minute in which its lag grows.
SHARE_LEAST = 0.25
# The statuses of groups that need attention.
BAD = (Status.WARN, Status.REWOUND, Status.STALLED, Status.STOPPED)


@dataclass(frozen=True)
class Rates:
    """The traffic of a broker or topic in each period; None if no sample covers it. `cpu_share` is in cores, and empty
    for topics.
    """

    name: str
    in_bytes_per_s: tuple[float | None, ...]
    out_bytes_per_s: tuple[float | None, ...]
    records_per_s: tuple[float | None, ...]
    cpu_share: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class Gap:
    """A time without samples of a broker."""

    broker: int
    start_ms: int
    end_ms: int


@dataclass(frozen=True)
class GroupPoint:
    """A group in a period: its greatest lags, and its status (SHARE_LEAST)."""

    at_ms: int
    lag_records: int
    time_lag_ms: int | None
    status: Status


@dataclass(frozen=True)
class Group:
    """A group; `minutes` is the time in each status, `bad_partitions` are those that were abandoned at the end."""

    name: str
    status: Status
    lag_records: int
    lag_records_max: int
    time_lag_max_ms: int | None
    abandoned: int
    minutes: dict[Status, int]
    points: tuple[GroupPoint, ...] = ()


@dataclass(frozen=True)
class Rebalance:
    """A rebalance: its cost and its cause."""

    at_ms: int
    group: str
    generation: int
    cause: str
    members: tuple[str, ...]
    clients: tuple[str, ...]
    hosts: tuple[str, ...]
    moves: int
    stall_max_ms: int
    stalled_s: float
    records: float


@dataclass(frozen=True)
class Spender:
    """The cost of the rebalances of a reason, client or host; `share` is its part of all records that waited."""

    by: str
    name: str
    rebalances: int
    stalled_s: float
    records: float
    share: float | None


@dataclass(frozen=True)
class HotPartition:
    """A partition with more than its share of its topic: `share` and `fair_share` are parts of 1."""

    topic: str
    partition: int
    share: float
    fair_share: float
    records_per_s: float


@dataclass(frozen=True)
class Uneven:
    """A topic and its skew: the Gini coefficient, 0 for equal partitions."""

    topic: str
    partitions: int
    gini: float
    hottest: int
    hottest_share: float


@dataclass(frozen=True)
class Anomaly:
    """A time in which a broker differed from the others or from its history; `words` say which."""

    broker: int
    metric: str
    start_ms: int
    end_ms: int
    minutes: int
    score: float
    words: str


@dataclass(frozen=True)
class Backtest:
    """The quality of a forecast on known data: the mean error as a part of 1, and the share of hours in the band."""

    error: float | None
    coverage: float
    hours: int


@dataclass(frozen=True)
class Forecast:
    """The predicted bytes of a topic by hour, with their band; or the reason why there is no forecast."""

    topic: str
    start_ms: int | None = None
    expected: tuple[float, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    growth_per_day: float | None = None
    backtest: Backtest | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Disk:
    """A disk, and the number of days until it is full; `reason` says why that is not known."""

    broker: int
    path: str
    used_bytes: int
    total_bytes: int
    growth_per_day: float | None
    full_days: float | None
    full_days_low: float | None
    full_days_high: float | None
    backtest: Backtest | None
    reason: str | None


@dataclass(frozen=True)
class Cluster:
    """One cluster. `start_ms` is the first period; numbers named `..._total` count what the bounded lists were taken
    from.
    """

    name: str
    rows: dict[str, int]
    first_ms: int
    last_ms: int
    start_ms: int
    nodes: tuple[Rates, ...] = ()
    nodes_total: int = 0
    topics: tuple[Rates, ...] = ()
    topics_total: int = 0
    gaps: tuple[Gap, ...] = ()
    gaps_total: int = 0
    gaps_ms: int = 0
    groups: tuple[Group, ...] = ()
    groups_total: int = 0
    groups_bad: int = 0
    rebalances: tuple[Rebalance, ...] = ()
    rebalances_total: int = 0
    spenders: tuple[Spender, ...] = ()
    hot: tuple[HotPartition, ...] = ()
    hot_total: int = 0
    partitions_total: int = 0
    uneven: tuple[Uneven, ...] = ()
    anomalies: tuple[Anomaly, ...] = ()
    anomalies_total: int = 0
    forecasts: tuple[Forecast, ...] = ()
    disks: tuple[Disk, ...] = ()
    disks_total: int = 0


@dataclass(frozen=True)
class Report:
    """The whole report: its request (`lake`, `span`), its time of creation, and its clusters."""

    lake: str
    span: str
    made_ms: int
    version: str
    period_ms: int
    clusters: tuple[Cluster, ...]
    left_out: tuple[str, ...] = field(default=())


def period_of(first_ms: int, last_ms: int) -> int:
    """Return the length of periods that gives a line of this time at most POINTS_MAX points, as far as days are short
    enough.
    """
    for each in PERIODS_MS:
        if start_of(last_ms, each) - start_of(first_ms, each) < each * POINTS_MAX:
            return each
    return PERIODS_MS[-1]


def start_of(at_ms: int, period_ms: int) -> int:
    """Return the start of the period of a time."""
    return at_ms // period_ms * period_ms
