"""A disk that fails and loses power: a directory in memory in which everything not synced can be lost or torn.

The system under test works on real files of a tmpfs. `Disk` replaces the system calls that change names, write bytes or
sync. It records each change of a name, and with each fsync and fdatasync the durable state from then on: the content of
that file, or the names in that directory. power_loss.py simulates a power cut, disk_faults.py failing operations.

A sync that fails does what Linux does: a part of the file reaches the disk, the kernel treats the rest as written, and
a later sync of the file succeeds without writing it. Only rewritten bytes are synced again. The names in
a directory whose sync failed are not written to disk until the broker starts again: its file system stopped writing its
journal.
"""

from __future__ import annotations

import os
import random
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from broker_cy.control.quorum import metadata_log
from broker_cy.storage import disk, written_points
from broker_cy.storage.syncs import FAILED_MARK
from tests.support import power_loss
from tests.support.disk_faults import CREATE, NAME, SYNC, TRUNCATE, WRITE, Faults
from tests.support.power_loss import SECTOR_BYTES, Change, Sectors, overlay, read_file, sectors, torn

_open, _replace, _unlink, _mkdir, _rmdir = os.open, os.replace, os.unlink, os.mkdir, os.rmdir
_write, _pwrite, _truncate, _ftruncate = os.write, os.pwrite, os.truncate, os.ftruncate
MISSING = object()
STEADY_PID = 4321
# The system calls that a Disk replaces: (module, name, method of Disk).
CALLS: tuple[tuple[Any, str, str], ...] = (
    (os, "fsync", "sync"),
    (os, "fdatasync", "sync"),
    (disk, "sync_filesystem", "sync_all"),
    (os, "open", "open"),
    (metadata_log, "open", "open_file"),
    (os, "mkdir", "mkdir"),
    (os, "rename", "rename"),
    (os, "replace", "rename"),
    (os, "unlink", "unlink"),
    (os, "rmdir", "rmdir"),
    (os, "write", "write"),
    (os, "pwrite", "pwrite"),
    (os, "truncate", "truncate"),
    (os, "ftruncate", "ftruncate"),
)


@contextmanager
def replaced(calls: list[tuple[Any, str, Callable[..., Any]]]) -> Iterator[None]:
    """Replace functions of modules: (module, name, function)."""
    before = [getattr(module, name, MISSING) for module, name, _ in calls]
    for module, name, function in calls:
        setattr(module, name, function)
    try:
        yield
    finally:
        for (module, name, _), old in zip(calls, before, strict=True):
            if old is MISSING:
                delattr(module, name)
            else:
                setattr(module, name, old)


def steady_files() -> AbstractContextManager[None]:
    """Make files equally long on every machine and in every process.

    The lock file holds the process id, and the written points begin with the device and the inode. Their digits decide
    how much of a file can be torn, so they would move the draws of a seed.
    """

    def origin(found: os.stat_result) -> bytes:
        booted = written_points.boot_id()
        return b"%s %04d %010d" % (booted, found.st_dev, found.st_ino) if booted else b""

    return replaced([(os, "getpid", lambda: STEADY_PID), (written_points, "_origin", origin)])


class PowerCut(BaseException):
    """The machine stops here."""


class Disk:
    """The files below `root`, on a file system that does not reuse inodes; all existing files are durable.

    Directories exist only directly in `root`, and contain no other directories.
    """

    def __init__(self, root: str, draw: random.Random) -> None:
        self.root = root
        self.draw = draw
        self.faults = Faults(draw)
        # The note of a failed sync can always be made. If it could not, the next start would not rewrite the data that
        # the disk dropped; only the simulation of power cuts tests that loss.
        self.takes_notes = False
        # By inode: durable content of files.
        self.contents: dict[int, bytes] = {}
        # By inode: the sectors of a file, by position, with their content when a sync of it failed. Until they are
        # written again no sync writes them to disk.
        self.dropped: dict[int, Sectors] = {}
        # By inode of a directory: the names that are durable, the current ones, and the changes between the two.
        self.durable: dict[int, dict[str, int]] = {}
        self.names: dict[int, dict[str, int]] = {}
        self.changes: dict[int, list[Change]] = {}
        self.directories: dict[str, int] = {}
        # Inodes of directories whose sync failed.
        self.broken: set[int] = set()
        self.syncs = 0
        self.cut_at = -1
        self._adopt(root)

    def restore(self) -> None:
        """Replace everything by a copy that was made while the system ran, in the state that a power cut would leave: a
        snapshot of a volume. The machine keeps running, so its boot id says nothing about these files.
        """
        self.cut()
        copy = f"{self.root}.copy"
        shutil.copytree(self.root, copy)
        shutil.rmtree(self.root)
        os.rename(copy, self.root)
        self.begin_again()

    def begin_again(self) -> None:
        """Treat everything below the root as new, durable files."""
        for state in (self.contents, self.durable, self.names, self.changes, self.directories):
            state.clear()
        self._adopt(self.root)

    def _adopt(self, path: str) -> None:
        inode = os.stat(path).st_ino
        self.add_directory(path, inode)
        with os.scandir(path) as entries:
            for entry in entries:
                self.names[inode][entry.name] = entry.inode()
                if entry.is_dir():
                    self._adopt(entry.path)
                else:
                    self.contents[entry.inode()] = read_file(entry.path)
        self.durable[inode] = dict(self.names[inode])

    def add_directory(self, path: str, inode: int) -> None:
        self.directories[path] = inode
        self.names[inode], self.durable[inode], self.changes[inode] = {}, {}, []

    # --- syncs

    def _count(self) -> None:
        self.syncs += 1
        if self.syncs == self.cut_at:
            raise PowerCut

    def sync(self, fd: int) -> None:
        """Simulate fsync and fdatasync; the call with number `cut_at` cuts the power instead."""
        self._count()
        found = os.fstat(fd)
        if stat.S_ISDIR(found.st_mode):
            self._sync_directory(found.st_ino)
            return
        # The descriptor may be open for writing only.
        written = read_file(f"/proc/self/fd/{fd}")
        if self.faults.happens(SYNC):
            self._fail_sync(found.st_ino, written)
            raise self.faults.error(SYNC)
        self._sync_content(found.st_ino, written)

    def _sync_content(self, inode: int, written: bytes) -> None:
        self.contents[inode] = self.reachable(inode, written)

    def reachable(self, inode: int, written: bytes) -> bytes:
        """The part of a file with contents `written` that a sync can write to disk: all except the sectors that an
        earlier sync failed to write.
        """
        dropped = self.dropped.get(inode)
        return written if dropped is None else overlay(written, dropped, self.contents.get(inode, b""))

    def _fail_sync(self, inode: int, written: bytes) -> None:
        self.contents[inode] = torn(self.draw, self.contents.get(inode, b""), self.reachable(inode, written))
        durable = self.contents[inode]
        self.dropped[inode] = {
            at: sector for at, sector in sectors(written).items() if durable[at : at + len(sector)] != sector
        }

    def _sync_directory(self, inode: int) -> None:
        if inode in self.broken or self.faults.happens(SYNC):
            self.broken.add(inode)
            raise OSError(5, "the journal is aborted")
        self.sync_names(inode)

    def sync_names(self, inode: int) -> None:
        """Make the names in a directory durable."""
        self.durable[inode] = dict(self.names[inode])
        self.changes[inode].clear()

    def sync_all(self, path: str) -> None:
        """Simulate syncfs."""
        self._count()
        fails = self.faults.happens(SYNC)
        for directory, inode in self.directories.items():
            if not fails and inode not in self.broken:
                self.sync_names(inode)
            for name, number in self.names[inode].items():
                if f"{directory}/{name}" not in self.directories:
                    (self._fail_sync if fails else self._sync_content)(number, read_file(f"{directory}/{name}"))
        if fails:
            raise self.faults.error(SYNC, path)

    # --- names

    def _place(self, path: str | bytes, dir_fd: int | None) -> tuple[int, str] | None:
        """Inode of the directory and name in it; None if the directory is not part of this disk."""
        path = os.fsdecode(path)
        if dir_fd is not None:
            inode: int | None = os.fstat(dir_fd).st_ino
            return (inode, path) if inode in self.names else None
        directory, _, name = path.rpartition("/")
        inode = self.directories.get(directory)
        return None if inode is None else (inode, name)

    def _change(self, directory: int, gone: str | None, came: str | None, inode: int) -> None:
        names = self.names[directory]
        if gone is not None:
            del names[gone]
        if came is not None:
            names[came] = inode
        self.changes[directory].append((gone, came, inode))

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        place = self._place(path, dir_fd) if flags & os.O_CREAT else None
        is_new = place is not None and place[1] not in self.names[place[0]]
        if is_new and not (self.takes_notes and os.fsdecode(path).endswith(FAILED_MARK)):
            self.faults.check(CREATE, path)
        fd = _open(path, flags, mode, dir_fd=dir_fd)
        if is_new:
            assert place is not None
            self._change(place[0], None, place[1], os.fstat(fd).st_ino)
        return fd

    def open_file(self, path: str, mode: str) -> Any:
        """The built-in open, for writing a new file, and for an existing one."""
        if mode != "wb":
            assert mode in ("rb", "r+b")
            return open(path, mode)
        return os.fdopen(self.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), mode)

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        place = self._place(path, dir_fd)
        if place:
            self.faults.check(CREATE, path)
        _mkdir(path, mode, dir_fd=dir_fd)
        if place:
            inode = os.stat(path).st_ino
            self._change(place[0], None, place[1], inode)
            self.add_directory(path, inode)

    def rename(self, old: Any, new: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        source, target = self._place(old, src_dir_fd), self._place(new, dst_dir_fd)
        if source is not None and source[1] in self.names[source[0]]:
            self.faults.check(NAME, old)
        _replace(old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        if source is None and target is None:
            return
        assert source is not None
        assert target is not None
        assert source[0] == target[0], f"{old} goes to another directory, {new}"
        self._change(source[0], source[1], target[1], self.names[source[0]][source[1]])
        if src_dir_fd is None and old in self.directories:
            self.directories[new] = self.directories.pop(old)

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        place = self._place(path, dir_fd)
        if place is not None and place[1] in self.names[place[0]]:
            self.faults.check(NAME, path)
        _unlink(path, dir_fd=dir_fd)
        if place:
            self._change(place[0], place[1], None, self.names[place[0]][place[1]])

    def rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        place = self._place(path, dir_fd)
        if place:
            self.faults.check(NAME, path)
        _rmdir(path, dir_fd=dir_fd)
        if place:
            # Until the removal is durable the directory may come back, with its durable content.
            self._change(place[0], place[1], None, self.directories.pop(os.fsdecode(path)))

    # --- bytes

    def write(self, fd: int, data: Any) -> int:
        count = _write(fd, self._written(data))
        self._touch(fd, os.lseek(fd, 0, os.SEEK_CUR) - count, count)
        return count

    def pwrite(self, fd: int, data: Any, position: int) -> int:
        count = _pwrite(fd, self._written(data), position)
        self._touch(fd, position, count)
        return count

    def _touch(self, fd: int, position: int, count: int) -> None:
        """The next sync writes these bytes to disk, even if their content did not change."""
        dropped = self.dropped.get(os.fstat(fd).st_ino) if self.dropped else None
        if dropped:
            for at in range(position - position % SECTOR_BYTES, position + count, SECTOR_BYTES):
                dropped.pop(at, None)

    def _written(self, data: Any) -> Any:
        """The part of `data` that is written before the disk fails or is full. Raises OSError if no part is written."""
        if not self.faults.happens(WRITE):
            return data
        view = memoryview(data)
        count = self.draw.choice([0, self.draw.randint(0, len(view))])
        if count == 0:
            raise self.faults.error(WRITE)
        return view[:count]

    def truncate(self, path: Any, length: int) -> None:
        self.faults.check(TRUNCATE, path)
        _truncate(path, length)

    def ftruncate(self, fd: int, length: int) -> None:
        self.faults.check(TRUNCATE)
        _ftruncate(fd, length)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Replace the system calls. Those that the C code makes are affected only as described in Faults."""
        with replaced([(module, name, getattr(self, method)) for module, name, method in CALLS]):
            try:
                yield
            finally:
                self.faults.end()

    # --- power cuts and kills

    def damage(self, path: str, position: int, data: bytes) -> None:
        """Put `data` into a file, in memory and, if those bytes are on disk, also on disk."""
        with open(path, "r+b") as file:
            file.seek(position)
            file.write(data)
            inode = os.fstat(file.fileno()).st_ino
        durable = bytearray(self.contents.get(inode, b""))
        end = min(position + len(data), len(durable))
        if position < end:
            durable[position:end] = data[: end - position]
            self.contents[inode] = bytes(durable)

    def cut(self) -> None:
        """Leave in the directory what a start after a power cut might find. The files found there are then durable."""
        power_loss.cut(self)
        self.dropped.clear()
        self.broken.clear()

    def kill(self, *, evicts: bool) -> bool:
        """The process has ended, but the page cache is kept. Returns whether content was lost: if the kernel needs its
        memory (always with `evicts`), it rereads the data that the disk failed to write from the disk. Otherwise that
        data stays in memory, and no sync writes it to disk.
        """
        self.broken.clear()
        if not any(self.dropped.values()) or not (evicts or self.draw.random() < 0.5):
            return False
        power_loss.evict(self)
        self.dropped.clear()
        return True

    def directories_with_dropped(self) -> list[str]:
        """Paths of the directories with files that a failed sync did not write completely."""
        return [
            path
            for path, inode in self.directories.items()
            if any(self.dropped.get(number) for number in self.names[inode].values())
        ]
