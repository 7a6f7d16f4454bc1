"""The lag of a flow, read from both clusters: no process has to run."""

from __future__ import annotations

from broker_cy.admin import ClientError
from broker_cy.admin.metadata import TopicPartition
from broker_cy.core.errors import ErrorCode
from broker_mirror.copy.positions import committed_positions
from broker_mirror.flow_run import connect
from broker_mirror.flows import Flow
from broker_mirror.formats.source_offsets import CONNECTOR
from broker_mirror.merged import Role, Side
from broker_mirror.status import PartitionLag


async def lag_of(flow: Flow) -> list[PartitionLag]:
    """Return the partitions of a flow. Raises ClientError."""
    source = connect(flow.clients[Side.SOURCE, Role.CONSUMER])
    target = connect(flow.clients[Side.TARGET, Role.ADMIN])
    async with source, target:
        topics = await source.topics.list_all()
        copied = [topic for topic in topics if flow.copies_topic(topic.name)]
        keys = [TopicPartition(topic.name, part.partition) for topic in copied for part in topic.partitions]
        starts, ends = await source.offsets.earliest(keys), await source.offsets.latest(keys)
        try:
            committed = await committed_positions(target, flow.offsets_topic, flow.source, CONNECTOR)
        except ClientError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            committed = {}
    found = []
    for key in keys:
        position = committed[key].offset if key in committed else None
        end = ends.found.get(key)
        begin = position if position is not None else starts.found.get(key)
        lag = None if begin is None or end is None else max(0, end - begin)
        found.append(PartitionLag(str(flow.pair), key.topic, key.partition, position, end, lag))
    return found
