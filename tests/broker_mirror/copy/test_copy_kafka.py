"""A copy flow between Apache Kafka 4.3.1 and ours, in each direction, whose process is killed again and again; and a
topic of Kafka that has message sets from before 0.11. Other tests of this folder run with Kafka too (conftest.py).
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.compression import Codec
from broker_cy.wire.records import Record
from tests.broker_mirror.copy.clusters import Clusters, clusters, ends_of, flow_of, plain, records_of
from tests.broker_mirror.copy.conftest import PAIRS, both
from tests.broker_mirror.copy.old_messages import Old, compressed
from tests.broker_mirror.copy.old_messages import plain as plain_messages
from tests.support import needs
from tests.support.both_brokers import running
from tests.support.broker import QUICK
from tests.support.kafka_peer import KafkaPeer

pytestmark = [pytest.mark.full, needs.kafka]
KILLS = 5
SETTINGS = {"log.cleaner.backoff.ms": "200"}
# The records have timestamps of 1970.
KEPT = {"retention.ms": "-1"}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.0",
    "delete.retention.ms": "0",
}


@pytest.fixture(scope="module", params=PAIRS)
def addresses(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The addresses of the source and the target."""
    with both(request.param, tmp_path_factory.mktemp("brokers"), SETTINGS) as found:
        yield found


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
            settings = COMPACTED if compacted else KEPT
            (await pair.source.topics.create([NewTopic(topic, 3, 1, settings)])).whole()
            (await pair.target.topics.create([NewTopic(f"A.{topic}", 3, 1, KEPT)])).whole()
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


def test_a_topic_from_before_kafka_0_11(tmp_path: Path) -> None:
    """Its log has message sets of magic 0 and 1 before batches. If this fails, the mirror stops at the oldest topics of
    a cluster.
    """
    old = [Old(step, b"k%d" % step, b"old-%d" % step) for step in range(50)]
    newer = [Old(step, None, b"newer-%d" % step, 1_500_000_000_000 + step) for step in range(50, 100)]
    log = (
        plain_messages(old[:20], 0)
        + compressed(old[20:35], 0, Codec.GZIP)
        + compressed(old[35:], 0, Codec.SNAPPY)
        + plain_messages(newer[:20], 1)
        + compressed(newer[20:], 1, Codec.LZ4)
    )
    kafka = KafkaPeer(tmp_path / "source", QUICK)
    try:
        kafka.start()

        async def create() -> None:
            async with AdminClient(kafka.bootstrap, timeout_s=60) as client:
                (await client.topics.create([NewTopic("old", 1, 1, KEPT)])).whole()

        asyncio.run(create())
        assert kafka.stop() == 0
        directory = kafka.data_dir / "old-0"
        for each in directory.glob("*index"):
            each.unlink()
        (directory / f"{0:020}.log").write_bytes(log)
        # Kafka then reads the log when it starts.
        (kafka.data_dir / ".kafka_cleanshutdown").unlink()
        kafka.restart()
        with running("broker-cy", tmp_path / "target") as target:

            async def job() -> None:
                addresses = kafka.bootstrap, target.bootstrap
                async with clusters(flow_of(*addresses), *addresses) as pair:
                    (await pair.target.topics.create([NewTopic("A.old", 1, 1, KEPT)])).whole()
                    await pair.source.records.producer().send("old", [Record(timestamp=7, value=b"new")])
                    copy = pair.copy()
                    await copy.start([TopicPartition("old", 0)])
                    await pair.copied(copy, "old")
                    await copy.stop()
                    found = (await records_of(pair.target, "A.old"))[0]
                    copies = [(each.key, each.value, each.timestamp) for each in found]
                    expected = [(each.key, each.value, each.timestamp) for each in [*old, *newer]]
                    assert copies == [*expected, (None, b"new", 7)]

            asyncio.run(job())
    finally:
        kafka.close()
