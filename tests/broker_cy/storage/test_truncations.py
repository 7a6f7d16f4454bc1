"""Checkpoints of truncated logs: one job of a worker for all of them, before anything is appended."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker_cy.storage import offset_checkpoints
from broker_cy.storage.checkpoints import RECOVERY_POINTS, read_entries, write_offsets
from broker_cy.storage.errors import StorageError
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from tests.broker_cy.storage.batches import fill
from tests.broker_cy.storage.managing import TOPIC_ID, HeldJobs, Manager, open_manager

COUNT = 50


def filled(manager: Manager, count: int = COUNT) -> list[Log]:
    logs = [manager.create("t", index, TOPIC_ID, LogConfig(), 0) for index in range(count)]
    for log in logs:
        fill(log, 20)
    return logs


def noting(settled: list[int], log: Log) -> Callable[[], None]:
    return lambda: settled.append(log.partition)


def test_the_truncations_of_a_turn_share_one_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a broker with a thousand partitions that diverge after a failover is blocked for longer than its
    session, is fenced, and truncates again.
    """
    jobs = HeldJobs()
    manager = open_manager(tmp_path, jobs=jobs)
    logs = filled(manager)
    manager.flusher.start()
    while jobs.held:
        jobs.held.pop(0)()
    path = str(tmp_path / RECOVERY_POINTS)
    assert set(read_entries(path).offsets.values()) == {40}
    written: list[str] = []

    def write(path: str, *more: Any) -> None:
        written.append(path)
        write_offsets(path, *more)

    monkeypatch.setattr(offset_checkpoints, "write_offsets", write)
    settled: list[int] = []
    for log in logs[:-1]:
        assert manager.truncate_to(log, 10, 0, noting(settled, log))
    manager.restart_at(logs[-1], 90, 0, noting(settled, logs[-1]))
    jobs.run_due()
    assert not written, "a checkpoint was written on the loop"
    assert all(log in manager.truncations for log in logs)
    # The other one removes the files of the log that begins again.
    assert len(jobs.held) == 2
    jobs.held.pop()()
    # A log that is truncated while the job runs is in the next one.
    later = manager.create("u", 0, TOPIC_ID, LogConfig(), 0)
    fill(later, 20)
    assert manager.truncate_to(later, 10, 0, noting(settled, later))
    assert not settled
    jobs.held.pop()()
    assert settled == list(range(COUNT))
    assert len(set(written)) == len(written) <= 2, "one write of each file"
    assert sorted(set(read_entries(path).offsets.values())) == [10, 90]
    assert later in manager.truncations
    jobs.run_due()
    jobs.held.pop()()
    assert later not in manager.truncations
    assert not jobs.held
    manager.crash()


def test_a_dead_disk_holds_only_its_own_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, one disk that rejects checkpoints stops the replication of partitions on all others, or a follower
    continues to append although a start would not check it.
    """
    jobs = HeldJobs()
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.mkdir()
    manager = open_manager(*paths, jobs=jobs)
    logs = filled(manager, 2)
    assert [log.directory for log in logs] == [f"{paths[0]}/t-0", f"{paths[1]}/t-1"]
    is_dead = True

    def write(path: str, *more: Any) -> None:
        if is_dead and path.startswith(f"{paths[0]}/"):
            raise OSError(5, "Input/output error")
        write_offsets(path, *more)

    monkeypatch.setattr(offset_checkpoints, "write_offsets", write)
    settled: list[int] = []
    for log in logs:
        manager.truncate_to(log, 10, 0, noting(settled, log))
    for _ in range(2):
        jobs.run_due()
        jobs.held.pop()()
        assert settled == [1]
    assert logs[0] in manager.truncations
    is_dead = False
    jobs.run_due()
    jobs.held.pop()()
    assert settled == [1, 0]
    manager.crash()


def test_a_worker_removes_the_files_of_dropped_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a follower that was away for long blocks its broker until the file system has freed the records
    that it drops: 0.1 s for each gigabyte.
    """
    jobs = HeldJobs()
    manager = open_manager(tmp_path, jobs=jobs)
    cut, begun_again = (manager.create("t", index, TOPIC_ID, LogConfig(), 0) for index in range(2))
    for log in (cut, begun_again):
        for _ in range(3):
            fill(log, 4)
            log.begin_segment(0)
    records = {str(path) for path in tmp_path.glob("t-*/*.log")}
    assert len(records) == 8
    unlinked: list[str] = []
    unlink = os.unlink

    def noted(path: str) -> None:
        unlinked.append(path)
        unlink(path)

    monkeypatch.setattr(os, "unlink", noted)
    manager.truncate_to(cut, 2, 0, lambda: None)
    manager.restart_at(begun_again, 90, 0, lambda: None)
    assert not [path for path in unlinked if ".log" in path]
    kept = {str(path) for path in tmp_path.glob("t-*/*.log")}
    assert kept == {f"{cut.directory}/{0:020d}.log", f"{begun_again.directory}/{90:020d}.log"}
    jobs.run_due()
    while jobs.held:
        jobs.held.pop(0)()
    assert {path.removesuffix(".deleted") for path in unlinked if ".log" in path} == records - kept
    assert not list(tmp_path.glob("t-*/*.deleted"))
    manager.crash()


def test_an_index_that_cannot_be_renamed_takes_the_log_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the next segment at that offset has the aborted transactions of one that was cut off."""
    manager = open_manager(tmp_path)
    log = manager.create("t", 0, TOPIC_ID, LogConfig(), 0)
    for _ in range(2):
        fill(log, 4)
        log.begin_segment(0)
    rename = os.rename

    def refused(old: str, new: str) -> None:
        if old.endswith(".timeindex"):
            raise OSError(5, "Input/output error", old)
        rename(old, new)

    monkeypatch.setattr(os, "rename", refused)
    with pytest.raises(StorageError, match="Input/output error"):
        manager.restart_at(log, 90, 0, lambda: None)
    assert log.offline is not None
    manager.crash()


def test_a_start_serves_the_rest_of_a_log_that_could_not_begin_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a follower whose leader has deleted everything stays offline for good after one failed rename: its
    start takes the segments that are gone for lost records.
    """
    manager = open_manager(tmp_path)
    log = manager.create("t", 0, TOPIC_ID, LogConfig(), 0)
    for _ in range(2):
        fill(log, 4)
        log.begin_segment(0)
    fill(log, 4)
    rename = os.rename

    def refused(old: str, new: str) -> None:
        if old.endswith(f"{8:020d}.log"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), old)
        rename(old, new)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", refused)
        with pytest.raises(StorageError, match="No space left"):
            manager.restart_at(log, 90, 0, lambda: None)
    assert log.offline is not None
    manager.crash()
    again = open_manager(tmp_path)
    found = again.get("t", 0)
    assert found is not None
    assert found.offline is None
    assert 8 <= found.log_end_offset <= 16
    again.crash()


def test_a_deleted_log_waits_for_nothing(tmp_path: Path) -> None:
    """If this fails, deleted partitions stay in memory."""
    jobs = HeldJobs()
    manager = open_manager(tmp_path, jobs=jobs)
    (log,) = filled(manager, 1)
    settled: list[int] = []
    manager.truncate_to(log, 10, 0, noting(settled, log))
    manager.delete("t", 0)
    jobs.run_due()
    while jobs.held:
        jobs.held.pop()()
    assert settled == [0]
    assert log not in manager.truncations
    assert not manager.truncate_to(manager.create("t", 0, TOPIC_ID, LogConfig(), 0), 5, 0, lambda: None)
    manager.crash()
