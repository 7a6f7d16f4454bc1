"""Acts of a client on a connection, and the behaviour that it can expect."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest

from broker_cy.connections.listener import Admission
from broker_cy.core.errors import ErrorCode
from broker_cy.network.sockets import open_socket
from broker_cy.replica.partition import Partition
from broker_cy.storage import log_flush
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.log_loader import LoadContext, load_log
from broker_cy.storage.log_slice import LogTotals
from broker_cy.storage.segment import OpenFiles
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from broker_cy.wire.records import Record, encode_batch
from tests.broker_cy.connections.harness import (
    SETTINGS,
    CoreHarness,
    fetch_from,
    fetch_request,
    produce_request,
    produce_to,
)
from tests.support import needs


async def slow_heartbeat(ctx: Any, request: Any) -> Any:
    await asyncio.sleep(0.05)
    return messages.HeartbeatResponse(error_code=7)


def quick_leave(ctx: Any, request: Any) -> Any:
    return messages.LeaveGroupResponse(error_code=8)


def failing_sync(ctx: Any, request: Any) -> Any:
    raise RuntimeError("a defect")


def large_list(ctx: Any, request: Any) -> Any:
    group = messages.ListGroupsResponse.ListedGroup(group_id="g" * 30000, protocol_type="consumer")
    return messages.ListGroupsResponse(groups=[group] * 10)


@pytest.fixture
def core() -> Iterator[CoreHarness]:
    harness = CoreHarness(
        {
            ApiKey.HEARTBEAT: slow_heartbeat,
            ApiKey.LEAVE_GROUP: quick_leave,
            ApiKey.SYNC_GROUP: failing_sync,
            ApiKey.LIST_GROUPS: large_list,
        }
    )
    harness.topic("t")
    yield harness
    harness.close()


def batch(count: int = 1, size: int = 100) -> bytes:
    return encode_batch([Record(i, int(time.time() * 1000), b"k", b"v" * size, []) for i in range(count)])


def test_answers_keep_the_order_of_requests(core: CoreHarness) -> None:
    """A client matches responses to requests by order; one response that overtakes another breaks the connection."""
    client = core.client()
    frames = [
        client.encode(messages.HeartbeatRequest(group_id="g"), ApiKey.HEARTBEAT, 0),
        client.encode(produce_request("t", 0, batch()), ApiKey.PRODUCE, 9),
        client.encode(messages.LeaveGroupRequest(group_id="g"), ApiKey.LEAVE_GROUP, 0),
        client.encode(fetch_request("t", 0, 0), ApiKey.FETCH, 11),
    ]
    client.send(b"".join(frames))
    order = [
        client.receive(ApiKey.HEARTBEAT, 0, messages.HeartbeatResponse)[0],
        client.receive(ApiKey.PRODUCE, 9, messages.ProduceResponse)[0],
        client.receive(ApiKey.LEAVE_GROUP, 0, messages.LeaveGroupResponse)[0],
        client.receive(ApiKey.FETCH, 11, messages.FetchResponse)[0],
    ]
    assert order == [1, 2, 3, 4]


def test_request_in_single_bytes(core: CoreHarness) -> None:
    """A slow network delivers any fragments; each request must be reassembled."""
    client = core.client()
    for byte in client.encode(produce_request("t", 0, batch()), ApiKey.PRODUCE, 9):
        client.send(bytes([byte]))
    _, response = client.receive(ApiKey.PRODUCE, 9, messages.ProduceResponse)
    assert response.responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize("size", [1000, 200_000, 262_000, 300_000, 1_000_000, 5_000_000])
def test_records_come_back_as_they_were_sent(core: CoreHarness, size: int) -> None:
    """Requests below, at and above the receive buffer's size, pipelined: the records read back equal those sent."""
    client = core.client()
    batches = [batch(1, size) for _ in range(4)]
    client.send(b"".join(client.encode(produce_request("t", 0, b), ApiKey.PRODUCE, 9) for b in batches))
    for place in range(4):
        _, response = client.receive(ApiKey.PRODUCE, 9, messages.ProduceResponse)
        result = response.responses[0].partition_responses[0]
        assert (result.error_code, result.base_offset) == (0, place)
    for place, sent in enumerate(batches):
        stored = fetch_from(client, "t", place).records[: len(sent)]
        # The broker writes base offset (8 bytes) and, after the length, leader epoch (4); everything else is as sent.
        assert struct.unpack(">q", stored[:8])[0] == place
        assert stored[8:12] == sent[8:12]
        assert stored[16:] == sent[16:]


@pytest.mark.parametrize("claim", [-1, -(2**31), 104857601, 2**31 - 1])
def test_frame_length_out_of_range_closes_only_that_connection(core: CoreHarness, claim: int) -> None:
    """A port scanner must not affect other clients."""
    good, bad = core.client(), core.client()
    bad.send(struct.pack(">i", claim) + b"x" * 8)
    assert bad.is_closed()
    assert produce_to(good, "t", batch()).error_code == 0


def test_memory_is_not_taken_for_a_claim(core: CoreHarness) -> None:
    """100 peers that claim 100 MB each and send little use one buffer each, not 10 GB."""
    clients = [core.client() for _ in range(100)]
    for client in clients:
        client.send(struct.pack(">i", 104857600) + b"\0" * 20000)
    core.wait_until(lambda: core.core.pool.lent_bytes >= 100 * 262144)
    assert core.core.pool.lent_bytes <= 100 * 2 * 262144
    for client in clients:
        client.close()
    core.wait_until(lambda: core.core.pool.lent_bytes == 0)


def test_short_rest_holds_no_buffer(core: CoreHarness) -> None:
    """10,000 connections that stopped in the middle of a request must use little memory."""
    client = core.client()
    client.send(struct.pack(">i", 1000) + b"\0" * 100)
    core.wait_until(lambda: len(core.core.connections) == 1 and core.core.pool.lent_bytes == 0)
    client.close()


@pytest.mark.parametrize(("key", "version"), [(99, 0), (-5, 0), (0, 2), (0, 14), (1, 3), (1, 19)])
def test_unknown_api_and_version_close(core: CoreHarness, key: int, version: int) -> None:
    """As in Kafka, the client could not read a response."""
    client = core.client()
    client.send(struct.pack(">ihhih", 10, key, version, 7, -1))
    assert client.is_closed()


@pytest.mark.parametrize(
    ("key", "api"), [(ApiKey.ADD_PARTITIONS_TO_TXN, "ADD_PARTITIONS_TO_TXN"), (200, "api 200"), (-5, "api -5")]
)
def test_api_that_is_not_served_is_named(
    core: CoreHarness, monkeypatch: pytest.MonkeyPatch, key: int, api: str
) -> None:
    """If this fails, the log has "api 24", and its reader has to look up the API."""
    said: list[tuple[str, str]] = []
    monkeypatch.setattr(
        core.core.log_events, "bad_request", lambda _host, _port, api, reason: said.append((api, reason))
    )
    client = core.client()
    client.send(struct.pack(">ihhih", 10, key, 0, 7, -1))
    assert client.is_closed()
    assert said == [(api, "this API is not served")]


def test_body_that_does_not_parse_closes(core: CoreHarness) -> None:
    client = core.client()
    cut = client.encode(produce_request("t", 0, batch()), ApiKey.PRODUCE, 9)[4:-30]
    client.send(struct.pack(">i", len(cut)) + cut)
    assert client.is_closed()


def test_defect_in_a_handler_ends_its_connection_only(core: CoreHarness) -> None:
    """An exception must neither stop the broker nor leave the client waiting."""
    bad, good = core.client(), core.client()
    bad.send(bad.encode(messages.SyncGroupRequest(group_id="g"), ApiKey.SYNC_GROUP, 0))
    assert bad.is_closed()
    assert produce_to(good, "t", batch()).error_code == 0


def test_slow_reader_is_held_back_alone(core: CoreHarness) -> None:
    """A client that sends requests and does not read must not make the broker hold responses without bound."""
    slow, good = core.client(), core.client()
    frame = slow.encode(messages.ListGroupsRequest(), ApiKey.LIST_GROUPS, 0)  # 20 bytes that request 300 KB
    slow.socket.settimeout(0.3)
    sent = 0
    try:
        while sent < 2_000_000:
            sent += slow.socket.send(frame * 100)
    except TimeoutError:
        pass
    assert produce_to(good, "t", batch()).error_code == 0

    def held() -> int:
        return sum(len(item) for c in core.core.connections for item in c.queue if isinstance(item, bytes))

    assert core.on_loop(held) <= 2 * 1024 * 1024
    # It gets its responses once it reads.
    slow.socket.settimeout(20)
    for _ in range(200):
        _, response = slow.receive(ApiKey.LIST_GROUPS, 0, messages.ListGroupsResponse)
        assert len(response.groups) == 10


def test_acks_0_is_not_answered_and_an_error_closes(core: CoreHarness) -> None:
    client = core.client()
    client.send(client.encode(produce_request("t", 0, batch(), acks=0), ApiKey.PRODUCE, 9))
    assert produce_to(client, "t", batch()).base_offset == 1
    client.send(client.encode(produce_request("missing", 0, batch(), acks=0), ApiKey.PRODUCE, 9))
    assert client.is_closed()


def test_bad_acks(core: CoreHarness) -> None:
    client = core.client()
    request = produce_request("t", 0, batch(), acks=5)
    response = client.call(request, ApiKey.PRODUCE, 9, messages.ProduceResponse)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_REQUIRED_ACKS


@pytest.mark.parametrize("version", range(3, 13))
def test_produce_and_fetch_every_version(core: CoreHarness, version: int) -> None:
    """Clients of the last ten years use different versions; each must be answered in its own."""
    client = core.client()
    sent = batch(3)
    assert produce_to(client, "t", sent, version).base_offset == 0
    assert produce_to(client, "nowhere", sent, version).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    found = fetch_from(client, "t", 0, max(4, version))
    assert (found.error_code, found.high_watermark) == (0, 3)
    assert found.records[16:] == sent[16:]
    assert fetch_from(client, "t", 7, max(4, version)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("version", range(13, 19))
def test_fetch_by_topic_id(core: CoreHarness, version: int) -> None:
    """A topic that was deleted and created again under its name must not be mistaken for the old one (KIP-516)."""
    topic_id = core.topic("ids")
    client = core.client()
    produce_to(client, "ids", batch())
    request = fetch_request("", 0, 0)
    request.topics[0].topic_id = topic_id
    response = client.call(request, ApiKey.FETCH, version, messages.FetchResponse)
    assert response.responses[0].topic_id == topic_id
    assert response.responses[0].partitions[0].records
    request.topics[0].topic_id = core.topic("other")
    request.topics[0].partitions[0].partition = 5
    response = client.call(request, ApiKey.FETCH, version, messages.FetchResponse)
    assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_fetch_session_returns_only_changes(core: CoreHarness) -> None:
    """KIP-227: an incremental fetch returns only what changed; a wrong epoch is refused."""
    core.topic("s", 2)
    client = core.client()
    request = fetch_request("s", 0, 0, session_id=0, session_epoch=0)
    request.topics[0].partitions.append(messages.FetchRequest.FetchPartition(partition=1, partition_max_bytes=1 << 20))
    first = client.call(request, ApiKey.FETCH, 11, messages.FetchResponse)
    assert first.session_id > 0
    assert [p.partition_index for p in first.responses[0].partitions] == [0, 1]
    going_on = messages.FetchRequest(max_bytes=1 << 20, session_id=first.session_id, session_epoch=1)
    assert client.call(going_on, ApiKey.FETCH, 11, messages.FetchResponse).responses == []
    produce_to(client, "s", batch())
    going_on.session_epoch = 2
    second = client.call(going_on, ApiKey.FETCH, 11, messages.FetchResponse)
    assert [p.partition_index for p in second.responses[0].partitions] == [0]
    assert second.responses[0].partitions[0].records
    wrong = client.call(going_on, ApiKey.FETCH, 11, messages.FetchResponse)
    assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    going_on.session_id = 12345
    unknown = client.call(going_on, ApiKey.FETCH, 11, messages.FetchResponse)
    assert unknown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_fetch_waits_for_data_and_is_woken(core: CoreHarness) -> None:
    """A consumer at the end of the log receives a record when it is written, not when its wait is over."""
    reader, writer = core.client(), core.client()
    reader.send(reader.encode(fetch_request("t", 0, 0, max_wait_ms=600_000), ApiKey.FETCH, 11))
    core.wait_until(lambda: sum(c.pending for c in core.core.connections) == 1)
    produce_to(writer, "t", batch())
    _, response = reader.receive(ApiKey.FETCH, 11, messages.FetchResponse)
    assert response.responses[0].partitions[0].records


def test_fetch_answers_empty_after_max_wait(core: CoreHarness) -> None:
    found = fetch_from(core.client(), "t", 0, max_wait_ms=30)
    assert (found.error_code, found.records or b"") == (0, b"")


def test_connection_that_ends_while_its_fetch_waits(core: CoreHarness) -> None:
    """Its waiting fetch is forgotten; the partition continues."""
    reader, writer = core.client(), core.client()
    reader.send(reader.encode(fetch_request("t", 0, 0, max_wait_ms=600_000), ApiKey.FETCH, 11))
    core.wait_until(lambda: sum(c.pending for c in core.core.connections) == 1)
    reader.close()
    core.wait_until(lambda: len(core.core.connections) == 1)
    assert produce_to(writer, "t", batch()).error_code == 0


def test_per_ip_limit_closes_the_connection_above_it() -> None:
    """max.connections.per.ip: one host that leaks connections must not lock out the others."""
    core = CoreHarness(admission=Admission(100, 2, {}))
    try:
        kept = [core.client() for _ in range(2)]
        core.wait_until(lambda: len(core.core.connections) == 2)
        assert core.client().is_closed()
        kept[0].close()
        core.wait_until(lambda: len(core.core.connections) == 1)
        core.topic("t")
        assert produce_to(core.client(), "t", batch()).error_code == 0
    finally:
        core.close()


def test_idle_connections_are_closed(core: CoreHarness) -> None:
    """connections.max.idle.ms: connections of vanished peers must not be kept forever."""
    client = core.client()
    core.wait_until(lambda: len(core.core.connections) == 1)
    core.wait_until(lambda: core.core.close_idle(0) == 1 or not core.core.connections)
    assert client.is_closed()


def test_damage_in_an_older_segment_is_never_sent(core: CoreHarness) -> None:
    """Bytes that were damaged on disk must not reach a consumer: the partition goes offline, the others are served."""
    partition = core.table.get("t", 0)
    assert partition is not None
    directory = core.on_loop(lambda: partition.log.directory)
    client = core.client()
    for _ in range(3):
        produce_to(client, "t", batch(1, 5000))
    core.topic("u")
    produce_to(client, "u", batch())

    def reload() -> None:
        """As at a start: the log is loaded from its files."""
        log_flush.close(partition.log)
        with open(f"{directory}/{0:020d}.log", "r+b") as file:
            file.seek(3000)
            byte = file.read(1)
            file.seek(3000)
            file.write(bytes([byte[0] ^ 1]))
        context = LoadContext(OpenFiles(10), LogTotals(), True, 0, 1 << 60)
        log = load_log(directory, "t", 0, LogConfig(), 0, 0, context)
        fresh = Partition(core.core, "t", 0, partition.topic_id, log, 0)
        fresh.configure(SETTINGS)
        core.table.add(fresh)

    core.on_loop(reload)
    assert fetch_from(client, "t", 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert produce_to(client, "t", batch()).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert fetch_from(client, "u", 0).records


def test_stop_answers_waiting_fetches(core: CoreHarness) -> None:
    """A consumer must not have to find out by a timeout that the broker stopped."""
    reader = core.client()
    reader.send(reader.encode(fetch_request("t", 0, 0, max_wait_ms=600_000), ApiKey.FETCH, 11))
    core.wait_until(lambda: sum(c.pending for c in core.core.connections) == 1)
    core.on_loop(core.core.stop_reading)
    _, response = reader.receive(ApiKey.FETCH, 11, messages.FetchResponse)
    assert response.responses[0].partitions[0].error_code == 0
    assert reader.is_closed()


@pytest.mark.parametrize("peer", ["127.0.0.1", pytest.param("::1", marks=needs.ipv6)])
def test_listener_without_host_takes_both_families(peer: str) -> None:
    """`listeners=PLAINTEXT://:9092` is in every server.properties; clients resolve localhost to either address."""
    listening = open_socket("PLAINTEXT", "", 0, 5)
    try:
        client = socket.create_connection((peer, listening.getsockname()[1]), 5)
        client.close()
    finally:
        listening.close()
