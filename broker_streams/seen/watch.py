"""Looks at a running host once a second: its rates, and its state for the page /status."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from broker_cy import __version__
from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.streams_status import InputState, InstanceState, StoreState, TaskState, TrafficState
from broker_streams.hosts.embedded.host import EmbeddedHost
from broker_streams.hosts.embedded.tasks import Running, TaskId
from broker_streams.hosts.measures import Timed, Traffic
from broker_streams.kernel.forward import Spread
from broker_streams.seen.rates import Extremes, Rates

LOOK_S: Final = 1.0
RESTORING, RUNNING = "restoring", "running"


class Watch:
    """`rates` has the growth of each count of `counts`, `maxima` and `minima` the longest and shortest times in ms."""

    def __init__(self, host: EmbeddedHost) -> None:
        self.host = host
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
        shortest: dict[str, float] = {}
        longest: dict[str, float] = {
            name: taken / 1e6 for name, timed in self._timed().items() if (taken := timed.take_max())
        }
        for name, spreads in self._spreads().items():
            if seen := [each for each in map(Spread.take, spreads) if each is not None]:
                shortest[name], longest[name] = min(least for least, _ in seen), max(most for _, most in seen)
        self.maxima.note(longest)
        self.minima.note(shortest)

    def counts(self) -> dict[str, float]:
        """All counts by name, such as `process.count` and `0_1.process.ns`."""
        measures = self.host.measures
        found: dict[str, float] = {
            "poll.records": measures.polled_records,
            "tasks.created": measures.tasks_created,
            "tasks.closed": measures.tasks_closed,
        }
        for name, timed in self._timed().items():
            found[f"{name}.count"], found[f"{name}.ns"] = timed.count, timed.total_ns
        for name, spreads in self._spreads().items():
            found[f"{name}.count"] = sum(each.count for each in spreads)
            found[f"{name}.total"] = sum(each.total for each in spreads)
        for direction, by_topic in (("consumed", measures.consumed), ("produced", measures.produced)):
            for topic, traffic in by_topic.items():
                found[f"{direction}.records.{topic}"] = traffic.records
                found[f"{direction}.bytes.{topic}"] = traffic.size_bytes
        for task_id, running in self.host.tasks.running.items():
            name, restored = text_of(task_id), running.restorer.restored
            state = running.task.state
            found[f"{name}.dropped"], found[f"{name}.restored"] = state.dropped_records, restored
            found[f"{name}.enforced"] = running.task.enforced
            for node, count in (state.node_counts or {}).items():
                found[f"{name}.node.{node}"] = count
            for store, cache in (running.store_measures.caches if running.store_measures else {}).items():
                found[f"{name}.lookups.{store}"], found[f"{name}.hits.{store}"] = cache.lookups, cache.hits
        return found

    def _timed(self) -> dict[str, Timed]:
        measures = self.host.measures
        found = {
            "process": measures.processed,
            "punctuate": measures.punctuated,
            "poll": measures.polled,
            "commit": measures.committed,
        }
        for task_id, running in self.host.tasks.running.items():
            name = text_of(task_id)
            found[f"{name}.process"] = running.measures.processed
            found[f"{name}.punctuate"] = running.measures.punctuated
            if running.store_measures is not None:
                for store, calls in running.store_measures.calls.items():
                    found |= {f"{name}.{store}.{call}": timed for call, timed in calls.items()}
        return found

    def _spreads(self) -> dict[str, list[Spread]]:
        found = {}
        for task_id, running in self.host.tasks.running.items():
            name = text_of(task_id)
            found[f"{name}.lateness"] = [running.task.state.lateness]
            found |= {f"{name}.latency.{node}": spreads for node, spreads in running.task.latencies.items()}
        return found

    def average_ms(self, name: str) -> float | None:
        """The average time of a timed count within the window; None: it was not done."""
        found = self.rates.average(f"{name}.ns", f"{name}.count")
        return None if found is None else found / 1e6

    def state(self) -> InstanceState:
        host = self.host
        life, measures, rates = host.life, host.measures, self.rates
        return InstanceState(
            application=host.settings.application_id,
            state=life.state.value,
            version=__version__,
            guarantee=host.settings.guarantee,
            member=host.member.member_id,
            process=host.process_id,
            endpoint=host.settings.endpoint,
            since_ms=life.since_ms,
            begin_ms=life.begin_ms,
            error="" if life.error is None else str(life.error) or type(life.error).__name__,
            waits=tuple(each.detail or f"status {each.code}" for each in host.statuses),
            records=measures.processed.count,
            records_per_s=rates.per_s("process.count"),
            commits=measures.committed.count,
            commits_per_s=rates.per_s("commit.count"),
            commit_ms=self.average_ms("commit"),
            tasks=tuple(self._task(task_id, each) for task_id, each in sorted(host.tasks.running.items())),
            consumed=self._traffic("consumed", measures.consumed),
            produced=self._traffic("produced", measures.produced),
            nodes=self._nodes(),
        )

    def _task(self, task_id: TaskId, running: Running) -> TaskState:
        name, state, positions = text_of(task_id), running.task.state, running.positions or {}
        return TaskState(
            name,
            running.role.value,
            RUNNING if is_up(running) else RESTORING,
            records=running.measures.processed.count,
            records_per_s=self.rates.per_s(f"{name}.process.count"),
            buffered=running.task.waiting(),
            dropped=state.dropped_records,
            stream_time_ms=state.stream_time_ms if state.stream_time_ms >= 0 else None,
            restored=running.restorer.restored,
            remaining=running.restorer.missing,
            inputs=tuple(
                InputState(
                    key.topic, key.partition, positions.get(key), running.committed.get(key), unprocessed(running, key)
                )
                for key in running.inputs
            ),
            stores=tuple(self._store(store, each) for store, each in running.task.stores.items()),
            nodes=dict(state.node_counts or {}),
            state_bytes=None if running.state is None else running.state.file.size_bytes,
        )

    def _store(self, name: str, store: object) -> StoreState:
        kind = next((each.kind.value for each in self.host.plan.stores if each.name == name), "")
        return StoreState(name, kind, rows_of(store))

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

    def _nodes(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for task_id, running in self.host.tasks.running.items():
            for node in running.task.state.node_counts or ():
                found[node] = found.get(node, 0.0) + self.rates.per_s(f"{text_of(task_id)}.node.{node}")
        return found


def text_of(task_id: TaskId) -> str:
    """A task as Kafka writes it: SUBTOPOLOGY_PARTITION."""
    return f"{task_id[0]}_{task_id[1]}"


def is_up(running: Running) -> bool:
    """Whether the stores of a task have all that their changelogs had at the last look."""
    return running.is_active or (running.role.value != "active" and running.restorer.missing == 0)


def unprocessed(running: Running, key: TopicPartition) -> int | None:
    """Records of an input that were not processed: those on the broker, and those that wait in the task."""
    beyond = running.lags.get(key)
    return None if beyond is None else beyond + running.task.waiting_of(*key)


def rows_of(store: object) -> int | None:
    """The rows of a store; None: stores of this kind do not count them."""
    count = getattr(store, "approximate_num_entries", None)
    return None if count is None else int(count())
