"""The application without a socket and without a broker: its state is filled by the test, and clients are given."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from broker_cy.http.own_requests import collected, get_scope
from broker_cy.security.acls import Binding, Operation, PatternType, Permission, ResourceType
from broker_registry.api.app import App
from broker_registry.api.quick import Peer, Short
from broker_registry.errors import RegistryError
from broker_registry.security.access import Access
from broker_registry.security.cluster_acls import ClusterAcls
from broker_registry.security.guard import Guard, Sender
from broker_registry.security.settings import SecuritySettings
from broker_registry.service import Service
from broker_registry.store.state import State


class Reply(NamedTuple):
    status: int
    body: Any
    text: bytes
    headers: dict[bytes, bytes]

    @property
    def error(self) -> tuple[int, int]:
        return self.status, self.body["error_code"]


def allow(principal: str, operation: Operation, topic: str, *, host: str = "*") -> Binding:
    return Binding(ResourceType.TOPIC, topic, PatternType.LITERAL, principal, host, operation, Permission.ALLOW)


def acls_of(*bindings: Binding, super_users: Sequence[str] = ()) -> ClusterAcls:
    """Return ACLs that are known at this moment, and stay so."""

    async def describe() -> list[Binding]:
        return list(bindings)

    found = ClusterAcls(describe, super_users, allow_if_no_acl=False, now_s=lambda: 0.0)
    asyncio.run(found.read())
    return found


class GivenGuard(Guard):
    """Every request is that of the client with `access`."""

    def __init__(self, access: Access) -> None:
        super().__init__(SecuritySettings(), _no_client, now_s=lambda: 0.0, wall_s=lambda: 0.0)
        self.access = access
        self.refused: list[str] = []

    async def access_of(self, sender: Sender) -> Access:
        return self.access

    def known_access_of(self, sender: Sender) -> Access:
        return self.access

    def denied(self, sender: Sender, access: Access, error: RegistryError) -> None:
        self.refused.append(error.message)


def _no_client(*_: Any) -> Any:
    raise AssertionError("no broker is reached")


def service_with(state: State) -> Service:
    """Return a service that only reads."""
    service = Service(_no_client)
    service.state = state
    return service


def app_of(state: State, access: Access) -> App:
    return App(service_with(state), GivenGuard(access))


def call(app: App, method: str, path: str, body: Any = None, headers: Sequence[tuple[bytes, bytes]] = ()) -> Reply:
    """Send a request to the application. The path is sent as it is written. A GET must have the same answer where its
    bytes arrive, or be left to ASGI.
    """
    raw, _, query = path.partition("?")
    data = b"" if body is None else json.dumps(body).encode()
    scope = get_scope(raw, query)
    scope["method"] = method
    scope["client"] = ("10.0.0.1", 1)
    scope["headers"] = [(b"content-type", b"application/json"), *headers]

    async def run() -> Any:
        sent = False

        async def receive() -> dict[str, Any]:
            nonlocal sent
            assert not sent, "the body was read twice"
            sent = True
            return {"type": "http.request", "body": data, "more_body": False}

        return await collected(app, scope, receive)

    start, content = asyncio.run(run())
    text = content["body"]
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    reply = Reply(start["status"], value, text, dict(start["headers"]))
    if method == "GET" and body is None:
        authorization = tuple(value for name, value in headers if name == b"authorization")
        quick = app.quick(Short(path.encode(), authorization=authorization), Peer("10.0.0.1"))
        assert quick is None or (quick[0], quick[2]) == (reply.status, reply.text)
    return reply
