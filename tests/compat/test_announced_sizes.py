"""The broker's memory for requests and batches that announce more than they contain."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_cy.core.errors import ErrorCode, WireError
from broker_cy.schemas import tables
from broker_cy.wire import codec, frame, messages
from broker_cy.wire.api_keys import ApiKey
from broker_cy.wire.compression import Codec
from broker_cy.wire.records import Record, encode_batch
from tests.broker_cy.wire.random_messages import Generator
from tests.support.announced_batches import PAYLOADS, batch_of
from tests.support.broker import target_is_kafka
from tests.support.raw_wire import receive_frame
from tests.support.sasl_broker import SaslBroker

pytestmark = pytest.mark.skipif(target_is_kafka(), reason="about our own process")
TIMEOUT_S = 60.0
MIB = 1 << 20
# Resident: far less than any of the announced sizes. Reserved: also the stacks and arenas of threads that start.
RESIDENT_BYTES_MAX = 48 * MIB
RESERVED_BYTES_MAX = 1024 * MIB
PRODUCE_VERSION = 9
# 268,435,455 elements (an array of pointers has 2 GiB) or bytes, as an int32 and as a compact length.
COUNTS = (b"\x0f\xff\xff\xff", b"\xff\xff\xff\x7f")
PADDING_BYTES = 4_096


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    found = SaslBroker(tmp_path_factory.mktemp("announced"), {"brokercy.metrics.enable": "false"})
    try:
        yield found.start()
    finally:
        found.close()


class Memory:
    """The broker's peak memory, resident and reserved."""

    def __init__(self, broker: SaslBroker) -> None:
        self.status = Path(f"/proc/{broker.pid}/status")
        self.before = self.peaks()

    def peaks(self) -> tuple[int, int]:
        fields = dict(line.split(":") for line in self.status.read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) << 10, int(fields["VmPeak"].split()[0]) << 10

    def check(self) -> None:
        resident, reserved = self.peaks()
        assert resident - self.before[0] < RESIDENT_BYTES_MAX
        assert reserved - self.before[1] < RESERVED_BYTES_MAX


def connected(broker: SaslBroker, port: int) -> socket.socket:
    return socket.create_connection((broker.host, port), TIMEOUT_S)


def header(key: int, version: int) -> bytes:
    tags = b"\0" if frame.request_header_version(key, version) >= 2 else b""
    return struct.pack(">hhih", key, version, 7, 3) + b"raw" + tags


def sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def arrays_at(key: ApiKey, version: int) -> Iterator[bytes]:
    """Bodies that announce elements of an array, or tagged fields: a request up to that place, the number, and some
    bytes that could be the first of them.
    """
    cls = frame.request_class(key)
    spec = tables.load(cls.__name__)
    message = Generator((key, version), elements_max=1).message(cls.__name__, version)
    body = codec.encode(message, version)
    number = COUNTS[version in spec.flexible]
    for at in range(min(len(body), 60)):
        yield body[:at] + number + bytes(PADDING_BYTES)


def is_served(broker: SaslBroker, port: int) -> bool:
    with connected(broker, port) as sock:
        sock.sendall(sized(header(ApiKey.API_VERSIONS, 0)))
        return len(receive_frame(sock)) > 100


def send_all(broker: SaslBroker, port: int, frames: Iterator[bytes]) -> int:
    """Send each on a separate connection, until the broker closes it or answers. Returns the number of closed ones."""
    closed = 0
    for each in frames:
        with connected(broker, port) as sock:
            try:
                sock.sendall(each)
                closed += not sock.recv(1)
            except ConnectionError:
                closed += 1
    return closed


def test_counts_before_the_login(broker: SaslBroker) -> None:
    """If this fails, a client without a password exhausts the memory with a few frames (CVE-2026-111108, -111115)."""
    memory = Memory(broker)
    for key in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
        version = frame.api_versions(key)[1]
        bodies = [*arrays_at(key, version), COUNTS[0] + bytes(PADDING_BYTES), COUNTS[1] + bytes(PADDING_BYTES)]
        assert send_all(broker, broker.port, (sized(header(key, version) + each) for each in bodies))
    # Also in the header of a request.
    of_header = header(ApiKey.API_VERSIONS, 4)[:-1] + COUNTS[1] + bytes(PADDING_BYTES)
    assert send_all(broker, broker.port, iter([sized(of_header)])) == 1
    memory.check()
    assert is_served(broker, broker.port)


def test_counts_of_all_apis(broker: SaslBroker) -> None:
    """If this fails, any client that can connect exhausts the memory with a few frames (CVE-2026-111108, -111115)."""
    memory = Memory(broker)
    closed = 0
    for key in ApiKey:
        low, high = frame.api_versions(key)
        if high < low or key == ApiKey.API_VERSIONS:
            continue
        bodies = list(arrays_at(key, high))
        # A count that is not at the place of an array may form a valid request, which the broker performs.
        bodies = [each for each in bodies if is_malformed(key, high, each)][:20]
        closed += send_all(broker, broker.open_port, (sized(header(key, high) + each) for each in bodies))
    assert closed > 500
    memory.check()
    assert is_served(broker, broker.open_port)


def is_malformed(key: ApiKey, version: int, body: bytes) -> bool:
    try:
        codec.decode_request(frame.request_class(key), version, body)
    except WireError:
        return True
    return False


# --- compressed batches

PARTITIONS = 40


@pytest.mark.parametrize("topic_config", ["producer", "zstd"])
def test_batches(broker: SaslBroker, topic: str, topic_config: str) -> None:
    """If this fails, a batch of 100 bytes takes gigabytes when it is produced (CVE-2023-34455)."""
    create(broker, topic, topic_config)
    memory = Memory(broker)
    with connected(broker, broker.open_port) as sock:
        for kind, payload in PAYLOADS:
            for count in (1, PARTITIONS):
                assert produce(sock, topic, [batch_of(kind, payload)] * count) == {ErrorCode.UNKNOWN_SERVER_ERROR}
        memory.check()
        assert produce(sock, topic, [encode_batch([Record(value=b"x")], codec=Codec.SNAPPY)]) == {0}


def create(broker: SaslBroker, topic: str, compression: str) -> None:
    version = frame.api_versions(ApiKey.CREATE_TOPICS)[1]
    config = messages.CreateTopicsRequest.CreatableTopicConfig(name="compression.type", value=compression)
    new = messages.CreateTopicsRequest.CreatableTopic(
        name=topic, num_partitions=PARTITIONS, replication_factor=1, configs=[config]
    )
    body = codec.encode(messages.CreateTopicsRequest(topics=[new], timeout_ms=30_000), version)
    with connected(broker, broker.open_port) as sock:
        sock.sendall(sized(header(ApiKey.CREATE_TOPICS, version) + body))
        answer = codec.decode(messages.CreateTopicsResponse, version, receive_frame(sock)[5:])
    assert [each.error_code for each in answer.topics] == [0]


def produce(sock: socket.socket, topic: str, batches: list[bytes]) -> set[int]:
    """One batch for each of the first partitions; the errors."""
    parts = [messages.ProduceRequest.PartitionProduceData(index=i, records=each) for i, each in enumerate(batches)]
    data = messages.ProduceRequest.TopicProduceData(name=topic, partition_data=parts)
    request = messages.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])
    sock.sendall(sized(header(ApiKey.PRODUCE, PRODUCE_VERSION) + codec.encode(request, PRODUCE_VERSION)))
    answer = codec.decode(messages.ProduceResponse, PRODUCE_VERSION, receive_frame(sock)[5:])
    return {part.error_code for each in answer.responses for part in each.partition_responses}
