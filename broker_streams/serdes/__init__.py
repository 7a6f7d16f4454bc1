"""Keys and values as bytes, in the formats of Kafka's serializers.

primitives   STRING, LONG, INTEGER, ...       json_values   JSON         delimited   columns as text
windowed     keys in windows                  lists         lists of an inner serde
names        serdes by the name in a plan, and by Kafka's class names
schemas      Avro, JSON Schema and Protobuf with a schema registry

None stays None in both directions, and is a tombstone in a topic.
"""

from __future__ import annotations

from typing import Any, Protocol

from broker_streams.records import NO_HEADERS, Headers


class SerdeError(ValueError):
    """A value that a format cannot hold, or bytes that are not of the format."""


class SerdeUnavailable(Exception):
    """A schema cannot be asked for now. The record is not at fault, so no handler of errors may skip it."""


class Serde(Protocol):
    """`name` stands in plans and descriptions: it is unique among all serdes with the same behaviour.

    Both raise SerdeError; the text names the topic, the value and what the format allows.
    """

    @property
    def name(self) -> str: ...

    def serialize(self, topic: str, value: Any, headers: Headers = NO_HEADERS) -> bytes | None: ...

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = NO_HEADERS) -> Any: ...


def shown(value: Any) -> str:
    """A value for a message, at most 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
