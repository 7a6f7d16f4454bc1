"""Applications on Spark itself: results of ten in one driver, and a cluster that loses a worker."""

from __future__ import annotations

import asyncio
import random
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.records import Record
from broker_streams import STRING, TopologyTestDriver
from tests.broker_streams.hosts.spark import ten_applications
from tests.broker_streams.hosts.spark.program import PARTITIONS, WAIT_S, Program, broker_in, program
from tests.broker_streams.hosts.test_kills import APPLICATION, KEYS, counts, write
from tests.spark_analytics import standalone
from tests.spark_analytics.conftest import quick_jvms
from tests.support import needs
from tests.support.broker import BrokerProcess

# A JVM starts in seconds, and in half a minute on a busy machine; faulthandler_timeout is the limit.
pytestmark = [pytest.mark.full, pytest.mark.timeout(320)]
RECORDS = 120
# Changelogs of windows lose what is old.
BEGAN_MS = int(time.time()) * 1_000


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    needs.require(needs.spark())
    with quick_jvms():
        yield


def inputs_of(name: str) -> dict[str, list[tuple[str, str | None, int]]]:
    """Key, value and timestamp of the records of each input, the same for each call; all timestamps differ."""
    chance = random.Random(name)
    topics = [f"{name}-a", f"{name}-b"] if name in ten_applications.WITH_TWO_INPUTS else [f"{name}-a"]
    made: dict[str, list[tuple[str, str | None, int]]] = {topic: [] for topic in topics}
    for at in range(RECORDS):
        key, value = f"k{chance.randrange(4)}", f"v{chance.randrange(5)}"
        made[chance.choice(topics)].append((key, value, BEGAN_MS + at * 50))
    return made


def expected_of(name: str) -> list[tuple[str, str]]:
    """The results of the test driver."""
    inputs = inputs_of(name)
    # In the order of their timestamps, which all differ.
    records = sorted((at, topic, key, value) for topic, theirs in inputs.items() for key, value, at in theirs)
    with TopologyTestDriver(ten_applications.builder_of(name).build(), ten_applications.config_of(name)) as driver:
        topics = {topic: driver.create_input_topic(topic, key=STRING, value=STRING) for topic in inputs}
        for at, topic, key, value in records:
            topics[topic].pipe_input(key, value, at)
        found = driver.create_output_topic(f"{name}-out", key=STRING, value=STRING).read_key_values()
    return [(pair.key, pair.value or "") for pair in found]


def text(data: bytes | None) -> str:
    return (data or b"").decode()


async def results_of(client: AdminClient, name: str) -> list[tuple[str, str]]:
    key = TopicPartition(f"{name}-out", 0)
    ends = (await client.offsets.latest([key], isolation=Isolation.READ_COMMITTED)).whole()
    found: list[tuple[str, str]] = []
    if ends[key]:
        async with client.records.reader({key: 0}, ends=ends, isolation=Isolation.READ_COMMITTED) as reader:
            async for chunk in reader:
                found += [(text(each.key), text(each.value)) for each in chunk.records]
    return found


def test_ten_applications_in_one_driver_give_the_results_of_the_test_driver(tmp_path: Path) -> None:
    """If this fails, an application on Spark gives other results than in one process."""
    names = list(ten_applications.ALL)
    folder = tmp_path / "applications"
    folder.mkdir()
    shutil.copy(Path(ten_applications.__file__), folder / "ten_applications.py")
    for name in names:
        text = f"import ten_applications\nbuilder = ten_applications.builder_of({name!r})\n"
        (folder / f"{name}.py").write_text(f"{text}config = ten_applications.config_of({name!r})\n")

    async def job(bootstrap: str) -> None:
        async with AdminClient(bootstrap, timeout_s=WAIT_S) as client:
            for name in names:
                inputs = inputs_of(name)
                (await client.topics.create([NewTopic(each, 1, 1) for each in (*inputs, f"{name}-out")])).whole()
                for topic, records in inputs.items():
                    made = [
                        Record(timestamp=at, key=key.encode(), value=None if value is None else value.encode())
                        for key, value, at in records
                    ]
                    await client.records.producer().send(topic, made)
            files = [folder / f"{name}.py" for name in names]
            with program(tmp_path, files, bootstrap) as running:
                async with asyncio.timeout(WAIT_S):
                    for name in names:
                        expected = expected_of(name)
                        while len(found := await results_of(client, name)) < len(expected):
                            running.check()
                            await asyncio.sleep(0.1)
                        assert found == expected, name
                assert running.stop() == 0, running.text()
            for name in names:
                assert await results_of(client, name) == expected_of(name)

    with broker_in(tmp_path) as broker:
        asyncio.run(job(broker.bootstrap))


async def counted_to(client: AdminClient, written: int, running: Program) -> None:
    async with asyncio.timeout(WAIT_S):
        while sum(map(len, (await counts(client)).values())) < written:
            running.check()
            await asyncio.sleep(0.05)


def expected_counts(written: int) -> dict[str, list[int]]:
    return {f"w{key}": list(range(1, len(range(key, written, KEYS)) + 1)) for key in range(KEYS)}


def test_a_cluster_that_loses_a_worker_counts_each_record_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, an application on a Spark cluster loses records with a worker, or does not go on without it."""
    # Workers have another Python than the driver, and nothing of broker-cy. The driver's own Python processes have the
    # working directory.
    python = standalone.bare_python(tmp_path / "python", without=("pandas",))
    env = {**standalone.LOOPBACK, "PYTHONPATH": "", "PYSPARK_PYTHON": str(python)}
    for name, value in (env | {"PYSPARK_DRIVER_PYTHON": sys.executable}).items():
        monkeypatch.setenv(name, value)

    async def job(broker: BrokerProcess, master: str, workers: list[Any]) -> None:
        file, written = tmp_path / "app.py", 0
        file.write_text(APPLICATION)
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            (await client.topics.create([NewTopic(name, PARTITIONS, 1) for name in ("in", "out")])).whole()
            with program(tmp_path, [file], broker.bootstrap, "--master", master) as running:
                async with asyncio.timeout(WAIT_S):
                    for turn in range(4):
                        await write(client, written, 100)
                        written += 100
                        if turn == 2:
                            workers[-1].kill()
                        while sum(map(len, (await counts(client)).values())) < written - (50 if turn < 3 else 0):
                            running.check()
                            await asyncio.sleep(0.05)
                assert running.stop() == 0, running.text()
            assert await counts(client) == expected_counts(written)

    with broker_in(tmp_path) as broker, standalone.cluster(tmp_path) as (master, workers):
        asyncio.run(job(broker, master, workers))
