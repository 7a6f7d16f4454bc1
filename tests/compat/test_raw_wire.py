"""Frames that no client sends: the broker closes the connection that sent one, and no other."""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Iterator

import psutil
import pytest

from tests.support.broker import Target, target_is_kafka
from tests.support.raw_wire import (
    API_VERSIONS,
    FETCH,
    METADATA,
    PRODUCE,
    TAGS,
    Connection,
    RawBatch,
    Reader,
    array,
    closes,
    compact_string,
    crc32c,
    frame,
    i16,
    i32,
    produce,
    produce_body,
    receive_frame,
    request,
    send_request,
    string,
    uvarint,
    varint,
)
from tests.support.topics import create_topic
from tests.support.wait import until

TOPIC = "plain"
UNSUPPORTED_VERSION, INVALID_REQUEST = 35, 42
REQUEST_MAX_BYTES = 104_857_600
TIMEOUT_S = 60.0
A_TOPIC = array([string(TOPIC)])


def header(api_key: int, version: int, client_id_size: int, rest: bytes = b"") -> bytes:
    """Make a request header whose client id claims any size."""
    return struct.pack(">hhih", api_key, version, 7, client_id_size) + rest


CLOSES = {
    # The frame's length
    "negative length": i32(-1),
    "most negative length": i32(-(2**31)),
    "largest length": i32(2**31 - 1),
    "one byte over socket.request.max.bytes": i32(REQUEST_MAX_BYTES + 1),
    "length 0": i32(0),
    "shorter than a header": frame(b"abc"),
    "header without client id": frame(struct.pack(">hhi", API_VERSIONS, 0, 7)),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    "a TLS hello": bytes.fromhex("16030100c8010000c4") + bytes(200),
    # The API and its version
    "unknown API 9999": frame(request(9999, 0, b"")),
    "unknown API -1": frame(request(-1, 0, b"")),
    "removed API 4": frame(request(4, 0, b"")),
    "controller API 52 on a client listener": frame(request(52, 0, b"", flexible=True)),
    "Metadata version 99": frame(request(METADATA, 99, b"")),
    "Metadata version -1": frame(request(METADATA, -1, A_TOPIC)),
    "Metadata version 14": frame(request(METADATA, 14, b"", flexible=True)),
    "Produce version 0": frame(request(PRODUCE, 0, bytes(40))),
    "Produce version 2": frame(request(PRODUCE, 2, i16(1) + i32(1000) + i32(0))),
    "Fetch version 3": frame(request(FETCH, 3, bytes(40))),
    # The header
    "client id longer than the frame": frame(header(METADATA, 1, 500, A_TOPIC)),
    "tag count larger than the frame": frame(header(METADATA, 9, -1, uvarint(2**31))),
    "varint without end": frame(header(METADATA, 9, -1, TAGS + b"\xff" * 6 + b"\0")),
    # The body
    "body cut short": frame(request(METADATA, 1, A_TOPIC[:-1])),
    "body missing": frame(request(METADATA, 1, b"")),
    "array of 2^31-1": frame(request(METADATA, 1, i32(2**31 - 1))),
    "null where none may be": frame(request(METADATA, 1, i32(1) + i16(-1))),
    "string of negative length": frame(request(METADATA, 1, i32(1) + i16(-5))),
    "Produce cut in the topic name": frame(
        request(PRODUCE, 8, string(None) + i16(-1) + i32(1000) + i32(1) + i16(50) + b"abc")
    ),
    "Produce with 2^31-1 topics": frame(request(PRODUCE, 8, string(None) + i16(-1) + i32(1000) + i32(2**31 - 1))),
    "Produce, records longer than the frame": frame(
        request(
            PRODUCE,
            8,
            string(None) + i16(-1) + i32(1000) + i32(1) + string(TOPIC) + i32(1) + i32(0) + i32(10**6) + b"x",
        )
    ),
    "Fetch with nothing behind the header": frame(request(FETCH, 11, b"")),
    "Fetch with 2^31-1 topics": frame(
        request(FETCH, 11, i32(-1) + i32(100) + i32(1) + i32(1000) + b"\0" + i32(0) + i32(-1) + i32(2**31 - 1))
    ),
}


@pytest.fixture(scope="module")
def witness(broker: Target) -> Iterator[Connection]:
    """Another client's connection, open all the time."""
    create_topic(broker.bootstrap, TOPIC, 2)
    with Connection((broker.host, broker.port)) as connection:
        yield connection


def works(connection: Connection) -> None:
    assert produce(connection, {TOPIC: {0: RawBatch().encode()}})[TOPIC, 0].error == 0


@pytest.mark.parametrize("name", CLOSES)
def test_closes_that_connection_alone(broker: Target, witness: Connection, name: str) -> None:
    """If this fails, one broken or hostile client hangs, crashes the broker, or disconnects other clients."""
    with socket.create_connection((broker.host, broker.port), TIMEOUT_S) as sock:
        sock.sendall(CLOSES[name])
        assert closes(sock)
    works(witness)


@pytest.mark.parametrize("name", ["Metadata version 99", "array of 2^31-1", "negative length"])
def test_answers_what_came_before(broker: Target, witness: Connection, name: str) -> None:
    """If this fails, a good request is lost because a bad one follows it on the connection."""
    with socket.create_connection((broker.host, broker.port), TIMEOUT_S) as sock:
        send_request(sock, METADATA, 1, A_TOPIC, 5)
        assert Reader(receive_frame(sock)).i32() == 5
        sock.sendall(CLOSES[name])
        assert closes(sock)


def test_an_end_in_the_middle_of_a_frame(broker: Target, witness: Connection) -> None:
    """If this fails, a client that dies while it sends disturbs other clients."""
    whole = frame(request(METADATA, 1, A_TOPIC))
    for cut in range(1, len(whole)):
        with socket.create_connection((broker.host, broker.port), TIMEOUT_S) as sock:
            sock.sendall(whole[:cut])
            sock.shutdown(socket.SHUT_WR)
            assert closes(sock)
    works(witness)


def test_a_frame_in_single_bytes(broker: Target, witness: Connection) -> None:
    """If this fails, fragments of a slow network are not reassembled."""
    with Connection((broker.host, broker.port)) as connection:
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in frame(request(METADATA, 1, A_TOPIC, 9)):
            connection.sock.send(bytes([byte]))
        assert Reader(receive_frame(connection.sock)).i32() == 9


def test_a_claimed_length_costs_nothing(broker: Target, witness: Connection) -> None:
    """If this fails, a hundred idle connections that each claim a 100 MB request exhaust the machine's memory."""
    if target_is_kafka():
        pytest.skip("Apache Kafka allocates what a frame claims, and dies of it with a small heap")
    process = psutil.Process(broker.pid)
    before = process.memory_info().rss
    held = []
    try:
        for _ in range(100):
            sock = socket.create_connection((broker.host, broker.port), TIMEOUT_S)
            held.append(sock)
            sock.sendall(i32(REQUEST_MAX_BYTES) + b"x" * 100)
        works(witness)
        assert process.memory_info().rss - before < 50_000_000
    finally:
        for sock in held:
            sock.close()
    works(witness)


def test_answers_keep_the_order_of_pipelined_requests(broker: Target, witness: Connection) -> None:
    """If this fails, a client that pipelines gets the response to another request."""
    body = A_TOPIC
    with Connection((broker.host, broker.port)) as connection:
        wanted = list(range(1000, 1200))
        connection.sock.sendall(
            b"".join(
                frame(
                    request(
                        METADATA if number % 3 else API_VERSIONS,
                        1 if number % 3 else 0,
                        body if number % 3 else b"",
                        number,
                    )
                )
                for number in wanted
            )
        )
        assert [Reader(receive_frame(connection.sock)).i32() for _ in wanted] == wanted


def test_trailing_bytes_are_ignored(broker: Target, witness: Connection) -> None:
    """If this fails, a client whose requests have bytes after the last known field works with Kafka but not with
    broker-cy.
    """
    with Connection((broker.host, broker.port)) as connection:
        reader = connection.ask(METADATA, 1, A_TOPIC + b"zz")
        assert reader.i32() == 1  # one broker


@pytest.mark.parametrize("client_id_size", [-1, 0])
def test_null_client_id(broker: Target, witness: Connection, client_id_size: int) -> None:
    """If this fails, a client without a client id is disconnected."""
    with Connection((broker.host, broker.port)) as connection:
        connection.sock.sendall(frame(header(METADATA, 1, client_id_size, A_TOPIC)))
        assert Reader(receive_frame(connection.sock)).i32() == 7


def test_unknown_tagged_fields_are_skipped(broker: Target, witness: Connection) -> None:
    """If this fails, a newer client that adds a tagged field is disconnected."""
    unknown_tag = uvarint(1) + uvarint(77) + uvarint(2) + b"ab"
    body = uvarint(0) + b"\x01\x00\x00" + unknown_tag
    with Connection((broker.host, broker.port)) as connection:
        connection.sock.sendall(frame(header(METADATA, 9, -1, unknown_tag + body)))
        assert Reader(receive_frame(connection.sock)).i32() == 7


class TestApiVersions:
    """Every client's first request."""

    NAME = compact_string("a-client") + compact_string("1.0") + TAGS

    def ask(self, broker: Target, version: int, body: bytes, flexible: bool) -> Reader:
        with Connection((broker.host, broker.port)) as connection:
            return connection.ask(API_VERSIONS, version, body, flexible)

    @staticmethod
    def ranges(reader: Reader) -> dict[int, tuple[int, int]]:
        return {reader.i16(): (reader.i16(), reader.i16()) for _ in range(reader.i32())}

    @pytest.mark.parametrize("version", [5, -1, 32767])
    def test_a_version_of_the_future_falls_back(self, broker: Target, version: int) -> None:
        """If this fails, a client newer than the broker cannot even request the supported versions (KIP-511)."""
        reader = self.ask(broker, version, self.NAME if version > 2 else b"", version > 2)
        assert reader.i16() == UNSUPPORTED_VERSION
        assert self.ranges(reader) == {API_VERSIONS: (0, 4)}
        assert reader.at_end()

    @pytest.mark.parametrize("version", [0, 1, 2])
    def test_ranges(self, broker: Target, version: int) -> None:
        """If this fails, a client picks a version that the broker does not support."""
        reader = self.ask(broker, version, b"", False)
        assert reader.i16() == 0
        ranges = self.ranges(reader)
        # Quirk: librdkafka before 2.6 drops compression silently when Produce starts at 3 (KAFKA-18659).
        assert ranges[PRODUCE] == (0, 13)
        assert ranges[API_VERSIONS] == (0, 4)
        assert ranges[METADATA] == (0, 13)
        if version:
            assert reader.i32() == 0  # throttle time
        assert reader.at_end()

    @pytest.mark.parametrize(("name", "version"), [("x y!", "1"), ("", ""), ("-x", "1"), ("x", "1_")])
    def test_client_software_is_checked(self, broker: Target, name: str, version: str) -> None:
        """If this fails, invalid names get into logs and metrics."""
        reader = self.ask(broker, 3, compact_string(name) + compact_string(version) + TAGS, True)
        assert reader.i16() == INVALID_REQUEST

    @pytest.mark.parametrize("version", [3, 4])
    def test_response_header_has_no_tags(self, broker: Target, version: int) -> None:
        """A flexible response header here breaks every client (KIP-511)."""
        reader = self.ask(broker, version, self.NAME, True)
        assert reader.i16() == 0
        count = reader.uvarint() - 1
        keys = []
        for _ in range(count):
            keys.append(reader.i16())
            reader.take(4)
            assert reader.uvarint() == 0
        assert {PRODUCE, FETCH, METADATA, API_VERSIONS} <= set(keys)
        assert len(keys) == len(set(keys))
        assert reader.i32() == 0


def test_acks_0_is_not_answered(broker: Target, witness: Connection) -> None:
    """If this fails, a producer with acks=0 takes the response to its produce for the response to something else."""
    with Connection((broker.host, broker.port)) as connection:
        send_request(connection.sock, PRODUCE, 8, produce_body({TOPIC: {1: RawBatch().encode()}}, acks=0), 41)
        send_request(connection.sock, METADATA, 1, A_TOPIC, 42)
        assert Reader(receive_frame(connection.sock)).i32() == 42


def test_acks_0_with_an_error_closes(broker: Target, witness: Connection) -> None:
    """If this fails, a producer with acks=0 never learns that its records are refused."""
    with Connection((broker.host, broker.port)) as connection:
        send_request(connection.sock, PRODUCE, 8, produce_body({TOPIC: {1: RawBatch(crc=1).encode()}}, acks=0), 41)
        assert closes(connection.sock)


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_acks_that_do_not_exist(witness: Connection, acks: int) -> None:
    """If this fails, an invalid acks value counts as a valid one."""
    answers = produce(witness, {TOPIC: {0: RawBatch().encode(), 1: RawBatch().encode()}}, acks=acks)
    assert [answer.error for answer in answers.values()] == [21, 21]


def test_many_clients_send_rubbish_while_others_work(broker: Target, witness: Connection) -> None:
    """If this fails, the broker stops serving during a port scan or an attack."""
    failures: list[str] = []

    def scan() -> None:
        for name, data in CLOSES.items():
            try:
                with socket.create_connection((broker.host, broker.port), TIMEOUT_S) as sock:
                    sock.sendall(data)
                    if not closes(sock):
                        failures.append(name)
            except ConnectionError:
                pass

    threads = [threading.Thread(target=scan) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        works(witness)
    for thread in threads:
        thread.join()
    assert failures == []


def test_hand_made_frames_are_right() -> None:
    """If this fails, the helpers of these tests are wrong."""
    assert crc32c(b"123456789") == 0xE3069283
    assert varint(-1) == b"\x01"
    assert varint(300) == b"\xd8\x04"
    assert varint(-(2**63)) == b"\xff" * 9 + b"\x01"


def test_one_log_line_for_a_bad_frame(broker: Target, witness: Connection) -> None:
    """If this fails, an operator cannot find out which client sends invalid requests."""
    if target_is_kafka():
        pytest.skip("about our own log")
    with socket.create_connection((broker.host, broker.port), TIMEOUT_S) as sock:
        peer = f"{sock.getsockname()[0]}:{sock.getsockname()[1]}"
        sock.sendall(CLOSES["array of 2^31-1"])
        assert closes(sock)
    # Rate limited: the log may name another peer than this one.
    until(lambda: re.search(r"127\.0\.0\.1:\d+", broker.stderr()), f"a line that names a peer such as {peer}")
    assert "Traceback" not in broker.stderr()
