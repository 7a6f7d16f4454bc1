"""The state of a task from its changelog topics."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from broker_cy.admin import AdminClient
from broker_cy.admin.fetched import Chunk, RowForm
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.records import Start
from broker_streams.hosts.settings import HostSettings
from broker_streams.kernel.errors import StreamsError
from broker_streams.plan.topology import Subtopology, Topology
from broker_streams.records import Headers
from broker_streams.state.stamp import DELETIONS_MS, Log, Place

if TYPE_CHECKING:
    from broker_streams.state.task_state import TaskState

# The id of a topic of a broker that knows none.
UNKNOWN_ID: Final = "00000000-0000-0000-0000-000000000000"


class Restorable(Protocol):
    """A store of a task."""

    def restore(self, key: bytes, value: bytes | None, timestamp: int, headers: Headers = ()) -> None: ...


@runtime_checkable
class RowStore(Protocol):
    """A store that needs only the last row of each key of its changelog."""

    @property
    def restores_timestamps(self) -> bool: ...

    def restore_rows(self, rows: dict[bytes, bytes | None]) -> None: ...


def _form_of(store: Restorable | RowStore) -> RowForm | None:
    """How the changelog of a store is read; None: record by record."""
    if not isinstance(store, RowStore):
        return None
    return RowForm.TIMESTAMPED if store.restores_timestamps else RowForm.PLAIN


def _restore(store: Any, chunk: Chunk) -> int:
    """Give a chunk of the changelog to a store; return the number of its records.

    Raises StreamsError: it is damaged.
    """
    if chunk.damage:
        raise StreamsError(f"changelog {chunk.partition} cannot be read: {'; '.join(chunk.damage)}")
    if chunk.rows is not None:
        store.restore_rows(chunk.rows)
        return chunk.row_records
    for record in chunk.records:
        if record.key is not None:
            store.restore(record.key, record.value, record.timestamp, tuple(record.headers))
    return len(chunk.records)


class Restorer:
    """Brings the stores of one task up to the ends of their changelogs.

    `changelogs` are the partitions by store. Only committed records count: those of an aborted transaction are no
    state. `begin` says where the stores are; without a place, a store begins at the start of its log.
    """

    def __init__(self, client: AdminClient, changelogs: Mapping[str, TopicPartition]) -> None:
        self._client = client
        self._names = {key: name for name, key in changelogs.items()}
        self._stores: dict[TopicPartition, Restorable] = {}
        self._state: TaskState | None = None
        self._ids: dict[str, str] = {}
        # The next offset of each changelog partition; without an entry, it begins at the start of the log.
        self.positions: dict[TopicPartition, int] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.restored = 0

    @property
    def names(self) -> Mapping[TopicPartition, str]:
        """The stores by changelog."""
        return self._names

    @property
    def partitions(self) -> Collection[TopicPartition]:
        """The changelogs."""
        return self._names.keys()

    def begin(self, stores: Mapping[str, Restorable], state: TaskState | None) -> None:
        """Restore these stores; `state` has some of their rows already."""
        self._stores = {key: stores[name] for key, name in self._names.items()}
        self._state = state
        places = {} if state is None else state.places
        self.positions = {key: places[name].offset for key, name in self._names.items() if name in places}

    async def logs(self, upto: Mapping[TopicPartition, int], deletions_ms: Mapping[str, int]) -> dict[str, Log]:
        """The changelogs as they are now, by store: state ends at `upto`, where that has the partition. Raises
        ClientError.
        """
        if not self._names:
            return {}
        topics = (await self._client.topics.describe({key.topic for key in self._names})).whole()
        self._ids = {name: str(each.topic_id) for name, each in topics.items() if str(each.topic_id) != UNKNOWN_ID}
        spans = await self._client.records.spans(self._names, Start.earliest())
        found = {}
        for key, span in spans.items():
            end = min(span.end, upto.get(key, span.end))
            name = self._names[key]
            found[name] = Log(span.earliest, end, self._ids.get(key.topic, ""), deletions_ms.get(name, DELETIONS_MS))
        return found

    async def catch_up(self, upto: Mapping[TopicPartition, int] | None = None, *, to_the_end: bool = False) -> int:
        """Read to the ends that the changelogs have now, at most to `upto`; return the number of records. With
        `to_the_end`, open transactions are waited for: their end is decided, but may not be written yet. Raises
        ClientError, StreamsError.
        """
        if not self._stores:
            return 0
        isolation = Isolation.READ_UNCOMMITTED if to_the_end else Isolation.READ_COMMITTED
        spans = await self._client.records.spans(self._stores, Start.earliest(), isolation=isolation)
        starts, ends = {}, {}
        for key, span in spans.items():
            # Compaction and retention may have removed records that a standby has not read.
            at = max(self.positions.get(key, span.earliest), span.earliest)
            end = min(span.end, (upto or {}).get(key, span.end))
            self.positions[key], self.ends[key] = at, end
            if at < end:
                starts[key], ends[key] = at, end
        count = 0
        if starts:
            forms = {key: form for key in starts if (form := _form_of(self._stores[key])) is not None}
            async with self._client.records.reader(
                starts, ends=ends, isolation=Isolation.READ_COMMITTED, forms=forms
            ) as reader:
                async for chunk in reader:
                    records = _restore(self._stores[chunk.partition], chunk)
                    count += records
                    self.restored += records
                    self.positions[chunk.partition] = chunk.next_offset
                    await self._note()
        if to_the_end:
            await self._note(is_last=True)
        elif self._state is not None:
            self._state.merge_runs()
            await self._write()
        return count

    async def _note(self, *, is_last: bool = False) -> None:
        """Let the file have what was restored, and the other tasks and the heartbeats their turn."""
        await asyncio.sleep(0)
        if self._state is not None:
            self._state.restored(self._places(self.positions), is_last=is_last)
            await self._write()

    async def _write(self) -> None:
        while self._state is not None and self._state.step():
            await asyncio.sleep(0)

    def _places(self, offsets: Mapping[TopicPartition, int]) -> dict[str, Place]:
        ids, names = self._ids, self._names
        return {names[key]: Place(at, ids.get(key.topic, "")) for key, at in offsets.items() if key in names}

    def seal(self) -> None:
        """The task was flushed for a commit: its stores have the rows of it, and no others."""
        if self._state is not None:
            self._state.seal()

    def finish(self) -> None:
        """Carry out the write of the file that a commit has begun. Raises StreamsError."""
        if self._state is not None:
            self._state.finish()

    def committed(self, ends: Mapping[TopicPartition, int]) -> None:
        """The task's commit reached these offsets of its changelogs. A write of the file that is due begins;
        `finish`, or the parts of TaskState.step, carry it out.
        """
        theirs = {key: at for key, at in ends.items() if key in self._names}
        self.positions |= theirs
        if self._state is not None:
            self._state.committed(self._places(theirs))

    @property
    def missing(self) -> int:
        """Records between the positions and the ends of the last look."""
        return sum(max(0, end - self.positions.get(key, 0)) for key, end in self.ends.items())


def changelog_partitions(
    topology: Topology, part: Subtopology, partition: int, application_id: str
) -> dict[str, TopicPartition]:
    """The changelog partition of each store of a task that has one."""
    found = {}
    for store in part.stores:
        topic = topology.changelog(store, application_id)
        if topic is not None:
            found[store.name] = TopicPartition(topic, partition)
    return found


def deletions_ms(part: Subtopology, settings: HostSettings) -> dict[str, int]:
    """The time for which the changelog of each store remembers deletions (delete.retention.ms)."""
    found = {}
    for store in part.stores:
        config: Mapping[str, Any] = {**settings.topic_config, **store.topic_config}
        found[store.name] = int(config.get("delete.retention.ms", DELETIONS_MS))
    return found
