"""The state of a task from its changelog topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.records import Start
from broker_streams.records import Headers


class Restorable(Protocol):
    """A store of a task."""

    def restore(self, key: bytes, value: bytes | None, timestamp: int, headers: Headers = ()) -> None: ...


class Restorer:
    """Brings the stores of one task up to the ends of their changelogs. `stores` are by changelog partition.

    Only committed records count: those of an aborted transaction are no state.
    """

    def __init__(self, client: AdminClient, stores: Mapping[TopicPartition, Restorable]) -> None:
        self._client = client
        self._stores = dict(stores)
        # The next offset of each changelog partition; without an entry, it begins at the start of the log.
        self.positions: dict[TopicPartition, int] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.restored = 0

    async def catch_up(self, upto: Mapping[TopicPartition, int] | None = None) -> int:
        """Read to the ends that the changelogs have now, at most to `upto`; return the number of records. Raises
        ClientError.
        """
        if not self._stores:
            return 0
        spans = await self._client.records.spans(self._stores, Start.earliest(), isolation=Isolation.READ_COMMITTED)
        starts, ends = {}, {}
        for key, span in spans.items():
            # Compaction and retention may have removed records that a standby has not read.
            at = max(self.positions.get(key, span.earliest), span.earliest)
            end = min(span.end, (upto or {}).get(key, span.end))
            self.positions[key], self.ends[key] = at, span.end
            if at < end:
                starts[key], ends[key] = at, end
        count = 0
        if starts:
            async with self._client.records.reader(starts, ends=ends, isolation=Isolation.READ_COMMITTED) as reader:
                async for chunk in reader:
                    restore = self._stores[chunk.partition].restore
                    for record in chunk.records:
                        if record.key is not None:
                            restore(record.key, record.value, record.timestamp, tuple(record.headers))
                    count += len(chunk.records)
                    self.restored += len(chunk.records)
                    self.positions[chunk.partition] = chunk.next_offset
        return count

    def written(self, key: TopicPartition, next_offset: int) -> None:
        """Note that the task itself wrote its changelog up to here."""
        self.positions[key] = next_offset

    @property
    def missing(self) -> int:
        """Records between the positions and the ends of the last look."""
        return sum(max(0, end - self.positions.get(key, 0)) for key, end in self.ends.items())


def changelog_partitions(topology: Any, part: Any, partition: int, application_id: str) -> dict[str, TopicPartition]:
    """The changelog partition of each store of a task that has one."""
    found = {}
    for store in part.stores:
        topic = topology.changelog(store, application_id)
        if topic is not None:
            found[store.name] = TopicPartition(topic, partition)
    return found
