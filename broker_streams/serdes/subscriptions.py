"""The records that both tables of a foreign-key join write to the topics between them (KIP-213, KIP-955).

Numbers are big-endian. The hash is that of the row of the left table (Murmur3, 16 bytes); its first bit says whether it
is left out, because the row was deleted.

    subscription   1 bit: no hash, 7 bits: version; instruction 1 byte; hash; key of the left row;
                   from version 1 on: partition of the left row as int32
    response       1 bit: no hash, 7 bits: version 0; hash; row of the right table, or nothing

Topics of Kafka's names are given to the serde of the left key: that of the subscriptions with -pk.
"""

from __future__ import annotations

import enum
import struct
from typing import Any, Final, NamedTuple

from broker_streams.records import NO_HEADERS, Headers
from broker_streams.serdes import Serde, SerdeError, shown

NO_HASH: Final = 0x80
VERSION: Final = 1
HASH_BYTES: Final = 16
_INT: Final = struct.Struct(">i")


class Instruction(enum.IntEnum):
    """The work of the right side on a subscription."""

    DELETE = 0
    DELETE_AND_ANSWER = 1
    # With None if the right table has no row.
    ANSWER_ALWAYS = 2
    ANSWER_IF_FOUND = 3


class Subscription(NamedTuple):
    """A row of the left table asks for a row of the right one. `partition` None: version 0 did not write it."""

    hash: bytes | None
    instruction: Instruction
    primary_key: Any
    partition: int | None
    version: int = VERSION


class Response(NamedTuple):
    """The row of the right table. `partition` is that of the asking row; it is not written."""

    hash: bytes | None
    foreign_value: Any
    partition: int | None = None


class SubscriptionSerde:
    """`topic` and `store` are the plain names of the topic of subscriptions, and of the store that keeps them.

    `inner` is the serde of left keys; None: the application's default, which a task sets.
    """

    # The left key is a key of its table, though it is part of a value here.
    has_key_inside: Final = True

    def __init__(self, inner: Serde | None, topic: str, store: str) -> None:
        self.inner = inner
        self.topic = topic
        self.store = store
        # Two names at most: of the topic, and of the changelog of the store.
        self._topics: dict[str, str] = {}

    @property
    def name(self) -> str:
        return f"SUBSCRIPTION({self.topic},{self.store},{'' if self.inner is None else self.inner.name})"

    def with_defaults(self, key_serde: Serde | None, value_serde: Serde | None) -> SubscriptionSerde:
        return SubscriptionSerde(self.inner or key_serde, self.topic, self.store)

    def _inner(self) -> Serde:
        if self.inner is None:
            raise SerdeError("keys of the left table have no serde; give one, or set default.key.serde")
        return self.inner

    def _key_topic(self, topic: str) -> str:
        """APPLICATION-TOPIC-pk, from the name of the topic or of the store's changelog."""
        found = self._topics.get(topic)
        if found is None:
            application = topic.removesuffix(f"-{self.topic}").removesuffix(f"-{self.store}-changelog")
            found = self._topics[topic] = f"{application}-{self.topic}-pk"
        return found

    def serialize(self, topic: str, value: Any, headers: Headers = NO_HEADERS) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, Subscription):
            raise SerdeError(f"{topic}: {shown(value)} is no subscription")
        key = self._inner().serialize(self._key_topic(topic), value.primary_key, headers)
        if key is None:
            raise SerdeError(f"{topic}: the key of a subscription is None")
        first = value.version if value.hash is not None else value.version | NO_HASH
        data = bytes((first, value.instruction)) + (value.hash or b"") + key
        return data if value.partition is None else data + _INT.pack(value.partition)

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = NO_HEADERS) -> Any:
        if data is None:
            return None
        version, found, at = _hash(topic, data, 1)
        if version > VERSION:
            raise SerdeError(f"{topic}: a subscription has version {version}; 0 and {VERSION} are known")
        end = len(data) - (_INT.size if version > 0 else 0)
        if at > end:
            raise SerdeError(f"{topic}: {len(data)} bytes are no subscription")
        try:
            instruction = Instruction(data[1])
        except ValueError:
            raise SerdeError(f"{topic}: a subscription has instruction {data[1]}; 0 to 3 are known") from None
        key = self._inner().deserialize(self._key_topic(topic), data[at:end], headers)
        partition = _INT.unpack_from(data, end)[0] if version > 0 else None
        return Subscription(found, instruction, key, partition, version)


class ResponseSerde:
    """`inner` is the serde of right rows; None: the application's default, which a task sets."""

    def __init__(self, inner: Serde | None) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        return f"RESPONSE({'' if self.inner is None else self.inner.name})"

    def with_defaults(self, key_serde: Serde | None, value_serde: Serde | None) -> ResponseSerde:
        return ResponseSerde(self.inner or value_serde)

    def _inner(self) -> Serde:
        if self.inner is None:
            raise SerdeError("rows of the right table have no serde; give one, or set default.value.serde")
        return self.inner

    def partitions_of(self, topic: str, key: Any, value: Response, partitions: int) -> int | None:
        """An answer goes back to the partition of the row that asked; None: that of the key."""
        return value.partition

    def serialize(self, topic: str, value: Any, headers: Headers = NO_HEADERS) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, Response):
            raise SerdeError(f"{topic}: {shown(value)} is no response")
        row = b"" if value.foreign_value is None else self._inner().serialize(topic, value.foreign_value, headers)
        first = b"\x80" if value.hash is None else b"\x00"
        return first + (value.hash or b"") + (row or b"")

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = NO_HEADERS) -> Any:
        if data is None:
            return None
        version, found, at = _hash(topic, data, 0)
        if version > 0:
            raise SerdeError(f"{topic}: a response has version {version}; only 0 is known")
        row = self._inner().deserialize(topic, data[at:], headers) if len(data) > at else None
        return Response(found, row)


def _hash(topic: str, data: bytes, skipped: int) -> tuple[int, bytes | None, int]:
    """The version, the hash behind `skipped` bytes, and the place after it."""
    at = 1 + skipped
    if len(data) < at:
        raise SerdeError(f"{topic}: {len(data)} bytes are no record of a foreign-key join")
    if data[0] & NO_HASH:
        return data[0] ^ NO_HASH, None, at
    end = at + HASH_BYTES
    if len(data) < end:
        raise SerdeError(f"{topic}: {len(data)} bytes are too few for a hash")
    return data[0], data[at:end], end
