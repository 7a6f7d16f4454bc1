"""WriteTxnMarkers, versions 1 and 2 (transaction version, KIP-1228): transaction markers into this broker's partitions.

For transaction coordinators on other brokers, and for administrators that end a hanging transaction
(kafka-transactions.sh abort). A coordinator writes the markers for partitions of its own broker itself.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.core.errors import ErrorCode
from broker_cy.security.acls import Operation
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

Result = messages.WriteTxnMarkersResponse.WritableTxnMarkerResult


@handler(ApiKey.WRITE_TXN_MARKERS)
async def write_txn_markers(
    ctx: RequestContext, request: messages.WriteTxnMarkersRequest
) -> messages.WriteTxnMarkersResponse:
    if not (ctx.allows_cluster(Operation.ALTER, in_list=True) or ctx.allows_cluster(Operation.CLUSTER_ACTION)):
        return _refused(request)
    writes = [
        (
            marker.producer_id,
            ctx.broker.txn_markers.write(
                marker.producer_id,
                marker.producer_epoch,
                marker.coordinator_epoch,
                marker.transaction_result,
                [(topic.name, index) for topic in marker.topics for index in topic.partition_indexes],
                marker.transaction_version,
            ),
        )
        for marker in request.markers
    ]
    # As in Kafka, markers of one producer share a place in the answer.
    by_producer: dict[int, dict[tuple[str, int], ErrorCode]] = {}
    for producer_id, written in writes:
        by_producer.setdefault(producer_id, {}).update(await written)
    return messages.WriteTxnMarkersResponse(
        # A marker without partitions has no entry in the answer.
        markers=[_result(producer_id, codes) for producer_id, codes in by_producer.items() if codes]
    )


def _refused(request: messages.WriteTxnMarkersRequest) -> messages.WriteTxnMarkersResponse:
    refused: dict[int, dict[tuple[str, int], ErrorCode]] = {}
    for marker in request.markers:
        refused.setdefault(marker.producer_id, {}).update(
            ((topic.name, index), ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            for topic in marker.topics
            for index in topic.partition_indexes
        )
    return messages.WriteTxnMarkersResponse(markers=[_result(each, codes) for each, codes in refused.items()])


def _result(producer_id: int, codes: dict[tuple[str, int], ErrorCode]) -> Result:
    topics: dict[str, list[messages.WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult]] = {}
    for (topic, index), code in codes.items():
        topics.setdefault(topic, []).append(
            messages.WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
        )
    return Result(
        producer_id=producer_id,
        topics=[
            messages.WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
    )
