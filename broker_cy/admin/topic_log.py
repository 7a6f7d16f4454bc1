"""A topic as the log of a program's state: read to the end, follow, append and read the own record back.

The role of Kafka's KafkaBasedLog: the configurations, offsets and status of Connect, the schemas of a registry, and the
offset syncs of a mirror are such logs. `take` gets every chunk in order, in one task, so that the state behind it is
that of a replay; appending never changes it directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Final
from uuid import UUID

from broker_cy.admin.caller import Caller
from broker_cy.admin.configs import ConfigCalls, ConfigResource, ResourceType
from broker_cy.admin.fetched import Chunk
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation, OffsetCalls
from broker_cy.admin.produce import Producer
from broker_cy.admin.reader import Reader
from broker_cy.admin.topics import NewTopic, TopicCalls
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError, Failure
from broker_cy.core.classes import dataclass
from broker_cy.core.errors import ErrorCode
from broker_cy.core.uuid import ZERO
from broker_cy.wire.records import Record

CLEANUP_POLICY: Final = "cleanup.policy"
COMPACT: Final = "compact"
DELETE: Final = "delete"
# The records that stay in a topic: those of a compacted one by key, otherwise all of them.
_KEPT: Final = {
    COMPACT: {CLEANUP_POLICY: COMPACT},
    DELETE: {CLEANUP_POLICY: DELETE, "retention.ms": "-1", "retention.bytes": "-1"},
}
_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

Take = Callable[[Chunk], None]


class Loss(Enum):
    """The action if records were deleted: a log start offset above 0. A topic whose settings are not those of the
    policy, so that records will be deleted, is always refused.
    """

    REFUSE = "fail"
    WARN = "call `warn`, and continue"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """`create`: how a missing topic is created, with the `policy`; None if that is an error. `policy` is COMPACT, or
    DELETE for a topic without any limit of retention. `warn` gets the text of each warning of `on_loss` WARN.
    """

    create: NewTopic | None = None
    on_loss: Loss = Loss.REFUSE
    isolation: Isolation = Isolation.READ_COMMITTED
    warn: Callable[[str], None] = lambda text: None
    policy: str = COMPACT


class TopicLog:
    """`async with client.topic_log("name", take) as log`: at the start of the block `take` has had all records.

    Each wait has the time limit of a call. Records that arrive are passed on as they are read, at most a few chunks are
    read ahead. While no leader answers, the log tries again from its positions. It ends, and each later call raises, if
    the topic was deleted or recreated, if records were deleted before they were read (see Loss) or are damaged, and if
    `take` raised.
    """

    def __init__(
        self,
        caller: Caller,
        topics: TopicCalls,
        configs: ConfigCalls,
        topic: str,
        take: Take,
        settings: LogSettings,
    ) -> None:
        self._caller, self._topics, self._configs = caller, topics, configs
        self._offsets = OffsetCalls(caller)
        self._producer = Producer(caller)
        self.topic, self._take, self._settings = topic, take, settings
        # The next offset of each partition that `take` has not had.
        self.positions: dict[TopicPartition, int] = {}
        # Why the log has ended.
        self.failure: Exception | None = None
        self._topic_id: UUID = ZERO
        self._task: asyncio.Task[None] | None = None
        self._moved = asyncio.Condition()

    # ------------------------------------------------------------------------------------------------ calls

    async def __aenter__(self) -> TopicLog:
        """Create the topic if that is wanted, check it, and read it to its end. Raises ClientError."""
        await self._open()
        self._task = asyncio.create_task(self._follow())
        try:
            await self.read_to_end()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop following."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def read_to_end(self) -> None:
        """Wait until `take` has had the records that are readable now. Raises ClientError, or the log's failure."""
        deadline = self._caller.deadline()
        self._check()
        ends = (await self._offsets.latest(self.positions, isolation=self._settings.isolation)).whole()
        await self._wait(ends, deadline)

    async def read_to(self, end: int, partition: int = 0) -> None:
        """Wait until `take` has had the records below this offset. Raises ClientError, or the log's failure."""
        self._check()
        await self._wait({TopicPartition(self.topic, partition): end}, self._caller.deadline())

    async def append(self, records: Sequence[Record], partition: int = 0) -> int:
        """Append records, and wait until `take` has had them; returns the offset of the first. Raises ClientError: with
        TIMED_OUT or UNREACHABLE, the records may have been stored.
        """
        key = TopicPartition(self.topic, partition)
        self._check()
        if key not in self.positions:
            allowed = f"0 to {len(self.positions) - 1}"
            raise ClientError(
                Failure.INVALID, f"partition {partition} does not exist; the topic has {allowed}", what=self._what
            )
        deadline = self._caller.deadline()
        appended = await self._producer.send_batch(key, records)
        if appended.base_offset is None:
            raise ClientError(Failure.MALFORMED, "the leader stored the records without an offset", what=self._what)
        await self._wait({key: appended.base_offset + appended.records}, deadline)
        return appended.base_offset

    async def failed(self) -> Exception:
        """Wait until the log ends by itself; returns why."""
        async with self._moved:
            await self._moved.wait_for(lambda: self.failure is not None)
        assert self.failure is not None
        return self.failure

    @property
    def _what(self) -> str:
        return f"topic {self.topic}"

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure

    async def _wait(self, ends: Mapping[TopicPartition, int], deadline: Deadline) -> None:
        def is_over() -> bool:
            return self.failure is not None or all(self.positions[key] >= end for key, end in ends.items())

        try:
            async with asyncio.timeout_at(deadline.at), self._moved:
                await self._moved.wait_for(is_over)
        except TimeoutError:
            late = next(key for key, end in ends.items() if self.positions[key] < end)
            reason = f"read to offset {self.positions[late]} of {ends[late]} within {deadline.timeout_s:g} s"
            raise ClientError(Failure.TIMED_OUT, reason, what=f"partition {late}") from None
        self._check()

    # ------------------------------------------------------------------------------------------------ the topic

    async def _open(self) -> None:
        """Find the topic, and the start of each partition. Raises ClientError."""
        metadata, create = self._caller.metadata, self._settings.create
        found, failed = await metadata.refresh([self.topic], self._caller.deadline())
        if self.topic not in found:
            error = failed[self.topic]
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise error
            if create is None:
                reason = f"the topic does not exist; create it with {self._wanted()}"
                raise ClientError(Failure.REFUSED, reason, code=error.code, what=self._what)
            await self._create(create)
            found, failed = await metadata.refresh([self.topic], self._caller.deadline())
            for error in failed.values():
                raise error
        await self._check_policy()
        self._topic_id = found[self.topic].topic_id
        keys = [TopicPartition(self.topic, each.partition) for each in found[self.topic].partitions]
        self.positions = (await self._offsets.earliest(keys)).whole()
        for key, start in self.positions.items():
            if start > 0:
                self._lost(f"records before offset {start} were deleted", key)

    async def _create(self, wanted: NewTopic) -> None:
        configs = {**wanted.configs, **_KEPT[self._settings.policy]}
        topic = NewTopic(self.topic, wanted.partitions, wanted.replication_factor, configs, wanted.assignments)
        for error in (await self._topics.create([topic])).failed.values():
            # Another process of the same program was quicker.
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise error

    def _wanted(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in _KEPT[self._settings.policy].items())

    async def _check_policy(self) -> None:
        wanted = _KEPT[self._settings.policy]
        resource = ConfigResource(ResourceType.TOPIC, self.topic)
        entries = (await self._configs.describe([resource], names=list(wanted))).whole()[resource]
        found = {each.name: each.value for each in entries}
        for name, value in wanted.items():
            # Kafka takes the largest number for no limit too.
            if found.get(name) not in (value, str((1 << 63) - 1) if value == "-1" else value):
                reason = f"{name} is {found.get(name)}, so that records are deleted; set it to {value}"
                raise ClientError(Failure.REFUSED, reason, what=self._what)

    def _lost(self, reason: str, partition: TopicPartition) -> None:
        what = f"partition {partition}"
        if self._settings.on_loss is Loss.REFUSE:
            raise ClientError(Failure.REFUSED, reason, what=what)
        self._settings.warn(f"{what}: {reason}")

    def _check_id(self) -> None:
        """Raises ClientError if the cached metadata is that of another topic with this name."""
        found = self._caller.metadata.topic_id(self.topic)
        if ZERO not in (found, self._topic_id) and found != self._topic_id:
            reason = "the topic was deleted and created again"
            raise ClientError(Failure.REFUSED, reason, code=ErrorCode.INCONSISTENT_TOPIC_ID, what=self._what)

    # ------------------------------------------------------------------------------------------------ following

    async def _follow(self) -> None:
        attempt = 1
        while True:
            before = dict(self.positions)
            failure: Exception | None = None
            try:
                await self._read()
            except ClientError as error:
                failure = await self._lasting(error)
            except Exception as error:
                failure = error
            if failure is not None:
                async with self._moved:
                    self.failure = failure
                    self._moved.notify_all()
                return
            # The reader has tried for as long as a call may take already.
            attempt = 1 if self.positions != before else attempt + 1
            await Deadline(self._caller.timeout_s + 2.0).back_off(attempt)

    async def _read(self) -> None:
        """Pass chunks on until the reader fails. Raises ClientError, or what `take` raised."""
        async with Reader(self._caller, self.positions, isolation=self._settings.isolation) as reader:
            async for chunk in reader:
                self._check_id()
                if chunk.damage:
                    raise ClientError(Failure.MALFORMED, chunk.damage[0], what=f"partition {chunk.partition}")
                if chunk.lost_from is not None:
                    self._lost(f"records from offset {chunk.lost_from} on were deleted unread", chunk.partition)
                self._take(chunk)
                async with self._moved:
                    self.positions[chunk.partition] = chunk.next_offset
                    self._moved.notify_all()

    async def _lasting(self, error: ClientError) -> Exception | None:
        """Return why the log has ended; None if another attempt may succeed."""
        try:
            _, failed = await self._caller.metadata.refresh([self.topic], self._caller.deadline())
            self._check_id()
        except ClientError as second:
            return None if second.failure in (Failure.UNREACHABLE, Failure.TIMED_OUT) else second
        if (absent := failed.get(self.topic)) is not None and absent.code in _UNKNOWN:
            return ClientError(Failure.REFUSED, "the topic was deleted", code=absent.code, what=self._what)
        return None if error.retriable else error
