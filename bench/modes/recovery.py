"""`recovery`: kill -9 with logs and partition counts of several sizes: time until a broker answers, and lost records.

The broker is killed immediately after its last acknowledgement, when the newest records are not on the disk yet.
Afterwards each partition must end at or after its last acknowledged record, and that record must have a valid checksum.
"""

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.modes.base import Outcome, up
from bench.spec.target import TargetSpec
from bench.spec.workload import Workload
from bench.targets.brokers import FILES_PER_PARTITION, Target, TargetError, raise_file_limit
from bench.window.engine import FAILURES, Measured, Session, Stopped, fill
from bench.window.read_back import read_tail
from bench.wire.raw import LoadError
from broker_cy.client.toml_file import SpecError

SIZES = (10**9, 4 * 10**9, 10**10)
TOPIC = "bench-recovery"
SPARE_SHARE, SPARE_BYTES = 0.05, 10**9  # disk space needed in addition to the log: indexes, the system
MB = 1e6


@dataclass(frozen=True)
class Plan:
    """Each size with each number of partitions; without numbers, the workload's own."""

    sizes: Sequence[int] = SIZES
    partitions: Sequence[int] = ()

    def __len__(self) -> int:
        return len(self.sizes) * max(1, len(self.partitions))


def recovery(
    session: Session, specs: Sequence[TargetSpec], workload: Workload, outcome: Outcome, plan: Plan, pairs: int
) -> None:
    """Measure a separate broker for each run; targets in turn, A B B A ..., one at a time."""
    if others := [spec.name for spec in specs if spec.kind not in ("ours", "kafka")]:
        raise SpecError(f"target {others[0]} cannot be killed and restarted with its log (allowed: ours, kafka)")
    if not workload.producers:
        raise SpecError(f"workload {workload.name}: producers.count 0 writes no log (allowed: 1 and more)")
    for size in plan.sizes:
        for count in plan.partitions or (workload.partitions,):
            raise_file_limit(FILES_PER_PARTITION * count + 10_000)
            for pair in range(pairs):
                for spec in list(specs)[:: -1 if pair % 2 else 1]:
                    if session.stop.is_set() or outcome.failed:
                        return
                    _one(session, spec, replace(workload, partitions=count), outcome, size, pair)


def _one(session: Session, spec: TargetSpec, workload: Workload, outcome: Outcome, size: int, pair: int) -> None:
    need = size * (1 + SPARE_SHARE) + SPARE_BYTES
    if (free := shutil.disk_usage(session.root).free) < need:
        raise TargetError(f"{need / 1e9:.1f} GB must be free in {session.root}, but only {free / 1e9:.1f} are")
    with up(session, [spec], outcome) as targets:
        outcome.runs.append(_measure(session, spec.name, targets[spec.name], workload, size, pair))
    session.on_window()


def _measure(session: Session, name: str, target: Target, workload: Workload, size: int, pair: int) -> Measured:
    partitions = workload.partitions
    run = Measured.begin(name, f"{size / 1e9:g} GB of log in {partitions:,} partition{'s'[: partitions - 1]}", pair)
    try:
        target.create_topic(TOPIC, partitions)
        ends = fill(session, target, TOPIC, workload, size)
        run.extra |= {"log_gb": size / 1e9, "partitions": partitions, "unsynced_mb": unsynced_bytes() / MB}
        session.on_phase(f"{name}: kill -9, start")
        target.kill()
        begun = time.monotonic()
        target.start()
        run.extra["recovery_s"] = target.first_answer_s
        first = target.probe(TOPIC, 1)
        run.extra["first_write_s"] = time.monotonic() - begun
        read_tail(target, TOPIC, {0: ends[0]}, 1)
        run.extra["first_fetch_s"] = time.monotonic() - begun
        first |= {partition: at for partition, at in target.probe(TOPIC, partitions).items() if partition}
        run.extra["all_partitions_s"] = time.monotonic() - begun
        if lost := [(partition, end, first[partition]) for partition, end in ends.items() if first[partition] < end]:
            run.failed = f"acknowledged records are missing: partition, end before, next offset: {lost[:3]}"
            return run
        session.go_on()
        session.on_phase(f"{name}: reading the last record of each partition")
        read_tail(target, TOPIC, ends, 1)
    except Stopped:
        run.empty = True
    except (LoadError, *FAILURES) as error:
        run.failed = f"{type(error).__name__}: {error}"
    return run


def unsynced_bytes() -> int:
    """Return the bytes of this machine's page cache that are not on the disk yet, over all files (/proc/meminfo)."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    found = {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}
    return sum(int(found[name][0]) * 1024 for name in ("Dirty", "Writeback"))
