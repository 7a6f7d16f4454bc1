"""Requests for partitions whose logs are not open yet: they wait, and are answered as usual."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.storage import log_loader, log_loading
from broker_cy.storage.data_directory import CLEAN_SHUTDOWN
from broker_cy.storage.log import Log
from broker_cy.telemetry.metrics_page import render
from broker_cy.wire import messages
from broker_cy.wire.records import Record, encode_batch
from tests.broker_cy.coordinator_services.group_broker import GroupBroker, run, until
from tests.broker_cy.coordinator_services.group_client import Connection

m = messages
RECORDS = 3


class Gate:
    """Prevents the logs of topics from being opened until `open`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *topics: str) -> None:
        self._open = threading.Event()
        self.begun: list[str] = []
        self.fails = False
        load_log = log_loader.load_log

        def held(directory: str, topic: str, *arguments: Any) -> Log:
            if topic in topics:
                self.begun.append(f"{topic}-{arguments[0]}")
                assert self._open.wait(30)
                if self.fails:
                    raise OSError(5, "Input/output error", directory)
            return load_log(directory, topic, *arguments)

        monkeypatch.setattr(log_loading, "load_log", held)

    def open(self, *, fails: bool = False) -> None:
        self.fails = fails
        self._open.set()


def produce(*partitions: tuple[str, int], acks: int = -1) -> Any:
    batch = encode_batch([Record(number, 1_000, b"k", b"v") for number in range(RECORDS)])
    data = m.ProduceRequest.PartitionProduceData
    return m.ProduceRequest(
        acks=acks,
        timeout_ms=10_000,
        topic_data=[
            m.ProduceRequest.TopicProduceData(name=topic, partition_data=[data(index=index, records=batch)])
            for topic, index in partitions
        ],
    )


def fetch(topic: str, index: int, offset: int = 0) -> Any:
    wanted = m.FetchRequest.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
    return m.FetchRequest(
        max_wait_ms=10,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[m.FetchRequest.FetchTopic(topic=topic, partitions=[wanted])],
    )


def offsets(answer: Any) -> list[tuple[int, int]]:
    """Return (error, base offset) for each partition of a response to Produce."""
    return [(each.error_code, each.base_offset) for topic in answer.responses for each in topic.partition_responses]


async def partition_gauges(broker: GroupBroker) -> dict[str, int]:
    """The numbers of partitions on the metrics page, by the end of their names."""
    server = broker.server
    page = (await render(server.broker, server._core, server._watch)).decode()
    found = re.findall(r"^broker_cy_partitions_(\w+) (\d+)$", page, re.MULTILINE)
    return {name: int(count) for name, count in found}


@asynccontextmanager
async def connected(broker: GroupBroker, count: int = 1) -> AsyncIterator[list[Connection]]:
    host, port = "127.0.0.1", broker.server.listeners[0].port
    found = [Connection(*await asyncio.open_connection(host, port)) for _ in range(count)]
    yield found
    for each in found:
        each.writer.close()


async def prepare(path: Path) -> None:
    """Create topics with two partitions and RECORDS records in each, then stop cleanly."""
    async with GroupBroker(path) as broker:
        await broker.prepare("held", "free")
        async with connected(broker) as (client,):
            for topic in ("held", "free"):
                for index in range(2):
                    assert offsets(await client.call(produce((topic, index)), 9)) == [(0, 0)]


def test_every_kind_of_request_waits_for_its_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a client that connects directly after a start gets KAFKA_STORAGE_ERROR, or sees an empty log."""

    async def work() -> None:
        await prepare(tmp_path)
        gate = Gate(monkeypatch, "held")
        async with GroupBroker(tmp_path) as broker:
            requests = [
                (produce(("free", 0), ("held", 0)), 9),
                (fetch("held", 0), 11),
                (list_offsets("held", 1), 7),
                (epoch_end("held", 1), 4),
                (
                    m.DescribeProducersRequest(
                        topics=[m.DescribeProducersRequest.TopicRequest(name="held", partition_indexes=[1])]
                    ),
                    0,
                ),
                (m.DescribeLogDirsRequest(topics=None), 4),
                (delete_records("held", 1, 1), 2),
                (markers("held", 1), 1),
            ]
            async with connected(broker, len(requests) + 1) as (other, *clients):
                calls = [asyncio.create_task(c.call(*request)) for c, request in zip(clients, requests, strict=True)]
                # Requests for other partitions are served in the meantime.
                answer = await other.call(produce(("free", 1)), 9)
                assert offsets(answer) == [(0, RECORDS)]
                answer = await other.call(fetch("free", 0), 11)
                assert answer.responses[0].partitions[0].high_watermark == RECORDS
                await until(lambda: len(gate.begun) == 2)
                assert not [call for call in calls if call.done()]
                assert await partition_gauges(broker) == {"offline": 0, "unopened": 2}
                gate.open()
                answers = await asyncio.gather(*calls)
            assert await partition_gauges(broker) == {"offline": 0, "unopened": 0}
            assert offsets(answers[0]) == [(0, RECORDS), (0, RECORDS)]
            found = answers[1].responses[0].partitions[0]
            assert (found.error_code, found.records is not None) == (0, True)
            found = answers[2].topics[0].partitions[0]
            assert found.error_code == 0
            assert found.offset >= RECORDS
            found = answers[3].topics[0].partitions[0]
            assert found.error_code == 0
            assert found.end_offset >= RECORDS
            assert answers[4].topics[0].partitions[0].error_code == 0
            sizes = {
                (topic.name, each.partition_index): each.partition_size
                for topic in answers[5].results[0].topics
                for each in topic.partitions
            }
            assert sizes["held", 1] > 0
            assert answers[6].topics[0].partitions[0].error_code == 0
            assert answers[6].topics[0].partitions[0].low_watermark == 1
            assert answers[7].markers[0].topics[0].partitions[0].error_code == 0
            assert not broker.server.broker.log_manager.unopened

    run(work)


def test_who_has_to_wait_for_a_quota_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a producer beyond its quota that also had to wait for a log is not served for a while and does not
    know why: its next request may be considered lost.
    """

    async def work() -> None:
        await prepare(tmp_path)
        gate = Gate(monkeypatch, "held")
        request = m.AlterClientQuotasRequest
        op = request.OpData(key="producer_byte_rate", value=10.0, remove=False)
        entity = request.EntityData(entity_type="user", entity_name=None)
        quota = request(entries=[request.EntryData(entity=[entity], ops=[op])])
        async with GroupBroker(tmp_path) as broker, connected(broker, 2) as (client, other):
            assert (await other.call(quota, 1)).entries[0].error_code == 0
            call = asyncio.create_task(client.call(produce(("held", 0), ("none", 0)), 9))
            await until(lambda: "held-0" in gate.begun)
            gate.open()
            answer = await call
            assert offsets(answer) == [(0, RECORDS), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]
            assert answer.throttle_time_ms > 0

    run(work)


def list_offsets(topic: str, index: int) -> Any:
    wanted = m.ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=-1)
    return m.ListOffsetsRequest(
        replica_id=-1, topics=[m.ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[wanted])]
    )


def epoch_end(topic: str, index: int) -> Any:
    wanted = m.OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
        partition=index, current_leader_epoch=-1, leader_epoch=0
    )
    return m.OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[m.OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=topic, partitions=[wanted])]
    )


def delete_records(topic: str, index: int, offset: int) -> Any:
    wanted = m.DeleteRecordsRequest.DeleteRecordsPartition(partition_index=index, offset=offset)
    return m.DeleteRecordsRequest(
        timeout_ms=1_000, topics=[m.DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=[wanted])]
    )


def markers(topic: str, index: int) -> Any:
    wanted = m.WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=5,
        producer_epoch=0,
        transaction_result=False,
        coordinator_epoch=0,
        topics=[m.WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
    )
    return m.WriteTxnMarkersRequest(markers=[wanted])


@pytest.mark.parametrize("acks", [-1, 0])
def test_requests_of_one_connection_keep_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acks: int
) -> None:
    """If this fails, a request overtakes one that waits for its partition, and sequences are out of order."""

    async def work() -> None:
        await prepare(tmp_path)
        gate = Gate(monkeypatch, "held")
        async with GroupBroker(tmp_path) as broker, connected(broker) as (client,):
            for _ in range(3):
                client.writer.write(framed(produce(("free", 0), ("held", 0), acks=acks), 9))
            await until(lambda: "held-0" in gate.begun)
            free = broker.server.broker.partitions.get("free", 0)
            assert free is not None
            gate.open()
            await until(lambda: not free.unopened and free.high_watermark == 4 * RECORDS)
            held = broker.server.broker.partitions.get("held", 0)
            assert held is not None
            assert held.high_watermark == 4 * RECORDS
            if acks:
                for number in range(1, 4):
                    size = int.from_bytes(await client.reader.readexactly(4))
                    assert len(await client.reader.readexactly(size)) == size, number

    run(work)


def framed(request: Any, version: int) -> bytes:
    import struct

    from broker_cy.wire import codec

    header = struct.pack(">hhih", 0, version, 1, 4) + b"test\0"
    body = codec.encode(request, version)
    return struct.pack(">i", len(header) + len(body)) + header + body


def test_a_log_that_cannot_be_opened_is_answered_as_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, clients wait forever for a partition whose disk is broken."""

    async def work() -> None:
        await prepare(tmp_path)
        gate = Gate(monkeypatch, "held")
        async with GroupBroker(tmp_path) as broker, connected(broker, 2) as clients:
            calls = [
                asyncio.create_task(clients[0].call(produce(("held", 0)), 9)),
                asyncio.create_task(clients[1].call(fetch("held", 0), 11)),
            ]
            await until(lambda: "held-0" in gate.begun)
            gate.open(fails=True)
            written, read = await asyncio.gather(*calls)
            assert offsets(written) == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)]
            assert read.responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
            logs = broker.server.broker.log_manager
            await until(lambda: not logs.unopened)
            assert set(logs.offline) == {("held", 0), ("held", 1)}
        assert not (tmp_path / CLEAN_SHUTDOWN).exists()

    run(work)


def test_a_topic_is_deleted_and_created_again_before_it_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a request for a deleted topic waits forever, or the new topic has the old one's records."""

    async def work() -> None:
        await prepare(tmp_path)
        gate = Gate(monkeypatch, "free")
        async with GroupBroker(tmp_path) as broker, connected(broker, 3) as (other, *clients):
            # As many logs as allowed are being opened, none of them of this topic.
            await until(lambda: len(gate.begun) == 2)
            calls = [
                asyncio.create_task(clients[0].call(produce(("held", 0)), 9)),
                asyncio.create_task(clients[1].call(list_offsets("held", 0), 7)),
            ]
            answer = await other.call(
                m.DeleteTopicsRequest(topics=[m.DeleteTopicsRequest.DeleteTopicState(name="held")], timeout_ms=9_000), 6
            )
            assert answer.responses[0].error_code == 0
            written, found = await asyncio.gather(*calls)
            assert offsets(written) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]
            assert found.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            await broker.prepare("held")
            assert offsets(await other.call(produce(("held", 0)), 9)) == [(0, 0)]
            gate.open()
            answer = await other.call(fetch("free", 0), 11)
            assert answer.responses[0].partitions[0].high_watermark == RECORDS

    run(work)


def test_a_stop_while_logs_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the stop waits for all of them, or a log that was opened in part counts as clean."""

    async def work() -> None:
        await prepare(tmp_path)
        gate = Gate(monkeypatch, "free", "held")
        async with GroupBroker(tmp_path) as broker, connected(broker) as (client,):
            call = asyncio.create_task(client.call(produce(("held", 0)), 9))
            await until(lambda: len(gate.begun) == 2)
            stopping = asyncio.create_task(broker.server.stop())
            await until(lambda: broker.server._core.stopping)
            # The stop continues without them, and waits for the workers at the end.
            gate.open()
            await stopping
            with pytest.raises(asyncio.IncompleteReadError):
                await call
            broker.server.stop = nothing  # type: ignore[method-assign]
        monkeypatch.undo()
        async with GroupBroker(tmp_path) as broker, connected(broker) as (client,):
            for topic in ("held", "free"):
                for index in range(2):
                    answer = await client.call(fetch(topic, index), 11)
                    assert answer.responses[0].partitions[0].high_watermark == RECORDS

    run(work)


async def nothing() -> None:
    """Replaces the stop, which has already been done."""
