"""The order in which a fetcher takes the partitions of an answer, writes, and makes the next request."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any, cast

from broker_cy.core.clock import MACHINE_CLOCK
from broker_cy.metadata.image import PartitionImage
from broker_cy.replica.flush_group import FlushGroup
from broker_cy.replica.partition import Partition
from broker_cy.replica.throttle import ReplicaThrottle
from broker_cy.server.replication.fetcher import FETCH_VERSION, Follower, LeaderFetcher
from broker_cy.server.replication.links import Asking, Link, LinkFailed
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.wire import codec, messages
from broker_cy.wire.records import Record, encode_batch

CONFIG = {
    "replica.fetch.max.bytes": 1 << 20,
    "replica.fetch.wait.max.ms": 500,
    "replica.fetch.min.bytes": 1,
    "replica.fetch.response.max.bytes": 10 << 20,
    "replica.fetch.backoff.ms": 1000,
    "replica.socket.timeout.ms": 30_000,
}
TOPIC_ID = uuid.UUID(int=1, version=4)
LEADER, NODE = 1, 2
LEADER_EPOCH = 7
SESSION_ID = 5


class Leader(Link):
    """Keeps the requests; the test answers them."""

    def __init__(self) -> None:
        self.requests: asyncio.Queue[tuple[messages.FetchRequest, Asking]] = asyncio.Queue()

    async def connect(self, broker_id: int) -> Link:
        assert broker_id == LEADER
        return self

    def ask(self, api_key: int, version: int, body: bytes, asking: Asking) -> None:
        self.requests.put_nowait((codec.decode(messages.FetchRequest, version, body), asking))

    async def exchange(self, api_key: int, version: int, body: bytes, timeout_s: float) -> memoryview:
        raise LinkFailed("not part of these tests")

    def close(self) -> None: ...


def follower_of(group: FlushGroup, path: Path, index: int) -> Partition:
    log = Log.create(str(path / f"t-{index}"), "t", index, LogConfig(), 0)
    partition = Partition(group, "t", index, TOPIC_ID, log, 0)
    partition.assign(
        PartitionImage((LEADER, NODE), (LEADER, NODE), LEADER, LEADER_EPOCH, 0), False, cast(Any, None), -1
    )
    return partition


def answer(*partitions: tuple[int, int, bytes | None]) -> memoryview:
    """Of each partition its index, the high watermark and the records."""
    topic = messages.FetchResponse.FetchableTopicResponse(
        topic_id=TOPIC_ID,
        partitions=[
            messages.FetchResponse.PartitionData(partition_index=index, high_watermark=high, records=records)
            for index, high, records in partitions
        ],
    )
    return memoryview(codec.encode(messages.FetchResponse(session_id=SESSION_ID, responses=[topic]), FETCH_VERSION))


def batch() -> bytes:
    made = bytearray(encode_batch([Record(0, 1_000, b"k", b"v", [])]))
    made[12:16] = LEADER_EPOCH.to_bytes(4)
    return bytes(made)


def offsets(request: messages.FetchRequest) -> dict[int, int]:
    return {each.partition: each.fetch_offset for topic in request.topics for each in topic.partitions}


async def fetch(path: Path) -> None:
    loop, leader = asyncio.get_running_loop(), Leader()
    group = FlushGroup(cast(Any, loop), MACHINE_CLOCK)
    follower = Follower(
        NODE,
        lambda: 1,
        cast(Any, CONFIG),
        MACHINE_CLOCK,
        loop,
        leader,
        cast(Any, None),
        group.flush,
        ReplicaThrottle(11, 1000),
    )
    fetcher = LeaderFetcher(follower, LEADER)
    partitions = [follower_of(group, path, index) for index in range(3)]
    for partition in partitions:
        fetcher.add(partition)
    try:
        request, asking = await leader.requests.get()
        assert offsets(request) == {0: 0, 1: 0, 2: 0}
        asking.answered(answer((0, 0, batch())))
        request, asking = await leader.requests.get()
        assert offsets(request) == {0: 1}
        # The high watermark alone wakes who waits at the first partition, this fetcher, too; the others have records.
        asking.answered(answer((0, 1, None), (1, 0, batch()), (2, 0, batch())))
        request, asking = await leader.requests.get()
        assert offsets(request) == {1: 1, 2: 1}
        assert request.forgotten_topics_data == []
        assert [partition.high_watermark for partition in partitions] == [1, 0, 0]
    finally:
        fetcher.close()


def test_the_next_request_acknowledges_all_that_an_answer_has(tmp_path: Path) -> None:
    """If this fails, the leader waits for the acknowledgement of a record until replica.fetch.wait.max.ms is over."""
    asyncio.run(fetch(tmp_path))
