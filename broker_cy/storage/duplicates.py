"""Partitions that are in two data directories at a start.

That happens if an operator copies a partition to another disk by hand, or if a disk comes back after its partitions
were created elsewhere. The metadata name the directory of each replica; that copy is kept, and the others are renamed
to `-stray`. (Kafka refuses to start.) If the metadata do not name one of the directories, either copy may have the
acknowledged records, so the start ends.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from broker_cy.storage.checkpoints import TopicPartition
from broker_cy.storage.data_directory import DataDirectory, DataDirectoryError, parse_partition, read_topic_id

# A data directory and the names in it.
Listing = tuple[DataDirectory, Sequence[str]]


def superfluous(
    listings: Sequence[Listing],
    topic_id_of: Callable[[str, int], UUID | None] | None,
    directory_id_of: Callable[[str, int], UUID | None],
) -> list[str]:
    """The directories of partitions that are to be renamed. `topic_id_of` as in LogManager.load; `directory_id_of`
    returns the data directory that the metadata name. Raises DataDirectoryError if they name none.
    """
    found: list[str] = []
    for key, places in _of_several(listings).items():
        expected = topic_id_of(*key) if topic_id_of is not None else None
        # Those of another topic are strays anyway.
        own = {path: each for path, each in places.items() if expected is None or _may_be_of(path, expected)}
        if len(own) < 2:
            continue
        named = directory_id_of(*key)
        if all(each.directory_id != named for each in own.values()):
            raise DataDirectoryError(
                f"partition {key[0]}-{key[1]} is in {' and in '.join(own)}, and the metadata of the cluster name none "
                "of these data directories: remove one of them"
            )
        found += [path for path, each in own.items() if each.directory_id != named]
    return found


def _of_several(listings: Sequence[Listing]) -> Mapping[TopicPartition, Mapping[str, DataDirectory]]:
    """The partitions that are in several data directories: the data directory by path."""
    if len(listings) < 2:
        return {}
    places: dict[TopicPartition, dict[str, DataDirectory]] = {}
    for directory, names in listings:
        for name in names:
            key = parse_partition(name)
            if key is not None:
                places.setdefault(key, {})[f"{directory.path}/{name}"] = directory
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
