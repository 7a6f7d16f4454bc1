"""Serdes and tasks for tests of stores."""

from __future__ import annotations

import struct
from typing import Any

from broker_streams.kernel.processor import TaskState
from broker_streams.kernel.stores.factory import open_stores
from broker_streams.kernel.stores.maps import OpenMaps, in_memory
from broker_streams.plan.stores import Store
from broker_streams.records import NO_HEADERS, Headers, RecordMetadata


class Text:
    name = "text"

    def serialize(self, topic: str, value: Any, headers: Headers = NO_HEADERS) -> bytes | None:
        return None if value is None else str(value).encode()

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = NO_HEADERS) -> Any:
        return None if data is None else data.decode()


class Long:
    name = "long"

    def serialize(self, topic: str, value: Any, headers: Headers = NO_HEADERS) -> bytes | None:
        return None if value is None else struct.pack(">q", value)

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = NO_HEADERS) -> Any:
        return None if data is None else struct.unpack(">q", data)[0]


TEXT, LONG = Text(), Long()
Logged = tuple[str, bytes, bytes | None, int]


class Opened:
    """Stores of one task, and what they wrote to changelogs."""

    def __init__(self, *stores: Store, cache_bytes: int = 0, open_maps: OpenMaps = in_memory) -> None:
        self.task = TaskState("app", (0, 0))
        self.log: list[Logged] = []
        self.log_headers: list[Headers] = []
        self.stores = open_stores(stores, self.task, self._changed, TEXT, LONG, cache_bytes, open_maps)
        self.store = self.stores[stores[0].name]
        self.offset = -1

    def _changed(self, store: str, key: bytes, value: bytes | None, timestamp: int, headers: Headers) -> None:
        self.log_headers.append(headers)
        self.log.append((store, key, value, timestamp))

    def at(self, timestamp: int, headers: Headers = NO_HEADERS) -> None:
        """Begin an input record."""
        self.offset += 1
        self.task.timestamp = timestamp
        self.task.headers = headers
        self.task.metadata = RecordMetadata("input", 0, self.offset)
