"""Mutated requests to a broker process: it keeps serving other clients, and writes few log lines."""

from __future__ import annotations

import os
import re
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest

from broker_cy.wire import codec, messages
from broker_cy.wire.frame import ApiKey, request_class
from broker_cy.wire.records import Record, decode_batches, encode_batch
from tests.broker_cy.wire.random_messages import Generator
from tests.fuzz.mutator import Mutator
from tests.fuzz.test_fuzz import SCALE, SEED
from tests.fuzz.wire_targets import request_frame
from tests.support.broker import BrokerProcess
from tests.support.wait import until

FRAMES = 20_000
SOAK_FRAMES = 1_000_000
CLIENTS = 6
# Names that random messages use, so that their requests find existing topics.
TOPICS = ("topic-1", "a")
# How long to wait for a response that a mutant may have put after a long poll, or that never comes.
PATIENCE_S = 0.1
# Topics, groups and sessions that mutants create, and what the allocator keeps.
RSS_GROWTH_BYTES_MAX = 96 << 20
SENTINEL = 0x7FFFFFFF
ANSWER_BYTES_MAX = 16 << 20
SOCKET_LINKS = re.compile(r"^socket:")


A = TypeVar("A", bound=codec.Message)


class GoodClient:
    """A client that sends valid frames and expects responses."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, 20)

    def call(self, key: ApiKey, version: int, request: codec.Message, answer: type[A]) -> A:
        """Return the response to one request of an API in a version that has no tagged fields."""
        frame = request_frame(key, version, request)
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", self._read(4))
        return codec.decode(answer, version, self._read(size)[4:])

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            assert part, f"the broker closed a good client's connection after {len(data)} of {size} bytes"
            data += part
        return data

    def make_topic(self, name: str, partitions: int) -> None:
        """Create a topic that may exist."""
        topic = messages.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        request = messages.CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        answer = self.call(ApiKey.CREATE_TOPICS, 4, request, messages.CreateTopicsResponse)
        assert answer.topics[0].error_code in (0, 36), answer

    def use(self, topic: str) -> None:
        """Create a topic, produce to it and read the records back."""
        self.make_topic(topic, 2)
        batch = encode_batch([Record(timestamp=1_700_000_000_000, value=b"still here")])
        data = messages.ProduceRequest.PartitionProduceData(index=1, records=batch)
        produce = messages.ProduceRequest(
            acks=-1,
            timeout_ms=10_000,
            topic_data=[messages.ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
        )
        answer = self.call(ApiKey.PRODUCE, 8, produce, messages.ProduceResponse)
        assert answer.responses[0].partition_responses[0].error_code == 0, answer
        wanted = messages.FetchRequest.FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=1 << 20)
        fetch = messages.FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[messages.FetchRequest.FetchTopic(topic=topic, partitions=[wanted])],
        )
        fetched = self.call(ApiKey.FETCH, 11, fetch, messages.FetchResponse)
        (found,) = decode_batches(fetched.responses[0].partitions[0].records or b"")
        assert found.records()[0].value == b"still here"

    def served(self) -> list[tuple[ApiKey, int]]:
        """Return every API and version that the broker advertises."""
        answer = self.call(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest(), messages.ApiVersionsResponse)
        assert answer.error_code == 0
        return [
            (ApiKey(api.api_key), version)
            for api in answer.api_keys
            for version in range(api.min_version, api.max_version + 1)
        ]

    def close(self) -> None:
        self.socket.close()


def corpus(served: list[tuple[ApiKey, int]]) -> list[bytes]:
    """Six requests of each API and version, without their lengths."""
    found = []
    for key, version in served:
        low, high = request_class(key).VERSIONS
        if low <= version <= high:
            name = request_class(key).__name__
            for number in range(6):
                message = Generator(("frames", name, version, number)).message(name, version)
                found.append(request_frame(key, version, message))
    return found


def payload(mutator: Mutator, items: list[bytes]) -> bytes:
    """The bytes of one connection: up to eight requests, half of them mutants, and one whose response is recognized."""
    bits = mutator.bits
    out = bytearray()
    for _ in range(1 + bits(3)):
        frame = items[bits(20) % len(items)]
        r = bits(8)
        if r & 1:
            frame = bytes(mutator.mutate(frame, items[bits(20) % len(items)]))
        size = bytearray(struct.pack(">i", len(frame)))
        if r & 0xF0 == 0:
            size = mutator.mutate(bytes(size), b"\x7f\xff\xff\xff")
        out += size + frame
    last = struct.pack(">hhih", ApiKey.API_VERSIONS, 0, SENTINEL, -1)
    return bytes(out) + struct.pack(">i", len(last)) + last


def converse(address: tuple[str, int], data: bytes, reset: bool) -> None:
    """Send, and read until the broker closes, the last request is answered, or nothing more comes."""
    wanted = struct.pack(">i", SENTINEL)
    with socket.create_connection(address, 20) as sock:
        sock.settimeout(PATIENCE_S)
        received = b""
        total = 0
        with suppress(OSError):
            sock.sendall(data)
            while total < ANSWER_BYTES_MAX and wanted not in received:
                part = sock.recv(1 << 16)
                if not part:
                    break
                received = received[-3:] + part
                total += len(part)
        if reset:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Attack:
    """Clients that send mutants at the same time, each with its own seed. Keeps the last mutants."""

    def __init__(self, broker: BrokerProcess, items: list[bytes]) -> None:
        self.broker = broker
        self.items = items
        self.recent: list[bytes] = []
        self.lock = threading.Lock()
        self.conversations = 0

    def run(self, frames: int, seed: int) -> None:
        """Send about this many frames."""
        with ThreadPoolExecutor(CLIENTS) as pool:
            clients = [pool.submit(self._client, frames // CLIENTS, seed * 100 + number) for number in range(CLIENTS)]
            for client in clients:
                client.result()

    def _client(self, frames: int, seed: int) -> None:
        mutator = Mutator(seed)
        sent = 0
        while sent < frames:
            data = payload(mutator, self.items)
            with self.lock:
                self.recent = [*self.recent[-2 * CLIENTS :], data]
                self.conversations += 1
            sent += 5  # on average
            try:
                converse((self.broker.host, self.broker.port), data, mutator.bits(2) == 0)
            except OSError as error:
                raise AssertionError(f"{error}; {self.last_payloads()}") from error

    def last_payloads(self) -> str:
        """The mutants that were sent last, for a failure's message."""
        sent = "\n".join(data.hex() for data in self.recent)
        return f"the last payloads:\n{sent}\nstderr: {self.broker.stderr()[-6000:]}"


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_sockets(pid: int) -> int:
    """Descriptors of a process that are sockets."""
    count = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):
            count += bool(SOCKET_LINKS.match(os.readlink(f"/proc/{pid}/fd/{name}")))
    return count


def attack(directory: Path, frames: int, seed: int) -> None:
    """Start a broker, send mutants, and check that it works as before."""
    broker = BrokerProcess(directory)
    broker.start()
    try:
        client = GoodClient((broker.host, broker.port))
        for name in TOPICS:
            client.make_topic(name, 3)
        sending = Attack(broker, corpus(client.served()))
        sockets = open_sockets(broker.pid)
        sending.run(frames // 4, seed)
        warm_bytes = resident_bytes(broker.pid)
        sending.run(frames - frames // 4, seed + 1)
        # The connection that was open all the time, and a new one.
        client.use("good-1")
        client.close()
        until(lambda: open_sockets(broker.pid) < sockets, "the connections of the mutants to be closed")
        client = GoodClient((broker.host, broker.port))
        client.use("good-2")
        client.close()
        if "libasan" not in os.environ.get("LD_PRELOAD", ""):
            growth = resident_bytes(broker.pid) - warm_bytes
            assert growth < RSS_GROWTH_BYTES_MAX, f"resident memory grew by {growth} bytes"
        log = broker.stderr()
        assert "internal error" not in log, sending.last_payloads()
        assert "Traceback" not in log, sending.last_payloads()
        # Each closed connection may be logged in a line, but not at any rate.
        assert log.count("bad request") < sending.conversations / 2
        assert broker.stop() == 0
    finally:
        broker.close()


@pytest.mark.parametrize("part", range(2))
def test_a_broker_outlives_mutants(part: int, tmp_path: Path) -> None:
    """If this fails, one faulty or hostile client makes the broker unavailable or fills its disk with log lines."""
    attack(tmp_path, int(FRAMES * SCALE), SEED * 10 + part)


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
def test_a_broker_outlives_many_mutants(tmp_path: Path) -> None:
    """Repeat the test with more frames."""
    attack(tmp_path, SOAK_FRAMES, SEED * 10 + 5)
