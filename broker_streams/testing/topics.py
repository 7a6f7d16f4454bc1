"""The topics of a TopologyTestDriver, as a test writes and reads them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from broker_streams.kernel.errors import Output
from broker_streams.records import NO_HEADERS, Headers, KeyValue, Record
from broker_streams.serdes import Serde

Pipe = Callable[[str, bytes | None, bytes | None, int, Headers], None]


class InputTopic:
    """Made by `TopologyTestDriver.create_input_topic`. Raises ValueError: a time would go back."""

    def __init__(
        self, pipe: Pipe, topic: str, key_serde: Serde | None, value_serde: Serde | None, start_ms: int, advance_ms: int
    ) -> None:
        if advance_ms < 0:
            raise ValueError(f"auto_advance_ms is {advance_ms}; at least 0 is allowed")
        if key_serde is None or value_serde is None:
            raise ValueError(f"topic {topic} needs serdes: give key and value, or set default.key.serde and so on")
        self._pipe = pipe
        self._topic = topic
        self._key = key_serde
        self._value = value_serde
        self._time_ms = start_ms
        self._advance_ms = advance_ms

    def advance_time(self, advance_ms: int) -> None:
        """Let the timestamp of the next record without one be later. Raises ValueError: it would be earlier."""
        if advance_ms < 0:
            raise ValueError(f"the advance of a topic is {advance_ms} ms; at least 0 is allowed")
        self._time_ms += advance_ms

    def pipe_input(self, key: Any, value: Any, timestamp: int | None = None, headers: Headers = NO_HEADERS) -> None:
        """Process a record. Raises ValueError: a serde refuses it. StreamsError: the task ended."""
        if timestamp is None:
            timestamp = self._time_ms
            self._time_ms += self._advance_ms
        topic = self._topic
        key_bytes = self._key.serialize(topic, key, headers)
        self._pipe(topic, key_bytes, self._value.serialize(topic, value, headers), timestamp, headers)

    def pipe_value(self, value: Any, timestamp: int | None = None) -> None:
        """Process a record without a key."""
        self.pipe_input(None, value, timestamp)

    def pipe_records(self, records: Iterable[Record]) -> None:
        for each in records:
            self.pipe_input(each.key, each.value, each.timestamp, each.headers)

    def pipe_key_values(
        self, pairs: Iterable[tuple[Any, Any]], start_ms: int | None = None, advance_ms: int = 0
    ) -> None:
        """Process pairs, at `start_ms` and each `advance_ms` later; without a start at the topic's own times."""
        for number, (key, value) in enumerate(pairs):
            self.pipe_input(key, value, None if start_ms is None else start_ms + number * advance_ms)

    def pipe_values(self, values: Iterable[Any], start_ms: int | None = None, advance_ms: int = 0) -> None:
        self.pipe_key_values(((None, value) for value in values), start_ms, advance_ms)


class OutputTopic:
    """Made by `TopologyTestDriver.create_output_topic`. Each record is read once."""

    def __init__(
        self,
        queues: Mapping[str, deque[Output]],
        topic: str,
        key_serde: Serde | None,
        value_serde: Serde | None,
    ) -> None:
        if key_serde is None or value_serde is None:
            raise ValueError(f"topic {topic} needs serdes: give key and value, or set default.key.serde and so on")
        self._queues = queues
        self._topic = topic
        self._key = key_serde
        self._value = value_serde

    def read_record(self) -> Record:
        """Raises LookupError: no record waits."""
        queue = self._queues.get(self._topic)
        if not queue:
            why = "has no more records" if queue is not None else "was never written"
            raise LookupError(f"topic {self._topic} {why}")
        topic, _, key, value, timestamp, headers = queue.popleft()
        key_object = self._key.deserialize(topic, key, headers)
        return Record(key_object, self._value.deserialize(topic, value, headers), timestamp, headers)

    def read_key_value(self) -> KeyValue:
        record = self.read_record()
        return KeyValue(record.key, record.value)

    def read_value(self) -> Any:
        return self.read_record().value

    def read_records(self) -> list[Record]:
        """All records that wait."""
        found = []
        while not self.is_empty():
            found.append(self.read_record())
        return found

    def read_key_values(self) -> list[KeyValue]:
        return [KeyValue(record.key, record.value) for record in self.read_records()]

    def read_values(self) -> list[Any]:
        return [record.value for record in self.read_records()]

    def read_key_values_to_dict(self) -> dict[Any, Any]:
        """The last value of each key. Raises ValueError: a record has no key."""
        found = {}
        for record in self.read_records():
            if record.key is None:
                raise ValueError(f"a record of topic {self._topic} has no key, which a dict needs")
            found[record.key] = record.value
        return found

    def queue_size(self) -> int:
        return len(self._queues.get(self._topic, ()))

    def is_empty(self) -> bool:
        return self.queue_size() == 0
