"""A copy flow between two clusters, on asyncio."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar, assert_never

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.deadline import Deadline
from broker_cy.client.partitioner import partition_of
from broker_cy.client.transaction import WrongState
from broker_cy.core.errors import ErrorCode
from broker_cy.wire.records import Record
from broker_mirror.copy import actions as machine_of
from broker_mirror.copy.actions import Action, Produce, Stage
from broker_mirror.copy.announcing import Announcing, sync_record
from broker_mirror.copy.fetching import Fetching, FetchSettings
from broker_mirror.copy.flow import CopyMachine
from broker_mirror.copy.loading import Loading
from broker_mirror.copy.partition import CopyPartition, Key
from broker_mirror.copy.positions import ensure_topic
from broker_mirror.copy.producer import BatchProducer, IdempotentBatches, TransactionalBatches
from broker_mirror.copy.sending import FENCED, Sending
from broker_mirror.copy.status import CopyState, CopyStatus, PartitionStatus
from broker_mirror.copy.topic_ids import KnownIds
from broker_mirror.flows import SUPPORT, Flow
from broker_mirror.formats.offset_syncs import OffsetSync
from broker_mirror.formats.source_offsets import CONNECTOR, SourcePartition, encode_offset
from broker_mirror.merged import Role, Side

# The target denies the transactional id, or has no coordinator for it.
_OF_TRANSACTIONS: Final = (
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
STOP_S: Final = 4.0
"""How long `stop` waits for the last commit."""
T = TypeVar("T")


def transactional_id_of(flow: Flow, owner: int) -> str:
    """Return the id of a task of MirrorMaker 2 with this number: a running one is fenced."""
    return f"{flow.pair.source}-mm2-{CONNECTOR}-{owner}"


class CopyFlow:
    """Copies partitions of the source into the target. `owner` is the number of this process among those that divide
    the partitions of the flow: each owner has a transactional id.

    `start` returns before the first transaction; `stop` commits what was sent. A flow that is fenced, or cannot go on,
    ends: see `ended`.
    """

    def __init__(
        self, flow: Flow, source: AdminClient, target: AdminClient, *, owner: int = 0, owners: int = 1
    ) -> None:
        self.flow, self._source, self._target, self._owner = flow, source, target, owner
        consumer = flow.clients[Side.SOURCE, Role.CONSUMER].values
        self._wake = asyncio.Event()
        self._ids = KnownIds(flow.recreated)
        self._loading = Loading(flow, source, target, consumer["auto.offset.reset"], self._ids)
        # Each owner has its part of the rate.
        limit = flow.values["brokercy.bytes.per.second"]
        self._fetch_settings = FetchSettings.of(consumer, limit and max(1, limit // owners))
        self._offsets_partitions = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._main: asyncio.Task[None] | None = None
        self._error: str | None = None
        # Why the flow has no transactions, although it should.
        self._note: str | None = None
        side = target if flow.syncs_side is Side.TARGET else source
        self._announcing = Announcing(side.caller, flow.offset_syncs_topic, self._trouble)
        self._make(transactional=flow.is_exactly_once)

    def _make(self, *, transactional: bool) -> None:
        """Make the machine, and the parts that work for it."""
        flow, target = self.flow, self._target
        producer = flow.clients[Side.TARGET, Role.PRODUCER].values
        self.machine = CopyMachine(
            transactional=transactional,
            syncs_in_target=flow.syncs_side is Side.TARGET,
            flush_interval_ms=flow.values["offset.flush.interval.ms"],
            emits_syncs=flow.values["emit.offset-syncs.enabled"],
            lag_max=flow.values["offset.lag.max"],
        )
        self._fetching = Fetching(
            self._source, self.machine, self._ids, self._fetch_settings, self._now_ms, self._wake.set, flow.transforms
        )
        self._producer: BatchProducer
        if transactional:
            timeout_ms = producer["transaction.timeout.ms"]
            self._producer = TransactionalBatches(target, transactional_id_of(flow, self._owner), timeout_ms)
        else:
            self._producer = IdempotentBatches(target.caller)
        self._sending = Sending(
            target.caller,
            self.machine,
            self._producer,
            self._ids,
            producer["max.request.size"],
            self._now_ms,
            self._answered,
        )

    # ------------------------------------------------------------------------------------------------ calls

    async def start(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Begin to copy partitions of the source. Raises ClientError if topics of the flow cannot be created."""
        values = self.flow.values
        self._offsets_partitions = await ensure_topic(
            self._target,
            self.flow.offsets_topic,
            values["offset.storage.partitions"],
            values["offset.storage.replication.factor"],
        )
        if values["emit.offset-syncs.enabled"]:
            side = self._target if self.flow.syncs_side is Side.TARGET else self._source
            await ensure_topic(side, self.flow.offset_syncs_topic, 1, values["offset-syncs.topic.replication.factor"])
        if self.flow.is_exactly_once and not self.flow.demands_exactly_once:
            await self._try_transactions()
        self.assign(partitions)
        self._main = asyncio.create_task(self._run())

    async def _try_transactions(self) -> None:
        """Copy without transactions if the target denies them: a file without exactly.once.source.support may come from
        a MirrorMaker 2 whose principal needed no transactional id.
        """
        try:
            await self._producer.initialize()
        except ClientError as error:
            if error.code is not ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                # The machine repeats the call, and reports it.
                return
            self._note = (
                f"{error}: records are copied without transactions, so a failure may copy some twice; allow WRITE on"
                f" this id, or set {self._support_setting}=disabled"
            )
            self._make(transactional=False)

    @property
    def _support_setting(self) -> str:
        return f"{self.flow.pair.target}.{SUPPORT}"

    def _explained(self, error: ClientError) -> str:
        """Return the sentence about an error; one of transactions names the setting without which none are needed."""
        if self.machine.transactional and error.code in _OF_TRANSACTIONS:
            return f"{error}; {self._support_setting}=disabled copies without transactions"
        return str(error)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Copy these partitions of the source instead of the present ones, from the next transaction on. The committed
        offsets of new ones are read first: their former owner must have ended.
        """
        self.machine.assign({key: (self.flow.remote_topic(key.topic), key.partition) for key in partitions})
        self._wake.set()
        self._fetching.refresh()

    async def stop(self, timeout_s: float = STOP_S) -> None:
        """Commit what was sent, and end; after `timeout_s`, end without a commit."""
        self.machine.stop()
        self._wake.set()
        if self._main is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await asyncio.shield(self._main)
            self._main.cancel()
            await asyncio.gather(self._main, return_exceptions=True)

    async def ended(self) -> CopyStatus:
        """Wait until the flow ends by itself or is stopped; returns its last status."""
        if self._main is not None:
            await asyncio.wait([self._main])
        return self.status()

    def status(self) -> CopyStatus:
        """Return the state of the flow and of each partition."""
        machine = self.machine
        parts = tuple(self._partition_status(each) for each in machine.partitions.values())
        return CopyStatus(
            state=self._state(),
            partitions=parts,
            records=sum(each.records for each in parts),
            bytes=sum(each.bytes for each in parts),
            transactions=machine.transactions,
            aborts=machine.aborts,
            buffered_bytes=machine.buffered_bytes,
            error=self._error or machine.error or machine.trouble,
            note=self._note,
        )

    def _state(self) -> CopyState:
        if self._error is not None:
            return CopyState.FAILED
        if self.machine.stage is Stage.ENDED:
            if self.machine.is_fenced:
                return CopyState.FENCED
            return CopyState.STOPPED if self.machine.error is None else CopyState.FAILED
        return CopyState.STARTING if self.machine.stage in (Stage.STARTING, Stage.LOADING) else CopyState.RUNNING

    def _partition_status(self, each: CopyPartition) -> PartitionStatus:
        position = None if each.position is None else each.committed
        lag = None if position is None or each.source_end is None else max(0, each.source_end - position)
        lag_ms = 0 if lag == 0 else None
        if lag and each.max_timestamp is not None and each.max_timestamp >= 0:
            lag_ms = max(0, int(time.time() * 1000) - each.max_timestamp)
        return PartitionStatus(
            topic=each.source[0],
            partition=each.source[1],
            remote_topic=each.target[0],
            source_position=position,
            source_end=each.source_end,
            target_end=each.target_end,
            lag_records=lag,
            lag_ms=lag_ms,
            records=each.total_records,
            bytes=each.total_bytes,
            problem=each.note if each.problem is None else each.problem.text,
            waits=each.is_waiting(self._now_ms()),
            latency_ms=each.latency_ms,
        )

    # ------------------------------------------------------------------------------------------------ the machine

    def _now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def _answered(self) -> None:
        self._wake.set()
        self._fetching.room()

    async def _run(self) -> None:
        fetching = asyncio.create_task(self._fetching.run())
        fetching.add_done_callback(self._finished)
        try:
            while self.machine.stage is not Stage.ENDED:
                self._wake.clear()
                self._carry_out(self.machine.step(self._now_ms()))
                self._fetching.room()
                now_ms = self._now_ms()
                wait_s = max(0.001, (self.machine.wakeup_ms(now_ms) - now_ms) / 1000)
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._wake.wait()
            await self._announcing.write_all()
        except Exception as error:
            self._error = f"{type(error).__name__}: {error}"
        finally:
            tasks = [fetching, *self._tasks]
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _carry_out(self, actions: Sequence[Action]) -> None:
        batches: list[Produce] = []
        for action in actions:
            match action:
                case Produce():
                    batches.append(action)
                case machine_of.Initialize():
                    self._spawn(self._initialize())
                case machine_of.Load(partitions):
                    self._spawn(self._load(partitions))
                case machine_of.Begin():
                    self._spawn(self._begin())
                case machine_of.Write(offsets, syncs):
                    self._spawn(self._write(offsets, syncs))
                case machine_of.End(commit):
                    self._spawn(self._end(commit=commit))
                case machine_of.Announce(syncs):
                    if self._announcing.add(syncs):
                        self._spawn(self._announcing.write_all())
                case _:
                    assert_never(action)
        if batches:
            self._spawn(self._sending.produce(batches))

    def _trouble(self, text: str) -> None:
        self.machine.trouble = text

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.machine.ended_by(f"{type(error).__name__}: {error}", fenced=False)
        self._wake.set()

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T | None:
        """Call until it succeeds. None if the flow has ended: another owner has the id, or the refusal lasts."""
        attempt = 1
        while True:
            try:
                return await call()
            except ClientError as error:
                if error.code in FENCED:
                    self.machine.ended_by(str(error), fenced=True)
                    return None
                self.machine.trouble = self._explained(error)
                if not error.retriable and error.failure is Failure.REFUSED:
                    self.machine.ended_by(self._explained(error), fenced=False)
                    return None
            await Deadline(10.0).back_off(min(attempt, 4))
            attempt += 1

    async def _initialize(self) -> None:
        if (identity := await self._patiently(self._producer.initialize)) is not None:
            self.machine.initialized(identity)

    async def _begin(self) -> None:
        if (identity := await self._patiently(self._producer.begin)) is not None:
            self.machine.began(identity, self._now_ms())

    async def _end(self, *, commit: bool) -> None:
        if not commit:
            self._producer.spoil()

        async def end() -> bool:
            try:
                await self._producer.end(commit=commit)
            except ClientError as error:
                if commit and error.failure is Failure.REFUSED and error.code not in FENCED and not error.retriable:
                    # The coordinator has not committed it.
                    await self._producer.end(commit=False)
                    return False
                raise
            return commit

        committed = await self._patiently(end)
        if committed is not None:
            self.machine.ended(commit=committed)

    # ------------------------------------------------------------------------------------------------ offsets

    async def _load(self, keys: Sequence[Key]) -> None:
        partitions = [TopicPartition(*key) for key in keys]
        offsets: dict[Key, int] = {}
        problems: dict[Key, str] = {}
        if partitions:
            committed = await self._patiently(self._loading.committed)
            if committed is None:
                return
            begins = await self._patiently(lambda: self._loading.begins(partitions, committed))
            if begins is None:
                return
            offsets.update(begins.offsets.items())
            problems.update(begins.problems.items())
        self.machine.loaded(offsets, problems, self._now_ms())
        self._fetching.refresh()

    async def _write(self, offsets: Mapping[Key, int], syncs: Sequence[OffsetSync]) -> None:
        by_partition: dict[TopicPartition, list[Record]] = {}
        now_ms = int(time.time() * 1000)
        for (topic, partition), offset in offsets.items():
            key = SourcePartition(self.flow.source, topic, partition).key()
            place = TopicPartition(self.flow.offsets_topic, partition_of(key, self._offsets_partitions))
            headers = self._ids.of((topic, partition)).headers()
            record = Record(timestamp=now_ms, key=key, value=encode_offset(offset - 1), headers=headers)
            by_partition.setdefault(place, []).append(record)
        if syncs:
            by_partition[TopicPartition(self.flow.offset_syncs_topic, 0)] = [
                sync_record(each, now_ms) for each in syncs
            ]
        results = await asyncio.gather(
            *(self._producer.send_batch(place, records) for place, records in by_partition.items()),
            return_exceptions=True,
        )
        for result in results:
            if isinstance(result, (ClientError, WrongState)):
                self.machine.failed(str(result), self._now_ms())
                return
            if isinstance(result, BaseException):
                raise result
        self.machine.written()
