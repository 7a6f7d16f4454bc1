"""Kafka's own tool reads the share state that this broker wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
import uvloop

from tests.broker_cy.coordinator_services.test_share_state_service import NONE, ShareBroker
from tests.support import needs
from tests.support.kafka_dump import dump_log_segments


@pytest.mark.full
@needs.kafka
def test_kafka_reads_our_share_state(tmp_path: Path) -> None:
    """If this fails, a user could not return to Apache Kafka without losing the state of every share group, nor inspect
    it with its tools.
    """
    files: list[Path] = []

    async def write() -> None:
        async with ShareBroker(tmp_path) as broker:
            await broker.prepare_share()
            assert (await broker.initialize(start_offset=10)).error_code == NONE
            assert (await broker.read(leader_epoch=4)).error_code == NONE
            # The read and the first write are updates, the second write is a snapshot.
            for offset in (10, 11):
                assert (await broker.write((offset, offset, 1, 2), leader_epoch=4)).error_code == NONE
            assert (await broker.delete()).error_code == NONE
            partition = broker.share_runtime().partition
            files.append(tmp_path / f"{partition.topic}-{partition.index}" / "00000000000000000000.log")

    uvloop.run(write())
    dump = dump_log_segments(files, "--share-group-state-decoder")
    assert dump.count("isvalid: true") == dump.count("baseOffset:") > 3
    keys = [f'"type":"{kind}","data":{{"groupId":"readers","topicId":"' for kind in (0, 1)]
    assert [dump.count(each) for each in keys] == [3, 2]
    assert '"snapshotEpoch":0,"stateEpoch":1,"leaderEpoch":0,"startOffset":10,"deliveryCompleteCount":0' in dump
    assert '"snapshotEpoch":0,"leaderEpoch":4,"startOffset":10,"deliveryCompleteCount":0,"stateBatches":[]' in dump
    assert '"firstOffset":10,"lastOffset":10,"deliveryState":2,"deliveryCount":1' in dump
    # The tool leaves out a count of -1.
    assert '"snapshotEpoch":1,"stateEpoch":1,"leaderEpoch":4,"startOffset":10,"createTimestamp":' in dump
    assert '"firstOffset":10,"lastOffset":11,"deliveryState":2,"deliveryCount":1' in dump
    assert dump.count("payload: <DELETE>") == 1
