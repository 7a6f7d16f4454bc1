"""ListOffsets over a whole broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_cy.wire import messages as m
from broker_cy.wire.records import Record, encode_batch
from tests.broker_cy.coordinator_services.group_broker import GroupBroker, run
from tests.support.loop_turns import counted_turns

PARTITIONS = 20


@pytest.mark.parametrize("timestamp", [1_000, -3])
def test_a_search_in_many_partitions_lets_others_work(tmp_path: Path, timestamp: int) -> None:
    """Each search by time may decompress a batch. If this fails, one request for 1,000 partitions keeps every other
    client waiting until the last of them is searched.
    """

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            topic = m.CreateTopicsRequest.CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1)
            await broker.call(m.CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
            batch = encode_batch([Record(0, 1_000, b"k", b"v")], codec=4)
            for index in range(PARTITIONS):
                partition = broker.server.broker.partitions.get("t", index)
                assert partition is not None
                await partition.append_records(batch, 0)
            wanted = [
                m.ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=timestamp)
                for index in range(PARTITIONS)
            ]
            request = m.ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=wanted)
            with counted_turns() as others:
                answer = await broker.call(m.ListOffsetsRequest(replica_id=-1, topics=[request]), 7)
            found = [(each.error_code, each.offset, each.timestamp) for each in answer.topics[0].partitions]
            assert found == [(0, 0, 1_000)] * PARTITIONS
            assert others.count >= PARTITIONS

    run(work)


def test_the_largest_timestamp_is_that_of_a_record_that_is_left(tmp_path: Path) -> None:
    """If this fails, a partition seems to be empty after the record with its largest timestamp was deleted."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            topic = m.CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
            await broker.call(m.CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
            partition = broker.server.broker.partitions.get("t", 0)
            assert partition is not None
            for more in (9, 4, 5):
                await partition.append_records(encode_batch([Record(0, 1_000 + more, b"k", b"v")]), 0)
            await partition.append_records(
                encode_batch([Record(0, 1_002, None, b"v"), Record(1, 1_001, None, b"v")]), 0
            )

            async def largest() -> tuple[int, int]:
                wanted = m.ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-3)
                asked = m.ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[wanted])
                answer = await broker.call(m.ListOffsetsRequest(replica_id=-1, topics=[asked]), 7)
                (found,) = answer.topics[0].partitions
                assert found.error_code == 0
                return found.offset, found.timestamp

            async def delete(offset: int) -> None:
                wanted = m.DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=offset)
                asked = m.DeleteRecordsRequest.DeleteRecordsTopic(name="t", partitions=[wanted])
                answer = await broker.call(m.DeleteRecordsRequest(topics=[asked], timeout_ms=10_000), 2)
                assert answer.topics[0].partitions[0].low_watermark == offset

            assert await largest() == (0, 1_009)
            found = []
            for start in (1, 3, 4, 5):
                await delete(start)
                found.append(await largest())
            assert found == [(2, 1_005), (3, 1_002), (4, 1_001), (-1, -1)]

    run(work)
