"""Tasks in a Python process of Spark: `run` carries out the work of one task in one batch.

A process keeps tasks after a batch. The next batch of a task continues with the kept one if it is in the state that
the last commit left: `Work.base` names it. Otherwise the task is made again from its file on disk, if there is one, and
from the changelogs since. A file takes the rows of a batch only when the next batch shows that it is committed.
"""

from __future__ import annotations

import asyncio
import hashlib
import pickle
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker_cy.admin import AdminClient
from broker_cy.admin.fetched import Chunk
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.transaction import GroupMetadata
from broker_cy.wire.records import Record
from broker_streams.hosts.batches import PROCESS, READ, WRITE
from broker_streams.hosts.clients import client_of
from broker_streams.hosts.embedded.global_stores import GlobalStores
from broker_streams.hosts.embedded.restoring import Restorer, changelog_partitions, deletions_ms
from broker_streams.hosts.embedded.states import States
from broker_streams.hosts.embedded.writer import add_ends, sends
from broker_streams.hosts.results import Results
from broker_streams.hosts.settings import NO_RESET, HostSettings
from broker_streams.hosts.spark import shipped
from broker_streams.hosts.spark.reports import Meter
from broker_streams.hosts.spark.work import Done, Offsets, TaskId, Token, Work
from broker_streams.hosts.starts import Starts
from broker_streams.kernel.build import build
from broker_streams.kernel.errors import StreamsError
from broker_streams.kernel.punctuation import NEVER_MS
from broker_streams.kernel.stores.maps import in_memory
from broker_streams.kernel.task import Task

if TYPE_CHECKING:
    from broker_streams.state.task_state import TaskState

# Results of a batch that wait in memory; more of them are sent while the batch goes on.
RESULTS_MAX: Final = 50_000
# Tasks whose state a process keeps; the one that rested longest is dropped.
KEPT_MAX: Final = 64
# Applications of one process: those of one driver, and those that it has restarted with another file.
WORKERS_MAX: Final = 32
# A batch waits so long for brokers; after that it begins again.
CALL_S: Final = 30.0

_workers: dict[str, Worker] = {}


def run(path: str, data: bytes) -> bytes:
    """Carry out pickled Work for the application in the file `path`; returns a pickled Done. Raises ClientError."""
    name = Path(path).name
    worker = _workers.get(name)
    if worker is None:
        while len(_workers) >= WORKERS_MAX:
            _workers.pop(next(iter(_workers))).close()
        worker = _workers[name] = Worker(shipped.unpacked(Path(path).read_bytes()))
    return pickle.dumps(worker.run(pickle.loads(data)))


def file_name(application_id: str, data: bytes) -> str:
    """The name of an application's file: another application, or a changed one, has another name."""
    return f"streams-{application_id}-{hashlib.sha256(data).hexdigest()[:16]}.pickle"


@dataclass
class Kept:
    """A task between batches. `positions`: the next offset to read of each input."""

    task: Task
    restorer: Restorer
    positions: Offsets
    meter: Meter
    state: TaskState | None
    token: Token | None = None
    # Where the batch `token` ended in inputs and changelogs. State on disk takes it when that batch is committed.
    reached: Offsets = field(default_factory=dict)
    # The time of its last batch.
    used_ms: int = 0

    def is_committed(self, base: Token | None) -> bool:
        """Whether the batch `token` is committed, if `base` is the last one that was: a run ends with the first batch
        that fails.
        """
        return base is not None and self.token is not None and base[0] == self.token[0] and base[1] >= self.token[1]


class Worker:
    """One application in one process."""

    def __init__(self, application: shipped.Shipped) -> None:
        self._topology, config = application
        self._settings = HostSettings.of(config)
        name = self._settings.application_id
        self._parts = {part.number: part for part in self._topology.subtopologies()}
        self._loop = asyncio.new_event_loop()
        self._client: AdminClient = client_of(config, name, name, timeout_s=CALL_S)
        self._starts = Starts(self._client, self._topology, self._settings)
        # Another process that had the task before may still have its file: then this one has a file of its own.
        self._states = States(self._settings, self._now_ms)
        self._kept: dict[TaskId, Kept] = {}
        self._counts: Mapping[str, int] = {}
        self._globals = GlobalStores(
            self._client, self._topology, self._states, Isolation.READ_COMMITTED, self._now_ms, asyncio.Lock()
        )

    @staticmethod
    def _now_ms() -> int:
        return time.time_ns() // 1_000_000

    def run(self, work: Work) -> Done:
        """Raises ClientError: the brokers do not answer, or another driver has the task."""
        try:
            return self._loop.run_until_complete(self._run(work))
        except StreamsError as error:
            cause = f": {error.__cause__!r}" if error.__cause__ is not None else ""
            return Done(work.task, work.core, failure=f"{error}{cause}")

    def close(self) -> None:
        for task in list(self._kept):
            self._forget(task, self._kept.pop(task), None)
        self._globals.close()
        self._loop.run_until_complete(self._client.close())
        self._loop.close()

    async def _run(self, work: Work) -> Done:
        self._counts = work.counts
        try:
            await self._globals.fill(work.global_ends, work.now_ms)
        except BaseException:
            # All tasks read these stores, which may have a part of a record.
            for task in list(self._kept):
                self._forget(task, self._kept.pop(task), None)
            self._globals.close(discard=True)
            raise
        # Without an entry while it runs: after an error the task is made again.
        kept = self._kept.pop(work.task, None)
        if kept is not None and kept.token != work.base:
            self._forget(work.task, kept, work.base)
            kept = None
        try:
            if kept is None:
                kept = await self._make(work)
            else:
                kept.restorer.committed(kept.reached)
                kept.restorer.finish()
            done = await _Batch(self._client, self._settings, kept, work, self._starts.reset_of).run()
        except BaseException:
            self._states.close(_name(work.task), discard=True)
            raise
        kept.token = work.token
        while len(self._kept) >= KEPT_MAX:
            oldest = next(iter(self._kept))
            self._forget(oldest, self._kept.pop(oldest), None)
        kept.used_ms = work.now_ms
        self._kept[work.task] = kept
        self._leave(work.now_ms)
        await self._states.clean()
        return done

    def _leave(self, now_ms: int) -> None:
        """Close tasks that other processes have had for state.cleanup.delay.ms: their files go too, on this machine."""
        before_ms = now_ms - self._settings.state_cleanup_delay_ms
        for task in [task for task, each in self._kept.items() if each.used_ms < before_ms]:
            self._forget(task, self._kept.pop(task), None)

    def _forget(self, task: TaskId, kept: Kept, base: Token | None) -> None:
        """Close a task. `base` is its last batch that was committed, if that is known."""
        is_committed = kept.is_committed(base)
        with suppress(StreamsError):
            if is_committed:
                kept.restorer.committed(kept.reached)
            kept.task.close()
        self._states.close(_name(task), discard=not is_committed)

    async def _make(self, work: Work) -> Kept:
        """A task in the state of the last commit. Raises StreamsError, ClientError."""
        part, settings, name = self._parts[work.task[0]], self._settings, _name(work.task)
        partition = work.task[1]
        state = self._states.open(name, part)
        restorer = Restorer(
            self._client, changelog_partitions(self._topology, part, partition, settings.application_id)
        )
        # A changelog that is a source topic too: what the task has not processed is no state yet.
        upto = {key: at for key, at in work.committed.items() if key in restorer.partitions}
        logs = await restorer.logs(upto, deletions_ms(part, settings))
        if state is not None:
            state, _ = await self._states.fitted(name, state, part, logs)
        task = build(
            self._topology,
            part,
            partition,
            settings.task,
            lambda topic: self._counts.get(topic, 0),
            self._globals.stores,
            in_memory if state is None else state.open_maps,
        )
        meter = Meter(task, restorer, is_detailed=settings.task.counts_nodes)
        restorer.begin(task.stores, state)
        await restorer.catch_up(upto, to_the_end=True)
        for key in work.ends:
            task.assign(*key)
            if key in work.texts:
                task.restore_metadata(*key, work.texts[key])
        task.initialize(work.began_ms)
        if work.base is not None:
            task.pass_over(work.last_ms)
        return Kept(task, restorer, dict(work.committed), meter, state)


class _Batch:
    """One batch of one task."""

    def __init__(
        self, client: AdminClient, settings: HostSettings, kept: Kept, work: Work, reset_of: Callable[[str], str]
    ) -> None:
        self._client, self._settings, self._work, self._reset_of = client, settings, work, reset_of
        self._kept, self._task, self._positions, self._meter = kept, kept.task, kept.positions, kept.meter
        self._ends: Offsets = {}
        core = work.core
        assert core.transactional_id is not None
        self._producer = client.transactional_producer(core.transactional_id, timeout_ms=core.timeout_ms)
        self._producer.resume(core)
        self._has_begun = False
        self._results = Results()
        self._written: dict[str, int] = {}

    async def run(self) -> Done:
        """Read, process and write. Raises StreamsError, ClientError."""
        work, task, meter = self._work, self._task, self._meter
        meter.begin()
        records = await self._read()
        meter.end(READ)
        task.update_lags({(key.topic, key.partition): lag for key, lag in work.lags.items()})
        meter.processed(task.run(work.now_ms))
        meter.punctuated(task.punctuate(work.now_ms))
        task.flush()
        self._collect()
        meter.end(PROCESS)
        await self._send()
        self._kept.restorer.seal()
        reached = {TopicPartition(*place): at for place, at in task.offsets().items()}
        offsets = {key: at for key, at in reached.items() if work.committed.get(key) != at}
        texts = {TopicPartition(*place): text for place, text in task.metadata().items()}
        if offsets:
            await self._begin()
            group = GroupMetadata(self._settings.application_id)
            await self._producer.commit_offsets(group, offsets, {key: texts[key] for key in offsets})
        self._kept.reached = {**reached, **self._ends}
        meter.end(WRITE)
        state = self._kept.state
        return Done(
            work.task,
            self._producer.core,
            offsets,
            {key: texts[key] for key in offsets},
            records,
            self._written,
            self._due_ms(),
            task.waiting() > 0,
            report=meter.take(work.ends, None if state is None else state.file.size_bytes),
        )

    def _due_ms(self) -> int | None:
        if self._task.waiting():
            # Records wait for another input, at most max.task.idle.ms.
            return self._work.now_ms + max(1, self._settings.task.max_task_idle_ms)
        return None if self._task.due_ms >= NEVER_MS else self._task.due_ms

    async def _read(self) -> int:
        """Give the task all records up to the ends. Return how many."""
        work, task, positions = self._work, self._task, self._positions
        ends = {key: end for key, end in work.ends.items() if positions[key] < end}
        if not ends:
            return 0
        count = 0
        # With several inputs, the order of records is known when all of them are read.
        is_single = len(work.ends) == 1
        starts = {key: positions[key] for key in ends}
        async with self._client.records.reader(starts, ends=ends, isolation=Isolation.READ_COMMITTED) as reader:
            async for chunk in reader:
                if chunk.lost_from is not None and self._reset_of(chunk.partition.topic) == NO_RESET:
                    raise StreamsError(
                        f"records of {chunk.partition} from offset {chunk.lost_from} on were deleted before they were"
                        " read, and auto.offset.reset is none"
                    )
                task.add(*chunk.partition, inputs_of(chunk), work.now_ms)
                self._meter.polled(chunk.partition.topic, len(chunk.records), chunk.size_bytes)
                # The last batch of a producer may go on beyond the end.
                positions[chunk.partition] = min(chunk.next_offset, ends[chunk.partition])
                count += len(chunk.records)
                if is_single:
                    processed = task.run(work.now_ms)
                    self._collect()
                    self._meter.processed(processed)
                    if len(self._results) >= RESULTS_MAX:
                        await self._send()
                        self._meter.end(WRITE)
        return count

    def _collect(self) -> None:
        outputs, changes = self._task.take_results()
        self._results.add(outputs)
        self._results.add_changes(changes, self._work.task[1])

    async def _begin(self) -> None:
        if not self._has_begun:
            await self._producer.begin()
            self._has_begun = True

    async def _send(self) -> None:
        results, self._results = self._results, Results()
        if not results:
            return
        await self._begin()
        for topic, (records, size_bytes) in results.traffic().items():
            self._written[topic] = self._written.get(topic, 0) + records
            self._meter.produced(topic, records, size_bytes)
        for each in await asyncio.gather(*sends(self._producer, results), return_exceptions=True):
            if isinstance(each, BaseException):
                raise each
            add_ends(self._ends, each)


def _name(task: TaskId) -> str:
    return f"{task[0]}_{task[1]}"


def inputs_of(chunk: Chunk) -> list[Record]:
    """The records of a chunk as the kernel takes them. Raises ClientError: a batch is damaged."""
    if chunk.damage:
        raise ClientError(Failure.MALFORMED, chunk.damage[0], what=f"partition {chunk.partition}")
    return chunk.records
