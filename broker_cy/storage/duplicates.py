"""Partitions that are in two data directories at a start.

That happens if an operator copies a partition to another disk by hand, or if a disk comes back after its partitions
were created elsewhere. The metadata name the directory of each replica; that copy is kept, and the others are renamed
to `-stray`. (Kafka refuses to start.) If the metadata do not name one of the directories, either copy may have the
acknowledged records, so the start ends. But a replica that is neither in sync nor an eligible leader gets all records
that it lacks from the leader, so the first copy is kept. It has two if its disk failed before the controller knew of
its log, and it began again on another disk.

A log may also be the old one of a replica that has moved to a directory that is offline now: the process ended before
the old log was removed. With other replicas that does no harm, because the controller elects no replica whose directory
is offline, and the old log gets the records of the leader. A log without other replicas would be served to clients that
know this broker as the leader, without its newest records. So it stays offline (`newer_elsewhere`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from broker_cy.core import uuid as uuids
from broker_cy.storage.checkpoints import TopicPartition
from broker_cy.storage.data_directory import DataDirectory, DataDirectoryError, read_topic_id
from broker_cy.storage.start_listing import Listing


def superfluous(
    listings: Sequence[Listing],
    topic_id_of: Callable[[str, int], UUID | None] | None,
    directory_id_of: Callable[[str, int], UUID | None],
    is_spare: Callable[[str, int], bool],
) -> list[str]:
    """The directories of partitions that are to be renamed. `topic_id_of` and `is_spare` as in LogManager.load;
    `directory_id_of` returns the data directory that the metadata name. Raises DataDirectoryError if they name none.
    """
    found: list[str] = []
    for key, places in _of_several(listings).items():
        expected = topic_id_of(*key) if topic_id_of is not None else None
        if topic_id_of is not None and expected is None:
            # This broker has no such partition: all are strays.
            continue
        # Those of another topic are strays anyway.
        own = {path: each for path, each in places.items() if expected is None or _may_be_of(path, expected)}
        if len(own) < 2:
            continue
        named = directory_id_of(*key)
        if all(each.directory_id != named for each in own.values()):
            if is_spare(*key):
                found += list(own)[1:]
                continue
            raise DataDirectoryError(
                f"partition {key[0]}-{key[1]} is in {' and in '.join(own)}, and the metadata of the cluster name none "
                "of these data directories: remove one of them"
            )
        found += [path for path, each in own.items() if each.directory_id != named]
    return found


def newer_elsewhere(named: UUID | None, directories: Sequence[DataDirectory]) -> str | None:
    """Why the log of a partition without other replicas must not be served, if the metadata name the data directory
    `named`, which has no log of it that can be read; None if it may be.
    """
    if named is None or uuids.is_reserved(named):
        return None
    if any(each.directory_id == named and each.failure is None for each in directories):
        # The files were moved to another disk by hand.
        return None
    return (
        f"its newest records may be in data directory {uuids.to_text(named)}, which the metadata of the "
        "cluster name, and which is offline or missing: bring it back"
    )


def _of_several(listings: Sequence[Listing]) -> Mapping[TopicPartition, Mapping[str, DataDirectory]]:
    """The partitions that are in several data directories: the data directory by path."""
    if len(listings) < 2:
        return {}
    places: dict[TopicPartition, dict[str, DataDirectory]] = {}
    for listing in listings:
        for each in listing.partitions:
            places.setdefault(each.key, {})[f"{listing.directory.path}/{each.name}"] = listing.directory
    return {
        key: {path: each for path, each in found.items() if os.path.isdir(path)}
        for key, found in places.items()
        if len(found) > 1
    }


def _may_be_of(path: str, topic_id: UUID) -> bool:
    try:
        return read_topic_id(path) == topic_id
    except (OSError, ValueError):
        return True
