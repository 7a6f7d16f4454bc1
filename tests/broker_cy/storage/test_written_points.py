"""Written points: the part that a start after a kill reads, and the cases in which it must not trust them."""

import os
import shutil
from pathlib import Path

import pytest

from broker_cy.storage import noted_state, written_points
from broker_cy.storage.checkpoints import Entries
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.settings import StorageSettings
from broker_cy.storage.written_points import WRITTEN_POINTS, read_points, write_points

from .batches import contents, fill, overwrite
from .managing import TOPIC_ID, HeldJobs, Manager, open_manager

SETTINGS = StorageSettings(flush_bytes=10_000_000, note_bytes=120_000)
CONFIG = LogConfig(segment_bytes=100_000, index_interval_bytes=300)


def noted(directory: Path) -> Manager:
    """A manager whose log was written to in two segments, and beyond its written point of 240."""
    manager = open_manager(directory, settings=SETTINGS)
    log = manager.create("t", 0, TOPIC_ID, CONFIG, 0)
    fill(log, 120, size=1_000, producer_id=7)
    manager.jobs.run_due()
    fill(log, 3, size=1_000, producer_id=7)
    assert (log.recovery_point, log.written_end_offset) == (0, 246)
    assert len(log.segments) > 1
    return manager


def test_a_killed_broker_reads_only_what_was_not_noted(tmp_path: Path) -> None:
    """If this fails, the start after a kill takes as long as reading everything since the last flush."""
    manager = noted(tmp_path)
    log = manager.logs["t", 0]
    point, described = log.written_point, log.producers.describe()
    assert 0 < point < 246
    assert read_points(str(tmp_path / WRITTEN_POINTS)).offsets == {("t", 0): point}
    data, entries = contents(log), log.segments[0].offsets.entries()
    first, last = log.segments[0], log.segments[-1]
    manager.crash()
    # Neither the first segment nor the part before the point in the last one is checked; the rest is.
    overwrite(first.path, b"\xff" * 20, 90)
    os.truncate(last.path, last.size - 10)
    again = open_manager(tmp_path, config=CONFIG, settings=SETTINGS)
    log = again.logs["t", 0]
    assert (log.recovery_point, log.written_point, log.log_end_offset) == (0, point, 244)
    assert log.segments[0].offsets.entries() == entries
    assert log.producers.describe() != described  # the last batch is cut off completely
    assert contents(log)[200:] == data[200 : len(contents(log))]
    again.crash()


def test_a_start_notes_that_the_machine_runs_before_it_serves(tmp_path: Path) -> None:
    """If this fails, a kill soon after the start is mistaken for a power loss, and damaged records, with all after
    them, for a torn write: they are removed instead of reported.
    """
    open_manager(tmp_path).stop()
    (tmp_path / WRITTEN_POINTS).unlink()
    jobs = HeldJobs()
    open_manager(tmp_path, jobs=jobs).crash()
    assert written_points.is_same_boot(str(tmp_path / WRITTEN_POINTS))


def test_the_state_of_producers_is_as_old_as_the_note(tmp_path: Path) -> None:
    """If this fails, a resent batch is considered new after a kill, or a new one resent."""
    manager = noted(tmp_path)
    described = manager.logs["t", 0].producers.describe()
    manager.crash()
    again = open_manager(tmp_path, config=CONFIG, settings=SETTINGS)
    assert again.logs["t", 0].producers.describe() == described
    again.crash()


def test_a_machine_that_started_again_has_no_written_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, after a power loss that lost pages which were never on disk, the start takes the bytes in their
    place for records.
    """
    manager = noted(tmp_path)
    first = manager.logs["t", 0].segments[0]
    manager.crash()
    overwrite(first.path, b"\xff" * 20, 90)
    monkeypatch.setattr(written_points, "boot_id", lambda: b"another start")
    again = open_manager(tmp_path, config=CONFIG, settings=SETTINGS)
    # As in Kafka, the log ends where the first page is missing.
    assert again.logs["t", 0].log_end_offset < 5
    assert len(again.logs["t", 0].segments) == 1
    again.crash()


def test_a_directory_that_was_restored_from_a_copy_has_no_written_points(tmp_path: Path) -> None:
    """A snapshot of the disk was mounted, or a backup restored, in the boot of the written points; it lacks pages that
    were only in memory. If this fails, the start reads the bytes in their place as records.
    """
    manager = noted(tmp_path / "a")
    first = os.path.basename(manager.logs["t", 0].segments[0].path)
    manager.crash()
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    overwrite(str(tmp_path / "b" / "t-0" / first), b"\xff" * 20, 90)
    again = open_manager(tmp_path / "b", config=CONFIG, settings=SETTINGS)
    assert again.logs["t", 0].log_end_offset < 5
    again.crash()


def test_a_partition_that_was_restored_from_a_copy_has_no_written_point(tmp_path: Path) -> None:
    """The same, for one partition: the others keep their written points."""
    manager = noted(tmp_path / "a")
    other = manager.create("u", 0, TOPIC_ID, CONFIG, 0)
    fill(other, 120, size=1_000)
    manager.jobs.run_due()
    first = os.path.basename(manager.logs["t", 0].segments[0].path)
    point = other.written_point
    assert point > 0
    manager.crash()
    for topic in ("t-0", "u-0"):
        overwrite(str(tmp_path / "a" / topic / first), b"\xff" * 20, 90)
    shutil.move(tmp_path / "a" / "t-0", tmp_path / "copied")
    shutil.copytree(tmp_path / "copied", tmp_path / "a" / "t-0")
    again = open_manager(tmp_path / "a", config=CONFIG, settings=SETTINGS)
    assert "is corrupt at byte" in again.offline["t", 0]
    assert again.logs["u", 0].written_point == point
    again.crash()


@pytest.mark.parametrize(
    "damage", [b"", b"\n", b"x\n0\n1\nt 0 246\n", b"BOOT", b"BOOT\n0\n1\n", b"BOOT\n0\n1\nt 0 x\n"]
)
def test_damaged_written_points_are_ignored(tmp_path: Path, damage: bytes) -> None:
    """If this fails, a torn file of a few bytes prevents a broker from starting, or makes it trust a wrong written
    point.
    """
    path = tmp_path / WRITTEN_POINTS
    path.touch()
    found = path.stat()
    path.write_bytes(damage.replace(b"BOOT", b"%s %d %d" % (written_points.boot_id(), found.st_dev, found.st_ino)))
    assert read_points(str(path)) == Entries({}, {})


def test_where_the_kernel_has_no_boot_id_nothing_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, an empty boot id equals the empty boot id after the next start of the machine."""
    monkeypatch.setattr(written_points, "BOOT_ID", str(tmp_path / "missing"))
    path = tmp_path / WRITTEN_POINTS
    write_points(str(path), {("t", 0): 5})
    assert not path.exists()
    path.write_bytes(b"\n0\n1\nt 0 5\n")
    assert read_points(str(path)) == Entries({}, {})


def test_truncation_takes_the_written_point_along(tmp_path: Path) -> None:
    """If this fails, records appended after a truncation are not checked after a kill, because the old point is after
    them.
    """
    manager = noted(tmp_path)
    log = manager.logs["t", 0]
    assert manager.truncate_to(log, 10, 5, lambda: None)
    manager.jobs.run_due()
    assert log.written_point == 10
    assert read_points(str(tmp_path / WRITTEN_POINTS)).offsets == {("t", 0): 10}
    fill(log, 5)
    torn = log.active
    manager.crash()
    os.truncate(torn.path, torn.size - 10)
    again = open_manager(tmp_path, config=CONFIG, settings=SETTINGS)
    assert again.logs["t", 0].log_end_offset == 18
    again.crash()


def test_a_clean_stop_and_a_flush_leave_no_written_point(tmp_path: Path) -> None:
    """If this fails, a point from before the stop is trusted after the next kill, although the log has changed."""
    manager = noted(tmp_path)
    manager.stop()
    assert read_points(str(tmp_path / WRITTEN_POINTS)).offsets == {}


def test_notes_leave_no_snapshot_and_never_take_the_flushed_one(tmp_path: Path) -> None:
    """If this fails, each note leaves a file forever, or removes the producer state that a start after a power loss
    needs.
    """
    jobs = HeldJobs()
    manager = open_manager(tmp_path, settings=SETTINGS, jobs=jobs)
    log = manager.create("t", 0, TOPIC_ID, LogConfig(), 0)

    def snapshots() -> list[int]:
        return sorted(int(name[:20]) for name in os.listdir(log.directory) if name.endswith(".snapshot"))

    def run_held() -> None:
        while jobs.held:
            jobs.held.pop(0)()

    for _ in range(3):
        fill(log, 70, size=1_000, producer_id=1)
        manager.flusher.note()
        run_held()
    assert snapshots() == []
    # A flush of the noted records is not done yet when the next note begins.
    manager.flusher.start()
    flush = jobs.held.pop(0)
    fill(log, 70, size=1_000, producer_id=1)
    manager.flusher.note()
    run_held()
    assert snapshots() == []
    flush()
    run_held()
    assert log.recovery_point == 420
    fill(log, 70, size=1_000, producer_id=1)
    manager.flusher.note()
    manager.flusher.note()
    assert len(jobs.held) == 1  # one at a time
    run_held()
    assert snapshots() == [420]
    assert log.written_point == 700
    manager.crash()
    again = open_manager(tmp_path, settings=SETTINGS)
    assert snapshots() == [420]
    again.flusher.start()
    assert snapshots() == [700]
    again.crash()


def test_notes_go_on_while_a_flush_takes_long(tmp_path: Path) -> None:
    """If this fails, a kill during a slow flush makes the next start read everything that was written since then."""
    jobs = HeldJobs()
    manager = open_manager(tmp_path, settings=StorageSettings(flush_bytes=100_000, note_bytes=100_000), jobs=jobs)
    log = manager.create("t", 0, TOPIC_ID, LogConfig(), 0)
    while jobs.held:  # the jobs of loading and of the new partition
        jobs.held.pop(0)()
    fill(log, 120, size=1_000)
    jobs.run_due()
    flush, *notes = jobs.held
    points = []
    for _ in range(3):
        while notes:
            jobs.held[:] = []
            notes.pop(0)()
            notes += jobs.held
        points.append(log.written_point)
        jobs.held[:] = []
        fill(log, 120, size=1_000)
        jobs.run_due()
        notes = list(jobs.held)
    assert points == [240, 480, 720]
    assert log.recovery_point == 0
    assert read_points(str(tmp_path / WRITTEN_POINTS)).offsets == {("t", 0): 720}
    flush()
    assert log.recovery_point == 240
    manager.crash()


@pytest.mark.parametrize("damage", ["cut", "flipped", "missing"])
def test_damaged_noted_producers_are_found_again(tmp_path: Path, damage: str) -> None:
    """If this fails, a torn file whose only purpose is a faster start causes a resent batch to be appended twice."""
    manager = noted(tmp_path)
    log = manager.logs["t", 0]
    described, found = log.producers.describe(), noted_state.read(log.directory, log.written_point)
    assert found is not None
    path = noted_state.path_of(log.directory, found[0])
    manager.crash()
    if damage == "cut":
        os.truncate(path, os.path.getsize(path) - 4)
    elif damage == "flipped":
        overwrite(path, b"\xff" * 4, os.path.getsize(path) - 8)
    else:
        os.unlink(path)
    again = open_manager(tmp_path, config=CONFIG, settings=SETTINGS)
    assert again.logs["t", 0].producers.describe() == described
    again.crash()


def test_noted_producers_of_other_records_are_not_believed(tmp_path: Path) -> None:
    """If this fails, the noted state of removed records is applied to the records in their place."""
    manager = open_manager(tmp_path, settings=SETTINGS)
    log = manager.create("t", 0, TOPIC_ID, CONFIG, 0)
    for slot in range(noted_state.SLOTS):  # as left by a previous process
        noted_state.write(log.directory, slot, 500 + slot, b"of other records")
    fill(log, 80, size=1_000, producer_id=7)
    manager.flusher.note()
    assert log.written_point == 160
    assert noted_state.read(log.directory, 160) == (0, log.producers.encode(committed=True))
    assert [noted_state.read(log.directory, 500 + slot) for slot in range(noted_state.SLOTS)] == [None, None]
    manager.truncate_to(log, 10, 5, lambda: None)
    assert noted_state.read(log.directory, 160) is None
    manager.crash()


def test_a_log_with_little_new_is_not_noted(tmp_path: Path) -> None:
    """If this fails, with thousands of partitions each note writes thousands of files."""
    manager = open_manager(tmp_path, settings=SETTINGS)
    little, much = manager.create("t", 0, TOPIC_ID, CONFIG, 0), manager.create("t", 1, TOPIC_ID, CONFIG, 0)
    fill(little, 10, size=1_000)
    fill(much, 80, size=1_000)
    manager.flusher.note()
    assert (little.written_point, much.written_point) == (0, 160)
    manager.crash()
