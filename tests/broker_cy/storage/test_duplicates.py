"""Partitions that are in two data directories at a start."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from uuid import UUID

import pytest

from broker_cy.core.uuid import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, to_text
from broker_cy.storage.data_directory import DataDirectoryError
from broker_cy.storage.errors import StorageError

from .batches import SMALL, fill
from .managing import DIRECTORY_ID, TOPIC_ID, Manager, format_directory, open_manager


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path]:
    """Both directories have t-0, the second one a copy."""
    first, second = tmp_path / "first", tmp_path / "second"
    manager = open_manager(first)
    fill(manager.create("t", 0, TOPIC_ID, SMALL, 0), 20)
    manager.stop()
    format_directory(second, 1)
    shutil.copytree(first / "t-0", second / "t-0")
    return first, second


def start(
    paths: tuple[Path, Path],
    number: int | None,
    topic_id: UUID | None = TOPIC_ID,
    *,
    replicated: bool = False,
    is_spare: bool = False,
) -> Manager:
    """The metadata name the directory `number`, or one that does not exist."""
    manager = open_manager(*paths, load=False)
    ids = [each.directory_id for each in manager.data_directories]
    named = ids[number] if number is not None else UUID(int=12345)
    try:
        manager.load(
            lambda _: SMALL,
            0,
            lambda *_: topic_id,
            is_replicated=lambda *_: replicated,
            directory_id_of=lambda *_: named,
            is_spare=lambda *_: is_spare,
        )
    except BaseException:
        manager.crash()
        raise
    return manager


@pytest.mark.parametrize("number", [0, 1])
def test_the_copy_that_the_metadata_name_is_kept(paths: tuple[Path, Path], number: int) -> None:
    """If this fails, the older of two copies may be served, or the broker does not start although the metadata of the
    cluster show which copy is right.
    """
    manager = start(paths, number)
    log = manager.logs["t", 0]
    assert (log.directory, log.log_end_offset) == (str(paths[number] / "t-0"), 40)
    manager.crash()
    (other,) = paths[1 - number].glob("t-0*")
    assert other.name.endswith("-stray")
    assert (other / f"{0:020d}.log").stat().st_size > 0
    # Once only.
    start(paths, number).crash()


def test_two_copies_without_a_decision_are_refused(paths: tuple[Path, Path]) -> None:
    """If this fails, acknowledged records are set aside, depending on the order of directories."""
    with pytest.raises(DataDirectoryError, match=r"partition t-0 is in .*/first/t-0 and in .*/second/t-0, and the"):
        start(paths, None)
    with pytest.raises(DataDirectoryError, match="partition t-0 is in"):
        open_manager(*paths)
    assert [len(list(path.glob("t-0*"))) for path in paths] == [1, 1]


def test_one_of_two_copies_of_a_replica_out_of_sync_is_kept(paths: tuple[Path, Path]) -> None:
    """If this fails, a broker does not start whose disk failed before the controller knew of a new log there, and comes
    back after the replica began again on another disk.
    """
    manager = start(paths, None, replicated=True, is_spare=True)
    assert manager.logs["t", 0].directory == str(paths[0] / "t-0")
    manager.crash()
    (other,) = paths[1].glob("t-0*")
    assert other.name.endswith("-stray")
    start(paths, 1, replicated=True, is_spare=True).crash()


def test_a_copy_of_another_topic_decides_nothing(paths: tuple[Path, Path]) -> None:
    """If this fails, a topic that was created again while its disk was away cannot be served when that is back
    (KAFKA-14616).
    """
    text = (paths[1] / "t-0/partition.metadata").read_text()
    other = UUID(int=99)
    (paths[1] / "t-0/partition.metadata").write_text(text.replace(text.split()[-1], to_text(other)))
    manager = start(paths, None, other, replicated=True)
    assert manager.logs["t", 0].directory == str(paths[1] / "t-0")
    manager.crash()
    assert [each.name for each in paths[0].glob("t-0")] == []


def test_copies_of_a_deleted_topic_decide_nothing(paths: tuple[Path, Path]) -> None:
    """If this fails, a broker does not start: a topic was deleted while one of its disks was offline, created again on
    the other one, and deleted while the broker was down.
    """
    text = (paths[1] / "t-0/partition.metadata").read_text()
    (paths[1] / "t-0/partition.metadata").write_text(text.replace(text.split()[-1], to_text(UUID(int=99))))
    manager = start(paths, None, None, replicated=True)
    assert (manager.logs, manager.offline) == ({}, {})
    manager.crash()
    assert [[each.name[-6:] for each in path.glob("t-0*")] for path in paths] == [["-stray"], ["-stray"]]


def test_a_copy_that_cannot_be_renamed_ends_the_start(
    paths: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, both copies are loaded."""
    monkeypatch.setattr("os.rename", _refuse)
    with pytest.raises(StorageError, match="cannot rename"):
        start(paths, 0)


def _refuse(*_: object) -> None:
    raise PermissionError(13, "Permission denied")


def start_without_the_second(paths: tuple[Path, Path], *, replicated: bool, named: UUID) -> Manager:
    """The second directory is offline."""
    manager = open_manager(*paths, load=False)
    manager.data_directories[1].failure = "its disk failed"
    manager.load(
        lambda _: SMALL,
        0,
        lambda *_: TOPIC_ID,
        is_replicated=lambda *_: replicated,
        directory_id_of=lambda *_: named,
    )
    return manager


def test_the_old_log_is_not_served_without_the_new_one(paths: tuple[Path, Path]) -> None:
    """If this fails, a replica that has moved is served without its newest records: the process ended before the old
    log was removed, and then the new disk died. Records that producers write there are lost when the disk is back.
    """
    manager = start_without_the_second(paths, replicated=False, named=UUID(int=DIRECTORY_ID.int + 1))
    assert "t-0" in os.listdir(paths[0])
    assert ("t", 0) not in manager.logs
    assert "bring it back" in manager.offline["t", 0]
    manager.crash()
    # The disk is back.
    manager = start(paths, 1)
    assert manager.logs["t", 0].directory == str(paths[1] / "t-0")
    manager.crash()


@pytest.mark.parametrize(
    ("replicated", "named"),
    [
        # The leader gives it the records that it lacks before it may lead.
        (True, UUID(int=DIRECTORY_ID.int + 1)),
        (False, DIRECTORY_ID),
        (False, UNASSIGNED_DIRECTORY),
        (False, MIGRATING_DIRECTORY),
    ],
)
def test_a_log_is_served_although_a_disk_is_offline(paths: tuple[Path, Path], replicated: bool, named: UUID) -> None:
    """If this fails, a failed disk takes logs of other disks offline."""
    manager = start_without_the_second(paths, replicated=replicated, named=named)
    assert manager.logs["t", 0].log_end_offset == 40
    manager.crash()


def test_a_log_that_was_moved_by_hand_is_served(paths: tuple[Path, Path]) -> None:
    """If this fails, an operator cannot move a topic without other replicas to another disk of its broker."""
    shutil.rmtree(paths[1] / "t-0")
    manager = start(paths, 1)
    assert manager.logs["t", 0].log_end_offset == 40
    manager.crash()


def test_a_deleted_topic_leaves_no_old_log(paths: tuple[Path, Path]) -> None:
    """If this fails, the old log of a deleted topic fills the disk."""
    manager = start_without_the_second(paths, replicated=False, named=UUID(int=DIRECTORY_ID.int + 1))
    manager.delete("t", 0)
    manager.jobs.run_due()
    assert "t-0" not in " ".join(os.listdir(paths[0]))
    manager.crash()
