"""The rows of a table as its topic has them: by key, in memory, and followed as records come.

A row is kept as the bytes of its record and decoded when it is read. Windowed keys are kept by key, then by window.

Bound: VIEW_BYTES_MAX of keys and values of one view; a larger table cannot be read by pull queries, and the error says
so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from broker_cy.admin import AdminClient
from broker_cy.admin.fetched import Chunk
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.reader import Reader
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError
from broker_sql.errors import StatementError

VIEW_BYTES_MAX: Final = 1 << 30
OPEN_S: Final = 30.0
_AGAIN_S: Final = 1.0


class Stored(NamedTuple):
    """A row as its record has it. `headers` are those of the record."""

    key: bytes
    value: bytes
    timestamp: int
    partition: int
    offset: int
    headers: Any


class View:
    """The rows of one topic. `suffix_bytes` of a key are its window: 0, 8 or 16."""

    def __init__(self, client: AdminClient, topic: str, suffix_bytes: int) -> None:
        self._client = client
        self.topic = topic
        self._suffix_bytes = suffix_bytes
        # By the bytes of the key without its window, then by those of the window.
        self._rows: dict[bytes, dict[bytes, Stored]] = {}
        self._size_bytes = 0
        self._positions: dict[TopicPartition, int] = {}
        self._moved = asyncio.Condition()
        self._failure: Exception | None = None
        self._task: asyncio.Task[None] | None = None
        self._loaded: asyncio.Future[None] | None = None
        self.count = 0

    async def ready(self) -> None:
        """Wait until the rows of the topic were read, those up to its end at the first call. Raises ClientError and
        StatementError.
        """
        if self._loaded is None:
            self._loaded = asyncio.ensure_future(self._load())
        if not self._loaded.done() or self._loaded.exception() is not None:
            await asyncio.shield(self._loaded)
        if self._failure is not None:
            raise self._failure

    async def _load(self) -> None:
        partitions = await self._client.records.partitions(self.topic)
        self._positions = (await self._client.offsets.earliest(partitions)).whole()
        self._task = asyncio.create_task(self._follow())
        await self.read_to_end()

    async def read_to_end(self) -> None:
        """Wait until the records that are readable now were taken. Raises ClientError, StatementError, TimeoutError."""
        ends = (await self._client.offsets.latest(self._positions, isolation=Isolation.READ_COMMITTED)).whole()
        async with asyncio.timeout(OPEN_S), self._moved:
            await self._moved.wait_for(
                lambda: self._failure is not None or all(self._positions[key] >= end for key, end in ends.items())
            )
        if self._failure is not None:
            raise self._failure

    async def _follow(self) -> None:
        attempt = 1
        while True:
            before = dict(self._positions)
            try:
                async with Reader(self._client.caller, self._positions, isolation=Isolation.READ_COMMITTED) as reader:
                    async for chunk in reader:
                        self._take(chunk)
                        async with self._moved:
                            self._positions[chunk.partition] = chunk.next_offset
                            self._moved.notify_all()
            except ClientError as error:
                if not error.retriable:
                    await self._fail(error)
                    return
            except StatementError as error:
                await self._fail(error)
                return
            attempt = 1 if self._positions != before else attempt + 1
            await Deadline(_AGAIN_S + 2.0).back_off(attempt)

    async def _fail(self, error: Exception) -> None:
        async with self._moved:
            self._failure = error
            self._rows.clear()
            self._moved.notify_all()

    def _take(self, chunk: Chunk) -> None:
        partition, suffix = chunk.partition.partition, self._suffix_bytes
        rows = self._rows
        for record in chunk.records:
            key = record.key
            if key is None:
                continue
            plain, window = (key[:-suffix], key[-suffix:]) if suffix else (key, b"")
            windows = rows.get(plain)
            if record.value is None:
                if windows is not None and (old := windows.pop(window, None)) is not None:
                    self._size_bytes -= len(key) + len(old.value)
                    self.count -= 1
                    if not windows:
                        del rows[plain]
                continue
            if windows is None:
                windows = rows[plain] = {}
            old = windows.get(window)
            self._size_bytes += len(record.value) + (len(key) if old is None else -len(old.value))
            self.count += old is None
            windows[window] = Stored(key, record.value, record.timestamp, partition, record.offset, record.headers)
        if self._size_bytes > VIEW_BYTES_MAX:
            raise StatementError(
                f"topic {self.topic} has more than {VIEW_BYTES_MAX >> 20:,} MiB of rows, too much for pull queries"
            )

    def of_keys(self, keys: Iterable[bytes]) -> Iterator[Stored]:
        """Yield the rows of keys without their windows, in the order of the keys, then of the windows."""
        for key in keys:
            yield from _in_order(self._rows.get(key, {}))

    def all(self) -> Iterator[Stored]:
        """Yield all rows, in the order of the bytes of their keys."""
        for key in sorted(self._rows):
            yield from _in_order(self._rows.get(key, {}))

    async def close(self) -> None:
        for task in (self._task, self._loaded):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


def _in_order(windows: Mapping[bytes, Stored]) -> list[Stored]:
    if len(windows) < 2:
        return list(windows.values())
    return [windows[each] for each in sorted(windows)]
