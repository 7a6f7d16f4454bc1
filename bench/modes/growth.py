"""Scaling: `connections` (1 to 10,000) and `partitions` (1 to 10,000)."""

import dataclasses
from collections.abc import Sequence

from bench.measuring import proc
from bench.modes.base import Outcome, up, warm_up
from bench.spec.target import TargetSpec
from bench.spec.workload import Workload
from bench.targets.brokers import FILES_PER_PARTITION, raise_file_limit
from bench.window.engine import Session, measure

COUNTS = (1, 10, 100, 1_000, 10_000)
MB = 1e6


def connections(
    session: Session, specs: Sequence[TargetSpec], workload: Workload, outcome: Outcome, counts: Sequence[int]
) -> None:
    """Measure the workload's whole rate over growing numbers of connections, with resident memory."""
    raise_file_limit(2 * max(counts) + 1000)
    with up(session, specs, outcome) as targets:
        first = over(workload, counts[0])
        verdicts = {name: warm_up(session, name, target, first, outcome) for name, target in targets.items()}
        for count in counts:
            for name, target in targets.items():
                if session.stop.is_set() or outcome.failed:
                    return
                spread = over(workload, count)
                run = measure(session, name, target, spread, f"{count:,} connections")
                run.extra["connections"] = count
                run.verdicts = verdicts[name]
                outcome.runs.append(run)


def over(workload: Workload, count: int) -> Workload:
    """Return the workload with `count` clients: producers, or consumers in a workload without producers."""
    if workload.producers:
        return dataclasses.replace(workload, producers=count)
    return dataclasses.replace(workload, consumers=count)


def partitions(
    session: Session, specs: Sequence[TargetSpec], workload: Workload, outcome: Outcome, counts: Sequence[int]
) -> None:
    """Measure a separate broker for each number of partitions: load, memory, then a clean shutdown and the next
    start.
    """
    raise_file_limit(FILES_PER_PARTITION * max(counts) + 10_000)
    for count in counts:
        for spec in specs:
            if session.stop.is_set() or outcome.failed:
                return
            with up(session, [spec], outcome) as targets:
                target = targets[spec.name]
                many = dataclasses.replace(workload, partitions=count)
                label = f"{count:,} partitions"
                verdicts = warm_up(session, spec.name, target, workload, outcome, label)
                run = measure(session, spec.name, target, many, label, keep_topic=True)
                run.verdicts = verdicts
                run.extra["partitions"] = count
                outcome.runs.append(run)
                if target.pid and not run.failed and spec.kind != "address":
                    run.extra["rss_mb"] = proc.resident_bytes(target.pid) / MB
                    target.stop()
                    target.start()
                    run.extra["start_s"] = target.first_answer_s
