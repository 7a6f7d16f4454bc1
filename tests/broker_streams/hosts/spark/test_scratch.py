"""Directories that a killed driver leaves."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from broker_streams.hosts.spark.scratch import LOCK, PREFIX, Scratch, delete_left

HOLDING = """
import sys
from pathlib import Path
from broker_streams.hosts.spark.scratch import Scratch

made = Scratch(Path(sys.argv[1]))
(made.path / "offsets").write_text("1")
print(made.path, flush=True)
sys.stdin.read()
"""


def test_directories_of_dead_drivers_are_deleted(tmp_path: Path) -> None:
    """If this fails, drivers that are killed fill the memory of /dev/shm, or a driver deletes files of a live one."""
    own = Scratch(tmp_path)
    command = [sys.executable, "-c", HOLDING, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = Path(other.stdout.readline().strip())
        assert delete_left(tmp_path) == []
        other.send_signal(signal.SIGKILL)
    assert (theirs / "offsets").exists()
    assert delete_left(tmp_path) == [theirs]
    assert sorted(tmp_path.iterdir()) == [own.path]
    own.close()
    own.close()
    assert not own.path.exists()


def test_what_is_not_a_drivers_is_kept(tmp_path: Path) -> None:
    """If this fails, a driver deletes files that others have given a similar name."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / LOCK).touch()
    place = tmp_path / "place"
    place.mkdir()
    (place / f"{PREFIX}link").symlink_to(outside)
    (place / f"{PREFIX}file").touch()
    # One that another driver is about to lock.
    (place / f"{PREFIX}new").mkdir()
    assert delete_left(place) == []
    assert (outside / LOCK).exists()
    assert len(list(place.iterdir())) == 3


def test_a_directory_that_was_taken_for_a_left_one_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a driver works in a directory that another one has deleted."""
    right, deleted = fcntl.flock, []

    def flock(lock: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", right)
        deleted.extend(delete_left(tmp_path))
        right(lock, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    made = Scratch(tmp_path)
    assert len(deleted) == 1
    assert list(tmp_path.iterdir()) == [made.path]
    made.close()
