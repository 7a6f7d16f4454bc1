"""Foreign bytes: mutants of frames, batches and files are read or refused, without leaks. `make test` runs
50,000 of them, `make test-all` a million.

Each target runs in separate processes, with a limit on memory. A failure prints the input; README.md describes how to
use it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from broker_cy.launch.processes import ProcessError
from tests.fuzz.driver import read_scratch
from tests.fuzz.targets import load, names
from tests.support.forking import run
from tests.support.tiers import by_tier

ROOT = Path(__file__).resolve().parents[2]
REGRESSIONS = Path(__file__).parent / "regressions"
# Other seeds find other defects; CI uses one seed, so that it fails because of a change and not by chance.
SEED = int(os.environ.get("BROKER_CY_FUZZ_SEED", "1"))
# The share of the million mutants; also shortens everything for slow builds.
SCALE = float(os.environ.get("BROKER_CY_FUZZ_SCALE", by_tier("0.05", "1")))
COUNT_MIN = 100
TIMEOUT_S = 280.0
SOAK_TIMEOUT_S = 4 * 3600.0
SOAK_FACTOR = 50
# A long target is split, so that the workers share it.
PART_ITERATIONS = 50_000
PART_ITERATIONS_OF = {"log_files": 1_250}


def parts() -> list[tuple[str, int, int]]:
    """(target, seed, iterations) of each process, the longest first."""
    found = []
    for name in names():
        total = max(int(load(name).iterations * SCALE), COUNT_MIN)
        part = PART_ITERATIONS_OF.get(name, PART_ITERATIONS)
        starts = range(0, total, part)
        found += [(name, SEED * 1000 + number, min(part, total - start)) for number, start in enumerate(starts)]
    return found


def drive(scratch: Path, *arguments: str, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    """Run the driver; fails the test if it dies, hangs or finds something."""
    mode, target, *rest = arguments
    argv = [sys.executable, "-m", "tests.fuzz.driver", mode, target]
    argv += [*rest, str(scratch)] if mode == "run" else [str(scratch), *rest]
    try:
        done = run(argv, scratch.parent, timeout_s, cwd=ROOT)
    except ProcessError:
        pytest.fail(f"{target} did not end within {timeout_s} s; the last input was {read_scratch(scratch).hex()}")
    if done.returncode != 0:
        last = read_scratch(scratch).hex() if scratch.exists() else "none"
        said = done.stderr.decode(errors="replace")[-8000:]
        pytest.fail(f"{target} ended with {done.returncode}; the last input was {last}\n{said}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if "finding" in result:
        finding = result["finding"]
        pytest.fail(f"{' '.join(arguments)}, {result['in']}: {finding['input']}\n{finding['error']}")
    return result


def check(result: dict[str, Any], count: int) -> None:
    """Check that all inputs ran, that some were accepted and some refused, and that nothing leaked."""
    assert result["count"] == count
    assert 0 < result["accepted"] < count, "mutants that all go one way test only the first check"
    assert "leaks" not in result, result["leaks"]


@pytest.mark.parametrize(("target", "seed", "count"), parts(), ids=lambda value: str(value))
def test_mutants(target: str, seed: int, count: int, tmp_path: Path) -> None:
    """If this fails, a client that can connect, or a bad disk, can stop the broker or exhaust its memory."""
    check(drive(tmp_path / "scratch", "run", target, str(seed), str(count)), count)


def test_an_unknown_target_is_refused_by_name() -> None:
    """If this fails, a mistyped target shows as a defect of the driver instead of the list of names."""
    with pytest.raises(KeyError, match=r"no target 'batches'; there are requests, messages, .*quorum_state"):
        load("batches")


def test_a_million() -> None:
    """If this fails, CI may run fewer inputs than stated."""
    assert sum(load(name).iterations for name in names()) >= 1_000_000


@pytest.mark.parametrize("target", names())
def test_what_once_failed(target: str, tmp_path: Path) -> None:
    """If this fails, a fixed defect has returned."""
    files = sorted(str(path) for path in (REGRESSIONS / target).glob("*.hex"))
    result = drive(tmp_path / "scratch", "replay", target, *files)
    assert result["count"] == len(files)


@pytest.mark.soak
@pytest.mark.timeout(SOAK_TIMEOUT_S + 60)
@pytest.mark.parametrize("target", names())
def test_many_mutants(target: str, tmp_path: Path) -> None:
    """Repeat the test with more inputs."""
    count = load(target).iterations * SOAK_FACTOR
    seed = str(SEED * 1000 + 999)
    check(drive(tmp_path / "scratch", "run", target, seed, str(count), timeout_s=SOAK_TIMEOUT_S), count)
