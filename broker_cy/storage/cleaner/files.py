"""The cleaner's file operations in one partition's directory. A test can make any of them the last before a crash.

They use a descriptor of the directory, not its name: if a topic is deleted while it is cleaned, its directory is
renamed, and another topic may have the name by the time a worker writes its next file.
"""

from __future__ import annotations

import os
from contextlib import suppress

from broker_cy.storage.segment_files import DATA_SUFFIXES

# The suffixes of a file while it is written, when it is complete, and before it is deleted.
CLEANED, SWAP, DELETED = ".cleaned", ".swap", ".deleted"


def file_name(base_offset: int, suffix: str) -> str:
    """Name of a segment's file."""
    return f"{base_offset:020d}{suffix}"


class DirectoryFiles:
    """The files in `path`. Every method raises OSError. The creator has to close it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        """Close the directory; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def open(self, name: str) -> int:
        """Open `name` for reading; return its descriptor."""
        return os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._fd)

    def create(self, name: str) -> int:
        """Create `name` as an empty file, in place of an existing one; return a descriptor for writing."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        return os.open(name, flags, 0o644, dir_fd=self._fd)

    def write(self, fd: int, data: memoryview | bytes, position: int) -> None:
        """Write all of `data` at `position`."""
        view = memoryview(data)
        while view:
            written = os.pwrite(fd, view, position)
            position += written
            view = view[written:]

    def sync(self, fd: int) -> None:
        """Sync a file."""
        os.fdatasync(fd)

    def set_modified(self, fd: int, modified_ns: int) -> None:
        """Set the modification time of a file."""
        os.utime(fd, ns=(modified_ns, modified_ns))

    def rename(self, old: str, new: str) -> None:
        """Rename the file `old` to `new`, replacing an existing file."""
        os.rename(old, new, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def unlink(self, name: str) -> None:
        """Remove a file."""
        os.unlink(name, dir_fd=self._fd)

    def sync_directory(self) -> None:
        """Sync the names in the directory."""
        os.fsync(self._fd)

    def rename_segment(self, base_offset: int, old_mark: str, new_mark: str) -> list[str]:
        """Rename the existing files of a segment; return their new names."""
        renamed = []
        for suffix in DATA_SUFFIXES:
            name = file_name(base_offset, suffix)
            try:
                self.rename(name + old_mark, name + new_mark)
            except FileNotFoundError:
                continue
            renamed.append(name + new_mark)
        return renamed

    def discard(self, base_offset: int, mark: str) -> None:
        """Remove the files of a segment that was begun and is not needed; the next start removes those that cannot be
        removed now.
        """
        # The log file is removed last, since the next start would put indexes in place even without it.
        for suffix in reversed(DATA_SUFFIXES):
            with suppress(OSError):
                self.unlink(file_name(base_offset, suffix) + mark)
