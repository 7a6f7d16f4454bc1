"""The state of share partitions, for group coordinators and administrators: requests of a group to the share
coordinator, and the start offsets and lags of a group.

Unlike in Kafka, a leader that cannot be asked for the end of its partition is not asked again: clients repeat the
request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from broker_cy.coordinator.share.state_calls import DeleteState, InitializeState, Outcomes
from broker_cy.coordinator.share_state.answers import Outcome, SummaryRead, message_of
from broker_cy.coordinator.share_state.state import NO_COUNT, NO_START_OFFSET, SharePartitionKey
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.image import NO_LEADER
from broker_cy.replica.replica import Role
from broker_cy.wire import messages

if TYPE_CHECKING:
    from broker_cy.coordinator_services.share_persister import SharePersister
    from broker_cy.metadata.image import MetadataImage
    from broker_cy.network.broker_calls import Caller
    from broker_cy.partitions.openings import Openings
    from broker_cy.replica.partition_table import PartitionTable

Response = messages.DescribeShareGroupOffsetsResponse
ResponsePartition = Response.DescribeShareGroupOffsetsResponsePartition

NO_LAG: Final = -1
LATEST: Final = -1  # the time of ListOffsets that stands for the end
CONSUMER: Final = -1  # the replica id of a client
READ_UNCOMMITTED: Final = 0


class TopicPlace(NamedTuple):
    """A partition by the name of its topic."""

    topic: str
    partition: int


class ShareGroups:
    """`image` returns the committed metadata. `calls` has the connections to other brokers."""

    def __init__(
        self,
        node_id: int,
        image: Callable[[], MetadataImage],
        partitions: PartitionTable,
        openings: Openings,
        persister: SharePersister,
        calls: Caller,
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._partitions = partitions
        self._openings = openings
        self._persister = persister
        self._calls = calls

    # ---- for group coordinators ----

    async def initialize(self, request: InitializeState) -> Outcomes:
        starts = {
            SharePartitionKey(request.group_id, topic_id, partition): offset
            for topic_id, offsets in request.start_offsets.items()
            for partition, offset in offsets.items()
        }
        return await _together({key: self._initialize(request, key, offset) for key, offset in starts.items()})

    async def _initialize(self, request: InitializeState, key: SharePartitionKey, start_offset: int) -> Outcome:
        if request.keeps:
            known = await self._persister.read_summary(key)
            if known.code is not ErrorCode.NONE:
                return Outcome(known.code, known.message)
            if known.state_epoch > request.state_epoch:
                code = ErrorCode.FENCED_STATE_EPOCH
                return Outcome(code, message_of(code))
            # The epoch of a group is at least 1, and 0 stands for no state.
            if known.state_epoch > 0:
                return Outcome()
        return await self._persister.initialize(key, request.state_epoch, start_offset)

    async def delete(self, request: DeleteState) -> Outcomes:
        keys = [
            SharePartitionKey(group_id, topic_id, partition)
            for group_id, partitions in request.groups.items()
            for topic_id, numbers in partitions.items()
            for partition in sorted(numbers)
        ]
        return await _together({key: self._persister.delete(key) for key in keys})

    # ---- DescribeShareGroupOffsets ----

    async def describe_offsets(
        self, group_id: str, wanted: Mapping[str, Iterable[int]]
    ) -> list[Response.DescribeShareGroupOffsetsResponseTopic]:
        """The start offsets of the partitions of these topics, by name, and the number of records that the group has
        still to finish (KIP-1226). As in Kafka, a partition has no error if the share coordinator cannot be asked, or
        if it does not exist: it has no start offset. Kafka answers that after it has asked the coordinator five times,
        15 s later; here a partition without metadata is not asked for.
        """
        topics = self._image().topics
        known = {name: topic for name in wanted if (topic := topics.by_name(name)) is not None}
        ids = {name: topic.topic_id for name, topic in known.items()}
        places = [
            TopicPlace(name, partition)
            for name, topic in known.items()
            for partition in wanted[name]
            if partition in topic.partitions
        ]
        keys = {place: SharePartitionKey(group_id, ids[place.topic], place.partition) for place in places}
        reads = await asyncio.gather(*(self._persister.read_summary(key) for key in keys.values()))
        found = dict(zip(keys, reads, strict=True))
        ends = await self._ends([place for place, read in found.items() if _has_lag(read)])
        described = []
        for name, partitions in wanted.items():
            answer = Response.DescribeShareGroupOffsetsResponseTopic(topic_name=name)
            if name in ids:
                answer.topic_id = ids[name]
            for partition in partitions:
                read = found.get(TopicPlace(name, partition))
                answer.partitions.append(_described(partition, read, ends.get(TopicPlace(name, partition))))
            described.append(answer)
        return described

    async def _ends(self, places: Iterable[TopicPlace]) -> dict[TopicPlace, int | ErrorCode]:
        """The high watermark of each partition, or the code of its leader."""
        ends: dict[TopicPlace, int | ErrorCode] = {}
        here: list[TopicPlace] = []
        elsewhere: dict[int, list[TopicPlace]] = {}
        topics = self._image().topics
        for place in places:
            topic = topics.by_name(place.topic)
            known = None if topic is None else topic.partitions.get(place.partition)
            if known is None or known.leader == NO_LEADER:
                ends[place] = ErrorCode.LEADER_NOT_AVAILABLE
            elif known.leader == self._node_id:
                here.append(place)
            else:
                elsewhere.setdefault(known.leader, []).append(place)
        await self._openings.opened(self._partitions.get(*place) for place in here)
        ends |= {place: self._end(place) for place in here}
        for found in await asyncio.gather(*(self._ask(broker_id, each) for broker_id, each in elsewhere.items())):
            ends |= found
        return ends

    def _end(self, place: TopicPlace) -> int | ErrorCode:
        partition = self._partitions.get(*place)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if partition.offline is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if partition.replica.role != Role.LEADER:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return partition.high_watermark

    async def _ask(self, broker_id: int, places: Iterable[TopicPlace]) -> dict[TopicPlace, int | ErrorCode]:
        topics: dict[str, list[messages.ListOffsetsRequest.ListOffsetsPartition]] = {}
        for place in places:
            topics.setdefault(place.topic, []).append(
                messages.ListOffsetsRequest.ListOffsetsPartition(partition_index=place.partition, timestamp=LATEST)
            )
        request = messages.ListOffsetsRequest(
            replica_id=CONSUMER,
            isolation_level=READ_UNCOMMITTED,
            topics=[
                messages.ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=partitions)
                for name, partitions in topics.items()
            ],
        )
        ends: dict[TopicPlace, int | ErrorCode] = dict.fromkeys(places, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        try:
            response = await self._calls.ask(broker_id, request, messages.ListOffsetsResponse)
        except KafkaError as error:
            is_transient = error.code is ErrorCode.NETWORK_EXCEPTION
            return dict.fromkeys(places, error.code if is_transient else ErrorCode.UNKNOWN_SERVER_ERROR)
        for topic in response.topics:
            for each in topic.partitions:
                code = ErrorCode(each.error_code)
                ends[TopicPlace(topic.name, each.partition_index)] = each.offset if code is ErrorCode.NONE else code
        return ends


async def _together(asked: Mapping[SharePartitionKey, Awaitable[Outcome]]) -> Outcomes:
    return dict(zip(asked, await asyncio.gather(*asked.values()), strict=True))


def _has_lag(read: SummaryRead) -> bool:
    return (
        read.code is ErrorCode.NONE
        and read.start_offset != NO_START_OFFSET
        and read.delivery_complete_count != NO_COUNT
    )


def _described(partition: int, read: SummaryRead | None, end: int | ErrorCode | None) -> ResponsePartition:
    if read is None or read.code is not ErrorCode.NONE:
        return ResponsePartition(partition_index=partition, start_offset=NO_START_OFFSET, lag=NO_LAG)
    if isinstance(end, ErrorCode):
        return ResponsePartition(partition_index=partition, error_code=end, error_message=message_of(end))
    return ResponsePartition(
        partition_index=partition,
        start_offset=read.start_offset,
        leader_epoch=read.leader_epoch,
        lag=NO_LAG if end is None else _int64(end - read.start_offset - read.delivery_complete_count),
    )


def _int64(number: int) -> int:
    """Any start offset may be set, so the lag of a partition may need more bits than its field has; as in Java, the
    upper ones are lost.
    """
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
