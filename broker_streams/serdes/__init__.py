"""Keys and values as bytes (KIP-82 headers are passed along)."""

from __future__ import annotations

from typing import Any, Protocol

from broker_streams.records import NO_HEADERS, Headers


class Serde(Protocol):
    """`name` stands in plans and descriptions. None stays None in both directions, unless the format says otherwise.

    Both raise ValueError for what the format does not allow; the text names the topic, the value and the format.
    """

    name: str

    def serialize(self, topic: str, value: Any, headers: Headers = NO_HEADERS) -> bytes | None: ...

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = NO_HEADERS) -> Any: ...
