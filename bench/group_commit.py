"""flush.messages=1: `python -m bench.group_commit` has broker-cy and Apache Kafka sync every record before they answer.

Eight connections, one partition each, at depth 1 to 64: records per second, and how often a second the disk was told to
flush its cache (/proc/diskstats, of the device that holds the data; what else runs there counts, too).
"""

import argparse
import os
import shutil
import tempfile
from pathlib import Path

from bench import protocol, raw
from bench.kafka_peer import Kafka
from bench.targets import BrokerCy, Spawned

TOPIC = "synced"
CONNECTIONS = 8
DEPTHS = (1, 4, 16, 64)
VALUE_BYTES = 100
FLUSHES_COLUMN = 18  # of a line of /proc/diskstats: flush requests completed, since Linux 5.5


def disk_flushes(path: Path) -> int:
    """Flush requests so far of the device that holds `path`; 0 where it is none that is counted."""
    device = os.stat(path).st_dev
    for line in Path("/proc/diskstats").read_text().splitlines():
        fields = line.split()
        if (int(fields[0]), int(fields[1])) == (os.major(device), os.minor(device)) and len(fields) > FLUSHES_COLUMN:
            return int(fields[FLUSHES_COLUMN])
    return 0


def measure(target: Spawned, seconds: float) -> None:
    """Print a line for each depth."""
    batch = protocol.record_batch(VALUE_BYTES, 1)
    with target.running():
        with protocol.Client(target.address) as client:
            client.create_topic(TOPIC, CONNECTIONS, {"flush.messages": "1"})
        target.probe(TOPIC, CONNECTIONS)
        for depth in DEPTHS:
            templates = [[protocol.produce_request(TOPIC, index, batch, 1)] for index in range(CONNECTIONS)]
            driver = raw.Driver(target.address, templates)
            try:
                before = disk_flushes(target.directory)
                driver.run_closed(depth=depth, requests=1 << 40, seconds=seconds)
                flushes = disk_flushes(target.directory) - before
                print(
                    f"{target.name}: depth {depth}: {driver.records / driver.seconds:.0f} records/s, "
                    f"{flushes / driver.seconds:.0f} disk flushes/s, {driver.errors} errors",
                    flush=True,
                )
            finally:
                driver.close()


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m bench.group_commit", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="for each depth")
    parser.add_argument("--data-dir", type=Path, help="where logs are written (default: the system's)")
    parser.add_argument("--only", choices=("broker-cy", "kafka"), help="one of the two")
    arguments = parser.parse_args()
    for kind in (BrokerCy, Kafka):
        if arguments.only in (None, kind.name):
            root = Path(tempfile.mkdtemp(prefix="group-commit-", dir=arguments.data_dir))
            try:
                measure(kind(root / "data", {}), arguments.seconds)
            finally:
                shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
