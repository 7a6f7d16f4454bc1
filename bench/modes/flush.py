"""`flush`: every record is synced before it is acknowledged (flush.messages=1), with growing numbers of requests in
flight.

The number of cache flushes of the disk is the kernel's count for the device that holds the data: the same for every
broker, and including other users of that disk.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from bench.modes.base import Outcome, up, warm_up
from bench.spec.target import TargetSpec
from bench.spec.workload import Workload
from bench.targets.brokers import Target
from bench.window.engine import FAILURES, Measured, Session, measure, new_topic
from broker_cy.client.toml_file import SpecError

DEPTHS = (1, 4, 16, 64)
SETTINGS = {"flush.messages": "1"}
FLUSHES_COLUMN = 15  # of /sys/dev/block/*/stat: flush requests completed, since Linux 5.5


def flush(
    session: Session,
    specs: Sequence[TargetSpec],
    workload: Workload,
    outcome: Outcome,
    depths: Sequence[int],
    pairs: int,
) -> None:
    """Measure each depth on each target in turn, `pairs` times. Raises SpecError."""
    if workload.driver != "raw" or not workload.producers or not workload.rate.unlimited or workload.acks != "all":
        raise SpecError(
            f"workload {workload.name}: a number of requests that wait for a sync is kept in flight "
            '(needed: driver = "raw", producers, acks = "all" and rate = "max")'
        )
    if others := [spec.name for spec in specs if spec.kind == "floor"]:
        raise SpecError(f"target {others[0]} never flushes to the disk (allowed: ours, kafka and addresses)")
    producing = replace(workload, consumers=0)
    with up(session, specs, outcome) as targets:
        first = replace(producing, in_flight=depths[0])
        verdicts = {name: warm_up(session, name, target, first, outcome) for name, target in targets.items()}
        for depth in depths:
            for pair in range(pairs):
                for name, target in list(targets.items())[:: -1 if pair % 2 else 1]:
                    if session.stop.is_set() or outcome.failed:
                        return
                    run = _measure(session, name, target, replace(producing, in_flight=depth), pair)
                    run.verdicts = verdicts[name]
                    outcome.runs.append(run)
    if any("syncs_per_s" not in run.extra for run in outcome.runs if not run.failed):
        outcome.notes.append("the number of flushes is unknown: the kernel does not count them for this disk")


def _measure(session: Session, name: str, target: Target, workload: Workload, pair: int) -> Measured:
    topic = new_topic(workload.name)
    label = f"depth {workload.in_flight}"
    try:
        target.create_topic(topic, workload.partitions, SETTINGS)
    except FAILURES as error:
        run = Measured.begin(name, label, pair)
        run.failed = f"{type(error).__name__}: {error}"
        return run
    counted = _Counted(target.directory, session.observe)
    run = measure(replace(session, observe=counted.piece), name, target, workload, label, pair, topic=topic)
    run.extra["depth"] = workload.in_flight
    if run.result.seconds and target.pid and counted.known:
        run.extra["syncs_per_s"] = counted.flushes / run.result.seconds
        if counted.flushes:
            run.extra["records_per_sync"] = run.result.records / counted.flushes
    if target.alive():
        try:
            target.delete_topic(topic)
        except FAILURES as error:
            run.failed = run.failed or f"{type(error).__name__}: {error}"
    return run


class _Counted:
    """Counts the disk's flushes in the pieces of a window, without the warming of memory between them."""

    def __init__(self, directory: Path, observe: Callable[..., contextlib.AbstractContextManager[None]]) -> None:
        self.directory, self.observe = directory, observe
        self.flushes = 0
        self.known = disk_flushes(directory) is not None

    @contextlib.contextmanager
    def piece(self, *pids: int) -> Iterator[None]:
        """Count the flushes of one piece."""
        with self.observe(*pids):
            before = disk_flushes(self.directory)
            yield
            after = disk_flushes(self.directory)
        if before is not None and after is not None:
            self.flushes += after - before


def disk_flushes(path: Path) -> int | None:
    """Return the number of flush requests of the disk that holds `path`; None if the kernel does not count them."""
    device = os.stat(path).st_dev
    block = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    if (block / "partition").exists():  # flushes are only counted for the whole disk
        block = block.resolve().parent
    try:
        words = (block / "stat").read_text().split()
    except OSError:
        return None
    return int(words[FLUSHES_COLUMN]) if len(words) > FLUSHES_COLUMN else None
