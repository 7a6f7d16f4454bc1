"""A disk that loses power: a directory in memory in which everything not synced can be lost or torn.

The system under test works on real files of a tmpfs. `Disk` notes each change of a name, and with each fsync and
fdatasync what is durable from then on: the content of that file, or the names in that directory. `cut` makes of the
directory what a start after a power cut might find. What is durable is there. Of what came later

- the changes of names in a directory (made, renamed, removed) happened up to one of them, as journals keep them; or
  only some of the files that were made are there, in any order, and nothing else happened, as where single files are
  brought to disk before the journal is;
- each 64 bytes of a file may be there or not, and it may have grown without its bytes: then they are zeros.

Partition directories are neither renamed nor removed here. Where only the process ends, nothing is lost, and a later
cut may take what was not synced before that.
"""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from broker_cy.storage import disk

SECTOR_BYTES = 64

_open, _rename, _replace, _unlink, _mkdir = os.open, os.rename, os.replace, os.unlink, os.mkdir

# A name that went, a name that came, and whose names they are (or were).
Change = tuple[str | None, str | None, int]


class PowerCut(BaseException):
    """The machine stops here."""


def _read(path: str) -> bytes:
    fd = _open(path, os.O_RDONLY)
    try:
        return os.read(fd, os.fstat(fd).st_size)
    finally:
        os.close(fd)


class Disk:
    """The files below `root`, on a file system that does not use inodes again; all that is there is durable."""

    def __init__(self, root: str, draw: random.Random) -> None:
        self.root = root
        self.draw = draw
        # By inode: durable content of files.
        self.contents: dict[int, bytes] = {}
        # By inode of a directory: the names that are durable, those there are, and the changes between.
        self.durable: dict[int, dict[str, int]] = {}
        self.names: dict[int, dict[str, int]] = {}
        self.changes: dict[int, list[Change]] = {}
        self.directories: dict[str, int] = {}
        self.syncs = 0
        self.cut_at = -1
        self._adopt(root)

    def _adopt(self, path: str) -> None:
        inode = os.stat(path).st_ino
        self.directories[path] = inode
        self.names[inode] = {}
        self.changes[inode] = []
        with os.scandir(path) as entries:
            for entry in entries:
                self.names[inode][entry.name] = entry.inode()
                if entry.is_dir():
                    self._adopt(entry.path)
                else:
                    self.contents[entry.inode()] = _read(entry.path)
        self.durable[inode] = dict(self.names[inode])

    # --- what the system under test does

    def _count(self) -> None:
        self.syncs += 1
        if self.syncs == self.cut_at:
            raise PowerCut

    def sync(self, fd: int) -> None:
        """What fsync and fdatasync do; at number `cut_at` the power is cut instead."""
        self._count()
        found = os.fstat(fd)
        if stat.S_ISDIR(found.st_mode):
            self._sync_names(found.st_ino)
        else:
            # It may be open for writing only.
            self.contents[found.st_ino] = _read(f"/proc/self/fd/{fd}")

    def _sync_names(self, inode: int) -> None:
        self.durable[inode] = dict(self.names[inode])
        self.changes[inode].clear()

    def sync_all(self, path: str) -> None:
        """What syncfs does."""
        self._count()
        for directory, inode in self.directories.items():
            self._sync_names(inode)
            for name, number in self.names[inode].items():
                if f"{directory}/{name}" not in self.directories:
                    self.contents[number] = _read(f"{directory}/{name}")

    def _place(self, path: str | bytes, dir_fd: int | None) -> tuple[int, str] | None:
        """Inode of the directory and name in it; None where that is not ours."""
        path = os.fsdecode(path)
        if dir_fd is not None:
            return os.fstat(dir_fd).st_ino, path
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
        fd = _open(path, flags, mode, dir_fd=dir_fd)
        if flags & os.O_CREAT and (place := self._place(path, dir_fd)) and place[1] not in self.names[place[0]]:
            self._change(place[0], None, place[1], os.fstat(fd).st_ino)
        return fd

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        _mkdir(path, mode, dir_fd=dir_fd)
        if place := self._place(path, dir_fd):
            inode = os.stat(path).st_ino
            self._change(place[0], None, place[1], inode)
            self.directories[path] = inode
            self.names[inode], self.durable[inode], self.changes[inode] = {}, {}, []

    def rename(self, old: Any, new: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        _replace(old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        source, target = self._place(old, src_dir_fd), self._place(new, dst_dir_fd)
        if source is None and target is None:
            return
        assert source is not None
        assert target is not None
        assert source[0] == target[0], f"{old} goes to another directory, {new}"
        assert old not in self.directories, f"{old} is a directory"
        self._change(source[0], source[1], target[1], self.names[source[0]][source[1]])

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        _unlink(path, dir_fd=dir_fd)
        if place := self._place(path, dir_fd):
            self._change(place[0], place[1], None, self.names[place[0]][place[1]])

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Take the place of the system calls that change names or sync."""
        ours: list[tuple[Any, str, Any]] = [
            (os, "fsync", self.sync),
            (os, "fdatasync", self.sync),
            (disk, "sync_filesystem", self.sync_all),
            (os, "open", self.open),
            (os, "mkdir", self.mkdir),
            (os, "rename", self.rename),
            (os, "replace", self.rename),
            (os, "unlink", self.unlink),
        ]
        before = [getattr(module, name) for module, name, _ in ours]
        for module, name, mine in ours:
            setattr(module, name, mine)
        try:
            yield
        finally:
            for (module, name, _), old in zip(ours, before, strict=True):
                setattr(module, name, old)

    # --- what becomes of it

    def cut(self) -> None:
        """Leave in the directory what a start after a power cut might find. What is there then is durable."""
        self._cut_directory(self.root)

    def _cut_directory(self, path: str) -> None:
        inode = self.directories[path]
        now = self.names[inode]
        assert sorted(now) == sorted(os.listdir(path)), f"names in {path} changed without being seen"
        left = self._left(inode)
        places = {number: name for name, number in now.items()}
        files: dict[str, bytes] = {}
        changed: set[str] = set()
        for name, number in left.items():
            if f"{path}/{name}" not in self.directories:
                found = _read(f"{path}/{places[number]}") if number in places else None
                files[name] = self._cut_content(number, found)
                if now.get(name) != number or files[name] != found:
                    changed.add(name)
        for name in sorted(now.keys() - files.keys()):
            if f"{path}/{name}" in self.directories:
                self._keep_directory(f"{path}/{name}", name in left)
            else:
                _unlink(f"{path}/{name}")
        for name, content in files.items():
            if name in changed:
                fd = _open(f"{path}/{name}.cut", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
                os.write(fd, content)
                left[name] = os.fstat(fd).st_ino
                os.close(fd)
                _replace(f"{path}/{name}.cut", f"{path}/{name}")
            self.contents[left[name]] = content
        self.names[inode] = left
        self._sync_names(inode)

    def _keep_directory(self, path: str, kept: bool) -> None:
        if kept:
            self._cut_directory(path)
            return
        inode = self.directories.pop(path)
        for name in self.names.pop(inode):
            _unlink(f"{path}/{name}")
        os.rmdir(path)
        del self.durable[inode], self.changes[inode]

    def _left(self, inode: int) -> dict[str, int]:
        """The names that are found in a directory."""
        left = dict(self.durable[inode])
        changes = self.changes[inode]
        if self.draw.random() < 0.6:
            # As likely all or none as anything between.
            happened = self.draw.choice([0, len(changes), self.draw.randint(0, len(changes))])
            for gone, came, number in changes[:happened]:
                if gone is not None:
                    del left[gone]
                if came is not None:
                    left[came] = number
            return left
        before = set(left.values())
        for name, number in self.names[inode].items():
            if number not in before and self.draw.random() < 0.5:
                left[name] = number
        return left

    def _cut_content(self, inode: int, written: bytes | None) -> bytes:
        """`written` is None where the file has no name any more."""
        durable = self.contents.get(inode, b"")
        if written is None or written == durable:
            return durable
        shorter, longer = sorted((len(durable), len(written)))
        between = max(self.draw.randint(shorter, longer) // SECTOR_BYTES * SECTOR_BYTES, shorter)
        size = self.draw.choice([len(durable), len(written), between])
        # All, none or any of what was written: each is likely enough to be seen.
        share = self.draw.choice([0.0, 1.0, 0.5, 0.9])
        if share == 1.0 and size == len(written):
            return written
        # What was only appended to has one content up to there.
        at = min(len(durable), size) // SECTOR_BYTES * SECTOR_BYTES if written.startswith(durable) else 0
        out = bytearray(written[:at])
        out += bytes(size - at)
        for start in range(at, size, SECTOR_BYTES):
            source = written if self.draw.random() < share else durable
            part = source[start : min(start + SECTOR_BYTES, size)]
            out[start : start + len(part)] = part
        return bytes(out)
