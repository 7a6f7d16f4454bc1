"""The tasks of one instance: made when they are assigned, restored, and then fed with chunks of records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from broker_cy.admin import AdminClient
from broker_cy.admin.fetched import Chunk
from broker_cy.admin.group_offsets import Committed
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.records import Start
from broker_cy.client.streams_member import Role
from broker_cy.core.java_duration import duration_ms
from broker_streams.hosts.embedded.restoring import Restorer, changelog_partitions
from broker_streams.hosts.measures import TaskMeasures
from broker_streams.hosts.settings import BY_DURATION, LATEST, NO_RESET, HostSettings
from broker_streams.kernel.build import build
from broker_streams.kernel.errors import StreamsError
from broker_streams.kernel.task import Task
from broker_streams.plan.topology import Subtopology, Topology

TaskId = tuple[str, int]
"""The sub-topology and the partition."""


@dataclass
class Running:
    """One task. `positions`: the next offset to read of each input, None while it restores its stores."""

    task: Task
    role: Role
    restorer: Restorer
    inputs: tuple[TopicPartition, ...]
    positions: dict[TopicPartition, int] | None = None
    # The offsets of the last commit.
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    measures: TaskMeasures = field(default_factory=TaskMeasures)
    # Records that the broker has beyond `positions`, as the last answers say.
    lags: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def is_active(self) -> bool:
        return self.role is Role.ACTIVE and self.positions is not None


class Tasks:
    """`partitions` returns the number of partitions of a topic; `global_stores` are read by all processors."""

    def __init__(
        self,
        client: AdminClient,
        topology: Topology,
        settings: HostSettings,
        partitions: Callable[[str], int],
        global_stores: Mapping[str, Any],
    ) -> None:
        self._client, self._topology, self._settings = client, topology, settings
        self._partitions, self._global_stores = partitions, global_stores
        self._parts = {str(part.number): part for part in topology.subtopologies()}
        self.running: dict[TaskId, Running] = {}

    def make(self, task_id: TaskId, role: Role) -> Running:
        """Make a task that is not restored yet. Raises StreamsError, LookupError: it cannot run."""
        name, partition = task_id
        part = self._parts.get(name)
        if part is None:
            raise StreamsError(
                f"the group assigned task {name}_{partition}, and the application has no sub-topology {name}"
            )
        settings = self._settings
        task = build(self._topology, part, partition, settings.task, self._partitions, self._global_stores)
        changelogs = changelog_partitions(self._topology, part, partition, settings.application_id)
        restorer = Restorer(self._client, {key: task.stores[store] for store, key in changelogs.items()})
        made = Running(task, role, restorer, tuple(self._inputs(part, partition)))
        self.running[task_id] = made
        return made

    def _inputs(self, part: Subtopology, partition: int) -> Iterable[TopicPartition]:
        for source in part.sources:
            for topic in source.topics:
                decorated = self._topology.decorated(topic, self._settings.application_id)
                if partition < self._partitions(decorated):
                    yield TopicPartition(decorated, partition)

    async def begin(self, of: Running, group: Committed, now_ms: int) -> None:
        """Bring the stores of a task up to date, and let it process its inputs from what the group has committed on.
        Raises ClientError, StreamsError.
        """
        committed = {key: group[key].offset for key in of.inputs if key in group}
        await of.restorer.catch_up(self._source_changelogs(of, committed))
        for key in of.inputs:
            of.task.assign(*key)
            if key in group:
                of.task.restore_metadata(*key, group[key].metadata)
        of.task.initialize(now_ms)
        of.committed = committed
        fresh = [key for key in of.inputs if key not in committed]
        of.positions = {**of.committed, **await self._starts(fresh, now_ms)}
        # Committed offsets may be before or behind what the log has.
        spans = await self._client.records.spans(of.inputs, Start.earliest())
        for key, span in spans.items():
            if not span.earliest <= of.positions[key] <= span.end:
                of.positions |= await self._starts([key], now_ms)
        of.lags = {key: max(0, spans[key].end - at) for key, at in of.positions.items()}
        of.task.update_lags({(key.topic, key.partition): lag for key, lag in of.lags.items()})

    def _source_changelogs(self, of: Running, committed: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """A changelog that is a source topic too: what the task has not processed is no state yet."""
        return {key: committed.get(key, 0) for key in of.inputs}

    async def _starts(self, keys: Iterable[TopicPartition], now_ms: int) -> dict[TopicPartition, int]:
        """The first offsets of inputs without a committed one. Raises StreamsError: auto.offset.reset is none."""
        by_reset: dict[str, list[TopicPartition]] = {}
        for key in keys:
            by_reset.setdefault(self._reset_of(key.topic), []).append(key)
        found: dict[TopicPartition, int] = {}
        for reset, theirs in by_reset.items():
            if reset == NO_RESET:
                raise StreamsError(f"{theirs[0]} has no committed offset, and auto.offset.reset is none")
            spans = await self._client.records.spans(theirs, _start(reset, now_ms))
            found |= {key: span.start for key, span in spans.items()}
        return found

    def _reset_of(self, topic: str) -> str:
        application_id = self._settings.application_id
        for part in self._parts.values():
            for source in part.sources:
                for name in source.topics:
                    if self._topology.decorated(name, application_id) == topic:
                        is_internal = self._topology.is_internal(name)
                        return "earliest" if is_internal else source.offset_reset or self._settings.offset_reset
        return self._settings.offset_reset

    def take(self, chunk: Chunk) -> bool:
        """Give the records of a chunk to their task; return whether there is such a task now. Raises StreamsError."""
        key = chunk.partition
        for each in self.running.values():
            if each.positions is not None and key in each.positions:
                at = each.positions[key]
                inputs = [
                    (record.key, record.value, record.timestamp, record.offset, record.headers)
                    for record in chunk.records
                    if record.offset >= at
                ]
                each.task.add(key.topic, key.partition, inputs)
                each.positions[key] = chunk.next_offset
                end = chunk.last_stable_offset if self._settings.is_exactly_once else chunk.high_watermark
                each.lags[key] = lag = max(0, end - chunk.next_offset)
                each.task.update_lags({(key.topic, key.partition): lag})
                return True
        return False

    @property
    def active(self) -> list[Running]:
        return [each for each in self.running.values() if each.is_active]

    def positions(self) -> dict[TopicPartition, int]:
        return {key: at for each in self.active for key, at in (each.positions or {}).items()}

    def close(self, task_id: TaskId) -> None:
        """Forget a task. An error of a processor's `close` does not matter any more."""
        gone = self.running.pop(task_id, None)
        if gone is not None and gone.positions is not None:
            try:
                gone.task.close()
            except StreamsError:
                return


def _start(reset: str, now_ms: int) -> Start:
    if reset == LATEST:
        return Start.latest()
    if reset.startswith(BY_DURATION):
        return Start.time(max(0, now_ms - duration_ms(reset.removeprefix(BY_DURATION))))
    return Start.earliest()


async def committed_offsets(client: AdminClient, group_id: str) -> Committed:
    """The committed offsets of the application, after open transactions have ended. Raises ClientError."""
    return (await client.group_offsets.fetch([group_id], stable=True)).whole()[group_id]
