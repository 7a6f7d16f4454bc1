"""A cluster on lab hosts goes through faults of hosts, disks, clocks and networks, and the lab makes those faults."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from broker_cy.launch.processes import run
from tests.lab.faults import KINDS, draw
from tests.lab.hosts import UNSHARE
from tests.support import needs

# The limit in the soak, on a busy machine. Outside of the soak, a test is limited to five minutes.
ROUND_S = 70.0
TIMEOUT_S = 270.0


@pytest.fixture
def hosts() -> None:
    needs.require(needs.lab_network())


def lab(directory: Path, *arguments: str, timeout_s: float) -> str:
    """Run `python -m tests.lab`, and return its output."""
    command = [sys.executable, "-m", "tests.lab", "--directory", str(directory / "lab"), *arguments]
    done = run(command, timeout_s=timeout_s, check=False)
    out = done.stdout.decode()
    print(out)
    assert done.returncode == 0, f"{out}\n{done.stderr.decode()}"
    return out


@pytest.mark.full
@pytest.mark.serial
@pytest.mark.usefixtures("hosts")
@pytest.mark.parametrize("part", [1, 2])
def test_ten_rounds(tmp_path: Path, part: int) -> None:
    """If this fails, a fault of one host loses or repeats records, or stops clients permanently."""
    # Each part draws a seed, and has each kind at least once.
    out = lab(tmp_path, "--rounds", "10", "--length", "0.5", "2", timeout_s=TIMEOUT_S)
    assert set(re.findall(r"^(\w+) +\d+ +\d", out, re.MULTILINE)) == set(KINDS)


@pytest.mark.soak
@pytest.mark.timeout(15_000)
@pytest.mark.usefixtures("hosts")
def test_two_hundred_rounds(tmp_path: Path) -> None:
    """The same with more and longer faults, for rare interleavings."""
    lab(tmp_path, "--rounds", "200", timeout_s=200 * ROUND_S)


@pytest.mark.full
@pytest.mark.serial
@pytest.mark.usefixtures("hosts")
def test_a_planted_loss_is_found(tmp_path: Path) -> None:
    """If this fails, cuts have no effect, or the checker does not find lost records, and the rounds prove nothing."""
    out = lab(tmp_path, "--planted", timeout_s=TIMEOUT_S)
    assert re.search(r"found: [1-9]\d* lost writes", out)


@pytest.mark.full
@pytest.mark.usefixtures("hosts")
def test_the_hosts_fail_as_they_are_asked_to(tmp_path: Path) -> None:
    """If this fails, a fault of the lab has no effect, and the rounds with it prove nothing."""
    done = run([*UNSHARE, sys.executable, "-m", "tests.lab.probe", tmp_path], timeout_s=120)
    print(done.stdout.decode())
    assert done.stdout.decode().endswith("all faults act\n")


def test_rounds_are_repeated_by_their_seed() -> None:
    """If this fails, a finding cannot be repeated, or a run of some length misses a kind of fault."""
    for seed in range(50):
        faults = [draw(seed, number, KINDS) for number in range(21)]
        assert faults == [draw(seed, number, KINDS) for number in range(21)]
        assert Counter(each.kind for each in faults) == dict.fromkeys(KINDS, 3)
        assert {draw(seed, number, ["cut", "oneway"]).kind for number in range(2)} == {"cut", "oneway"}
    assert len({str(draw(seed, 0, KINDS)) for seed in range(50)}) > 20
