"""The measurements of several disks: their parts run with small sizes, and have every figure that has a goal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.drivers.base import DriverResult
from bench.studies import disk_parts, disks
from bench.studies.disk_parts import Disks, broker_on, copied_mb_per_s
from bench.targets.brokers import TargetError
from bench.wire import directory_requests, protocol
from tests.support import needs

SMALL = [
    "--recovery-gb", "0.05", "--partitions", "20", "--pairs", "1", "--deaths", "1", "--seconds", "4", "--rate", "200",
    "--move-gb", "0.05",
]  # fmt: skip


@pytest.mark.full
@needs.compiler
def test_every_part_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If this fails, the figures of several disks cannot be measured, or a goal is of a figure that none measures."""
    monkeypatch.setattr(disk_parts, "WARM_UP_S", 0.5)
    monkeypatch.setattr("sys.argv", ["disks", *SMALL, "--dirs", f"{tmp_path},{tmp_path}", "--json-file", "f.json"])
    monkeypatch.chdir(tmp_path)
    assert disks.main() == 0
    found = json.loads((tmp_path / "f.json").read_text())
    assert disks.GOALS.at_least.keys() | disks.GOALS.at_most.keys() <= found.keys()
    assert found["death_errors"] == [0.0]
    assert all(value > 0 for name, values in found.items() if name != "death_errors" for value in values)
    assert "reached: at most 1,000" in capsys.readouterr().out
    assert [each.name for each in tmp_path.iterdir()] == ["f.json"]


def test_replicas_are_moved_and_compared_with_a_copy(tmp_path: Path) -> None:
    """If this fails, the rate of moves is that of other replicas, or of none."""
    paths = Disks(tmp_path, tmp_path).of("data")
    with broker_on(paths) as broker:
        broker.create_topic(disk_parts.TOPIC, 2)
        for path in map(str, paths):
            disk_parts._move(broker, path)
            with protocol.Client(broker.address) as client:
                there = [each for each in directory_requests.replicas(client) if each.topic == disk_parts.TOPIC]
            assert [(each.directory, each.is_copy) for each in there] == [(path, False)] * 2
        assert copied_mb_per_s(paths[1], paths[0]) > 0
        assert not list(paths[0].glob("copy*"))
        with protocol.Client(broker.address) as client, pytest.raises(protocol.ProtocolError):
            directory_requests.move_replicas(client, str(tmp_path / "none"), disk_parts.TOPIC, [0])
    assert not any(path.exists() for path in paths)


def test_errors_of_producers_are_no_figures() -> None:
    """If this fails, a broker that refuses requests is fast."""
    with pytest.raises(TargetError, match="2 errors, the first: refused"):
        disk_parts.sound(DriverResult(errors=2, first_error="refused"))


@pytest.mark.parametrize("dirs", ["/a", "/a,/b,/c"])
def test_two_directories_are_expected(monkeypatch: pytest.MonkeyPatch, dirs: str) -> None:
    """If this fails, a figure of two disks is one of a single disk."""
    monkeypatch.setattr("sys.argv", ["disks", "--dirs", dirs])
    with pytest.raises(SystemExit) as ended:
        disks.main()
    assert ended.value.code == 2
