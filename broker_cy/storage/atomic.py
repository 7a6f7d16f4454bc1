"""Small files that are replaced as a whole."""

import os
from collections.abc import Callable
from contextlib import suppress


def sync_directory(path: str) -> None:
    """Sync directory `path`, so that created, renamed and removed names survive a power loss; raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_atomically(
    path: str,
    data: bytes | Callable[[int], bytes],
    *,
    sync: bool,
    sync_name: bool = True,
    dir_fd: int | None = None,
) -> None:
    """Replace the file by `data`. A reader, or a start after a crash of this process, finds the old or the new file,
    complete.

    With `sync` that also holds after a power loss, and, unless `sync_name` is false, it is the new file; the call then
    blocks for the disk: use a worker thread.
    With `dir_fd`, a descriptor of a directory, `path` is a name in it. `data` may be a function that makes the content
    from a descriptor of the new file. Raises OSError.
    """
    temporary = path + ".tmp"
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644, dir_fd=dir_fd)
        try:
            view = memoryview(data if isinstance(data, bytes) else data(fd))
            while view:
                view = view[os.write(fd, view) :]
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=dir_fd)
        raise
    if not sync or not sync_name:
        return
    if dir_fd is not None:
        os.fsync(dir_fd)
    else:
        sync_directory(os.path.dirname(path) or ".")


def read_whole(path: str, size_max_bytes: int) -> bytes:
    """Content of a small file, at most `size_max_bytes`; raises OSError, ValueError if it is larger."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        if size > size_max_bytes:
            raise ValueError(f"{path} is larger than {size_max_bytes} bytes")
        data = os.read(fd, size)
        while len(data) < size:
            more = os.read(fd, size - len(data))
            if not more:
                break
            data += more
    finally:
        os.close(fd)
    return data
