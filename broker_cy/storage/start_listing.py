"""The partitions that a start finds in the data directories, before it opens a log.

For each data directory, a worker reads the names and the small files of its partitions (plain_partitions) while the
start loads the metadata. The first use waits for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from uuid import UUID

from broker_cy.core.classes import NamedTuple
from broker_cy.storage.checkpoints import TopicPartition
from broker_cy.storage.data_directory import DataDirectory, parse_partition, topic_id_in
from broker_cy.storage.jobs import RunAll
from broker_cy.storage.plain_partitions import plain_contents


class ListedPartition(NamedTuple):
    """The directory of a partition in use. `content` is that of its `partition.metadata`, and no mark of a failure is
    in the directory; None if this is not known.
    """

    name: str
    key: TopicPartition
    content: bytes | None


class Listing(NamedTuple):
    """The directories in a data directory: those of partitions in use, and the names of all others, sorted. `error` is
    the reason why they are not known.
    """

    directory: DataDirectory
    partitions: list[ListedPartition]
    others: list[str]
    error: OSError | None = None


def list_directory(directory: DataDirectory) -> Listing:
    """List a data directory. Blocks."""
    try:
        names = directory.directories()
    except OSError as error:
        return Listing(directory, [], [], error)
    keys = {name: key for name in names if (key := parse_partition(name)) is not None}
    contents = plain_contents(directory.path, list(keys))
    found = [ListedPartition(*each, content) for each, content in zip(keys.items(), contents, strict=True)]
    return Listing(directory, found, [name for name in names if name not in keys])


class StartListing:
    """The listings of all data directories."""

    def __init__(self, directories: Iterable[DataDirectory], run_all: RunAll) -> None:
        self._running: Iterator[Listing | Exception] = run_all(
            [(each.path, partial(list_directory, each)) for each in directories], 1
        )
        self._listings: list[Listing] | None = None
        self._topic_ids: dict[TopicPartition, UUID | None] | None = None

    @property
    def listings(self) -> list[Listing]:
        """Those of the directories that were online. Blocks until the workers have listed them."""
        if self._listings is None:
            found = list(self._running)
            self._listings = [each for each in found if isinstance(each, Listing)]
            for each in found:
                if isinstance(each, Exception):
                    raise each
        return self._listings

    def topic_id_of(self, key: TopicPartition) -> UUID | None:
        """The id of the topic whose log was found for a partition, in a directory without a mark of a failure. None
        without one, or if two data directories have one.
        """
        if self._topic_ids is None:
            ids = self._topic_ids = {}
            for listing in self.listings:
                for _, found, content in listing.partitions:
                    ids[found] = None if content is None or found in ids else _id_in(content)
        return self._topic_ids.get(key)

    def drop(self) -> None:
        """Free the listings: the logs are loaded."""
        self._listings, self._topic_ids = [], {}


def _id_in(content: bytes) -> UUID | None:
    try:
        return topic_id_in(content)
    except ValueError:
        return None
