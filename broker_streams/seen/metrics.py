"""The metrics of an instance in the text format of Prometheus, under the names that Kafka Streams' metrics have there:
those of Prometheus' exporter for JMX. So kafka.streams:type=stream-thread-metrics, attribute process-rate, is
kafka_streams_stream_thread_metrics_process_rate.

docs/streams.md has the table; a test keeps it up to date.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from broker_cy.metrics.definitions import Metric
from broker_cy.metrics.exposition import Page
from broker_streams.hosts.batches import QueryBatches
from broker_streams.hosts.figures import ACTIVE, LATENCY, LATENESS, TaskFigures
from broker_streams.hosts.measures import State
from broker_streams.seen.rates import RATE_S
from broker_streams.seen.watch import Watch

PREFIX: Final = "kafka_streams_"
CLIENT, THREAD, TASK = "stream_metrics", "stream_thread_metrics", "stream_task_metrics"
NODE, STATE, CACHE = "stream_processor_node_metrics", "stream_state_metrics", "stream_record_cache_metrics"
TOPIC, INPUT = "stream_topic_metrics", "stream_input_metrics"
# On Spark only; not of Kafka Streams.
BATCH, PART = "stream_batch_metrics", "stream_batch_part_metrics"
_LABELS: Final = {
    CLIENT: ("client_id",),
    THREAD: ("thread_id",),
    TASK: ("thread_id", "task_id"),
    NODE: ("thread_id", "task_id", "processor_node_id"),
    STATE: ("thread_id", "task_id", "state_id"),
    CACHE: ("thread_id", "task_id", "record_cache_id"),
    TOPIC: ("thread_id", "topic_name"),
    INPUT: ("thread_id", "task_id", "topic_name", "partition"),
    BATCH: ("client_id", "subtopology_id"),
    PART: ("client_id", "subtopology_id", "part"),
}
_TIMED: Final = {
    "process": "Records that were processed",
    "punctuate": "Punctuations that were called",
    "poll": "Chunks of records that were read",
    "commit": "Commits",
}
STORE_CALLS: Final = ("get", "put", "put_if_absent", "put_all", "delete", "fetch", "remove", "flush")
_SECONDS: Final = f"{RATE_S:g} s"


def _metric(group: str, name: str, kind: Literal["counter", "gauge"], text: str) -> Metric:
    return Metric(f"{PREFIX}{group}_{name}", kind, _LABELS[group], text)


def _of_timed(group: str, name: str, text: str) -> Iterator[Metric]:
    yield _metric(group, f"{name}_total", "counter", f"{text}.")
    yield _metric(group, f"{name}_rate", "gauge", f"{text}, in a second, over {_SECONDS}.")
    yield _metric(group, f"{name}_latency_avg", "gauge", f"The average time of one in ms, over {_SECONDS}.")
    yield _metric(group, f"{name}_latency_max", "gauge", f"The longest time of one in ms, within {_SECONDS}.")


def _of_count(group: str, name: str, text: str) -> Iterator[Metric]:
    yield _metric(group, f"{name}_total", "counter", f"{text}.")
    yield _metric(group, f"{name}_rate", "gauge", f"{text}, in a second, over {_SECONDS}.")


_TABLE: Final = (
    _metric(CLIENT, "client_state", "gauge", "The state: " + ", ".join(f"{n} {s.value}" for n, s in enumerate(State))),
    _metric(CLIENT, "alive_stream_threads", "gauge", "1 while the instance runs: its event loop is its one thread."),
    _metric(CLIENT, "failed_stream_threads", "counter", "1 after an error has ended the instance."),
    *(each for name, text in _TIMED.items() for each in _of_timed(THREAD, name, text)),
    _metric(THREAD, "poll_records_avg", "gauge", f"Records of a chunk, over {_SECONDS}."),
    *_of_count(THREAD, "task_created", "Tasks that were made"),
    *_of_count(THREAD, "task_closed", "Tasks that were given up"),
    *_of_count(TASK, "dropped_records", "Records that were skipped: late, without a key, or refused by a handler"),
    *_of_count(TASK, "restore", "Records of changelogs from which an active task was restored"),
    _metric(TASK, "restore_remaining_records_total", "gauge", "Records that are to be restored."),
    *_of_count(TASK, "update", "Records of changelogs that a standby or warm-up task has read"),
    _metric(TASK, "active_buffer_count", "gauge", "Records that were read, and are not processed yet."),
    *_of_timed(TASK, "process", "Records that the task has processed"),
    *_of_timed(TASK, "punctuate", "Punctuations of the task"),
    *_of_count(TASK, "enforced_processing", "Records that did not wait any longer for another input"),
    _metric(
        TASK, "record_lateness_avg", "gauge", f"How far records were behind the stream time, in ms, over {_SECONDS}."
    ),
    _metric(TASK, "record_lateness_max", "gauge", f"The same of the latest record within {_SECONDS}."),
    _metric(TASK, "stream_time_ms", "gauge", "The stream time: the largest timestamp so far. Not of Kafka Streams."),
    _metric(INPUT, "records_lag", "gauge", "Records of an input that are not processed: records-lag of its consumer."),
    *_of_count(TOPIC, "records_consumed", "Records that were read from the topic"),
    *_of_count(TOPIC, "bytes_consumed", "Bytes that were read from the topic, as they are stored"),
    *_of_count(TOPIC, "records_produced", "Committed records for the topic"),
    *_of_count(TOPIC, "bytes_produced", "Committed bytes for the topic"),
    *(
        _metric(
            NODE,
            f"record_e2e_latency_{kind}",
            "gauge",
            f"{text} time in ms from the timestamp of a record until"
            f" the source, or the node without children, has processed it, over {_SECONDS}.",
        )
        for kind, text in (("avg", "The average"), ("min", "The shortest"), ("max", "The longest"))
    ),
    *_of_count(NODE, "process", "DEBUG: records that the processor took"),
    _metric(STATE, "num_entries", "gauge", "Rows of the store: rocksdb.estimate-num-keys."),
    *(
        each
        for call in STORE_CALLS
        for each in _of_timed(STATE, call, f"DEBUG: calls of {call.replace('_', '-')} of the store")
    ),
    *_of_timed(BATCH, "batch", "On Spark: batches that were committed"),
    *_of_count(BATCH, "records", "On Spark: records of the batches"),
    _metric(BATCH, "runs_total", "counter", "On Spark: runs of the query, which begins again after a failure."),
    _metric(BATCH, "trigger_lag_avg", "gauge", f"On Spark: the ms by which batches begin too late, over {_SECONDS}."),
    _metric(BATCH, "trigger_lag_max", "gauge", f"On Spark: the longest such time in ms, within {_SECONDS}."),
    _metric(BATCH, "last_number", "gauge", "On Spark: the number of the last batch, as in the progress topic."),
    _metric(PART, "latency_avg", "gauge", f"On Spark: the average time of a part of a batch in ms, over {_SECONDS}."),
    _metric(PART, "latency_max", "gauge", f"On Spark: the longest time of a part in ms, within {_SECONDS}."),
    _metric(CACHE, "hit_ratio_avg", "gauge", f"DEBUG: the part of lookups that the cache answered, over {_SECONDS}."),
)
METRICS: Final = {metric.name: metric for metric in _TABLE}


def metrics_page(watch: Watch) -> bytes:
    """The page of a scrape."""
    found = samples(watch)
    page = Page(METRICS)
    for name in METRICS:
        page.family(name)
        for labels, value in found.get(name, {}).items():
            page.sample(name, value, *labels)
    return page.encode()


def samples(watch: Watch) -> dict[str, dict[tuple[str, ...], float]]:
    """The values of all metrics, by name and labels."""
    taken = _Samples(watch)
    taken.take()
    return taken.found


class _Samples:
    """The values of all metrics, by name."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        view = watch.view
        self._client = f"{view.settings.application_id}-{view.process}"
        self._thread = f"{self._client}-StreamThread-1"
        self.found: dict[str, dict[tuple[str, ...], float]] = {}

    def _add(self, group: str, name: str, value: float | None, *labels: str) -> None:
        if value is not None:
            first = self._client if _LABELS[group][0] == "client_id" else self._thread
            self.found.setdefault(f"{PREFIX}{group}_{name}", {})[first, *labels] = value

    def _add_count(self, group: str, name: str, count: str, total: float, *labels: str) -> None:
        self._add(group, f"{name}_total", total, *labels)
        self._add(group, f"{name}_rate", self._watch.rates.per_s(count), *labels)

    def _add_timed(self, group: str, name: str, timed: str, total: int, *labels: str) -> None:
        self._add_count(group, name, f"{timed}.count", total, *labels)
        self._add(group, f"{name}_latency_avg", self._watch.average_ms(timed), *labels)
        self._add(group, f"{name}_latency_max", self._watch.maxima.of(timed), *labels)

    def _spread(self, name: str) -> dict[str, float | None]:
        watch = self._watch
        average = watch.rates.average(f"{name}.total", f"{name}.count")
        return {"avg": average, "min": watch.minima.of(name), "max": watch.maxima.of(name)}

    def take(self) -> None:
        view, measures = self._watch.view, self._watch.view.measures
        state = view.life.state
        self._add(CLIENT, "client_state", list(State).index(state))
        self._add(CLIENT, "alive_stream_threads", int(state in (State.REBALANCING, State.RUNNING)))
        self._add(CLIENT, "failed_stream_threads", int(state is State.ERROR))
        for name, timed in (
            ("process", measures.processed),
            ("punctuate", measures.punctuated),
            ("poll", measures.polled),
            ("commit", measures.committed),
        ):
            self._add_timed(THREAD, name, name, timed.count)
        self._add(THREAD, "poll_records_avg", self._watch.rates.average("poll.records", "poll.count"))
        self._add_count(THREAD, "task_created", "tasks.created", measures.tasks_created)
        self._add_count(THREAD, "task_closed", "tasks.closed", measures.tasks_closed)
        for direction, by_topic in (("consumed", measures.consumed), ("produced", measures.produced)):
            for topic, traffic in by_topic.items():
                self._add_count(TOPIC, f"records_{direction}", f"{direction}.records.{topic}", traffic.records, topic)
                bytes_name = f"{direction}.bytes.{topic}"
                self._add_count(TOPIC, f"bytes_{direction}", bytes_name, traffic.size_bytes, topic)
        for each in view.tasks():
            self._task(each)
        for batches in view.batches():
            self._batches(batches)

    def _task(self, of: TaskFigures) -> None:
        name = of.name
        self._add_count(TASK, "restore" if of.role == ACTIVE else "update", f"{name}.restored", of.restored, name)
        if of.role == ACTIVE:
            self._add(TASK, "restore_remaining_records_total", of.remaining, name)
        if of.is_active:
            self._active(of)
        for store, rows in of.rows.items():
            self._add(STATE, "num_entries", rows, name, store)
        for store, calls in of.calls.items():
            for call, timed in calls.items():
                self._add_timed(STATE, call, f"{name}.{store}.{call}", timed.count, name, store)
        for store in of.lookups:
            ratio = self._watch.rates.average(f"{name}.hits.{store}", f"{name}.lookups.{store}")
            self._add(CACHE, "hit_ratio_avg", ratio, name, store)

    def _active(self, of: TaskFigures) -> None:
        name = of.name
        self._add_count(TASK, "dropped_records", f"{name}.dropped", of.dropped, name)
        self._add(TASK, "active_buffer_count", of.buffered, name)
        self._add_timed(TASK, "process", f"{name}.process", of.measures.processed.count, name)
        self._add_timed(TASK, "punctuate", f"{name}.punctuate", of.measures.punctuated.count, name)
        self._add_count(TASK, "enforced_processing", f"{name}.enforced", of.enforced, name)
        for kind, value in self._spread(f"{name}.{LATENESS}").items():
            if kind != "min":
                self._add(TASK, f"record_lateness_{kind}", value, name)
        for spread in of.spreads:
            node = spread.removeprefix(LATENCY)
            if node != spread:
                for kind, value in self._spread(f"{name}.{spread}").items():
                    self._add(NODE, f"record_e2e_latency_{kind}", value, name, node)
        if of.stream_time_ms is not None:
            self._add(TASK, "stream_time_ms", of.stream_time_ms, name)
        for each in of.inputs:
            self._add(INPUT, "records_lag", each.lag, name, each.topic, str(each.partition))
        for node, count in of.nodes.items():
            self._add_count(NODE, "process", f"{name}.node.{node}", count, name, node)

    def _batches(self, of: QueryBatches) -> None:
        name, part = of.query, of.subtopology
        self._add_timed(BATCH, "batch", f"{name}.batch", of.whole.count, part)
        self._add_count(BATCH, "records", f"{name}.records", of.records, part)
        self._add(BATCH, "runs_total", of.runs, part)
        self._add(BATCH, "trigger_lag_avg", self._watch.average_ms(f"{name}.trigger-lag"), part)
        self._add(BATCH, "trigger_lag_max", self._watch.maxima.of(f"{name}.trigger-lag"), part)
        if of.last is not None:
            self._add(BATCH, "last_number", of.last.number, part)
        for each in of.parts:
            self._add(PART, "latency_avg", self._watch.average_ms(f"{name}.{each}"), part, each)
            self._add(PART, "latency_max", self._watch.maxima.of(f"{name}.{each}"), part, each)
