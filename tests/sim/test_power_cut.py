"""Logs, their cleaner and group commit through power cuts, in a seeded simulation: what was synced is there, and
nothing wrong is read. The rules are in docs/architecture.md, "What a power loss may take".

`POWER_SEEDS=5000 python -m pytest tests/sim/test_power_cut.py` runs more; a failing seed is printed with the command
that replays it.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker_cy.storage import flusher, log_loader, written_points
from broker_cy.storage.cleaner.files import DirectoryFiles
from broker_cy.storage.cleaner.job import Cleaning
from broker_cy.storage.sync_job import SyncJob
from tests.sim.power_run import Run

SEEDS = int(os.environ.get("POWER_SEEDS", "2400"))
SOAK_SEEDS = int(os.environ.get("POWER_SEEDS", "50000"))
FIRST_SEED = int(os.environ.get("POWER_FIRST_SEED", "0"))
# So that workers share them.
PARTS = min(4, SEEDS)
MEMORY = "/dev/shm"


@pytest.fixture(autouse=True)
def _no_log_lines() -> Iterator[None]:
    """Each start tells what it mends: that would be most of the time and of the output."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def run_seeds(first: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = syncs = 0
    for seed in range(first, first + count):
        with tempfile.TemporaryDirectory(dir=MEMORY, prefix="power-") as root:
            run = Run(seed, root)
            # Another start of the machine has another boot id: notes of the page cache are void.
            monkeypatch.setattr(written_points, "boot_id", lambda run=run: b"boot-%d" % run.boot)
            try:
                run.run()
            except Exception as error:
                command = "python -m pytest tests/sim/test_power_cut.py -k survives_power"
                error.add_note(f"replay: POWER_FIRST_SEED={seed} POWER_SEEDS=1 {command}")
                raise
        steps += run.steps
        syncs += run.disk.syncs
    print(f"{count} seeds, {steps} steps, {syncs} syncs")


needs_memory = pytest.mark.skipif(not os.path.isdir(MEMORY), reason="no directory in memory: every sync would be real")


@needs_memory
@pytest.mark.parametrize("part", range(PARTS))
def test_what_was_synced_survives_power_cuts(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records acknowledged under flush.messages are gone after a power cut, or a consumer reads what nobody wrote."""
    first, end = (FIRST_SEED + SEEDS * at // PARTS for at in (part, part + 1))
    run_seeds(first, end - first, monkeypatch)


@needs_memory
@pytest.mark.soak
def test_what_was_synced_survives_many_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, for the rare ones."""
    run_seeds(FIRST_SEED, SOAK_SEEDS, monkeypatch)


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], Any]] = {
    "group commit syncs nothing": lambda patch: patch.setattr(SyncJob, "run", lambda job: job),
    "a start serves what a killed process did not sync": lambda patch: patch.setattr(
        flusher.Flusher, "sync_loaded", lambda self, logs: None
    ),
    "cleaned segments are not synced": lambda patch: patch.setattr(DirectoryFiles, "sync", lambda self, fd: None),
    "the cleaner drops records for others that are not on the disk": lambda patch: patch.setattr(
        Cleaning, "_sync_sources", lambda self: None
    ),
    "names of cleaned segments are not synced": lambda patch: patch.setattr(
        DirectoryFiles, "sync_directory", lambda self: None
    ),
    "notes of the page cache outlive it": lambda patch: patch.setattr(
        Run, "boot", property(lambda self: 1, lambda self, number: None), raising=False
    ),
    "segments behind damage stay": lambda patch: patch.setattr(log_loader, "_remove_for_good", lambda segments: None),
}


@needs_memory
@pytest.mark.parametrize("name", PLANTED)
def test_the_simulation_finds_what_is_left_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation passes whatever storage does."""
    PLANTED[name](monkeypatch)
    with pytest.raises(AssertionError, match=r"t\d") as found:
        run_seeds(0, 1000, monkeypatch)
    assert "POWER_FIRST_SEED=" in found.value.__notes__[0]
