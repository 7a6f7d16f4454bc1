"""Writes results of tasks, and the offsets up to which their inputs count as processed.

exactly_once_v2: one transaction for all of it (KIP-447). at_least_once: the results first, then the offsets.
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
from broker_cy.client.transaction import GroupMetadata, WrongState
from broker_cy.core.errors import ErrorCode
from broker_streams.hosts.results import Results
from broker_streams.hosts.settings import HostSettings

# No other instance has the transactional id: its producer is fenced when its transaction was aborted, and unknown when
# the coordinator has lost it. An epoch of the member that is not the newest is ILLEGAL_GENERATION in a transaction, and
# STALE_MEMBER_EPOCH elsewhere.
_STILL_MEMBER = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.UNKNOWN_PRODUCER_ID,
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


class Fenced(Exception):
    """Nothing of this commit counts. `is_member`: the member is still one of the group, and only the epoch has changed,
    or the transaction took too long.
    """

    def __init__(self, reason: str, *, is_member: bool = False) -> None:
        super().__init__(reason)
        self.is_member = is_member


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

    def __init__(self, client: AdminClient, settings: HostSettings, transactional_id: str) -> None:
        self._client, self._settings, self._transactional_id = client, settings, transactional_id
        self._producer: Producer | None = None
        self.transactions = 0
        # The offsets after the records of the last commit, of partitions that tasks chose; changelogs are among them.
        self.ends: dict[TopicPartition, int] = {}

    async def commit(self, results: Results, offsets: Offsets, group: GroupMetadata) -> None:
        """Write all of it, or nothing with exactly_once_v2. Raises Fenced, ClientError."""
        try:
            if self._settings.is_exactly_once:
                await self._commit_transaction(results, offsets, group)
            else:
                await self._send(self._plain(), results)
                await self._commit_offsets(offsets, group)
        except ClientError as error:
            if error.code in _FENCED:
                self._producer = None
                raise Fenced(str(error), is_member=error.code in _STILL_MEMBER) from error
            raise

    async def _commit_transaction(self, results: Results, offsets: Offsets, group: GroupMetadata) -> None:
        producer = self._transactional()
        async with producer.transaction():
            await self._send(producer, results)
            if offsets.at:
                await producer.commit_offsets(group, offsets.at, offsets.texts)
        self.transactions += 1

    async def _send(self, producer: Producer, results: Results) -> None:
        self.ends = {}
        done = await asyncio.gather(*sends(producer, results), return_exceptions=True)
        failed = [each for each in done if isinstance(each, BaseException)]
        # After the first error, the producer refuses the other batches for its state: that says nothing.
        for error in sorted(failed, key=lambda each: isinstance(each, WrongState)):
            raise error
        for each in done:
            if not isinstance(each, BaseException):
                add_ends(self.ends, each)

    async def _commit_offsets(self, offsets: Offsets, group: GroupMetadata) -> None:
        if offsets.at:
            calls = self._client.group_offsets
            (await calls.alter(group.group_id, offsets.at, offsets.texts, member=group)).whole()

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
