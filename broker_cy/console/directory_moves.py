"""The replicas that move between the directories of their broker now, by any client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker_cy.admin import AdminClient
from broker_cy.admin.directory_mover import seen_in
from broker_cy.admin.log_dirs import BrokerReplica, LogDir
from broker_cy.core.classes import dataclass
from broker_cy.reporting.numbers import size


@dataclass(frozen=True, slots=True)
class MovingReplica:
    """A replica on its way from the directory `source` (empty if it is offline) to `target`. `copied_bytes` are those
    of the copy, of `total_bytes`; `offset_lag` are the offsets that the copy lacks.
    """

    replica: BrokerReplica
    source: str
    target: str
    copied_bytes: int
    total_bytes: int
    offset_lag: int


def moving_replicas(directories: Iterable[LogDir]) -> list[MovingReplica]:
    """The moves in an answer, by broker and partition."""
    return [
        MovingReplica(
            key,
            seen.path or "",
            seen.future_path,
            min(seen.future_bytes, seen.size_bytes),
            seen.size_bytes,
            seen.offset_lag,
        )
        for key, seen in sorted(seen_in(directories).items())
        if seen.future_path is not None
    ]


@dataclass(frozen=True, slots=True)
class DirectoryMoves:
    """Everything that moves now, and the limits of the brokers in bytes per second."""

    moving: tuple[MovingReplica, ...]
    rates: Mapping[int, int]

    @property
    def copied_bytes(self) -> int:
        return sum(each.copied_bytes for each in self.moving)

    @property
    def total_bytes(self) -> int:
        return sum(each.total_bytes for each in self.moving)

    def copied_since(self, before: DirectoryMoves) -> int:
        """The bytes that were copied after `before`; replicas that have moved since then are left out."""
        then = {each.replica: each.copied_bytes for each in before.moving}
        return sum(max(0, each.copied_bytes - then.get(each.replica, 0)) for each in self.moving)


async def directory_moves_now(client: AdminClient) -> DirectoryMoves:
    """Those of every broker in service. Raises ClientError."""
    outcome = await client.log_dirs.describe()
    moving = moving_replicas(each for directories in outcome.found.values() for each in directories)
    return DirectoryMoves(tuple(moving), await client.throttles.directory_rates(sorted(outcome.found)))


def rates_text(rates: Mapping[int, int]) -> str:
    """`10.0 MiB/s on broker 1, 5.0 MiB/s on broker 2`."""
    return ", ".join(f"{size(rate)}/s on broker {broker}" for broker, rate in sorted(rates.items()))
