"""The batches of a query on Spark as the driver sees them: how many, how long, and the parts of their time.

    latest    records have come, and the query has its turn: the batch begins
    plan      Spark asks for the work: before that, it writes down its offsets and plans the batch
    tasks     Spark's tasks run, from the plan to the commit; the longest one has its own parts
    decide    the record of the batch is written and committed
    commit    the transactions of the tasks are committed

The trigger lag is the time by which a batch begins too late. It was due `commit.interval.ms` after the begin of the one
before, or when the first records came. The query may be late because the batch before took longer, or other queries of
the driver had their turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from broker_streams.hosts.measures import Timed

PLAN, TASKS, DECIDE, COMMIT = "plan", "tasks", "decide", "commit"
# The parts of a task.
READ, PROCESS, WRITE = "read", "process", "write"
PARTS: Final = (PLAN, TASKS, DECIDE, COMMIT, READ, PROCESS, WRITE)


@dataclass
class LastBatch:
    """The batch that was committed last. Times are since 1970."""

    number: int
    begin_ms: int
    records: int
    tasks: int
    duration_ms: float
    trigger_lag_ms: float
    parts_ms: Mapping[str, float] = field(default_factory=dict)


class QueryBatches:
    """The batches of one query since the driver began. `query` is APPLICATION-SUBTOPOLOGY."""

    def __init__(
        self,
        query: str,
        subtopology: str,
        interval_ms: int,
        *,
        now_ns: Callable[[], int] = time.perf_counter_ns,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.query, self.subtopology = query, subtopology
        self._interval_ns, self._now_ns, self._now_ms = interval_ms * 1_000_000, now_ns, now_ms
        self.records = 0
        # Runs of the query: it begins again after a failure.
        self.runs = 0
        self.whole, self.trigger_lag = Timed(), Timed()
        self.parts = {name: Timed() for name in PARTS}
        self.last: LastBatch | None = None
        self._due_ns = self._begin_ns = self._at_ns = self._lag_ns = self._begin_ms = 0
        self._of_batch: dict[str, int] = {}

    def run(self) -> None:
        """A run begins."""
        self.runs += 1
        self._due_ns = self._now_ns()

    def waits(self) -> None:
        """No records have come: the next batch is not due."""
        self._due_ns = max(self._due_ns, self._now_ns())

    def begin(self) -> None:
        """The next batch begins: records have come, and the query has its turn."""
        now_ns = self._now_ns()
        self._lag_ns = max(0, now_ns - self._due_ns)
        self._begin_ns = self._at_ns = now_ns
        self._due_ns = now_ns + self._interval_ns
        self._begin_ms = self._now_ms()
        self._of_batch = {}

    def end(self, part: str) -> None:
        """A part of the batch ends; parts of one name add up, as Spark may ask again."""
        now_ns = self._now_ns()
        self._of_batch[part] = self._of_batch.get(part, 0) + now_ns - self._at_ns
        self._at_ns = now_ns

    def committed(self, number: int, records: int, tasks: Sequence[Mapping[str, int]]) -> None:
        """The batch ends. `tasks` has the parts of each task in ns; the longest one counts, as they ran beside each
        other.
        """
        self.end(COMMIT)
        longest: Mapping[str, int] = max(tasks, key=lambda each: sum(each.values())) if tasks else {}
        parts = {**self._of_batch, **longest}
        for name, spent_ns in parts.items():
            self.parts[name].add(1, spent_ns)
        whole_ns = self._now_ns() - self._begin_ns
        self.whole.add(1, whole_ns)
        self.trigger_lag.add(1, self._lag_ns)
        self.records += records
        self.last = LastBatch(
            number,
            self._begin_ms,
            records,
            len(tasks),
            whole_ns / 1e6,
            self._lag_ns / 1e6,
            {name: spent_ns / 1e6 for name, spent_ns in parts.items()},
        )
