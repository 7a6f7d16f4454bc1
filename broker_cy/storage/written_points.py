"""Written points: the end offset of each log's part that is complete as long as this machine runs, even if the broker's
process is killed.

Data that a process wrote is in the page cache, which survives a kill of the process, but not a power loss. So a note of
the written end of a log, of its indexes and its producer state, serves after a kill as a recovery point does after any
crash, and needs no sync. It is valid until the machine is restarted: the file begins with the kernel's boot id.

It is not valid for a copy of the files either: a directory that was restored during the same boot has the content that
was read from disk or from a snapshot during the copy, not the content of the page cache. So the file contains its own
device and inode, which no copy has; so does the producer state that a point needs (storage.noted_state), since a single
partition may be restored, too. If a device has another number after it was mounted again, a start reads more than it
needs to.

The file is `written-point-offset-checkpoint`, next to Kafka's checkpoints in each data directory: boot id, device and
inode in one line, then the text of a checkpoint (storage.checkpoints). Kafka ignores it.

`running-broker-epoch` is a similar file, with the broker's current epoch after the same line: storage.last_end.
"""

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from uuid import UUID

from broker_cy.core.logs import facts
from broker_cy.storage.atomic import read_whole, write_atomically
from broker_cy.storage.checkpoints import SIZE_MAX_BYTES, Entries, TopicPartition, decode_entries, encode_offsets

WRITTEN_POINTS = "written-point-offset-checkpoint"
RUNNING_EPOCH = "running-broker-epoch"
BOOT_ID = "/proc/sys/kernel/random/boot_id"

logger = logging.getLogger(__name__)


def boot_id() -> bytes:
    """An id that is unique to this boot of the machine; empty if the kernel does not provide it."""
    try:
        with open(BOOT_ID, "rb") as file:
            return file.read(100).strip()
    except OSError:
        return b""


def _origin(found: os.stat_result) -> bytes:
    """First line of the file whose status is `found`; empty if the kernel does not provide its boot id."""
    booted = boot_id()
    return b"%s %d %d" % (booted, found.st_dev, found.st_ino) if booted else b""


def read_points(path: str) -> Entries:
    """The points; none if the file is missing, damaged, a copy, or older than the start of the machine."""
    try:
        data = read_whole(path, SIZE_MAX_BYTES)
        origin = _origin(os.stat(path))
    except FileNotFoundError:
        return Entries({}, {})
    first, _, rest = data.partition(b"\n")
    if not first or first != origin:
        return Entries({}, {})
    try:
        return decode_entries(rest, path)
    except ValueError as error:
        logger.warning("ignored damaged written points", extra=facts(reason=error))
        return Entries({}, {})


def is_same_boot(path: str) -> bool:
    """Whether the machine is known not to have restarted since the file, not a copy, was written: everything written
    since then was in the page cache all the time.
    """
    try:
        first, _, _ = read_whole(path, SIZE_MAX_BYTES).partition(b"\n")
        return first != b"" and first == _origin(os.stat(path))
    except (OSError, ValueError):
        return False


def write_points(path: str, offsets: Mapping[TopicPartition, int], topic_ids: Mapping[str, UUID] | None = None) -> None:
    """Replace the file, without a sync. `topic_ids` as in Entries. Raises OSError."""
    if boot_id():
        content = encode_offsets(offsets, topic_ids or {})
        write_atomically(path, lambda fd: _origin(os.fstat(fd)) + b"\n" + content, sync=False)


def note_epoch(root: str, epoch: int) -> None:
    """Note, without a sync, that a broker uses the data directory in this epoch of its registration. Raises OSError."""
    if boot_id():
        path = f"{root}/{RUNNING_EPOCH}"
        write_atomically(path, lambda fd: b"%s\n%d\n" % (_origin(os.fstat(fd)), epoch), sync=False)


def forget_epoch(root: str) -> None:
    """Remove the note: this process has lost records that it acknowledged. Raises OSError."""
    with suppress(FileNotFoundError):
        os.unlink(f"{root}/{RUNNING_EPOCH}")


def noted_epoch(root: str) -> int:
    """The epoch that the last process noted here, if the machine has run since; else -1."""
    path = f"{root}/{RUNNING_EPOCH}"
    if not is_same_boot(path):
        return -1
    try:
        return int(read_whole(path, SIZE_MAX_BYTES).split(b"\n")[1])
    except (OSError, ValueError, IndexError):
        return -1
