"""Partitions that were moved to other brokers while this broker was down."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest

from broker_cy.config import BrokerConfig
from broker_cy.core.clock import MACHINE_CLOCK
from broker_cy.events.log_events import LogEvents
from broker_cy.metadata.image import ImageDelta, MetadataImage, PartitionImage, TopicDelta
from broker_cy.metadata.topics import TopicImage
from broker_cy.partitions.partition_service import PartitionService
from broker_cy.replica.partition import Partition
from broker_cy.storage.checkpoints import LOG_START_OFFSETS, RECOVERY_POINTS
from broker_cy.storage.errors import StorageError
from broker_cy.storage.log_config import LogConfig
from tests.broker_cy.connections.harness import CoreHarness
from tests.broker_cy.storage.batches import fill
from tests.broker_cy.storage.managing import Manager, open_manager

OLD, NEW = UUID(int=100), UUID(int=200)
HERE, ELSEWHERE = (1, 2), (2, 3)
TRIMMED = 5


def topic_of(topic_id: UUID, *replicas: tuple[int, ...]) -> TopicImage:
    return TopicImage(
        "t", topic_id, {at: PartitionImage(each, each, each[0], 0, 0) for at, each in enumerate(replicas)}
    )


class Starting:
    """A broker with id 1 that starts over a data directory."""

    def __init__(self, path: Path, harness: CoreHarness, topic: TopicImage) -> None:
        self.manager = open_manager(path, load=False)
        self.table = harness.table
        self.topic = topic
        self.image = MetadataImage()
        self.image.topics.put(topic)
        config = BrokerConfig.from_properties({"node.id": "1", "log.dirs": str(path)})
        self.service = PartitionService(
            config, MACHINE_CLOCK, self.table, self.manager, harness.core, LogEvents(MACHINE_CLOCK)
        )
        try:
            self.service.start(self.image, 0)
        except BaseException:
            self.manager.crash()
            raise
        self.service.apply(ImageDelta.initial(self.image), self.image)

    def recreate(self, topic: TopicImage) -> Partition | None:
        """Delete the topic and create it again; returns partition 0."""
        for before, after in ((self.topic, None), (None, topic)):
            self.service.apply(ImageDelta([TopicDelta(before, after)], [], [], []), self.image)
        return self.table.get("t", 0)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Partitions 0 and 1 of the old topic, with records, after kill -9."""
    manager = open_manager(tmp_path)
    for index in (0, 1):
        log = manager.create("t", index, OLD, LogConfig(), 0)
        fill(log, 10)
        manager.delete_records_before(log, TRIMMED)
    manager.flusher.write_checkpoints(RECOVERY_POINTS, LOG_START_OFFSETS)
    manager.crash()
    return tmp_path


@pytest.fixture
def start(directory: Path) -> Iterator[Callable[[TopicImage], Starting]]:
    harness = CoreHarness()
    managers: list[Manager] = []

    def started(topic: TopicImage) -> Starting:
        found: Starting = harness.on_loop(lambda: Starting(directory, harness, topic))
        managers.append(found.manager)
        return found

    yield started
    for each in managers:
        each.crash()
    harness.close()


def test_a_new_topic_gets_no_records_of_a_moved_partition(
    directory: Path, start: Callable[[TopicImage], Starting]
) -> None:
    """If this fails, a topic that is created again serves the records of the one that was deleted, and its replicas
    copy them: a partition was moved to other brokers while this one was down, and its log stayed here.
    """
    broker = start(topic_of(OLD, ELSEWHERE, HERE))
    assert broker.table.get("t", 0) is None
    assert sorted(broker.manager.topic_ids) == [("t", 1)]
    partition = broker.recreate(topic_of(NEW, HERE))
    assert partition is not None
    assert partition.log is not None
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (0, 0)
    # As in Kafka, nothing is lost if the assignment was wrong.
    (stray,) = directory.glob("t-0.*-stray")
    assert os.path.getsize(stray / f"{0:020d}.log") > 0


def test_a_partition_that_stays_keeps_its_records(directory: Path, start: Callable[[TopicImage], Starting]) -> None:
    """If this fails, a restarted broker sets its own logs aside, and fetches everything again."""
    broker = start(topic_of(OLD, HERE, HERE))
    assert list(directory.glob("*-stray")) == []
    for index in (0, 1):
        assert ("t", index) in broker.manager.topic_ids
        assert broker.manager.checkpoints.log_starts["t", index] == TRIMMED


def test_a_directory_that_cannot_be_set_aside_ends_the_start(
    start: Callable[[TopicImage], Starting], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, the log that could not be renamed is served as that of another topic later."""

    def refused(path: str, target: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "rename", refused)
    with pytest.raises(StorageError, match=r"cannot rename .*t-0: Permission denied"):
        start(topic_of(OLD, ELSEWHERE, HERE))
