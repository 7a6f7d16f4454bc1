"""Data directories with workers of their own: a disk that hangs stops no work on the others."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker_cy.storage.checkpoints import RECOVERY_POINTS, read_entries
from broker_cy.storage.disk_workers import DiskWorkers, Workers
from broker_cy.storage.jobs import InlineJobs
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.log_manager import LogManager
from broker_cy.storage.open_directories import open_directories
from broker_cy.storage.settings import StorageSettings
from broker_cy.wire.records import Record, encode_batch

TOPIC_ID = UUID(int=77)


def append(log: Log) -> None:
    log.append(encode_batch([Record(0, 1_000, b"k", b"v", [])], base_offset=log.log_end_offset), 1_000)


class HungJobs(InlineJobs):
    """Workers that wait for a disk, until `answer`."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Callable[[], None]] = []

    def run(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        run = super().run
        self.held.append(lambda: run(work, done))

    def answer(self) -> None:
        while self.held:
            self.held.pop(0)()


class TwoDisks:
    """A log manager over `hung` and `good`, with one log on each."""

    def __init__(self, path: Path) -> None:
        self.hung, self.good = HungJobs(), InlineJobs()
        roots = [str(path / "hung"), str(path / "good")]
        ids = iter([UUID(int=201), UUID(int=202)])
        directories = open_directories(roots, 1, lambda: "cluster", lambda: next(ids))
        by_directory = {root: Workers(jobs, jobs) for root, jobs in zip(roots, (self.hung, self.good), strict=True)}
        workers = DiskWorkers(Workers(self.good, self.good), by_directory)
        self.manager = LogManager(directories, StorageSettings(), InlineJobs(), disk_workers=workers)
        self.manager.load(lambda topic: LogConfig(), 0)
        logs = [self.manager.create("t", index, TOPIC_ID, LogConfig(), 0) for index in (0, 1)]
        self.on_hung, self.on_good = sorted(logs, key=lambda log: roots.index(os.path.dirname(log.directory)))
        for log in logs:
            append(log)

    def recovery_point(self, log: Log) -> int:
        """That in the checkpoint file."""
        entries = read_entries(f"{os.path.dirname(log.directory)}/{RECOVERY_POINTS}")
        return entries.offsets.get((log.topic, log.partition), 0)


@pytest.fixture
def disks(tmp_path: Path) -> TwoDisks:
    return TwoDisks(tmp_path)


def test_new_logs_are_on_both_disks(disks: TwoDisks) -> None:
    """If this fails, the other tests of this file say nothing."""
    assert os.path.dirname(disks.on_hung.directory) != os.path.dirname(disks.on_good.directory)


def test_flush_of_a_good_disk_does_not_wait(disks: TwoDisks) -> None:
    """If this fails, a disk that hangs lets a start after a crash read all that was written since."""
    disks.manager.flusher.start()
    assert (disks.on_hung.recovery_point, disks.on_good.recovery_point) == (0, 1)
    assert (disks.recovery_point(disks.on_hung), disks.recovery_point(disks.on_good)) == (0, 1)
    append(disks.on_good)
    disks.manager.flusher.start()
    assert disks.recovery_point(disks.on_good) == 2
    disks.hung.answer()
    assert disks.recovery_point(disks.on_hung) == 1


def test_truncated_log_of_a_good_disk_is_settled(disks: TwoDisks) -> None:
    """If this fails, a replica on a good disk follows no leader while another disk hangs."""
    settled: list[str] = []
    for name, log in (("hung", disks.on_hung), ("good", disks.on_good)):
        if disks.manager.truncate_to(log, 0, 0, lambda name=name: settled.append(name)):  # type: ignore[misc]
            continue
        pytest.fail("the truncation needed no checkpoint")
    disks.hung.run_due()
    disks.good.run_due()
    assert settled == ["good"]
    disks.hung.answer()
    assert settled == ["good", "hung"]


def test_files_of_a_good_disk_are_removed(disks: TwoDisks) -> None:
    """If this fails, a disk that hangs lets the others fill up."""
    paths = []
    for log in (disks.on_hung, disks.on_good):
        disks.manager.delete(log.topic, log.partition)
        paths.append(os.path.dirname(log.directory))
    disks.hung.run_due()
    disks.good.run_due()
    left = [[name for name in os.listdir(path) if name.endswith("-delete")] for path in paths]
    assert [len(each) for each in left] == [1, 0]
    disks.hung.answer()
    assert not [name for name in os.listdir(paths[0]) if name.endswith("-delete")]


def test_failed_disk_is_left_alone_by_the_stop(disks: TwoDisks) -> None:
    """If this fails, a stop of a broker with a dead disk is unclean on all disks, and every log is recovered."""
    hung, good = disks.manager.data_directories
    hung.failure = "the disk died"
    disks.on_hung.lose_disk("the disk died")
    disks.manager.close(lambda topic, partition: 0, 7)
    assert hung.clean_broker_epoch() is None
    assert good.clean_broker_epoch() == 7
    assert disks.recovery_point(disks.on_good) == 1
