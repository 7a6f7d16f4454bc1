"""Directories of tasks: their locks, and their deletion."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker_streams.kernel.errors import StreamsError
from broker_streams.state.directory import StateDirectory


def test_two_instances_do_not_share_a_file(tmp_path: Path) -> None:
    """If this fails, two instances on one host write the same file, or one waits for the other."""
    one, other = StateDirectory(tmp_path, "app"), StateDirectory(tmp_path, "app")
    first, second = one.lock("0_1"), other.lock("0_1")
    assert first.path == tmp_path / "app" / "0_1"
    assert second.path == tmp_path / "app" / "0_1~2"
    first.release()
    assert other.lock("0_1").path == first.path


def test_state_of_tasks_that_went_away_is_deleted(tmp_path: Path) -> None:
    """If this fails, state of tasks fills the disk for ever, or state that is in use is deleted."""
    directory = StateDirectory(tmp_path, "app")
    for name, age_s in (("0_0", 100), ("0_1", 100), ("0_2", 10)):
        locked = directory.lock(name)
        (locked.path / "data.mdb").write_bytes(b"x")
        os.utime(locked.path, (1_000_000 - age_s, 1_000_000 - age_s))
        if name != "0_1":
            locked.release()
    assert directory.clean(1_000_000_000, 60_000) == ["0_0"]
    assert sorted(path.name for path in directory.path.iterdir()) == ["0_1", "0_2"]
    assert StateDirectory(tmp_path, "none").clean(1_000_000_000, 60_000) == []


def test_a_deleted_directory_is_locked_again(tmp_path: Path) -> None:
    """If this fails, a task has the lock of a directory that is gone."""
    directory = StateDirectory(tmp_path, "app")
    directory.lock("0_0").delete()
    found = directory.lock("0_0")
    assert (found.path / ".lock").exists()


def test_a_state_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """If this fails, the user does not see which setting is wrong."""
    (tmp_path / "app").write_text("a file")
    with pytest.raises(StreamsError, match=r"state\.dir: .*/app/0_0 cannot be used: "):
        StateDirectory(tmp_path, "app").lock("0_0")
