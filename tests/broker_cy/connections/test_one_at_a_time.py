"""Requests of one connection are handled one at a time, as in Kafka: each one sees the effects of the previous one."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from tests.broker_cy.connections.harness import CoreHarness, RawClient


class Harness(CoreHarness):
    """HEARTBEAT is answered when the test requests it, LEAVE_GROUP immediately; `handled` has their groups in order."""

    def __init__(self) -> None:
        self.handled: list[str] = []
        self.gate = asyncio.Event()
        self.before_the_end: Callable[[], object] = lambda: None
        super().__init__({ApiKey.HEARTBEAT: self.waiting, ApiKey.LEAVE_GROUP: self.quick})

    async def waiting(self, ctx: Any, request: Any) -> Any:
        self.handled.append(request.group_id)
        await self.gate.wait()
        self.before_the_end()
        return messages.HeartbeatResponse()

    def quick(self, ctx: Any, request: Any) -> Any:
        self.handled.append(request.group_id)
        return messages.LeaveGroupResponse()

    def open_gate(self) -> None:
        self.on_loop(self.gate.set)

    def connections(self) -> int:
        return len(self.core.connections)


@pytest.fixture
def core() -> Iterator[Harness]:
    harness = Harness()
    yield harness
    harness.close()


def beat(client: RawClient, group: str) -> bytes:
    return client.encode(messages.HeartbeatRequest(group_id=group), ApiKey.HEARTBEAT, 0)


def leave(client: RawClient, group: str) -> bytes:
    return client.encode(messages.LeaveGroupRequest(group_id=group), ApiKey.LEAVE_GROUP, 0)


def answers(client: RawClient, *keys: ApiKey) -> list[int]:
    classes = {ApiKey.HEARTBEAT: messages.HeartbeatResponse, ApiKey.LEAVE_GROUP: messages.LeaveGroupResponse}
    return [client.receive(key, 0, classes[key])[0] for key in keys]


@pytest.mark.parametrize("in_one_piece", [True, False], ids=["in one piece", "later"])
@pytest.mark.parametrize("size", [1, 6000, 30_000])
def test_the_next_request_waits_for_the_handler(core: Harness, in_one_piece: bool, size: int) -> None:
    """If this fails, a LeaveGroup after the member's own JoinGroup would leave a group that is not joined yet."""
    client, other = core.client(), core.client()
    names = ["first", "l" * size, "third", "last"]
    frames = [beat(client, names[0]), leave(client, names[1]), beat(client, names[2]), leave(client, names[3])]
    if in_one_piece:
        client.send(b"".join(frames))
        core.wait_until(lambda: core.handled == ["first"])
    else:
        client.send(frames[0])
        core.wait_until(lambda: core.handled == ["first"])
        client.send(b"".join(frames[1:]))
    # Another connection is served in between; by then the loop has had enough iterations for the first one, too.
    for at in range(3):
        other.send(leave(other, f"other {at}"))
        answers(other, ApiKey.LEAVE_GROUP)
    assert core.handled == ["first", "other 0", "other 1", "other 2"]
    core.open_gate()
    assert answers(client, *[ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP] * 2) == [1, 2, 3, 4]
    assert [name for name in core.handled if not name.startswith("other")] == names


def test_stop_answers_what_was_read(core: Harness) -> None:
    """A request that the broker has accepted is answered before it stops, also if it waited for another."""
    client = core.client()
    client.send(beat(client, "a") + leave(client, "b") + beat(client, "c") + leave(client, "d"))
    core.wait_until(lambda: core.handled == ["a"])
    core.on_loop(core.core.stop_reading)
    assert core.on_loop(lambda: core.core.pending_answers) > 1
    core.open_gate()
    assert answers(client, *[ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP] * 2) == [1, 2, 3, 4]
    assert client.is_closed()
    assert core.on_loop(lambda: core.core.pending_answers) == 0


def test_stop_does_not_wait_for_the_rest_of_a_request(core: Harness) -> None:
    """A peer that stopped in the middle of a request must not delay the stop."""
    client = core.client()
    client.send(beat(client, "a") + leave(client, "b")[:-1])
    core.wait_until(lambda: core.handled == ["a"])
    core.on_loop(core.core.stop_reading)
    core.open_gate()
    assert answers(client, ApiKey.HEARTBEAT) == [1]
    assert client.is_closed()


def test_peer_that_goes_away_while_its_handler_runs(core: Harness) -> None:
    """One leaked descriptor for each closed connection would end in a broker that accepts no connections."""
    client = core.client()
    client.send(beat(client, "a") + leave(client, "b"))
    core.wait_until(lambda: core.handled == ["a"])
    client.close()
    core.open_gate()
    core.wait_until(lambda: core.connections() == 0)
    assert core.on_loop(lambda: len(core.core.tasks)) == 0
    assert core.on_loop(lambda: core.core.pool.lent_bytes) == 0


def test_whole_requests_of_a_peer_that_has_left_are_handled(core: Harness) -> None:
    """If this fails, a record with acks=0 is lost if its producer closes the connection while an earlier request is
    still being handled.
    """
    client = core.client()
    client.send(beat(client, "a") + leave(client, "b") + leave(client, "c"))
    core.wait_until(lambda: core.handled == ["a"])
    client.socket.shutdown(socket.SHUT_WR)
    (connection,) = core.core.connections
    # The loop reports the end just after the handler is done, and before the connection continues with the rest.
    core.before_the_end = lambda: core.loop.call_soon(connection.on_readable)
    core.open_gate()
    core.wait_until(lambda: core.connections() == 0)
    assert core.handled == ["a", "b", "c"]


def test_peer_that_goes_away_in_silence(core: Harness) -> None:
    """The same for one that sent nothing more."""
    client = core.client()
    client.send(beat(client, "a"))
    core.wait_until(lambda: core.handled == ["a"])
    client.close()
    core.open_gate()
    core.wait_until(lambda: core.connections() == 0)


def test_defect_behind_a_handler_ends_the_connection(core: Harness) -> None:
    """A waiting request that does not parse is detected when its turn comes."""
    client = core.client()
    client.send(beat(client, "a") + (8).to_bytes(4, "big") + b"\x7f" * 8)
    core.wait_until(lambda: core.handled == ["a"])
    core.open_gate()
    assert answers(client, ApiKey.HEARTBEAT) == [1]
    assert client.is_closed()
