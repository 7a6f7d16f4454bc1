"""The holdings of each broker, counted over the topics that a viewer may see; and charts of one broker.

Counting 200,000 partitions takes a tenth of a second, so it is done once for each answer of the cluster (Remembered),
and in turns.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from broker_cy.admin.metadata import PartitionInfo, TopicInfo
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.turns import Turns
from broker_cy.console.rows import LogDirs
from broker_cy.metrics.sample import Sample
from dashboard.collector.channel import Channel, Params
from dashboard.collector.charts import HistoryChart
from dashboard.collector.patches import State
from dashboard.collector.rings import Key
from dashboard.security.roles import EVERYTHING, Scope

T = TypeVar("T")
V = TypeVar("V")

# Kafka's node ids are 32-bit.
BROKER_ID_MAX = (1 << 31) - 1
# Samples of one broker that rates are computed from: ten seconds.
RATE_SAMPLES = 10


class Remembered(Generic[T, V]):
    """Remembers the result of a computation for one object. `of` must not be called concurrently."""

    def __init__(self, compute: Callable[[T], Awaitable[V]]) -> None:
        self._compute = compute
        self._last: tuple[T, V] | None = None

    async def of(self, value: T) -> V:
        if self._last is None or self._last[0] is not value:
            self._last = value, await self._compute(value)
        return self._last[1]


@dataclass(slots=True)
class Held:
    """Partitions of a broker: those it leads, all its replicas, and those that are in sync."""

    leads: int = 0
    replicas: int = 0
    in_sync: int = 0

    @property
    def out_of_sync(self) -> int:
        return self.replicas - self.in_sync


class Troubled(NamedTuple):
    """A partition that is offline or under-replicated."""

    topic: str
    part: PartitionInfo


@dataclass(frozen=True, slots=True)
class Holdings:
    """Counts over the visible topics; `troubled` are the partitions without a leader or with replicas out of sync."""

    brokers: dict[int, Held]
    topics: int
    partitions: int
    offline: int
    behind: int
    troubled: list[Troubled]


async def holdings_of(topics: Iterable[TopicInfo], scope: Scope) -> Holdings:
    """Count what each broker holds of the topics that `scope` may see."""
    brokers: dict[int, Held] = {}
    troubled: list[Troubled] = []
    seen = partitions = offline = 0
    turns = Turns()
    for topic in topics:
        await turns.pause()
        if not scope.sees_topic(topic.name):
            continue
        seen += 1
        for part in topic.partitions:
            partitions += 1
            for broker in part.replicas:
                brokers.setdefault(broker, Held()).replicas += 1
            for broker in part.in_sync_replicas:
                brokers.setdefault(broker, Held()).in_sync += 1
            if part.is_offline:
                offline += 1
            else:
                brokers.setdefault(part.leader_id, Held()).leads += 1
            if part.is_offline or part.is_under_replicated:
                troubled.append(Troubled(topic.name, part))
    troubled.sort(key=lambda each: (not each.part.is_offline, each.topic, each.part.partition))
    return Holdings(brokers, seen, partitions, offline, len(troubled) - offline, troubled)


async def sizes_of(dirs: LogDirs, scope: Scope) -> dict[int, int]:
    """Return the bytes of the visible replicas of each broker that answered."""
    sizes: dict[int, int] = {}
    turns = Turns()
    for broker, directories in dirs.found.items():
        total = 0
        for directory in directories:
            for replica in directory.replicas:
                if scope.sees_topic(replica.topic):
                    total += replica.size_bytes
                await turns.pause()
        sizes[broker] = total
    return sizes


def sees_all_subjects(scope: Scope) -> bool:
    """Whether a viewer may see every topic and group, which is required for rows that do not belong to one of them."""
    return scope.topics == scope.groups == EVERYTHING


def require_all_subjects(scope: Scope, hidden: str) -> None:
    """Raise ClientError with the text `hidden` if a viewer may see only some topics or groups."""
    if not sees_all_subjects(scope):
        raise ClientError(Failure.REFUSED, hidden)


def parse_broker(name: str, params: Params) -> int | None:
    """Return the parameter `broker`; None if it is not given. Raises ClientError."""
    text = params.get("broker", "")
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 10 or int(text) > BROKER_ID_MAX:
        raise ClientError(Failure.INVALID, f"{name}: broker={text!r}: a number from 0 to {BROKER_ID_MAX} is expected")
    return int(text)


def recent(samples: Sequence[Sample], broker: int | None, amount: int = RATE_SAMPLES) -> list[Sample]:
    """Return the newest samples of a broker (None: the one with the lowest id), the oldest first."""
    if broker is None:
        broker = min((sample.broker for sample in samples), default=-1)
    found: list[Sample] = []
    for sample in reversed(samples):
        if sample.broker == broker:
            found.append(sample)
            if len(found) == amount:
                break
    return found[::-1]


class OfBroker(Channel):
    """Channels with the parameter `broker`, whatever else they are."""

    @classmethod
    def check(cls, params: Params) -> dict[str, str]:
        found = super().check(params)
        parse_broker(cls.name, found)
        return found

    @property
    def broker(self) -> int | None:
        """Return the broker's id; None if it is not given."""
        return parse_broker(self.name, self.params)


class BrokerChart(OfBroker, HistoryChart):
    """Lines of one broker (parameter `broker`), or of each broker."""

    SUBJECT = frozenset({"broker"})

    def lines(self, brokers: Sequence[int]) -> Sequence[tuple[str, Key]]:
        return super().lines(self.chosen(brokers))

    def chosen(self, brokers: Sequence[int]) -> Sequence[int]:
        return brokers if self.broker is None else [each for each in brokers if each == self.broker]

    async def state(self) -> State | None:
        brokers = {key.broker for key in self.hub.history.names()}
        if brokers and self.broker is not None and self.broker not in brokers:
            return {"t": [], "series": [], "v": []}
        return await super().state()
