"""The size of a synthetic cluster (`spark_analytics.synthetic`), and the anomalies planted in it with their answers."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta

DAY_S = 86_400
PATHS = ("/data/a", "/data/b")
# Partitions that move in each rebalance.
MOVES = 3
# API, phase, usual p99 in us.
PHASES = (
    ("Produce", "queue", 400), ("Produce", "handler", 900), ("Produce", "disk", 2_500), ("Produce", "send", 300),
    ("Produce", "total", 4_000), ("Fetch", "queue", 400), ("Fetch", "handler", 700), ("Fetch", "disk", 1_200),
    ("Fetch", "data", 480_000), ("Fetch", "send", 600), ("Fetch", "total", 490_000), ("Metadata", "total", 800),
)  # fmt: skip
# The phases that are slow at a broker with a slow disk.
SLOW_PHASES = (("Produce", "disk"), ("Produce", "total"), ("Fetch", "disk"))
DEAR_STALL_MS = 240_000
ROWS_MOST = 10**10


@dataclass(frozen=True)
class Size:
    """The size of the cluster, and its intervals of writing. Raises ValueError for impossible values."""

    brokers: int = 3
    topics: int = 3
    partitions: int = 4
    groups: int = 2
    days: int = 2
    sample_s: int = 60
    commit_s: int = 60
    rebalance_s: int = 6 * 3600
    start: datetime = datetime(2026, 1, 5, tzinfo=UTC)

    def __post_init__(self) -> None:
        for each in fields(self):
            if each.name != "start" and (value := getattr(self, each.name)) < 1:
                raise ValueError(f"{each.name} is {value}: 1 or more is allowed")
        if self.start.tzinfo is None:
            raise ValueError(f"start is {self.start} without a time zone: one with a zone is allowed")
        if (total := sum(self.rows.values())) > ROWS_MOST:
            raise ValueError(f"{total} rows: at most {ROWS_MOST} are allowed")

    @property
    def seconds(self) -> int:
        return self.days * DAY_S

    @property
    def end(self) -> datetime:
        return self.start + timedelta(seconds=self.seconds)

    def broker_of(self, topic: int, partition: int) -> int:
        """Return the broker that leads a partition."""
        return (partition + topic) % self.brokers

    @property
    def rows(self) -> dict[str, int]:
        """The number of rows of each table."""
        samples = self.brokers * (self.seconds // self.sample_s)
        rebalances = self.groups * (self.seconds // self.rebalance_s)
        return {
            "samples": samples,
            "api_phases": samples * len(PHASES),
            "topic_rates": samples * self.topics,
            "commits": self.groups * self.topics * self.partitions * (self.seconds // self.commit_s),
            "rebalances": rebalances,
            "moves": rebalances * min(MOVES, self.partitions),
            "triggers": rebalances,
        }

    def with_commits(self, count: int) -> Size:
        """Return the size with about this many commits (and not fewer), by more partitions or fewer commits of each."""
        at_once = self.groups * self.topics
        if count < self.rows["commits"]:
            return replace(self, commit_s=self.seconds // max(1, math.ceil(count / (at_once * self.partitions))))
        return replace(self, partitions=math.ceil(count / (at_once * (self.seconds // self.commit_s))))


@dataclass(frozen=True)
class Slow:
    """The disk of a broker was slow: the p99s of SLOW_PHASES were this many times higher."""

    broker: int
    start: datetime
    end: datetime
    times: float


@dataclass(frozen=True)
class Surge:
    """All brokers of the cluster needed this many times the CPU, which only their own history shows."""

    start: datetime
    end: datetime
    times: float


@dataclass(frozen=True)
class Hot:
    """A partition has this share of its topic."""

    topic: str
    partition: int
    share: float


@dataclass(frozen=True)
class Growing:
    """A group reads a partition at this part of its rate, from a time to the end."""

    group: str
    topic: str
    partition: int
    start: datetime
    reads: float


@dataclass(frozen=True)
class Dear:
    """A rebalance that stalled each moved partition for this time, and its cause."""

    group: str
    generation: int
    client_id: str
    host: str
    stall_ms: int


@dataclass(frozen=True)
class Filling:
    """A disk that is full at this time if the trend continues."""

    broker: int
    path: str
    full_at: datetime


@dataclass(frozen=True)
class Answers:
    """The planted anomalies."""

    slow: tuple[Slow, ...] = ()
    surges: tuple[Surge, ...] = ()
    hot: tuple[Hot, ...] = ()
    growing: tuple[Growing, ...] = ()
    dear: tuple[Dear, ...] = ()
    filling: tuple[Filling, ...] = ()

    def __len__(self) -> int:
        return sum(len(getattr(self, each.name)) for each in fields(self))


def plant(size: Size, seed: int = 1, slow: int = 10) -> Answers:
    """Return anomalies in a cluster: `slow` slow brokers, at most one at a time, and one anomaly of each other kind.
    The surge needs more than two weeks, because two weeks must precede it. Raises ValueError if the anomalies do not
    fit.
    """
    if not 0 <= slow <= size.days * 24:
        raise ValueError(f"slow is {slow}: 0 to 24 a day are allowed, {size.days * 24} in {size.days} days")
    chance = random.Random(seed)
    room = timedelta(seconds=size.seconds) / max(1, slow)
    slows = []
    for number in range(slow):
        lasts = timedelta(minutes=chance.randint(8, 25))
        start = _minute(size.start + number * room + chance.random() * (room - lasts - timedelta(minutes=2)))
        slows.append(Slow(chance.randrange(size.brokers), start, start + lasts, chance.uniform(5, 10)))
    end = size.end
    surges: tuple[Surge, ...] = ()
    if size.days > 15:
        start = _minute(end - timedelta(hours=chance.uniform(10, 20)))
        surges = (Surge(start, start + timedelta(hours=2), 1.8),)
    topics = size.topics
    lagging = end - timedelta(hours=chance.uniform(6, 12))
    group = f"group-{chance.randrange(size.groups)}"
    return Answers(
        slow=tuple(slows),
        surges=surges,
        # The topic with the least traffic, so that its broker is not the one with the most.
        hot=(Hot(f"topic-{topics - 1}", chance.randrange(size.partitions), 0.7),) if size.partitions > 2 else (),
        growing=(
            Growing(group, "topic-0", chance.randrange(size.partitions), lagging, 0.5),
        ),
        dear=(
            Dear(group, chance.randint(1, size.seconds // size.rebalance_s), "deploy-bot", "10.9.9.9", DEAR_STALL_MS),
        ),
        filling=(
            Filling(chance.randrange(size.brokers), PATHS[-1], end + timedelta(days=chance.uniform(5, 30))),
        ),
    )  # fmt: skip


def _minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)
