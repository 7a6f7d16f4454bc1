"""Data directories that fail, before the start or later: their content is not found elsewhere."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker_cy.storage import checkpoints, directory_failures, offset_checkpoints

from .batches import SMALL, fill, overwrite
from .managing import TOPIC_ID, HeldJobs, open_manager, with_cleaner


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


def test_a_start_without_a_directory(tmp_path: Path) -> None:
    """If this fails, a broker whose disk has failed does not start, or a disk that is back counts as intact although it
    was missing for a while.
    """
    paths = tmp_path / "a", tmp_path / "b"
    filled(*paths)
    (tmp_path / "b").rename(tmp_path / "away")
    manager = open_manager(*paths, config=SMALL)
    (failure,) = [each.failure for each in manager.data_directories if each.failure is not None]
    assert failure.startswith(f"data directory {tmp_path}/b does not exist: mount its disk")
    assert (list(manager.logs), manager.offline, manager.previous_broker_epoch) == ([("t", 0)], {}, -1)
    assert not (tmp_path / "b").exists()
    # The others stop in order.
    manager.stop()
    assert (tmp_path / "a/.kafka_cleanshutdown").exists()
    assert (tmp_path / "a" / directory_failures.NOTE_FILE).read_text() == f"{tmp_path}/b\n"
    (tmp_path / "away").rename(tmp_path / "b")
    manager = open_manager(*paths, config=SMALL)
    assert sorted(manager.logs) == [("t", 0), ("t", 1)]
    assert (manager.previous_broker_epoch, manager.clean) == (-1, {str(paths[0]): True, str(paths[1]): False})
    assert not (tmp_path / "a" / directory_failures.NOTE_FILE).exists()
    manager.crash()


@pytest.mark.parametrize("operation", ["scandir", "checkpoint", "unlink"])
def test_a_directory_that_fails_during_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """If this fails, a disk with unreadable sectors in its directory keeps the whole broker down."""
    paths = tmp_path / "a", tmp_path / "b"
    filled(*paths)
    (tmp_path / "b/.kafka_cleanshutdown").touch()
    failed: list[str] = []

    def broken(right: Any) -> Any:
        def call(path: Any, *arguments: Any, **named: Any) -> Any:
            if str(path).startswith(f"{tmp_path}/b") and failed:
                raise OSError(errno.EIO, "Input/output error", str(path))
            return right(path, *arguments, **named)

        return call

    if operation == "checkpoint":
        failed.append("b")
        monkeypatch.setattr(offset_checkpoints, "read_entries", broken(checkpoints.read_entries))
    manager = open_manager(*paths, config=SMALL, load=False)
    if operation != "checkpoint":
        failed.append("b")
        monkeypatch.setattr(os, operation, broken(getattr(os, operation)))
    reported: list[str] = []
    manager.on_directory_failed = lambda directory: reported.append(directory.path)
    manager.load(lambda _: SMALL, 0)
    # Before `load` the broker is not registered: it does not report the directory, but leaves it out.
    assert reported == ([] if operation == "checkpoint" else [str(paths[1])])
    assert list(manager.logs) == [("t", 0)]
    assert set(manager.offline) == ({("t", 1)} if operation == "unlink" else set())
    monkeypatch.undo()
    manager.stop()
    assert (paths[0] / ".kafka_cleanshutdown").exists()


def test_logs_that_were_not_open_when_the_disk_failed(tmp_path: Path) -> None:
    """If this fails, clients wait for a partition that a worker can no longer open, or the broker asks the dead disk
    for each of them.
    """
    paths = tmp_path / "a", tmp_path / "b"
    filled(*paths)
    manager = open_manager(*paths, config=SMALL, late=True)
    opened: list[Any] = []
    manager.on_opened = opened.append
    manager.failures.fail(manager.data_directories[1], OSError(errno.EIO, "Input/output error"))
    assert opened == [("t", 1)]
    assert manager.offline == {("t", 1): f"the data directory {paths[1]} failed: [Errno 5] Input/output error"}
    manager.opener.start()
    assert (list(manager.logs), dict(manager.unopened)) == ([("t", 0)], {})
    manager.crash()


def test_a_log_that_is_opened_while_the_disk_fails(tmp_path: Path) -> None:
    """If this fails, a log that a worker could still read from the page cache is served on a dead disk."""
    paths = tmp_path / "a", tmp_path / "b"
    filled(*paths)
    jobs = HeldJobs()
    manager = open_manager(*paths, config=SMALL, late=True, jobs=jobs)
    jobs.held.clear()
    opened: list[Any] = []
    manager.on_opened = opened.append
    manager.opener.ask(("t", 1))
    manager.failures.fail(manager.data_directories[1], OSError(errno.EIO, "Input/output error"))
    assert (opened, list(manager.unopened)) == ([], [("t", 0), ("t", 1)])
    while jobs.held:
        jobs.held.pop(0)()
    assert opened == [("t", 1)]
    assert manager.logs == {}
    assert manager.offline == {("t", 1): f"the data directory {paths[1]} failed while the log was opened"}
    manager.crash()


def test_the_other_disks_are_flushed(tmp_path: Path) -> None:
    """If this fails, the checkpoints on the dead disk cannot be written, so each flush of the other disks counts as
    failed, and their stop as unclean: the next start recovers all of their logs.
    """
    paths = tmp_path / "a", tmp_path / "b"
    manager = open_manager(*paths, config=SMALL)
    with_cleaner(manager)
    logs = [manager.create("t", index, TOPIC_ID, SMALL, 0) for index in (0, 1)]
    fill(logs[0], 10)
    manager.failures.fail(manager.data_directories[1], OSError(errno.EIO, "Input/output error"))
    shutil.rmtree(paths[1])
    manager.flusher.start()
    assert (manager.flusher.failed, logs[0].recovery_point, logs[1].offline is None) == (False, 20, False)
    manager.stop()
    assert (paths[0] / ".kafka_cleanshutdown").exists()
    assert not paths[1].exists()


def test_a_partition_of_a_dead_disk_is_deleted(tmp_path: Path) -> None:
    """If this fails, a topic whose disk has failed cannot be deleted and created again elsewhere (KAFKA-16234)."""
    paths = tmp_path / "a", tmp_path / "b"
    manager = open_manager(*paths, config=SMALL)
    log = manager.create("t", 0, TOPIC_ID, SMALL, 0)
    failed = next(each for each in manager.data_directories if each.path == os.path.dirname(log.directory))
    manager.failures.fail(failed, OSError(errno.EIO, "Input/output error"))
    manager.delete("t", 0)
    assert os.path.isdir(log.directory), "nothing is renamed there"
    again = manager.create("t", 0, UUID(int=78), SMALL, 0)
    assert os.path.dirname(again.directory) != failed.path
    manager.crash()
    # The disk is back.
    topics = {("t", 0): UUID(int=78)}
    manager = open_manager(*paths, load=False)
    manager.load(lambda _: SMALL, 0, lambda *key: topics.get(key))
    assert manager.logs["t", 0].directory == again.directory
    assert next(each.name for each in Path(failed.path).glob("t-*")).endswith("-stray")
    manager.crash()
