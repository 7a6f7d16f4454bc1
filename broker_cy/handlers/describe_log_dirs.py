"""DescribeLogDirs, versions 1 to 5: the log directories, the size of each partition in them, their free space, and
whether they take new replicas (KIP-1066).
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING

from broker_cy.broker import disk_rooms
from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.control.membership.cordons import is_cordoned
from broker_cy.core.errors import ErrorCode
from broker_cy.security.acls import Operation
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

if TYPE_CHECKING:
    from broker_cy.replica.partition import Partition
    from broker_cy.storage.moves.move import Move
    from broker_cy.storage.rooms import Rooms

Response = messages.DescribeLogDirsResponse
# Kafka's size of a volume that is not known (KIP-827).
UNKNOWN = -1


@handler(ApiKey.DESCRIBE_LOG_DIRS)
async def describe_log_dirs(
    ctx: RequestContext, request: messages.DescribeLogDirsRequest
) -> messages.DescribeLogDirsResponse:
    if not ctx.allows_cluster(Operation.DESCRIBE):
        return Response(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    rooms = await disk_rooms.measured(ctx.broker)
    await ctx.broker.openings.opened(wanted(ctx, request))
    by_directory: dict[str, dict[str, list[Partition]]] = {
        directory: defaultdict(list) for directory in ctx.broker.log_manager.directories
    }
    for partition in wanted(ctx, request):
        if partition.offline is None:
            directory = os.path.dirname(partition.log.directory)
            by_directory[directory][partition.topic].append(partition)
    futures = futures_of(ctx, request)
    directories = ctx.broker.log_manager.data_directories
    failed = {each.path for each in directories if each.failure is not None or rooms.is_unreadable(each.path)}
    results = [
        failure(path) if path in failed else describe(rooms, path, topics, futures.get(path, []))
        for path, topics in by_directory.items()
    ]
    paths = {os.path.abspath(path): str(path) for path in ctx.broker.config.log_dirs}
    for each in results:
        each.is_cordoned = is_cordoned(ctx.broker.config, paths[each.log_dir])
    return Response(results=results)


def wanted(ctx: RequestContext, request: messages.DescribeLogDirsRequest) -> list[Partition]:
    """Return the requested partitions that exist; null requests all."""
    if request.topics is None:
        return list(ctx.broker.partitions)
    asked = dict.fromkeys((topic.topic, index) for topic in request.topics for index in topic.partitions)
    found = (ctx.broker.partitions.get(topic, index) for topic, index in asked)
    return [partition for partition in found if partition is not None]


def futures_of(ctx: RequestContext, request: messages.DescribeLogDirsRequest) -> dict[str, list[Move]]:
    """The requested partitions that are moved to another directory, by that directory."""
    asked = None if request.topics is None else {(topic.topic, i) for topic in request.topics for i in topic.partitions}
    found: dict[str, list[Move]] = {}
    for key, move in ctx.broker.log_manager.moves.moves.items():
        if asked is None or key in asked:
            found.setdefault(move.target.path, []).append(move)
    return found


def describe(
    rooms: Rooms, path: str, topics: dict[str, list[Partition]], futures: list[Move]
) -> messages.DescribeLogDirsResponse.DescribeLogDirsResult:
    """Describe one directory."""
    usable_bytes, total_bytes = rooms.of(path) or (UNKNOWN, UNKNOWN)
    found: dict[str, list[messages.DescribeLogDirsResponse.DescribeLogDirsPartition]] = {
        name: [
            Response.DescribeLogDirsPartition(partition_index=each.index, partition_size=each.log.size_bytes)
            for each in partitions
        ]
        for name, partitions in topics.items()
    }
    for move in futures:
        copy = Response.DescribeLogDirsPartition(
            partition_index=move.key[1],
            partition_size=move.future.size_bytes,
            # The offsets that a copy does not have yet.
            offset_lag=move.log.log_end_offset - move.future.end_offset,
            is_future_key=True,
        )
        found.setdefault(move.key[0], []).append(copy)
    return Response.DescribeLogDirsResult(
        log_dir=path,
        topics=[Response.DescribeLogDirsTopic(name=name, partitions=each) for name, each in found.items()],
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )


def failure(path: str) -> messages.DescribeLogDirsResponse.DescribeLogDirsResult:
    """The result for a directory whose disk has failed."""
    return Response.DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
