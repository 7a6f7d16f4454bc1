"""The connection over a transport that is not a socket, as with TLS and simulated links."""

from __future__ import annotations

import errno
import struct
from pathlib import Path
from typing import Any

import pytest

from broker_cy.wire import codec, messages
from broker_cy.wire.frame import ApiKey, request_header_version, response_header_version
from broker_cy.wire.records import Record, encode_batch
from tests.broker_cy.connections.harness import fetch_request, produce_request
from tests.broker_cy.connections.memory_link import MemoryBroker, MemoryLink

PRODUCE_VERSION, FETCH_VERSION = 9, 11


def framed(request: Any, key: ApiKey, version: int, correlation_id: int) -> bytes:
    header = struct.pack(">hhih", key, version, correlation_id, 1) + b"m"
    if request_header_version(key, version) >= 2:
        header += b"\0"
    body = codec.encode(request, version)
    return struct.pack(">i", len(header) + len(body)) + header + body


def answers(sent: bytes | bytearray) -> list[tuple[int, bytes]]:
    """Return (correlation id, rest) of each whole frame; asserts that there is nothing else."""
    found, at = [], 0
    while at < len(sent):
        (size,) = struct.unpack_from(">i", sent, at)
        assert at + 4 + size <= len(sent)
        found.append((struct.unpack_from(">i", sent, at + 4)[0], bytes(sent[at + 8 : at + 4 + size])))
        at += 4 + size
    return found


def decoded(payload: bytes, key: ApiKey, version: int, response_class: Any) -> Any:
    return codec.decode(response_class, version, payload[1 if response_header_version(key, version) >= 1 else 0 :])


def value(size: int) -> bytes:
    return bytes(each % 251 for each in range(size))


@pytest.mark.parametrize("step", [1, 7, 4096, 1 << 30])
def test_records_survive_short_reads_and_writes(tmp_path: Path, step: int) -> None:
    """If this fails, records are lost or repeated where a transport takes only a part, as TLS does at each of its
    records.
    """
    broker = MemoryBroker(tmp_path)
    size = 3_000 if step < 100 else 400_000
    link = MemoryLink(step)
    broker.connect(link)
    batch = encode_batch([Record(0, broker.clock.wall_ms(), b"k", value(size), [])])
    for number in range(3):
        link.arrive(framed(produce_request("t", 0, batch), ApiKey.PRODUCE, PRODUCE_VERSION, number))
    link.arrive(framed(fetch_request("t", 0, 0), ApiKey.FETCH, FETCH_VERSION, 3))
    broker.loop.run()
    found = answers(link.sent)
    assert [number for number, _ in found] == [0, 1, 2, 3]
    for number in range(3):
        response = decoded(found[number][1], ApiKey.PRODUCE, PRODUCE_VERSION, messages.ProduceResponse)
        result = response.responses[0].partition_responses[0]
        assert (result.error_code, result.base_offset) == (0, number)
    fetched = decoded(found[3][1], ApiKey.FETCH, FETCH_VERSION, messages.FetchResponse)
    records = fetched.responses[0].partitions[0].records
    assert len(records) == 3 * len(batch)
    assert records.count(value(size)) == 3


def test_a_transport_without_room_stops_reading(tmp_path: Path) -> None:
    """If this fails, a peer that reads nothing makes the broker read its requests, and hold the responses, without
    bound.
    """
    broker = MemoryBroker(tmp_path)
    link = MemoryLink()
    broker.connect(link)
    batch = encode_batch([Record(0, broker.clock.wall_ms(), b"k", value(300_000), [])])
    link.arrive(framed(produce_request("t", 0, batch), ApiKey.PRODUCE, PRODUCE_VERSION, 0))
    broker.loop.run()
    link.room = 1_000
    for number in range(1, 20):
        link.arrive(framed(fetch_request("t", 0, 0), ApiKey.FETCH, FETCH_VERSION, number))
        broker.loop.run()
    assert link.room == 0
    assert len(link.waiting) > 0
    link.room = 1 << 30
    broker.loop.run()
    assert [number for number, _ in answers(link.sent)] == list(range(20))
    assert not link.waiting


@pytest.mark.parametrize("failure", ["end", "reset", "defect"])
def test_a_link_that_ends_closes_its_connection_only(tmp_path: Path, failure: str) -> None:
    """If this fails, an error of one transport leaves its connection open, or affects others."""

    class Broken(MemoryLink):
        def recv_into(self, room: memoryview) -> int:
            if failure == "defect":
                raise RuntimeError("a defect of the transport")
            return -errno.ECONNRESET if failure == "reset" else super().recv_into(room)

    broker = MemoryBroker(tmp_path)
    broken, good = Broken(), MemoryLink()
    connection = broker.connect(broken)
    broker.connect(good)
    broken.ended = True
    good.arrive(framed(fetch_request("t", 0, 0), ApiKey.FETCH, FETCH_VERSION, 5))
    broker.loop.run()
    assert (connection.closed, broken.is_closed, good.is_closed) == (True, True, False)
    assert [number for number, _ in answers(good.sent)] == [5]
    assert len(broker.core.connections) == 1


def test_idle_connections_end_in_virtual_time(tmp_path: Path) -> None:
    """If this fails, the connection looks at the machine's clock, and a simulation cannot be repeated."""
    broker = MemoryBroker(tmp_path)
    idle, busy = MemoryLink(), MemoryLink()
    broker.connect(idle)
    broker.connect(busy)
    broker.clock.advance_ms(60_000)
    busy.arrive(framed(fetch_request("t", 0, 0), ApiKey.FETCH, FETCH_VERSION, 1))
    broker.loop.run()
    assert broker.core.close_idle(30_000) == 1
    assert (idle.is_closed, busy.is_closed) == (True, False)
