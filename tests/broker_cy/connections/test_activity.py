"""The connections that sent or received data since the last look."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from broker_cy.connections.activity import Activity
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from tests.broker_cy.connections.harness import CoreHarness, RawClient


def answered(ctx: Any, request: Any) -> Any:
    return messages.LeaveGroupResponse()


@pytest.fixture
def core() -> Iterator[CoreHarness]:
    harness = CoreHarness({ApiKey.LEAVE_GROUP: answered})
    yield harness
    harness.close()


def ask(client: RawClient, group: str) -> int:
    """Send a request, and wait for its answer; returns the bytes that were sent."""
    request = client.encode(messages.LeaveGroupRequest(group_id=group), ApiKey.LEAVE_GROUP, 0)
    client.socket.sendall(request)
    client.receive(ApiKey.LEAVE_GROUP, 0, messages.LeaveGroupResponse)
    return len(request)


def look(core: CoreHarness, limit: int, part: int = 2) -> tuple[int, list[tuple[int, int, int]]]:
    """(connections with activity, [(position, requests, bytes received) of the busiest])."""

    def looked() -> tuple[int, list[tuple[int, int, int]]]:
        activity = Activity(limit)
        connections = list(core.core.connections)
        for start in range(0, len(connections), part):
            activity.look(connections, start, start + part)
        found = [(connections.index(each), requests, got) for each, requests, got, sent in activity.busiest() if sent]
        assert activity.newest_ms >= max(each.opened_ms for each in connections)
        return activity.count, found

    result: tuple[int, list[tuple[int, int, int]]] = core.on_loop(looked)
    return result


def test_each_look_has_what_happened_since_the_last_one(core: CoreHarness) -> None:
    """If this fails, `broker-cy metrics` shows clients that do nothing, or counts requests twice."""
    clients = [core.client() for _ in range(3)]
    sizes = [ask(client, f"group {number}") for number, client in enumerate(clients)]
    # As many bytes: in the order of the connections.
    assert look(core, 5) == (3, [(0, 1, sizes[0]), (1, 1, sizes[1]), (2, 1, sizes[2])])
    assert look(core, 5) == (0, [])
    first = ask(clients[2], "group 2") + ask(clients[2], "group 2")
    assert look(core, 5) == (1, [(2, 2, first)])


def test_the_busiest_are_kept(core: CoreHarness) -> None:
    """If this fails, the client that fills the network is not among those that are shown."""
    clients = [core.client() for _ in range(5)]
    sizes = [ask(client, "g" * length) for client, length in zip(clients, (10, 50, 20, 50, 30), strict=True)]
    assert look(core, 2) == (5, [(1, 1, sizes[1]), (3, 1, sizes[3])])
    # Those that were left out count, too, and their activity is over.
    assert look(core, 2) == (0, [])
