"""The cleaner in a seeded simulation: the process ends at every file operation of a cleaning, and a start follows.

`CLEANER_SEEDS=5000 python -m pytest tests/sim/test_cleaner_crashes.py` runs more; a failing seed is printed with the
command that replays it.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from pathlib import Path

import pytest

from broker_cy.storage.cleaner.files import DirectoryFiles
from broker_cy.storage.cleaner.log_cleaner import CleanerSettings
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.log_loader import LoadContext, load_log
from broker_cy.storage.log_slice import LogTotals
from broker_cy.storage.segment import OpenFiles
from tests.broker_cy.storage.cleaning import (
    ModelBatch,
    UnsyncedFiles,
    Written,
    compacted_config,
    make_cleaner,
    stored,
)

SEEDS = int(os.environ.get("CLEANER_SEEDS", "12"))
FIRST_SEED = int(os.environ.get("CLEANER_FIRST_SEED", "0"))


class Crash(BaseException):
    """The process ends here."""


class CrashingFiles(UnsyncedFiles):
    """Ends the process before file operation number `crash_at`; a write may be done in part."""

    def __init__(self, path: str, crash_at: int, tear: random.Random) -> None:
        super().__init__(path)
        self.crash_at = crash_at
        self.done = 0
        self.tear = tear

    def _count(self) -> None:
        self.done += 1
        if self.done >= self.crash_at:
            raise Crash

    def create(self, name: str) -> int:
        self._count()
        return super().create(name)

    def write(self, fd: int, data: memoryview | bytes, position: int) -> None:
        try:
            self._count()
        except Crash:
            super().write(fd, memoryview(data)[: self.tear.randint(0, len(data))], position)
            raise
        super().write(fd, data, position)

    def rename(self, old: str, new: str) -> None:
        self._count()
        super().rename(old, new)

    def unlink(self, name: str) -> None:
        self._count()
        super().unlink(name)


def make_log(directory: str, draw: random.Random, config: LogConfig) -> Written:
    written = Written(Log.create(directory, "t", 0, config, 0))
    for _ in range(draw.randint(10, 60)):
        pairs = [
            (draw.choice([b"a", b"b", b"c", b"dd"]), draw.choice([None, b"", b"v" * draw.randint(1, 60)]))
            for _ in range(draw.randint(1, 4))
        ]
        producer = draw.choice([-1, -1, 0, 1])
        in_transaction = producer >= 0 and (draw.random() < 0.5 or producer in written.open_from)
        written.data(pairs, producer, transactional=in_transaction, codec=draw.choice([0, 0, 4]))
        if written.open_from and draw.random() < 0.4:
            written.end(draw.choice(sorted(written.open_from)), commit=draw.random() < 0.5)
    for producer in sorted(written.open_from):
        written.end(producer, commit=draw.random() < 0.5)
    written.roll()
    return written


def in_ranges(batches: list[ModelBatch], bases: list[int]) -> list[list[ModelBatch]]:
    """Batches by the old segment their offsets lie in."""
    ends = [*bases[1:], 1 << 62]
    return [[b for b in batches if base <= b.base_offset < end] for base, end in zip(bases, ends, strict=True)]


def run_seed(seed: int) -> tuple[int, int]:
    """Every crash of one log; how many there were, and how many file operations were done in all."""
    draw = random.Random(seed)
    config = compacted_config(segment_bytes=draw.choice([250, 500, 1_000, 1 << 20]), index_interval_bytes=64)
    grown = compacted_config(segment_bytes=draw.choice([400, 2_000]), index_interval_bytes=64)
    # In memory where there is such a place: a start syncs, and thousands of those take a disk minutes.
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as root:
        source = f"{root}/source/t-0"
        log = make_log(source, draw, config).log
        bases = [segment.base_offset for segment in log.segments]
        log.flush()
        before = in_ranges(stored(source), bases)
        after: list[list[ModelBatch]] = []
        crash_at = operations = 0
        while True:
            crash_at = 1 << 30 if not crash_at else (1 if crash_at == 1 << 30 else crash_at + 1)
            directory = f"{root}/{crash_at}/t-0"
            shutil.copytree(source, directory, copy_function=shutil.copyfile)
            found = load(directory, grown)
            files: list[CrashingFiles] = []

            def make(path: str, at: int = crash_at, made: list[CrashingFiles] = files) -> DirectoryFiles:
                made.append(CrashingFiles(path, at, draw))
                return made[-1]

            cleaner, _ = make_cleaner(found, CleanerSettings(backoff_ms=0, io_buffer_bytes=256), make)
            crashed = False
            operations += 0 if crash_at == 1 << 30 else crash_at
            try:
                cleaner.tick(2_000_000, lambda topic, partition: log.log_end_offset)
            except Crash:
                crashed = True
            again = load(directory, grown)
            left = in_ranges(stored(directory), bases)
            if not after:
                assert not crashed
                after = left
            for number, batches in enumerate(left):
                assert batches in (before[number], after[number]), f"segment {number} after operation {crash_at}"
            assert again.log_end_offset == log.log_end_offset
            names = [path.name for path in Path(directory).iterdir()]
            assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))], names
            for batch in stored(directory):
                assert again.read_slice(batch.base_offset) is not None
            shutil.rmtree(f"{root}/{crash_at}")
            if crash_at < 1 << 30 and not crashed:
                return crash_at, operations


def load(directory: str, config: LogConfig) -> Log:
    context = LoadContext(OpenFiles(), LogTotals(), False, 0, 86_400_000)
    return load_log(directory, "t", 0, config, 0, 0, context)


def test_a_crash_leaves_the_old_segment_or_the_new_one() -> None:
    """Records that count are gone, come twice, or the partition cannot be opened."""
    crashes = operations = 0
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        try:
            found = run_seed(seed)
        except Exception as error:
            command = f"CLEANER_FIRST_SEED={seed} CLEANER_SEEDS=1 python -m pytest {__file__}"
            pytest.fail(f"seed {seed}: {error!r}; again with: {command}")
        crashes += found[0]
        operations += found[1]
    print(f"{SEEDS} seeds, {crashes} crashes, {operations} file operations")
    assert crashes > 10 * SEEDS
