"""Steps that keep an aggregate for each key and window."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from broker_streams.plan.steps.aggregates import StoredFold
from broker_streams.plan.windows import EmitStrategy, FixedWindows, SessionWindows, SlidingWindows, UnlimitedWindows


@dataclass(frozen=True)
class WindowedFold(StoredFold):
    """The base of all aggregations in windows."""

    emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE


@dataclass(frozen=True)
class WindowAggregate(WindowedFold):
    """Tumbling, hopping and unlimited windows. Raises ValueError: unlimited windows would emit when they close."""

    KIND: ClassVar[str] = "window-aggregate.1"
    windows: FixedWindows = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.windows, UnlimitedWindows) and self.emit is EmitStrategy.ON_WINDOW_CLOSE:
            raise ValueError("unlimited windows never close, so ON_WINDOW_CLOSE is not allowed for them")


@dataclass(frozen=True)
class SlidingAggregate(WindowedFold):
    KIND: ClassVar[str] = "sliding-aggregate.1"
    windows: SlidingWindows = field(kw_only=True)


@dataclass(frozen=True)
class SessionAggregate(WindowedFold):
    KIND: ClassVar[str] = "session-aggregate.1"
    MERGES: ClassVar[bool] = True
    windows: SessionWindows = field(kw_only=True)
