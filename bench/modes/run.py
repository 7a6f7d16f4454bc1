"""`run` and `floor`: one workload on one target; `compare`: on several in turn; `matrix`: many workloads."""

import dataclasses
from collections.abc import Sequence

from bench.engine import Session
from bench.modes.base import Outcome, in_turn, up
from bench.spec.target import TargetSpec
from bench.spec.workload import Size, Workload

MATRIX_SIZES = (10, 100, 1_000, 10_000, 100_000)
MATRIX_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MATRIX_ACKS = ("all", "1", "0")


def compare(session: Session, specs: Sequence[TargetSpec], workload: Workload, outcome: Outcome, pairs: int) -> None:
    """Every target in turn, `pairs` times. With one target and one pair it is `run`."""
    with up(session, specs, outcome) as targets:
        in_turn(session, targets, workload, outcome, pairs)


@dataclasses.dataclass(frozen=True)
class Cells:
    """What a matrix is made of: record sizes in bytes, codecs, acks."""

    sizes: Sequence[int] = MATRIX_SIZES
    codecs: Sequence[str] = MATRIX_CODECS
    acks: Sequence[str] = MATRIX_ACKS

    def __len__(self) -> int:
        return len(self.sizes) * len(self.codecs) * len(self.acks)


def matrix(
    session: Session, specs: Sequence[TargetSpec], workload: Workload, outcome: Outcome, pairs: int, cells: Cells
) -> None:
    """Record size x codec x acks; everything else as in the workload."""
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
