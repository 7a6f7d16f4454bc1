"""The batches of one sub-topology: what each task reads, and the commit of all tasks together.

    begin     end what the last driver decided, abort all else, and find the offsets to begin at
    latest    up to which offsets the next batch reads; waits a moment for records
    plan      the work of the tasks that have something to do
    commit    one record in the progress topic decides the batch, then the transactions of all tasks are committed

Spark's checkpoint is not needed: the truth about a batch is in the cluster. Each run of a query begins at the committed
offsets of the group, with new epochs of all producers, so that no writer of a former run can write any more.
"""

from __future__ import annotations

import asyncio
import pickle
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from broker_cy.admin import AdminClient
from broker_cy.admin.group_offsets import Committed
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.transactional import TransactionalProducer
from broker_cy.client.errors import ClientError
from broker_cy.client.streams_status import InputState
from broker_cy.client.transaction import V2, ProducerCore, State
from broker_cy.core.errors import ErrorCode
from broker_cy.wire.records import Record
from broker_streams.hosts.batches import DECIDE, PLAN, TASKS
from broker_streams.hosts.figures import TaskFigures
from broker_streams.hosts.settings import HostSettings
from broker_streams.hosts.spark import progress
from broker_streams.hosts.spark.sums import QueryMeasures
from broker_streams.hosts.spark.topics import Topics
from broker_streams.hosts.spark.work import Done, Offsets, TaskId, Token, Work
from broker_streams.hosts.starts import Starts
from broker_streams.kernel.errors import StreamsError
from broker_streams.plan.topology import Subtopology, Topology

# How long a call of `latest` waits for records, and the pauses between its looks at the ends.
WAIT_S: Final = 0.5
FIRST_LOOK_S: Final = 0.005
LAST_LOOK_S: Final = 0.05
# Between two looks at the numbers of partitions and at the group.
COUNTS_S: Final = 10.0
# The transaction of a decided batch is gone: it was committed before, or the coordinator has aborted it for its age.
# Then the task continues at its committed offsets.
_ENDED: Final = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)


_FENCED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


class Superseded(StreamsError):
    """Another driver runs the application now, or instances on another host."""


class QueryError(RuntimeError):
    """A call that does not fit the batch that is open, or inputs that changed: the query must begin again."""


@dataclass
class Following:
    """One task, as the driver knows it."""

    inputs: tuple[TopicPartition, ...]
    producer: TransactionalProducer
    base: Token | None = None
    last_ms: int = 0
    # The first batch of a run has all tasks: their processors schedule punctuations before there are records.
    due_ms: int | None = 0
    is_waiting: bool = False

    def is_due(self, now_ms: int, *, ends: bool = False) -> bool:
        """Whether the task has something to do without records. A query that `ends` does not wait for the clock."""
        return self.due_ms is not None and self.due_ms <= now_ms and (self.is_waiting or not ends)


@dataclass
class Figures:
    """Counts since the start of the host."""

    batches: int = 0
    records: int = 0
    runs: int = 0
    written: dict[str, int] = field(default_factory=dict)


class Query:
    """One for each sub-topology. `failure` is the error of a task that ends the application."""

    def __init__(
        self,
        client: AdminClient,
        topology: Topology,
        part: Subtopology,
        settings: HostSettings,
        *,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._client, self._topology, self._part, self._settings = client, topology, part, settings
        self._now_ms = now_ms
        self.name = f"{settings.application_id}-{part.number}"
        self._starts = Starts(client, topology, settings)
        self._driver = client.transactional_producer(self.name, timeout_ms=settings.transaction_timeout_ms)
        self._tasks: dict[TaskId, Following] = {}
        self._topics: Topics | None = None
        self._run = ""
        self._batch = self._tick = self._began_ms = 0
        self._committed: Offsets = {}
        # The ends of the last batches.
        self._reached: Offsets = {}
        self._texts: dict[TopicPartition, str] = {}
        self._ends: Offsets = {}
        self._global_ends: Offsets = {}
        self._held: Offsets | None = None
        self._open: dict[TaskId, Work] = {}
        self._planned: list[bytes] = []
        self._last_commit: int | None = None
        self._purge_due_s = self._counts_due_s = 0.0
        # Turns for batches, which the queries of a driver share. None: any number of batches at a time.
        self.turns: asyncio.Semaphore | None = None
        self._has_turn = False
        self.failure: StreamsError | None = None
        self.figures = Figures()
        self.measures = QueryMeasures(self.name, part, settings.commit_interval_ms)

    # ---- a run

    async def begin(self, topics: Topics) -> None:
        """Begin a run, after which no former one can write. Raises ClientError, StreamsError, ValueError."""
        settings = self._settings
        self._topics = topics
        self._tasks = {
            (self._part.number, number): Following(
                inputs,
                self._client.transactional_producer(
                    f"{self.name}_{number}", timeout_ms=settings.transaction_timeout_ms
                ),
            )
            for number, inputs in topics.inputs(self._part).items()
        }
        await self._check_alone()
        await self.settle()
        keys = [key for each in self._tasks.values() for key in each.inputs]
        # Other queries of the application may have open transactions; those of this one are over.
        fetched = await self._client.group_offsets.fetch([settings.application_id], stable=True, partitions=keys)
        group: Committed = fetched.whole()[settings.application_id]
        self._began_ms = self._now_ms()
        self._committed, _ = await self._starts.positions(keys, group, self._began_ms)
        self._texts = {key: group[key].metadata for key in keys if key in group}
        self._run, self._tick, self._last_commit = str(uuid.uuid4()), 0, None
        self._open, self._reached = {}, {}
        self.figures.runs += 1
        self.measures.begin(self._tasks)

    async def _check_alone(self) -> None:
        """Raises ClientError; StreamsError: the group has members, which process the same records."""
        name = self._settings.application_id
        group = (await self._client.groups.describe([name])).found.get(name)
        if group is not None and group.members:
            self.failure = Superseded(
                f"group {name} has {len(group.members)} members: the application runs on the embedded host, or in Java;"
                " end it first"
            )
            raise self.failure

    async def settle(self) -> None:
        """Commit what is decided and abort what is not. Raises ClientError, ValueError; StreamsError: another driver
        has begun since.
        """
        self.give_turn_back()
        try:
            await self._driver.initialize(continues=self._run != "")
        except ClientError as error:
            if error.code in _FENCED:
                raise Superseded(f"another driver runs application {self._settings.application_id} now") from error
            raise
        found = await progress.last(self._client, self.name)
        if found is not None:
            self._batch = found.batch + 1
            await asyncio.gather(*(self._end(each) for each in found.transactions))
        await asyncio.gather(*(each.producer.initialize() for each in self._tasks.values()))

    async def _end(self, of: progress.Open) -> None:
        """Commit a transaction of a decided batch, if it is still open. Raises ClientError."""
        core = ProducerCore(of.transactional_id, self._settings.transaction_timeout_ms)
        core.identity, core.state = (of.producer_id, of.epoch), State.READY
        producer = self._client.transactional_producer(of.transactional_id)
        producer.resume(core)
        await producer.begin()
        core.sends_itself()
        try:
            await producer.commit()
        except ClientError as error:
            if error.code not in _ENDED:
                raise

    def tasks(self) -> list[TaskFigures]:
        """The tasks as they are after the last commit."""
        found = []
        for task, each in self._tasks.items():
            of = self.measures.of_task(task)
            inputs = []
            for key in each.inputs:
                # Up to the end of the last batch all is read: the committed offset does not count markers behind it.
                at, end = self._reached.get(key, self._committed.get(key)), self._ends.get(key)
                lag = None if at is None or end is None else max(0, end - at) + of.waiting.get(key, 0)
                inputs.append(InputState(key.topic, key.partition, at, self._committed.get(key), lag))
            of.figures.inputs = tuple(inputs)
            found.append(of.figures)
        return found

    # ---- the source

    async def first(self) -> dict[str, Any]:
        """The offsets at which the run begins."""
        self.measures.batches.waits()
        return self._told(self._committed)

    async def hold(self) -> None:
        """For a query that ends at the present ends of its inputs (Trigger.AvailableNow). Another run goes on in
        repartition topics, to the same ends of all others. Raises ClientError.
        """
        await self._look()
        held, application_id = self._held or {}, self._settings.application_id
        internal = {self._topology.decorated(each.name, application_id) for each in self._topology.repartition_topics}
        self._held = {key: end if key.topic in internal else held.get(key, end) for key, end in self._ends.items()}

    async def latest(self, start: Mapping[str, Any], rows_max: int | None) -> dict[str, Any]:
        """The end of the next batch, at most `rows_max` offsets after its start; `start` if there is nothing to do.
        Raises ClientError.
        """
        begun = offsets_of(start)
        self.give_turn_back()
        until_s, pause_s = time.monotonic() + WAIT_S, FIRST_LOOK_S
        while True:
            await self._look()
            ends = {key: min(end, self._held[key]) for key, end in self._ends.items()} if self._held else self._ends
            if any(end > begun[key] for key, end in ends.items()):
                break
            now_ms = self._now_ms()
            if any(each.is_due(now_ms, ends=self._held is not None) for each in self._tasks.values()):
                self._tick += 1
                break
            self.measures.batches.waits()
            if self._held is not None or time.monotonic() + pause_s > until_s:
                return dict(start)
            await asyncio.sleep(pause_s)
            pause_s = min(LAST_LOOK_S, pause_s * 1.5)
        if self.turns is not None:
            await self.turns.acquire()
            self._has_turn = True
        self.measures.batches.begin()
        if rows_max is not None:
            each_max = max(1, rows_max // max(1, len(ends)))
            ends = {key: min(end, begun[key] + each_max) for key, end in ends.items()}
        return self._told({key: max(end, begun[key]) for key, end in ends.items()})

    def give_turn_back(self) -> None:
        """Let another query have a batch: this one has ended its batch, or its run."""
        if self._has_turn and self.turns is not None:
            self._has_turn = False
            self.turns.release()

    async def _look(self) -> None:
        """The ends of all inputs. Raises ClientError; QueryError: a topic has another number of partitions now, and the
        next run finds out what that means. StreamsError: the application also runs elsewhere.
        """
        topics = self._topics
        assert topics is not None
        if time.monotonic() >= self._counts_due_s:
            self._counts_due_s = time.monotonic() + COUNTS_S
            await self._check_alone()
            names = {key.topic for key in self._committed}
            for name, topic in (await self._client.topics.describe(names)).whole().items():
                if len(topic.partitions) != topics.counts[name]:
                    raise QueryError(f"topic {name} has {len(topic.partitions)} partitions now")
        keys = [*self._committed, *topics.global_inputs]
        found = (await self._client.offsets.latest(keys, isolation=Isolation.READ_COMMITTED)).whole()
        self._ends = {key: found[key] for key in self._committed}
        self._global_ends = {key: found[key] for key in topics.global_inputs}

    def _told(self, offsets: Offsets) -> dict[str, Any]:
        """Offsets as Spark writes them down. The tick makes a batch without records another one."""
        found: dict[str, Any] = {}
        for key, offset in offsets.items():
            found.setdefault(key.topic, {})[str(key.partition)] = offset
        return {"offsets": found, "tick": self._tick}

    async def plan(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[bytes]:
        """The pickled Work of each task that has records, or a punctuation that is due. Raises QueryError."""
        begun, ends = offsets_of(start), offsets_of(end)
        self.measures.batches.end(PLAN)
        if self._open:
            if not self._is_same(ends):
                raise QueryError(f"batch {self._batch} of {self.name} is open, and Spark plans another one")
            return self._planned
        topics, now_ms = self._topics, self._now_ms()
        assert topics is not None
        for task, each in self._tasks.items():
            if each.is_due(now_ms) or any(ends[key] > begun[key] for key in each.inputs):
                self._open[task] = self._work(topics, task, each, ends, now_ms)
        self._planned = [pickle.dumps(work) for work in self._open.values()]
        return self._planned

    def _is_same(self, ends: Offsets) -> bool:
        return all(ends[key] == at for work in self._open.values() for key, at in work.ends.items())

    def _work(self, topics: Topics, task: TaskId, of: Following, ends: Offsets, now_ms: int) -> Work:
        return Work(
            task,
            self._run,
            self._batch,
            of.base,
            {key: self._committed[key] for key in of.inputs},
            {key: self._texts[key] for key in of.inputs if key in self._texts},
            {key: ends[key] for key in of.inputs},
            {key: max(0, self._ends.get(key, 0) - ends[key]) for key in of.inputs},
            self._global_ends,
            topics.counts,
            of.producer.core,
            now_ms,
            of.last_ms,
            self._began_ms,
        )

    # ---- the sink

    async def commit(self, spark_batch: int, results: Sequence[Sequence[bytes] | None]) -> None:
        """Commit the batch. Raises StreamsError: a task cannot go on, nothing is committed. ClientError: the batch is
        decided or not, and the next run finds out.
        """
        if self._last_commit == spark_batch:
            return
        self.measures.batches.end(TASKS)
        done = [pickle.loads(each) for theirs in results for each in self._present(theirs)]
        for each in done:
            if each.failure is not None:
                self.failure = StreamsError(each.failure)
                raise self.failure
        if {each.task for each in done} != set(self._open):
            raise QueryError(f"batch {self._batch} of {self.name} has other tasks than the driver has planned")
        for each in done:
            self._tasks[each.task].producer.resume(each.core)
        started = [each for each in done if each.offsets or each.written]
        if started:
            await self._decide(started)
            self.measures.batches.end(DECIDE)
            await asyncio.gather(*(self._commit_task(each) for each in started))
        self.measures.take(self._batch, {each.task: each for each in done})
        self._take(done)
        self._last_commit = spark_batch
        self.give_turn_back()
        await self._purge()

    def _present(self, theirs: Sequence[bytes] | None) -> Sequence[bytes]:
        if theirs is None:
            raise QueryError(f"batch {self._batch} of {self.name} lacks the result of a task")
        return theirs

    async def _decide(self, done: Iterable[Done]) -> None:
        """Write the record of the batch. Raises ClientError."""
        offsets, written, transactions, records = [], dict[str, int](), [], 0
        for each in done:
            offsets += [(key.topic, key.partition, at) for key, at in each.offsets.items()]
            for topic, count in each.written.items():
                written[topic] = written.get(topic, 0) + count
            assert each.core.transactional_id is not None
            transactions.append(progress.Open(each.core.transactional_id, *each.core.identity))
            records += each.records
        now_ms = self._now_ms()
        made = progress.Progress(self.name, self._batch, now_ms, records, tuple(offsets), written, tuple(transactions))
        async with self._driver.transaction():
            record = Record(key=self.name.encode(), value=made.value(), timestamp=now_ms)
            await self._driver.send(progress.TOPIC, [record], partition=progress.PARTITION.partition)
        figures = self.figures
        figures.batches += 1
        figures.records += records
        for topic, count in written.items():
            figures.written[topic] = figures.written.get(topic, 0) + count

    async def _commit_task(self, done: Done) -> None:
        producer = self._tasks[done.task].producer
        await producer.commit()
        if producer.core.version < V2:
            # Each transaction has its own epoch: the next driver must not take another one for that of this batch.
            await producer.initialize()

    def _take(self, done: Iterable[Done]) -> None:
        """The state after the commit."""
        for each in done:
            work, task = self._open[each.task], self._tasks[each.task]
            self._committed |= each.offsets
            self._reached |= work.ends
            self._texts |= dict(each.texts)
            task.base, task.last_ms = work.token, work.now_ms
            task.due_ms, task.is_waiting = each.due_ms, each.is_waiting
        self._open = {}
        self._batch += 1

    async def _purge(self) -> None:
        """Delete the records of repartition topics that are processed."""
        now_s = time.monotonic()
        if now_s < self._purge_due_s:
            return
        self._purge_due_s = now_s + self._settings.repartition_purge_ms / 1000
        application_id = self._settings.application_id
        internal = {self._topology.decorated(each.name, application_id) for each in self._topology.repartition_topics}
        before = {key: at for key, at in self._committed.items() if key.topic in internal and at > 0}
        if before:
            # The rest is deleted the next time.
            with suppress(ClientError):
                await self._client.topics.delete_records(before)


def offsets_of(told: Mapping[str, Any]) -> Offsets:
    """The reverse of `Query.first` and `latest`."""
    return {
        TopicPartition(topic, int(number)): at
        for topic, partitions in told["offsets"].items()
        for number, at in partitions.items()
    }
