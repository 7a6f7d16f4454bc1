"""The state of the simulated disk of tests/support/power.py after a power cut.

Durable data is kept. Later changes are partly lost:

- the changes of names in a directory (created, renamed, removed) took effect up to one of them, as in a journal; or
  only some of the created files exist, in any order, and no other change took effect, as when single files are written
  to disk before the journal is;
- each 64 bytes of a file may be written or not, and it may have grown without its bytes: then they are zeros.

A directory that was renamed or removed may be back under its old name, with its durable content. If only the process
ends, nothing is lost, and a later power cut may lose earlier unsynced data.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.power import Disk

SECTOR_BYTES = 64

# A name that was removed, a name that was added, and the inode that they refer (or referred) to.
Change = tuple[str | None, str | None, int]
# Parts of a file's content, by position.
Sectors = dict[int, bytes]


def read_file(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, os.fstat(fd).st_size)
    finally:
        os.close(fd)


def torn(draw: random.Random, durable: bytes, written: bytes) -> bytes:
    """A possible content on disk of a file that was synced when it held `durable`, and now holds `written`."""
    if written == durable:
        return durable
    shorter, longer = sorted((len(durable), len(written)))
    between = max(draw.randint(shorter, longer) // SECTOR_BYTES * SECTOR_BYTES, shorter)
    size = draw.choice([len(durable), len(written), between])
    # All, none or part of the written bytes: each is likely enough to occur.
    share = draw.choice([0.0, 1.0, 0.5, 0.9])
    if share == 1.0 and size == len(written):
        return written
    # A file that was only appended to has the same content in both up to here.
    at = min(len(durable), size) // SECTOR_BYTES * SECTOR_BYTES if written.startswith(durable) else 0
    out = bytearray(written[:at])
    out += bytes(size - at)
    for start in range(at, size, SECTOR_BYTES):
        source = written if draw.random() < share else durable
        part = source[start : min(start + SECTOR_BYTES, size)]
        out[start : start + len(part)] = part
    return bytes(out)


def sectors(content: bytes) -> Sectors:
    """Sectors by position."""
    return {at: content[at : at + SECTOR_BYTES] for at in range(0, len(content), SECTOR_BYTES)}


def overlay(written: bytes, dropped: Sectors, durable: bytes) -> bytes:
    """`written`, except that the sectors with the content that the kernel dropped are as on disk."""
    out = bytearray(written)
    for at, sector in dropped.items():
        if written[at : at + SECTOR_BYTES] == sector:
            out[at : at + len(sector)] = durable[at : at + len(sector)].ljust(len(sector), b"\0")
    return bytes(out)


def evict(disk: Disk) -> None:
    """Give the files whose sync failed the content that a read from disk returns."""
    for directory, inode in disk.directories.items():
        for name, number in disk.names[inode].items():
            if number in disk.dropped:
                path = f"{directory}/{name}"
                written = read_file(path)
                content = disk.reachable(number, written)
                if content != written:
                    fd = os.open(path, os.O_WRONLY)
                    os.pwrite(fd, content, 0)
                    os.close(fd)


def cut(disk: Disk) -> None:
    """Change everything below the root of the disk to a state that a start might find, and make that durable."""
    root = disk.root
    left = _left(disk, disk.directories[root])
    found = {path.rpartition("/")[2]: inode for path, inode in disk.directories.items() if path != root}
    for name, inode in found.items():
        if inode not in left.values():
            _remove_directory(disk, name)
    # Through temporary names: two directories may have had the same name at different times.
    moved = {inode: name for name, inode in found.items() if inode in left.values() and left.get(name) != inode}
    for inode, name in moved.items():
        os.rename(f"{root}/{name}", f"{root}/{inode}.moved")
        del disk.directories[f"{root}/{name}"]
    for name, inode in list(left.items()):
        if inode in moved:
            os.rename(f"{root}/{inode}.moved", f"{root}/{name}")
            disk.directories[f"{root}/{name}"] = inode
        elif inode in disk.names and inode not in found.values():
            left[name] = _bring_back(disk, name, inode)
    gone = disk.names.keys() - disk.directories.values()
    _cut_files(disk, root, left)
    for path, inode in list(disk.directories.items()):
        if path != root:
            _cut_files(disk, path, _left(disk, inode))
    for inode in gone:
        del disk.names[inode], disk.durable[inode], disk.changes[inode]


def _remove_directory(disk: Disk, name: str) -> None:
    path = f"{disk.root}/{name}"
    for file in disk.names[disk.directories.pop(path)]:
        os.unlink(f"{path}/{file}")
    os.rmdir(path)


def _bring_back(disk: Disk, name: str, inode: int) -> int:
    """Recreate a removed directory. Returns its inode."""
    path = f"{disk.root}/{name}"
    os.mkdir(path)
    new = os.stat(path).st_ino
    disk.add_directory(path, new)
    disk.durable[new], disk.changes[new] = disk.durable[inode], disk.changes[inode]
    disk.names[new] = disk.names[inode]
    assert not disk.names[new]
    return new


def _cut_files(disk: Disk, path: str, left: dict[str, int]) -> None:
    """Make the directory `path` hold the names `left`, the files with content that they may have after the cut."""
    inode = disk.directories[path]
    now = {name: number for name, number in disk.names[inode].items() if number not in disk.names}
    there = [name for name in os.listdir(path) if f"{path}/{name}" not in disk.directories]
    assert sorted(now) == sorted(there), f"names in {path} changed without being seen"
    places = {number: name for name, number in now.items()}
    contents: dict[str, bytes] = {}
    changed: set[str] = set()
    for name, number in left.items():
        if f"{path}/{name}" in disk.directories:
            continue
        found = read_file(f"{path}/{places[number]}") if number in places else None
        durable = disk.contents.get(number, b"")
        # A file that no longer has a name has the content of its last sync.
        contents[name] = durable if found is None else torn(disk.draw, durable, disk.reachable(number, found))
        if now.get(name) != number or contents[name] != found:
            changed.add(name)
    for name in now.keys() - contents.keys():
        os.unlink(f"{path}/{name}")
    for name, content in contents.items():
        if name in changed:
            fd = os.open(f"{path}/{name}.cut", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            os.write(fd, content)
            left[name] = os.fstat(fd).st_ino
            os.close(fd)
            os.replace(f"{path}/{name}.cut", f"{path}/{name}")
        disk.contents[left[name]] = content
    disk.names[inode] = left
    disk.sync_names(inode)


def _left(disk: Disk, inode: int) -> dict[str, int]:
    """The names that a start after the cut finds in a directory."""
    draw = disk.draw
    left = dict(disk.durable[inode])
    changes = disk.changes[inode]
    if draw.random() < 0.6:
        # All or none are as likely as any number between.
        happened = draw.choice([0, len(changes), draw.randint(0, len(changes))])
        for gone, came, number in changes[:happened]:
            if gone is not None:
                del left[gone]
            if came is not None:
                left[came] = number
        return left
    before = set(left.values())
    for name, number in disk.names[inode].items():
        if number not in before and draw.random() < 0.5:
            left[name] = number
    return left
