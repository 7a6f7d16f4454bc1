"""The REST API over a state in memory, for tests with very many requests: no broker, no socket."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

from starlette.types import Message

from broker_registry.api.app import App
from broker_registry.checker import Checker
from broker_registry.metrics import RequestCounts
from broker_registry.operations.plan import Ids, Operation
from broker_registry.security.access import EVERYTHING
from broker_registry.service import Service, ServiceSettings
from broker_registry.store.state import State
from tests.broker_registry.api.support import GivenGuard
from tests.support.registry import TYPE, Reply


class MemoryService:
    """Stands for a Service: a change is applied on the spot."""

    def __init__(self, checker: Checker | None = None) -> None:
        self.state = State()
        self.settings = ServiceSettings()
        self.checker = checker or Checker()
        self.requests = RequestCounts()
        self.cluster_id = "cluster"
        self.is_following = True

    async def write(self, operation: Operation[Any]) -> Any:
        plan = await self.checker.plan(operation, self.state, Ids(self.state))
        for key, value in plan.records:
            self.state.apply(key, value, 1)
        return plan.reply

    async def check(self, steps: Any) -> Any:
        return await self.checker.drive(steps)


class MemoryApi:
    """`call` sends one request to the application, as `Registry.call` does over HTTP."""

    def __init__(self, service: MemoryService | None = None) -> None:
        self.service = service or MemoryService()
        self._app = App(cast(Service, self.service), GivenGuard(EVERYTHING))

    async def acall(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, *, query: str = ""
    ) -> Reply:
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        path, _, own_query = path.partition("?")
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": data, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        named = {"content-type": TYPE, **(headers or {})}
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode("latin-1", "replace"),
            "query_string": (query or own_query).encode("latin-1", "replace"),
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in named.items()],
        }
        await self._app(scope, receive, send)
        text = sent[1]["body"]
        try:
            return Reply(sent[0]["status"], json.loads(text))
        except ValueError:
            return Reply(sent[0]["status"], text)

    def call(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply:
        return asyncio.run(self.acall(method, path, body, headers))
