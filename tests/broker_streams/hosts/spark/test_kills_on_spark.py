"""kill -9 at each named step of a batch on Spark, of the driver, of a Python worker, of the JVM, of an executor of a
cluster and of the broker: each record counts once.

`BROKER_CY_STREAMS_KILLS=500 python -m pytest -s -m soak -o faulthandler_timeout=15000
tests/broker_streams/hosts/spark/test_kills_on_spark.py` kills 500 times at random steps. Each hundred is a test of its
own, with other steps: `-k "steps[3]"` repeats the fourth.

A process kills at the step itself, so that no kill comes too late. Drivers use one JVM, one after the other: most of
the time of a start is that of the JVM.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from broker_cy.admin import AdminClient, ClientError
from broker_cy.admin.topics import NewTopic
from tests.broker_streams.hosts.spark.program import PARTITIONS, WAIT_S, Program, WarmJvm, broker_in
from tests.broker_streams.hosts.test_kills import APPLICATION, KEYS, counts, write
from tests.spark_analytics import standalone
from tests.spark_analytics.conftest import quick_jvms
from tests.support import needs
from tests.support.broker import BrokerProcess

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]
SOAK_KILLS = int(os.environ.get("BROKER_CY_STREAMS_KILLS", "100"))
RECORDS = 60
# A JVM that many drivers have used gets slow.
DRIVERS_MAX = 40
# The steps are calls, before and after which a process kills. Those of the driver are patched when its file is read;
# those of workers by the first record of a process.
DYING = """
import inspect, os, signal
from pathlib import Path

from broker_streams.hosts.spark.query import Query

ORDER = {order!r}


def dies(step):
    # An order is a step and the process to kill: 0 is the one that is at the step, -1 the executor that has started its
    # daemon. One process takes the order.
    order = Path(ORDER)
    try:
        found, victim = order.read_text().split(chr(10))
        if found != step:
            return
        os.rename(order, order.with_suffix(".done"))
    except FileNotFoundError:
        return
    if int(victim) < 0:
        victim = Path("/proc", str(os.getppid()), "stat").read_text().rpartition(")")[2].split()[1]
    os.kill(int(victim) or os.getpid(), signal.SIGKILL)


def around(owner, name):
    method = getattr(owner, name)
    step = owner.__name__ + "." + name

    async def later(self, *words, **named):
        dies("before " + step)
        found = await method(self, *words, **named)
        dies("after " + step)
        return found

    def at_once(self, *words, **named):
        dies("before " + step)
        found = method(self, *words, **named)
        dies("after " + step)
        return found

    setattr(owner, name, later if inspect.iscoroutinefunction(method) else at_once)


def in_worker():
    from broker_cy.admin.transactional import TransactionalProducer
    from broker_streams.hosts.embedded.restoring import Restorer
    from broker_streams.hosts.spark.worker import Worker, _Batch

    if not hasattr(Worker, "dies"):
        Worker.dies = True
        for owner, name in {worker!r}:
            around({{each.__name__: each for each in (TransactionalProducer, Restorer, Worker, _Batch)}}[owner], name)


def word(key, value):
    in_worker()
    dies("in a function")
    return value


for name in {driver!r}:
    around(Query, name)
"""
OF_DRIVER = ("settle", "latest", "plan", "commit", "_decide", "_commit_task")
# Committing what a driver that died had decided.
RECOVERY = ("before Query._end", "after Query._end")
OF_WORKER = (
    ("Worker", "run"),
    ("TransactionalProducer", "begin"),
    ("_Batch", "_send"),
    ("TransactionalProducer", "commit_offsets"),
    ("Restorer", "seal"),
)
DRIVER_STEPS = tuple(f"{when} Query.{name}" for name in OF_DRIVER for when in ("before", "after"))
WORKER_STEPS = (
    "in a function",
    *(f"{when} {owner}.{name}" for owner, name in OF_WORKER for when in ("before", "after")),
)
# Steps of a driver that starts.
OF_START = ("before Query.settle", "after Query.settle", *RECOVERY)
DRIVER, WORKER, BROKER, JVM, EXECUTOR = "driver", "worker", "broker", "jvm", "executor"


class Kill(NamedTuple):
    """`victim` is killed at the step, by the process that has reached it."""

    step: str
    victim: str


def kills_of_drivers() -> list[Kill]:
    found = []
    for step in DRIVER_STEPS:
        found.append(Kill(step, DRIVER))
        if step == "after Query._decide":
            found += [Kill(each, DRIVER) for each in RECOVERY]
    return found


class Killed:
    """An application that is killed and started again, with the records that were written for it."""

    def __init__(self, broker: BrokerProcess, directory: Path, master: str | None = None) -> None:
        """`master` is that of a cluster, on which no driver is killed: the driver starts its own JVM."""
        self._broker, self._directory = broker, directory
        self._words = ("--master", master or "local[2]")
        self._file, self._order = directory / "app.py", directory / "order"
        text = APPLICATION.replace("lambda key, value: value,", "word,")
        assert text != APPLICATION
        driver = (*OF_DRIVER, RECOVERY[0].rpartition(".")[2])
        self._file.write_text(DYING.format(order=str(self._order), worker=OF_WORKER, driver=driver) + text)
        self._jvm, self._drivers = WarmJvm() if master is None else None, 0
        self._running: Program | None = None
        self.written = 0
        self.kills: dict[str, int] = {}

    def start(self) -> Program:
        if self._running is None:
            self._drivers += 1
            environment = None if self._jvm is None else self._jvm.environment
            self._running = Program(
                self._directory, [self._file], self._broker.bootstrap, *self._words, environment=environment
            )
        return self._running

    def _lost(self, *, jvm: bool = False) -> None:
        """Forget a driver that ended."""
        assert self._running is not None
        assert self._jvm is not None
        self._running.kill()
        self._running = None
        if jvm or self._drivers >= DRIVERS_MAX:
            self._jvm.close()
            self._jvm, self._drivers = WarmJvm(), 0
        else:
            self._jvm.free()

    async def kill(self, client: AdminClient, kill: Kill) -> None:
        """Let the victim die at the step of a batch."""
        victims = {BROKER: self._broker.pid, JVM: 0 if self._jvm is None else self._jvm.pid, EXECUTOR: -1}
        draft, done = self._order.with_suffix(".draft"), self._order.with_suffix(".done")
        done.unlink(missing_ok=True)
        if kill.step in OF_START and self._running is not None:
            # A driver that runs does not come there again: it survives the broker without a new run.
            self._lost()
        draft.write_text(f"{kill.step}\n{victims.get(kill.victim, 0)}")
        draft.rename(self._order)
        running = self.start()
        # A query that looks for records comes to its step before they are written, and the broker may be the victim.
        writing = asyncio.create_task(write(client, self.written, RECORDS))
        async with asyncio.timeout(WAIT_S):
            while not done.exists():
                if writing.done():
                    writing.result()
                assert running.child.poll() is None or done.exists(), running.text()
                await asyncio.sleep(0.01)
        if kill.victim == DRIVER:
            assert await asyncio.to_thread(running.child.wait, WAIT_S) == -signal.SIGKILL, running.text()
            self._lost()
        elif kill.victim == JVM:
            # A driver cannot go on without it, and says so.
            assert await asyncio.to_thread(running.child.wait, WAIT_S) > 0, running.text()
            assert "the JVM of Spark has ended" in running.text().splitlines()[-1]
            self._lost(jvm=True)
        elif kill.victim == BROKER:
            self._broker.kill()
            self._broker.start()
        await writing
        self.written += RECORDS
        self.kills[kill.victim] = self.kills.get(kill.victim, 0) + 1
        if kill.victim in (WORKER, BROKER, EXECUTOR):
            # A driver gives up after several runs that commit nothing.
            await self._catch_up(client)

    async def _catch_up(self, client: AdminClient) -> Program:
        """Wait until all records that were written are counted."""
        running = self.start()
        found: dict[str, list[int]] = {}
        async with asyncio.timeout(WAIT_S):
            while sum(map(len, found.values())) < self.written:
                running.check()
                await asyncio.sleep(0.05)
                try:
                    found = await counts(client)
                except ClientError as error:
                    if not error.retriable:
                        raise
        return running

    async def finish(self, client: AdminClient) -> dict[str, list[int]]:
        """All results that readers of committed records see."""
        running = await self._catch_up(client)
        assert running.stop() == 0, running.text()
        return await counts(client)

    def close(self) -> None:
        if self._running is not None:
            self._running.kill()
        if self._jvm is not None:
            self._jvm.close()


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[Killed]:
    needs.require(needs.spark())
    with quick_jvms(), broker_in(tmp_path) as broker:
        made = Killed(broker, tmp_path)
        try:
            yield made
        finally:
            made.close()


async def survives(killed: Killed, kills: list[Kill]) -> None:
    async with AdminClient(killed._broker.bootstrap, timeout_s=WAIT_S) as client:
        (await client.topics.create([NewTopic(name, PARTITIONS, 1) for name in ("in", "out")])).whole()
        for each in kills:
            await killed.kill(client, each)
        assert await killed.finish(client) == expected(killed.written)
    assert sum(killed.kills.values()) == len(kills)


def expected(written: int) -> Mapping[str, list[int]]:
    """The results of a run without faults."""
    return {f"w{key}": list(range(1, len(range(key, written, KEYS)) + 1)) for key in range(KEYS)}


def test_a_driver_that_is_killed_at_each_step_counts_each_record_once(killed: Killed) -> None:
    """If this fails, a driver that dies in a batch, or while it ends that of another one, loses or doubles records."""
    asyncio.run(survives(killed, kills_of_drivers()))


def test_a_worker_that_is_killed_at_each_step_counts_each_record_once(killed: Killed) -> None:
    """If this fails, a task that dies in a batch loses or doubles records, or the application ends with it."""
    asyncio.run(survives(killed, [Kill(step, WORKER) for step in WORKER_STEPS]))


def test_a_broker_that_is_killed_at_each_step_counts_each_record_once(killed: Killed) -> None:
    """If this fails, an application on Spark loses or doubles records when its broker dies, or ends with it."""
    asyncio.run(survives(killed, [Kill(step, BROKER) for step in (*DRIVER_STEPS, *WORKER_STEPS)]))


def test_a_jvm_that_is_killed_ends_the_driver_and_counts_each_record_once(killed: Killed) -> None:
    """If this fails, a driver hangs without its JVM, or the batch that it had begun counts in part."""
    asyncio.run(survives(killed, [Kill("after Query._decide", JVM), Kill("in a function", JVM)]))


def test_an_executor_that_is_killed_at_each_step_counts_each_record_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, an application on a cluster loses or doubles records when an executor dies, or ends with it."""
    needs.require(needs.spark())
    monkeypatch.setenv("PYSPARK_PYTHON", str(standalone.bare_python(tmp_path / "python", without=("pandas",))))
    for name, value in {**standalone.LOOPBACK, "PYTHONPATH": "", "PYSPARK_DRIVER_PYTHON": sys.executable}.items():
        monkeypatch.setenv(name, value)
    with quick_jvms(), broker_in(tmp_path) as broker, standalone.cluster(tmp_path) as (master, _):
        killed = Killed(broker, tmp_path, master)
        try:
            asyncio.run(survives(killed, [Kill(step, EXECUTOR) for step in WORKER_STEPS]))
        finally:
            killed.close()
        # Each executor has a directory, and each one that died has a successor.
        assert len(list(tmp_path.glob("work-*/app-*/*/"))) >= standalone.WORKERS + len(WORKER_STEPS)


def random_kills(count: int, seed: int) -> list[Kill]:
    """Steps of all kinds; a recovery is killed only after a kill that leaves something to recover."""
    chance, found = random.Random(seed), list[Kill]()
    while len(found) < count:
        victim = chance.choices((DRIVER, WORKER, BROKER, JVM), (40, 30, 28, 2))[0]
        steps = {DRIVER: DRIVER_STEPS, WORKER: WORKER_STEPS}.get(victim, (*DRIVER_STEPS, *WORKER_STEPS))
        found.append(Kill(chance.choice(steps), victim))
        if found[-1] == Kill("after Query._decide", DRIVER) and chance.random() < 0.5:
            found.append(Kill(chance.choice(RECOVERY), DRIVER))
    return found[:count]


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("part", range(-(-SOAK_KILLS // 100)))
def test_many_kills_at_random_steps(killed: Killed, part: int) -> None:
    """The same, for rare sequences of kills."""
    kills = random_kills(min(100, SOAK_KILLS - part * 100), seed=part)
    asyncio.run(survives(killed, kills))
    print(f"{len(kills)} kills: {killed.kills}")
