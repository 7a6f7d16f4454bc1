"""Private files: they are read only if other users cannot read them, and replaced as a whole.

Every file here has mode 0600. A new content is written to a new file, synced and renamed, so that a reader, or a start
after a power loss, finds the old or the new file, complete. The descriptor that is read is the one whose mode was
checked.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from broker_cy.client.errors import ClientError, Failure

PRIVATE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700
# For how long a command waits for another one that changes the same file; such a change takes milliseconds.
LOCK_TIMEOUT_S: Final = 10.0
_LOCK_RETRY_S: Final = 0.02


def invalid(path: Path, reason: str) -> ClientError:
    """Return the error that names the file and the reason."""
    return ClientError(Failure.INVALID, reason, what=str(path))


def unreadable(path: Path, error: OSError) -> ClientError:
    return invalid(path, f"cannot be read: {error.strerror}")


def check_private(path: Path, status: os.stat_result) -> None:
    """Raise ClientError if other users can read or change the file."""
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISREG(status.st_mode):
        raise invalid(path, "is not a regular file")
    if mode & 0o077:
        raise invalid(path, f"has mode {mode:04o}, so other users can access it: run chmod 600 {path}")
    if status.st_uid not in (0, os.geteuid()):
        raise invalid(path, f"belongs to user id {status.st_uid}; allowed are {os.geteuid()} and 0")


def read_private(path: Path, size_max_bytes: int) -> tuple[bytes, os.stat_result]:
    """Return the content of a private file and its status. Raises ClientError, which gives the reason."""
    try:
        # Without O_NONBLOCK, opening a FIFO would wait for its writer.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise unreadable(path, error) from None
    try:
        status = os.fstat(fd)
        check_private(path, status)
        data = b""
        while len(data) <= size_max_bytes and (part := os.read(fd, size_max_bytes + 1 - len(data))):
            data += part
    except OSError as error:
        raise unreadable(path, error) from None
    finally:
        os.close(fd)
    if len(data) > size_max_bytes:
        raise invalid(path, f"has more than {size_max_bytes:,} bytes")
    return data, status


def _write_new(path: Path, data: bytes) -> Path:
    """Write `data` to a new file beside `path`, sync it and return its path."""
    new = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns():x}.new")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE_MODE)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    except OSError:
        with suppress(OSError):
            os.unlink(new)
        raise
    finally:
        os.close(fd)
    return new


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_private(path: Path, data: bytes) -> None:
    """Replace the file by `data`, with mode 0600. Blocks for the disk. Raises ClientError if that fails."""
    try:
        new = _write_new(path, data)
        try:
            os.replace(new, path)
        except OSError:
            os.unlink(new)
            raise
        _sync_directory(path.parent)
    except OSError as error:
        raise invalid(path, f"cannot be written: {error.strerror}") from None


def create_private(path: Path, data: bytes) -> bool:
    """Create the file with `data`; return False, without a change, if it exists. Raises ClientError."""
    try:
        new = _write_new(path, data)
        try:
            # Unlike a rename, a link does not replace the file of another process that was faster.
            os.link(new, path)
        except FileExistsError:
            return False
        finally:
            os.unlink(new)
        _sync_directory(path.parent)
    except OSError as error:
        raise invalid(path, f"cannot be created: {error.strerror}") from None
    return True


def make_private_directory(path: Path) -> None:
    """Create the directory with mode 0700 if it does not exist. Raises ClientError if others can change its content."""
    try:
        path.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        status = path.stat()
    except OSError as error:
        raise invalid(path, f"cannot be used as a directory: {error.strerror}") from None
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o022:
        raise invalid(path, f"has mode {mode:04o}, so other users can change its files: run chmod 700 {path}")
    if status.st_uid not in (0, os.geteuid()):
        raise invalid(path, f"belongs to user id {status.st_uid}; allowed are {os.geteuid()} and 0")


@contextmanager
def locked(path: Path, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Hold the lock `path`.lock, which serializes changes of the file `path`, also between processes.

    The lock is a file of its own, because the file itself is replaced. Raises ClientError after `timeout_s` (0: at
    once) if another process holds the lock.
    """
    fd = take_lock(path.with_name(path.name + ".lock"), path, timeout_s)
    try:
        yield
    finally:
        os.close(fd)


def take_lock(lock: Path, what: Path, timeout_s: float) -> int:
    """Return a descriptor that holds the lock until it is closed. Raises ClientError about `what`."""
    try:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE_MODE)
    except OSError as error:
        raise invalid(lock, f"cannot be opened: {error.strerror}") from None
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return fd
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(fd)
                raise invalid(what, "is in use by another process") from None
        except OSError as error:
            os.close(fd)
            raise invalid(lock, f"cannot be locked: {error.strerror}") from None
        time.sleep(_LOCK_RETRY_S)
