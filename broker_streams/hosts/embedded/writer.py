"""Writes results of tasks, and the offsets up to which their inputs count as processed.

exactly_once_v2: one transaction for all of it (KIP-447). at_least_once: the results first, then the offsets.

production.exception.handler decides about records that the cluster refuses. With exactly_once_v2 the transaction is
aborted then, and another one writes the results without the records that are dropped: all of it counts once. Kafka
Streams ends in that case, as its producer cannot commit after a send has failed.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, NamedTuple

from broker_cy.admin import AdminClient, ClientError
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.produce import Appended, Producer
from broker_cy.admin.transactional import TransactionalProducer
from broker_cy.client.transaction import GroupMetadata, State, WrongState
from broker_cy.core.errors import ErrorCode
from broker_cy.wire.records import Record
from broker_streams.hosts.embedded.refusals import Ended, Lost, Refused, Retried, decide, is_fatal
from broker_streams.hosts.embedded.unwritten import Part, Place, Unwritten, record_of
from broker_streams.hosts.results import Results
from broker_streams.hosts.settings import HostSettings
from broker_streams.hosts.task_timeout import COMMIT, TaskTimeout

# No other instance has the transactional id: its producer is fenced when its transaction was aborted, and unknown when
# the coordinator has lost it. An epoch of the member that is not the newest is ILLEGAL_GENERATION in a transaction, and
# STALE_MEMBER_EPOCH elsewhere.
_STILL_MEMBER = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.ILLEGAL_GENERATION,
)
_FENCED = (
    *_STILL_MEMBER,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
)


class Offsets(NamedTuple):
    """The next offsets of inputs, and the texts beside them (kernel/commit_metadata.py)."""

    at: Mapping[TopicPartition, int]
    texts: Mapping[TopicPartition, str]


class Fenced(Lost):
    """The tasks have other owners, the epoch of the member has changed, or the transaction took too long."""


class _Again(Exception):
    """Parts were refused, and have changed: the rest can be sent."""


def sends(producer: Producer, results: Results) -> list[Coroutine[Any, Any, tuple[Appended, ...]]]:
    """The calls that append all results."""
    return [
        producer.send(topic, itertools.chain.from_iterable(batches))
        if number is None
        else producer.send_batches(TopicPartition(topic, number), batches)
        for (topic, number), batches in results.batches().items()
    ]


def add_ends(ends: dict[TopicPartition, int], appended: Iterable[Appended]) -> None:
    """Note the offsets after records that were appended."""
    for batch in appended:
        # A batch that is acknowledged a second time has no offset: state on disk waits for the next one.
        if batch.base_offset is not None:
            end = batch.base_offset + batch.records
            ends[batch.partition] = max(end, ends.get(batch.partition, 0))


class Writer:
    """One for each member. `transactional_id` is used with exactly_once_v2."""

    def __init__(
        self, client: AdminClient, settings: HostSettings, transactional_id: str, timeout: TaskTimeout
    ) -> None:
        self._client, self._settings, self._transactional_id = client, settings, transactional_id
        self._timeout = timeout
        self._producer: Producer | None = None
        self.transactions = 0
        # The offsets after the records of the last commit, of partitions that tasks chose; changelogs are among them.
        self.ends: dict[TopicPartition, int] = {}
        # The largest batches in bytes of topics that refused larger ones (max.message.bytes).
        self._limits: dict[str, int] = {}

    async def commit(self, results: Results, offsets: Offsets, group: GroupMetadata) -> None:
        """Write all of it, or nothing with exactly_once_v2. The origins of results are their tasks. Raises Lost,
        ClientError; StreamsError: a record was refused, and the handler chose to end the application, or failed.
        """
        unwritten, self.ends = Unwritten(results, self._limits), {}
        try:
            if self._settings.is_exactly_once:
                while not await self._has_committed(unwritten, offsets, group):
                    pass
            else:
                while not await self._has_sent(unwritten):
                    pass
                await self._commit_offsets(offsets, group)
        except Lost:
            self._producer = None
            raise
        except ClientError as error:
            if error.code in _FENCED:
                self._producer = None
                raise Fenced(str(error), is_member=error.code in _STILL_MEMBER) from error
            if error.retriable:
                # The next producer, or the next owner of the tasks, learns whether the transaction was committed.
                self._producer = None
                raise Retried(str(error)) from error
            raise

    async def write(self, topic: str, records: Iterable[Record]) -> None:
        """Write records that belong to no commit, without a transaction. Raises ClientError."""
        assert not self._settings.is_exactly_once
        await self._plain().send(topic, records)

    async def _has_committed(self, unwritten: Unwritten, offsets: Offsets, group: GroupMetadata) -> bool:
        """False: records were refused, and the transaction was aborted."""
        producer = self._transactional()
        try:
            async with producer.transaction():
                await self._send(producer, unwritten)
                if offsets.at:
                    await producer.commit_offsets(group, offsets.at, offsets.texts)
        except _Again:
            unwritten.begin_again()
            self.ends = {}
            if producer.state not in (State.READY, State.UNINITIALIZED):
                # The abort failed: the next producer does it.
                self._producer = None
            return False
        self.transactions += 1
        return True

    async def _has_sent(self, unwritten: Unwritten) -> bool:
        try:
            await self._send(self._plain(), unwritten)
        except _Again:
            return False
        return True

    async def _send(self, producer: Producer, unwritten: Unwritten) -> None:
        """Raises _Again, ClientError, Retried, StreamsError."""
        places = list(unwritten.parts.items())
        done = await asyncio.gather(
            *(self._send_parts(producer, place, parts) for place, parts in places), return_exceptions=True
        )
        failed = [each for each in done if isinstance(each, BaseException)]
        refused = [each for each in failed if isinstance(each, Refused)]
        # After the first error, the producer refuses the other batches for its state: that says nothing.
        for error in sorted(failed, key=lambda each: isinstance(each, WrongState)):
            if not isinstance(error, Refused) and not (refused and isinstance(error, WrongState)):
                raise error
        if not refused:
            return
        try:
            for each in refused:
                decide(unwritten, self._limits, each)
        except Ended as end:
            if not self._settings.is_exactly_once:
                # With a transaction they would be aborted.
                letters = (producer.send(each[0], [record_of(each)]) for each in end.letters)
                await asyncio.gather(*letters, return_exceptions=True)
            raise
        raise _Again

    async def _send_parts(self, producer: Producer, place: Place, parts: list[Part]) -> None:
        topic, number = place
        for part in parts:
            if part.is_written:
                continue
            try:
                if number is None:
                    appended = await producer.send(topic, part.records)
                else:
                    appended = await producer.send_batches(TopicPartition(topic, number), [part.records])
            except ClientError as error:
                if error.code in _FENCED or is_fatal(error):
                    raise
                raise Refused(place, part, error) from error
            part.is_written = True
            if number is not None:
                add_ends(self.ends, appended)

    async def _commit_offsets(self, offsets: Offsets, group: GroupMetadata) -> None:
        """The results are written, so offsets that cannot be committed now are repeated. Raises ClientError,
        StreamsError.
        """
        while offsets.at:
            calls = self._client.group_offsets
            try:
                (await calls.alter(group.group_id, offsets.at, offsets.texts, member=group)).whole()
                return
            except ClientError as error:
                if error.code in _FENCED or not error.retriable:
                    raise
                self._timeout.failed(COMMIT, error)

    def _plain(self) -> Producer:
        if self._producer is None:
            self._producer = self._client.records.producer()
        return self._producer

    def _transactional(self) -> TransactionalProducer:
        if self._producer is None:
            self._producer = self._client.transactional_producer(
                self._transactional_id, timeout_ms=self._settings.transaction_timeout_ms
            )
        assert isinstance(self._producer, TransactionalProducer)
        return self._producer
