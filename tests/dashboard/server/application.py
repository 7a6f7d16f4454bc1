"""The dashboard's whole application without clusters and without a socket."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
from starlette.types import Message

from broker_cy.console.alerts.rules import AlertSettings
from broker_cy.console.alerts.watch import Alerting
from dashboard.app import build
from dashboard.context import Context
from dashboard.security import Security, SecurityConfig

HOST, PORT = "127.0.0.1", 8050


@contextlib.asynccontextmanager
async def visitor(
    state: Path, report: Path | None = None, hubs: Mapping[str, Any] | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application that runs on a loopback address without users, and shows this report and clusters."""
    security = Security(SecurityConfig(HOST, PORT, state, (), None, None, (), False))
    alerts = Alerting(AlertSettings())
    # Building the application requests its own pages, in a separate event loop.
    app = await asyncio.to_thread(build, Context(hubs or {}, security, report=report), alerts)
    to_app: asyncio.Queue[Message] = asyncio.Queue()
    from_app: asyncio.Queue[Message] = asyncio.Queue()

    async def live() -> None:
        await app({"type": "lifespan", "state": {}}, to_app.get, from_app.put)

    lifespan = asyncio.create_task(live())
    try:
        to_app.put_nowait({"type": "lifespan.startup"})
        assert (await from_app.get())["type"] == "lifespan.startup.complete"
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 40_000))
        origin = f"http://{HOST}:{PORT}"
        async with httpx.AsyncClient(transport=transport, base_url=origin, headers={"origin": origin}) as client:
            yield client
        to_app.put_nowait({"type": "lifespan.shutdown"})
        await lifespan
    finally:
        lifespan.cancel()
        security.close()
