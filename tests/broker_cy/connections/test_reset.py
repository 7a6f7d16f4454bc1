"""Clients that disappear while the broker answers them."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from broker_cy.wire.records import Record, encode_batch
from tests.broker_cy.connections.harness import DEADLINE_S, CoreHarness, RawClient, fetch_request, produce_request

ANSWER = messages.ListGroupsResponse(groups=[messages.ListGroupsResponse.ListedGroup(group_id="g" * 1000)] * 20)
DAY_MS = 86_400_000


@pytest.fixture
def harness() -> Iterator[CoreHarness]:
    found = CoreHarness({ApiKey.LIST_GROUPS: lambda ctx, request: ANSWER})
    found.topic("t")
    try:
        yield found
    finally:
        found.close()


def list_groups(client: RawClient) -> bytes:
    return client.encode(messages.ListGroupsRequest(), ApiKey.LIST_GROUPS, 0)


def send_and_reset(harness: CoreHarness, data_of: Callable[[RawClient], bytes]) -> None:
    """Connect, send, reset the connection before the broker reads, and wait until the broker has closed it."""
    number = harness.core.connections_opened + 1
    client = harness.client()
    held = threading.Event()
    # The loop waits, so that requests and reset have both arrived when it reads.
    harness.loop.call_soon_threadsafe(held.wait, DEADLINE_S)
    client.send(data_of(client))
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    held.set()
    harness.wait_until(lambda: harness.core.connections_opened == number and not harness.core.connections)


def test_a_reset_between_pipelined_requests_ends_that_connection_only(harness: CoreHarness) -> None:
    """If this fails, the broker fails for all clients because one client was killed with many outstanding requests."""
    for _ in range(3):
        send_and_reset(harness, lambda client: list_groups(client) * 200)
    client = harness.client()
    assert client.call(messages.ListGroupsRequest(), ApiKey.LIST_GROUPS, 0, messages.ListGroupsResponse) == ANSWER
    client.close()


@pytest.mark.parametrize("kind", ["a part of a request", "a fetch that waits", "records without an answer"])
def test_a_reset_behind_bytes_that_get_no_answer_ends_the_connection(harness: CoreHarness, kind: str) -> None:
    """If this fails, connections of killed clients count against max.connections for as long as idle ones may."""

    def data_of(client: RawClient) -> bytes:
        if kind == "a part of a request":
            return list_groups(client)[:-1]
        if kind == "a fetch that waits":
            return client.encode(fetch_request("t", 0, 0, max_wait_ms=DAY_MS), ApiKey.FETCH, 11)
        records = encode_batch([Record(timestamp=0, value=b"value")])
        return client.encode(produce_request("t", 0, records, acks=0), ApiKey.PRODUCE, 9)

    send_and_reset(harness, data_of)
