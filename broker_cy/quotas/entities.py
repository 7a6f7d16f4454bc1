"""The use of quotas by the entities of one kind.

Bound: ENTITIES_MAX, of about 1 KB each. Entities without use in all windows are dropped for others, because a new meter
would count the same. While all are in use, further entities share one meter per limit: they get less than their quota,
but their use is counted. As in Kafka, `expire` drops entities without use for IDLE_MS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Generic, Protocol, TypeVar

from broker_cy.quotas.limits import Limits, Tags

ENTITIES_MAX: Final = 10_000
IDLE_MS: Final = 3_600_000
# The time between two searches for idle entities while all places are in use.
SWEEP_MS: Final = 1_000
# The tags of those that share.
OTHERS: Final[Tags] = ("(others)", "(others)")


class Meter(Protocol):
    """Rate or Bucket."""

    limit: float
    entity: Tags
    waits: int
    waited_ms: int

    def is_idle(self, now_ms: int) -> bool: ...

    def note_wait(self, ms: int) -> None: ...


M = TypeVar("M", bound=Meter)


class Entities(Generic[M]):
    """The meters of one kind of quota, by tags. `make(tags, limit, now)` returns a new one. The owner changes `limits`
    and then calls `renew`. A caller that keeps a meter calls `of` again when `generation` has changed.
    """

    def __init__(self, make: Callable[[Tags, float, int], M], entities_max: int = ENTITIES_MAX) -> None:
        self.limits = Limits()
        self.generation = 0
        self._make = make
        self._entities_max = entities_max
        self._meters: dict[Tags, M] = {}
        self._shared: dict[float, M] = {}
        self._swept_ms = -SWEEP_MS
        # Throttle counts of dropped meters.
        self._dropped_waits = self._dropped_ms = 0

    def __len__(self) -> int:
        return len(self._meters) + len(self._shared)

    def __iter__(self) -> Iterator[M]:
        yield from self._meters.values()
        yield from self._shared.values()

    @property
    def waits(self) -> tuple[int, int]:
        """How often clients were throttled, and for how many ms in all."""
        count, ms = self._dropped_waits, self._dropped_ms
        for meter in self:
            count += meter.waits
            ms += meter.waited_ms
        return count, ms

    def of(self, user: str, client_id: str, now_ms: int) -> M | None:
        """The meter of a client; None if it has no quota."""
        found = self.limits.find(user, client_id)
        if found is None:
            return None
        tags, limit = found
        meter = self._meters.get(tags)
        if meter is None:
            if len(self._meters) >= self._entities_max:
                self._sweep(now_ms)
            if len(self._meters) >= self._entities_max:
                return self._share(limit, now_ms)
            meter = self._meters[tags] = self._make(tags, limit, now_ms)
        meter.limit = limit
        return meter

    def renew(self) -> None:
        """Note that the limits have changed: callers get their meters again, which keep the usage so far."""
        self.generation += 1
        if not self.limits:
            self._drop(list(self._meters))
        self._drop_shared(list(self._shared))

    def expire(self, now_ms: int) -> None:
        """Drop meters without use for an hour."""
        self._drop([tags for tags, meter in self._meters.items() if meter.is_idle(now_ms - IDLE_MS)])
        self._drop_shared([limit for limit, meter in self._shared.items() if meter.is_idle(now_ms)])

    def _share(self, limit: float, now_ms: int) -> M:
        # Bounded: quotas bound the number of limits.
        if limit not in self._shared:
            self._shared[limit] = self._make(OTHERS, limit, now_ms)
        return self._shared[limit]

    def _sweep(self, now_ms: int) -> None:
        if now_ms - self._swept_ms >= SWEEP_MS:
            self._swept_ms = now_ms
            self._drop([tags for tags, meter in self._meters.items() if meter.is_idle(now_ms)])

    def _drop(self, gone: list[Tags]) -> None:
        for tags in gone:
            self._note_gone(self._meters.pop(tags))
        if gone:
            self.generation += 1

    def _drop_shared(self, gone: list[float]) -> None:
        for limit in gone:
            self._note_gone(self._shared.pop(limit))
        if gone:
            self.generation += 1

    def _note_gone(self, meter: M) -> None:
        self._dropped_waits += meter.waits
        self._dropped_ms += meter.waited_ms
