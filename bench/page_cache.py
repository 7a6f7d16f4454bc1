"""Deliberately cold reads: files are written to disk and dropped from the page cache."""

import os
from pathlib import Path


def evict(directory: Path) -> None:
    """Sync every file below `directory` to disk and drop it from the page cache. Raises OSError."""
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)
