"""Answers that a connection keeps: a request that its client repeats byte for byte gets a copy while it stands."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from broker_cy.wire import codec, messages
from broker_cy.wire.frame import ApiKey
from tests.broker_cy.connections.harness import CoreHarness, RawClient

# KEPT_REQUEST_BYTES_MAX of kept_answer.pxd, less the other fields of the request.
KEPT_GROUP_BYTES = 1024 - 2 - 4 - 2


class Harness(CoreHarness):
    """HEARTBEAT may be repeated while `stands`; LEAVE_GROUP waits for `gate`. `handled` has their groups."""

    def __init__(self) -> None:
        self.handled: list[str] = []
        self.asked = 0
        self.stands = True
        self.code = 1
        self.gate = asyncio.Event()
        super().__init__({ApiKey.HEARTBEAT: self.steady, ApiKey.LEAVE_GROUP: self.waiting})

    def steady(self, ctx: Any, request: Any) -> Any:
        self.handled.append(request.group_id)
        ctx.still_stands = self.still_stands
        return messages.HeartbeatResponse(error_code=self.code)

    def still_stands(self) -> bool:
        self.asked += 1
        return self.stands

    async def waiting(self, ctx: Any, request: Any) -> Any:
        self.handled.append(request.group_id)
        await self.gate.wait()
        return messages.LeaveGroupResponse()


@pytest.fixture
def core() -> Iterator[Harness]:
    harness = Harness()
    yield harness
    harness.close()


def request(group: str = "g") -> messages.HeartbeatRequest:
    return messages.HeartbeatRequest(group_id=group)


def beat(client: RawClient, group: str = "g", version: int = 0) -> int:
    answer = client.call(request(group), ApiKey.HEARTBEAT, version, messages.HeartbeatResponse)
    return int(answer.error_code)


def beat_as(client: RawClient, client_id: bytes | None) -> int:
    """The heartbeat with another client id; None is null."""
    client.correlation_id += 1
    length = -1 if client_id is None else len(client_id)
    header = struct.pack(">hhih", ApiKey.HEARTBEAT, 0, client.correlation_id, length) + (client_id or b"")
    body = codec.encode(request(), 0)
    client.send(struct.pack(">i", len(header) + len(body)) + header + body)
    correlation_id, answer = client.receive(ApiKey.HEARTBEAT, 0, messages.HeartbeatResponse)
    assert correlation_id == client.correlation_id
    return int(answer.error_code)


def test_a_repeated_request_is_not_handled_again(core: Harness) -> None:
    """If this fails, the heartbeats of 10,000 consumers take more of a processor than they need."""
    client = core.client()
    assert [beat(client) for _ in range(5)] == [1] * 5
    assert (core.handled, core.asked) == (["g"], 4)
    requests, received, sent = core.core.metrics.read(ApiKey.HEARTBEAT)
    assert requests == 5
    assert (received % 5, sent % 5) == (0, 0)


def test_an_answer_that_no_longer_stands_is_made_anew(core: Harness) -> None:
    """If this fails, a consumer never learns of a rebalance."""
    client = core.client()
    beat(client)
    core.stands, core.code = False, 27
    assert beat(client) == 27
    core.stands = True
    assert beat(client) == 27
    assert (core.handled, core.asked) == (["g", "g"], 2)


def test_another_request_is_handled(core: Harness) -> None:
    """If this fails, a client gets the answer to another request."""
    client = core.client()
    beat(client)
    beat(client, "other")
    beat(client)
    beat(client, version=1)
    assert core.handled == ["g", "other", "g", "g"]
    assert core.asked == 0


def test_another_client_id_is_handled(core: Harness) -> None:
    """If this fails, the group shows a client id that its member no longer has."""
    client = core.client()
    for client_id in (b"test", b"tess", None, None, b"tess"):
        assert beat_as(client, client_id) == 1
    # Answers to requests without a client id are not kept.
    assert (len(core.handled), core.asked) == (4, 1)


def test_another_connection_has_its_own_answer(core: Harness) -> None:
    """If this fails, a client gets what another one may see."""
    beat(core.client())
    beat(core.client())
    assert core.handled == ["g", "g"]


def test_a_long_request_is_not_kept(core: Harness) -> None:
    """If this fails, each connection may make the broker keep as much memory as its longest heartbeat has."""
    client = core.client()
    kept, longer = "g" * KEPT_GROUP_BYTES, "g" * (KEPT_GROUP_BYTES + 1)
    for group in (kept, kept, longer, longer):
        beat(client, group)
    assert core.handled == [kept, longer, longer]


def test_a_repeated_request_waits_for_its_turn(core: Harness) -> None:
    """If this fails, a heartbeat overtakes the request before it, which may have changed its answer."""
    client = core.client()
    beat(client)
    client.send(client.encode(messages.LeaveGroupRequest(group_id="l"), ApiKey.LEAVE_GROUP, 0))
    client.send(client.encode(request(), ApiKey.HEARTBEAT, 0))
    core.wait_until(lambda: core.handled == ["g", "l"])
    assert core.asked == 0
    core.on_loop(core.gate.set)
    assert client.receive(ApiKey.LEAVE_GROUP, 0, messages.LeaveGroupResponse)[0] == 2
    assert client.receive(ApiKey.HEARTBEAT, 0, messages.HeartbeatResponse)[0] == 3
    assert core.asked == 1


def unlimited() -> Any:
    """Quotas that do not apply to the client."""
    return SimpleNamespace(account=lambda principal, client_id: None)


def test_nothing_is_kept_or_repeated_while_quotas_are_set(core: Harness) -> None:
    """If this fails, a client beyond its quota is never told to wait, or always."""
    client = core.client()
    core.on_loop(lambda: core.core.meter(unlimited(), 1))
    beat(client)
    core.on_loop(lambda: core.core.meter(None, 2))
    # The answer that was made under quotas was not kept.
    beat(client)
    beat(client)
    assert (len(core.handled), core.asked) == (2, 1)
    core.on_loop(lambda: core.core.meter(unlimited(), 3))
    beat(client)
    assert (len(core.handled), core.asked) == (3, 1)
