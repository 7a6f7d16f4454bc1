"""Reads the inputs of the tasks of an instance beside them: at most QUEUED_CHUNKS_MAX chunks wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from broker_cy.admin import AdminClient
from broker_cy.admin.fetched import Chunk
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_streams.registry.ahead import Ahead

# Chunks that were read and not processed.
QUEUED_CHUNKS_MAX: Final = 4


class Reading:
    """`arrived` is called when there is something to `take`. `run` is the present reader, None without one: a chunk
    counts only while the one that it came from runs.
    """

    def __init__(self, client: AdminClient, isolation: Isolation, ahead: Ahead, arrived: Callable[[], None]) -> None:
        self._client, self._isolation, self._ahead, self._arrived = client, isolation, ahead, arrived
        self._chunks: asyncio.Queue[Chunk | Exception] = asyncio.Queue(QUEUED_CHUNKS_MAX)
        self.run: asyncio.Task[None] | None = None

    @property
    def is_empty(self) -> bool:
        return self._chunks.empty()

    def take(self) -> Chunk | Exception:
        """The next chunk, or the error that has ended the reader."""
        return self._chunks.get_nowait()

    def begin(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read from these offsets on."""
        self.run = asyncio.create_task(self._read(positions))

    async def stop(self) -> None:
        """Drop what was not taken: it is read again from the positions."""
        run, self.run = self.run, None
        if run is not None:
            run.cancel()
            await asyncio.gather(run, return_exceptions=True)
        while not self._chunks.empty():
            self._chunks.get_nowait()

    async def _read(self, positions: Mapping[TopicPartition, int]) -> None:
        try:
            async with self._client.records.reader(positions, isolation=self._isolation) as reader:
                async for chunk in reader:
                    # Here and not in a step: a registry that is slow holds up no heartbeat.
                    await self._ahead.load(chunk.partition.topic, chunk.records)
                    await self._chunks.put(chunk)
                    self._arrived()
        except Exception as error:
            # Any of them ends the application: without its reader it would wait for ever.
            await self._chunks.put(error)
            self._arrived()
