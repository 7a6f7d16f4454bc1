"""The tasks of one instance: made when they are assigned, restored, and then fed with chunks of records."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from broker_cy.admin import AdminClient, ClientError
from broker_cy.admin.fetched import Chunk
from broker_cy.admin.group_offsets import Committed
from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.streams_member import Role
from broker_streams.hosts.embedded.restoring import Restorer, changelog_partitions, deletions_ms
from broker_streams.hosts.embedded.states import States
from broker_streams.hosts.measures import TaskMeasures
from broker_streams.hosts.settings import NO_RESET, HostSettings
from broker_streams.hosts.starts import Starts
from broker_streams.hosts.store_measures import StoreMeasures
from broker_streams.hosts.task_timeout import TaskTimeout
from broker_streams.kernel.build import build
from broker_streams.kernel.errors import StreamsError
from broker_streams.kernel.stores.maps import in_memory
from broker_streams.kernel.task import Task
from broker_streams.plan.topology import Subtopology, Topology

if TYPE_CHECKING:
    from broker_streams.state.task_state import TaskState

_LOG = logging.getLogger("broker_streams")
TaskId = tuple[str, int]
"""The sub-topology and the partition."""
# Between two looks at the changelogs of a standby.
STANDBY_S: Final = 1.0


@dataclass
class Restored:
    """A task whose stores are up to date: what the group had committed, and where its inputs are read from."""

    group: Committed
    committed: dict[TopicPartition, int]
    positions: dict[TopicPartition, int]
    lags: dict[TopicPartition, int]


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
    # With metrics.recording.level=DEBUG only.
    store_measures: StoreMeasures | None = None
    # Records that the broker has beyond `positions`, as the last answers say.
    lags: dict[TopicPartition, int] = field(default_factory=dict)
    # Its rows on disk; None: all of its stores are in memory.
    state: TaskState | None = None
    # Brings the stores up to date, and keeps those of a standby so.
    restoring: asyncio.Task[Restored] | None = None

    @property
    def is_active(self) -> bool:
        return self.role is Role.ACTIVE and self.positions is not None

    def reached(self) -> dict[TopicPartition, int]:
        """The next offset of each input that counts as processed. Without records that wait, that is the position: it
        may be beyond markers of transactions, which would be a lag of an idle group (StreamTask.commitNeeded).
        """
        found = {TopicPartition(*key): at for key, at in self.task.offsets().items()}
        for key, position in (self.positions or {}).items():
            before = found.get(key, self.committed.get(key))
            if before is not None and position > before and not self.task.waiting_of(key.topic, key.partition):
                found[key] = position
        return found

    @property
    def has_moved(self) -> bool:
        """Whether a commit has something new, although nothing was processed."""
        return any(self.committed.get(key) != at for key, at in self.reached().items())


class Tasks:
    """`partitions` returns the number of partitions of a topic; `global_stores` are read by all processors."""

    def __init__(
        self,
        client: AdminClient,
        topology: Topology,
        settings: HostSettings,
        partitions: Callable[[str], int],
        global_stores: Mapping[str, Any],
        states: States,
        now_ms: Callable[[], int],
        timeout: TaskTimeout,
    ) -> None:
        """Raises StreamsError: state.dir cannot be used."""
        self._timeout = timeout
        self._client, self._topology, self._settings = client, topology, settings
        self._now_ms = now_ms
        self.states = states
        self._partitions, self._global_stores = partitions, global_stores
        self._parts = {str(part.number): part for part in topology.subtopologies()}
        self._starts = Starts(client, topology, settings)
        self.running: dict[TaskId, Running] = {}
        # Topics that are not read: their records stay for another run, and no task waits for them.
        self.paused: frozenset[str] = frozenset()
        self._writing: asyncio.Task[None] | None = None

    def make(self, task_id: TaskId, role: Role) -> Running:
        """Make a task that is not restored yet. Raises StreamsError, LookupError: it cannot run."""
        name, partition = task_id
        part = self._parts.get(name)
        if part is None:
            raise StreamsError(
                f"the group assigned task {name}_{partition}, and the application has no sub-topology {name}"
            )
        settings = self._settings
        # A standby that becomes active goes on with its own file.
        self.close(task_id)
        state = self.states.open(f"{name}_{partition}", part)
        changelogs = changelog_partitions(self._topology, part, partition, settings.application_id)
        made = Running(
            self._build(part, partition, state),
            role,
            Restorer(self._client, changelogs),
            tuple(self._inputs(part, partition)),
            state=state,
        )
        self._measure(made)
        self.running[task_id] = made
        made.restoring = asyncio.create_task(self._restore(made, part, partition))
        return made

    def _build(self, part: Subtopology, partition: int, state: TaskState | None) -> Task:
        open_maps = in_memory if state is None else state.open_maps
        settings = self._settings.task
        return build(self._topology, part, partition, settings, self._partitions, self._global_stores, open_maps)

    def _measure(self, of: Running) -> None:
        if self._settings.task.counts_nodes:
            of.store_measures = StoreMeasures(of.task.stores)

    def _inputs(self, part: Subtopology, partition: int) -> Iterable[TopicPartition]:
        for source in part.sources:
            for topic in source.topics:
                decorated = self._topology.decorated(topic, self._settings.application_id)
                if partition < self._partitions(decorated):
                    yield TopicPartition(decorated, partition)

    def has_new_inputs(self, task_id: TaskId) -> bool:
        """Whether a task lacks partitions that its topics have by now."""
        return tuple(self._inputs(self._parts[task_id[0]], task_id[1])) != self.running[task_id].inputs

    async def _restore(self, of: Running, part: Subtopology, partition: int) -> Restored:
        """Bring the stores of a task up to date, beside the other tasks. For a standby it never ends. Raises
        ClientError, StreamsError.
        """
        settings, restorer = self._settings, of.restorer
        group = await committed_offsets(self._client, settings.application_id, of.inputs)
        committed = {key: group[key].offset for key in of.inputs if key in group}
        upto = self._source_changelogs(of, committed)
        logs = await restorer.logs(upto, deletions_ms(part, settings))
        if of.state is not None:
            name = f"{part.number}_{partition}"
            of.state, is_changed = await self.states.fitted(name, of.state, part, logs)
            if is_changed:
                of.task = self._build(part, partition, of.state)
                self._measure(of)
        restorer.begin(of.task.stores, of.state)
        # Nobody else commits for a task that this instance has: what is decided now is all.
        while of.role is not Role.ACTIVE:
            await restorer.catch_up(upto)
            await asyncio.sleep(STANDBY_S)
            if upto:
                group = await committed_offsets(self._client, settings.application_id, of.inputs)
                upto = self._source_changelogs(of, {key: group[key].offset for key in of.inputs if key in group})
        await restorer.catch_up(upto, to_the_end=True)
        now_ms = self._now_ms()
        positions, spans = await self._starts.positions(of.inputs, group, now_ms)
        lags = {key: 0 if key.topic in self.paused else max(0, spans[key].end - at) for key, at in positions.items()}
        return Restored(group, committed, positions, lags)

    @property
    def has_restored(self) -> bool:
        """Whether `begin` has something to do."""
        return any(each.restoring is not None and each.restoring.done() for each in self.running.values())

    @property
    def is_restoring(self) -> bool:
        """Whether an active task has not begun."""
        return any(each.role is Role.ACTIVE and each.positions is None for each in self.running.values())

    def begin(self, now_ms: int) -> None:
        """Let tasks whose stores are up to date process their inputs, from what the group has committed on. Raises
        ClientError, StreamsError.
        """
        for task_id, of in list(self.running.items()):
            if of.restoring is None or not of.restoring.done():
                continue
            try:
                found, of.restoring = of.restoring.result(), None
            except ClientError as error:
                if not error.retriable:
                    raise
                self._timeout.failed(_subject(task_id), error)
                self.make(task_id, of.role)
                continue
            self._timeout.passed(_subject(task_id))
            for key in of.inputs:
                of.task.assign(*key)
                if key in found.group:
                    of.task.restore_metadata(*key, found.group[key].metadata)
            of.task.initialize(now_ms)
            of.committed, of.positions, of.lags = found.committed, found.positions, found.lags
            of.task.update_lags({(key.topic, key.partition): lag for key, lag in of.lags.items()})

    def seal(self) -> None:
        """All tasks were flushed for a commit that begins now."""
        for each in self.active:
            if each.state is not None:
                each.state.seal()

    def committed(self, ends: Mapping[TopicPartition, int], offsets: Mapping[TopicPartition, int]) -> None:
        """The commit of the last `seal` has succeeded: it wrote changelogs up to `ends`, and processed inputs up to
        `offsets`. Raises StreamsError: state cannot be written.
        """
        reached = {**offsets, **ends}
        for each in self.active:
            each.restorer.committed(reached)
        self._begin_writes()

    def rest(self) -> None:
        """Nothing was processed since the last commit. Raises StreamsError: state cannot be written."""
        for each in self.active:
            if each.state is not None:
                each.state.rest()
        self._begin_writes()

    def _begin_writes(self) -> None:
        if self._writing is not None and self._writing.done():
            self._writing.result()
            self._writing = None
        if self._writing is None and any(each.state is not None and each.state.is_writing for each in self.active):
            self._writing = asyncio.create_task(self._write())

    async def _write(self) -> None:
        """Carry out the writes of files in parts, between the steps of the tasks. Raises StreamsError."""
        while any(each.state is not None and each.state.step() for each in self.active):
            await asyncio.sleep(0)

    def _source_changelogs(self, of: Running, committed: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """A changelog that is a source topic too: what the task has not processed is no state yet."""
        theirs = of.restorer.partitions
        return {key: committed.get(key, 0) for key in of.inputs if key in theirs}

    def take(self, chunk: Chunk) -> bool:
        """Give the records of a chunk to their task; return whether there is such a task now. Raises StreamsError."""
        key = chunk.partition
        for each in self.running.values():
            if each.positions is not None and key in each.positions:
                at = each.positions[key]
                if chunk.damage:
                    raise StreamsError(f"{key} cannot be read: {'; '.join(chunk.damage)}")
                if chunk.lost_from is not None and chunk.lost_from >= at:
                    self._note_lost(chunk)
                records = chunk.records
                if records and records[0].offset < at:
                    records = [record for record in records if record.offset >= at]
                each.task.add(key.topic, key.partition, records)
                each.positions[key] = chunk.next_offset
                end = chunk.last_stable_offset if self._settings.reads_committed else chunk.high_watermark
                each.lags[key] = lag = max(0, end - chunk.next_offset)
                each.task.update_lags({(key.topic, key.partition): lag})
                return True
        return False

    def _note_lost(self, chunk: Chunk) -> None:
        """Records were deleted before they were read. Raises StreamsError: auto.offset.reset is none."""
        key, start = chunk.partition, chunk.next_offset if not chunk.records else chunk.records[0].offset
        reason = f"the records of {key} from offset {chunk.lost_from} to {start} were deleted before they were read"
        if self._starts.reset_of(key.topic) == NO_RESET:
            raise StreamsError(f"{reason}, and auto.offset.reset is none")
        _LOG.warning("%s: the task goes on at %d", reason, start)

    @property
    def active(self) -> list[Running]:
        return [each for each in self.running.values() if each.is_active]

    def is_up(self, name: str) -> bool:
        """Whether the task SUBTOPOLOGY_PARTITION is active and processes its inputs."""
        part, _, partition = name.rpartition("_")
        found = self.running.get((part, int(partition)))
        return found is not None and found.is_active

    def positions(self) -> dict[TopicPartition, int]:
        """The next offset to read of each input that is read."""
        found = ((key, at) for each in self.active for key, at in (each.positions or {}).items())
        return {key: at for key, at in found if key.topic not in self.paused}

    def close(self, task_id: TaskId, *, sync: bool = False) -> None:
        """Forget a task. An error of a processor's `close` does not matter any more. `sync`: its state on disk outlives
        a power loss.
        """
        gone = self.running.pop(task_id, None)
        if gone is None:
            return
        if gone.restoring is not None:
            gone.restoring.cancel()
        if gone.positions is not None:
            with suppress(StreamsError):
                gone.task.close()
        self.states.close(f"{task_id[0]}_{task_id[1]}", sync=sync)


def _subject(task_id: TaskId) -> str:
    return f"restoring task {task_id[0]}_{task_id[1]}"


async def committed_offsets(client: AdminClient, group_id: str, inputs: Iterable[TopicPartition]) -> Committed:
    """The committed offsets of inputs, after open transactions have ended. Raises ClientError.

    The inputs are named: a question for all would not wait for the first offset of a partition, and its records would
    be processed again.
    """
    return (await client.group_offsets.fetch([group_id], stable=True, partitions=inputs)).whole()[group_id]
