"""Prepares the page cache for a measurement: no file data for cold reads, and free memory for written files."""

import os
from pathlib import Path

PIECE_BYTES = 1 << 20  # written at once


def evict(directory: Path) -> None:
    """Sync every file below `directory` to disk and drop it from the page cache. Raises OSError."""
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def provide(directory: Path, size_bytes: int) -> None:
    """Make the machine allocate memory for this many bytes of files, which the next writes use. Raises OSError.

    The host of a virtual machine gives it memory page by page when it is first used: writes into such pages were 15
    times as slow as later ones, and would dominate a measurement of writes.
    """
    path = directory / "bench-memory"
    piece = bytes(PIECE_BYTES)
    try:
        with open(path, "wb", buffering=0) as file:
            for _ in range(-(-size_bytes // PIECE_BYTES)):
                file.write(piece)
    finally:
        path.unlink(missing_ok=True)
