"""Kafka's own tool reads the group records that this broker wrote."""

from __future__ import annotations

from pathlib import Path

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from tests.broker_cy.coordinator_services.group_broker import GROUP, GroupBroker, run
from tests.support.kafka_dump import dump_log_segments


def test_kafka_reads_our_group_records(tmp_path: Path) -> None:
    """If this fails, a user could not return to Apache Kafka without losing every group, nor inspect them with its
    tools.
    """
    files: list[Path] = []

    async def write() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            me = (await broker.member()).member_id
            request = messages.SyncGroupRequest(
                group_id=GROUP,
                generation_id=1,
                member_id=me,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[messages.SyncGroupRequest.SyncGroupRequestAssignment(member_id=me, assignment=b"\0\0")],
            )
            assert (await broker.call(request, 5)).error_code == ErrorCode.NONE
            await broker.commit(42, member_id=me, generation_id_or_member_epoch=1)
            leave = messages.LeaveGroupRequest(
                group_id=GROUP, members=[messages.LeaveGroupRequest.MemberIdentity(member_id=me)]
            )
            await broker.call(leave, 5)
            await broker.call(messages.DeleteGroupsRequest(groups_names=[GROUP]), 2)
            partition = broker.runtime().partition
            files.append(tmp_path / f"{partition.topic}-{partition.index}" / "00000000000000000000.log")

    run(write)
    dump = dump_log_segments(files, "--offsets-decoder")
    assert dump.count("isvalid: true") == dump.count("baseOffset:") > 3
    assert '"type":"2","data":{"group":"readers"}' in dump
    assert '"protocolType":"consumer","generation":1,"protocol":"range"' in dump
    assert '"type":"1","data":{"group":"readers","topic":"t","partition":0}' in dump
    assert '"offset":42' in dump
    assert dump.count("payload: <DELETE>") == 2
