"""Compaction: `python -m bench.compaction` lets broker-cy and Apache Kafka clean the same log.

The log is produced while min.compaction.lag.ms holds its cleaner back; then that is lifted, and the clock runs until
cleaner-offset-checkpoint says that the log is clean. Input is what the segments that may be cleaned hold. CPU is that
of the broker's process meanwhile, without what it takes when idle.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from bench import proc
from bench.kafka_peer import Kafka
from bench.targets import BrokerCy, Spawned

TOPIC = "compacted"
HELD_BACK_MS = 1 << 50
SEGMENT_BYTES = 64 << 20
LIMIT_S = 600.0
IDLE_S = 3.0
# Kafka asks every 15 s by default: waiting is not what is measured.
SETTINGS = {"log.cleaner.backoff.ms": "200"}


def produce(address: str, records: int, keys: int) -> None:
    """`records` records of about 120 bytes, uncompressed, with keys drawn from `keys`: the same for every target."""
    draw = random.Random(1)
    value = draw.randbytes(100)
    producer = Producer({"bootstrap.servers": address, "linger.ms": 20, "queue.buffering.max.messages": 500_000})
    for number in range(records):
        while True:
            try:
                producer.produce(TOPIC, value, b"key-%06d" % draw.randrange(keys), 0)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def cleaned_offset(directory: Path) -> int:
    """What cleaner-offset-checkpoint says of the topic; 0 for nothing."""
    try:
        lines = (directory / "cleaner-offset-checkpoint").read_text().splitlines()[2:]
    except FileNotFoundError:
        return 0
    return max((int(line.split()[2]) for line in lines if line.split()[0] == TOPIC), default=0)


def measure(target: Spawned, records: int, keys: int) -> None:
    """Print one line for a target."""
    with target.running():
        host, port = target.address
        address = f"{host}:{port}"
        admin = AdminClient({"bootstrap.servers": address})
        config = {
            "cleanup.policy": "compact",
            "segment.bytes": str(SEGMENT_BYTES),
            "min.cleanable.dirty.ratio": "0.01",
            "min.compaction.lag.ms": str(HELD_BACK_MS),
        }
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=config)])[TOPIC].result()
        produce(address, records, keys)
        logs = sorted((target.directory / f"{TOPIC}-0").glob("*.log"))[:-1]
        input_bytes = sum(path.stat().st_size for path in logs)
        pid = target.pid
        assert pid is not None
        before = proc.usage(pid)
        time.sleep(IDLE_S)
        idle = (proc.usage(pid) - before).cpu_s / IDLE_S
        before, started = proc.usage(pid), time.monotonic()
        entry = ConfigEntry("min.compaction.lag.ms", "0", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
        for future in admin.incremental_alter_configs([resource]).values():
            future.result()
        while cleaned_offset(target.directory) == 0:
            if time.monotonic() - started > LIMIT_S:
                sys.exit(f"{target.name}: not cleaned within {LIMIT_S:.0f} s")
            time.sleep(0.01)
        seconds = time.monotonic() - started
        cpu = (proc.usage(pid) - before).cpu_s - idle * seconds
        left = sum(path.stat().st_size for path in (target.directory / f"{TOPIC}-0").glob("*.log"))
        print(
            f"{target.name}: {input_bytes / 1e6:.0f} MB in {seconds:.2f} s, {input_bytes / 1e6 / seconds:.0f} MB/s, "
            f"CPU {cpu / (input_bytes / 1e9):.2f} s/GB, {left / 1e6:.0f} MB left with the active segment",
            flush=True,
        )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m bench.compaction", description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--data-dir", type=Path, help="where logs are written: 1.5 GB (default: the system's)")
    arguments = parser.parse_args()
    for kind in (BrokerCy, Kafka):
        root = Path(tempfile.mkdtemp(prefix="compaction-", dir=arguments.data_dir))
        try:
            measure(kind(root / "data", SETTINGS), arguments.records, arguments.keys)
        finally:
            shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
