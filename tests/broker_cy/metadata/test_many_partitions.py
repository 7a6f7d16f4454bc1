"""100,000 partitions: the memory of their image and of the index, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

from broker_cy.metadata.records import VersionedRecord
from broker_cy.metadata.snapshot import KRaftState, write
from broker_cy.wire import messages

ROOT = Path(__file__).resolve().parents[3]
TOPICS, PARTITIONS = 10_000, 10
IMAGE_BYTES_MAX = 60_000_000

# Prints the growth of the resident memory in bytes.
LOADING = """
import gc, sys
from broker_cy.metadata.loader import Loader
from broker_cy.metadata.snapshot import SnapshotId

def resident_bytes():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

content = open(sys.argv[1], "rb").read()
loader = Loader()
gc.collect()
before = resident_bytes()
loader.load_snapshot(content, SnapshotId(1_000_000, 1))
assert sum(1 for _ in loader.image.topics.with_replica(3)) == int(sys.argv[2])
print(resident_bytes() - before)
"""


def records() -> Iterator[VersionedRecord]:
    """Topics with three replicas on ten brokers."""
    yield VersionedRecord(messages.FeatureLevelRecord(name="metadata.version", feature_level=30))
    for number in range(TOPICS):
        topic_id = UUID(int=(1 << 100) + number)
        yield VersionedRecord(messages.TopicRecord(name=f"topic-{number}", topic_id=topic_id))
        for index in range(PARTITIONS):
            replicas = [(number + index + place) % 10 + 1 for place in range(3)]
            record = messages.PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=replicas,
                isr=replicas,
                leader=replicas[0],
                leader_epoch=5,
                partition_epoch=9,
                directories=[UUID(int=(1 << 101) + replica) for replica in replicas],
            )
            yield VersionedRecord(record, 2)


def test_an_image_of_many_partitions_is_small(tmp_path: Path) -> None:
    """If this fails, a cluster of 100,000 partitions needs machines for its metadata alone."""
    snapshot = tmp_path / "snapshot"
    with snapshot.open("wb") as file:
        for batch in write(records(), KRaftState(), 1, 0, 0):
            file.write(batch)
    of_one_broker = TOPICS * PARTITIONS * 3 // 10
    done = subprocess.run(
        [sys.executable, "-c", LOADING, snapshot, str(of_one_broker)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    grown = int(done.stdout)
    print(f"{grown / 1e6:.1f} MB for {TOPICS * PARTITIONS} partitions")
    assert grown < IMAGE_BYTES_MAX
