"""Partitions that are in two data directories at a start."""

from __future__ import annotations

import shutil
from pathlib import Path
from uuid import UUID

import pytest

from broker_cy.core.uuid import to_text
from broker_cy.storage.data_directory import DataDirectoryError
from broker_cy.storage.errors import StorageError

from .batches import SMALL, fill
from .managing import TOPIC_ID, Manager, format_directory, open_manager


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


def start(paths: tuple[Path, Path], number: int | None, topic_id: UUID = TOPIC_ID) -> Manager:
    """The metadata name the directory `number`."""
    manager = open_manager(*paths, load=False)
    ids = [each.directory_id for each in manager.data_directories]
    named = ids[number] if number is not None else UUID(int=12345)
    try:
        manager.load(lambda _: SMALL, 0, lambda *_: topic_id, directory_id_of=lambda *_: named)
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


def test_a_copy_of_another_topic_decides_nothing(paths: tuple[Path, Path]) -> None:
    """If this fails, a topic that was created again while its disk was away cannot be served when that is back
    (KAFKA-14616).
    """
    text = (paths[1] / "t-0/partition.metadata").read_text()
    other = UUID(int=99)
    (paths[1] / "t-0/partition.metadata").write_text(text.replace(text.split()[-1], to_text(other)))
    manager = start(paths, None, other)
    assert manager.logs["t", 0].directory == str(paths[1] / "t-0")
    manager.crash()
    assert [each.name for each in paths[0].glob("t-0")] == []


def test_a_copy_that_cannot_be_renamed_ends_the_start(
    paths: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, both copies are loaded."""
    monkeypatch.setattr("os.rename", _refuse)
    with pytest.raises(StorageError, match="cannot rename"):
        start(paths, 0)


def _refuse(*_: object) -> None:
    raise PermissionError(13, "Permission denied")
