"""Data directories that fail: their content is not found elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker_cy.storage.data_directory import DataDirectoryError

from .batches import SMALL, fill, overwrite
from .managing import TOPIC_ID, open_manager


def filled(*paths: Path) -> list[str]:
    """The directories of partitions 0 and 1, each in another one of `paths`."""
    manager = open_manager(*paths, config=SMALL)
    for partition in (0, 1):
        fill(manager.create("t", partition, TOPIC_ID, SMALL, 0), 150)
    found = [str(manager.logs["t", partition].directory) for partition in (0, 1)]
    assert {os.path.dirname(path) for path in found} == set(map(str, paths))
    manager.crash()
    return found


def test_a_partition_stays_in_its_directory(tmp_path: Path) -> None:
    """If this fails, a partition that cannot be read is made again, empty, in another directory: its replica may lead
    without any record, and the operator has it twice when the disk is back (KAFKA-16234).
    """
    paths = tmp_path / "a", tmp_path / "b"
    for directory in filled(*paths):
        segments = sorted(Path(directory).glob("*.log"))
        overwrite(str(segments[1]), bytes(200), 100)
    manager = open_manager(*paths, config=SMALL)
    assert set(manager.offline) == {("t", 0), ("t", 1)}
    for partition in (0, 1):
        with pytest.raises(ValueError, match="already exists"):
            manager.create("t", partition, TOPIC_ID, SMALL, 0)
    manager.crash()
    assert [sorted(each.name for each in path.glob("t-*")) for path in paths] == [["t-0"], ["t-1"]]


def test_a_start_needs_all_directories(tmp_path: Path) -> None:
    """If this fails, a broker starts without a disk that has failed, and makes its partitions on another one."""
    paths = tmp_path / "a", tmp_path / "b"
    filled(*paths)
    (tmp_path / "b").rename(tmp_path / "away")
    (tmp_path / "b").write_text("not a directory")
    with pytest.raises(DataDirectoryError, match=r"data directory .*/b cannot be written"):
        open_manager(*paths, config=SMALL)
    assert [each.name for each in (tmp_path / "a").glob("t-*")] == ["t-0"]
