"""Consuming as a member of a classic consumer group: the host of `client.consumer_member` on asyncio.

One task talks to the coordinator over a connection of its own, so that no heartbeat waits behind a Fetch; a Reader
fetches the partitions of the member. The member joins again only between two chunks, as Kafka's consumer does in
`poll`: who needs longer than the rebalance timeout for a chunk loses its partitions.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from typing import Final

from broker_cy.admin.caller import Caller
from broker_cy.admin.coordinator_link import CoordinatorLink
from broker_cy.admin.coordinators import Coordinators
from broker_cy.admin.fetched import Chunk
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation, OffsetCalls
from broker_cy.admin.records import RecordCalls, Start
from broker_cy.client.consumer_member import ConsumerMember, ConsumerProtocol, topics_of
from broker_cy.client.consumer_protocol import RANGE, Partition
from broker_cy.client.errors import ClientError, Failure, Problem, refused
from broker_cy.client.group_member import Assign, MemberSettings, Revoke, Send, State

# How often offsets are committed: Kafka's auto.commit.interval.ms.
COMMIT_S: Final = 5.0
# How often the leader of a group looks for new partitions; Kafka's consumer does it every 5 minutes.
PARTITIONS_S: Final = 30.0
# A chunk that waits for the caller; the Reader holds a few more.
QUEUED_CHUNKS_MAX = 1


class GroupConsumer:
    """`async with client.groups.consumer(...) as consumer: async for chunk in consumer: ...`.

    A chunk counts as processed when the next one is requested; `mark` moves the position within it. The positions are
    committed every `commit_s`, before partitions are revoked, and at the end; None: only by `commit`. Each record is
    delivered at least once. ClientError ends the iteration.
    """

    def __init__(
        self,
        caller: Caller,
        coordinators: Coordinators,
        settings: MemberSettings,
        topics: Sequence[str],
        *,
        assignors: Sequence[str] = (RANGE,),
        start: Start | None = None,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        commit_s: float | None = COMMIT_S,
    ) -> None:
        """`start`: where to begin in partitions without a committed offset; the default is the earliest offset."""
        if not topics:
            raise ClientError(Failure.INVALID, "a member needs at least one topic", what=f"group {settings.group_id}")
        try:
            protocol = ConsumerProtocol(topics, assignors)
        except ValueError as error:
            raise ClientError(Failure.INVALID, str(error), what=f"group {settings.group_id}") from None
        self.member = ConsumerMember(settings, protocol)
        # The next offset of each partition that the caller has not processed.
        self.positions: dict[TopicPartition, int] = {}
        self._caller = caller
        self._link = CoordinatorLink(caller, coordinators, self.member)
        self._records = RecordCalls(caller, OffsetCalls(caller))
        self._topics = tuple(topics)
        self._start = start or Start.earliest()
        self._isolation, self._commit_s = isolation, commit_s
        self._chunks: asyncio.Queue[tuple[int, Chunk] | ClientError] = asyncio.Queue(QUEUED_CHUNKS_MAX)
        # The chunk that the caller processes, and the positions that are committed.
        self._chunk: Chunk | None = None
        self._committed: dict[TopicPartition, int] = {}
        # The partitions of the running reader. Its number distinguishes its chunks from those of an earlier one.
        self._reading: frozenset[Partition] = frozenset()
        self._reader_number = 0
        self._pump: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        # The number of partitions of each topic that this member distributed as the leader.
        self._distributed: dict[str, int] = {}
        self._commit_due_s = self._partitions_due_s = 0.0

    # ------------------------------------------------------------------------------------------------ the caller's side

    async def __aenter__(self) -> GroupConsumer:
        """Start to join. Raises ClientError if a topic does not exist."""
        for topic in self._topics:
            await self._records.partitions(topic)
        now_s = asyncio.get_running_loop().time()
        self._commit_due_s, self._partitions_due_s = now_s + (self._commit_s or 0.0), now_s + PARTITIONS_S
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        """The partitions of this member now."""
        return frozenset(itertools.starmap(TopicPartition, self.member.owned))

    async def __aiter__(self) -> AsyncIterator[Chunk]:
        while True:
            found = await self._chunks.get()
            if isinstance(found, ClientError):
                raise found
            number, chunk = found
            if number != self._reader_number:
                continue
            self._chunk = chunk
            try:
                yield chunk
                self.mark(chunk.partition, chunk.next_offset)
            finally:
                self._chunk = None
                self._wake.set()

    def mark(self, partition: TopicPartition, next_offset: int) -> None:
        """Note that the records before an offset are processed, for a caller that stops within a chunk."""
        if partition in self.positions:
            self.positions[partition] = next_offset

    async def commit(self) -> None:
        """Commit the positions. Raises ClientError, such as REBALANCE_IN_PROGRESS or UNKNOWN_MEMBER_ID."""
        deadline = self._caller.deadline()
        attempt = 1
        while True:
            changed = {key: at for key, at in self.positions.items() if self._committed.get(key) != at}
            send = self.member.commit(changed)
            if send is None:
                return
            error = await self._link.exchange(send)
            if error is None:
                self._committed.update(changed)
                return
            if not error.retriable or not await deadline.back_off(attempt):
                raise error
            attempt += 1

    async def close(self, *, leave: bool | None = None) -> None:
        """Stop reading, commit, and leave the group. `leave`: by default, a static member stays in its group until its
        session ends, so that it gets its partitions again (KIP-345).
        """
        await _end(self._task)
        self._task = None
        await self._stop_reading()
        with suppress(ClientError):
            if self._commit_s is not None:
                await self.commit()
            if leave if leave is not None else self.member.settings.instance_id is None:
                send = self.member.leave()
                if send is not None:
                    await self._link.exchange(send)
        self._link.close()

    # ------------------------------------------------------------------------------------------------ the group's side

    async def _run(self) -> None:
        try:
            while True:
                self._wake.clear()
                await self._step()
        except ClientError as error:
            await self._stop_reading()
            await self._chunks.put(error)

    async def _step(self) -> None:
        """Carry out one action, or wait for one."""
        member = self.member
        now_s = asyncio.get_running_loop().time()
        if member.state is State.FAILED:
            raise refused(Problem(member.failure), "", "group membership", f"group {member.settings.group_id}")
        if not self._reading <= member.owned:
            await self._stop_reading()
        may_join = self._chunk is None
        action = member.next(now_s, may_join=may_join)
        if isinstance(action, Send):
            await self._link.exchange(action)
        elif isinstance(action, Revoke):
            await self._revoke(action.parts)
        elif isinstance(action, Assign):
            await self._distribute(action)
        elif member.is_located and self._reading != member.owned and may_join:
            await self._begin_reading()
        elif self._commit_s is not None and now_s >= self._commit_due_s:
            self._commit_due_s = now_s + self._commit_s
            with suppress(ClientError):
                await self.commit()
        elif now_s >= self._partitions_due_s:
            self._partitions_due_s = now_s + PARTITIONS_S
            await self._look_for_partitions()
        else:
            due_s = min(self._partitions_due_s, self._commit_due_s if self._commit_s is not None else now_s + COMMIT_S)
            wait_s = min(member.wait_s(now_s, may_join=may_join), max(0.0, due_s - now_s))
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()

    async def _revoke(self, parts: Iterable[Partition]) -> None:
        """Give partitions up, after a commit of their positions."""
        await self._stop_reading()
        if self._commit_s is not None:
            with suppress(ClientError):
                await self.commit()
        self.member.revoked(parts)
        self._keep_owned()

    async def _distribute(self, task: Assign) -> None:
        """Distribute the partitions, as the leader. Topics that do not exist have none."""
        found, _ = await self._caller.metadata.refresh(topics_of(task), self._caller.deadline())
        self._distributed = {name: len(topic.partitions) for name, topic in found.items()}
        self.member.distribute(task, self._distributed)

    async def _look_for_partitions(self) -> None:
        """Join again if the leader of a stable group finds that a topic has other partitions than it distributed."""
        if self.member.state is State.STABLE and self._distributed:
            with suppress(ClientError):
                found, _ = await self._caller.metadata.refresh(list(self._distributed), self._caller.deadline())
                if any(len(topic.partitions) != self._distributed[name] for name, topic in found.items()):
                    self.member.rejoin()

    # ------------------------------------------------------------------------------------------------ reading

    async def _begin_reading(self) -> None:
        """Read the partitions of the member: from their positions, else their committed offsets, else from `start`."""
        await self._stop_reading()
        epoch, owned = self.member.epoch, self.assigned
        wanted = {key: self.positions.get(key, self.member.committed[key]) for key in owned}
        bounds = await self._records.spans(owned, Start.earliest())
        missing = [key for key, at in wanted.items() if not bounds[key].earliest <= at <= bounds[key].end]
        if missing:
            spans = await self._records.spans(missing, self._start, isolation=self._isolation)
            wanted |= {key: span.start for key, span in spans.items()}
        if epoch != self.member.epoch:
            return
        self._committed |= {key: self.member.committed[key] for key in owned - self.positions.keys()}
        self.positions = wanted
        self._reading = self.member.owned
        if owned:
            self._pump = asyncio.create_task(self._read(self._reader_number))

    async def _read(self, number: int) -> None:
        """Pass on the chunks of a reader."""
        try:
            async with self._records.reader(self.positions, isolation=self._isolation) as reader:
                async for chunk in reader:
                    await self._chunks.put((number, chunk))
        except ClientError as error:
            await self._chunks.put(error)

    async def _stop_reading(self) -> None:
        """Stop the reader; its chunks that were not taken are read again from the positions."""
        self._reader_number += 1
        await _end(self._pump)
        self._pump = None
        while not self._chunks.empty():
            self._chunks.get_nowait()
        self._reading = frozenset()
        self._keep_owned()

    def _keep_owned(self) -> None:
        self.positions = {key: at for key, at in self.positions.items() if key in self.member.owned}
        self._committed = {key: at for key, at in self._committed.items() if key in self.member.owned}


async def _end(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
