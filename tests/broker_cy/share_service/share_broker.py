"""A broker with share groups, and members of them on connections of their own."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from broker_cy.coordinator.share_state.state import SharePartitionKey
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.features import SHARE_VERSION
from broker_cy.share.share_partition import SharePartition
from broker_cy.share_service.share_service import ShareService
from broker_cy.wire import messages as m
from broker_cy.wire.records import Record, decode_batches, encode_batch
from tests.broker_cy.coordinator_services.group_broker import GroupBroker, until
from tests.broker_cy.coordinator_services.group_client import Connection

NONE = int(ErrorCode.NONE)
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "1",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "1000",
}


class ShareBroker(GroupBroker):
    def __init__(self, path: Path, settings: dict[str, str] | None = None) -> None:
        super().__init__(path, SETTINGS | (settings or {}))
        self._connections: list[Connection] = []

    async def __aenter__(self) -> ShareBroker:
        await super().__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in self._connections:
            connection.writer.close()
        await super().__aexit__()

    @property
    def share(self) -> ShareService:
        return self.server.broker.share

    async def connect(self) -> Connection:
        connection = Connection(*await asyncio.open_connection("127.0.0.1", self.server.listeners[0].port))
        self._connections.append(connection)
        return connection

    async def consumer(self, name: str, group_id: str = "g", version: int = 2) -> Member:
        return Member(await self.connect(), group_id, name, version)

    async def topic(self, name: str = "t", group_ids: Iterable[str] = ("g",), start_offset: int = 0) -> UUID:
        """Create a topic with two partitions, which groups begin at `start_offset`; -1: as their setting has it."""
        await self.prepare(name)
        found = self.server.broker.image.topics.by_name(name)
        assert found is not None
        for group_id, index in itertools.product(group_ids, range(2)):
            await self.initialize(group_id, found.topic_id, index, start_offset)
        return found.topic_id

    async def initialize(self, group_id: str, topic_id: UUID, index: int, start_offset: int, epoch: int = 1) -> None:
        key = SharePartitionKey(group_id, topic_id, index)
        outcome = await self.server.broker.share_persister.initialize(key, epoch, start_offset)
        assert outcome.code == NONE, outcome

    def shares(self) -> list[SharePartition]:
        return [share for key in self.share.table if (share := self.share.table.get(key)) is not None]

    def is_waiting(self, group_id: str) -> bool:
        """Whether a fetch of the group waits for records."""
        table = self.share.table
        return any(table.waiting(key) for key in table.keys_of_group(group_id))

    async def configure_group(self, group_id: str, name: str, value: str) -> None:
        request = m.IncrementalAlterConfigsRequest
        config = request.AlterableConfig(name=name, config_operation=0, value=value)
        resource = request.AlterConfigsResource(resource_type=32, resource_name=group_id, configs=[config])
        answer = await self.call(request(resources=[resource]), 1)
        assert answer.responses[0].error_code == NONE, answer.responses[0]

    async def set_share_version(self, level: int) -> None:
        update = m.UpdateFeaturesRequest.FeatureUpdateKey(
            feature=SHARE_VERSION, max_version_level=level, upgrade_type=1 if level else 2
        )
        answer = await self.call(m.UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=[update]), 2)
        assert answer.error_code == NONE, answer
        await until(lambda: self.share.is_enabled == bool(level))

    async def limit_fetches(self, bytes_a_second: int) -> None:
        """Give all users a quota."""
        request = m.AlterClientQuotasRequest
        entry = request.EntryData(
            entity=[request.EntityData(entity_type="user", entity_name=None)],
            ops=[request.OpData(key="consumer_byte_rate", value=float(bytes_a_second), remove=False)],
        )
        answer = await self.call(request(entries=[entry]), 1)
        assert answer.entries[0].error_code == NONE
        await until(lambda: self.server.broker.quotas.is_on)

    async def delete(self, name: str) -> None:
        state = m.DeleteTopicsRequest.DeleteTopicState(name=name)
        answer = await self.call(m.DeleteTopicsRequest(topics=[state], timeout_ms=10_000), 6)
        assert answer.responses[0].error_code == NONE

    async def produce(self, count: int, batches: int = 1, index: int = 0, topic: str = "t", size: int = 10) -> None:
        """Append batches of `count` records."""
        partition = self.server.broker.partitions.get(topic, index)
        assert partition is not None
        for _ in range(batches):
            records = [Record(offset=0, timestamp=0, key=None, value=b"v" * size)] * count
            await partition.append_records(encode_batch(records), self.server.clock.wall_ms())


class Range(NamedTuple):
    first: int
    last: int
    deliveries: int


class Member:
    """A member that keeps the epoch of its session. `last` is its last answer."""

    def __init__(self, connection: Connection, group_id: str, name: str, version: int) -> None:
        self.connection = connection
        self.group_id = group_id
        self.name = name
        self.version = version
        self.epoch = 0
        self.last: Any = None

    async def fetch(
        self,
        topic_id: UUID | None = None,
        partitions: Iterable[int] = (0,),
        acks: Iterable[tuple[int, int, list[int]]] = (),
        *,
        wait_ms: int = 0,
        max_records: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        batch_size: int = 500,
        mode: int = 0,
        epoch: int | None = None,
        renew: bool = False,
        forget: Iterable[int] = (),
    ) -> list[Range]:
        """Send a fetch; returns the ranges that were acquired of the partition 0."""
        request = m.ShareFetchRequest
        batches = [
            request.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=kinds)
            for first, last, kinds in acks
        ]
        topics = []
        if topic_id is not None:
            topics = [
                request.FetchTopic(
                    topic_id=topic_id,
                    partitions=[
                        request.FetchPartition(
                            partition_index=index, acknowledgement_batches=batches if index == 0 else []
                        )
                        for index in partitions
                    ],
                )
            ]
        sent = request(
            group_id=self.group_id,
            member_id=self.name,
            share_session_epoch=self.epoch if epoch is None else epoch,
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            max_records=max_records,
            batch_size=batch_size,
            topics=topics,
        )
        if self.version >= 2:
            sent.share_acquire_mode, sent.is_renew_ack = mode, renew
        if topic_id is not None and (forgotten := list(forget)):
            sent.forgotten_topics_data = [request.ForgottenTopic(topic_id=topic_id, partitions=forgotten)]
        self.last = await self.connection.call(sent, self.version)
        if self.last.error_code == NONE and epoch is None:
            self.epoch += 1
        found = self.part(0)
        return [] if found is None else ranges(found)

    def part(self, index: int) -> Any:
        """The result of a partition in the last answer; None if it is not named."""
        for topic in self.last.responses:
            for part in topic.partitions:
                if part.partition_index == index:
                    return part
        return None

    def offsets(self, index: int = 0) -> list[int]:
        """The offsets of the records in the last answer, acquired or not."""
        part = self.part(index)
        found: list[int] = []
        for batch in decode_batches(part.records or b"") if part is not None else ():
            found.extend(range(batch.base_offset, batch.last_offset + 1))
        return found

    async def acknowledge(
        self, topic_id: UUID, *acks: tuple[int, int, list[int]], epoch: int | None = None, renew: bool = False
    ) -> int:
        """Send ShareAcknowledge; returns the error of the partition 0, or that of the request."""
        request = m.ShareAcknowledgeRequest
        batches = [
            request.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=kinds)
            for first, last, kinds in acks
        ]
        part = request.AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
        sent = request(
            group_id=self.group_id,
            member_id=self.name,
            share_session_epoch=self.epoch if epoch is None else epoch,
            topics=[request.AcknowledgeTopic(topic_id=topic_id, partitions=[part])] if batches else [],
        )
        if self.version >= 2:
            sent.is_renew_ack = renew
        self.last = await self.connection.call(sent, self.version)
        if self.last.error_code == NONE and epoch is None:
            self.epoch += 1
        found = self.part(0)
        return int(self.last.error_code or (found.error_code if found is not None else NONE))


def ranges(part: Any) -> list[Range]:
    return [Range(each.first_offset, each.last_offset, each.delivery_count) for each in part.acquired_records]


__all__ = ["Member", "Range", "ShareBroker", "until"]
