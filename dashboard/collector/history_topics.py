"""Selects the topics that have their own series: the busiest ones, by bytes in and out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

# Topics with series, over all brokers of a cluster: three series each.
TOPICS_MAX: Final = 200
# Topics whose traffic is counted, with series or without: about 1 MB.
COUNTED_MAX: Final = 5_000
# A topic displaces another one if its traffic is this many times as large, so that equal ones do not alternate.
_FACTOR: Final = 2
# After so many calls, the least traffic of the topics with series is determined again.
_REFRESH_CALLS: Final = 2_000

Place = tuple[int, str]
"""A topic at a broker."""


class Busiest:
    """Decides from the bytes of each sample which topics have series.

    A topic that had traffic before it got its series is partial: where its series has no value, it may have had
    traffic.
    """

    def __init__(self, topics_max: int = TOPICS_MAX, counted_max: int = COUNTED_MAX) -> None:
        self._topics_max = topics_max
        self._counted_max = counted_max
        self.held: dict[Place, int] = {}
        self.others: dict[Place, int] = {}
        self.partial: set[Place] = set()
        # Whether some of the others were forgotten, so that any new topic may have had traffic before.
        self.has_forgotten = False
        self._least: tuple[int, Place] | None = None
        self._calls = 0

    def take(self, place: Place, size_bytes: int) -> tuple[bool, Place | None]:
        """Count the traffic of a topic. Return whether it has series, and the topic that lost its series to it."""
        self._calls += 1
        held = self.held.get(place)
        if held is not None:
            self.held[place] = held + size_bytes
            return True, None
        total = self.others.pop(place, 0) + size_bytes
        known = total != size_bytes or self.has_forgotten
        evicted = None
        if len(self.held) >= self._topics_max:
            if total > self._least_held()[0] * _FACTOR:
                # That value is from some calls ago, and has grown since.
                self._least = None
            if total <= self._least_held()[0] * _FACTOR:
                self._count(place, total)
                return False, None
            evicted = self._least_held()[1]
            self._evict(evicted)
        if known:
            self.partial.add(place)
        self.held[place] = total
        return True, evicted

    def shed(self) -> Place | None:
        """Take the series of the least busy topic away, because memory is short. Return that topic; None if none has
        series.
        """
        if not self.held:
            return None
        place = self._least_held()[1]
        self._evict(place)
        # The limit is lower from now on: the next topic would only be shed again.
        self._topics_max = max(1, len(self.held))
        return place

    def restore(self, held: Iterable[tuple[Place, int]], others: Iterable[tuple[Place, int]]) -> None:
        """Continue from a saved state; set `partial` and `has_forgotten` as well."""
        self.held, self.others, self._least = dict(held), dict(others), None

    def _evict(self, place: Place) -> None:
        self._count(place, self.held.pop(place))
        self.partial.discard(place)
        self._least = None

    def _count(self, place: Place, total: int) -> None:
        if place not in self.others and len(self.others) >= self._counted_max:
            # Forget the half with the least traffic.
            kept = sorted(self.others.items(), key=lambda each: each[1], reverse=True)[: self._counted_max // 2]
            self.others = dict(kept)
            self.has_forgotten = True
        self.others[place] = total

    def _least_held(self) -> tuple[int, Place]:
        """Return the least traffic of a topic with series as of some calls ago, which is not above its current one."""
        if self._least is None or self._least[1] not in self.held or self._calls >= _REFRESH_CALLS:
            self._least = min((total, place) for place, total in self.held.items())
            self._calls = 0
        return self._least
