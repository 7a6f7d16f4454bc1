"""Applications of files on a broker, for tests of commands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from click.testing import CliRunner, Result

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.records import Record
from broker_streams import LONG
from broker_streams.application import load
from broker_streams.cli import command
from broker_streams.hosts.embedded.host import EmbeddedHost
from broker_streams.hosts.settings import HostSettings

PARTITIONS = 2
WAIT_S = 120.0
# The number of records of each value, over a repartition topic and a store with a changelog.
COUNTS = """\
from broker_streams import LONG, STRING, StreamsBuilder

builder = StreamsBuilder()
grouped = builder.stream("{inputs}", key=STRING, value=STRING).group_by(lambda key, value: value)
grouped.count().to_stream().to("{outputs}", key=STRING, value=LONG)
config = {{
    "application.id": "{name}",
    "bootstrap.servers": "{bootstrap}",
    "commit.interval.ms": 20,
    "statestore.cache.max.bytes": 0,
    "default.key.serde": STRING,
    "default.value.serde": STRING,
}}
"""


def invoke(*arguments: str | Path) -> Result:
    """Run a command of `broker-streams`."""
    return CliRunner().invoke(command, [str(each) for each in arguments])


class Cluster:
    """A running broker. `log_dir` is that of its partitions, if it is known."""

    def __init__(self, bootstrap: str, log_dir: Path = Path()) -> None:
        self.bootstrap = bootstrap
        self.log_dir = log_dir
        self._host: asyncio.Task[None]

    def application(self, folder: Path, name: str, text: str = COUNTS, *, inputs: str = "", outputs: str = "") -> Path:
        """Write an application, whose topics are NAME-in and NAME-out, with the cluster's address."""
        path = folder / f"{name}.py"
        names = {"name": name, "inputs": inputs or f"{name}-in", "outputs": outputs or f"{name}-out"}
        path.write_text(text.format(bootstrap=self.bootstrap, **names))
        return path

    @asynccontextmanager
    async def client(self) -> AsyncIterator[AdminClient]:
        async with AdminClient(self.bootstrap, timeout_s=WAIT_S) as client:
            yield client

    def create(self, *names: str, configs: Mapping[str, str] | None = None) -> None:
        async def job() -> None:
            async with self.client() as client:
                made = [NewTopic(each, PARTITIONS, 1, configs=configs or {}) for each in names]
                (await client.topics.create(made)).whole()

        asyncio.run(job())

    def write(self, topic: str, *values: str, keys: Sequence[str] | None = None, first_ms: int = 0) -> None:
        """Write records with times from `first_ms` on; without `keys` each has another one."""

        async def job() -> None:
            async with self.client() as client:
                names = keys or [f"k{at}" for at in range(len(values))]
                pairs = zip(names, values, strict=True)
                made = [
                    Record(timestamp=at, key=a.encode(), value=b.encode()) for at, (a, b) in enumerate(pairs, first_ms)
                ]
                await client.records.producer().send(topic, made)

        asyncio.run(job())

    def counts(self, topic: str) -> list[tuple[str, int]]:
        """The committed records, sorted."""

        async def job() -> list[tuple[str, int]]:
            async with self.client() as client:
                return await committed(client, topic)

        return asyncio.run(job())

    def run(self, path: Path, expected: Sequence[tuple[str, int]], **changed: str) -> None:
        """Run an application until its output topic has exactly these committed records, then stop it. `changed` are
        settings, with _ in place of each dot.
        """

        async def job() -> None:
            async with self.running(path, **changed) as client:
                waiting = asyncio.create_task(until(client, path, expected))
                await asyncio.wait((waiting, self._host), return_when=asyncio.FIRST_COMPLETED)
                if self._host.done():
                    # Its error is the reason.
                    waiting.cancel()
                    self._host.result()
                await waiting

        asyncio.run(job())

    @asynccontextmanager
    async def running(self, path: Path, **changed: str) -> AsyncIterator[AdminClient]:
        """Run an application within the block."""
        application = load(path, {name.replace("_", "."): value for name, value in changed.items()})
        async with self.client() as client:
            host = EmbeddedHost(client, application.topology, HostSettings.of(application.config))
            self._host = task = asyncio.create_task(host.run())
            try:
                yield client
                host.stop()
                await task
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    def topics(self, prefix: str) -> list[str]:
        async def job() -> list[str]:
            async with self.client() as client:
                return [each.name for each in await client.topics.list_all() if each.name.startswith(prefix)]

        return asyncio.run(job())

    def offsets(self, group: str) -> dict[str, int]:
        """The committed offsets of a group by partition."""

        async def job() -> dict[str, int]:
            async with self.client() as client:
                found = (await client.positions.fetch([group])).whole()[group]
                return {str(key): each.offset for key, each in found.items()}

        return asyncio.run(job())


async def committed(client: AdminClient, topic: str) -> list[tuple[str, int]]:
    keys = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    ends = (await client.offsets.latest(keys, isolation=Isolation.READ_COMMITTED)).whole()
    found = []
    async with client.records.reader(dict.fromkeys(keys, 0), ends=ends, isolation=Isolation.READ_COMMITTED) as reader:
        async for chunk in reader:
            for each in chunk.records:
                found.append(((each.key or b"").decode(), LONG.deserialize(topic, each.value) or 0))
    return sorted(found)


async def until(client: AdminClient, path: Path, expected: Sequence[tuple[str, int]]) -> None:
    """Wait until the output topic of an application (NAME-out, or that of its file) has exactly these records."""
    found: list[tuple[str, int]] = []
    async with asyncio.timeout(WAIT_S):
        while len(found) < len(expected):
            found = await committed(client, f"{path.stem}-out")
            await asyncio.sleep(0.05)
    assert found == sorted(expected)
