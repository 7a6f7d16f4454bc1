"""The damage note in a partition's directory: known damage is remembered across restarts.

A partition whose files turn out to be damaged goes offline. If that were only in memory, it would be served again
after the next start, which reads only what lies after the recovery point, and producers would write after the damage.
So `damage-note` is written to the directory immediately, and the next start reads the whole log from the disk. If the
log is intact (the file was restored, or a cable was at fault), the note is removed and the partition is served.
Otherwise it stays offline, and no known record is truncated. An operator who accepts the loss removes the note, and
the next start treats the log as after any unclean stop; or deletes the topic. Kafka ignores the file; it has no such
state, and serves the damaged log.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress

from broker_cy.core.classes import NamedTuple
from broker_cy.core.logs import facts
from broker_cy.storage.atomic import read_whole, sync_directory, write_atomically
from broker_cy.storage.disk import sync_file

logger = logging.getLogger(__name__)

FILE_NAME = "damage-note"
SIZE_MAX_BYTES = 64 << 10
REASON_MAX = 1_000
# Third word of a note whose `end_offset` is the end of the log.
END = "end"


class Note(NamedTuple):
    """The known facts when the damage was found: every record before `end_offset` existed, and every record before
    `synced_offset` was on disk. With `is_end`, no record after `end_offset` was acknowledged: a failed write that could
    not be undone left the later bytes in the files.
    """

    end_offset: int
    synced_offset: int
    is_end: bool = False


def write(directory: str, note: Note, reason: str, *, sync: bool = False) -> None:
    """Note damage, unless a note exists. If that fails it is only logged.

    Nothing is written if the directory was removed. Without `sync` the note survives a kill of the process. A power
    loss may lose it, and the next start, which finds the damage again, may take it for a torn write. So a worker calls
    the function `sync` soon. With the parameter `sync` this function blocks for the disk.
    """
    path = f"{directory}/{FILE_NAME}"
    if os.path.exists(path):
        return
    end = f" {END}" if note.is_end else ""
    text = f"{note.end_offset} {note.synced_offset}{end}\n{reason[:REASON_MAX]}\n"
    try:
        write_atomically(path, text.encode(), sync=sync)
    except FileNotFoundError:
        return  # the directory was removed: a start finds nothing in it
    except OSError as error:
        logger.error("could not write a damage note", extra=facts(path=path, reason=error))


def sync(directory: str) -> None:
    """Sync the note, if it exists. Blocks. Raises OSError."""
    with suppress(FileNotFoundError):
        sync_file(f"{directory}/{FILE_NAME}")
        sync_directory(directory)


def read(directory: str) -> Note | None:
    """The note in a partition's directory, None without one. A note that is damaged itself does not show which records
    existed. Raises OSError.
    """
    try:
        text = read_whole(f"{directory}/{FILE_NAME}", SIZE_MAX_BYTES).decode(errors="replace")
        end_offset, synced_offset, *more = text.split("\n", 1)[0].split()
        return Note(int(end_offset), int(synced_offset), more == [END])
    except FileNotFoundError:
        return None
    except ValueError:
        return Note(0, 0)


def remove(directory: str) -> None:
    """Remove the note: the whole log was read and is intact."""
    with suppress(FileNotFoundError):
        os.unlink(f"{directory}/{FILE_NAME}")


def forget_cached(path: str) -> None:
    """Make the next read of a file come from the disk, except for pages that are not on it yet. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)
