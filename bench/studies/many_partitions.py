"""Measures a controller's resources for the metadata of many partitions: `python -m bench.studies.many_partitions
--help`.

A separate process loads a snapshot of topics with three replicas on ten brokers, as at the start of a node. The figures
are the time, and the growth of resident memory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

from bench.studies.goals import Goals, show
from broker_cy.metadata.records import VersionedRecord
from broker_cy.metadata.snapshot import KRaftState, write
from broker_cy.wire import messages

BROKERS, REPLICAS = 10, 3
PARTITIONS_OF_A_TOPIC = 10
PARTITIONS, PARTITIONS_MAX = 100_000, 10_000_000
LOAD_TIMEOUT_S = 600.0
GOALS = Goals(at_most={"metadata_load_s": 2.0, "metadata_mb": 60.0})
MISSED = 3

# Prints the seconds, and the growth of the resident memory in bytes.
LOADING = """
import gc, sys, time
from broker_cy.metadata.loader import Loader
from broker_cy.metadata.snapshot import SnapshotId

def resident_bytes():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

content = open(sys.argv[1], "rb").read()
loader = Loader()
gc.collect()
before = resident_bytes()
begun = time.perf_counter()
loader.load_snapshot(content, SnapshotId(1_000_000, 1))
seconds = time.perf_counter() - begun
assert sum(1 for _ in loader.image.topics.with_replica(3)) == int(sys.argv[2])
print(seconds, resident_bytes() - before)
"""


def records(partitions: int) -> Iterator[VersionedRecord]:
    """Yield the metadata of topics with PARTITIONS_OF_A_TOPIC each."""
    yield VersionedRecord(messages.FeatureLevelRecord(name="metadata.version", feature_level=30))
    for number in range(partitions // PARTITIONS_OF_A_TOPIC):
        topic_id = UUID(int=(1 << 100) + number)
        yield VersionedRecord(messages.TopicRecord(name=f"topic-{number}", topic_id=topic_id))
        for index in range(PARTITIONS_OF_A_TOPIC):
            replicas = [(number + index + place) % BROKERS + 1 for place in range(REPLICAS)]
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


def loaded(directory: Path, partitions: int, repeats: int) -> dict[str, float | list[float]]:
    """Write the snapshot once and load it `repeats` times; returns figures. Raises CalledProcessError."""
    snapshot = directory / "snapshot"
    with snapshot.open("wb") as file:
        for batch in write(records(partitions), KRaftState(), 1, 0, 0):
            file.write(batch)
    of_one_broker = partitions * REPLICAS // BROKERS
    seconds, megabytes = [], []
    for _ in range(repeats):
        done = subprocess.run(
            [sys.executable, "-c", LOADING, snapshot, str(of_one_broker)],
            cwd=Path(__file__).resolve().parents[2],
            capture_output=True,
            text=True,
            check=True,
            timeout=LOAD_TIMEOUT_S,
        )
        took_s, grown = done.stdout.split()
        seconds.append(float(took_s))
        megabytes.append(int(grown) / 1e6)
    return {"metadata_load_s": seconds, "metadata_mb": megabytes, "metadata_snapshot_mb": snapshot.stat().st_size / 1e6}


def main() -> int:
    """Measure and print the figures; returns exit code 3 if --strict was given and a goal was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.studies.many_partitions", description=__doc__)
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json-file", dest="json", metavar="FILE", help="also write the figures to this file")
    parser.add_argument("--strict", action="store_true")
    given = parser.parse_args()
    least = PARTITIONS_OF_A_TOPIC
    if not least <= given.partitions <= PARTITIONS_MAX or given.partitions % least:
        parser.error(f"--partitions {given.partitions} (allowed: multiples of {least} up to {PARTITIONS_MAX:,})")
    if not 1 <= given.repeats <= 100:
        parser.error(f"--repeats {given.repeats} (allowed: 1 to 100)")
    with tempfile.TemporaryDirectory() as directory:
        figures = loaded(Path(directory), given.partitions, given.repeats)
    is_missed = show(figures, GOALS)
    if given.json:
        Path(given.json).write_text(json.dumps(figures))
    return MISSED if given.strict and is_missed else 0


if __name__ == "__main__":
    sys.exit(main())
