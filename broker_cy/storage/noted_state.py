"""Producer state at the written point: two files in a partition's directory, written in turn and in place.

A note is made about every second, for thousands of logs. Creating a file and removing the previous one costs far more
than writing its content, and waits for the disk if the file system discards freed blocks immediately. So it has two
slots: the written-point checkpoint refers to one while the other is written. A slot holds the offset (int64), device
and inode of the file (uint64 each), and the snapshot taken at that offset. A slot that was torn by a kill is not the
one that the checkpoint refers to, and a slot in a copied file is not accepted. A slot that a new process finds, but
does not use, may describe records that no longer exist, so the first note empties the other slot. Kafka ignores these
files.
"""

import logging
import os
import struct
from collections.abc import Iterable
from contextlib import suppress

from broker_cy.core.errors import WireError
from broker_cy.core.logs import facts
from broker_cy.storage.atomic import read_whole
from broker_cy.storage.producer_state import ProducerState
from broker_cy.storage.snapshots import SIZE_MAX_BYTES

logger = logging.getLogger(__name__)

NAME = "written-point-producers"
SLOTS = 2
NOTHING = -1  # instead of an offset
_OFFSET = struct.Struct(">q")
_HEADER = struct.Struct(">qQQ")


def path_of(directory: str, slot: int) -> str:
    """Path of one of the SLOTS."""
    return f"{directory}/{NAME}.{slot}"


def _open(directory: str | int, slot: int, flags: int) -> int:
    """Open a slot for writing; return its descriptor. `directory` is a path, or a descriptor of the directory."""
    if isinstance(directory, int):
        return os.open(f"{NAME}.{slot}", flags | os.O_WRONLY | os.O_CLOEXEC, 0o644, dir_fd=directory)
    return os.open(path_of(directory, slot), flags | os.O_WRONLY | os.O_CLOEXEC, 0o644)


def write(directory: str | int, slot: int, offset: int, data: bytes) -> None:
    """Write the snapshot taken at `offset`, without a sync; raises OSError."""
    fd = _open(directory, slot, os.O_CREAT)
    try:
        found = os.fstat(fd)
        size = found.st_size
        view = memoryview(_HEADER.pack(offset, found.st_dev, found.st_ino) + data)
        length, at = len(view), 0
        while at < length:
            at += os.pwrite(fd, view[at:], at)
        if size > length:
            os.ftruncate(fd, length)
    finally:
        os.close(fd)


def read(directory: str, offset: int) -> tuple[int, bytes] | None:
    """The slot that holds the snapshot taken at `offset`, and the snapshot; None if neither slot holds it."""
    for slot in range(SLOTS):
        with suppress(OSError, ValueError):
            if _is_of(path_of(directory, slot), offset):
                return slot, read_whole(path_of(directory, slot), SIZE_MAX_BYTES)[_HEADER.size :]
    return None


def has(directory: str, offset: int) -> bool:
    """Whether a slot was written for `offset` in this directory; its content may still be damaged."""
    for slot in range(SLOTS):
        with suppress(OSError):
            if _is_of(path_of(directory, slot), offset):
                return True
    return False


def _is_of(path: str, offset: int) -> bool:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        return os.pread(fd, _HEADER.size, 0) == _HEADER.pack(offset, found.st_dev, found.st_ino)
    finally:
        os.close(fd)


def load(producers: ProducerState, directory: str, offset: int, now_ms: int, expiration_ms: int) -> int:
    """Load the snapshot taken at `offset` into `producers`; return its slot, or -1 if it is missing or damaged. The
    content of `producers` is not valid then.
    """
    found = read(directory, offset)
    if found is None:
        return -1
    slot, data = found
    try:
        producers.load(data, offset, now_ms, expiration_ms)
    except (WireError, ValueError) as error:
        logger.warning("ignored damaged producer state", extra=facts(path=path_of(directory, slot), reason=error))
        return -1
    return slot


def forget(directory: str | int, slots: Iterable[int] = range(SLOTS)) -> None:
    """Empty the slots, because their content is no longer true, or not known to be true. Raises OSError."""
    for slot in slots:
        with suppress(FileNotFoundError):
            fd = _open(directory, slot, 0)
            try:
                os.pwrite(fd, _OFFSET.pack(NOTHING), 0)
            finally:
                os.close(fd)
