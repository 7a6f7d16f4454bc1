"""A transactional producer over gevent's sockets (KIP-98, KIP-447), in the protocol of transaction.version 0 and 1.

Partitions and groups are added to a transaction by separate requests, as all brokers since 0.11 allow; the versions of
requests stay below those by which a client announces transaction.version 2 (KIP-890).

Every request is retried after retriable errors, until a deadline. Retries are harmless, because batches have sequences
and the coordinator knows the state of the transaction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import gevent

from broker_cy.client.consumer_member import ConsumerMember
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from broker_cy.wire.codec import Message
from broker_cy.wire.records import Record, encode_batch
from loadgen.engines.base import CODECS, Work
from loadgen.engines.outcomes import RETRIABLE
from loadgen.net.cluster import GROUP, RETRY_S, TRANSACTION, Cluster, Refused, error_name
from loadgen.net.connection import Connection, NetError

R = TypeVar("R", bound=Message)
# The newest versions of a client without KIP-890.
ADD_PARTITIONS_V1, ADD_OFFSETS_V1, TXN_OFFSET_COMMIT_V1, END_TXN_V1, PRODUCE_V1 = 3, 4, 4, 4, 11
_SEQUENCE_MASK = 0x7FFFFFFF

# Another attempt may succeed.
_PASSING = RETRIABLE | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
# Another producer has this transactional id now, or the coordinator aborted the transaction and raised the epoch.
FENCED = frozenset({"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING"})
RETRIES = "retries"
# The pause between attempts while the coordinator completes the previous transaction.
ENDING_S = 0.02


class TransactionError(Exception):
    """A step of a transaction failed. `name` is Kafka's name of the error.

    `is_open`: whether some attempt got no answer, so that the step may have been performed.
    """

    def __init__(self, name: str, api: str, *, is_open: bool) -> None:
        super().__init__(f"{api}: {name}")
        self.name, self.is_open = name, is_open


class Transactional:
    """One transactional id. All calls raise TransactionError; after an error, `begin_again` is needed."""

    def __init__(self, work: Work, cluster: Cluster, transactional_id: str, timeout_ms: int) -> None:
        self._work, self._cluster = work, cluster
        self._id, self._timeout_ms = transactional_id, timeout_ms
        self._codec = CODECS[work.spec.codec]
        self._producer = (-1, -1)
        self._sequences: dict[int, int] = {}
        self._until_s = 0.0

    def set_deadline(self) -> None:
        """Retry requests for the request timeout from now on; later requests are sent once."""
        self._until_s = time.monotonic() + self._cluster.timeout_s

    def begin_again(self) -> None:
        """Get a producer id and epoch; this aborts an open transaction."""
        request = messages.InitProducerIdRequest(
            transactional_id=self._id, transaction_timeout_ms=self._timeout_ms, producer_id=-1, producer_epoch=-1
        )
        answer = self._repeat(
            "InitProducerId",
            request,
            messages.InitProducerIdResponse,
            self._coordinator,
            lambda found: found.error_code,
        )
        self._producer = (answer.producer_id, answer.producer_epoch)
        self._sequences = {}

    def _coordinator(self) -> Connection:
        return self._cluster.coordinator(TRANSACTION, self._id)

    def add_partitions(self, topic: str, partitions: list[int]) -> None:
        """Add partitions to the transaction, which begins with the first."""
        request = messages.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self._producer[0],
            v3_and_below_producer_epoch=self._producer[1],
            v3_and_below_topics=[
                messages.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=partitions)
            ],
        )

        def code(answer: Any) -> int:
            codes = (
                each.partition_error_code
                for found in answer.results_by_topic_v3_and_below
                for each in found.results_by_partition
            )
            return next((each for each in codes if each), 0)

        self._repeat(
            "AddPartitionsToTxn",
            request,
            messages.AddPartitionsToTxnResponse,
            self._coordinator,
            code,
            at_most=ADD_PARTITIONS_V1,
        )

    def produce(self, topic: str, partition: int, records: list[Record]) -> None:
        """Append a batch to a partition of the transaction."""
        sequence = self._sequences.get(partition, 0)
        data = encode_batch(
            records,
            codec=self._codec,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            base_sequence=sequence,
            transactional=True,
        )
        part = messages.ProduceRequest.PartitionProduceData(index=partition, records=data)
        request = messages.ProduceRequest(
            transactional_id=self._id,
            acks=-1,
            timeout_ms=int(self._cluster.timeout_s * 1000),
            topic_data=[messages.ProduceRequest.TopicProduceData(name=topic, partition_data=[part])],
        )

        def code(answer: Any) -> int:
            found = int(answer.responses[0].partition_responses[0].error_code)
            return ErrorCode.NONE if found == ErrorCode.DUPLICATE_SEQUENCE_NUMBER else found

        self._repeat(
            "Produce",
            request,
            messages.ProduceResponse,
            lambda: self._cluster.leader(topic, partition),
            code,
            at_most=PRODUCE_V1,
            records=len(records),
            size_bytes=len(data),
            moved=lambda: self._cluster.forget(topic),
        )
        self._sequences[partition] = (sequence + len(records)) & _SEQUENCE_MASK

    def commit_offsets(self, member: ConsumerMember, topic: str, offsets: Mapping[int, int]) -> None:
        """Add the group's offsets to the transaction, fenced by the member's generation (KIP-447)."""
        added = messages.AddOffsetsToTxnRequest(
            transactional_id=self._id,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            group_id=member.settings.group_id,
        )
        self._repeat(
            "AddOffsetsToTxn",
            added,
            messages.AddOffsetsToTxnResponse,
            self._coordinator,
            lambda answer: answer.error_code,
            at_most=ADD_OFFSETS_V1,
        )
        part = messages.TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
        parts = [part(partition_index=number, committed_offset=offset) for number, offset in offsets.items()]
        request = messages.TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=member.settings.group_id,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            generation_id=member.generation,
            member_id=member.member_id,
            group_instance_id=member.settings.instance_id,
            topics=[messages.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=topic, partitions=parts)],
        )

        def code(answer: Any) -> int:
            codes = (each.error_code for topic in answer.topics for each in topic.partitions)
            return next((each for each in codes if each), 0)

        self._repeat(
            "TxnOffsetCommit",
            request,
            messages.TxnOffsetCommitResponse,
            lambda: self._cluster.coordinator(GROUP, member.settings.group_id),
            code,
            at_most=TXN_OFFSET_COMMIT_V1,
            moved=lambda: self._cluster.forget_coordinator(GROUP, member.settings.group_id),
        )

    def end(self, *, commit: bool) -> None:
        """Commit or abort the transaction."""
        request = messages.EndTxnRequest(
            transactional_id=self._id,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            committed=commit,
        )
        self._repeat(
            "EndTxn",
            request,
            messages.EndTxnResponse,
            self._coordinator,
            lambda answer: answer.error_code,
            at_most=END_TXN_V1,
        )

    def _repeat(
        self,
        api: str,
        request: Message,
        answer: type[R],
        connection: Callable[[], Connection],
        code_of: Callable[[R], int],
        *,
        at_most: int = 32767,
        records: int = 1,
        size_bytes: int = 0,
        moved: Callable[[], None] | None = None,
    ) -> R:
        """Send a request until its answer is not a retriable error; count it. `moved` makes `connection` look up the
        coordinator again.
        """
        meter = self._work.book.meter(api)
        began_ns = time.monotonic_ns()
        is_open = False
        while True:
            try:
                found = connection().call(request, answer, at_most=at_most)
            except NetError as error:
                name, passes, is_open = error.name, True, is_open or error.sent
            except Refused as error:
                name, passes = error.name, error.code in _PASSING
            else:
                code = code_of(found)
                name, passes = (error_name(code) if code else ""), code in _PASSING
                if not name:
                    meter.done(began_ns, began_ns, time.monotonic_ns(), records, size_bytes)
                    return found
            if not passes or time.monotonic() > self._until_s:
                meter.failed(name, began_ns, began_ns, time.monotonic_ns())
                raise TransactionError(name, api, is_open=is_open or name == ErrorCode.REQUEST_TIMED_OUT.name)
            self._work.book.count(RETRIES)
            if name == ErrorCode.CONCURRENT_TRANSACTIONS.name:
                # The coordinator is still completing the previous transaction, which takes milliseconds.
                gevent.sleep(ENDING_S)
                continue
            if moved is None:
                self._cluster.forget_coordinator(TRANSACTION, self._id)
            else:
                moved()
            gevent.sleep(RETRY_S)
