"""ListOffsets over a whole broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_cy.wire import messages as m
from broker_cy.wire.records import Record, encode_batch
from tests.broker_cy.server.group_broker import GroupBroker, run
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
