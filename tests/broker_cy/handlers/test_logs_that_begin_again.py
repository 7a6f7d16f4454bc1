"""Requests to a leader whose log was replaced by an empty one, before its followers have done the same."""

from __future__ import annotations

from pathlib import Path

from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.image import PartitionImage
from broker_cy.replica.broker_status import BrokerStatus
from broker_cy.replica.in_sync import InSync
from broker_cy.replica.partition import Partition
from broker_cy.replica.silence import FollowerSilence
from broker_cy.storage.log_truncation import restart_at
from broker_cy.wire import messages as m
from broker_cy.wire.frame import ApiKey
from tests.broker_cy.connections.harness import CoreHarness
from tests.broker_cy.coordinator_services.group_broker import GroupBroker, run

START = 70
EARLIEST, LATEST = -2, -1
CONSUMER, LEADER, FOLLOWER = -1, 1, 2
REFUSED = ErrorCode.OFFSET_NOT_AVAILABLE


def begin_again(partition: Partition) -> None:
    """Lead the partition with a follower in sync, which has none of what follows now."""
    statuses = {FOLLOWER: BrokerStatus(8, True)}
    in_sync = InSync(LEADER, statuses, 10_000, 1, FollowerSilence(0, 10_000, statuses))
    image = PartitionImage((LEADER, FOLLOWER), (LEADER, FOLLOWER), LEADER, partition.leader_epoch + 1, 1)
    partition.assign(image, True, lambda: in_sync, 0)
    assert partition.log is not None
    restart_at(partition.log, START, 0)
    partition.replica.restarted(START)


def test_consumers_read_only_when_the_followers_begin_there_too() -> None:
    """If this fails, a consumer goes on at an offset of a mirror that the next leader does not have: it gets
    OFFSET_OUT_OF_RANGE, and may read everything again.
    """
    harness = CoreHarness()
    try:
        harness.topic("t")
        partition = harness.table.get("t", 0)
        assert partition is not None
        harness.on_loop(lambda: begin_again(partition))
        client = harness.client()

        def fetch(replica_id: int) -> tuple[int, int]:
            part = m.FetchRequest.FetchPartition(
                partition=0, fetch_offset=START, log_start_offset=START, partition_max_bytes=1_000
            )
            topic = m.FetchRequest.FetchTopic(topic="t", partitions=[part])
            request = m.FetchRequest(replica_id=replica_id, max_bytes=1_000, session_epoch=-1, topics=[topic])
            answer = client.call(request, ApiKey.FETCH, 11, m.FetchResponse)
            (found,) = answer.responses[0].partitions
            return found.error_code, found.high_watermark

        assert fetch(CONSUMER) == (REFUSED, -1)
        # It acknowledges the offset: the answer has the high watermark.
        assert fetch(FOLLOWER) == (ErrorCode.NONE, START)
        assert fetch(CONSUMER) == (ErrorCode.NONE, START)
    finally:
        harness.close()


def test_consumers_are_told_no_offsets_before_that(tmp_path: Path) -> None:
    """If this fails, a consumer that resets its offset goes to one that the next leader does not have. Or followers
    cannot ask where to begin.
    """

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            topic = m.CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
            await broker.call(m.CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
            partition = broker.server.broker.partitions.get("t", 0)
            assert partition is not None

            async def offset(timestamp: int, replica_id: int, version: int = 7) -> tuple[int, int]:
                part = m.ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
                asked = m.ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[part])
                answer = await broker.call(m.ListOffsetsRequest(replica_id=replica_id, topics=[asked]), version)
                (found,) = answer.topics[0].partitions
                return found.error_code, found.offset

            begin_again(partition)
            for timestamp in (EARLIEST, LATEST, 1_000):
                assert await offset(timestamp, CONSUMER) == (REFUSED, -1)
                assert await offset(timestamp, CONSUMER, 4) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
            assert await offset(EARLIEST, FOLLOWER) == await offset(LATEST, FOLLOWER) == (ErrorCode.NONE, START)
            partition.replica.fetched(FOLLOWER, 8, START, START, 1)
            assert await offset(EARLIEST, CONSUMER) == await offset(LATEST, CONSUMER) == (ErrorCode.NONE, START)

    run(work)
