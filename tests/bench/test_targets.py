"""Targets that do not start are reported soon, and nothing is left behind."""

import sys
from pathlib import Path

import pytest

from bench import targets
from bench.launch.nodes import Node
from bench.targets import Spawned, TargetError


class Odd(Node):
    """A program that is not a broker."""

    name = "odd"
    program = ""

    def command(self) -> list[str]:
        return [sys.executable, "-c", self.program]


class OddTarget(Spawned):
    name = "odd"

    def __init__(self, directory: Path) -> None:
        super().__init__(Odd(directory / "outputs", data_dir=directory / "data"))


@pytest.mark.parametrize(
    ("program", "reported"),
    [
        ("import time; time.sleep(60)", r"odd was not ready within 0.5 s: no output"),
        ("import time; print('at 127.0.0.1:1', flush=True); time.sleep(60)", "odd did not answer within 0.5 s"),
        (
            "import sys; print('no such disk', file=sys.stderr)",
            "odd ended with exit code 0 before it was ready: no such disk",
        ),
    ],
)
def test_a_target_that_does_not_come_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, reported: str
) -> None:
    """A broker that never answers is reported with its last output; its process is ended."""
    monkeypatch.setattr(Odd, "program", program)
    # A process that ends does so at once: the short timeout is for the others.
    monkeypatch.setattr(targets, "START_TIMEOUT_S", 0.5 if "within" in reported else 30.0)
    target = OddTarget(tmp_path)
    with pytest.raises(TargetError, match=reported), target.running():
        pytest.fail("it never answered")
    assert not target.alive()
    assert not target.directory.exists()


def test_a_log_that_is_recovered_has_more_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """30 s are enough for a start; after kill -9 with a large log it may take minutes, which is the measured figure."""
    monkeypatch.setattr(targets, "RECOVERY_TIMEOUT_S", 0.7)
    monkeypatch.setattr(Odd, "program", "import time; time.sleep(60)")
    target = OddTarget(tmp_path)
    (target.directory / "t-0").mkdir(parents=True)
    (target.directory / "t-0" / "00000000000000000000.log").touch()
    with pytest.raises(TargetError, match=r"within 0\.7 s"):
        target.start()
