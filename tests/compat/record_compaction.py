"""Records the result of Apache Kafka's cleaner on a topic: `python -m tests.compat.record_compaction` (a minute or
two).

The archive has the partition's files before and after each of three cleanings, with records in between, and the
cleaner's checkpoint after each.
"""

from __future__ import annotations

import tarfile
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.kafka_peer import KafkaPeer
from tests.support.wait import until

ARCHIVE = Path(__file__).parents[1] / "fixtures/kafka_4.3.1_compaction.tar.gz"
TOPIC = "compacted"
DELETE_RETENTION_MS = 100
SEGMENT_MS = 1_000
# Longer than the recording takes: the cleaner only checks once, at the start.
NEVER_MS = 1_000_000_000
QUICK_MS = 50
PASSES = {"first": range(12), "second": range(12, 16), "third": range(16, 18)}
KEPT = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint")


class Recorder:
    """One Kafka, which is stopped for each copy of its files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.peer = KafkaPeer(root / "kafka", {"log.cleaner.backoff.ms": str(NEVER_MS)})
        self.first_ms = int(time.time() * 1000)
        self.step = 0

    def produce(self, pairs: list[tuple[str, bytes | None]], **settings: str) -> None:
        """Write one batch; with a transactional.id, in a transaction that is committed or aborted."""
        end = settings.pop("end", "")
        producer = Producer({"bootstrap.servers": self.peer.bootstrap, "linger.ms": "50", **settings})
        if end:
            producer.init_transactions(30)
            producer.begin_transaction()
        for key, value in pairs:
            # Two batches per segment, by segment.ms.
            at_ms = self.first_ms + self.step // 2 * 2 * SEGMENT_MS
            producer.produce(TOPIC, value, key, partition=0, timestamp=at_ms)
        assert producer.flush(30) == 0
        if end == "commit":
            producer.commit_transaction(30)
        elif end:
            producer.abort_transaction(30)
        self.step += 1

    def write(self, rounds: range) -> None:
        """Write repeated keys, tombstones, codecs, idempotent producers, committed and aborted transactions."""
        codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
        for number in rounds:
            codec = codecs[number % 5]
            self.produce(
                [(f"k{(number * i) % 11}", b"%d-%d" % (number, i)) for i in range(6)], **{"compression.type": codec}
            )
            self.produce([(f"k{number % 11}", None), (f"solo{number}", b"x" * 40)], **{"compression.type": codec})
            self.produce([(f"idem{number % 3}", b"%d" % number)], **{"enable.idempotence": "true"})
            self.produce(
                [(f"k{number % 7}", b"committed"), (f"gone{number % 2}", None)],
                **{"transactional.id": "c", "end": "commit"},
            )
            self.produce(
                [(f"k{number % 5}", b"aborted"), (f"lost{number}", b"a")], **{"transactional.id": "a", "end": "abort"}
            )
            if number % 4 == 3:
                # A transaction whose only keys are written again: after a cleaning, its marker ends no data.
                self.produce([("marked", b"%d" % number)], **{"transactional.id": "m", "end": "commit"})

    def stop_and_copy(self, name: str) -> None:
        self.peer.stop(60)
        target = self.root / "pictures" / name
        target.mkdir(parents=True)
        for path in (self.peer.data_dir / f"{TOPIC}-0").iterdir():
            if path.name.endswith(KEPT):
                (target / path.name).write_bytes(path.read_bytes())
        checkpoint = self.peer.data_dir / "cleaner-offset-checkpoint"
        if checkpoint.exists():
            lines = [line for line in checkpoint.read_text().splitlines()[2:] if line.startswith(f"{TOPIC} ")]
            (target / "cleaner-offset-checkpoint").write_text("\n".join(["0", str(len(lines)), *lines, ""]))

    def clean(self, name: str) -> None:
        """Let the cleaner run until all but the active segment is clean."""
        directory = self.peer.data_dir / f"{TOPIC}-0"
        active = max(int(path.stem) for path in directory.glob("*.log"))
        self.peer.settings["log.cleaner.backoff.ms"] = str(QUICK_MS)
        self.peer.restart()
        checkpoint = self.peer.data_dir / "cleaner-offset-checkpoint"
        until(lambda: f"{TOPIC} 0 {active}\n" in checkpoint.read_text(), "the end of the cleaning", 60)
        self.stop_and_copy(name)
        self.peer.settings["log.cleaner.backoff.ms"] = str(NEVER_MS)
        self.peer.restart()

    def record(self) -> None:
        self.peer.start()
        try:
            settings = {
                "cleanup.policy": "compact",
                "min.cleanable.dirty.ratio": "0",
                "segment.ms": str(SEGMENT_MS),
                "delete.retention.ms": str(DELETE_RETENTION_MS),
                "index.interval.bytes": "200",
            }
            admin = AdminClient({"bootstrap.servers": self.peer.bootstrap})
            admin.create_topics([NewTopic(TOPIC, 1, 1, config=settings)])[TOPIC].result(30)
            self.write(range(12))
            # The first removes data, the second finds transactions without data, the third removes their markers.
            for name, rounds in PASSES.items():
                self.write(rounds)
                self.stop_and_copy(f"{name}-before")
                self.clean(f"{name}-after")
        finally:
            self.peer.close()
        with tarfile.open(ARCHIVE, "w:gz") as archive:
            archive.add(self.root / "pictures", ".")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        Recorder(Path(directory)).record()
