"""Asks transaction coordinators on other brokers whether partitions are part of a transaction, or to add them: by
AddPartitionsToTxn from version 4 on (KIP-890).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker_cy.coordinator.txn.state import ProducerIdAndEpoch, TopicPartition
from broker_cy.coordinator_services.txn_runtime import Results
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.network.broker_calls import Batches, Caller
from broker_cy.wire import messages

if TYPE_CHECKING:
    from broker_cy.metadata.image import ImageDelta, MetadataImage

Request = messages.AddPartitionsToTxnRequest

# The first version for requests of brokers, and the first that knows TRANSACTION_ABORTABLE.
VERSION_BROKERS = 4


class Question(NamedTuple):
    """One producer's partitions: are they part of its transaction, or, with `add`, let them be."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: tuple[TopicPartition, ...]
    add: bool


class TxnVerifier:
    """Used by TransactionService for transactional ids that another broker coordinates."""

    def __init__(self, loop: asyncio.AbstractEventLoop, calls: Caller) -> None:
        self._loop = loop
        self._calls = calls
        self._batches: Batches[Question, Results] = Batches(loop, self._send, lambda each: each.transactional_id)

    def apply(self, delta: ImageDelta, image: MetadataImage) -> None:
        """The committed metadata have changed."""
        self._batches.follow(delta, image)

    async def close(self) -> None:
        await self._batches.close()

    def ask(
        self,
        broker_id: int,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
    ) -> asyncio.Future[Results]:
        """Return an error code for each partition, as TransactionService.verify; the future has no error. A coordinator
        that cannot be reached gives NETWORK_EXCEPTION. One that knows only older versions does not verify: then the
        partitions count as part of the transaction, as in Kafka.
        """
        answer = self._batches.ask(broker_id, Question(transactional_id, producer, tuple(partitions), add))
        results: asyncio.Future[Results] = self._loop.create_future()

        def answered(done: asyncio.Future[Results]) -> None:
            if results.done():
                done.exception()
                return
            error = done.exception()
            if error is not None:
                code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
                if code is ErrorCode.UNSUPPORTED_VERSION:
                    code = ErrorCode.NONE
                results.set_result(dict.fromkeys(partitions, code))
            else:
                found = done.result()
                results.set_result({each: found.get(each, ErrorCode.UNKNOWN_SERVER_ERROR) for each in partitions})

        answer.add_done_callback(answered)
        return results

    async def _send(self, broker_id: int, questions: list[Question]) -> list[Results]:
        """Send AddPartitionsToTxn; each transactional id occurs once."""
        request = Request(transactions=[_entry(question) for question in questions])
        response = await self._calls.ask(
            broker_id, request, messages.AddPartitionsToTxnResponse, at_least=VERSION_BROKERS
        )
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code), f"the transaction coordinator on broker {broker_id}")
        by_id: dict[str, Results] = {}
        for answer in response.results_by_transaction:
            by_id[answer.transactional_id] = {
                (topic.name, each.partition_index): ErrorCode(each.partition_error_code)
                for topic in answer.topic_results
                for each in topic.results_by_partition
            }
        return [by_id.get(question.transactional_id, {}) for question in questions]


def _entry(question: Question) -> Request.AddPartitionsToTxnTransaction:
    topics: dict[str, list[int]] = {}
    for name, index in question.partitions:
        topics.setdefault(name, []).append(index)
    return Request.AddPartitionsToTxnTransaction(
        transactional_id=question.transactional_id,
        producer_id=question.producer.producer_id,
        producer_epoch=question.producer.epoch,
        verify_only=not question.add,
        topics=[Request.AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()],
    )
