"""Times of calls of stores, and hits of their caches, for metrics.recording.level=DEBUG. Each call is measured, which
costs about a third of a microsecond.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from broker_streams.hosts.measures import Timed

# Kafka's name of the metric, by the calls of stores. Iterations have no time: they go on while the caller works.
CALLS: Final[Mapping[str, str]] = {
    "get": "get",
    "get_with_binary": "get",
    "get_as_of": "get",
    "put": "put",
    "put_if_different_values": "put",
    "put_if_absent": "put_if_absent",
    "put_all": "put_all",
    "delete": "delete",
    "fetch": "fetch",
    "fetch_session": "fetch",
    "remove": "remove",
    "flush": "flush",
}


class CacheHits:
    """The cache of a store, with the number of its lookups and of the rows that it had."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache
        self.lookups = self.hits = 0

    def get(self, key: bytes) -> Any:
        entry = self._cache.get(key)
        self.lookups += 1
        if entry is not None:
            self.hits += 1
        return entry

    def take(self) -> tuple[int, int]:
        """Lookups and hits since the last call."""
        found = self.lookups, self.hits
        self.lookups = self.hits = 0
        return found

    def __len__(self) -> int:
        return len(self._cache)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)


class StoreMeasures:
    """The calls of the stores of a task since it was made. `calls` are by store and metric."""

    def __init__(self, stores: Mapping[str, Any]) -> None:
        """Called before the processors of the task are initialized: they keep calls of stores."""
        self.calls: dict[str, dict[str, Timed]] = {}
        self.caches: dict[str, CacheHits] = {}
        for name, store in stores.items():
            measured = self.calls[name] = {}
            for call, metric in CALLS.items():
                if callable(found := getattr(store, call, None)):
                    setattr(store, call, _timed(found, measured.setdefault(metric, Timed())))
            layers = getattr(store, "_layers", None)
            if hasattr(layers, "_cache"):
                self.caches[name] = layers._cache = CacheHits(layers._cache)  # type: ignore[union-attr]  # hasattr


def _timed(call: Callable[..., Any], timed: Timed) -> Callable[..., Any]:
    clock = time.perf_counter_ns

    def measured(*arguments: Any, **named: Any) -> Any:
        begin_ns = clock()
        try:
            return call(*arguments, **named)
        finally:
            timed.add(1, clock() - begin_ns)

    return measured
