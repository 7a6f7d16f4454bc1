"""The disk of the power cut simulation keeps synced data, and drops data of failed syncs."""

from __future__ import annotations

import errno
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker_cy.storage.atomic import sync_directory
from tests.support import needs
from tests.support.disk_faults import SYNC
from tests.support.power import Disk

# A file system that does not reuse inodes, which Disk relies on.
MEMORY = "/dev/shm"
SEEDS = 40
SECTOR = 64


pytestmark = needs.memory


@pytest.fixture
def memory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="power-disk-") as path:
        yield Path(path)


def write(path: str, data: bytes, *, sync: bool, position: int = 0) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.pwrite(fd, data, position)
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)


def after_cuts(memory: Path, work: Callable[[Disk, str], None]) -> set[bytes | None]:
    """The contents of the file `a` that power cuts leave after `work`; None if it does not exist."""
    found: set[bytes | None] = set()
    for seed in range(SEEDS):
        root = str(memory / str(seed))
        os.mkdir(root)
        disk = Disk(root, random.Random(seed))
        with disk.installed():
            work(disk, root)
        disk.cut()
        path = Path(root, "a")
        found.add(path.read_bytes() if path.exists() else None)
    return found


def test_a_file_is_certain_once_it_and_its_directory_are_synced(memory: Path) -> None:
    """If this fails, the simulation loses data that no disk loses, or keeps data that a disk may lose."""
    content = b"x" * SECTOR

    def file_only(disk: Disk, root: str) -> None:
        write(f"{root}/a", content, sync=True)

    def both(disk: Disk, root: str) -> None:
        file_only(disk, root)
        sync_directory(root)

    (memory / "1").mkdir()
    assert after_cuts(memory / "1", file_only) == {None, content}
    (memory / "2").mkdir()
    assert after_cuts(memory / "2", both) == {content}


def test_what_a_failed_sync_dropped_is_lost_until_it_is_written_again(memory: Path) -> None:
    """If this fails, the simulation does not find a defect that acknowledges records after a failed sync."""
    old, new = b"o" * SECTOR, b"n" * SECTOR

    def fail_then_sync(disk: Disk, root: str) -> None:
        write(f"{root}/a", old, sync=True)
        sync_directory(root)
        disk.faults.errors, disk.faults.chance = {SYNC: errno.EIO}, 1.0
        with pytest.raises(OSError, match="Input/output"):
            write(f"{root}/a", new, sync=True)
        disk.faults.end()
        write(f"{root}/a", b"", sync=True)

    def fail_then_write_again(disk: Disk, root: str) -> None:
        fail_then_sync(disk, root)
        write(f"{root}/a", new, sync=True)

    (memory / "1").mkdir()
    assert after_cuts(memory / "1", fail_then_sync) == {old, new}
    (memory / "2").mkdir()
    assert after_cuts(memory / "2", fail_then_write_again) == {new}


def test_a_removed_directory_may_come_back_until_that_is_synced(memory: Path) -> None:
    """If this fails, the simulation does not find a defect that gives a new topic the directory of a deleted one."""
    names: set[tuple[str, ...]] = set()
    for seed in range(SEEDS):
        root = str(memory / str(seed))
        os.mkdir(root)
        disk = Disk(root, random.Random(seed))
        with disk.installed():
            os.mkdir(f"{root}/t")
            write(f"{root}/t/a", b"x", sync=True)
            sync_directory(f"{root}/t")
            sync_directory(root)
            os.rename(f"{root}/t", f"{root}/t.delete")
            os.unlink(f"{root}/t.delete/a")
            os.rmdir(f"{root}/t.delete")
            os.mkdir(f"{root}/t")
        disk.cut()
        names.add(tuple(sorted(str(path.relative_to(root)) for path in Path(root).rglob("*"))))
    assert {("t", "t/a"), ("t",), ()} <= names
