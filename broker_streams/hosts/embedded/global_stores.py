"""Global stores of an instance: copies of whole topics, which every task may read.

Those that are persistent are on disk, in the directory `global` beside those of the tasks: a start reads on from the
offsets in the stamp of its file. The others begin empty, and read their topics from the beginning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from broker_cy.admin import AdminClient
from broker_cy.admin.fetched import Chunk
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.reader import Reader
from broker_cy.admin.records import Start
from broker_streams.hosts.embedded.restoring import UNKNOWN_ID
from broker_streams.hosts.embedded.states import GLOBAL, States
from broker_streams.kernel.build import build_global
from broker_streams.kernel.errors import StreamsError
from broker_streams.kernel.stores.maps import in_memory
from broker_streams.plan.topology import ProcessorNode, Source, Topology
from broker_streams.state.stamp import Log, Place

if TYPE_CHECKING:
    from broker_streams.state.task_state import TaskState


class GlobalStores:
    """`fill` comes before any task begins, `follow` goes on beside them. Both change stores under `turn`, the lock of
    the tasks. `stores` are empty before `fill`.
    """

    def __init__(
        self,
        client: AdminClient,
        topology: Topology,
        states: States,
        isolation: Isolation,
        now_ms: Callable[[], int],
        turn: asyncio.Lock,
    ) -> None:
        self._client, self._topology, self._states, self._isolation = client, topology, states, isolation
        self._now_ms, self._turn = now_ms, turn
        self._stores_of = dict(_stores_of(topology))
        self.stores: dict[str, Any] = {}
        self._task: Any = None
        self._state: TaskState | None = None
        self._ids: dict[str, str] = {}
        self._positions: dict[TopicPartition, int] = {}
        # Records that were read.
        self.read = 0

    def __bool__(self) -> bool:
        """Whether the topology has global stores."""
        return bool(self._topology.global_nodes)

    async def fill(self, ends: Mapping[TopicPartition, int] | None = None, now_ms: int | None = None) -> None:
        """Read the topics to `ends`, or to the ends that they have now. Each further call reads on. `now_ms`: the time
        that processors see. Raises ClientError, StreamsError.
        """
        if not self:
            return
        is_first = self._task is None
        if is_first or ends is None:
            logs = await self._logs()
            if is_first:
                self._open(logs)
            ends = {key: log.end for key, log in logs.items()} if ends is None else ends
        starts = {key: self._positions.get(key, 0) for key in ends}
        wanted = {key: end for key, end in ends.items() if starts[key] < end}
        if wanted:
            starts = {key: starts[key] for key in wanted}
            async with self._client.records.reader(starts, ends=wanted, isolation=self._isolation) as reader:
                await self._take(reader, now_ms)
        if self._state is not None and is_first:
            self._state.restored(self._places(), is_last=True)
            await self._write()

    async def follow(self) -> None:
        """Read on for ever. Raises ClientError, StreamsError."""
        async with self._client.records.reader(self._positions, isolation=self._isolation) as reader:
            await self._take(reader, None)

    def close(self, *, sync: bool = False, discard: bool = False) -> None:
        """Later calls do nothing. `sync`: the file outlives a power loss. `discard`: nothing is written, because a call
        of `fill` has failed; the next one begins with what the file has.
        """
        task, self._task = self._task, None
        if task is not None:
            with suppress(StreamsError):
                task.close()
        self._states.close(GLOBAL, sync=sync, discard=discard)
        self._state, self._positions = None, {}

    async def _logs(self) -> dict[TopicPartition, Log]:
        described = (await self._client.topics.describe(set(self._stores_of))).whole()
        keys = [
            TopicPartition(name, number) for name, each in described.items() for number in range(len(each.partitions))
        ]
        self._ids = {name: str(each.topic_id) for name, each in described.items() if str(each.topic_id) != UNKNOWN_ID}
        spans = await self._client.records.spans(keys, Start.earliest(), isolation=self._isolation)
        return {key: Log(span.earliest, span.end, self._ids.get(key.topic, "")) for key, span in spans.items()}

    def _open(self, logs: Mapping[TopicPartition, Log]) -> None:
        """Make the stores, and find out where their topics are read on. Raises StreamsError."""
        used = set(self._stores_of.values())
        # Their topic is their changelog.
        stores = [replace(each, logging=True) for each in self._topology.stores if each.name in used]
        state = self._state = self._states.open_stores(GLOBAL, stores)
        places = {}
        if state is not None:
            state.fit({self._name(key): log for key, log in logs.items()})
            self._states.report(GLOBAL, state)
            places = state.places
        self._task = build_global(
            self._topology, self._states.settings.task, in_memory if state is None else state.open_maps
        )
        self.stores.update(self._task.stores)
        for key, log in logs.items():
            place = places.get(self._name(key))
            self._positions[key] = log.earliest if place is None else place.offset

    def _name(self, key: TopicPartition) -> str:
        return f"{self._stores_of[key.topic]}/{key.partition}"

    def _places(self) -> dict[str, Place]:
        return {self._name(key): Place(at, self._ids.get(key.topic, "")) for key, at in self._positions.items()}

    async def _take(self, reader: Reader, now_ms: int | None) -> None:
        async for chunk in reader:
            async with self._turn:
                self._process(chunk, now_ms)
            if self._state is not None:
                self._state.restored(self._places())
                await self._write()

    def _process(self, chunk: Chunk, now_ms: int | None) -> None:
        key, task = chunk.partition, self._task
        if chunk.damage:
            raise StreamsError(f"{key} cannot be read: {'; '.join(chunk.damage)}")
        # The task has one queue for all partitions of a topic: each record has its turn at once.
        for record in chunk.records:
            task.add(key.topic, 0, [record])
            task.run(self._now_ms() if now_ms is None else now_ms)
        self.read += len(chunk.records)
        self._positions[key] = chunk.next_offset

    async def _write(self) -> None:
        """Carry out the writes of the file that are due, between the steps of the tasks."""
        while self._state is not None and self._state.step():
            await asyncio.sleep(0)


def _stores_of(topology: Topology) -> Iterator[tuple[str, str]]:
    """The topics of global stores, each with its store."""
    nodes = [each for each in topology.nodes if each.name in topology.global_nodes]
    for source in nodes:
        for node in nodes:
            if isinstance(source, Source) and isinstance(node, ProcessorNode) and source.name in node.parents:
                for topic in source.topics:
                    for store in node.stores:
                        yield topic, store
