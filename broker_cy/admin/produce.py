"""Producing records: batches by partition, keys placed as Kafka's own clients place them, without duplicates where
asked for.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from typing import Final

from broker_cy.admin.caller import Caller, Leaders
from broker_cy.admin.metadata import TopicInfo, TopicPartition
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError, Failure, Problem, problem_of, refused
from broker_cy.client.partitioner import partition_of
from broker_cy.client.pool import Peer
from broker_cy.client.transaction import Batch, ProducerCore, State, produce_message
from broker_cy.client.transaction_errors import code_of
from broker_cy.core.classes import dataclass
from broker_cy.core.errors import ErrorCode, WireError
from broker_cy.wire import messages
from broker_cy.wire.compression import Codec
from broker_cy.wire.records import Record, encode_batch

ACKS_ALL: Final = -1
ACKS_LEADER: Final = 1
ACKS_NONE: Final = 0
# A batch is closed before it would be larger than this, uncompressed; Kafka's max.message.bytes is 1,048,588 by
# default.
BATCH_BYTES_MAX = 900_000
RECORDS_MAX = 100_000
# How long a broker may take to create a topic that a producer names: longer than any broker needs, and short enough to
# tell a user soon that brokers do not create topics here. Kafka's producer waits max.block.ms, 60 s.
CREATE_WAIT_S = 5.0
_RECORD_OVERHEAD_BYTES = 32
_HEADER_OVERHEAD_BYTES = 10


@dataclass(frozen=True, slots=True)
class Appended:
    """A batch that a leader accepted. `base_offset` is None if the leader does not report it: acks=0, or a batch
    that it had already.

    `append_time_ms` is None unless the topic stamps records with the time of their arrival.
    """

    partition: TopicPartition
    records: int
    base_offset: int | None
    append_time_ms: int | None


class Producer:
    """Sends batches. Made by `client.producer`.

    With acks=all it is idempotent (KIP-98): a batch that is sent again, because its answer was lost, is stored once.
    Otherwise a batch that may have arrived is not sent again. One batch per partition is in flight at a time, which
    keeps their order; partitions are independent. With `creates_topics` brokers create missing topics, where
    auto.create.topics.enable allows it; else a missing topic is an error.
    """

    def __init__(
        self,
        caller: Caller,
        *,
        acks: int = ACKS_ALL,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        creates_topics: bool = False,
    ) -> None:
        if acks not in (ACKS_ALL, ACKS_LEADER, ACKS_NONE):
            raise ClientError(Failure.INVALID, f"acks={acks}: must be -1 (all), 1 (the leader) or 0 (none)")
        self._caller = caller
        self._leaders = Leaders(caller.metadata)
        self.acks = acks
        self.codec = codec
        self.level = level
        self.creates_topics = creates_topics
        self._core = ProducerCore()
        self._locks: dict[TopicPartition, asyncio.Lock] = {}
        self._starting = asyncio.Lock()
        self._sticky: dict[str, int] = {}

    async def send(
        self, topic: str, records: Iterable[Record], *, partition: int | None = None
    ) -> tuple[Appended, ...]:
        """Append records, in their order within each partition; returns when all are acknowledged.

        Without `partition` a key decides, as in Kafka's clients; records without a key fill a batch of one partition,
        then of the next. Raises the first ClientError; other batches may have been appended.
        """
        count = await self._partitions(topic, partition)
        batches = self._batches(topic, records, partition, count)
        done: list[Appended] = []

        async def send_all(key: TopicPartition, theirs: list[list[Record]]) -> None:
            for batch in theirs:
                done.append(await self.send_batch(key, batch))

        results = await asyncio.gather(
            *(send_all(key, theirs) for key, theirs in batches.items()), return_exceptions=True
        )
        for result in results:
            if result is not None:
                raise result
        return tuple(done)

    async def send_batches(
        self, partition: TopicPartition, batches: Iterable[Sequence[Record]]
    ) -> tuple[Appended, ...]:
        """Append batches to one partition, one after the other; none should be larger than BATCH_BYTES_MAX. Raises
        ClientError; batches before the one that failed have been appended.
        """
        await self._partitions(partition.topic, partition.partition)
        return tuple([await self.send_batch(partition, batch) for batch in batches])

    async def _partitions(self, topic: str, partition: int | None) -> int:
        """The number of partitions of a topic. Raises ClientError: it has no such partition."""
        numbers = [part.partition for part in (await self._topic(topic)).partitions]
        if partition is not None and partition not in numbers:
            raise ClientError(
                Failure.INVALID,
                f"partition {partition} does not exist; the topic has 0 to {len(numbers) - 1}",
                what=f"topic {topic}",
            )
        return len(numbers)

    async def _topic(self, name: str) -> TopicInfo:
        """The topic, with its partitions; waits for one that is being created. Raises ClientError."""
        deadline = self._caller.deadline()
        try:
            found, _ = await self._caller.metadata.topics([name], deadline)
        except ClientError as raised:
            # The connection may be one to a broker that was started again.
            if not self._caller.may_retry(raised, 1):
                raise
            found = {}
        if name in found and found[name].partitions:
            return found[name]
        creation = Deadline(min(self._caller.timeout_s, CREATE_WAIT_S))
        attempt = 1
        while True:
            try:
                found, failed = await self._caller.metadata.refresh([name], deadline, create=self.creates_topics)
            except ClientError as raised:
                found, failed = {}, {name: raised}
            if name in found and found[name].partitions:
                return found[name]
            # Older brokers list a topic that is being created without its partitions.
            error = failed.get(name) or refused(
                Problem(ErrorCode.LEADER_NOT_AVAILABLE), "", "Metadata", f"topic {name}"
            )
            if not (self.creates_topics and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                # A topic that was created a moment ago may not be known to every broker yet.
                if not self._caller.may_retry(error, attempt) or not await deadline.back_off(attempt):
                    raise error
            elif not await creation.back_off(attempt):
                raise _not_created(error, creation.timeout_s)
            attempt += 1

    def _batches(
        self, topic: str, records: Iterable[Record], partition: int | None, partitions: int
    ) -> dict[TopicPartition, list[list[Record]]]:
        """Records by partition, in batches that are not too large."""
        out: dict[TopicPartition, list[list[Record]]] = {}
        sizes: dict[TopicPartition, int] = {}
        sticky = self._sticky.setdefault(topic, random.randrange(partitions)) % partitions
        for record in records:
            if partition is not None:
                index = partition
            elif record.key is not None:
                index = partition_of(record.key, partitions)
            else:
                index = sticky
            key = TopicPartition(topic, index)
            size = size_of(record)
            theirs = out.setdefault(key, [])
            full = theirs and (sizes[key] + size > BATCH_BYTES_MAX or len(theirs[-1]) >= RECORDS_MAX)
            if not theirs or full:
                if full and partition is None and record.key is None:
                    sticky = (sticky + 1) % partitions
                    key = TopicPartition(topic, sticky)
                    theirs = out.setdefault(key, [])
                theirs.append([])
                sizes[key] = 0
            theirs[-1].append(record)
            sizes[key] += size
        self._sticky[topic] = sticky if partition is not None else (sticky + 1) % partitions
        return out

    async def send_batch(self, partition: TopicPartition, records: Sequence[Record]) -> Appended:
        """Append one batch. Raises ClientError."""
        if not records:
            raise ClientError(Failure.INVALID, "a batch has at least one record", what=f"partition {partition}")
        deadline = self._caller.deadline()
        async with self._locks.setdefault(partition, asyncio.Lock()):
            if self.acks != ACKS_ALL:
                data = self._encoded(partition, records, None)
                return await self._append(partition, data, len(records), deadline, None)
            await self._prepare(partition, deadline)
            batch = self._core.batch(partition)
            data = self._encoded(partition, records, batch)
            try:
                return await self._append(partition, data, len(records), deadline, batch)
            except BaseException:
                self._core.lost(batch)
                raise

    async def _prepare(self, partition: TopicPartition, deadline: Deadline) -> None:
        """Get a producer id: before the first batch, and after one that may have been stored."""
        async with self._starting:
            if self._core.state is not State.READY:
                self._core.restart()
                request = self._core.initialize()
                answer = await self._caller.ask(
                    request.message,
                    request.answer,
                    lambda got: problem_of(code_of(request.api, got)),
                    deadline=deadline,
                )
                self._core.take(request, answer)

    def _encoded(self, partition: TopicPartition, records: Sequence[Record], batch: Batch | None) -> bytes:
        try:
            if batch is None:
                return encode_batch(records, codec=self.codec, level=self.level)
            return encode_batch(
                records,
                codec=self.codec,
                level=self.level,
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                base_sequence=batch.base_sequence,
                transactional=batch.transactional,
            )
        except (WireError, ValueError) as error:
            raise ClientError(Failure.INVALID, str(error), what=f"partition {partition}") from None

    async def _append(
        self, partition: TopicPartition, data: bytes, count: int, deadline: Deadline, batch: Batch | None
    ) -> Appended:
        """Send a batch to the leader. With `batch`, which has a sequence, it may be sent again."""

        async def send(
            peer: Peer, keys: list[TopicPartition], deadline: Deadline
        ) -> dict[TopicPartition, Appended | Problem]:
            pool, topic_id = self._caller.pool, self._caller.metadata.topic_id(partition.topic)
            if batch is None:
                message = produce_message(partition, data, deadline.left_ms, acks=self.acks, topic_id=topic_id)
                if self.acks == ACKS_NONE:
                    await pool.tell(peer, message, deadline)
                    return {partition: Appended(partition, count, None, None)}
                answer, _ = await pool.ask(peer, message, messages.ProduceResponse, deadline)
            else:
                request = self._core.produce(batch, count, data, deadline.left_ms, topic_id)
                answer, _ = await pool.ask(
                    peer,
                    request.message,
                    messages.ProduceResponse,
                    deadline,
                    at_least=request.at_least,
                    at_most=request.at_most,
                )
            parts = [part for topic in answer.responses for part in topic.partition_responses]
            if len(parts) != 1:
                return {}
            if batch is not None:
                self._core.take(request, answer)
            return {partition: _appended(partition, parts[0], count)}

        outcome = await self._caller.spread(
            [partition],
            self._leaders,
            send,
            api="Produce",
            name=lambda key: f"partition {key}",
            chunk=1,
            deadline=deadline,
            repeatable=batch is not None,
        )
        return outcome.whole()[partition]


def _appended(
    partition: TopicPartition, part: messages.ProduceResponse.PartitionProduceResponse, count: int
) -> Appended | Problem:
    if part.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        return Appended(partition, count, None, None)
    problem = problem_of(part.error_code, part.error_message)
    if problem is not None:
        if part.record_errors:
            first, records = part.record_errors[0], tuple(bad.batch_index for bad in part.record_errors)
            said = first.batch_index_error_message or problem.message
            problem = Problem(problem.code, f"record {first.batch_index} of the batch: {said}", records)
        return problem
    return Appended(
        partition,
        count,
        None if part.base_offset < 0 else part.base_offset,
        None if part.log_append_time_ms < 0 else part.log_append_time_ms,
    )


def _not_created(error: ClientError, waited_s: float) -> ClientError:
    reason = (
        f"the topic does not exist, and the broker did not create it within {waited_s:g} s; "
        "is auto.create.topics.enable false there?"
    )
    return ClientError(error.failure, reason, broker=error.broker, api=error.api, code=error.code, what=error.what)


def size_of(record: Record) -> int:
    """About the bytes of a record in a batch, as BATCH_BYTES_MAX counts them."""
    size = _RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += _HEADER_OVERHEAD_BYTES + len(name) + len(value or b"")
    return size
