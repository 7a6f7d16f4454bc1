"""A broker's storage under power cuts, kills and failing disks, in a seeded simulation: synced records survive, and no
wrong record is read. The rules are in docs/architecture-durability.md.

`POWER_SEEDS=5000 python -m pytest tests/sim/test_power_cut.py -k survives_power` runs more; a failing seed is printed
with the command that repeats it.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import re
import signal
import sys
import tempfile

import pytest

from broker_cy.storage import flusher, written_points
from tests.sim.defects import MISFITS, fail_unfound, note_found, seeds_of
from tests.sim.power_planted import PLANTED
from tests.sim.power_run import Run
from tests.support import needs
from tests.support.power import steady_files
from tests.support.tiers import by_tier

SEEDS = int(os.environ.get("POWER_SEEDS", by_tier("40", "400")))
SOAK_SEEDS = int(os.environ.get("POWER_SEEDS", "25000"))
FIRST_SEED = int(os.environ.get("POWER_FIRST_SEED", "0"))
# The seeds are divided into parts so that test workers can share them.
PARTS = min(4, SEEDS)
MEMORY = "/dev/shm"
NOTE_LOG_BYTES = 300
# Exit code of a process that found a planted defect.
FOUND = 3

SOAK_TIMEOUT_S = 2 * 3600
RARE = (pytest.mark.soak, pytest.mark.timeout(SOAK_TIMEOUT_S))

pytestmark = pytest.mark.usefixtures("no_log_lines", "steady")


def run_seeds(
    first: int,
    count: int,
    monkeypatch: pytest.MonkeyPatch,
    *,
    opens_late: bool = False,
    recreates: bool = False,
) -> None:
    # Logs are smaller than those for which the written point is noted otherwise.
    monkeypatch.setattr(flusher, "NOTE_LOG_BYTES", NOTE_LOG_BYTES)
    steps = syncs = failed = 0
    for seed in range(first, first + count):
        with tempfile.TemporaryDirectory(dir=MEMORY, prefix="power-") as root:
            run = Run(seed, root, opens_late=opens_late, recreates=recreates)
            # Each start of the machine has another boot id, which makes notes of the page cache invalid.
            monkeypatch.setattr(written_points, "boot_id", lambda run=run: b"boot-%d" % run.boot)
            try:
                run.run()
            except Exception as error:
                which = "opened_late" if opens_late else "created_again" if recreates else "survives_power"
                command = f"python -m pytest tests/sim/test_power_cut.py -k {which}"
                error.add_note(f"repeat: POWER_FIRST_SEED={seed} POWER_SEEDS=1 {command}")
                raise
        steps += run.steps
        syncs += run.disk.syncs
        failed += run.disk.faults.failed
    print(f"{count} seeds, {steps} steps, {syncs} syncs, {failed} failed operations")


@needs.memory
@pytest.mark.parametrize("part", range(PARTS))
def test_what_was_synced_survives_power_cuts(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a power cut loses records acknowledged under flush.messages, or a consumer reads records that no
    producer wrote.
    """
    first, end = (FIRST_SEED + SEEDS * at // PARTS for at in (part, part + 1))
    run_seeds(first, end - first, monkeypatch)


@needs.memory
@pytest.mark.parametrize("part", range(PARTS))
def test_logs_that_are_opened_late_survive_power_cuts(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, if logs are opened after the start: in any order, with process ends and power cuts in between."""
    first, end = (FIRST_SEED + SEEDS * at // PARTS for at in (part, part + 1))
    run_seeds(first, end - first, monkeypatch, opens_late=True)


@needs.memory
def test_topics_that_are_created_again_survive_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, notes about a deleted topic hide records of a new topic with its name."""
    run_seeds(FIRST_SEED, max(1, SEEDS // 4), monkeypatch, recreates=True)


@needs.memory
@pytest.mark.soak
@pytest.mark.timeout(SOAK_TIMEOUT_S)
@pytest.mark.parametrize("opens_late", [False, True])
def test_what_was_synced_survives_many_power_cuts(opens_late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, for rare power cuts."""
    run_seeds(FIRST_SEED, SOAK_SEEDS, monkeypatch, opens_late=opens_late)


@needs.memory
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=RARE if each.is_rare else ()) for name, each in PLANTED.items()]
)
def test_the_simulation_finds_planted_defects(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the simulation passes whatever storage does."""
    if PLANTED[name].may_crash:
        child = multiprocessing.get_context("spawn").Process(target=search_in_child, args=(name,))
        child.start()
        child.join()
        assert child.exitcode == FOUND or child.exitcode in (-signal.SIGSEGV, -signal.SIGABRT), child.exitcode
    else:
        search(name, monkeypatch)


@needs.memory
def test_a_seed_draws_the_same_in_every_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a defect that a seed finds in one process is not found in another one."""
    monkeypatch.setattr(written_points, "boot_id", lambda: b"boot")
    ends = []
    for pid in (7, 1234567):
        with monkeypatch.context() as patch, tempfile.TemporaryDirectory(dir=MEMORY, prefix="power-") as root:
            patch.setattr(os, "getpid", lambda pid=pid: pid)
            with steady_files():
                run = Run(15, root)
                run.run()
            ends.append((run.steps, run.disk.syncs, run.draw.random()))
    assert ends[0] == ends[1]


def search(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = PLANTED[name]
    planted.plant(monkeypatch)
    key = f"power: {name}"

    def failure_of(seed: int) -> Exception | None:
        try:
            run_seeds(seed, 1, monkeypatch, opens_late=planted.is_late, recreates=planted.recreates)
        except Exception as error:
            return error
        return None

    tried = ((seed, failure_of(seed)) for seed in seeds_of(key, planted.first, planted.seeds))
    seed, failure = next((each for each in tried if each[1] is not None), (0, None))
    if failure is None:
        fail_unfound(key, planted.first, planted.seeds)
    assert not isinstance(failure, MISFITS), f"{name!r} no longer fits the code: {failure!r}"
    assert re.search(r"plain|keyed|txn|metadata|bootstrap|batch", str(failure)), repr(failure)
    assert "POWER_FIRST_SEED=" in failure.__notes__[0]
    note_found(key, seed)
    print(f"{failure!r}"[:500], *failure.__notes__)


def search_in_child(name: str) -> None:
    """Exit with FOUND if a seed fails; the defect may end the process with a signal before."""
    logging.disable(logging.CRITICAL)
    with steady_files():
        search(name, pytest.MonkeyPatch())
    sys.exit(FOUND)
