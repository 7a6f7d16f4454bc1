"""Each worker's share of an entry: its users and its operations.

The users of all entries, in the order of the scenario, are assigned to the workers in turn: the numbers of users of two
workers differ by at most one, for each entry and in total. Operation n of an entry belongs to user n modulo its number
of users, so that workers have operations in proportion to their users, and a worker without users has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadgen.scenario.model import UserSpec


@dataclass(frozen=True)
class Share:
    """One worker's part of an entry with `count` users: users `first`, `first + step`, ..., below `count`."""

    first: int = 0
    step: int = 1
    count: int = 1

    @property
    def users(self) -> int:
        """The number of users of this worker."""
        return max(0, -(-(self.count - self.first) // self.step))

    def user(self, own: int) -> int:
        """Return the number in the entry of this worker's user `own` (0, 1, ...)."""
        return self.first + own * self.step

    def operation(self, own: int) -> int:
        """Return the number in the entry of this worker's operation `own` (0, 1, ...); needs at least one user."""
        turn, user = divmod(own, self.users)
        return turn * self.count + self.user(user)


def shares(counts: Sequence[int], worker: int, workers: int) -> list[Share]:
    """Return the shares of a worker of entries with these numbers of users."""
    found, before = [], 0
    for count in counts:
        found.append(Share((worker - before) % workers, workers, count))
        before += count
    return found


def part_of_load(users: Sequence[UserSpec], seconds: float, of_worker: Sequence[Share]) -> float:
    """Return a worker's part of the load of `seconds`: its part of the rates of all entries, or of their users if some
    entry has no rate.
    """
    if all(spec.rate is not None for spec in users):
        weights = [spec.rate.operations(seconds) if spec.rate is not None else 0.0 for spec in users]
    else:
        weights = [float(spec.count) for spec in users]
    whole = sum(weights)
    parts = (weight * each.users / each.count for weight, each in zip(weights, of_worker, strict=True))
    return sum(parts) / whole if whole else 0.0


def worker_of(counts: Sequence[int], entry: int, user: int, workers: int) -> int:
    """Return the worker that has this user of an entry."""
    return (sum(counts[:entry]) + user) % workers
