"""The recovery of logs after a power loss, in threads for each data directory."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker_cy.network.seams import ThreadWorkers
from broker_cy.storage.checkpoints import TopicPartition
from broker_cy.storage.data_directory import DataDirectory
from broker_cy.storage.jobs import InlineJobs, RunAll, run_inline
from broker_cy.storage.log_manager import LogManager
from broker_cy.storage.open_directories import open_directories
from broker_cy.storage.segment import Segment
from broker_cy.storage.segment_recovery import SegmentRecovery
from broker_cy.storage.settings import StorageSettings
from broker_cy.storage.written_points import WRITTEN_POINTS

from .batches import SMALL, contents, fill, overwrite
from .managing import DIRECTORY_ID, TOPIC_ID, open_manager

THREADS = 3
WAIT_S = 20.0


def test_each_disk_has_its_threads() -> None:
    """If this fails, disks wait for each other after a power loss, or one disk gets the requests of many threads."""
    running = {"a": 0, "b": 0}
    most = dict(running)
    lock, everyone = threading.Lock(), threading.Barrier(2 * THREADS)

    def job(group: str, number: int) -> Callable[[], str]:
        def run() -> str:
            with lock:
                running[group] += 1
                most[group] = max(most[group], running[group])
            if number < THREADS:
                everyone.wait(WAIT_S)  # which passes only if all of them run at the same time
            with lock:
                running[group] -= 1
            return f"{group}{number}"

        return run

    jobs = [(group, job(group, number)) for number in range(2 * THREADS) for group in ("a", "b")]
    found = list(ThreadWorkers().run_all(jobs, THREADS))
    assert found == [f"{group}{number}" for number in range(2 * THREADS) for group in ("a", "b")]
    assert most == {"a": THREADS, "b": THREADS}


def test_errors_are_results() -> None:
    """If this fails, one damaged log ends the start, or is taken for another one."""

    def fail() -> int:
        raise ValueError("damaged")

    for run_all in (ThreadWorkers().run_all, run_inline):
        first, error, last = run_all([("a", lambda: 1), ("a", fail), ("b", lambda: 3)], 2)
        assert (first, str(error), last) == (1, "damaged", 3)
    assert threading.active_count() == len(threading.enumerate())


def directories_of(paths: list[Path]) -> list[DataDirectory]:
    return open_directories([str(path) for path in paths], 1, lambda: "", lambda: DIRECTORY_ID)


@pytest.mark.parametrize("run_all", [run_inline, ThreadWorkers().run_all])
def test_all_logs_are_recovered(tmp_path: Path, run_all: RunAll) -> None:
    """If this fails, a start after a power loss loses records, or serves a damaged log, of one of several disks."""
    paths = [tmp_path / "a", tmp_path / "b"]
    manager = open_manager(*paths, config=SMALL)
    expected: dict[TopicPartition, bytes] = {}
    for index in range(12):
        log = manager.create("t", index, TOPIC_ID, SMALL, 0)
        fill(log, 150)
        expected["t", index] = contents(log)
    damaged = manager.logs["t", 5].directory
    manager.crash()
    for path in paths:
        (path / WRITTEN_POINTS).unlink()
    segments = sorted(Path(damaged).glob("*.log"))
    overwrite(str(segments[1]), bytes(200), 100)
    again = LogManager(directories_of(paths), StorageSettings(), InlineJobs(), run_all=run_all)
    progress: list[int] = []
    again.on_progress = progress.append
    again.load(lambda _: SMALL, 0, late=True)
    assert not again.unopened
    found = {key: contents(log) for key, log in again.logs.items()}
    del expected["t", 5]
    assert {key: found[key] for key in expected} == expected
    assert max(progress) >= len(expected) - 1
    # The others use the limit of open files of the broker, and its counters.
    log = again.logs["t", 0]
    fill(log, 10)
    assert again.totals.unflushed_bytes > 0
    for each in again.data_directories:
        each.close()


def test_progress_of_each_disk_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, an operator cannot tell whether a disk that was not stopped cleanly is almost recovered."""
    paths = [tmp_path / "a", tmp_path / "b"]
    manager = open_manager(*paths, config=SMALL)
    counts = {str(path): 0 for path in paths}
    for index, number in enumerate((150, 300)):
        log = manager.create("t", index, TOPIC_ID, SMALL, 0)
        fill(log, number)
        counts[os.path.dirname(log.directory)] = len(log.segments)
    manager.crash()
    for path in paths:
        (path / WRITTEN_POINTS).unlink()
    again = LogManager(directories_of(paths), StorageSettings(), InlineJobs())
    right: Callable[..., tuple[bool, int]] = SegmentRecovery._check
    seen: dict[str, list[int]] = {path: [] for path in counts}

    def check(self: SegmentRecovery, segment: Segment, *more: Any) -> tuple[bool, int]:
        root = os.path.dirname(segment.directory)
        seen[root].append(again.left_to_open()[root][1])
        return right(self, segment, *more)

    monkeypatch.setattr(SegmentRecovery, "_check", check)
    again.load(lambda _: SMALL, 0)
    assert seen == {path: list(range(count, 0, -1)) for path, count in counts.items()}
    assert min(counts.values()) > 1
    assert again.left_to_open() == dict.fromkeys(counts, (0, 0))
    for directory in again.data_directories:
        directory.close()
