"""The results of a task: records for topics, and changes for changelogs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from broker_streams.kernel.errors import Origin, Output, StreamsError
from broker_streams.kernel.failures import Failures
from broker_streams.kernel.processor import Processor, TaskState
from broker_streams.kernel.topic_sink import Counts, Placing
from broker_streams.records import Headers, Record
from broker_streams.serdes import Serde

# A record for a changelog: topic, key, value, timestamp, headers. Its partition is the task's.
ChangelogRecord = tuple[str, bytes, bytes | None, int, Headers]


class RecordContext(NamedTuple):
    """The record for which a sink asks for a topic: its own timestamp and headers, the place of the task's input."""

    topic: str | None
    partition: int
    offset: int
    timestamp: int
    headers: Headers


class Collector:
    """`partitions` returns how many partitions a topic has. Without it, the producer chooses partitions by keys."""

    def __init__(self, partitions: Callable[[str], int] | None) -> None:
        self.outputs: list[Output] = []
        self.changes: list[ChangelogRecord] = []
        self.count_of = Counts(partitions)

    def take(self) -> tuple[list[Output], list[ChangelogRecord]]:
        """Results since the last call, in their order."""
        # Topics may have got partitions meanwhile.
        self.count_of.look_again()
        outputs, changes = self.outputs[:], self.changes[:]
        # Sinks keep the lists, so they are emptied in place.
        self.outputs.clear()
        self.changes.clear()
        return outputs, changes

    def changed(self, topics: dict[str, str]) -> Callable[[str, bytes, bytes | None, int, Headers], None]:
        """Return the call that takes changes of stores. `topics` are the changelogs by stores."""
        append = self.changes.append

        def take(store: str, key: bytes, value: bytes | None, timestamp: int, headers: Headers) -> None:
            append((topics[store], key, value, timestamp, headers))

        return take

    def placing(self, suffix_bytes: int) -> Placing:
        return Placing(self.count_of, suffix_bytes)


class ChoosingSink(Processor):
    """Asks functions of the user for the topic or for partitions of each record."""

    def __init__(
        self,
        node: str,
        topic: str | Callable[[Any, Any, RecordContext], str],
        key_serde: Serde,
        value_serde: Serde,
        partitioner: Callable[[str, Any, Any, int], Any] | None,
        collector: Collector,
        failures: Failures,
        state: TaskState,
        decorated: Callable[[str], str],
        suffix_bytes: int,
    ) -> None:
        self._node = node
        self._topic = topic
        self._key = key_serde.serialize
        self._value = value_serde.serialize
        self._partitioner = partitioner
        self._collector = collector
        self._failures = failures
        self._state = state
        self._decorated = decorated
        self._place = collector.placing(suffix_bytes)

    def process(self, record: Record) -> None:
        topic = self._topic if isinstance(self._topic, str) else self._chosen_topic(self._topic, record)
        if self._partitioner is None:
            self._send(topic, None, record)
            return
        chosen = self._partitioner(topic, record.key, record.value, self._collector.count_of(topic))
        if chosen is None or isinstance(chosen, int):
            self._send(topic, chosen, record)
            return
        partitions = self._checked(chosen)
        if not partitions:
            self._state.dropped_records += 1
        for partition in partitions:
            self._send(topic, partition, record)

    def _chosen_topic(self, choose: Callable[[Any, Any, RecordContext], str], record: Record) -> str:
        topic, partition, offset = self._state.metadata or (None, -1, -1)
        context = RecordContext(topic, partition, offset, record.timestamp, record.headers)
        found = choose(record.key, record.value, context)
        if not isinstance(found, str) or not found:
            raise StreamsError(f"the topic function of {self._node} returned {found!r}; it returns a topic's name")
        return self._decorated(found)

    def _checked(self, chosen: Iterable[int]) -> list[int]:
        # A set of the user has no order that a replay would repeat.
        try:
            return sorted(set(chosen))
        except TypeError:
            raise StreamsError(
                f"the partitioner of {self._node} returned {chosen!r}; it returns None, a partition, or partitions"
            ) from None

    def _send(self, topic: str, partition: int | None, record: Record) -> None:
        headers = record.headers
        try:
            key = self._key(topic, record.key, headers)
        except Exception as error:
            self._failures.serialization(self._node, topic, Origin.KEY, record, error)
            return
        try:
            value = self._value(topic, record.value, headers)
        except Exception as error:
            self._failures.serialization(self._node, topic, Origin.VALUE, record, error)
            return
        if partition is None and key is not None:
            partition = self._place(topic, key)
        self._collector.outputs.append((topic, partition, key, value, record.timestamp, headers))
