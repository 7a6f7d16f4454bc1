"""Partitions that were moved to other brokers while this broker was down: their directories are still here.

As Kafka does, a start renames such a directory to `-stray` and keeps its files. Otherwise the log would be served as
that of a later topic with the same name, because the start identifies a directory by the id of the topic alone.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from broker_cy.core.logs import facts
from broker_cy.storage.data_directory import parse_partition
from broker_cy.storage.errors import StorageError
from broker_cy.storage.removal import rename_away

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker_cy.metadata.image import MetadataImage
    from broker_cy.storage.offset_checkpoints import OffsetCheckpoints

LOGGER = logging.getLogger("broker_cy.server.partitions")


def set_aside(directories: Iterable[str], node_id: int, image: MetadataImage) -> None:
    """Rename the directories of partitions that only other brokers have, before logs are loaded. Blocks. Raises OSError
    if a data directory cannot be read, StorageError if a directory cannot be renamed.
    """
    for root in directories:
        for name in sorted(os.listdir(root)):
            key = parse_partition(name)
            if key is None or not _is_elsewhere(key, node_id, image):
                continue
            topic = image.topics.by_name(key[0])
            assert topic is not None
            path = f"{root}/{name}"
            LOGGER.warning(
                "added -stray to the name of the directory of a partition that was moved to other brokers",
                extra=facts(path=path),
            )
            try:
                rename_away(path, "stray", topic.topic_id)
            except OSError as error:
                raise StorageError(f"cannot rename {path}: {error.strerror}") from error


def forget(checkpoints: OffsetCheckpoints, node_id: int, image: MetadataImage) -> None:
    """Drop the log start offsets of such partitions: a topic that is created later begins at offset 0."""
    for key in [key for key in checkpoints.log_starts if _is_elsewhere(key, node_id, image)]:
        checkpoints.forget(key)


def _is_elsewhere(key: tuple[str, int], node_id: int, image: MetadataImage) -> bool:
    """Whether the topic of that name exists, and this broker has no replica of the partition."""
    topic = image.topics.by_name(key[0])
    if topic is None:
        return False
    partition = topic.partitions.get(key[1])
    return partition is None or node_id not in partition.replicas
