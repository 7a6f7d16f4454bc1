"""The cleaner in a seeded simulation: at each file operation of a cleaning the process ends, or the disk fails, and
then a start follows. The logs have keys, idempotent producers and transactions.

`CLEANER_SEEDS=5000 python -m pytest tests/sim/test_cleaner_crashes.py` runs more; a failing seed is printed with the
command that repeats it.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

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
from tests.support.tiers import by_tier

pytestmark = pytest.mark.usefixtures("no_log_lines")

SEEDS = int(os.environ.get("CLEANER_SEEDS", by_tier("2", "4")))
SOAK_SEEDS = int(os.environ.get("CLEANER_SEEDS", "300"))
FIRST_SEED = int(os.environ.get("CLEANER_FIRST_SEED", "0"))


class Crash(BaseException):
    """The process ends here."""


@dataclass(frozen=True)
class Ending:
    """The event at a file operation: the process ends, or the operation fails, and the later ones may fail, too."""

    errno: int | None = None
    once: bool = False

    def raise_error(self) -> NoReturn:
        if self.errno is None:
            raise Crash
        raise OSError(self.errno, os.strerror(self.errno))


ENDINGS = {
    "crash": Ending(),
    "one operation fails": Ending(errno.EIO, once=True),
    "the disk is full for one operation": Ending(errno.ENOSPC, once=True),
    "all operations fail from then on": Ending(errno.EIO),
    "the disk is full from then on": Ending(errno.ENOSPC),
}


class EndingFiles(UnsyncedFiles):
    """Makes file operation number `at` end with `ending`; a write may be done in part."""

    def __init__(self, path: str, at: int, ending: Ending, tear: random.Random) -> None:
        super().__init__(path)
        self.at = at
        self.ending = ending
        self.done = 0
        self.tear = tear

    @property
    def ended(self) -> bool:
        return self.done >= self.at

    def _count(self) -> None:
        self.done += 1
        if self.done == self.at or (self.done > self.at and not self.ending.once):
            self.ending.raise_error()

    def create(self, name: str) -> int:
        self._count()
        return super().create(name)

    def write(self, fd: int, data: memoryview | bytes, position: int) -> None:
        try:
            self._count()
        except (Crash, OSError):
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
    """Batches by the old segment that contains their offsets."""
    ends = [*bases[1:], 1 << 62]
    return [[b for b in batches if base <= b.base_offset < end] for base, end in zip(bases, ends, strict=True)]


def run_seed(seed: int, ending: Ending) -> tuple[int, int]:
    """End the cleaning of one log at each of its file operations; return the number of cleanings, and of operations."""
    draw = random.Random(seed)
    config = compacted_config(segment_bytes=draw.choice([250, 500, 1_000, 1 << 20]), index_interval_bytes=64)
    grown = compacted_config(segment_bytes=draw.choice([400, 2_000]), index_interval_bytes=64)
    # In memory if possible: a start syncs, and thousands of syncs take minutes on a disk.
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as root:
        source = f"{root}/source/t-0"
        log = make_log(source, draw, config).log
        bases = [segment.base_offset for segment in log.segments]
        log.flush()
        before = in_ranges(stored(source), bases)
        # The first cleaning is not ended.
        after, _ = clean_once(source, f"{root}/0/t-0", grown, 1 << 30, ending, draw)
        operations = at = 0
        ended = True
        while ended:
            at += 1
            left, ended = clean_once(source, f"{root}/{at}/t-0", grown, at, ending, draw)
            operations += at
            for number, batches in enumerate(in_ranges(left, bases)):
                found = in_ranges(after, bases)[number]
                assert batches in (before[number], found), f"segment {number} after operation {at}"
            shutil.rmtree(f"{root}/{at}")
        return at, operations


def clean_once(
    source: str, directory: str, config: LogConfig, at: int, ending: Ending, draw: random.Random
) -> tuple[list[ModelBatch], bool]:
    """Clean a copy of the log in `source`; return what a start finds, and whether operation `at` was reached."""
    shutil.copytree(source, directory, copy_function=shutil.copyfile)
    log = load(directory, config)
    made: list[EndingFiles] = []

    def make(path: str) -> DirectoryFiles:
        made.append(EndingFiles(path, at, ending, draw))
        return made[-1]

    cleaner, _ = make_cleaner(log, CleanerSettings(backoff_ms=1, io_buffer_bytes=256), make)
    with suppress(Crash):
        cleaner.tick(2_000_000, lambda topic, partition: log.log_end_offset)
        # The process continues: its state must agree with the files.
        if log.offline is None:
            for batch in stored(directory):
                assert log.read_slice(batch.base_offset) is not None
    for each in made:
        each.close()  # as the end of a process does
    again = load(directory, config)
    assert again.log_end_offset == log.log_end_offset
    names = [path.name for path in Path(directory).iterdir()]
    assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))], names
    left = stored(directory)
    for batch in left:
        assert again.read_slice(batch.base_offset) is not None
    return left, any(each.ended for each in made)


def load(directory: str, config: LogConfig) -> Log:
    context = LoadContext(OpenFiles(), LogTotals(), False, 0, 86_400_000)
    return load_log(directory, "t", 0, config, 0, 0, context)


def run_seeds(first: int, seeds: int, name: str) -> None:
    ends = operations = 0
    for seed in range(first, first + seeds):
        try:
            found = run_seed(seed, ENDINGS[name])
        except Exception as error:
            command = f"CLEANER_FIRST_SEED={seed} CLEANER_SEEDS=1 python -m pytest tests/sim/test_cleaner_crashes.py"
            error.add_note(f"repeat: {command} -k '{name}'")
            raise
        ends += found[0]
        operations += found[1]
    print(f"{seeds} seeds, {ends} ends, {operations} file operations")
    assert ends > 10 * seeds


@pytest.mark.parametrize("name", ENDINGS)
def test_an_interrupted_cleaning_leaves_the_old_or_the_new_segment(name: str) -> None:
    """If this fails, valid records are lost or duplicated, or the partition cannot be opened."""
    run_seeds(FIRST_SEED, SEEDS, name)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ENDINGS)
def test_many_interrupted_cleanings_leave_the_old_or_the_new_segment(name: str) -> None:
    """The same, for rarer logs."""
    run_seeds(FIRST_SEED, SOAK_SEEDS, name)
