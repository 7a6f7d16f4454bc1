"""A processor, and all that it sees of its task.

Each processor node of a task has a context of its own, so `forward` needs no look at the current node. A node with one
child forwards by calling the child's method.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from broker_streams.kernel.forward import Moment, stamped, to_all
from broker_streams.plan.durations import milliseconds
from broker_streams.records import Record, RecordMetadata

Forward = Callable[[Record], None]


class PunctuationType(enum.Enum):
    """The clock of a punctuation: timestamps of the task's records, or the clock of the host."""

    STREAM_TIME = "stream-time"
    WALL_CLOCK_TIME = "wall-clock-time"


class Cancellable(Protocol):
    """A scheduled punctuation."""

    def cancel(self) -> None: ...


class TaskState(Moment):
    """The state of a task that its processors see. One object for each task."""

    __slots__ = (
        "application_id",
        "dropped_records",
        "emitted_ms",
        "join_emit_interval_ms",
        "key_serde",
        "node_counts",
        "shared",
        "splits_changes",
        "task_id",
        "value_serde",
        "window_emit_interval_ms",
    )

    def __init__(self, application_id: str, task_id: tuple[int, int]) -> None:
        self.application_id = application_id
        self.task_id = task_id
        # The application's default serdes.
        self.key_serde: Any = None
        self.value_serde: Any = None
        # Groups of tables write a removal and an addition apart, for instances before Kafka Streams 3.5.
        self.splits_changes = False
        # Objects that several processors of the task share, by the name of their store.
        self.shared: dict[str, Any] = {}
        # Records that processors skipped: null keys, expired windows (Kafka's metric dropped-records-total).
        self.dropped_records = 0
        # Records that each processor took; None: they are not counted (metrics.recording.level).
        self.node_counts: dict[str, int] | None = None
        # Joins and windows look for results that became final at most once in these times of the host's clock; 0: at
        # each record.
        self.join_emit_interval_ms = 0
        self.window_emit_interval_ms = 0
        # For each store whose windows emit when they close: the time up to which they did. A commit writes it with the
        # offsets, and a task that goes on from there begins with it (Kafka's metadata of processors).
        self.emitted_ms: dict[str, int] = {}


class ProcessorContext:
    """The context of one processor node. `forward` passes a record to all children, or to the one that is named."""

    def __init__(
        self,
        node: str,
        task: TaskState,
        children: Mapping[str, Forward],
        stores: Mapping[str, Any],
        schedule: Callable[[int, PunctuationType, Callable[[int], None], int | None], Cancellable],
        request_commit: Callable[[], None],
    ) -> None:
        self.node = node
        self.task = task
        self._children = children
        self._stores = stores
        self._schedule = schedule
        self._request_commit = request_commit
        # A call to it passes a record to all children. It is for records with the timestamp and the headers of the
        # record that is processed; `forward` is for all others.
        self.forward_all: Forward = to_all(children.values())
        # The call `forward` to all children, for processors of this package.
        self.forward_stamped: Forward = stamped(task, self.forward_all)

    def forward(self, record: Record, child: str | None = None) -> None:
        """Pass a record on. Stores below see its timestamp and headers. Raises LookupError: no child has this name."""
        forward = self.forward_all if child is None else self.child(child)
        task = self.task
        timestamp, headers = task.timestamp, task.headers
        task.timestamp, task.headers = record.timestamp, record.headers
        try:
            forward(record)
        finally:
            task.timestamp, task.headers = timestamp, headers

    def child(self, name: str) -> Forward:
        """The call that passes a record to one child, as `forward_all`. Raises LookupError: no child has this name."""
        found = self._children.get(name)
        if found is None:
            children = ", ".join(self._children) or "none"
            raise LookupError(f"{self.node} has no child {name!r}; its children are {children}")
        return found

    def state_store(self, name: str) -> Any:
        """Raises LookupError: the store is not connected to this processor."""
        try:
            return self._stores[name]
        except KeyError:
            connected = ", ".join(self._stores) or "no store"
            raise LookupError(f"{self.node} has no access to store {name!r}; it is connected to {connected}") from None

    @property
    def application_id(self) -> str:
        return self.task.application_id

    @property
    def task_id(self) -> tuple[int, int]:
        """The numbers of the sub-topology and of the partition."""
        return self.task.task_id

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """The place of the input record that is processed now; None in a punctuation."""
        return self.task.metadata

    def current_stream_time_ms(self) -> int:
        return self.task.stream_time_ms

    def current_system_time_ms(self) -> int:
        return self.task.system_time_ms

    def schedule(
        self,
        interval: int | str,
        kind: PunctuationType,
        callback: Callable[[int], None],
        start_ms: int | None = None,
    ) -> Cancellable:
        """Call `callback` with the time in ms at each interval, a duration, from `start_ms` on (KIP-1146).

        Without a start, the stream time calls at multiples of the interval and the clock one interval from now on.
        Raises ValueError: an interval below 1 ms, a start below 0. TypeError: `kind` is no PunctuationType.
        """
        if not isinstance(kind, PunctuationType):
            raise TypeError(f"the clock of a punctuation is {kind!r}; STREAM_TIME and WALL_CLOCK_TIME are allowed")
        interval_ms = milliseconds(interval, "the interval of a punctuation")
        if interval_ms < 1:
            raise ValueError(f"the interval of a punctuation is {interval_ms} ms; at least 1 is allowed")
        if start_ms is not None and start_ms < 0:
            raise ValueError(f"the start of a punctuation is {start_ms} ms; at least 0 is allowed")
        return self._schedule(interval_ms, kind, callback, start_ms)

    def commit(self) -> None:
        """Ask the host to commit soon."""
        self._request_commit()

    def drop(self) -> None:
        """Count a record that is skipped."""
        self.task.dropped_records += 1


class Processing(Protocol):
    """A processor as a task sees it."""

    def init(self, context: ProcessorContext) -> None: ...

    def process(self, record: Record) -> None: ...

    def close(self) -> None: ...


class Processor:
    """The base of all processors, also of users' own ones (KIP-478).

    `init` is called once before the first record. `process` passes its results to `self.context.forward`.
    """

    context: ProcessorContext

    def init(self, context: ProcessorContext) -> None:
        self.context = context

    def process(self, record: Record) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Called once after the last record; the context must not be used any more."""
