"""An application that is killed at each step of a commit, and again and again at any time, and its broker too: each
record counts once.

`BROKER_CY_STREAMS_KILLS=1000 python -m pytest -s -m soak -o faulthandler_timeout=15000
tests/broker_streams/hosts/test_kills.py` kills a thousand times. Each hundred is a test of its own, with other moments:
`-k "kills[3]"` repeats the fourth.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from broker_cy.admin import AdminClient, ClientError
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.records import Record
from tests.support.broker import QUICK, BrokerProcess

PARTITIONS = 2
KEYS = 7
WAIT_S = 120.0
SETTINGS = {
    **QUICK,
    # Records with timestamps of 1970 stay.
    "log.retention.ms": "-1",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.session.timeout.ms": "2000",
    "group.streams.session.timeout.ms": "2000",
    "group.streams.min.heartbeat.interval.ms": "200",
    "group.streams.heartbeat.interval.ms": "200",
    # The transaction of a program that was killed ends soon.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
SOAK_KILLS = int(os.environ.get("BROKER_CY_STREAMS_KILLS", "1000"))
# The number of records of each key, over a repartition topic and a store with a changelog.
APPLICATION = """
from broker_streams import LONG, STRING, StreamsBuilder

builder = StreamsBuilder()
words = builder.stream("in", key=STRING, value=STRING)
words.group_by(lambda key, value: value, key=STRING, value=STRING).count().to_stream().to("out", key=STRING, value=LONG)
config = {
    "application.id": "counts",
    "commit.interval.ms": 20,
    "statestore.cache.max.bytes": 0,
    "transaction.timeout.ms": 2000,
}
"""
# The program ends itself before or after the call of a step, the `number`-th one.
KILLED = """
import inspect
import os
import signal

from broker_cy.admin.transactional import TransactionalProducer
from broker_streams.hosts.embedded import states
from broker_streams.hosts.embedded.host import EmbeddedHost
from broker_streams.hosts.embedded.restoring import Restorer
from broker_streams.hosts.embedded.writer import Writer
from broker_streams.state.file import TaskFile

# The files of the stores are written at each commit.
states.BUFFER_BYTES_MIN = 0
where, name, before, number = {step!r}
owner = {{each.__name__: each for each in (TransactionalProducer, EmbeddedHost, Restorer, TaskFile, Writer)}}[where]
right, left = getattr(owner, name), [number]


def passed():
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)


async def later(self, *arguments, **named):
    if before:
        passed()
    found = await right(self, *arguments, **named)
    if not before:
        passed()
    return found


def at_once(self, *arguments, **named):
    if before:
        passed()
    found = right(self, *arguments, **named)
    if not before:
        passed()
    return found


setattr(owner, name, later if inspect.iscoroutinefunction(right) else at_once)
"""


class Step(NamedTuple):
    """A call of the host: the program ends before or after the `number`-th one."""

    where: str
    name: str
    before: bool
    number: int


# The second transaction of an instance that starts alone has counts.
STEPS = {
    "before the results": Step("Writer", "_send", True, 2),
    "between the results and the offsets": Step("TransactionalProducer", "commit_offsets", True, 2),
    "between the offsets and the end": Step("TransactionalProducer", "commit", True, 2),
    "after the end": Step("TransactionalProducer", "commit", False, 2),
    "after the first end": Step("TransactionalProducer", "commit", False, 1),
    # The first writes say which stores the files have.
    "before a file is written": Step("TaskFile", "_commit", True, 4),
    "after a file is written": Step("TaskFile", "_commit", False, 4),
    "before a store is restored": Step("Restorer", "catch_up", True, 3),
    "after a store is restored": Step("Restorer", "catch_up", False, 3),
    "before tasks are given up": Step("EmbeddedHost", "_give_up", True, 1),
    "after tasks are given up": Step("EmbeddedHost", "_give_up", False, 1),
}
# Those that `make test` takes.
QUICK_STEPS = frozenset({"between the offsets and the end", "after the first end"})


@contextmanager
def application(directory: Path, bootstrap: str) -> Iterator[subprocess.Popen[bytes]]:
    """The running program, killed at the end."""
    with (directory / "app.log").open("ab") as log:
        command = [sys.executable, "-m", "broker_streams", "run", str(directory / "app.py"), "-b", bootstrap]
        command += ["--host", "embedded"]
        child = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield child
        finally:
            child.kill()
            child.wait()


async def ends_at(broker: BrokerProcess, directory: Path, client: AdminClient, step: Step, written: int) -> int:
    """Let an application end at a step, with another one beside it where tasks have to move; the records that are
    written by then. What is restored has rows.
    """
    await write(client, written, 50)
    written += 50
    if step.where == "Restorer":
        (directory / "app.py").write_text(APPLICATION)
        with application(directory, broker.bootstrap) as child:
            await progress(client, child, {})
        await write(client, written, 50)
        written += 50
    (directory / "app.py").write_text(KILLED.format(step=tuple(step)) + APPLICATION)
    with application(directory, broker.bootstrap) as child:
        async with asyncio.timeout(WAIT_S):
            if step.where == "EmbeddedHost":
                await progress(client, child, {})
                await write(client, written, 50)
                written += 50
                (directory / "app.py").write_text(APPLICATION)
                with application(directory, broker.bootstrap):
                    while child.poll() is None:
                        await asyncio.sleep(0.02)
            while child.poll() is None:
                await asyncio.sleep(0.02)
        assert child.returncode == -signal.SIGKILL, (directory / "app.log").read_text()
    return written


async def dies_at(broker: BrokerProcess, directory: Path, step: Step) -> None:
    async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
        (await client.topics.create([NewTopic(name, PARTITIONS, 1) for name in ("in", "out")])).whole()
        written = await ends_at(broker, directory, client, step, 0)
        (directory / "app.py").write_text(APPLICATION)
        with application(directory, broker.bootstrap) as child:
            found = await finished(client, child, directory, written)
    assert found == expected(written)


async def finished(
    client: AdminClient, child: subprocess.Popen[bytes], directory: Path, written: int
) -> dict[str, list[int]]:
    """The counts when there are as many as records."""
    async with asyncio.timeout(WAIT_S):
        while sum(map(len, (await counts(client)).values())) < written:
            assert child.poll() is None, (directory / "app.log").read_text()
            await asyncio.sleep(0.05)
    return await counts(client)


def expected(written: int) -> dict[str, list[int]]:
    return {f"w{key}": list(range(1, len(range(key, written, KEYS)) + 1)) for key in range(KEYS)}


async def write(client: AdminClient, first: int, count: int) -> None:
    made = [Record(timestamp=at, value=f"w{at % KEYS}".encode()) for at in range(first, first + count)]
    await client.records.producer().send("in", made)


async def counts(client: AdminClient) -> dict[str, list[int]]:
    """The committed counts of each word, in their order."""
    keys = [TopicPartition("out", number) for number in range(PARTITIONS)]
    ends = (await client.offsets.latest(keys, isolation=Isolation.READ_COMMITTED)).whole()
    found: dict[str, list[int]] = {}
    async with client.records.reader(dict.fromkeys(keys, 0), ends=ends, isolation=Isolation.READ_COMMITTED) as reader:
        async for chunk in reader:
            for each in chunk.records:
                found.setdefault((each.key or b"").decode(), []).append(int.from_bytes(each.value or b""))
    return found


async def survives(broker: BrokerProcess, directory: Path, kills: int, seed: int, program: str = APPLICATION) -> None:
    chance = random.Random(seed)
    (directory / "app.py").write_text(program)
    written = 0
    async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
        (await client.topics.create([NewTopic(name, PARTITIONS, 1) for name in ("in", "out")])).whole()
        for kill in range(kills):
            await write(client, written, 50)
            written += 50
            before = await counts(client)
            with application(directory, broker.bootstrap) as child:
                if chance.random() < 0.7:
                    # At some step of a batch that it has begun.
                    await progress(client, child, before)
                await asyncio.sleep(chance.random() * 0.1)
                if kill % 5 == 4:
                    broker.kill()
                    broker.start()
        with application(directory, broker.bootstrap) as child:
            found = await finished(client, child, directory, written)
            # A proof that users can run; it waits for a moment without commits.
            await verified(directory, broker.bootstrap)
    assert found == expected(written)


async def verified(directory: Path, bootstrap: str) -> None:
    command = ("-m", "broker_streams", "verify", str(directory / "app.py"), "-b", bootstrap)
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(
        sys.executable, *command, stdout=pipe, stderr=asyncio.subprocess.STDOUT
    )
    shown, _ = await child.communicate()
    assert child.returncode == 0, shown.decode()


async def progress(client: AdminClient, child: subprocess.Popen[bytes], before: dict[str, list[int]]) -> None:
    async with asyncio.timeout(WAIT_S):
        while True:
            assert child.poll() is None
            try:
                if await counts(client) != before:
                    return
            except ClientError:
                pass
            await asyncio.sleep(0.02)


def test_an_application_that_is_killed_counts_each_record_once(tmp_path: Path) -> None:
    """If this fails, a crash loses records of an application, or counts them twice."""
    broker = BrokerProcess(tmp_path / "broker", SETTINGS)
    try:
        broker.start()
        asyncio.run(survives(broker, tmp_path, 3, seed=1))
    finally:
        broker.close()


@pytest.mark.parametrize(
    "name", [name if name in QUICK_STEPS else pytest.param(name, marks=pytest.mark.full) for name in STEPS]
)
def test_an_application_that_ends_at_a_step_counts_each_record_once(tmp_path: Path, name: str) -> None:
    """If this fails, results without their offsets count, or offsets without their results."""
    broker = BrokerProcess(tmp_path / "broker", SETTINGS)
    try:
        broker.start()
        asyncio.run(dies_at(broker, tmp_path, STEPS[name]))
    finally:
        broker.close()


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("part", range(-(-SOAK_KILLS // 100)))
def test_many_kills(tmp_path: Path, part: int) -> None:
    """The same, for rare moments."""
    broker = BrokerProcess(tmp_path / "broker", SETTINGS)
    try:
        broker.start()
        kills = min(100, SOAK_KILLS - part * 100)
        asyncio.run(survives(broker, tmp_path, kills, seed=part))
        print(f"{kills} kills were clean")
    finally:
        broker.close()
