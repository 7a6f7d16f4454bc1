"""The exceptions of storage."""

import errno

from broker_cy.core.errors import ErrorCode, KafkaError

# Errors that may be temporary: the disk is full, or descriptors or memory are exhausted.
SHORTAGES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM})


# Errors of a disk, or of a file system that has shut down, on which the next attempt will hardly succeed.
DISK_FAILURES = frozenset({errno.EIO, errno.EROFS, errno.ENODEV, errno.ENXIO, errno.EUCLEAN})
# Errors of a path below a directory that was removed, unmounted or given other permissions. A file that this process
# has just renamed or removed causes ENOENT as well.
GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ESTALE, errno.ENOTCONN})


class OffsetOutOfRange(KafkaError):
    """A read below the log start offset or above the log end offset."""

    def __init__(self, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} is outside of the log: expected {log_start_offset} to {log_end_offset}",
        )
        self.offset = offset


class StorageError(KafkaError):
    """A file of a log cannot be read or written, or has invalid contents."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class CorruptSegment(StorageError):
    """A segment file contains something that is not a record batch, at byte `position`."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path} is corrupt at byte {position}: {reason}")
        self.path = path
        self.position = position


class ColdRead(Exception):
    """Under `disk.confine_reads`: a lookup needs `size` bytes at `position` of the file `path` that are not in memory.

    This is not an error of the log: a worker thread reads them (`page_cache.warm_path`), then the lookup is repeated.
    """

    def __init__(self, path: str, position: int, size: int) -> None:
        super().__init__(f"{size} bytes at {position} of {path} are not in the page cache")
        self.path = path
        self.position = position
        self.size = size


def errno_of(error: BaseException | None, otherwise: int = errno.EIO) -> int:
    """Return the errno of an OSError, or of the OSError that caused this error; `otherwise` without one."""
    while error is not None:
        if isinstance(error, MemoryError):
            return errno.ENOMEM
        if isinstance(error, OSError) and error.errno:
            return error.errno
        error = error.__cause__
    return otherwise


def rights_advice(error: BaseException) -> str:
    """Return advice for an error of permissions, to be appended to the reason; empty for other errors."""
    if errno_of(error) in (errno.EACCES, errno.EPERM):
        return ": make it readable and writable for the broker's user"
    return ""
