"""The end of the last process that used the data directories: whether it ended without loss of records.

A broker that registers reports the epoch of the previous incarnation if that ended without loss (KIP-966): only then it
stays an eligible leader of partitions without an in-sync replica. In Kafka a clean shutdown is the only proof. Here a
killed process has a proof as well, as long as the machine has not restarted: the page cache has all records that it
wrote, and it acknowledged no others. It noted its epoch (written_points.note_epoch) after it had registered, so a note
of this start of the machine proves that all writes of that epoch went to this page cache.

No proof:
    a log is missing that a clean shutdown has flushed    its directory was removed; Kafka does not notice that

No proof, unless the shutdown was clean:
    the machine restarted, or the directory is a copy    the note has another boot id, device or inode
    a sync failed, or damage was found                    the content of the cache may be lost: FAILED_MARK, damage-note
    the directory of a log was removed                    the note is removed (written_points.forget_epoch)
    another directory has another epoch, or none          it was missing, or was replaced
    another directory is offline                          a replica there may be eligible, and count as online
    the disk failed, and the metadata log is elsewhere     the note is removed (directory_failures.distrust)

Logs are repaired, and these marks removed, only after the broker has registered, in another epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from broker_cy.storage import damage, syncs, written_points
from broker_cy.storage.checkpoints import TopicPartition
from broker_cy.storage.data_directory import DataDirectory
from broker_cy.storage.start_listing import Listing

NO_EPOCH = -1


def previous_epoch(
    directories: Sequence[DataDirectory],
    ends: Mapping[str, int | None],
    listings: Iterable[Listing],
    flushed_logs: Callable[[str], Iterable[TopicPartition]],
) -> int:
    """The broker epoch of the last process, NO_EPOCH without a proof that it lost no records. `ends` has the results of
    `clean_broker_epoch` by directory, without those that are offline; `listings` are those of these directories.
    `flushed_logs` returns the logs that the last process has flushed in a directory.
    """
    listed = {each.directory.path: each for each in listings if each.error is None}
    if any(each.path not in ends or each.path not in listed for each in directories):
        return NO_EPOCH
    found = set()
    for directory in directories:
        end = ends[directory.path]
        if end is None:
            found.add(_killed_epoch(listed[directory.path]))
        else:
            found.add(_clean_epoch(listed[directory.path], end, flushed_logs(directory.path)))
    return found.pop() or NO_EPOCH if len(found) == 1 else NO_EPOCH


def _clean_epoch(listing: Listing, epoch: int, logs: Iterable[TopicPartition]) -> int:
    names = {each.name for each in listing.partitions}
    return epoch if all(f"{topic}-{index}" in names for topic, index in logs) else NO_EPOCH


def _killed_epoch(listing: Listing) -> int:
    root = listing.directory.path
    epoch = written_points.noted_epoch(root)
    if epoch == NO_EPOCH:
        return NO_EPOCH
    for name in (each.name for each in listing.partitions if each.content is None):
        partition = f"{root}/{name}"
        try:
            if syncs.has_failed(partition) or damage.read(partition) is not None:
                return NO_EPOCH
        except OSError:
            return NO_EPOCH
    return epoch
