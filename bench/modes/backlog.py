"""`backlog`: a log is written and evicted from the page cache, then drained while producers continue."""

import dataclasses
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from threading import Event

from bench.drivers.base import Sample
from bench.measuring import proc
from bench.modes.base import Outcome, up, warm_up
from bench.spec.target import TargetSpec
from bench.spec.workload import DURATION_MAX_S, Workload
from bench.targets.brokers import Target
from bench.window.engine import Measured, Session, fill, measure
from bench.window.page_cache import evict

TOPIC = "bench-backlog"
COLD_SHARE_MIN = 0.9  # of the drained bytes: if less than this came from the disk, the run is meaningless
LOOK_S = 0.1  # between checks for Ctrl-C, while only the drain runs
SampleFunction = Callable[[str, Sample, proc.Sampled | None], None]


def backlog(
    session: Session, specs: Sequence[TargetSpec], workload: Workload, outcome: Outcome, size: int, pairs: int
) -> None:
    """Measure each target in turn: producers alone, then the same while consumers drain `size` bytes of cold log."""
    producing = dataclasses.replace(workload, consumers=0)
    with up(session, specs, outcome) as targets:
        for target in targets.values():
            target.create_topic(TOPIC, 1)
            fill(session, target, TOPIC, dataclasses.replace(workload, partitions=1), size)
            evict(target.directory / f"{TOPIC}-0")  # else its dirty pages are written while another target is measured
        verdicts = {name: warm_up(session, name, target, producing, outcome) for name, target in targets.items()}
        for pair in range(pairs):
            for name, target in targets.items():
                if session.stop.is_set() or outcome.failed:
                    return
                alone = measure(session, name, target, producing, "producers alone", pair)
                alone.verdicts = verdicts[name]
                outcome.runs.append(alone)
                if session.stop.is_set() or alone.failed:
                    return
                evict(target.directory / f"{TOPIC}-0")
                both = _beside(session, name, target, producing, size, pair)
                if not both[0].failed and (p99 := alone.result.latency.percentile(99)):
                    both[0].extra["p99_to_alone"] = both[0].result.latency.percentile(99) / p99
                both[0].verdicts = verdicts[name]
                outcome.runs.extend(both)
                outcome.notes += _notes(*both)


def _beside(
    session: Session, name: str, target: Target, producing: Workload, size: int, pair: int
) -> tuple[Measured, Measured]:
    """Run producers for their time, and the drain until it is complete."""
    draining = dataclasses.replace(
        producing,
        producers=0,
        consumers=1,
        partitions=1,
        warm_up_s=0.0,
        duration_s=DURATION_MAX_S,
    )
    drained = Event()
    beside = dataclasses.replace(session, stop=drained, on_sample=_until(size, drained, session.on_sample))
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(measure, beside, name, target, draining, "the drain", pair, topic=TOPIC)
        while_drained = measure(session, name, target, producing, "producers while it drains", pair)
        while not future.done():
            if session.stop.is_set() or while_drained.failed:
                drained.set()
            wait_for([future], LOOK_S)
        drain = future.result()
    if not drain.failed and drain.result.bytes >= size:
        drain.extra["drain_s"] = drain.result.seconds * size / drain.result.bytes
    # A drain that ends between two samples has begun a second round, which is read from the page cache.
    wanted = min(size, drain.result.bytes)
    share = drain.spent.usage.read_bytes / wanted if drain.spent is not None and wanted else None
    if not drain.failed and not session.stop.is_set() and share is not None and share < COLD_SHARE_MIN:
        drain.failed = (
            f"only {share:.0%} of the drained bytes came from the disk: {target.directory} is in memory, or its pages "
            "are in use"
        )
    return while_drained, drain


def _until(size: int, enough: Event, on_sample: SampleFunction | None) -> SampleFunction:
    """Set `enough` after `size` bytes: a second round over the log would be read from the page cache."""
    left = size

    def tell(name: str, sample: Sample, usage: proc.Sampled | None) -> None:
        nonlocal left
        left -= sample.bytes
        if left <= 0:
            enough.set()
        if on_sample is not None:
            on_sample(name, sample, usage)

    return tell


def _notes(producers: Measured, drain: Measured) -> list[str]:
    """Return a note on the part that the figures cover if the drain and the producers did not run for the same time."""
    drain_s, window_s = drain.extra.get("drain_s"), producers.result.seconds
    if drain_s is None or drain_s >= window_s:
        return []
    return [
        f"{drain.target}: the log was drained in {drain_s:.1f} s of the {window_s:.1f} s in which producers were "
        "measured: a larger --size, or a shorter --duration, shows more of the drain's effect on them"
    ]
