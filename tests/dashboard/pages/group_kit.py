"""Shared helpers of the tests of the pages about groups, rebalances and transactions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from broker_cy.admin import AdminClient
from dashboard.context import IDENTITY
from dashboard.pages.registry import PAGES
from dashboard.security.roles import EVERYTHING, Identity, Scope
from tests.dashboard.support import ADMIN, CLUSTER, WAIT_S, Desk


def drive(bootstrap: str, job: Callable[[Desk], Awaitable[None]], identity: Identity = ADMIN, **options: Any) -> None:
    """Run a job with a dashboard of one cluster."""

    async def run() -> None:
        async with Desk(bootstrap, identity, **options) as desk:
            await job(desk)

    asyncio.run(run())


def seeing(
    identity: Identity, *, topics: tuple[str, ...] = EVERYTHING, groups: tuple[str, ...] = EVERYTHING
) -> Identity:
    """Return an identity that may see only some topics or groups."""
    return replace(identity, name=f"{identity.name}-limited", scope=Scope(topics=topics, groups=groups))


async def committed(client: AdminClient, group: str) -> dict[str, int]:
    """Return the committed offsets of a group, by `topic-partition`."""
    offsets = (await client.group_offsets.fetch([group])).whole()[group]
    return {str(key): each.offset for key, each in offsets.items()}


async def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come within {WAIT_S:g} s"
        await asyncio.sleep(0.02)


def layout_of(desk: Desk, page: str, **query: str) -> str:
    """Build a page, and return it as text."""
    spec = next(each for each in PAGES if each.name == page)
    token = IDENTITY.set(desk.identity)
    try:
        return str(spec.layout(desk.context, CLUSTER, **query))
    finally:
        IDENTITY.reset(token)
