"""A master, and workers on hosts of a lab: each has its own address and systemd, and can lose its power."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from loadgen.command import GENERATOR_LIMIT
from loadgen.report import result as results
from loadgen.report.result import Result
from tests.loadgen.run.kit import ENDS_S, ROOT, producers
from tests.support.lab import CONTROL, Lab, address, made_lab
from tests.support.wait import until

pytestmark = pytest.mark.soak

BROKER, WORKERS = "n1", ("n2", "n3")
BOOTSTRAP = f"{address(BROKER)}:9092"
SECONDS = 12


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with made_lab(tmp_path_factory.mktemp("lab"), 3, "loadgen") as made:
        command = f"venv/bin/broker-cy start --data-dir data --listener {BOOTSTRAP}"
        broker = made.start(BROKER, "broker", command)
        try:
            until(lambda: "ready" in broker.stdout() + broker.stderr(), "the broker", ENDS_S)
            yield made
        finally:
            broker.kill()


class _Run:
    """A master on the control node, and a worker on each of the hosts."""

    def __init__(self, lab: Lab, directory: Path, scenario: Path) -> None:
        self._json = directory / "result.json"
        options = ["--bootstrap", BOOTSTRAP, "--workers", "2", "--listen", f"{CONTROL}:5557", "--timeout", "5s"]
        words = [sys.executable, "-m", "loadgen", "master", *options, "--scenario", str(scenario)]
        self.master = lab.control("master", [*words, "--json-file", str(self._json)], PYTHONPATH=str(ROOT))
        self.workers = {
            host: lab.start(host, host, f"venv/bin/broker-load worker --master {CONTROL}") for host in WORKERS
        }
        until(lambda: "Produce" in self.master.stderr(), "the load", ENDS_S)

    def end(self) -> Result:
        self.master.wait(ENDS_S)
        assert self._json.exists(), self.master.stderr()
        return results.read(self._json)


@contextmanager
def running(lab: Lab, directory: Path, topic: str) -> Iterator[_Run]:
    made = _Run(lab, directory, producers(directory, topic, seconds=SECONDS))
    with ExitStack() as stack:
        for each in (made.master, *made.workers.values()):
            stack.callback(each.kill)
        yield made


def test_the_load_comes_from_two_hosts(lab: Lab, tmp_path: Path) -> None:
    """If this fails, load cannot come from more than one machine."""
    with running(lab, tmp_path, "two-hosts") as run:
        found = run.end()
        assert found.exit_code == 0, found.findings
        assert sorted(each.host for each in found.workers) == list(WORKERS)
        assert found.verification is not None
        # 12.5 s of 1,000/s.
        assert found.verification.total("acknowledged") == 12_500
        assert all(each.wait(ENDS_S) == 0 for each in run.workers.values())


def test_a_host_that_hangs_is_charged(lab: Lab, tmp_path: Path) -> None:
    """If this fails, a broker whose machine hangs for a second looks as if it had answered all the time."""
    with running(lab, tmp_path, "hung") as run:
        lab.do("freeze", BROKER)
        thaw = threading.Timer(1.0, lab.do, ["thaw", BROKER])
        thaw.start()
        thaw.join()
        latency = run.end().operations["Produce"].latency
    assert latency is not None
    assert latency.max_ms >= 950


@pytest.mark.parametrize(("fault", "mend"), [("unplug", "plug"), ("kill", "start")])
def test_a_host_that_is_lost_is_reported(lab: Lab, tmp_path: Path, fault: str, mend: str) -> None:
    """If this fails, the figures silently lack the part of a machine that lost power or network."""
    with running(lab, tmp_path, f"lost-{fault}") as run:
        lab.do(fault, WORKERS[0])
        found = run.end()
        lab.do(mend, WORKERS[0])
    assert found.exit_code == GENERATOR_LIMIT
    (lost,) = (each for each in found.workers if each.lost is not None)
    assert lost.host == WORKERS[0]
    assert 0.2 < lost.missing_share <= 0.5
    assert any("its records were not checked" in each for each in found.notes)
    assert found.verification is not None
    assert found.verification.is_good
