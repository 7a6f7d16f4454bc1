"""An instance of an application of broker_streams on a machine of its own: the real embedded host, with its membership,
its tasks and its transactions, over the simulated network.

Each record of the sources goes through a stateless part to one topic, and through a repartition topic into a plain
aggregate and a windowed count, whose changes go to two others. Some records are poison: the function fails for them,
and they go to a dead letter topic.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import zlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from broker_cy.admin import AdminClient, ClientError
from broker_cy.admin import client as admin_client
from broker_cy.client.outgoing import Outgoing as ClientOutgoing
from broker_cy.client.turns import Turns
from broker_cy.core.clock import ManualClock
from broker_cy.core.randomness import MACHINE_RANDOMNESS, Randomness
from broker_streams import LONG, STRING, Materialized, StreamsBuilder, TimeWindows
from broker_streams.hosts.embedded import host as embedded
from broker_streams.hosts.embedded import states
from broker_streams.hosts.embedded.group_news import MissingSourceTopics
from broker_streams.hosts.embedded.host import EmbeddedHost
from broker_streams.hosts.settings import HostSettings
from tests.sim.world.clock import EPOCH_MS
from tests.sim.world.network import PORT
from tests.sim.world.process import Program, connect_from

if TYPE_CHECKING:
    from broker_streams.dsl.topology import Topology
    from tests.sim.world.loop import SimLoop
    from tests.sim.world.world import World

APPLICATION: Final = "app"
SOURCES: Final = ("t0", "t1")
PLAIN, TOTALS, WINDOWS, DEAD = "out-plain", "out-totals", "out-windows", "out-dead"
# The topics that an administrator creates for the application, and their partitions.
OUTPUTS: Final = {PLAIN: 2, TOTALS: 2, WINDOWS: 1, DEAD: 1}
# The stores, and the changelog of each.
STORES: Final = {"totals": "app-totals-changelog", "windows": "app-windows-changelog"}
BUCKETS, POISON_EVERY, WINDOW_MS = 5, 19, 500
# A fault waits so long for a commit, and comes within such a time after its begin, in which most commits end.
COMMIT_WAIT_US, COMMIT_LOOK_US, COMMIT_US = 1_000_000, 500, 15_000
# In place of 10 s, 30 s and 300 s: a world lasts for seconds.
TRANSACTION_MS, REQUEST_S, REBALANCE_MS = 3_000, 5.0, 6_000


def hash_of(value: str) -> int:
    return zlib.crc32(value.encode())


def is_poison(value: str) -> bool:
    return hash_of(value) % POISON_EVERY == 0


def bucket_of(value: str) -> str:
    return f"b{hash_of(value) // POISON_EVERY % BUCKETS}"


class Poison(ValueError):
    """The function cannot take a record."""


def _checked(value: str) -> str:
    name = value.partition(":")[0]
    if is_poison(name):
        raise Poison(name)
    return name


def topology() -> Topology:
    builder = StreamsBuilder()
    plain = builder.stream(SOURCES).map_values(_checked)
    plain.to(PLAIN)
    grouped = plain.group_by(lambda key, name: bucket_of(name), name="buckets")
    # The number of records, and the last one.
    totals = grouped.aggregate(
        lambda: "0",
        lambda bucket, name, total: f"{int(total.partition('|')[0]) + 1}|{name}",
        materialized=Materialized("totals", value=STRING),
    )
    totals.to_stream().to(TOTALS)
    windows = grouped.windowed_by(TimeWindows.of(WINDOW_MS).grace("1d")).count(materialized=Materialized("windows"))
    windows.to_stream().map(lambda window, count: (f"{window.key}@{window.window.start_ms}", count)).to(
        WINDOWS, key=STRING, value=LONG
    )
    return builder.build()


def has_files(world: World) -> bool:
    """Whether the stores are in files; in the other worlds they are in memory."""
    return world.plan.seed // 3 % 2 == 0


def settings_of(world: World, state_dir: str) -> HostSettings:
    kind = "RocksDBDslStoreSuppliers" if has_files(world) else "InMemoryDslStoreSuppliers"
    return HostSettings.of(
        {
            "dsl.store.suppliers.class": kind,
            "state.dir": state_dir,
            "brokercy.streams.state.buffer.bytes": 0,
            "application.id": APPLICATION,
            "commit.interval.ms": (20, 100, 400)[world.plan.seed % 3],
            # Each change is passed on, not only the last one before a commit.
            "statestore.cache.max.bytes": 0,
            "default.key.serde": STRING,
            "default.value.serde": STRING,
            "processing.exception.handler": "LogAndContinueProcessingExceptionHandler",
            "errors.dead.letter.queue.topic.name": DEAD,
            "transaction.timeout.ms": TRANSACTION_MS,
            "max.poll.interval.ms": REBALANCE_MS,
            # Often, so that instances end between a purge and the next commit.
            "repartition.purge.interval.ms": 150,
            "replication.factor": min(3, len(world.plan.hosts)),
        }
    )


def seams(world: World) -> list[tuple[Any, str, Any]]:
    """Return the parts of the machine that the code of an instance uses."""
    draw = world.draws("instances")
    ids = Randomness(draw)

    async def pause(_: Turns) -> None:
        """The time of the real machine has no effect."""

    async def at_once(work: Callable[..., Any], *arguments: Any) -> Any:
        """Files are used without a thread."""
        return work(*arguments)

    return [
        (asyncio, "to_thread", at_once),
        # Files are written at each commit.
        (states, "BUFFER_BYTES_MIN", 0),
        (admin_client, "MACHINE", ClientOutgoing(partial(connect_from, world), ManualClock(EPOCH_MS))),
        (MACHINE_RANDOMNESS, "_source", draw),
        (Turns, "pause", pause),
        (embedded, "uuid4", ids.uuid),
    ]


class Instance(Program):
    """The process on `host`, from its start to its end, and the ones after it."""

    def __init__(self, world: World, host: str, rate: float) -> None:
        super().__init__(world, host, rate)
        self.app: EmbeddedHost | None = None
        self._state_dir = os.path.join(world.root, f"{host}-0")
        # How often an instance ended by itself, because the cluster did not answer in time, or topics
        # were not created yet.
        self.gave_up = 0
        # The act that comes during the next commit.
        self._at_work: Callable[[], None] | None = None

    def begin(self, loop: SimLoop) -> asyncio.Task[None]:
        main: asyncio.Task[None] = loop.create_task(self._run())
        self.follow(main, loop)
        return main

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        servers = ",".join(f"{host}:{PORT}" for host in self.world.plan.hosts)
        async with AdminClient(servers, client_id=APPLICATION, timeout_s=REQUEST_S) as client:
            try:
                app = EmbeddedHost(
                    client, topology(), settings_of(self.world, self._state_dir), now_ms=self.world.wall_ms
                )
                self.app = app
                if not self.is_stopping:
                    await app.run()
            except (ClientError, MissingSourceTopics) as error:
                if loop.is_closed():
                    return
                self.world.note(f"{self.host} gives up: {error}")
                self.gave_up += 1
            except Exception as error:
                # As a supervisor would show it: the application cannot go on. A killed one shows nothing.
                if not loop.is_closed():
                    self.world.at(self.world.time.now_us, partial(_fail, error))

    def at_work(self, act: Callable[[], None]) -> None:
        """During the next commit, if one begins soon."""
        self._at_work = act
        end_us = self.world.time.now_us + COMMIT_WAIT_US

        def look() -> None:
            if self._at_work is not act:
                return
            if self.app is not None and self.app._committing.is_running:
                self.world.at(self.world.time.now_us + self.draw.randint(0, COMMIT_US), happen)
            elif self.world.time.now_us < end_us:
                self.world.at(self.world.time.now_us + COMMIT_LOOK_US, look)

        def happen() -> None:
            if self._at_work is act:
                self._at_work = None
                act()

        look()

    def go_on(self) -> None:
        self._at_work = None
        super().go_on()

    def ask_to_stop(self, main: asyncio.Task[None]) -> None:
        if self.app is not None:
            self.app.stop()

    def dying(self) -> None:
        """Keep the files as they are now for the next process, before `finally` blocks change them."""
        before, self._state_dir = self._state_dir, os.path.join(self.world.root, f"{self.host}-{self.ends}")
        if os.path.isdir(before):
            shutil.copytree(before, self._state_dir)

    def ended(self) -> None:
        self.app = None


def _fail(error: Exception) -> None:
    raise error
