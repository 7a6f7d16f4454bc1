"""A broker reports the directories of its replicas: those that it chose, and those on a new disk once in sync again."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from broker_cy.control.membership.directory_reports import DirectoryReports
from broker_cy.core import uuid as uuids
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata import features
from broker_cy.metadata.image import ImageDelta, MetadataImage, PartitionImage, TopicDelta
from broker_cy.metadata.topics import TopicImage
from tests.broker_cy.handlers.metadata_broker import run

ME, OTHER = 1, 2
OWN, LOST, OF_OTHER, SECOND = UUID(int=111), UUID(int=112), UUID(int=113), UUID(int=114)
TOPIC = UUID(int=7)


def partition(isr: tuple[int, ...], leader: int, directory: UUID = LOST) -> PartitionImage:
    return PartitionImage((ME, OTHER), isr, leader, 5, 5, (directory, OF_OTHER))


class Controller:
    """Rejects the first request, and then assigns the requested directories."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.asked: list[dict[UUID, list[int]]] = []

    async def run(self, operation: Any, request: Any, *_: Any) -> Any:
        assert (request.broker_id, request.broker_epoch) == (ME, 30)
        asked = {
            directory.id: [each.partition_index for topic in directory.topics for each in topic.partitions]
            for directory in request.directories
        }
        self.asked.append(asked)
        if len(self.asked) == 1:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "no")
        before = self.image.topics.by_id(TOPIC)
        assert before is not None
        parts = dict(before.partitions)
        for directory, indexes in asked.items():
            for index in indexes:
                parts[index] = parts[index]._replace(directories=(directory, OF_OTHER))
        self.image.topics.put(TopicImage("t", TOPIC, parts))


class Setting:
    """A broker with these directories, whose logs are at `places`, and partitions with these images."""

    def __init__(
        self,
        parts: dict[int, PartitionImage],
        directory_ids: tuple[UUID, ...],
        places: dict[int, UUID],
        *,
        offline: int = 0,
    ) -> None:
        """`offline`: so many other directories."""
        self.image = MetadataImage()
        self.image.features.set(features.METADATA_VERSION, features.MV_LATEST)
        self.topic = TopicImage("t", TOPIC, parts)
        self.image.topics.put(self.topic)
        self.controller = Controller(self.image)
        self.places = places
        self.epoch = 30
        self.reports = DirectoryReports(
            ME,
            directory_ids,
            lambda topic, index: self.places.get(index),
            self.controller,
            asyncio.get_running_loop(),
            lambda: self.image,
            lambda: self.epoch,
            has_several=len(directory_ids) + offline > 1,
        )

    def apply(self, before: TopicImage | None = None) -> None:
        self.reports.apply(ImageDelta([TopicDelta(before, self.topic)], [], [], []), self.image)

    async def reported(self) -> list[dict[UUID, list[int]]]:
        """The requests, once nothing is left to report."""
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0.01)
        return self.controller.asked


def test_only_what_another_leader_has_in_sync_is_reported() -> None:
    """If this fails, a broker with a new disk never leads again; or it is elected with an empty log, because it was the
    last one in sync when its disk was lost.
    """

    async def work() -> None:
        parts = {
            0: partition((OTHER, ME), OTHER),
            1: partition((OTHER,), OTHER),
            2: partition((ME,), -1),
            3: partition((ME,), ME),
            4: partition((OTHER, ME), OTHER, OWN),
            5: partition((OTHER, ME), OTHER, uuids.UNASSIGNED_DIRECTORY),
            6: partition((ME, OTHER), OTHER),
        }
        setting = Setting(parts, (OWN,), dict.fromkeys(parts, OWN))
        setting.apply()
        assert await setting.reported() == [{OWN: [0, 6]}, {OWN: [0, 6]}]
        # A stop ends a report that is under way.
        setting.image.topics.put(setting.topic)
        setting.apply()
        await setting.reports.stop()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(work)


def test_places_on_several_disks_are_reported() -> None:
    """If this fails, the controller does not elect other leaders for the partitions of a disk that dies."""

    async def work() -> None:
        parts = {
            # Chosen by this broker, as leader and as follower, in sync or not.
            0: partition((ME,), ME, uuids.UNASSIGNED_DIRECTORY),
            1: partition((OTHER,), OTHER, uuids.UNASSIGNED_DIRECTORY),
            2: partition((OTHER, ME), OTHER, uuids.MIGRATING_DIRECTORY),
            # An operator moved the files to the other disk.
            3: partition((ME,), ME, OWN),
            # Where the metadata say.
            4: partition((ME,), ME, SECOND),
            # On a disk that was replaced: its leader may have lost all records.
            5: partition((ME,), ME),
            # The log is not created yet.
            6: partition((ME,), ME, uuids.UNASSIGNED_DIRECTORY),
            # A replica of others.
            7: PartitionImage((OTHER,), (OTHER,), OTHER, 5, 5, (OF_OTHER,)),
        }
        places = {0: OWN, 1: SECOND, 2: SECOND, 3: SECOND, 4: SECOND, 5: OWN, 7: OWN}
        setting = Setting(parts, (OWN, SECOND), places)
        setting.apply()
        expected = {OWN: [0], SECOND: [1, 2, 3]}
        assert await setting.reported() == [expected, expected]
        # A log that was created later.
        places[6] = SECOND
        setting.reports.placed("t", 6)
        setting.reports.placed("unknown", 6)
        assert (await setting.reported())[2:] == [{SECOND: [6]}]

    run(work)


def test_the_place_on_the_only_disk_that_is_online_is_reported() -> None:
    """If this fails, a broker does not start once its other disk is back: both have a log of the partition, and the
    metadata name neither.
    """

    async def work() -> None:
        parts = {0: partition((ME, OTHER), OTHER, uuids.UNASSIGNED_DIRECTORY), 1: partition((OTHER,), OTHER, SECOND)}
        setting = Setting(parts, (OWN,), dict.fromkeys(parts, OWN), offline=1)
        setting.apply()
        assert await setting.reported() == [{OWN: [0]}, {OWN: [0]}]

    run(work)


def test_nothing_is_reported_before_the_registration_or_twice() -> None:
    """If this fails, reports are refused, or each change of a topic reports all its partitions again."""

    async def work() -> None:
        parts = {0: partition((ME,), ME, uuids.UNASSIGNED_DIRECTORY), 1: partition((ME,), ME, OWN)}
        setting = Setting(parts, (OWN, SECOND), {0: OWN, 1: OWN})
        setting.epoch = -1
        setting.apply()
        assert await setting.reported() == []
        setting.epoch = 30
        # No partition has changed, and the one that was found before is still due.
        setting.apply(setting.topic)
        assert await setting.reported() == [{OWN: [0]}, {OWN: [0]}]
        setting.apply()
        assert len(await setting.reported()) == 2

    run(work)


def test_a_damaged_log_is_reported_as_lost() -> None:
    """If this fails, a broker leads a partition that it cannot read or write, although another replica is in sync; or
    a partition whose last replica in sync is damaged has no leader after its repair.
    """

    async def work() -> None:
        parts = {
            0: partition((ME, OTHER), ME, OWN),
            1: partition((OTHER, ME), OTHER, OWN),
            2: partition((ME,), ME, OWN),
            3: partition((OTHER,), OTHER, OWN),
            # Served again: the log may be a new one until it is in sync.
            4: partition((OTHER,), OTHER, uuids.LOST_DIRECTORY),
            5: partition((OTHER, ME), OTHER, uuids.LOST_DIRECTORY),
            # Still damaged.
            6: partition((OTHER,), OTHER, uuids.LOST_DIRECTORY),
        }
        places = dict.fromkeys(parts, uuids.LOST_DIRECTORY) | {4: OWN, 5: OWN}
        setting = Setting(parts, (OWN,), places)
        setting.apply()
        expected = {uuids.LOST_DIRECTORY: [0, 1], OWN: [5]}
        assert await setting.reported() == [expected, expected]

    run(work)
