"""The modes that start and stop a target for each run: their figures, and the options they refuse."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench import cli
from bench.modes import lifecycle
from bench.targets.brokers import Target
from tests.bench import planned

PRODUCING = """\
[records]
size = "1 KB"
[producers]
batch = "64 KiB"
"""


def measure(directory: Path, *arguments: str) -> list[dict[str, Any]]:
    """Run a mode on our broker; returns the runs of its document."""
    out = directory / "out.json"
    assert cli.main([*arguments, "-t", "ours", "--json-file", str(out), "--dir", str(directory / "data")]) == 0
    runs: list[dict[str, Any]] = json.loads(out.read_text())["runs"]
    return runs


@pytest.fixture(params=["planned", pytest.param("real", marks=pytest.mark.full)])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory, for both kinds of targets."""
    if request.param == "planned":
        planned.install(monkeypatch)
    return tmp_path


def test_start_is_measured_each_time(place: Path) -> None:
    """A start that is measured once shows nothing about its spread."""
    runs = measure(place, "start", "--pairs", "2")
    assert [run["pair"] for run in runs] == [0, 1]
    for run in runs:
        assert 0 < run["figures"]["start_cpu_s"] < run["figures"]["start_s"] * 4
        assert run["figures"]["start_s"] > 0.05


@pytest.mark.full
def test_idle_connections_cost_memory(tmp_path: Path) -> None:
    """The broker's memory without connections does not count as memory of connections."""
    (run,) = measure(tmp_path, "idle", "--connections", "300")
    assert run["figures"]["connections"] == 300
    assert 0 <= run["figures"]["idle_connection_kb"] < 100


def test_a_log_goes_through_and_survives_kill_9(place: Path) -> None:
    """Memory before and after, then a start after which nothing is missing."""
    (place / "w.toml").write_text(PRODUCING)
    (run,) = measure(place, "through", "-w", str(place / "w.toml"), "--size", "30 MB")
    found = run["figures"]
    assert 10 < found["idle_mb"] < found["through_mb"] < 500
    assert 0 < found["recovery_s"] < found["first_write_s"]


def test_a_log_that_lost_its_end_fails_the_run(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that loses acknowledged records starts fast, and must not have a figure."""
    for kind in (Target, planned.PlannedTarget):
        whole = kind.probe
        monkeypatch.setattr(kind, "probe", lambda *args, whole=whole: dict.fromkeys(whole(*args), 0))
    (place / "w.toml").write_text(PRODUCING)
    argv = ["through", "-w", str(place / "w.toml"), "-t", "ours", "--size", "20 MB", "--dir", str(place / "data")]
    out = place / "out.json"
    assert cli.main([*argv, "--json-file", str(out)]) == 1
    (run,) = json.loads(out.read_text())["runs"]
    assert "acknowledged records are missing" in run["failed"]
    assert not run["figures"]


@pytest.mark.full
def test_committed_offsets_are_known_again(tmp_path: Path) -> None:
    """Every group gets the offsets that it committed, and the time is measured."""
    (run,) = measure(tmp_path, "offsets", "--count", "2000")
    assert run["figures"]["committed_offsets"] == 2000
    assert run["figures"]["offsets_loaded_s"] >= 0


@pytest.mark.parametrize("mode", ["start", "idle", "offsets"])
def test_a_target_that_runs_already_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: str) -> None:
    """The mode would have to stop it."""
    assert cli.main([mode, "-t", "127.0.0.1:1", "--dir", str(tmp_path)]) == 2
    assert "allowed: ours, kafka" in capsys.readouterr().err


def test_a_disk_without_room_is_said_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If this fails, a full disk ends the run after an hour."""
    (tmp_path / "w.toml").write_text(PRODUCING)
    argv = ["through", "-w", str(tmp_path / "w.toml"), "-t", "ours", "--size", "16000 GB", "--dir", str(tmp_path)]
    assert cli.main(argv) == 1
    assert "must be free" in capsys.readouterr().err
    assert lifecycle.THROUGH_BYTES == 10_000_000_000
