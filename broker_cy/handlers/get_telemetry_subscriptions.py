"""GetTelemetrySubscriptions, version 0 (KIP-714): no metrics of clients are wanted.

As in Kafka without a plugin for client metrics, ApiVersions does not advertise this API, but a request is still
answered. Omissions: PushTelemetry, because a client does not send it after this answer.
"""

from __future__ import annotations

from uuid import UUID

from broker_cy.broker.client_instances import PUSH_INTERVAL_MS
from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.core import crc32c
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from broker_cy.wire.compression import Codec
from broker_cy.wire.frame import ApiKey

NEW = UUID(int=0)
# The values that Kafka accepts, in its order.
COMPRESSION_TYPES = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)


@handler(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS)
def get_telemetry_subscriptions(
    ctx: RequestContext, request: messages.GetTelemetrySubscriptionsRequest
) -> messages.GetTelemetrySubscriptionsResponse:
    client_id = request.client_instance_id
    if client_id == NEW:
        client_id = ctx.broker.randomness.kafka_uuid()
    if not ctx.broker.client_instances.may_ask(client_id):
        return messages.GetTelemetrySubscriptionsResponse(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    return messages.GetTelemetrySubscriptionsResponse(
        client_instance_id=client_id,
        subscription_id=subscription_id(client_id),
        accepted_compression_types=[int(codec) for codec in COMPRESSION_TYPES],
        push_interval_ms=PUSH_INTERVAL_MS,
        telemetry_max_bytes=ctx.broker.config["telemetry.max.bytes"],
        delta_temporality=True,
    )


def subscription_id(client_id: UUID) -> int:
    """Kafka's id of a subscription without metrics: a checksum of its content, and the hash code of the client's id."""
    halves = (client_id.int >> 64) ^ (client_id.int & (1 << 64) - 1)
    hashed = (halves >> 32) ^ (halves & 0xFFFF_FFFF)
    found = crc32c.value(b"[]%d" % PUSH_INTERVAL_MS) ^ hashed
    return found - (1 << 32) if found >= 1 << 31 else found
