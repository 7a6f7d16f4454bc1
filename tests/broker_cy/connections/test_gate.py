"""One gate before every handler: handlers in C and in Python rely on it for authorization and limits."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest

from broker_cy.security.acls import ANONYMOUS
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from tests.broker_cy.connections.harness import CoreHarness, RawClient, fetch_request, produce_request

seen: list[str] = []


def leave(ctx: Any, request: Any) -> Any:
    seen.append(ctx.principal)
    return messages.LeaveGroupResponse()


async def heartbeat(ctx: Any, request: Any) -> Any:
    seen.append(ctx.principal)
    return messages.HeartbeatResponse()


def versions(ctx: Any, request: Any) -> Any:
    return messages.ApiVersionsResponse(error_code=35)


@pytest.fixture
def core() -> Iterator[CoreHarness]:
    seen.clear()
    harness = CoreHarness({ApiKey.LEAVE_GROUP: leave, ApiKey.HEARTBEAT: heartbeat, ApiKey.API_VERSIONS: versions})
    harness.topic("t")
    yield harness
    harness.close()


def requests(client: RawClient) -> dict[ApiKey, bytes]:
    """Return one request for each kind of handler: in C, in Python, and as a task."""
    return {
        ApiKey.PRODUCE: client.encode(produce_request("t", 0, None), ApiKey.PRODUCE, 9),
        ApiKey.FETCH: client.encode(fetch_request("t", 0, 0), ApiKey.FETCH, 11),
        ApiKey.LEAVE_GROUP: client.encode(messages.LeaveGroupRequest(group_id="g"), ApiKey.LEAVE_GROUP, 0),
        ApiKey.HEARTBEAT: client.encode(messages.HeartbeatRequest(group_id="g"), ApiKey.HEARTBEAT, 0),
    }


def test_every_request_passes_the_gate_once(core: CoreHarness) -> None:
    """If this fails, a request reaches a handler without authorization, or a client's quota is charged twice."""
    asked: list[tuple[str, str, int, int]] = []
    core.core.gate.rule = lambda *what: asked.append(what)
    client = core.client()
    frames = requests(client)
    for key, frame in frames.items():
        client.send(frame)
        client.read_exactly(struct.unpack(">i", client.read_exactly(4))[0])
        assert asked[-1][2] == key
    assert [(principal, listener) for principal, listener, _, _ in asked] == [(ANONYMOUS, "PLAINTEXT")] * len(frames)
    assert [version for *_, version in asked] == [9, 11, 0, 0]
    # The handlers get the same principal as the gate.
    assert seen == [ANONYMOUS, ANONYMOUS]


@pytest.mark.parametrize("key", [ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LEAVE_GROUP, ApiKey.HEARTBEAT])
def test_no_handler_sees_what_the_gate_refuses(core: CoreHarness, monkeypatch: pytest.MonkeyPatch, key: ApiKey) -> None:
    """If this fails, an unauthorized client changes data, or the operator does not learn why a request was denied."""
    said: list[tuple[str, str]] = []
    monkeypatch.setattr(core.core.log_events, "bad_request", lambda _host, _port, api, why: said.append((api, why)))
    core.core.gate.rule = lambda principal, listener, asked, version: f"{principal} may not" if asked == key else None
    refused, other = core.client(), core.client()
    refused.send(requests(refused)[key])
    assert refused.is_closed()
    assert said == [(key.name, "User:ANONYMOUS may not")]
    assert seen == []
    admitted = ApiKey.HEARTBEAT if key == ApiKey.LEAVE_GROUP else ApiKey.LEAVE_GROUP
    other.send(requests(other)[admitted])
    other.read_exactly(4)
    assert seen == [ANONYMOUS]


@pytest.mark.parametrize("admits", [True, False])
def test_api_versions_of_an_unknown_version_passes_the_gate(core: CoreHarness, admits: bool) -> None:
    """If this fails, a newer client cannot negotiate (KIP-511), or this request alone avoids the gate."""
    core.core.gate.rule = lambda *what: None if admits else "not now"
    client = core.client()
    client.send(struct.pack(">ihhih", 10, ApiKey.API_VERSIONS, 99, 7, -1))
    if admits:
        _, response = client.receive(ApiKey.API_VERSIONS, 0, messages.ApiVersionsResponse)
        assert response.error_code == 35
    else:
        assert client.is_closed()
