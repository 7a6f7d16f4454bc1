"""Looks at a running host once a second: its rates, and its state for the page /status."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from broker_cy import __version__
from broker_cy.client.streams_status import BatchState, InstanceState, StoreState, TaskState, TrafficState
from broker_streams.hosts.batches import QueryBatches
from broker_streams.hosts.figures import TaskFigures
from broker_streams.hosts.measures import Spreading, Timed, Traffic
from broker_streams.seen.rates import Extremes, Rates
from broker_streams.seen.view import HostView

LOOK_S: Final = 1.0
RESTORING, RUNNING = "restoring", "running"


class Watch:
    """`rates` has the growth of each count of `counts`, `maxima` and `minima` the longest and shortest times in ms."""

    def __init__(self, view: HostView) -> None:
        self.view = view
        self._kinds = {each.name: each.kind.value for each in view.plan.stores}
        self.rates, self.maxima, self.minima = Rates(), Extremes(max), Extremes(min)
        # Called after each look.
        self.after_look: list[Callable[[], None]] = []

    async def run(self) -> None:
        """Look until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self.look(loop.time())
            for call in self.after_look:
                call()
            await asyncio.sleep(LOOK_S)

    def look(self, now_s: float) -> None:
        self.rates.note(now_s, self.counts())
        tasks = self.view.tasks()
        shortest: dict[str, float] = {}
        longest: dict[str, float] = {
            name: taken / 1e6 for name, timed in self._timed(tasks).items() if (taken := timed.take_max())
        }
        for name, spreads in self._spreads(tasks).items():
            if seen := [each for each in (spread.take() for spread in spreads) if each is not None]:
                shortest[name], longest[name] = min(least for least, _ in seen), max(most for _, most in seen)
        self.maxima.note(longest)
        self.minima.note(shortest)

    def counts(self) -> dict[str, float]:
        """All counts by name, such as `process.count` and `0_1.process.ns`."""
        measures, tasks = self.view.measures, self.view.tasks()
        found: dict[str, float] = {
            "poll.records": measures.polled_records,
            "tasks.created": measures.tasks_created,
            "tasks.closed": measures.tasks_closed,
        }
        for name, timed in self._timed(tasks).items():
            found[f"{name}.count"], found[f"{name}.ns"] = timed.count, timed.total_ns
        for name, spreads in self._spreads(tasks).items():
            found[f"{name}.count"] = sum(each.count for each in spreads)
            found[f"{name}.total"] = sum(each.total for each in spreads)
        for direction, by_topic in (("consumed", measures.consumed), ("produced", measures.produced)):
            for topic, traffic in by_topic.items():
                found[f"{direction}.records.{topic}"] = traffic.records
                found[f"{direction}.bytes.{topic}"] = traffic.size_bytes
        for each in tasks:
            name = each.name
            found[f"{name}.dropped"], found[f"{name}.restored"] = each.dropped, each.restored
            found[f"{name}.enforced"] = each.enforced
            for node, count in each.nodes.items():
                found[f"{name}.node.{node}"] = count
            for store, (lookups, hits) in each.lookups.items():
                found[f"{name}.lookups.{store}"], found[f"{name}.hits.{store}"] = lookups, hits
        for batches in self.view.batches():
            found[f"{batches.query}.records"] = batches.records
        return found

    def _timed(self, tasks: Iterable[TaskFigures]) -> dict[str, Timed]:
        measures = self.view.measures
        found = {
            "process": measures.processed,
            "punctuate": measures.punctuated,
            "poll": measures.polled,
            "commit": measures.committed,
        }
        for each in tasks:
            found[f"{each.name}.process"] = each.measures.processed
            found[f"{each.name}.punctuate"] = each.measures.punctuated
            for store, calls in each.calls.items():
                found |= {f"{each.name}.{store}.{call}": timed for call, timed in calls.items()}
        for batches in self.view.batches():
            found[f"{batches.query}.batch"], found[f"{batches.query}.trigger-lag"] = batches.whole, batches.trigger_lag
            found |= {f"{batches.query}.{part}": timed for part, timed in batches.parts.items()}
        return found

    @staticmethod
    def _spreads(tasks: Iterable[TaskFigures]) -> dict[str, Sequence[Spreading]]:
        return {f"{each.name}.{name}": spreads for each in tasks for name, spreads in each.spreads.items()}

    def average_ms(self, name: str) -> float | None:
        """The average time of a timed count within the window; None: it was not done."""
        found = self.rates.average(f"{name}.ns", f"{name}.count")
        return None if found is None else found / 1e6

    def state(self) -> InstanceState:
        view, tasks = self.view, self.view.tasks()
        life, measures, rates = view.life, view.measures, self.rates
        return InstanceState(
            application=view.settings.application_id,
            state=life.state.value,
            version=__version__,
            host=view.host,
            guarantee=view.settings.guarantee,
            member=view.member,
            process=view.process,
            endpoint=view.settings.endpoint,
            since_ms=life.since_ms,
            begin_ms=life.begin_ms,
            error="" if life.error is None else str(life.error) or type(life.error).__name__,
            waits=view.waits,
            records=measures.processed.count,
            records_per_s=rates.per_s("process.count"),
            commits=measures.committed.count,
            commits_per_s=rates.per_s("commit.count"),
            commit_ms=self.average_ms("commit"),
            tasks=tuple(self._task(each) for each in tasks),
            consumed=self._traffic("consumed", measures.consumed),
            produced=self._traffic("produced", measures.produced),
            nodes=self._nodes(tasks),
            batches=tuple(self._batches(each) for each in view.batches()),
        )

    def _task(self, of: TaskFigures) -> TaskState:
        return TaskState(
            of.name,
            of.role,
            RUNNING if of.is_up else RESTORING,
            records=of.measures.processed.count,
            records_per_s=self.rates.per_s(f"{of.name}.process.count"),
            buffered=of.buffered,
            dropped=of.dropped,
            stream_time_ms=of.stream_time_ms,
            restored=of.restored,
            remaining=of.remaining,
            inputs=of.inputs,
            stores=tuple(StoreState(store, self._kinds.get(store, ""), rows) for store, rows in of.rows.items()),
            nodes=of.nodes,
            state_bytes=of.state_bytes,
        )

    def _batches(self, of: QueryBatches) -> BatchState:
        name, last = of.query, of.last
        parts = {part: self.average_ms(f"{name}.{part}") for part in of.parts}
        return BatchState(
            of.query,
            of.subtopology,
            batches=of.whole.count,
            runs=of.runs,
            records=of.records,
            batches_per_s=self.rates.per_s(f"{name}.batch.count"),
            records_per_s=self.rates.per_s(f"{name}.records"),
            batch_ms=self.average_ms(f"{name}.batch"),
            batch_max_ms=self.maxima.of(f"{name}.batch"),
            trigger_lag_ms=self.average_ms(f"{name}.trigger-lag"),
            parts_ms={part: each for part, each in parts.items() if each is not None},
            last_number=None if last is None else last.number,
            last_begin_ms=None if last is None else last.begin_ms,
            last_records=None if last is None else last.records,
            last_tasks=None if last is None else last.tasks,
            last_ms=None if last is None else last.duration_ms,
        )

    def _traffic(self, direction: str, by_topic: Mapping[str, Traffic]) -> tuple[TrafficState, ...]:
        per_s = self.rates.per_s
        return tuple(
            TrafficState(
                topic,
                found.records,
                found.size_bytes,
                per_s(f"{direction}.records.{topic}"),
                per_s(f"{direction}.bytes.{topic}"),
            )
            for topic, found in sorted(by_topic.items())
        )

    def _nodes(self, tasks: Iterable[TaskFigures]) -> dict[str, float]:
        found: dict[str, float] = {}
        for each in tasks:
            for node in each.nodes:
                found[node] = found.get(node, 0.0) + self.rates.per_s(f"{each.name}.node.{node}")
        return found
