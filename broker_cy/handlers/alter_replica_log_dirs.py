"""AlterReplicaLogDirs, versions 1 and 2: move replicas of this broker between its data directories (KIP-113)."""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.core.errors import ErrorCode
from broker_cy.security.acls import Operation
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

Response = messages.AlterReplicaLogDirsResponse


@handler(ApiKey.ALTER_REPLICA_LOG_DIRS)
async def alter_replica_log_dirs(
    ctx: RequestContext, request: messages.AlterReplicaLogDirsRequest
) -> messages.AlterReplicaLogDirsResponse:
    """Each partition succeeds or fails by itself. If several directories name one, the last counts, as in Kafka."""
    targets = {
        (topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    if ctx.allows_cluster(Operation.ALTER):
        await ctx.broker.openings.opened(
            partition for key in targets if (partition := ctx.broker.partitions.get(*key)) is not None
        )
        moves, image = ctx.broker.directory_moves, ctx.broker.image
        results = {(topic, index): moves.alter(topic, index, path, image) for (topic, index), path in targets.items()}
    else:
        results = dict.fromkeys(targets, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    topics: dict[str, list[messages.AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult]] = {}
    for (topic, index), code in results.items():
        result = Response.AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
        topics.setdefault(topic, []).append(result)
    return Response(
        results=[
            Response.AlterReplicaLogDirTopicResult(topic_name=name, partitions=found) for name, found in topics.items()
        ]
    )
