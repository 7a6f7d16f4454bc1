"""An instance of an application that runs in the process of a test, with pages over HTTP."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from bench.launch.nodes import free_ports
from broker_cy.admin import AdminClient
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.records import Record
from broker_streams import LONG, STRING, Materialized, StreamsBuilder
from broker_streams.hosts.embedded.host import EmbeddedHost
from broker_streams.hosts.settings import HostSettings
from broker_streams.seen.instance import Instance
from broker_streams.seen.settings import SeenSettings
from tests.support.broker import QUICK

# Members hear of new tasks soon.
SETTINGS: Final = {
    **QUICK,
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "100",
}
VALUES: Final = ("a", "b", "a", "c")
WAIT_S: Final = 60.0


@asynccontextmanager
async def running_application(bootstrap: str, name: str) -> AsyncIterator[EmbeddedHost]:
    """An application that has counted VALUES into its store `counts`, and committed."""
    with tempfile.TemporaryDirectory(prefix="state-") as directory:
        async with AdminClient(bootstrap, timeout_s=WAIT_S) as client, _run(client, name, directory) as host:
            yield host


@asynccontextmanager
async def _run(client: AdminClient, name: str, directory: str) -> AsyncIterator[EmbeddedHost]:
    config: dict[str, Any] = {
        "application.id": name,
        "application.server": f"127.0.0.1:{free_ports(1)[0]}",
        "commit.interval.ms": 20,
        "state.dir": directory,
        "default.key.serde": STRING,
        "default.value.serde": STRING,
    }
    builder = StreamsBuilder()
    grouped = builder.stream(f"{name}-in").group_by(lambda key, value: value)
    grouped.count(materialized=Materialized("counts")).to_stream().to(f"{name}-out", value=LONG)
    (await client.topics.create([NewTopic(f"{name}-{end}", 2, 1) for end in ("in", "out")])).whole()
    made = [Record(timestamp=at, key=b"k%d" % at, value=value.encode()) for at, value in enumerate(VALUES)]
    await client.records.producer().send(f"{name}-in", made)
    host = EmbeddedHost(client, builder.build(), HostSettings.of(config))
    async with Instance(host, SeenSettings.of(config)):
        task = asyncio.create_task(host.run())
        try:
            async with asyncio.timeout(WAIT_S):
                while host.processed < 2 * len(VALUES) or not host.is_settled:
                    await asyncio.sleep(0.05)
            yield host
            host.stop()
            await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
