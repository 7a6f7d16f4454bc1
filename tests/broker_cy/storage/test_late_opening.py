"""Logs that are opened after the start: their files and checkpoint entries belong to them all the time. The file is
long because everything that a broker does with a log may happen before that log is open.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import pytest

from broker_cy.core.clock import MACHINE_CLOCK
from broker_cy.core.randomness import MACHINE_RANDOMNESS
from broker_cy.core.uuid import LOST_DIRECTORY
from broker_cy.storage import disk, log_loader, log_loading, written_points
from broker_cy.storage.checkpoints import (
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    TopicPartition,
    read_entries,
    write_offsets,
)
from broker_cy.storage.cleaner.log_cleaner import CleanerSettings, LogCleaner
from broker_cy.storage.data_directory import CLEAN_SHUTDOWN
from broker_cy.storage.jobs import InlineJobs
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.settings import StorageSettings
from broker_cy.storage.syncs import FAILED_MARK
from tests.support.wait import until

from .batches import contents, fill
from .managing import TOPIC_ID, HeldJobs, Manager, open_manager

T = TypeVar("T")
CONFIG = LogConfig(file_delete_delay_ms=0)
KEYS = [("t", number) for number in range(4)]
ALL = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS)


def run_held(jobs: HeldJobs) -> None:
    while jobs.held:
        jobs.held.pop(0)()


def written(directory: Path, *, clean: bool = False) -> dict[TopicPartition, bytes]:
    """Write partitions with ten batches each; returns their contents."""
    manager = open_manager(directory)
    for topic, number in KEYS:
        fill(manager.create(topic, number, TOPIC_ID, CONFIG, 0), 10, producer_id=number)
    found = {key: contents(manager.logs[key]) for key in KEYS}
    if clean:
        manager.stop()
    else:
        manager.crash()
    return found


def open_late(directory: Path, jobs: InlineJobs, settings: StorageSettings | None = None) -> Manager:
    manager = open_manager(directory, config=CONFIG, jobs=jobs, late=True, settings=settings)
    if isinstance(jobs, HeldJobs):
        run_held(jobs)  # checkpoints
    return manager


def check_all(directory: Path, expected: dict[TopicPartition, bytes]) -> None:
    """Check that a start finds everything."""
    manager = open_manager(directory, config=CONFIG)
    assert {key: contents(log) for key, log in manager.logs.items()} == expected
    manager.crash()


@pytest.mark.parametrize("clean", [False, True])
def test_a_log_is_opened_when_it_is_asked_for(tmp_path: Path, clean: bool) -> None:
    """If this fails, the start reads every log before it answers."""
    expected = written(tmp_path, clean=clean)
    jobs = HeldJobs()
    manager = open_late(tmp_path, jobs)
    opened: list[TopicPartition] = []
    manager.on_opened = opened.append
    assert (list(manager.unopened), manager.logs, jobs.held) == (KEYS, {}, [])
    (root,) = manager.directories
    assert manager.left_to_open() == {root: (len(KEYS), 0)}
    for key in (KEYS[2], KEYS[2], KEYS[1]):
        manager.opener.ask(key)
    run_held(jobs)
    assert manager.left_to_open() == {root: (len(KEYS) - 2, 0)}
    assert opened == list(manager.logs) == [KEYS[2], KEYS[1]]
    log = manager.logs[KEYS[2]]
    assert contents(log) == expected[KEYS[2]]
    fill(log, 1, producer_id=2)
    assert manager.totals.unflushed_bytes > 0
    assert log in manager.totals.dirty
    manager.opener.start()
    run_held(jobs)
    assert not manager.unopened
    assert {key: contents(log) for key, log in manager.logs.items()} == {**expected, KEYS[2]: contents(log)}
    manager.opener.ask(KEYS[0])
    assert not jobs.held
    manager.crash()


def test_what_is_asked_for_comes_first(tmp_path: Path) -> None:
    """If this fails, a request waits for thousands of partitions that no client requested."""
    written(tmp_path)
    jobs = HeldJobs()
    manager = open_late(tmp_path, jobs)
    manager.opener.start()
    manager.opener.ask(KEYS[3])
    run_held(jobs)
    assert list(manager.logs) == [KEYS[0], KEYS[1], KEYS[3], KEYS[2]]
    manager.crash()


def test_checkpoints_keep_the_entries_of_logs_that_are_not_open_yet(tmp_path: Path) -> None:
    """If this fails, deleted records come back, because the log start offset was dropped while the log was not open."""
    manager = open_manager(tmp_path, config=CONFIG)
    for topic, number in KEYS:
        log = manager.create(topic, number, TOPIC_ID, CONFIG, 0)
        fill(log, 10)
        manager.delete_records_before(log, 7)
        manager.high_watermarks[topic, number] = 20
    manager.flusher.start()
    manager.flusher.write_checkpoints(*ALL)
    manager.flusher.note()
    before = {name: read_entries(str(tmp_path / name)) for name in ALL}
    assert before[LOG_START_OFFSETS].offsets == dict.fromkeys(KEYS, 7)
    assert before[RECOVERY_POINTS].offsets == dict.fromkeys(KEYS, 20)
    manager.crash()
    for opened in (0, 1):
        jobs = HeldJobs()
        manager = open_late(tmp_path, jobs)
        if opened:
            manager.opener.ask(KEYS[1])
            run_held(jobs)
            manager.high_watermarks[KEYS[1]] = 20
        manager.flusher.write_checkpoints()
        run_held(jobs)
        assert {name: read_entries(str(tmp_path / name)) for name in ALL} == before
        manager.crash()


def test_written_points_of_logs_that_are_not_open_yet_stay(tmp_path: Path) -> None:
    """If this fails, a broker that is killed twice in a row reads everything after the recovery points."""
    manager = open_manager(tmp_path, config=CONFIG)
    log = manager.create("t", 0, TOPIC_ID, CONFIG, 0)
    fill(log, 700, size=100)
    manager.flusher.note()
    assert log.written_point > 0
    point = log.written_point
    manager.crash()
    for _ in range(2):
        manager = open_late(tmp_path, HeldJobs())
        manager.crash()
    assert written_points.read_points(str(tmp_path / written_points.WRITTEN_POINTS)).offsets == {KEYS[0]: point}


def test_a_clean_stop_with_logs_that_were_never_opened_is_clean(tmp_path: Path) -> None:
    """If this fails, each restart of a broker with many partitions makes the next one recover them."""
    expected = written(tmp_path, clean=True)
    jobs = HeldJobs()
    manager = open_late(tmp_path, jobs)
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()
    manager.opener.ask(KEYS[1])
    run_held(jobs)
    manager.stop()
    assert (tmp_path / CLEAN_SHUTDOWN).exists()
    assert read_entries(str(tmp_path / RECOVERY_POINTS)).offsets == dict.fromkeys(KEYS, 20)
    check_all(tmp_path, expected)


@pytest.mark.parametrize("begun", [False, True])
def test_a_stop_before_a_log_was_recovered_is_not_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    """If this fails, a start trusts the end of a log that was never checked, or a log whose opening was interrupted."""
    expected = written(tmp_path, clean=begun)
    synced: list[str] = []
    monkeypatch.setattr(disk, "sync_filesystem", synced.append)
    jobs = HeldJobs()
    manager = open_late(tmp_path, jobs)
    if begun:
        manager.opener.ask(KEYS[0])
        assert jobs.held  # it never completes
    manager.stop()
    assert synced == [str(tmp_path)]
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()
    check_all(tmp_path, expected)


def test_logs_that_a_stop_could_not_sync_are_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, records that the disk refused count as synced after the next start."""
    expected = written(tmp_path)
    manager = open_late(tmp_path, HeldJobs())

    def fail(path: str) -> None:
        raise OSError(errno.EIO, "Input/output error", path)

    monkeypatch.setattr(disk, "sync_filesystem", fail)
    manager.stop()
    assert all((tmp_path / f"t-{number}" / FAILED_MARK).exists() for _, number in KEYS)
    monkeypatch.undo()
    manager = open_late(tmp_path, HeldJobs())
    # Their pages may be evicted from memory at any time.
    assert not manager.unopened
    assert {key: contents(log) for key, log in manager.logs.items()} == expected
    manager.crash()


def test_after_a_power_loss_every_log_is_recovered_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, the written points of the start say that the machine kept running, and the next start trusts what
    was never synced.
    """
    monkeypatch.setattr(written_points, "boot_id", lambda: b"one")
    expected = written(tmp_path)
    monkeypatch.setattr(written_points, "boot_id", lambda: b"two")
    manager = open_late(tmp_path, HeldJobs())
    assert not manager.unopened
    assert {key: contents(log) for key, log in manager.logs.items()} == expected
    manager.crash()


def test_the_topics_of_the_broker_itself_are_opened_at_the_start(tmp_path: Path) -> None:
    """If this fails, coordinators load before their partitions exist."""
    written(tmp_path)
    manager = open_late(tmp_path, HeldJobs(), StorageSettings(kept_whole=frozenset({"t"})))
    assert (list(manager.logs), dict(manager.unopened)) == (KEYS, {})
    manager.crash()


def test_a_partition_is_deleted_before_it_is_opened(tmp_path: Path) -> None:
    """If this fails, the new topic of that name gets the records of the old one, or loses its own to the worker."""
    written(tmp_path)
    jobs = HeldJobs()
    manager = open_late(tmp_path, jobs)
    opened: list[TopicPartition] = []
    manager.on_opened = opened.append
    manager.opener.ask(KEYS[0])
    for topic, number in KEYS[:2]:
        manager.delete(topic, number)
        log = manager.create(topic, number, UUID(int=9), CONFIG, 0)
        assert (log.log_start_offset, log.log_end_offset) == (0, 0)
        fill(log, 1)
    manager.opener.start()
    run_held(jobs)
    assert opened == KEYS[2:]
    assert [manager.logs[key].log_end_offset for key in KEYS] == [2, 2, 20, 20]
    jobs.run_due()
    run_held(jobs)
    assert not [name for name in os.listdir(tmp_path) if name.endswith("-delete")]
    manager.crash()


def test_a_partition_is_deleted_while_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the worker that opens a log writes into the directory of the next topic of that name."""
    written(tmp_path)
    with Workers() as jobs:
        manager = open_late(tmp_path, jobs)
        jobs.deliver()
        begun, go_on = threading.Event(), threading.Event()
        load_log = log_loader.load_log

        def slow(directory: str, *arguments: object) -> Log:
            begun.set()
            assert go_on.wait(20)
            assert os.path.isdir(directory)
            return load_log(directory, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(log_loading, "load_log", slow)
        manager.opener.ask(KEYS[0])
        assert begun.wait(20)
        deleting = threading.Thread(target=manager.delete, args=KEYS[0])
        deleting.start()
        until(lambda: KEYS[0] not in manager.unopened, "the deletion has begun")
        assert os.path.isdir(tmp_path / "t-0")
        go_on.set()
        deleting.join(20)
        assert not os.path.exists(tmp_path / "t-0")
        log = manager.create("t", 0, UUID(int=9), CONFIG, 0)
        until(lambda: not jobs.running, "the worker is done")
        jobs.deliver()
        assert manager.logs == {KEYS[0]: log}
        assert log.log_end_offset == 0
        assert manager.opener.running == 0
    manager.crash()


def test_a_log_that_is_damaged_is_offline_when_it_is_opened(tmp_path: Path) -> None:
    """If this fails, a request waits for it forever, or the next stop is clean."""
    written(tmp_path)
    jobs = HeldJobs()
    manager = open_late(tmp_path, jobs)
    opened: list[TopicPartition] = []
    manager.on_opened = opened.append
    placed: list[TopicPartition] = []
    manager.on_placed = lambda topic, index: placed.append((topic, index))
    os.rename(tmp_path / "t-1", tmp_path / "elsewhere")
    (tmp_path / "t-1").write_bytes(b"no directory")
    manager.opener.start()
    run_held(jobs)
    assert sorted(opened) == KEYS
    assert (sorted(manager.logs), list(manager.offline)) == ([KEYS[0], *KEYS[2:]], [KEYS[1]])
    assert (placed, manager.place_of(*KEYS[1])) == ([KEYS[1]], LOST_DIRECTORY), "others must lead it"
    os.unlink(tmp_path / "t-1")
    os.rename(tmp_path / "elsewhere", tmp_path / "t-1")
    manager.stop()
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()


def test_a_log_that_lacks_descriptors_is_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a partition stays offline after the shortage is over."""
    expected = written(tmp_path)
    jobs = HeldJobs()
    manager = open_late(tmp_path, jobs)
    load_log = log_loader.load_log

    def short(directory: str, *_: object) -> Log:
        raise OSError(errno.EMFILE, "Too many open files", directory)

    monkeypatch.setattr(log_loading, "load_log", short)
    manager.opener.ask(KEYS[0])
    run_held(jobs)
    assert list(manager.offline) == [KEYS[0]]
    monkeypatch.setattr(log_loading, "load_log", load_log)
    assert manager.offline_logs.may_reopen(KEYS[0])
    manager.reopen(KEYS[0], lambda topic: CONFIG, 0)
    assert KEYS[0] not in manager.logs, "a log was loaded on the loop"
    run_held(jobs)
    assert contents(manager.logs[KEYS[0]]) == expected[KEYS[0]]
    assert not manager.offline
    manager.crash()


def test_a_log_that_still_lacks_descriptors_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, a full disk fills the log of the broker, too, or its partitions are not tried again."""
    written(tmp_path)
    jobs = HeldJobs()
    manager = open_late(tmp_path, jobs)

    def short(directory: str, *_: object) -> Log:
        raise OSError(errno.EMFILE, "Too many open files", directory)

    monkeypatch.setattr(log_loading, "load_log", short)
    manager.opener.ask(KEYS[0])
    for _ in range(3):
        run_held(jobs)
        assert list(manager.offline) == [KEYS[0]]
        manager.reopen(KEYS[0], lambda topic: CONFIG, 0)
    run_held(jobs)
    assert [each.message for each in caplog.records].count("partition offline") == 1
    manager.delete(*KEYS[0])
    assert not manager.offline_logs.may_reopen(KEYS[0])
    manager.crash()


def test_flush_messages_holds_for_a_log_that_is_opened_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, consumers read records that a killed process had written and not synced, and that a power loss
    removes.
    """
    written(tmp_path)
    jobs = HeldJobs()
    manager = open_manager(tmp_path, config=LogConfig(flush_messages=1), jobs=jobs, late=True)
    run_held(jobs)
    synced: list[str] = []
    monkeypatch.setattr(disk, "sync_file", synced.append)
    manager.opener.ask(KEYS[0])
    run_held(jobs)
    log = manager.logs[KEYS[0]]
    assert log.synced_end_offset == log.written_end_offset == 20
    assert log.active.path in synced
    manager.crash()


def test_the_cleaner_keeps_its_entries_of_logs_that_are_not_open_yet(tmp_path: Path) -> None:
    """If this fails, a log looks as if it was never compacted, and a power loss removes its segments after a gap."""
    roots = [tmp_path / "a", tmp_path / "b"]
    manager = open_manager(*roots)
    for topic, number in KEYS:
        fill(manager.create(topic, number, TOPIC_ID, LogConfig(cleanup_policy=("compact",)), 0), 10)
    places = {key: Path(log.directory).parent for key, log in manager.logs.items()}
    assert set(places.values()) == set(roots)
    manager.crash()
    for root in roots:
        entries = {key: 5 for key, place in places.items() if place == root}
        write_offsets(str(root / CLEANED_OFFSETS), entries, {"t": TOPIC_ID})
    jobs = HeldJobs()
    manager = open_manager(*roots, load=False, jobs=jobs)
    manager.cleaner = LogCleaner(
        manager.logs,
        manager.directories,
        CleanerSettings(),
        jobs,
        manager.removal.files,
        MACHINE_CLOCK,
        MACHINE_RANDOMNESS,
        unopened=manager.unopened,
    )
    manager.load(lambda topic: LogConfig(cleanup_policy=("compact",)), 0, late=True)
    manager.opener.ask(KEYS[0])
    run_held(jobs)
    manager.cleaner.write_checkpoint()
    run_held(jobs)
    found = {root: read_entries(str(root / CLEANED_OFFSETS)).offsets for root in roots}
    assert found == {root: {key: 5 for key, place in places.items() if place == root} for root in roots}
    manager.crash()


class Workers(InlineJobs):
    """Runs jobs in threads; results are delivered when `deliver` is called."""

    def __init__(self) -> None:
        super().__init__()
        self._pool = ThreadPoolExecutor(2)
        self._ended: list[tuple[Future[object], Callable[[object, BaseException | None], None]]] = []

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def run(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        self._ended.append((self._pool.submit(work), done))  # type: ignore[arg-type]

    @property
    def running(self) -> bool:
        return not all(future.done() for future, _ in self._ended)

    def deliver(self) -> None:
        until(lambda: not self.running, "the workers are done")
        while self._ended:
            future, done = self._ended.pop(0)
            error = future.exception()
            done(future.result() if error is None else None, error)


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = threading.active_count()
    yield
    until(lambda: threading.active_count() == before, "all threads ended")
