"""A copy flow between Apache Kafka 4.3.1 and ours, in each direction, whose process is killed again and again."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.compression import Codec
from broker_cy.wire.records import Record
from tests.broker_mirror.copy.clusters import Clusters, clusters, ends_of, flow_of, plain, records_of
from tests.support.both_brokers import running

pytestmark = pytest.mark.full
KILLS = 5
SETTINGS = {"log.cleaner.backoff.ms": "200"}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.0",
    "delete.retention.ms": "0",
}


@pytest.fixture(scope="module", params=[("kafka", "kafka"), ("kafka", "broker-cy"), ("broker-cy", "kafka")], ids=str)
def addresses(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The addresses of the source and the target."""
    source, target = request.param
    with (
        running(source, tmp_path_factory.mktemp("source"), SETTINGS) as first,
        running(target, tmp_path_factory.mktemp("target"), SETTINGS) as second,
    ):
        yield first.bootstrap, second.bootstrap


def child(addresses: tuple[str, str], *topics: str) -> subprocess.Popen[bytes]:
    root = Path(__file__).resolve().parents[3]
    command = [sys.executable, "-m", "tests.broker_mirror.copy.child", *addresses, *topics]
    return subprocess.Popen(command, cwd=root)


async def produce(pair: Clusters, topic: str, first: int) -> None:
    """Transactions with each codec; every third one is aborted."""
    for step, codec in enumerate(Codec):
        producer = pair.source.transactional_producer(f"{topic}-{step}", codec=codec)
        await producer.begin()
        records = [
            Record(timestamp=1_000, key=b"k%d" % (at % 50), value=b"%d-%d" % (first + at, step) * 20)
            for at in range(300)
        ]
        await producer.send(topic, records)
        await (producer.abort() if (first + step) % 3 == 0 else producer.commit())
        await pair.source.records.producer(codec=codec).send(topic, records[:20])


@pytest.mark.parametrize("compacted", [False, True], ids=["kept", "compacted"])
def test_a_killed_mirror_copies_each_record_once(addresses: tuple[str, str], compacted: bool) -> None:
    """If this fails, records are lost or twice in the target after a failure of the mirror."""
    topic = "t-" + uuid.uuid4().hex[:8]

    async def job() -> None:
        async with clusters(flow_of(*addresses), *addresses) as pair:
            settings = COMPACTED if compacted else {}
            (await pair.source.topics.create([NewTopic(topic, 3, 1, settings)])).whole()
            (await pair.target.topics.create([NewTopic(f"A.{topic}", 3, 1)])).whole()
            for kill in range(KILLS):
                process = child(addresses, topic)
                try:
                    before = sum((await ends_of(pair.target, f"A.{topic}")).values())
                    await produce(pair, topic, kill * 1_000)
                    # It is killed in the middle of its transactions, after some of them.
                    async with asyncio.timeout(120):
                        while sum((await ends_of(pair.target, f"A.{topic}")).values()) <= before:
                            await asyncio.sleep(0.01)
                finally:
                    process.kill()
                    process.wait()
            copy = pair.copy()
            await copy.start(TopicPartition(topic, index) for index in range(3))
            await pair.copied(copy, topic)
            await copy.stop()
            expected, found = await records_of(pair.source, topic), await records_of(pair.target, f"A.{topic}")
            for part, records in expected.items():
                copies, wanted = plain(found[part]), plain(records)
                if compacted:
                    # Compaction removed records from the source after they were copied.
                    kept = set(wanted)
                    copies = [each for each in copies if each in kept]
                assert copies == wanted

    asyncio.run(job())
