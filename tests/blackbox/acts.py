"""The acts of clients, as data, and the plan of a run, which is a pure function of its seed.

A run is a sequence of rounds. In a round each lane does its acts, one at a time, on its own topics; the lanes run
at the same time. The broker is killed once in the round if the plan says so, and every round ends with a kill
immediately after the last acknowledgement, or with a clean stop. Then it starts again and everything is read.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

CLIENTS = ("confluent-kafka", "aiokafka", "kafka-python")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LANES = 3
PARTITIONS_MAX = 3
# Topics with this limit refuse larger records; no batch of the clients reaches it otherwise.
LIMIT_BYTES = 40_000
COMPACT = {"min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "200", "segment.ms": "50"}
# Settings of new topics: they change how the broker writes, rolls, syncs or cleans.
CONFIGS: tuple[Mapping[str, str], ...] = (
    {},
    {"segment.ms": "50"},
    {"flush.messages": "1"},
    {"flush.messages": "7", "segment.bytes": "1048576"},
    {"compression.type": "lz4"},
    {"message.timestamp.type": "LogAppendTime", "max.message.bytes": str(LIMIT_BYTES)},
    {"cleanup.policy": "compact", **COMPACT},
    {"cleanup.policy": "compact,delete", **COMPACT},
)


@dataclass(frozen=True, slots=True)
class Create:
    topic: str
    partitions: int
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Delete:
    topic: str


@dataclass(frozen=True, slots=True)
class Trim:
    """DeleteRecords in one partition, up to this share of its records."""

    topic: str
    partition: int
    share: float


@dataclass(frozen=True, slots=True)
class Configure:
    """IncrementalAlterConfigs."""

    topic: str
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Grow:
    """CreatePartitions."""

    topic: str
    partitions: int


@dataclass(frozen=True, slots=True)
class Produce:
    """One producer that sends `count` records over all partitions and waits for the responses."""

    topic: str
    client: str
    codec: str
    idempotent: bool
    count: int
    value_bytes: int
    keys: int
    tombstones: float
    seed: int


@dataclass(frozen=True, slots=True)
class Transact:
    """One transactional producer; for each transaction the number of records, and whether it commits."""

    topic: str
    client: str
    codec: str
    ends: tuple[tuple[int, bool], ...]
    keys: int
    seed: int


@dataclass(frozen=True, slots=True)
class Refuse:
    """Records that the broker must refuse (too large, or without a key in a compacted topic), among valid ones."""

    topic: str
    client: str
    keyless: bool
    count: int
    seed: int


Act = Create | Delete | Trim | Configure | Grow | Produce | Transact | Refuse


@dataclass(frozen=True, slots=True)
class Round:
    lanes: tuple[tuple[Act, ...], ...]
    kill_at: float | None
    """The share of this round's records that are acknowledged when the broker is killed during the acts."""
    stop: bool
    """Whether the round ends with SIGTERM; otherwise with SIGKILL."""
    reader: str
    """The client that reads in addition to confluent-kafka."""


@dataclass
class _Topic:
    name: str
    partitions: int = 0
    config: dict[str, str] = field(default_factory=dict)

    @property
    def exists(self) -> bool:
        return self.partitions > 0

    @property
    def policy(self) -> str:
        return self.config.get("cleanup.policy", "delete")


class Plan:
    """Generates the rounds of a run."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(f"plan {seed}")
        # Few names, so that most topics have predecessors.
        self.topics = [[_Topic(f"lane{lane}-{name}") for name in "ab"] for lane in range(LANES)]

    def round(self) -> Round:
        draw = self.random
        return Round(
            tuple(self._lane(topics) for topics in self.topics),
            draw.uniform(0.05, 0.9) if draw.random() < 0.5 else None,
            draw.random() < 0.2,
            draw.choice(CLIENTS[1:]),
        )

    def _lane(self, topics: list[_Topic]) -> tuple[Act, ...]:
        acts: list[Act] = []
        for _ in range(self.random.randint(1, 4)):
            acts += self._acts(self.random.choice(topics))
        return tuple(acts)

    def _acts(self, topic: _Topic) -> list[Act]:
        draw = self.random
        if not topic.exists:
            return [self._create(topic), self._produce(topic)]
        choices: list[tuple[str, int]] = [("produce", 8), ("transact", 4), ("again", 4), ("delete", 1), ("config", 2)]
        if "delete" in topic.policy:
            choices.append(("trim", 5))
        if topic.partitions < PARTITIONS_MAX:
            choices.append(("grow", 1))
        if topic.policy == "compact" or "max.message.bytes" in topic.config:
            choices.append(("refuse", 3))
        match draw.choices([name for name, _ in choices], [weight for _, weight in choices])[0]:
            case "produce":
                return [self._produce(topic)]
            case "transact":
                ends = tuple((draw.randint(1, 40), draw.random() < 0.6) for _ in range(draw.randint(1, 4)))
                client, codec = draw.choice(CLIENTS), draw.choice(CODECS)
                return [Transact(topic.name, client, codec, ends, draw.choice((5, 50)), draw.getrandbits(32))]
            case "trim":
                share = draw.choice((1.0, draw.random(), draw.random()))
                return [Trim(topic.name, draw.randrange(topic.partitions), share)]
            case "again":
                return [self._delete(topic), self._create(topic), self._produce(topic)]
            case "delete":
                return [self._delete(topic)]
            case "config":
                policy = draw.choice(("delete", "compact", "compact,delete"))
                changed = {"cleanup.policy": policy, **COMPACT}
                topic.config |= changed
                return [Configure(topic.name, changed)]
            case "grow":
                topic.partitions += 1
                return [Grow(topic.name, topic.partitions)]
            case _:
                keyless = topic.policy == "compact" and ("max.message.bytes" not in topic.config or draw.random() < 0.5)
                client = draw.choice(CLIENTS)
                return [Refuse(topic.name, client, keyless, draw.randint(1, 8), draw.getrandbits(32))]

    def _create(self, topic: _Topic) -> Create:
        topic.partitions = self.random.randint(1, PARTITIONS_MAX)
        topic.config = dict(self.random.choice(CONFIGS))
        return Create(topic.name, topic.partitions, dict(topic.config))

    @staticmethod
    def _delete(topic: _Topic) -> Delete:
        topic.partitions = 0
        return Delete(topic.name)

    def _produce(self, topic: _Topic) -> Produce:
        draw = self.random
        return Produce(
            topic.name,
            draw.choice(CLIENTS),
            draw.choice(CODECS),
            draw.random() < 0.5,
            draw.choice((1, 10, 100, 400)),
            draw.choice((0, 50, 1000)),
            draw.choice((5, 50)),
            0.1 if "compact" in topic.policy else 0.0,
            draw.getrandbits(32),
        )
