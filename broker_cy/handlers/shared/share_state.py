"""The common part of the requests to the share coordinator: all are about the share partitions of one group, and have a
result for each. Kafka answers a request without a group, without topics, or (except an initialization) with a topic
without partitions by an empty response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar
from uuid import UUID

from broker_cy.access.authorization import MESSAGES
from broker_cy.broker.context import RequestContext
from broker_cy.coordinator.share_state.answers import Outcome
from broker_cy.coordinator.share_state.state import SharePartitionKey
from broker_cy.core.errors import ErrorCode
from broker_cy.security.acls import Operation

P = TypeVar("P", bound="Partition")
R = TypeVar("R")


class Partition(Protocol):
    """A partition in a request."""

    @property
    def partition(self) -> int: ...


async def answered(
    ctx: RequestContext,
    group_id: str,
    topics: Sequence[tuple[UUID, Sequence[P]]],
    ask: Callable[[SharePartitionKey, P], Awaitable[R]],
    refused: Callable[[int, Outcome], R],
    *,
    needs_partitions: bool = True,
) -> list[tuple[UUID, list[R]]]:
    """Return the results by topic id. They are requested together: one batch of the coordinator has their records.
    Without the right to perform CLUSTER_ACTION, each is `refused(index, outcome)`.
    """
    if not ctx.allows_cluster(Operation.CLUSTER_ACTION):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return [
            (topic_id, [refused(each.partition, Outcome(code, MESSAGES[code])) for each in partitions])
            for topic_id, partitions in topics
        ]
    if not group_id or not topics or (needs_partitions and not all(partitions for _, partitions in topics)):
        return []
    # As in Kafka, the last one counts of a partition that is named twice, and a topic without any is left out.
    wanted: dict[UUID, dict[int, P]] = {}
    for topic_id, partitions in topics:
        for each in partitions:
            wanted.setdefault(topic_id, {})[each.partition] = each
    keys = [
        (SharePartitionKey(group_id, topic_id, index), each)
        for topic_id, found in wanted.items()
        for index, each in found.items()
    ]
    results: dict[UUID, list[R]] = {topic_id: [] for topic_id in wanted}
    for (key, _), result in zip(keys, await asyncio.gather(*(ask(key, each) for key, each in keys)), strict=True):
        results[key.topic_id].append(result)
    return list(results.items())


def parts_of(topics: Sequence[Any]) -> list[tuple[UUID, Sequence[Any]]]:
    """The topics of a request as (id, partitions)."""
    return [(topic.topic_id, topic.partitions) for topic in topics]
