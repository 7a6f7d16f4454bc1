"""Logs whose files are removed on a disk that works: they are offline, and the other logs of the disk are not."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_cy.core.uuid import LOST_DIRECTORY
from broker_cy.storage import flusher, log_flush, lost_files
from broker_cy.storage.checkpoints import TopicPartition
from broker_cy.storage.damage import FILE_NAME
from broker_cy.storage.errors import StorageError
from tests.broker_cy.storage.batches import SMALL, fill
from tests.broker_cy.storage.managing import DIRECTORY_ID, TOPIC_ID, HeldJobs, Manager, open_manager


class Node:
    """A broker with the logs `lost` and `good` in one data directory, in several segments each."""

    def __init__(self, path: Path, jobs: HeldJobs | None = None) -> None:
        self.path = path
        self.manager: Manager = open_manager(path, config=SMALL, jobs=jobs)
        self.lost, self.good = (self.manager.create("t", index, TOPIC_ID, SMALL, 0) for index in range(2))
        for log in (self.lost, self.good):
            fill(log, 100)
        self.placed: list[TopicPartition] = []
        self.manager.on_placed = lambda topic, index: self.placed.append((topic, index))

    def check_lost(self) -> None:
        """The log is offline, which is reported, and nothing else is."""
        assert (self.lost.offline is not None, self.good.offline) == (True, None)
        assert set(self.placed) == {("t", 0)}
        assert self.manager.place_of("t", 0) == LOST_DIRECTORY
        assert self.manager.place_of("t", 1) == DIRECTORY_ID
        assert self.manager.data_directories[0].failure is None
        fill(self.good, 100)

    def fail(self, path: str, code: int = errno.ENOENT) -> None:
        """An access to `path` fails."""
        error = StorageError("cannot read")
        error.__cause__ = OSError(code, os.strerror(code), path)
        self.manager.suspect(path, error)


def write_until_it_fails(node: Node) -> None:
    """As the data path does: it reports each failed write."""
    with pytest.raises(StorageError) as failed:
        fill(node.lost, 1_000)
    node.manager.suspect(node.lost.directory, failed.value)


def flush(node: Node) -> None:
    node.manager.flusher.start()


def note(node: Node) -> None:
    node.manager.flusher.note()


@pytest.mark.parametrize("use", [write_until_it_fails, flush, note])
def test_a_removed_directory_takes_one_log_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[Node], None]
) -> None:
    """If this fails, a broker leads a partition whose directory was removed: each write fails, or is in a file that no
    start finds, and no other replica takes over. Or it takes all partitions of a good disk out of service, as Kafka.
    """
    monkeypatch.setattr(flusher, "NOTE_LOG_BYTES", 1)
    node = Node(tmp_path)
    shutil.rmtree(node.lost.directory)
    use(node)
    node.check_lost()
    assert not os.path.exists(node.lost.directory)
    node.manager.stop()
    # The next start finds no log. A new one gets the records of the leader.
    again = open_manager(tmp_path, config=SMALL)
    assert (list(again.logs), again.offline) == ([("t", 1)], {})
    again.stop()


@pytest.mark.parametrize("removes_all", [True, False])
def test_records_in_a_removed_file_are_not_synced(tmp_path: Path, removes_all: bool) -> None:
    """If this fails, a broker acknowledges records as synced (flush.messages) that are in no file."""
    node = Node(tmp_path)
    if removes_all:
        shutil.rmtree(node.lost.directory)
    else:
        os.unlink(node.lost.active.path)
    synced = node.lost.synced_end_offset
    with pytest.raises(StorageError, match=r"cannot sync .*: it was removed") as failed:
        log_flush.complete_sync(node.lost, log_flush.begin_sync(node.lost).run())
    assert node.lost.synced_end_offset == synced
    node.manager.suspect(node.lost.directory, failed.value)
    node.check_lost()


def test_a_removed_segment_is_damage(tmp_path: Path) -> None:
    """If this fails, a broker leads a partition although it cannot send some of its records, or serves it after a start
    as if these had never existed.
    """
    node = Node(tmp_path)
    path = node.lost.segments[1].path
    os.unlink(path)
    node.fail(path)
    node.check_lost()
    assert node.lost.offline == f"{path} was removed, or cannot be used"
    assert os.path.exists(f"{node.lost.directory}/{FILE_NAME}")
    node.manager.stop()
    again = open_manager(tmp_path, config=SMALL)
    assert list(again.offline) == [("t", 0)]
    assert again.place_of("t", 0) == LOST_DIRECTORY
    again.stop()


def test_a_directory_without_permissions_takes_one_log_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a partition whose directory belongs to another user after a repair has a leader that fails each
    write. Tests may run as root, who has all permissions.
    """
    node = Node(tmp_path)
    right = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != node.lost.directory and right(path, mode))
    node.fail(node.lost.directory, errno.EACCES)
    node.check_lost()


def test_an_intact_log_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a read of a segment that was just deleted, or a log that just moved, takes a partition offline
    (KAFKA-15572, KAFKA-19571: in Kafka its whole disk).
    """
    jobs = HeldJobs()
    node = Node(tmp_path, jobs)
    deleted = node.lost.segments[0].path
    for code in (errno.ENOENT, errno.EACCES, errno.EIO, errno.ENOSPC):
        node.fail(deleted, code)
        node.fail(f"{tmp_path}/t-0.{'0' * 32}-delete", code)
        node.fail(f"{tmp_path}/__cluster_metadata-0", code)
    # Files get other names while the worker looks.
    monkeypatch.setattr(lost_files, "missing", lambda directory, paths: [*paths, directory])
    while jobs.held:
        jobs.held.pop()()
    node.fail(deleted)
    node.manager.delete_records_before(node.lost, 70)
    while jobs.held:
        jobs.held.pop(0)()
    assert not os.path.exists(deleted)
    assert (node.lost.offline, node.placed) == (None, [])
    # The partition is deleted while the worker looks.
    node.fail(node.lost.directory)
    node.manager.delete("t", 0)
    while jobs.held:
        jobs.held.pop(0)()
    assert node.placed == []


def test_one_worker_looks_for_the_files_of_a_log(tmp_path: Path) -> None:
    """If this fails, consumers of a removed file occupy the workers of the disk."""
    jobs = HeldJobs()
    node = Node(tmp_path, jobs)
    node.manager.failures.suspect = lambda path, error: None  # type: ignore[method-assign]
    jobs.held.clear()
    for _ in range(5):
        node.fail(node.lost.directory)
        node.fail(node.good.directory)
    assert len(jobs.held) == 2


def test_a_removed_data_directory_is_left_to_the_check_of_disks(tmp_path: Path) -> None:
    """If this fails, a disk that was unmounted has all its replicas reported as damaged, one by one."""
    jobs = HeldJobs()
    node = Node(tmp_path / "data", jobs)
    shutil.rmtree(tmp_path / "data")
    (tmp_path / "data").mkdir()
    node.manager.failures.suspect = lambda path, error: None  # type: ignore[method-assign]
    jobs.held.clear()
    node.fail(node.lost.directory)
    while jobs.held:
        jobs.held.pop(0)()
    assert (node.lost.offline, node.placed) == (None, [])
