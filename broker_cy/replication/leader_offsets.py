"""ListOffsets of a follower: where the logs of a leader begin and end, after a fetch beyond them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import codec, messages
from broker_cy.wire.frame import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker_cy.replica.partition import Partition
    from broker_cy.replication.fetch_session_handler import Fetched
    from broker_cy.replication.links import Link

VERSION: Final = 7
EARLIEST: Final = -2
LATEST: Final = -1


async def leader_offsets(
    link: Link,
    node_id: int,
    found: list[Fetched],
    timestamp: int,
    timeout_s: float,
    name_of: Callable[[Partition], str],
) -> dict[tuple[str, int], int]:
    """The offset at `timestamp` (EARLIEST or LATEST) of each partition that the leader has, by topic and partition;
    `name_of` is the name of a topic at the leader. Raises LinkFailed, WireError.
    """
    topics: dict[str, list[messages.ListOffsetsRequest.ListOffsetsPartition]] = {}
    for each in found:
        topics.setdefault(name_of(each.partition), []).append(
            messages.ListOffsetsRequest.ListOffsetsPartition(
                partition_index=each.partition.index,
                current_leader_epoch=each.asked.leader_epoch,
                timestamp=timestamp,
            )
        )
    request = messages.ListOffsetsRequest(
        replica_id=node_id,
        topics=[
            messages.ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=each) for name, each in topics.items()
        ],
    )
    data = await link.exchange(ApiKey.LIST_OFFSETS, VERSION, codec.encode(request, VERSION), timeout_s)
    response = codec.decode(messages.ListOffsetsResponse, VERSION, data)
    return {
        (topic.name, each.partition_index): each.offset
        for topic in response.topics
        for each in topic.partitions
        if each.error_code == ErrorCode.NONE
    }
