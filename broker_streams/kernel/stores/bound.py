"""A store's serdes, bound to the topic that their texts and schemas name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_streams.kernel.processor import TaskState
from broker_streams.kernel.stores.keys import pack_long
from broker_streams.kernel.stores.row_formats import KeyWriter, Reader, TimestampedReader, TimestampedWriter, Writer
from broker_streams.records import Headers, Record
from broker_streams.serdes import Serde

# A change for the changelog: store, key, value or None, timestamp, headers.
Changed = Callable[[str, bytes, bytes | None, int, Headers], None]
Listener = Callable[[Record], None]
Write = Callable[[Any], "bytes | None"]
Read = Callable[["bytes | None"], Any]
# Makes a named tuple from a tuple in half the time of its class.
new_tuple: Any = tuple.__new__


class Bound:
    """Keys and values of one store as bytes. The headers are those of the record that is processed now."""

    def __init__(self, store: str, topic: str, key_serde: Serde, value_serde: Serde, task: TaskState) -> None:
        self.store = store
        # Raises ValueError: the key is None, or is no bytes in its serde.
        self.key = KeyWriter(store, topic, key_serde, task)
        self.key_of = Reader(topic, key_serde, task)
        self.value, self.value_of = self._values(topic, value_serde, task)

    def _values(self, topic: str, serde: Serde, task: TaskState) -> tuple[Write, Read]:
        return Writer(topic, serde, task), Reader(topic, serde, task)

    def bound_key(self, key: Any) -> bytes | None:
        """The bound of a range; None: no bound."""
        return None if key is None else self.key(key)


class TimestampedBound(Bound):
    """Values as ValueAndTimestamp: the timestamp as int64, then the value (KIP-258)."""

    def _values(self, topic: str, serde: Serde, task: TaskState) -> tuple[Write, Read]:
        return TimestampedWriter(topic, serde, task), TimestampedReader(topic, serde, task)


def to_timestamped(value: bytes | None, timestamp: int) -> bytes | None:
    """A changelog value as a value of a timestamped store."""
    return None if value is None else pack_long(timestamp) + value
