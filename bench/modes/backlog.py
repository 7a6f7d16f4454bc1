"""`backlog`: a log is built and leaves the page cache, then it is drained while producers go on; what that costs."""

import dataclasses
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from bench.cold import evict
from bench.engine import Session, fill, measure
from bench.modes.base import Outcome, up
from bench.spec.target import TargetSpec
from bench.spec.workload import Workload


def backlog(
    session: Session, specs: Sequence[TargetSpec], workload: Workload, outcome: Outcome, size: int, pairs: int
) -> None:
    """For each target in turn: producers alone, then the same while a consumer drains `size` bytes of cold log."""
    topic = "bench-backlog"
    producing = dataclasses.replace(workload, consumers=0)
    draining = dataclasses.replace(
        workload, producers=0, consumers=max(1, workload.consumers), partitions=1, warm_up_s=0.0
    )
    with up(session, specs, outcome) as targets:
        for target in targets.values():
            target.create_topic(topic, 1)
            fill(session, target, topic, dataclasses.replace(workload, partitions=1), size)
        for pair in range(pairs):
            for name, target in targets.items():
                if session.stop.is_set() or outcome.failed:
                    return
                outcome.runs.append(measure(session, name, target, producing, "producers alone", pair))
                evict(target.directory / f"{topic}-0")
                with ThreadPoolExecutor(1) as pool:
                    drain = pool.submit(measure, session, name, target, draining, "the drain", pair, topic=topic)
                    outcome.runs.append(measure(session, name, target, producing, "producers while it drains", pair))
                    outcome.runs.append(drain.result())
