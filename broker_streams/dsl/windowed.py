"""Grouped streams in windows: their stores, steps and keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from broker_streams.dsl.aggregations import Aggregation, Aggregations, Group
from broker_streams.dsl.materialized import Materialized
from broker_streams.plan.steps.aggregates import AnyFold, StoredFold
from broker_streams.plan.steps.windows import SessionAggregate, SlidingAggregate, WindowAggregate
from broker_streams.plan.stores import Store
from broker_streams.plan.value_getters import SessionStoreGetter, ValueGetter, WindowStoreGetter
from broker_streams.plan.windows import (
    EmitStrategy,
    FixedWindows,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
)
from broker_streams.serdes.windowed import SessionWindowedSerde, TimeWindowedSerde

if TYPE_CHECKING:
    from broker_streams.dsl.ktable import KTable


@dataclass(frozen=True)
class InFixedWindows:
    """Rows of tumbling, hopping or unlimited windows."""

    windows: FixedWindows
    emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE

    @property
    def grace_ms(self) -> int:
        return self.windows.grace_ms

    def store(self, materialized: Materialized) -> Store:
        size_ms, grace_ms = self.windows.size_ms, self.windows.grace_ms
        parts = f"size {size_ms} + grace {grace_ms}"
        return materialized.window_store(size_ms, size_ms + grace_ms, parts, _options(self.emit))

    def step(self, store: str, fold: AnyFold) -> StoredFold:
        return WindowAggregate(store, fold, windows=self.windows, emit=self.emit)

    def key_serde(self, key: Any) -> Any:
        return TimeWindowedSerde(key, self.windows.size_ms)

    def getter(self, store: str) -> ValueGetter:
        return WindowStoreGetter(store)


@dataclass(frozen=True)
class InSlidingWindows:
    windows: SlidingWindows
    emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE

    @property
    def grace_ms(self) -> int:
        return self.windows.grace_ms

    def store(self, materialized: Materialized) -> Store:
        """Windows of two differences are kept: a late record may add windows between them."""
        difference_ms, grace_ms = self.windows.difference_ms, self.windows.grace_ms
        parts = f"2 * difference {difference_ms} + grace {grace_ms}"
        options = _options(self.emit, indexed=True)
        return _cached(self.emit, materialized).window_store(
            difference_ms, 2 * difference_ms + grace_ms, parts, options
        )

    def step(self, store: str, fold: AnyFold) -> StoredFold:
        return SlidingAggregate(store, fold, windows=self.windows, emit=self.emit)

    def key_serde(self, key: Any) -> Any:
        return TimeWindowedSerde(key, self.windows.difference_ms)

    def getter(self, store: str) -> ValueGetter:
        return WindowStoreGetter(store)


@dataclass(frozen=True)
class InSessions:
    windows: SessionWindows
    emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE

    @property
    def grace_ms(self) -> int:
        """A session is open as long as the gap after it can bring a record, and for the grace period."""
        return self.windows.grace_ms + self.windows.gap_ms

    def store(self, materialized: Materialized) -> Store:
        parts = f"gap {self.windows.gap_ms} + grace {self.windows.grace_ms}"
        return _cached(self.emit, materialized).session_store(self.grace_ms, parts, _options(self.emit))

    def step(self, store: str, fold: AnyFold) -> StoredFold:
        return SessionAggregate(store, fold, windows=self.windows, emit=self.emit)

    def key_serde(self, key: Any) -> Any:
        return SessionWindowedSerde(key)

    def getter(self, store: str) -> ValueGetter:
        return SessionStoreGetter(store)


Windows = InFixedWindows | InSlidingWindows | InSessions


def _options(emit: EmitStrategy, **options: bool) -> dict[str, bool]:
    """Results of closed windows are read in the order of time, so the store keeps that order."""
    return {"time_ordered": True, **options} if emit is EmitStrategy.ON_WINDOW_CLOSE else {}


def _cached(emit: EmitStrategy, materialized: Materialized) -> Materialized:
    """As in Kafka, such a store has no cache where results are passed on when windows close."""
    return materialized.without_cache() if emit is EmitStrategy.ON_WINDOW_CLOSE else materialized


def in_windows(windows: FixedWindows | SlidingWindows | SessionWindows) -> Windows:
    """Raises TypeError: these are no windows of an aggregation."""
    match windows:
        case TimeWindows() | UnlimitedWindows():
            return InFixedWindows(windows)
        case SlidingWindows():
            return InSlidingWindows(windows)
        case SessionWindows():
            return InSessions(windows)
    raise TypeError(
        f"{windows!r} are no windows of an aggregation; TimeWindows, SlidingWindows, SessionWindows and"
        " UnlimitedWindows are"
    )


class _Windowed(Aggregations):
    _windows: Windows

    def __init__(self, group: Group, windows: Windows) -> None:
        aggregation: Aggregation = windows
        super().__init__(group, aggregation)
        self._windows = windows
        # Sliding windows came after the others, whose count must keep its names.
        self._count_skips_name = not isinstance(windows, InSlidingWindows)

    def emit_strategy(self, strategy: EmitStrategy) -> Self:
        """Pass results on at each update, the default, or once when their window closes.

        Raises ValueError: unlimited windows never close.
        """
        if strategy is EmitStrategy.ON_WINDOW_CLOSE and isinstance(self._windows.windows, UnlimitedWindows):
            raise ValueError("unlimited windows never close, so ON_WINDOW_CLOSE is not allowed for them")
        self._aggregation = self._windows = replace(self._windows, emit=strategy)
        return self


class TimeWindowedKStream(_Windowed):
    """A grouped stream in tumbling, hopping, sliding or unlimited windows."""

    def aggregate(
        self,
        initializer: Callable[[], Any],
        aggregator: Callable[[Any, Any, Any], Any],
        *,
        name: str | None = None,
        materialized: Materialized | None = None,
    ) -> KTable:
        """As KGroupedStream.aggregate, for each window."""
        return self._aggregate(initializer, aggregator, None, name, materialized)


class SessionWindowedKStream(_Windowed):
    """A grouped stream in sessions."""

    def aggregate(
        self,
        initializer: Callable[[], Any],
        aggregator: Callable[[Any, Any, Any], Any],
        merger: Callable[[Any, Any, Any], Any],
        *,
        name: str | None = None,
        materialized: Materialized | None = None,
    ) -> KTable:
        """As KGroupedStream.aggregate, for each session. Sessions that meet become `merger(key, one, other)`."""
        return self._aggregate(initializer, aggregator, merger, name, materialized)


def windowed(
    group: Group, windows: FixedWindows | SlidingWindows | SessionWindows
) -> TimeWindowedKStream | SessionWindowedKStream:
    found = in_windows(windows)
    return SessionWindowedKStream(group, found) if isinstance(found, InSessions) else TimeWindowedKStream(group, found)
