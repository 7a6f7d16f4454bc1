"""Written points: how far each log is whole as long as this machine runs, whatever becomes of the broker's process.

What a process wrote lies in the page cache, which a killed process leaves behind and a power loss does not. So a note
of how far a log was written, with its indexes and its producer state, says after a kill what a recovery point says
after any crash, and costs no sync. It holds until the machine starts again: the file begins with the kernel's boot id.

`written-point-offset-checkpoint`, beside Kafka's checkpoints in each data directory: the boot id in a line, then the
text of a checkpoint (storage.checkpoints). Kafka ignores it.
"""

import logging
from collections.abc import Mapping
from uuid import UUID

from broker_cy.core.logs import facts
from broker_cy.storage.atomic import read_whole, write_atomically
from broker_cy.storage.checkpoints import SIZE_MAX_BYTES, Entries, TopicPartition, decode_entries, encode_offsets

WRITTEN_POINTS = "written-point-offset-checkpoint"
BOOT_ID = "/proc/sys/kernel/random/boot_id"

logger = logging.getLogger(__name__)


def boot_id() -> bytes:
    """What no other start of this machine has; empty where the kernel does not tell."""
    try:
        with open(BOOT_ID, "rb") as file:
            return file.read(100).strip()
    except OSError:
        return b""


def read_points(path: str) -> Entries:
    """The points; none where the file is missing, damaged, or of before the machine's start."""
    try:
        data = read_whole(path, SIZE_MAX_BYTES)
    except FileNotFoundError:
        return Entries({}, {})
    booted, _, rest = data.partition(b"\n")
    if not booted or booted != boot_id():
        return Entries({}, {})
    try:
        return decode_entries(rest, path)
    except ValueError as error:
        logger.warning("damaged written points ignored", extra=facts(reason=error))
        return Entries({}, {})


def is_same_boot(path: str) -> bool:
    """Whether the machine is known not to have started again since the file was written: what was written since then
    lay in the page cache all the time.
    """
    try:
        booted, _, _ = read_whole(path, SIZE_MAX_BYTES).partition(b"\n")
    except (OSError, ValueError):
        return False
    return booted != b"" and booted == boot_id()


def write_points(path: str, offsets: Mapping[TopicPartition, int], topic_ids: Mapping[str, UUID] | None = None) -> None:
    """Replace the file, without a sync. `topic_ids` as in Entries. Raises OSError."""
    booted = boot_id()
    if booted:
        write_atomically(path, booted + b"\n" + encode_offsets(offsets, topic_ids or {}), sync=False)
