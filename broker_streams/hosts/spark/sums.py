"""The counts of a query in the driver: its batches, and the sums of what workers report of its tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker_cy.admin.metadata import TopicPartition
from broker_streams.hosts.batches import COMMIT, QueryBatches
from broker_streams.hosts.figures import ACTIVE, TaskFigures
from broker_streams.hosts.measures import Measures, SpreadSum, Timed
from broker_streams.hosts.spark.reports import Report
from broker_streams.hosts.spark.work import Done, TaskId
from broker_streams.plan.topology import Subtopology


class QueryMeasures:
    """The counts of a query: its batches, and its tasks by their reports."""

    def __init__(self, query: str, part: Subtopology, interval_ms: int) -> None:
        self.batches = QueryBatches(query, str(part.number), interval_ms)
        # Those of the application, which all of its queries share.
        self.measures = Measures()
        self._tasks: dict[TaskId, TaskSum] = {}

    def begin(self, tasks: Iterable[TaskId]) -> None:
        """A run begins, with these tasks."""
        self.batches.run()
        fresh = [task for task in tasks if task not in self._tasks]
        self.measures.tasks_created += len(fresh)
        for task in fresh:
            self.of_task(task)

    def of_task(self, task: TaskId) -> TaskSum:
        found = self._tasks.get(task)
        if found is None:
            found = self._tasks[task] = TaskSum(f"{task[0]}_{task[1]}")
        return found

    def take(self, number: int, done: Mapping[TaskId, Done]) -> None:
        """A batch is committed, with the results of its tasks."""
        for task, each in done.items():
            self.of_task(task).take(each.report)
            merge(self.measures, each.report.measures)
        parts = [each.report.parts_ns for each in done.values()]
        self.batches.committed(number, sum(each.records for each in done.values()), parts)
        assert self.batches.last is not None
        self.measures.commit(int(self.batches.last.parts_ms[COMMIT] * 1e6))


class TaskSum:
    """The sums of a task's reports, in the driver."""

    def __init__(self, name: str) -> None:
        self.figures = TaskFigures(name, ACTIVE, is_active=True, is_up=True)
        self.waiting: Mapping[TopicPartition, int] = {}
        self._spreads: dict[str, SpreadSum] = {}

    def take(self, report: Report) -> None:
        figures = self.figures
        figures.measures.processed.merge(report.measures.processed)
        figures.measures.punctuated.merge(report.measures.punctuated)
        figures.dropped += report.dropped
        figures.enforced += report.enforced
        figures.restored += report.restored
        self.waiting = report.waiting
        for name, spread in report.spreads.items():
            self._spreads.setdefault(name, SpreadSum()).add(*spread)
        figures.spreads = {name: [each] for name, each in self._spreads.items()}
        figures.buffered, figures.stream_time_ms = report.buffered, report.stream_time_ms
        figures.rows, figures.state_bytes = report.rows, report.state_bytes
        figures.nodes = _sums(figures.nodes, report.nodes)
        calls: dict[str, dict[str, Timed]] = {store: dict(theirs) for store, theirs in figures.calls.items()}
        for store, theirs in report.calls.items():
            for call, timed in theirs.items():
                calls.setdefault(store, {}).setdefault(call, Timed()).merge(timed)
        figures.calls = calls
        before = figures.lookups
        figures.lookups = dict(before) | {
            name: (lookups + before.get(name, (0, 0))[0], hits + before.get(name, (0, 0))[1])
            for name, (lookups, hits) in report.lookups.items()
        }


def merge(whole: Measures, part: Measures) -> None:
    """Add what a batch did to the measures of the instance."""
    whole.processed.merge(part.processed)
    whole.punctuated.merge(part.punctuated)
    whole.polled.merge(part.polled)
    whole.polled_records += part.polled_records
    for mine, theirs in ((whole.consumed, part.consumed), (whole.produced, part.produced)):
        for topic, traffic in theirs.items():
            whole.traffic(mine, topic).add(traffic.records, traffic.size_bytes)


def _sums(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}
