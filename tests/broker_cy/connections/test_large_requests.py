"""Requests that fill many packets: the loop is woken for them when that is efficient, and never too late."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator

import pytest

from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from broker_cy.wire.records import Record, encode_batch
from tests.broker_cy.connections.harness import CoreHarness, fetch_from, produce_request, produce_to
from tests.support.logs import fields_of

VERSION = 9


@pytest.fixture
def core() -> Iterator[CoreHarness]:
    harness = CoreHarness()
    harness.topic("t")
    try:
        yield harness
    finally:
        harness.close()


def batch(size: int, fill: bytes) -> bytes:
    return encode_batch([Record(value=fill * size)])


@pytest.mark.parametrize("pieces", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("size", [70_000, 300_000, 900_000])
def test_large_request_in_pieces(core: CoreHarness, size: int, pieces: int) -> None:
    """The last fragment may be a single byte: the response is still sent, and so is that to the next request."""
    client = core.client()
    frame = client.encode(produce_request("t", 0, batch(size, b"x")), ApiKey.PRODUCE, VERSION)
    follower = client.encode(produce_request("t", 0, batch(10, b"y")), ApiKey.PRODUCE, VERSION)
    cuts = [0, *(len(frame) * (piece + 1) // pieces - 1 for piece in range(pieces))]
    for start, end in itertools.pairwise(cuts):
        client.send(frame[start:end])
        core.on_loop(lambda: None)
    client.send(frame[cuts[-1] :] + follower)
    for offset in range(2):
        _, answer = client.receive(ApiKey.PRODUCE, VERSION, messages.ProduceResponse)
        assert answer.responses[0].partition_responses[0].base_offset == offset
    assert len(fetch_from(client, "t", 0, max_bytes=2 << 20).records) > size
    client.close()


def test_peer_that_leaves_in_the_middle_is_noticed(core: CoreHarness) -> None:
    """A socket that waits for half a megabyte becomes readable when its peer closes the connection."""
    client = core.client()
    frame = client.encode(produce_request("t", 0, batch(900_000, b"x")), ApiKey.PRODUCE, VERSION)
    client.send(frame[:300_000])
    core.wait_until(lambda: len(core.core.connections) == 1)
    client.socket.shutdown(socket.SHUT_WR)
    core.wait_until(lambda: len(core.core.connections) == 0)
    assert client.is_closed()


def test_many_large_batches_of_one_turn_are_all_written(core: CoreHarness) -> None:
    """Large amounts of staged data are written early; each response still belongs to its own batch."""
    client = core.client()
    data = [batch(200_000, bytes([65 + number])) for number in range(12)]
    client.send(b"".join(client.encode(produce_request("t", 0, each), ApiKey.PRODUCE, VERSION) for each in data))
    for offset in range(len(data)):
        _, answer = client.receive(ApiKey.PRODUCE, VERSION, messages.ProduceResponse)
        assert answer.responses[0].partition_responses[0].base_offset == offset
    for offset, each in enumerate(data):
        records = fetch_from(client, "t", offset, max_bytes=1).records
        assert records[61:] == each[61:]
    client.close()


def test_small_requests_after_a_large_one_are_answered_at_once(core: CoreHarness) -> None:
    """The larger wake-up threshold ends with the request for which it was set."""
    client = core.client()
    assert produce_to(client, "t", batch(900_000, b"x")).error_code == 0
    for _ in range(5):
        assert produce_to(client, "t", batch(10, b"y")).error_code == 0
    client.close()


@pytest.mark.parametrize("sent", [1, 5, 40, 300_000])
def test_request_that_is_cut_off_is_logged_and_a_leaving_client_is_not(
    core: CoreHarness, sent: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line with peer, API and reason: without it, the reason for a producer's missing last batch is unknown."""
    leaving, cut = core.client(), core.client()
    assert produce_to(leaving, "t", batch(10, b"y")).error_code == 0
    leaving.close()
    core.wait_until(lambda: len(core.core.connections) <= 1)
    frame = cut.encode(produce_request("t", 0, batch(900_000, b"x")), ApiKey.PRODUCE, VERSION)
    cut.send(frame[:sent])
    cut.socket.shutdown(socket.SHUT_WR)
    assert cut.is_closed()
    (told,) = [fields_of(record) for record in caplog.records if "bad request" in record.msg]
    assert told["reason"].startswith(f"the connection ended after {sent} bytes of a request of")
    assert told["api"] == ("-" if sent < 6 else "PRODUCE")
