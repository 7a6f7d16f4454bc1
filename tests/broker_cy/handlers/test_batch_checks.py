"""Produce requests whose batches decompress to more than one iteration of the loop may decompress: a worker checks
them, other clients are served at the same time, and nothing else changes.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from broker_cy.core import crc32c
from broker_cy.core.errors import ErrorCode
from broker_cy.server.jobs import LoopJobs
from broker_cy.storage.jobs import InlineJobs
from broker_cy.wire import batch as batch_module
from broker_cy.wire import messages
from broker_cy.wire.compression import Codec, decompress
from broker_cy.wire.frame import ApiKey
from broker_cy.wire.records import Record, decode_batches, encode_batch
from tests.broker_cy.connections.harness import CoreHarness, RawClient, fetch_from, produce_request, produce_to

VERSION = 9
TURN_BYTES = 4 << 20
PARTITIONS = 24
# Per batch.
CRC_AT = 17
PAYLOAD_AT = 61


class ManualJobs(InlineJobs):
    """Keeps the jobs of the worker until `step` runs one of them."""

    def __init__(self, core: CoreHarness) -> None:
        super().__init__()
        self.core = core
        self.waiting: list[tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]] = []

    def run(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self.waiting.append((work, done))

    def step(self) -> None:
        work, done = self.waiting.pop(0)
        result = work()
        self.core.on_loop(lambda: done(result, None))

    def run_all(self) -> None:
        while self.waiting:
            self.step()


@pytest.fixture
def core() -> Iterator[CoreHarness]:
    harness = CoreHarness()
    harness.topic("t", PARTITIONS)
    try:
        yield harness
    finally:
        harness.close()


@pytest.fixture
def jobs(core: CoreHarness) -> ManualJobs:
    found = ManualJobs(core)
    core.core.check_jobs = found
    return found


def bomb(plain_bytes: int, codec: Codec = Codec.ZSTD, **fields: Any) -> bytes:
    """Make a small batch of one record that decompresses to about `plain_bytes`."""
    return encode_batch([Record(value=bytes(plain_bytes))], codec=codec, **fields)


def request_of(batches: list[bytes], acks: int = -1) -> messages.ProduceRequest:
    """Return one batch for each of the first partitions."""
    parts = [messages.ProduceRequest.PartitionProduceData(index=i, records=each) for i, each in enumerate(batches)]
    topics = [messages.ProduceRequest.TopicProduceData(name="t", partition_data=parts)]
    return messages.ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)


def send(client: RawClient, request: messages.ProduceRequest) -> None:
    client.send(client.encode(request, ApiKey.PRODUCE, VERSION))


def answer(client: RawClient) -> list[messages.ProduceResponse.PartitionProduceResponse]:
    _, response = client.receive(ApiKey.PRODUCE, VERSION, messages.ProduceResponse)
    (topic,) = response.responses
    found: list[messages.ProduceResponse.PartitionProduceResponse] = topic.partition_responses
    return found


def end_of(core: CoreHarness, index: int = 0) -> int:
    partition = core.table.get("t", index)
    assert partition is not None
    end: int = core.on_loop(lambda: partition.log.log_end_offset)
    return end


def test_another_client_is_served_while_bombs_are_checked(core: CoreHarness, jobs: ManualJobs) -> None:
    """If this fails, one request of 100 MB of compression bombs stops the broker for minutes."""
    attacker, other = core.client(), core.client()
    send(attacker, request_of([bomb(6 << 20)] * PARTITIONS))
    core.wait_until(lambda: len(jobs.waiting) == 1)
    steps = 0
    while jobs.waiting:
        assert produce_to(other, "t", encode_batch([Record(value=b"small")], codec=Codec.GZIP)).base_offset == steps
        jobs.step()
        steps += 1
    # 16 MiB in one job are three of these.
    assert steps == PARTITIONS / 3
    results = answer(attacker)
    assert [result.error_code for result in results] == [0] * PARTITIONS
    assert [result.base_offset for result in results] == [steps] + [0] * (PARTITIONS - 1)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_turn_of_the_loop_decompresses_a_bounded_amount(
    core: CoreHarness, jobs: ManualJobs, codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests of many connections that arrive at the same time count together, as do pipelined ones."""
    by_turn: dict[int, int] = {}
    turns = 0

    def counted(number: int, payload: Any, limit: int) -> memoryview:
        plain = decompress(number, payload, limit)
        if threading.current_thread() is core.thread:
            by_turn[turns] = by_turn.get(turns, 0) + len(plain)
        return plain

    def count_turns() -> None:
        nonlocal turns
        turns += 1
        core.loop.call_soon(count_turns)

    monkeypatch.setattr(batch_module, "decompress", counted)
    clients = [core.client() for _ in range(6)]
    one = bomb(1 << 20, codec)
    core.on_loop(count_turns)
    for client in clients:
        send(client, request_of([one] * 3))
        send(client, request_of([one] * 3))
    core.wait_until(lambda: sum(len(connection.client_id) > 0 for connection in core.core.connections) == 6)
    for client in clients:
        for _ in range(2):
            client.socket.settimeout(0.05)
            while True:
                try:
                    results = answer(client)
                    break
                except TimeoutError:
                    jobs.run_all()
            assert [result.error_code for result in results] == [0, 0, 0]
    assert max(by_turn.values()) <= TURN_BYTES
    assert [end_of(core, index) for index in range(3)] == [12, 12, 12]


def test_small_compressed_batches_stay_on_the_loop(core: CoreHarness, jobs: ManualJobs) -> None:
    client = core.client()
    for offset in range(50):
        assert produce_to(client, "t", bomb(1 << 20)).base_offset == offset
    assert not jobs.waiting


def test_requests_of_a_connection_keep_their_order(core: CoreHarness) -> None:
    """A real worker thread; small requests after a large one are handled, and answered, after it."""
    client = core.client()
    with ThreadPoolExecutor(1) as pool:
        core.on_loop(lambda: setattr(core.core, "check_jobs", LoopJobs(core.loop, pool)))
        frames = b""
        for round_number in range(4):
            large = bomb(5 << 20, producer_id=9, producer_epoch=0, base_sequence=2 * round_number)
            small = encode_batch(
                [Record(value=b"s")], producer_id=9, producer_epoch=0, base_sequence=2 * round_number + 1
            )
            for each in (large, small):
                frames += client.encode(produce_request("t", 0, each), ApiKey.PRODUCE, VERSION)
        client.send(frames)
        for offset in range(8):
            (result,) = answer(client)
            assert (result.error_code, result.base_offset) == (0, offset)
        # Sent again: a duplicate, at its old offset.
        assert produce_to(client, "t", large).base_offset == 6
    assert end_of(core) == 8


def test_the_bound_of_one_batch_holds_in_the_worker(core: CoreHarness, jobs: ManualJobs) -> None:
    client = core.client()
    send(client, request_of([bomb(129 << 20), bomb(5 << 20)]))
    core.wait_until(lambda: len(jobs.waiting) == 1)
    jobs.run_all()
    too_large, fine = answer(client)
    assert too_large.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert fine.error_code == ErrorCode.NONE


def test_what_a_worker_refuses_is_refused_as_on_the_loop(core: CoreHarness, jobs: ManualJobs) -> None:
    client = core.client()
    large = encode_batch([Record(value=bytes(5 << 20)), Record(value=b"", timestamp=1 << 50)], codec=Codec.ZSTD)
    small = encode_batch([Record(value=b""), Record(value=b"", timestamp=1 << 50)], codec=Codec.ZSTD)
    send(client, request_of([large, small, bomb(5 << 20)]))
    core.wait_until(lambda: len(jobs.waiting) == 1)
    jobs.run_all()
    large_result, small_result, fine = answer(client)
    assert large_result.error_code == small_result.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [e.batch_index for e in large_result.record_errors] == [e.batch_index for e in small_result.record_errors]
    assert fine.error_code == ErrorCode.NONE


def test_a_topic_that_was_created_again_gets_nothing_of_the_old_one(core: CoreHarness, jobs: ManualJobs) -> None:
    """The client refreshes its metadata and sends again."""
    client = core.client()
    send(client, produce_request("t", 0, bomb(5 << 20)))
    core.wait_until(lambda: len(jobs.waiting) == 1)
    before = core.table.get("t", 0)
    assert before is not None
    core.topic("other")
    after = core.table.get("other", 0)
    assert after is not None
    core.on_loop(lambda: core.table.by_name[b"t"].__setitem__(0, after))
    jobs.run_all()
    (result,) = answer(client)
    assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert core.on_loop(lambda: after.log.log_end_offset) == 0


def test_client_that_leaves_meanwhile(core: CoreHarness, jobs: ManualJobs) -> None:
    """Its batch is appended, as in Kafka: it may have been sent with acks=0."""
    client = core.client()
    send(client, produce_request("t", 0, bomb(5 << 20), acks=0))
    core.wait_until(lambda: len(jobs.waiting) == 1)
    client.close()
    core.on_loop(lambda: [connection.close() for connection in list(core.core.connections)])
    jobs.run_all()
    assert end_of(core) == 1


def test_failure_of_the_worker_closes_the_connection(core: CoreHarness, jobs: ManualJobs) -> None:
    client = core.client()
    send(client, produce_request("t", 0, bomb(5 << 20)))
    core.wait_until(lambda: len(jobs.waiting) == 1)
    _, done = jobs.waiting.pop()
    core.on_loop(lambda: done(None, MemoryError("no memory")))
    assert client.is_closed()
    assert end_of(core) == 0


@pytest.mark.parametrize("plain_bytes", [1_000, 3 << 20])
@pytest.mark.parametrize("sent", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("stored", ["zstd", "lz4", "uncompressed"])
def test_stored_with_the_codec_of_the_topic(
    core: CoreHarness, jobs: ManualJobs, sent: Codec, stored: str, plain_bytes: int
) -> None:
    """compression.type: a large batch is compressed by the worker, a small one on the loop."""
    core.topic("coded", settings={"compression.type": stored})
    client = core.client()
    records = [Record(key=b"k", value=bytes(plain_bytes), timestamp=5), Record(value=b"b", timestamp=7)]
    send(client, produce_request("coded", 0, encode_batch(records, codec=sent)))
    recodes = not (sent is Codec.NONE and stored == "uncompressed")
    if plain_bytes > 1 << 20 and recodes:
        core.wait_until(lambda: len(jobs.waiting) == 1)
        jobs.run_all()
    _, response = client.receive(ApiKey.PRODUCE, VERSION, messages.ProduceResponse)
    assert response.responses[0].partition_responses[0].error_code == 0
    (batch,) = decode_batches(fetch_from(client, "coded", 0).records)
    assert batch.is_valid()
    assert batch.codec is {"zstd": Codec.ZSTD, "lz4": Codec.LZ4, "uncompressed": Codec.NONE}[stored]
    assert [(r.key, r.value, r.timestamp, r.offset) for r in batch.records()] == [
        (b"k", bytes(plain_bytes), 5, 0),
        (None, b"b", 7, 1),
    ]


def test_stored_larger_than_allowed(core: CoreHarness, jobs: ManualJobs) -> None:
    core.topic("small", settings={"compression.type": "uncompressed", "max.message.bytes": 1 << 20})
    client = core.client()
    send(client, produce_request("small", 0, bomb(3 << 20)))
    core.wait_until(lambda: len(jobs.waiting) == 1)
    jobs.run_all()
    _, response = client.receive(ApiKey.PRODUCE, VERSION, messages.ProduceResponse)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_transactional_batches_are_checked_before_the_coordinator_is_asked() -> None:
    """Verified batches are appended immediately: no transaction can end in between."""
    asked: list[int] = []

    class Verifier:
        def verify(self, *_: Any, **__: Any) -> asyncio.Future[dict[tuple[str, int], ErrorCode]]:
            asked.append(len(held.waiting))
            future: asyncio.Future[dict[tuple[str, int], ErrorCode]] = asyncio.get_running_loop().create_future()
            future.set_result({("t", 0): ErrorCode.NONE})
            return future

    core = CoreHarness(verifier=Verifier())
    try:
        core.topic("t")
        held = ManualJobs(core)
        core.core.check_jobs = held
        client = core.client()
        batch = bomb(5 << 20, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
        request = produce_request("t", 0, batch)
        request.transactional_id = "tx"
        send(client, request)
        core.wait_until(lambda: len(held.waiting) == 1)
        assert not asked
        held.run_all()
        (result,) = answer(client)
        assert (result.error_code, asked) == (0, [0])
    finally:
        core.close()


def test_a_payload_that_does_not_decompress(core: CoreHarness, jobs: ManualJobs) -> None:
    """The bad batch is after a compression bomb, so that the worker finds it; the other batches are stored."""
    client = core.client()
    broken = bytearray(encode_batch([Record(value=bytes(100))], codec=Codec.GZIP))
    broken[PAYLOAD_AT + 12] ^= 0xFF
    broken[CRC_AT : CRC_AT + 4] = struct.pack(">I", crc32c.value(bytes(broken[CRC_AT + 4 :])))
    send(client, request_of([bomb(5 << 20), bytes(broken), bomb(1000)]))
    core.wait_until(lambda: len(jobs.waiting) == 1)
    jobs.run_all()
    assert [result.error_code for result in answer(client)] == [0, ErrorCode.UNKNOWN_SERVER_ERROR, 0]
