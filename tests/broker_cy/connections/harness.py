"""A server core with Produce, Fetch and a few test handlers, on the loop of another thread, and a raw client."""

from __future__ import annotations

import asyncio
import socket
import struct
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import uvloop

from broker_cy.broker.broker import Broker
from broker_cy.broker.registry import Registration, registrations
from broker_cy.connections.answers import ServerCore
from broker_cy.connections.listener import Admission, Listener
from broker_cy.core.clock import MACHINE_CLOCK
from broker_cy.core.randomness import MACHINE_RANDOMNESS
from broker_cy.events.log_events import LogEvents
from broker_cy.handlers import fetch, produce
from broker_cy.metadata.image import MetadataImage
from broker_cy.network.sockets import Buffers, SocketNetwork
from broker_cy.replica.partition import Partition
from broker_cy.replica.partition_table import PartitionTable
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.wire import codec, messages
from broker_cy.wire.frame import ApiKey, request_header_version, response_header_version

DEADLINE_S = 20.0
SETTINGS: dict[str, Any] = {
    "message.timestamp.type": "CreateTime",
    "compression.type": "producer",
    "message.timestamp.before.max.ms": 2**63 - 1,
    "message.timestamp.after.max.ms": 3600000,
    "max.message.bytes": 16 << 20,
    "cleanup.policy": ["delete"],
    "min.insync.replicas": 1,
}


class CoreHarness:
    """`topic(name, partitions)` creates a topic, `client()` connects; `extra` are handlers in addition to Produce and
    Fetch.
    """

    def __init__(
        self,
        extra: dict[ApiKey, Callable[[Any, Any], Any]] | None = None,
        *,
        request_bytes_max: int = 104857600,
        admission: Admission | None = None,
        verifier: Any = None,
        real: tuple[ApiKey, ...] = (),
    ) -> None:
        """`verifier` is asked by Produce about transactions; `real` are APIs that the broker's own handlers answer."""
        self.directory = tempfile.TemporaryDirectory()
        self.table = PartitionTable()
        self.loop = uvloop.new_event_loop()
        self.admission = admission or Admission(1000, 1000, {})
        registry = {int(key): registrations()[int(key)] for key in (ApiKey.PRODUCE, ApiKey.FETCH, *real)}
        for key, function in (extra or {}).items():
            registry[int(key)] = Registration(key, 0, 4, 0, function, asyncio.iscoroutinefunction(function), "")
        # The core passes the broker to handlers, and none of those here uses more of it.
        self.image = MetadataImage()
        broker = cast(Broker, SimpleNamespace(transactions=verifier, image=self.image, authorization=None))
        self.core = ServerCore(
            self.loop,
            MACHINE_CLOCK,
            LogEvents(MACHINE_CLOCK),
            broker,
            self.table,
            registry,
            request_bytes_max,
            lambda c: self.admission.leave(c.client_host, c.listener),
        )
        produce.install(self.core)
        fetch.install(self.core, 100, 120000, MACHINE_RANDOMNESS)
        self.executor = ThreadPoolExecutor(1)
        self.core.cold_reader = self.executor
        self.listener = Listener(
            "PLAINTEXT",
            SocketNetwork().listen("PLAINTEXT", "127.0.0.1", 0, 128, Buffers(-1, -1)),
            self.core,
            self.admission,
        )
        self.loop.call_soon(self.listener.start)
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def on_loop(self, function: Callable[[], Any]) -> Any:
        """Run a function on the loop's thread, where the broker's state may be accessed."""

        async def call() -> Any:
            return function()

        return asyncio.run_coroutine_threadsafe(call(), self.loop).result(DEADLINE_S)

    def topic(
        self,
        name: str,
        partitions: int = 1,
        config: LogConfig | None = None,
        settings: dict[str, Any] | None = None,
        *,
        protected: bool = False,
        root: str | None = None,
    ) -> uuid.UUID:
        """`settings` are those that differ from SETTINGS; `root` is the data directory, by default that of the
        harness.
        """
        topic_id = uuid.uuid4()

        def make() -> None:
            for index in range(partitions):
                path = Path(root or self.directory.name) / f"{name}-{index}"
                path.mkdir()
                log = Log.create(str(path), name, index, config or LogConfig(), int(time.time() * 1000))
                partition = Partition(self.core, name, index, topic_id, log, 0, protected=protected)
                partition.configure(SETTINGS | (settings or {}))
                self.table.add(partition)

        self.on_loop(make)
        return topic_id

    def client(self) -> RawClient:
        return RawClient("127.0.0.1", self.listener.port)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not self.on_loop(condition):
            assert time.monotonic() < deadline, "the condition did not come true"
            time.sleep(0.002)

    def close(self) -> None:
        def stop() -> None:
            self.listener.close()
            for connection in list(self.core.connections):
                connection.close()
            self.loop.stop()

        self.loop.call_soon_threadsafe(stop)
        self.thread.join(DEADLINE_S)
        self.executor.shutdown()
        self.loop.close()
        self.directory.cleanup()


class RawClient:
    """Frames over a socket; the codec encodes requests."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port), DEADLINE_S)
        self.correlation_id = 0

    def encode(self, request: Any, key: ApiKey, version: int) -> bytes:
        self.correlation_id += 1
        header = struct.pack(">hhih", key, version, self.correlation_id, 4) + b"test"
        if request_header_version(key, version) >= 2:
            header += b"\0"
        body = codec.encode(request, version)
        return struct.pack(">i", len(header) + len(body)) + header + body

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read_exactly(self, n: int) -> bytes:
        data = bytearray()
        while len(data) < n:
            part = self.socket.recv(n - len(data))
            if not part:
                raise ConnectionError(f"closed after {len(data)} of {n} bytes")
            data += part
        return bytes(data)

    def receive(self, key: ApiKey, version: int, response_class: Any) -> tuple[int, Any]:
        """Return (correlation id, response) of the next frame."""
        payload = self.read_exactly(struct.unpack(">i", self.read_exactly(4))[0])
        start = 5 if response_header_version(key, version) >= 1 else 4
        return struct.unpack(">i", payload[:4])[0], codec.decode(response_class, version, payload[start:])

    def call(self, request: Any, key: ApiKey, version: int, response_class: Any) -> Any:
        self.send(self.encode(request, key, version))
        correlation_id, response = self.receive(key, version, response_class)
        assert correlation_id == self.correlation_id
        return response

    def is_closed(self) -> bool:
        """Wait for the broker to close this connection."""
        try:
            data = self.socket.recv(1)
        except ConnectionResetError:
            return True
        assert data == b"", f"the broker answered {data!r}"
        return True

    def close(self) -> None:
        self.socket.close()


def produce_request(topic: str, index: int, records: bytes | None, acks: int = -1) -> messages.ProduceRequest:
    data = messages.ProduceRequest.PartitionProduceData(index=index, records=records)
    topics = [messages.ProduceRequest.TopicProduceData(name=topic, partition_data=[data])]
    return messages.ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)


def fetch_request(topic: str, index: int, offset: int, **fields: Any) -> messages.FetchRequest:
    values: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 50 << 20, **fields}
    target = messages.FetchRequest.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=50 << 20)
    return messages.FetchRequest(topics=[messages.FetchRequest.FetchTopic(topic=topic, partitions=[target])], **values)


def produce_to(client: RawClient, topic: str, records: bytes | None, version: int = 9) -> Any:
    """Return the result for partition 0."""
    response = client.call(produce_request(topic, 0, records), ApiKey.PRODUCE, version, messages.ProduceResponse)
    return response.responses[0].partition_responses[0]


def fetch_from(client: RawClient, topic: str, offset: int, version: int = 11, **fields: Any) -> Any:
    """Return the result for partition 0."""
    response = client.call(fetch_request(topic, 0, offset, **fields), ApiKey.FETCH, version, messages.FetchResponse)
    return response.responses[0].partitions[0]
