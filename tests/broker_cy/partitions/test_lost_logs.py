"""Partitions of this broker whose data directory is offline (KAFKA-16234)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest

from broker_cy.config import BrokerConfig
from broker_cy.core.clock import MACHINE_CLOCK
from broker_cy.core.uuid import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from broker_cy.events.log_events import LogEvents
from broker_cy.metadata.image import ImageDelta, MetadataImage, PartitionImage, TopicDelta
from broker_cy.metadata.topics import TopicImage
from broker_cy.partitions import lost_logs
from broker_cy.partitions.partition_service import PartitionService
from broker_cy.replica.partition import Partition
from broker_cy.storage.data_directory import DataDirectory
from broker_cy.storage.log_config import LogConfig
from tests.broker_cy.connections.harness import CoreHarness
from tests.broker_cy.storage.managing import DIRECTORY_ID, Manager, open_manager

A, B, C = (UUID(int=DIRECTORY_ID.int + number) for number in range(3))
OLD, NEW = UUID(int=100), UUID(int=200)


def part(directory_id: UUID, isr: tuple[int, ...] = (1, 2), elr: tuple[int, ...] = ()) -> PartitionImage:
    """A partition of the brokers 1 and 2; the directory is that of broker 1."""
    return PartitionImage((1, 2), isr, 2, 0, 0, (directory_id, C), elr=elr)


LOST = "its log may be in /b, which is offline: the disk failed"


@pytest.mark.parametrize(
    ("image", "is_start", "reason"),
    [
        (part(A), False, None),
        # Its log is missing: the report that it was moved to the other disk may be under way.
        (part(A), True, LOST),
        (part(A, isr=(2,)), True, None),
        (part(B), True, LOST),
        (part(B), False, LOST),
        # Another broker's report, or a directory that was offline earlier and has another id by now.
        (part(C), False, LOST),
        (part(LOST_DIRECTORY), False, LOST),
        # New ones have no directory yet.
        (part(UNASSIGNED_DIRECTORY), False, None),
        (part(MIGRATING_DIRECTORY), False, None),
        # An old one may have had its log there, and count as complete.
        (part(UNASSIGNED_DIRECTORY), True, LOST),
        (part(MIGRATING_DIRECTORY), True, LOST),
        (part(UNASSIGNED_DIRECTORY, isr=(2,), elr=(1,)), True, LOST),
        (part(UNASSIGNED_DIRECTORY, isr=(2,)), True, None),
    ],
)
def test_the_log_that_is_not_replaced(image: PartitionImage, is_start: bool, reason: str | None) -> None:
    """If this fails, a replica whose disk has failed may lead without any record (KAFKA-16234, KAFKA-16157); or a
    partition that is new to a broker with a failed disk is not created on its other disks (KAFKA-10314).
    """
    directories = [DataDirectory("/a"), DataDirectory("/b")]
    directories[0].directory_id = A
    # Its meta.properties cannot be read.
    directories[1].failure = "the disk failed"
    assert lost_logs.reason(image, 1, directories, is_start=is_start) == reason
    # A disk that was replaced has another id. With all of its disks, a broker creates the log again.
    directories[1].failure = None
    assert lost_logs.reason(image, 1, directories, is_start=is_start) is None


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], tuple[Manager, PartitionService, Callable[[int], Partition]]]]:
    """A broker over the directories a and b, with t-0 and t-1 of topic OLD in the metadata; t-1 is in b."""
    harness = CoreHarness()
    managers: list[Manager] = []

    def make() -> tuple[Manager, PartitionService, Callable[[int], Partition]]:
        manager = open_manager(tmp_path / "a", tmp_path / "b", load=False)
        manager.opens_late = False
        managers.append(manager)
        topic = TopicImage("t", OLD, {0: single(A), 1: single(B)})
        image = MetadataImage()
        image.topics.put(topic)
        config = BrokerConfig.from_properties({"node.id": "1", "log.dirs": str(tmp_path / "a")})
        service = PartitionService(
            config, MACHINE_CLOCK, harness.table, manager, harness.core, LogEvents(MACHINE_CLOCK)
        )
        service.start(image, 0)
        service.apply(ImageDelta.initial(image), image)

        def get(index: int) -> Partition:
            found = harness.table.get("t", index)
            assert found is not None
            return found

        return manager, service, get

    yield lambda: harness.on_loop(make)
    for each in managers:
        each.crash()
    harness.close()


def single(directory_id: UUID) -> PartitionImage:
    return PartitionImage((1,), (1,), 1, 0, 0, (directory_id,))


def test_a_partition_of_a_missing_disk(
    tmp_path: Path, start: Callable[[], tuple[Manager, PartitionService, Callable[[int], Partition]]]
) -> None:
    """If this fails, a start without a disk creates its partitions again, empty, on another disk: consumers find no
    records, and the partitions are in two directories when the disk is back.
    """
    manager = open_manager(tmp_path / "a", tmp_path / "b")
    for index in (0, 1):
        manager.create("t", index, OLD, LogConfig(), 0, (A, B)[index])
    manager.crash()
    (tmp_path / "b").rename(tmp_path / "away")
    manager, service, get = start()
    assert get(0).offline is None
    assert str(get(1).offline).startswith(f"its log may be in {tmp_path}/b, which is offline: data directory")
    service.retry()
    assert sorted(path.name for path in (tmp_path / "a").glob("t-*")) == ["t-0"]
    # A topic that is created again has nothing to do with it.
    old, new = TopicImage("t", OLD, {0: single(A), 1: single(B)}), TopicImage("t", NEW, {1: single(A)})
    for before, after in ((old, None), (None, new)):
        service.apply(ImageDelta([TopicDelta(before, after)], [], [], []), service._image)
        service._image.topics.put(new)
    assert get(1).offline is None
    assert manager.topic_ids["t", 1] == NEW


def test_a_partition_is_created_where_the_metadata_say(
    tmp_path: Path, start: Callable[[], tuple[Manager, PartitionService, Callable[[int], Partition]]]
) -> None:
    """If this fails, replicas are in other directories than the controllers assume, until a report is accepted."""
    manager, _, get = start()
    assert [get(index).offline for index in (0, 1)] == [None, None]
    places = [str(manager.logs["t", index].directory) for index in (0, 1)]
    assert places == [f"{tmp_path}/a/t-0", f"{tmp_path}/b/t-1"]
