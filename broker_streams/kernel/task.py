"""A task: the processors of a sub-topology for one partition, record by record.

    task.initialize(now_ms)
    task.add(topic, partition, inputs)
    task.run(now_ms)                      as many records as may be processed
    task.punctuate(now_ms)                the clock of the host
    task.flush()                          before a commit: rows that caches keep back
    task.take_results()                   what a commit writes,
    task.offsets(), task.metadata()       with these

A task has no clock: hosts give the time. The same inputs at the same times give the same results. After an error, a
task cannot go on: the host makes another one from the last commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from broker_streams.kernel.collector import ChangelogRecord, Collector
from broker_streams.kernel.commit_metadata import CommitMetadata, of_text
from broker_streams.kernel.entry import InvalidTimestamp
from broker_streams.kernel.errors import FailedProcessing, Output, RefusedRecord, Response, StreamsError
from broker_streams.kernel.failures import Failures
from broker_streams.kernel.forward import Spread
from broker_streams.kernel.partition_group import Inputs, PartitionGroup
from broker_streams.kernel.processor import Processing, ProcessorContext, PunctuationType, TaskState
from broker_streams.kernel.punctuation import PunctuationQueue, Schedule
from broker_streams.kernel.record_queue import RecordQueue
from broker_streams.records import NO_HEADERS


class Task:
    """Made by kernel/build.py. `stores` are flushed in their order. `commit_requested`: a processor asked for it."""

    def __init__(self, state: TaskState, group: PartitionGroup, collector: Collector, failures: Failures) -> None:
        self.state = state
        self.stores: dict[str, Any] = {}
        # Times in ms from the timestamps of records until sources and nodes without children have processed them; a
        # source has one for each partition (record-e2e-latency of Kafka Streams).
        self.latencies: dict[str, list[Spread]] = {}
        self.commit_requested = False
        # Whether something was processed or punctuated since the last `flush`.
        self.commit_needed = False
        self._group = group
        self._collector = collector
        self._failures = failures
        self._processors: dict[str, tuple[Processing, ProcessorContext]] = {}
        self._stream_time = PunctuationQueue()
        self._wall_clock = PunctuationQueue()
        self._queue_of: Callable[[str, int], RecordQueue] | None = None
        self._writers: Mapping[str, str] = {}

    def bind(
        self,
        processors: dict[str, tuple[Processing, ProcessorContext]],
        queue_of: Callable[[str, int], RecordQueue],
        writers: Mapping[str, str],
    ) -> None:
        """The processors in the order of the topology, the maker of queues, and by topic the sink or store that writes
        to it. Called once, by kernel/build.py.
        """
        self._processors = processors
        self._queue_of = queue_of
        self._writers = writers

    def initialize(self, now_ms: int) -> None:
        """Call `init` of each processor. Raises StreamsError."""
        state = self.state
        state.system_time_ms = now_ms
        state.timestamp, state.headers, state.metadata = now_ms, NO_HEADERS, None
        for node, (processor, context) in self._processors.items():
            try:
                processor.init(context)
            except Exception as error:
                raise StreamsError(f"processor {node} cannot be initialized: {error}") from error
        state.timestamp = -1

    def assign(self, topic: str, partition: int) -> None:
        """Add an input. Raises LookupError: no source of the task reads the topic."""
        if self._queue_of is None or (topic, partition) in self._group.queues:
            return
        queue = self._queue_of(topic, partition)
        self._group.assign(queue)
        self.latencies.setdefault(queue.node, []).append(queue.latency)

    def restore_metadata(self, topic: str, partition: int, text: str | None) -> None:
        """Take the text beside a committed offset: times of the partition, and of windows that were passed on. Called
        before `initialize`, for each input.
        """
        found, state = of_text(text), self.state
        time_ms = found.partition_time_ms
        self._group.queues[topic, partition].partition_time_ms = time_ms
        state.stream_time_ms = max(state.stream_time_ms, time_ms)
        for store, emitted_ms in found.emitted_ms.items():
            state.emitted_ms[store] = max(emitted_ms, state.emitted_ms.get(store, emitted_ms))

    def metadata(self) -> dict[tuple[str, int], str]:
        """The text beside the offset of each input: what a commit writes with `offsets`."""
        queues, emitted_ms = self._group.queues.items(), self.state.emitted_ms
        return {place: CommitMetadata(queue.partition_time_ms, emitted_ms).text() for place, queue in queues}

    def add(self, topic: str, partition: int, inputs: Inputs, now_ms: int | None = None) -> int:
        """Return how many records of the partition wait now. `now_ms` is for sources that take the time of the clock.

        Raises LookupError: the partition is no input of the task. StreamsError: the task cannot go on.
        """
        if now_ms is not None:
            self.state.system_time_ms = now_ms
        try:
            return self._group.add(topic, partition, inputs)
        except InvalidTimestamp as error:
            raise StreamsError(str(error)) from error

    def update_lags(self, lags: Mapping[tuple[str, int], int | None]) -> None:
        """Tell how many records of each input wait on the broker, for max.task.idle.ms; None: not known yet."""
        self._group.update_lags(lags)

    def waiting(self) -> int:
        """How many records were added and not processed."""
        return self._group.waiting()

    def waiting_of(self, topic: str, partition: int) -> int:
        """Those of one input."""
        queue = self._group.queues.get((topic, partition))
        return 0 if queue is None else len(queue)

    def next_time_ms(self) -> int | None:
        """The timestamp of the next record; None: no record waits."""
        return self._group.next_time_ms()

    @property
    def wall_clock_due_ms(self) -> int:
        """The time of the next punctuation by the host's clock."""
        return self._wall_clock.due_ms

    @property
    def enforced(self) -> int:
        """How many records were processed while another partition had none (max.task.idle.ms)."""
        return self._group.enforced

    def is_ready(self, now_ms: int) -> bool:
        return self._group.is_ready(now_ms)

    def process(self, now_ms: int) -> bool:
        """Process one record. Return whether one was ready."""
        return self.run(now_ms, 1) == 1

    def run(self, now_ms: int, limit: int = 1 << 62) -> int:
        """Process at most `limit` records; return how many. Raises StreamsError: the task cannot go on."""
        state, group, stream_time = self.state, self._group, self._stream_time
        state.system_time_ms = now_ms
        queue = group.only
        try:
            if queue is not None:
                # One input is the usual case: its records are always ready.
                if queue.head_input is None:
                    return 0
                self.commit_needed = True
                return queue.run(state, stream_time, self.punctuate_stream_time, limit)
            count = 0
            while count < limit and group.is_ready(now_ms):
                queue = group.take()
                if queue is None:
                    break
                count += 1
                self.commit_needed = True
                queue.process(state)
                group.give_back(queue)
                if stream_time.due_ms <= state.stream_time_ms:
                    self.punctuate_stream_time()
            return count
        except InvalidTimestamp as error:
            raise StreamsError(str(error)) from error
        except FailedProcessing as error:
            raise self._final(error) from error.__cause__
        except StreamsError:
            raise
        except Exception as error:
            # A function of a sink right below the source: all others have a guard.
            node = "" if queue is None else queue.node
            raise StreamsError(self._failures.describe(node, state.metadata, error)) from error

    def punctuate(self, now_ms: int) -> bool:
        """Call what the host's clock made due; return whether something was called. Raises StreamsError."""
        self.state.system_time_ms = now_ms
        called = self._wall_clock.run(now_ms, self._punctuate)
        self.commit_needed |= called
        return called

    def punctuate_stream_time(self) -> bool:
        """Call what is due since the last record, which `run` does after each record. Raises StreamsError."""
        now_ms = self.state.stream_time_ms
        called = now_ms >= 0 and self._stream_time.run(now_ms, self._punctuate)
        self.commit_needed |= called
        return called

    @property
    def due_ms(self) -> int:
        """The time of the host's clock at which `punctuate` has something to do; NEVER_MS: at none."""
        return self._wall_clock.due_ms

    def pass_over(self, now_ms: int) -> None:
        """Leave out the punctuations up to `now_ms` of the host's clock, and up to the present stream time. For a task
        that continues one which called them already. Called after `initialize`.
        """
        for queue, until_ms in ((self._wall_clock, now_ms), (self._stream_time, self.state.stream_time_ms)):
            queue.run(until_ms, lambda schedule, at_ms: None)

    def schedule(
        self, node: str, interval_ms: int, kind: PunctuationType, callback: Callable[[int], None], start_ms: int | None
    ) -> Schedule:
        """A punctuation without `start_ms` begins with the first record, or one interval from now on."""
        queue, now_ms = self._stream_time, self.state.stream_time_ms
        if kind is PunctuationType.WALL_CLOCK_TIME:
            queue, now_ms = self._wall_clock, self.state.system_time_ms
        if start_ms is None:
            first_ms = 0 if kind is PunctuationType.STREAM_TIME else now_ms + interval_ms
            return queue.add(Schedule(node, first_ms, interval_ms, callback))
        schedule = Schedule(node, start_ms, interval_ms, callback)
        if start_ms < now_ms:
            schedule.move_beyond(now_ms)
        return queue.add(schedule)

    def flush(self) -> None:
        """Pass on what caches keep back. Called before a commit. Raises StreamsError."""
        for name, store in self.stores.items():
            try:
                store.flush()
            except FailedProcessing as error:
                raise self._final(error) from error.__cause__
            except Exception as error:
                raise StreamsError(f"store {name} cannot pass its changes on: {error}") from error
        self.commit_needed = self.commit_requested = False

    def take_results(self) -> tuple[list[Output], list[ChangelogRecord]]:
        """Records for topics and for changelogs since the last call."""
        return self._collector.take()

    def offsets(self) -> dict[tuple[str, int], int]:
        """The next offset of each input from which something was processed: what a commit writes."""
        queues = self._group.queues.items()
        return {place: queue.consumed + 1 for place, queue in queues if queue.consumed >= 0}

    def refused(self, output: Output, error: RefusedRecord, *, has_letters: bool = True) -> Response:
        """The decision of production.exception.handler about a record that the cluster refused: of a sink, or of the
        changelog of a store. Without `has_letters`, it is a dead letter itself. Raises StreamsError.
        """
        node = self._writers.get(output[0], "a sink")
        return self._failures.refused(node, output, error, has_letters=has_letters)

    def close(self) -> None:
        """Call `close` of each processor, of all if one fails. Raises StreamsError."""
        failed: StreamsError | None = None
        for node, (processor, _) in self._processors.items():
            try:
                processor.close()
            except Exception as error:
                failed = StreamsError(f"processor {node} cannot be closed: {error}")
                failed.__cause__ = error
        self._group.clear()
        if failed is not None:
            raise failed

    def _punctuate(self, schedule: Schedule, now_ms: int) -> None:
        state = self.state
        state.timestamp, state.headers, state.metadata = now_ms, NO_HEADERS, None
        state.input = None
        try:
            schedule.callback(now_ms)
        except FailedProcessing as error:
            raise self._final(error) from error.__cause__
        except Exception as error:
            try:
                self._failures.processing(schedule.node, None, error)
            except FailedProcessing as failed:
                raise self._final(failed) from error

    def _final(self, error: FailedProcessing) -> StreamsError:
        if error.is_final:
            return StreamsError(str(error))
        return StreamsError(self._failures.describe(error.node, self.state.metadata, error.__cause__))
