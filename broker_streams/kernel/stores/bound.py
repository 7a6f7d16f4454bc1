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
Write = Callable[[Any], "bytes | None"]
Read = Callable[["bytes | None"], Any]
# Makes a named tuple from a tuple in half the time of its class.
new_tuple: Any = tuple.__new__


class Bound:
    """Keys and values of one store as bytes. The headers are those of the record that is processed now.

    The four functions are closures: each record of an aggregate calls three of them.
    """

    def __init__(self, store: str, topic: str, key_serde: Serde, value_serde: Serde, task: TaskState) -> None:
        self.store = store
        # Raises ValueError: the key is None, or is no bytes in its serde.
        self.key = _key_writer(store, topic, key_serde, task)
        self.key_of = _reader(topic, key_serde, task)
        self.value, self.value_of = self._values(topic, value_serde, task)

    def _values(self, topic: str, serde: Serde, task: TaskState) -> tuple[Write, Read]:
        serialize = serde.serialize

        def value(value: Any) -> bytes | None:
            return None if value is None else serialize(topic, value, task.headers)

        return value, _reader(topic, serde, task)

    def bound_key(self, key: Any) -> bytes | None:
        """The bound of a range; None: no bound."""
        return None if key is None else self.key(key)


class TimestampedBound(Bound):
    """Values as ValueAndTimestamp: the timestamp as int64, then the value (KIP-258)."""

    def _values(self, topic: str, serde: Serde, task: TaskState) -> tuple[Write, Read]:
        serialize, deserialize = serde.serialize, serde.deserialize

        def value(value: Any) -> bytes | None:
            if value is None or value[0] is None:
                return None
            data = serialize(topic, value[0], task.headers)
            return None if data is None else pack_long(value[1]) + data

        def value_of(data: bytes | None) -> Any:
            if data is None:
                return None
            value = deserialize(topic, data[8:], task.headers)
            return None if value is None else new_tuple(ValueAndTimestamp, (value, unpack_long(data)[0]))

        return value, value_of


def _key_writer(store: str, topic: str, serde: Serde, task: TaskState) -> Callable[[Any], bytes]:
    serialize = serde.serialize

    def key(key: Any) -> bytes:
        if key is None:
            raise ValueError(f"a key of store {store} is None; each row has a key")
        data = serialize(topic, key, task.headers)
        if data is None:
            raise ValueError(f"the key {key!r} of store {store} is serialized to None; each row has a key")
        return data

    return key


def _reader(topic: str, serde: Serde, task: TaskState) -> Read:
    deserialize = serde.deserialize

    def value_of(data: bytes | None) -> Any:
        return None if data is None else deserialize(topic, data, task.headers)

    return value_of


def to_timestamped(value: bytes | None, timestamp: int) -> bytes | None:
    """A changelog value as a value of a timestamped store."""
    return None if value is None else pack_long(timestamp) + value
