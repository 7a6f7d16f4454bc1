"""AddPartitionsToTxn (24), versions 0-5: partitions become part of a producer's transaction.

2 has PRODUCER_FENCED, which is INVALID_PRODUCER_EPOCH before. From version 4 on it is a request of brokers, for several
transactions, and may only verify that the partitions are part of them (`verify_only`, KIP-890); 5 knows
TRANSACTION_ABORTABLE. Either all partitions of a transaction are added or none.
"""

from __future__ import annotations

import asyncio

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator.txn.state import ProducerIdAndEpoch, TopicPartition
from broker_cy.coordinator_services.txn_service import VERSION_IMPLICIT, VERSION_OLD
from broker_cy.core.errors import ErrorCode
from broker_cy.handlers.shared.txn_answers import fenced_before
from broker_cy.metadata.topic_names import is_internal
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

VERSION_FENCED = 2
VERSION_BATCHED = 4

Topic = messages.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
Transaction = messages.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
TopicResult = messages.AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
PartitionResult = messages.AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult


@handler(ApiKey.ADD_PARTITIONS_TO_TXN)
async def add_partitions_to_txn(
    ctx: RequestContext, request: messages.AddPartitionsToTxnRequest
) -> messages.AddPartitionsToTxnResponse:
    if ctx.version < VERSION_BATCHED:
        only = Transaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        return messages.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=await _one(ctx, only))
    if not ctx.allows_cluster(Operation.CLUSTER_ACTION):
        return messages.AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    results = await asyncio.gather(*(_one(ctx, transaction) for transaction in request.transactions))
    return messages.AddPartitionsToTxnResponse(
        results_by_transaction=[
            messages.AddPartitionsToTxnResponse.AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id, topic_results=result
            )
            for transaction, result in zip(request.transactions, results, strict=True)
        ]
    )


async def _one(ctx: RequestContext, transaction: Transaction) -> list[TopicResult]:
    partitions = {(topic.name, index): ErrorCode.NONE for topic in transaction.topics for index in topic.partitions}
    if ctx.version < VERSION_BATCHED and not ctx.allows(
        Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transaction.transactional_id
    ):
        return _results(dict.fromkeys(partitions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    failed = {partition: code for partition in partitions if (code := _refusal(ctx, partition)) is not None}
    if failed:
        return _results(dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED) | failed)
    transactions = ctx.broker.transactions
    producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
    if transaction.verify_only:
        return _results(await transactions.verify_here(transaction.transactional_id, producer, list(partitions)))
    version = VERSION_IMPLICIT if ctx.version >= VERSION_BATCHED else VERSION_OLD
    code = await transactions.add_partitions(transaction.transactional_id, producer, frozenset(partitions), version)
    code = fenced_before(VERSION_FENCED, ctx.version, code)
    # As in Kafka, each entry of the request gets the same code, also if it names a topic twice.
    return [
        TopicResult(
            name=topic.name,
            results_by_partition=[
                PartitionResult(partition_index=index, partition_error_code=code) for index in topic.partitions
            ],
        )
        for topic in transaction.topics
    ]


def _refusal(ctx: RequestContext, partition: TopicPartition) -> ErrorCode | None:
    """Why a partition cannot be part of a transaction."""
    name, index = partition
    is_client = ctx.version < VERSION_BATCHED
    if is_client and (is_internal(name) or not ctx.allows(Operation.WRITE, ResourceType.TOPIC, name)):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic = ctx.broker.image.topics.by_name(name)
    return None if topic is not None and index in topic.partitions else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _results(codes: dict[TopicPartition, ErrorCode]) -> list[TopicResult]:
    by_topic: dict[str, TopicResult] = {}
    for (topic, index), code in codes.items():
        result = by_topic.setdefault(topic, TopicResult(name=topic))
        result.results_by_partition.append(PartitionResult(partition_index=index, partition_error_code=code))
    return list(by_topic.values())
