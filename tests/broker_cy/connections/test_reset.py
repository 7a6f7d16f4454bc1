"""Clients that disappear while the broker answers them."""

import socket
import struct
import threading
from functools import partial

from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from tests.broker_cy.connections.harness import DEADLINE_S, CoreHarness

ANSWER = messages.ListGroupsResponse(groups=[messages.ListGroupsResponse.ListedGroup(group_id="g" * 1000)] * 20)


def test_a_reset_between_pipelined_requests_ends_that_connection_only() -> None:
    """If this fails, the broker fails for all clients because one client was killed with many outstanding requests."""
    harness = CoreHarness({ApiKey.LIST_GROUPS: lambda ctx, request: ANSWER})

    def all_closed(number: int) -> bool:
        return harness.core.connections_opened == number and not harness.core.connections

    try:
        for number in range(1, 4):
            client = harness.client()
            held = threading.Event()
            # The loop waits, so that requests and reset have both arrived when it reads.
            harness.loop.call_soon_threadsafe(held.wait, DEADLINE_S)
            client.send(client.encode(messages.ListGroupsRequest(), ApiKey.LIST_GROUPS, 0) * 200)
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            held.set()
            harness.wait_until(partial(all_closed, number))
        client = harness.client()
        assert client.call(messages.ListGroupsRequest(), ApiKey.LIST_GROUPS, 0, messages.ListGroupsResponse) == ANSWER
        client.close()
    finally:
        harness.close()
