"""Counting records by reading them: offsets alone do not show how many compaction left, or how many are markers."""

from __future__ import annotations

from collections.abc import Mapping

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.errors import ClientError


class RecordCount:
    """Counts the records in `spans` (start and end of each partition). Its numbers may be read while it runs."""

    def __init__(self, client: AdminClient, spans: Mapping[TopicPartition, tuple[int, int]]) -> None:
        self._client = client
        self._starts = {key: start for key, (start, _) in spans.items()}
        self._ends = {key: end for key, (_, end) in spans.items()}
        self._positions = dict(self._starts)
        self.records = 0
        self.bytes_read = 0
        self.error = ""
        self.is_done = False

    @property
    def partitions(self) -> int:
        return len(self._starts)

    @property
    def offsets_total(self) -> int:
        return sum(self._ends[key] - start for key, start in self._starts.items())

    @property
    def offsets_done(self) -> int:
        return sum(at - self._starts[key] for key, at in self._positions.items())

    async def run(self) -> None:
        """Read to the end; if that fails, `error` says why."""
        try:
            async with self._client.records.reader(self._starts, ends=self._ends) as reader:
                async for chunk in reader:
                    self.records += len(chunk.records)
                    self.bytes_read += chunk.size_bytes
                    self._positions[chunk.partition] = min(chunk.next_offset, self._ends[chunk.partition])
        except ClientError as error:
            self.error = str(error)
        else:
            self.is_done = True
