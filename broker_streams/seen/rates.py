"""The growth of counts in a second, over a window."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

RATE_S: Final = 10.0
"""The window of rates and averages."""
NAMES_MAX: Final = 20_000
"""Counts of one instance that have rates; further ones have none."""


class Rates:
    """`note` takes all counts, once a second. A count that is smaller than before begins again."""

    def __init__(self, window_s: float = RATE_S) -> None:
        # At most a sample a second, and one before the window.
        self._samples: deque[tuple[float, dict[str, float]]] = deque(maxlen=int(window_s) + 1)

    def note(self, now_s: float, counts: Mapping[str, float]) -> None:
        kept = dict(counts) if len(counts) <= NAMES_MAX else dict(list(counts.items())[:NAMES_MAX])
        self._samples.append((now_s, kept))

    def growth(self, name: str) -> tuple[float, float]:
        """The growth of a count within the window, and the length of the window in s. A count that is new within it
        began with 0.
        """
        if len(self._samples) < 2:
            return 0.0, 1.0
        (begin_s, before), (end_s, after) = self._samples[0], self._samples[-1]
        first = before.get(name, 0)
        last = after.get(name, 0)
        return (last - first if last >= first else last), max(end_s - begin_s, 0.001)

    def per_s(self, name: str) -> float:
        grown, length_s = self.growth(name)
        return grown / length_s

    def average(self, total: str, count: str) -> float | None:
        """The growth of `total` for each of `count`; None: nothing happened within the window."""
        times = self.growth(count)[0]
        return self.growth(total)[0] / times if times else None


class Extremes:
    """The largest or the smallest values within the window, as `choose` says: max or min. `note` takes those since the
    last call, once a second.
    """

    def __init__(self, choose: Callable[[Iterable[float]], float], window_s: float = RATE_S) -> None:
        self._choose = choose
        self._samples: deque[dict[str, float]] = deque(maxlen=int(window_s))

    def note(self, found: Mapping[str, float]) -> None:
        self._samples.append(dict(found))

    def of(self, name: str) -> float | None:
        values = [each[name] for each in self._samples if name in each]
        return self._choose(values) if values else None
