"""What the last process that used the data directories left behind: whether it ended without losing anything.

A broker that registers reports the epoch of the incarnation before if that ended without loss (KIP-966): only then it
stays an eligible leader of partitions without an in-sync replica. In Kafka an orderly stop is the only proof. Here a
process that was killed has one as well, as long as the machine has not restarted: the page cache has all that it wrote,
and it acknowledged nothing else. It noted its epoch (written_points.note_epoch) after it had registered, so a note of
this start of the machine says that everything which happened in that epoch did so in this page cache.

No proof, unless the stop was an orderly one:
    the machine restarted, or the directory is a copy    the note has another boot id, device or inode
    a sync failed, or damage was found                    what was in the cache may be gone: FAILED_MARK, damage-note
    another directory has another epoch, or none          it was not there, or was replaced
    the disk failed, and the metadata log is elsewhere     the note is removed (directory_failures.distrust)

Logs are repaired, and these marks removed, only after the broker has registered, in another epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker_cy.storage import damage, syncs, written_points
from broker_cy.storage.data_directory import DataDirectory

NO_EPOCH = -1


def previous_epoch(directories: Sequence[DataDirectory], ends: Mapping[str, int | None]) -> int:
    """The broker epoch of the last process, NO_EPOCH if it does not prove that it lost nothing. `ends` has, by
    directory, what `clean_broker_epoch` returned.
    """
    found = set()
    for directory in directories:
        end = ends[directory.path]
        found.add(_killed_epoch(directory) if end is None else end)
    return found.pop() or NO_EPOCH if len(found) == 1 else NO_EPOCH


def _killed_epoch(directory: DataDirectory) -> int:
    epoch = written_points.noted_epoch(directory.path)
    if epoch == NO_EPOCH:
        return NO_EPOCH
    for name in directory.partitions():
        partition = f"{directory.path}/{name}"
        try:
            if syncs.has_failed(partition) or damage.read(partition) is not None:
                return NO_EPOCH
        except OSError:
            return NO_EPOCH
    return epoch
