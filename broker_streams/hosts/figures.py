"""One task as it is seen from outside, on any host. The pages, metrics and events of an instance are made of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from broker_cy.client.streams_status import InputState
from broker_streams.hosts.measures import Spreading, TaskMeasures, Timed

ACTIVE = "active"
LATENESS, LATENCY = "lateness", "latency."


@dataclass
class TaskFigures:
    """`name` is SUBTOPOLOGY_PARTITION, `role` active, standby or warmup. Counts are those since the task came to the
    instance. `is_active`: it processes its inputs; `is_up`: its stores have all that their changelogs had.
    """

    name: str
    role: str
    is_active: bool
    is_up: bool
    measures: TaskMeasures = field(default_factory=TaskMeasures)
    restored: int = 0
    remaining: int = 0
    dropped: int = 0
    enforced: int = 0
    buffered: int = 0
    # None before the first record.
    stream_time_ms: int | None = None
    inputs: tuple[InputState, ...] = ()
    # Rows by store; None: stores of this kind do not count them.
    rows: Mapping[str, int | None] = field(default_factory=dict)
    # The size of its file; None: all of its stores are in memory.
    state_bytes: int | None = None
    # In ms: how far records were behind the stream time (LATENESS), and their age at each node (LATENCY, and its name).
    spreads: Mapping[str, Sequence[Spreading]] = field(default_factory=dict)
    # With metrics.recording.level=DEBUG: records by processor, calls by store and name, lookups and hits by cache.
    nodes: Mapping[str, int] = field(default_factory=dict)
    calls: Mapping[str, Mapping[str, Timed]] = field(default_factory=dict)
    lookups: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def rows_of(store: object) -> int | None:
    """The rows of a store; None: stores of this kind do not count them."""
    count = getattr(store, "approximate_num_entries", None)
    return None if count is None else int(count())
