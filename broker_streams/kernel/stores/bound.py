"""A store's serdes, bound to the topic that their texts and schemas name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_streams.kernel.processor import TaskState
from broker_streams.kernel.stores.keys import pack_long, unpack_long
from broker_streams.records import Headers, Record, ValueAndTimestamp
from broker_streams.serdes import Serde

# A change for the changelog: store, key, value or None, timestamp, headers.
Changed = Callable[[str, bytes, bytes | None, int, Headers], None]
Listener = Callable[[Record], None]


class Bound:
    """Keys and values of one store as bytes. The headers are those of the record that is processed now."""

    __slots__ = (
        "_deserialize_key",
        "_deserialize_value",
        "_serialize_key",
        "_serialize_value",
        "_task",
        "_topic",
        "store",
    )

    def __init__(self, store: str, topic: str, key_serde: Serde, value_serde: Serde, task: TaskState) -> None:
        self.store = store
        self._topic = topic
        self._task = task
        self._serialize_key = key_serde.serialize
        self._serialize_value = value_serde.serialize
        self._deserialize_key = key_serde.deserialize
        self._deserialize_value = value_serde.deserialize

    def key(self, key: Any) -> bytes:
        """Raises ValueError: the key is None, or is no bytes in its serde."""
        if key is None:
            raise ValueError(f"a key of store {self.store} is None; each row has a key")
        data = self._serialize_key(self._topic, key, self._task.headers)
        if data is None:
            raise ValueError(f"the key {key!r} of store {self.store} is serialized to None; each row has a key")
        return data

    def bound_key(self, key: Any) -> bytes | None:
        """The bound of a range; None: no bound."""
        return None if key is None else self.key(key)

    def key_of(self, data: bytes) -> Any:
        return self._deserialize_key(self._topic, data, self._task.headers)

    def value(self, value: Any) -> bytes | None:
        return None if value is None else self._serialize_value(self._topic, value, self._task.headers)

    def value_of(self, data: bytes | None) -> Any:
        return None if data is None else self._deserialize_value(self._topic, data, self._task.headers)


class TimestampedBound(Bound):
    """Values as ValueAndTimestamp: the timestamp as int64, then the value (KIP-258)."""

    __slots__ = ()

    def value(self, value: Any) -> bytes | None:
        if value is None or value[0] is None:
            return None
        data = self._serialize_value(self._topic, value[0], self._task.headers)
        return None if data is None else pack_long(value[1]) + data

    def value_of(self, data: bytes | None) -> Any:
        if data is None:
            return None
        value = self._deserialize_value(self._topic, data[8:], self._task.headers)
        return None if value is None else ValueAndTimestamp(value, unpack_long(data)[0])


def to_timestamped(value: bytes | None, timestamp: int) -> bytes | None:
    """A changelog value as a value of a timestamped store."""
    return None if value is None else pack_long(timestamp) + value
