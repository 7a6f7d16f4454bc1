"""The surroundings of a host that runs: looks once a second, pages over HTTP, and events.

host = EmbeddedHost(client, topology, HostSettings.of(config))
async with Instance(host, SeenSettings.of(config), events=connect) as instance:
    await host.run()
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Self

from broker_cy.admin import AdminClient
from broker_cy.admin.event_writer import EventWriter
from broker_cy.metrics.topics import OWN_CLIENT
from broker_streams.hosts.clients import client_of
from broker_streams.hosts.embedded.host import EmbeddedHost
from broker_streams.hosts.settings import HostSettings
from broker_streams.plan.topology import Topology
from broker_streams.seen.journal import Journal
from broker_streams.seen.pages import InstancePages
from broker_streams.seen.settings import SeenSettings
from broker_streams.seen.view import EmbeddedView, HostView
from broker_streams.seen.watch import Watch

EVENTS_S: Final = 2.0
"""How often events are written, and how long writing the last ones may take."""


class Surroundings:
    """`events` makes the client that writes events into the cluster (with OWN_CLIENT); None: none are written. `url` is
    that of the pages, empty without a listener.
    """

    def __init__(
        self, view: HostView, settings: SeenSettings, *, events: Callable[[], AdminClient] | None = None
    ) -> None:
        self.watch = Watch(view)
        self.url = ""
        self._settings = settings
        self._pages: InstancePages | None = None
        self._journal = Journal(self.watch)
        name = f"application {view.settings.application_id}"
        self._writer = None if events is None else EventWriter(events, name)
        self._running: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Raises ClientError: the address of the pages cannot be bound."""
        if self._settings.listener is not None:
            self._pages = InstancePages(self.watch, self._settings)
            await self._pages.__aenter__()
            self.url = self._pages.url
        self._running.append(asyncio.create_task(self.watch.run()))
        if self._writer is not None:
            self._running.append(asyncio.create_task(self._write(self._writer)))
        return self

    async def __aexit__(self, *exc: object) -> None:
        for each in self._running:
            each.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        if self._pages is not None:
            await self._pages.__aexit__()
        if self._writer is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(EVENTS_S):
                    await self._writer.write(self._journal.take(), _now_ms())
            await self._writer.close()

    async def _write(self, writer: EventWriter) -> None:
        while True:
            await asyncio.sleep(EVENTS_S)
            await writer.write(self._journal.take(), _now_ms())


class Instance(Surroundings):
    """Those of an instance on the embedded host."""

    def __init__(
        self, host: EmbeddedHost, settings: SeenSettings, *, events: Callable[[], AdminClient] | None = None
    ) -> None:
        super().__init__(EmbeddedView(host), settings, events=events)
        self.host = host


@asynccontextmanager
async def instance_of(topology: Topology, config: Mapping[str, Any], where: str) -> AsyncIterator[Instance]:
    """An instance of an application with these settings, which are those of `where`, and its clients. Raises
    ValueError, ClientError, TopologyError.
    """
    settings, seen = HostSettings.of(config), SeenSettings.of(config)
    async with client_of(config, settings.client_id, where) as client:
        host = EmbeddedHost(client, topology, settings)
        events = (lambda: client_of(config, OWN_CLIENT, where)) if seen.writes_events else None
        async with Instance(host, seen, events=events) as instance:
            yield instance


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
