"""A disk that loses power: a directory in memory, and a copy of it in which everything not synced is lost or torn.

The system under test works on real files of a tmpfs. Each fsync and fdatasync of this process notes what is durable
from then on: the content of that file, or the names in that directory. `cut` writes the tree that a start after a power
cut might find: durable content and names are there; of what came later, each change of a name and each 64 bytes of a
file may be there or not. A file may have grown without its bytes: then they are zeros.
"""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from broker_cy.storage import disk

SECTOR_BYTES = 64


class PowerCut(BaseException):
    """The machine stops here."""


class Disk:
    """Watches the files below `root`, which has to be empty and on a file system that does not use inodes again."""

    def __init__(self, root: str, draw: random.Random) -> None:
        self.root = root
        self.draw = draw
        # By inode: content of files, names of directories.
        self.contents: dict[int, bytes] = {}
        self.names: dict[int, dict[str, int]] = {}
        self.directories: set[int] = set()
        self.syncs = 0
        self.cut_at = -1
        self.names[os.stat(root).st_ino] = {}

    def sync(self, fd: int) -> None:
        """What fsync and fdatasync do; at number `cut_at` the power is cut instead."""
        self.syncs += 1
        if self.syncs == self.cut_at:
            raise PowerCut
        found = os.fstat(fd)
        path = os.readlink(f"/proc/self/fd/{fd}")
        if stat.S_ISDIR(found.st_mode):
            self.names[found.st_ino] = self._names(path)
        else:
            with open(f"/proc/self/fd/{fd}", "rb") as file:
                self.contents[found.st_ino] = file.read()

    def sync_all(self, path: str) -> None:
        """What syncfs does."""
        self.syncs += 1
        if self.syncs == self.cut_at:
            raise PowerCut
        for directory, _, files in os.walk(path):
            self.names[os.stat(directory).st_ino] = self._names(directory)
            for name in files:
                with open(f"{directory}/{name}", "rb") as file:
                    self.contents[os.fstat(file.fileno()).st_ino] = file.read()

    def _names(self, path: str) -> dict[str, int]:
        with os.scandir(path) as entries:
            found = {}
            for entry in entries:
                found[entry.name] = entry.inode()
                if entry.is_dir():
                    self.directories.add(entry.inode())
        return found

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Take the place of the sync calls."""
        before: tuple[Callable[..., None], ...] = (os.fsync, os.fdatasync, disk.sync_filesystem)
        os.fsync, os.fdatasync, disk.sync_filesystem = self.sync, self.sync, self.sync_all  # type: ignore[assignment]
        try:
            yield
        finally:
            os.fsync, os.fdatasync, disk.sync_filesystem = before

    def cut(self, target: str) -> None:
        """Write what is left to `target`, a directory that is made; the tree there is durable as a whole."""
        self._cut_directory(os.stat(self.root).st_ino, self.root, target)

    def _cut_directory(self, inode: int, path: str | None, target: str) -> None:
        """`path` is where the directory is now; None where it is gone."""
        os.mkdir(target)
        old = self.names.get(inode, {})
        new = self._names(path) if path is not None else {}
        places = {number: f"{path}/{name}" for name, number in new.items()}
        names = sorted({*old, *new})
        # A rename is one change: both names of a file are as before, or as after. Journals keep the order of changes,
        # of which this much is kept here: nothing goes before all that was made, and older segments go first.
        made = [new[name] for name in names if name in new and new[name] not in old.values()]
        gone = [old[name] for name in names if name in old and old[name] not in made and new.get(name) != old[name]]
        all_made = self.draw.random() < 0.5
        happened = {number: all_made or self.draw.random() < 0.5 for number in made}
        left = self.draw.randint(0, len(gone)) if all_made else 0
        happened.update((number, at < left) for at, number in enumerate(dict.fromkeys(gone)))
        for name in names:
            before, after = old.get(name), new.get(name)
            if before != after:
                if after is not None and happened.get(after):
                    before = after
                elif before is not None and after is None and happened.get(before):
                    before = None
            if before is None:
                continue
            if before in self.directories:
                self._cut_directory(before, places.get(before), f"{target}/{name}")
            else:
                with open(f"{target}/{name}", "wb") as file:
                    file.write(self._cut_content(before, places.get(before)))

    def _cut_content(self, inode: int, path: str | None) -> bytes:
        durable = self.contents.get(inode, b"")
        if path is None:
            return durable
        with open(path, "rb") as file:
            written = file.read()
        if written == durable:
            return durable
        between = self.draw.randint(*sorted((len(durable), len(written)))) // SECTOR_BYTES * SECTOR_BYTES
        size = self.draw.choice([len(durable), len(written), max(between, min(len(durable), len(written)))])
        out = bytearray(size)
        # All, none or any of what was written: each is likely enough to be seen.
        share = self.draw.choice([0.0, 1.0, 0.5, 0.9])
        for at in range(0, size, SECTOR_BYTES):
            source = written if self.draw.random() < share else durable
            part = source[at : min(at + SECTOR_BYTES, size)]
            out[at : at + len(part)] = part
        return bytes(out)
