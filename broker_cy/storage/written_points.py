"""Written points: up to where each log is complete while this machine runs, even if the broker's process is killed.

What a process wrote lies in the page cache, which a killed process leaves behind and a power loss does not. So a note
of how far a log was written, with its indexes and its producer state, says after a kill what a recovery point says
after any crash, and costs no sync. It holds until the machine starts again: the file begins with the kernel's boot id.

Nor does it hold for a copy of the files: a directory that was restored on the same boot has what was read from disk or
from a snapshot while it was copied, not what the page cache had. So the file says which file it is, by device and
inode, which no copy has; the state of producers that a point needs says the same (storage.noted_state), as a single
partition may be restored, too. Where a device has another number after it was mounted again a start reads more than
it needs to.

`written-point-offset-checkpoint`, beside Kafka's checkpoints in each data directory: boot id, device and inode in a
line, then the text of a checkpoint (storage.checkpoints). Kafka ignores it.
"""

import logging
import os
from collections.abc import Mapping
from uuid import UUID

from broker_cy.core.logs import facts
from broker_cy.storage.atomic import read_whole, write_atomically
from broker_cy.storage.checkpoints import SIZE_MAX_BYTES, Entries, TopicPartition, decode_entries, encode_offsets

WRITTEN_POINTS = "written-point-offset-checkpoint"
BOOT_ID = "/proc/sys/kernel/random/boot_id"

logger = logging.getLogger(__name__)


def boot_id() -> bytes:
    """What no other start of this machine has; empty if the kernel does not tell."""
    try:
        with open(BOOT_ID, "rb") as file:
            return file.read(100).strip()
    except OSError:
        return b""


def _origin(found: os.stat_result) -> bytes:
    """First line of the file that `found` is of; empty if the kernel does not tell its boot id."""
    booted = boot_id()
    return b"%s %d %d" % (booted, found.st_dev, found.st_ino) if booted else b""


def read_points(path: str) -> Entries:
    """The points; none where the file is missing, damaged, a copy, or of before the machine's start."""
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
    """Whether the machine is known not to have started again since the file was written, here: what was written since
    then lay in the page cache all the time.
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
