"""`run` and `floor`: one workload on one target; `compare`: on several in turn; `matrix`: many workloads."""

import contextlib
import dataclasses
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.measuring import perf
from bench.modes.base import Outcome, in_turn, take_turns, up
from bench.spec.target import TargetSpec
from bench.spec.workload import Workload
from bench.targets.brokers import Target
from bench.window.engine import Session, measure
from broker_cy.client.payload.draws import Size

MATRIX_SIZES = (10, 100, 1_000, 10_000, 100_000)
MATRIX_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MATRIX_ACKS = ("all", "1", "0")


def compare(
    session: Session,
    specs: Sequence[TargetSpec],
    workloads: Sequence[Workload],
    outcome: Outcome,
    pairs: int,
    profile: bool = False,
) -> None:
    """Measure every target in turn with every workload, `pairs` times. With one of each and one pair it is `run`.

    `profile`: measure one more window of each target with the first workload, recorded by perf; no figure includes it.
    """
    outcome.workloads = len(workloads)
    labels = [each.name if len(workloads) > 1 else "" for each in workloads]
    with up(session, specs, outcome) as targets:
        take_turns(session, targets, list(zip(workloads, labels, strict=True)), outcome, pairs)
        if profile:
            profiles(session, targets, workloads[0], outcome)


def profiles(session: Session, targets: dict[str, Target], workload: Workload, outcome: Outcome) -> None:
    """Profile each target under this workload."""
    short = dataclasses.replace(workload, duration_s=min(workload.duration_s, perf.WINDOW_MOST_S))
    for name, target in targets.items():
        if session.stop.is_set() or outcome.failed:
            return
        try:
            with recording(session) as recorded:
                run = measure(session, name, target, short, "profile")
            if run.failed:
                outcome.error = f"profile of {name}: {run.failed}"
            elif not session.stop.is_set():
                session.on_phase(f"{name}: reading what perf recorded")
                outcome.profiles[name] = (recorded.counted(), run.result.seconds)
        except perf.PerfError as error:
            outcome.error = f"profile of {name}: {error}"


@contextlib.contextmanager
def recording(session: Session) -> Iterator[perf.Recording]:
    """Record the session's pieces with perf inside the context; the file exists until the session ends."""
    recorded = perf.Recording(Path(tempfile.mkdtemp(prefix="perf-", dir=session.root)))
    before, session.observe = session.observe, recorded.observed
    try:
        yield recorded
    finally:
        session.observe = before
        recorded.close()


@dataclasses.dataclass(frozen=True)
class Cells:
    """The cells of a matrix: record sizes in bytes, codecs, acks."""

    sizes: Sequence[int] = MATRIX_SIZES
    codecs: Sequence[str] = MATRIX_CODECS
    acks: Sequence[str] = MATRIX_ACKS

    def __len__(self) -> int:
        return len(self.sizes) * len(self.codecs) * len(self.acks)


def matrix(
    session: Session, specs: Sequence[TargetSpec], workload: Workload, outcome: Outcome, pairs: int, cells: Cells
) -> None:
    """Measure record size x codec x acks; everything else as in the workload."""
    with up(session, specs, outcome) as targets:
        for size in cells.sizes:
            for codec in cells.codecs:
                for acks in cells.acks:
                    if session.stop.is_set() or outcome.failed:
                        return
                    cell = dataclasses.replace(
                        workload,
                        record_size=Size(size, size),
                        codec=codec,
                        acks=acks,
                        batch_bytes=max(workload.batch_bytes, size + 200),
                    )
                    in_turn(session, targets, cell, outcome, pairs, f"{size} B, {codec}, acks={acks}")
