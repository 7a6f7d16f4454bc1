"""Producer state files of a log: `<offset>.snapshot` holds the state of everything before that offset."""

import os
from contextlib import suppress

from broker_cy.storage.atomic import write_atomically
from broker_cy.storage.segment_files import SNAPSHOT_SUFFIX

SUFFIX = SNAPSHOT_SUFFIX
# At 46 bytes per producer: two million producers.
SIZE_MAX_BYTES = 100 << 20


def name_of(offset: int) -> str:
    """Name of the snapshot taken at `offset`."""
    return f"{offset:020d}{SUFFIX}"


def path_of(directory: str, offset: int) -> str:
    """Path of the snapshot taken at `offset`."""
    return f"{directory}/{name_of(offset)}"


def offsets(directory: str) -> list[int]:
    """Offsets of the snapshots in a log's directory; raises OSError."""
    found = []
    for name in os.listdir(directory):
        stem = name.removesuffix(SUFFIX)
        if stem != name and len(stem) == 20 and stem.isdigit():
            found.append(int(stem))
    return found


def write(directory: str, offset: int, data: bytes, *, sync: bool = False) -> None:
    """Write the snapshot (ProducerState.encode) taken at `offset`; raises OSError."""
    write_atomically(path_of(directory, offset), data, sync=sync)


def remove(directory: str, offset: int) -> None:
    """Remove the snapshot taken at `offset`, if it exists."""
    with suppress(FileNotFoundError):
        os.unlink(path_of(directory, offset))
