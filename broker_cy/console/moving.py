"""The replicas that are being moved now, by any client: the bytes that each has copied, and the throttle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.reassignments import Reassignment
from broker_cy.admin.throttles import Throttle
from broker_cy.client.errors import ClientError, Failure
from broker_cy.core.classes import dataclass
from broker_cy.reporting.numbers import duration, plural, size

NO_THROTTLE = Throttle({}, {})


@dataclass(frozen=True, slots=True)
class MovingPartition:
    """A partition that is being moved. The bytes are those that its new replicas copy together."""

    reassignment: Reassignment
    copied_bytes: int
    total_bytes: int

    @property
    def partition(self) -> TopicPartition:
        return self.reassignment.partition


@dataclass(frozen=True, slots=True)
class Moving:
    """Everything that is being moved, by partition. `rate_bytes_per_s` is None until it is known."""

    partitions: tuple[MovingPartition, ...]
    throttle: Throttle
    rate_bytes_per_s: float | None = None

    @property
    def copied_bytes(self) -> int:
        return sum(each.copied_bytes for each in self.partitions)

    @property
    def total_bytes(self) -> int:
        return sum(each.total_bytes for each in self.partitions)

    @property
    def left_s(self) -> float | None:
        """The time until everything is copied; None if it is not known."""
        left = self.total_bytes - self.copied_bytes
        return left / self.rate_bytes_per_s if self.rate_bytes_per_s else None

    def with_rate_since(self, before: Moving, elapsed_s: float) -> Moving:
        """The same with its rate: the bytes copied since `before`, which was taken `elapsed_s` earlier."""
        return replace(self, rate_bytes_per_s=self.copied_since(before) / elapsed_s)

    def copied_since(self, before: Moving) -> int:
        """The bytes that were copied after `before`; partitions that are complete since then are left out."""
        then = {each.partition: each.copied_bytes for each in before.partitions}
        return sum(max(0, each.copied_bytes - then.get(each.partition, 0)) for each in self.partitions)


async def moving_now(client: AdminClient) -> Moving:
    """Raises ClientError, UNSUPPORTED from a broker that cannot move replicas."""
    listed = await client.reassignments.list_all()
    throttle = await throttle_now(client, listed)
    sizes: dict[tuple[TopicPartition, int], int] = {}
    if listed:
        dirs = await client.log_dirs.describe(topics=sorted({each.partition.topic for each in listed}))
        for broker, directories in dirs.found.items():
            for directory in directories:
                for replica in directory.replicas:
                    sizes[TopicPartition(replica.topic, replica.partition), broker] = replica.size_bytes
    found = []
    for each in listed:
        whole = max((sizes.get((each.partition, broker), 0) for broker in each.before), default=0)
        copied = sum(min(whole, sizes.get((each.partition, broker), 0)) for broker in each.adding)
        found.append(MovingPartition(each, copied, whole * len(each.adding)))
    return Moving(tuple(found), throttle)


async def moves_under_way(client: AdminClient) -> tuple[Reassignment, ...]:
    """The moves, without their bytes; none from a broker that cannot move replicas. Raises ClientError."""
    try:
        return await client.reassignments.list_all()
    except ClientError as error:
        if error.failure is not Failure.UNSUPPORTED:
            raise
        return ()


async def throttle_now(client: AdminClient, moving: Sequence[Reassignment] = ()) -> Throttle:
    """The throttle of every broker in service and every topic. Raises ClientError."""
    described = await client.cluster.describe()
    topics = {*await client.topics.names(), *(each.partition.topic for each in moving)}
    return await client.throttles.describe(
        [each.broker_id for each in described.brokers if not each.is_fenced], sorted(topics)
    )


def throttle_text(throttle: Throttle) -> str:
    """`10.0 MiB/s on brokers 1, 2, for replicas of 3 topics`."""
    rates = sorted({rate for names in throttle.rates.values() for rate in names.values()})
    shown = " to ".join(f"{size(each)}/s" for each in rates[:: max(1, len(rates) - 1)]) or "no rate"
    return (
        f"{shown} on {brokers_text(sorted(throttle.rates))}, for replicas of {plural(len(throttle.replicas), 'topic')}"
    )


def pace_text(rate_bytes_per_s: float | None, left_s: float | None) -> list[str]:
    """`80.0 MiB/s` and `41.0 s left`, as far as they are known."""
    rate = [] if rate_bytes_per_s is None else [f"{size(rate_bytes_per_s)}/s"]
    return rate if left_s is None else [*rate, f"{duration(left_s * 1000)} left"]


def brokers_text(ids: Sequence[int]) -> str:
    """`broker 1`, `brokers 1, 2`."""
    return ids_text("broker", ids)


def ids_text(noun: str, ids: Sequence[int]) -> str:
    """`voter 1`, `voters 1, 2`."""
    return f"{noun}{'' if len(ids) == 1 else 's'} {', '.join(map(str, ids)) or '(none)'}"
