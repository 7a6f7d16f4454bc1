"""A broker with a new disk reports the directory of replicas that are in sync again."""

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
OWN, LOST, OF_OTHER = UUID(int=11), UUID(int=12), UUID(int=13)
TOPIC = UUID(int=7)


def partition(isr: tuple[int, ...], leader: int, directory: UUID = LOST) -> PartitionImage:
    return PartitionImage((ME, OTHER), isr, leader, 5, 5, (directory, OF_OTHER))


class Controller:
    """Rejects the first request, and then assigns the requested directories."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.asked: list[list[int]] = []

    async def run(self, operation: Any, request: Any, *_: Any) -> Any:
        (directory,) = request.directories
        assert (request.broker_id, request.broker_epoch, directory.id) == (ME, 30, OWN)
        (topic,) = directory.topics
        self.asked.append([each.partition_index for each in topic.partitions])
        if len(self.asked) == 1:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "no")
        before = self.image.topics.by_id(TOPIC)
        assert before is not None
        parts = dict(before.partitions)
        for index in self.asked[-1]:
            parts[index] = parts[index]._replace(directories=(OWN, OF_OTHER))
        self.image.topics.put(TopicImage("t", TOPIC, parts))


def test_only_what_another_leader_has_in_sync_is_reported() -> None:
    """If this fails, a broker with a new disk never leads again; or it is elected with an empty log, because it was the
    last one in sync when its disk was lost.
    """

    async def work() -> None:
        image = MetadataImage()
        image.features.set(features.METADATA_VERSION, features.MV_LATEST)
        parts = {
            0: partition((OTHER, ME), OTHER),
            1: partition((OTHER,), OTHER),
            2: partition((ME,), -1),
            3: partition((ME,), ME),
            4: partition((OTHER, ME), OTHER, OWN),
            5: partition((OTHER, ME), OTHER, uuids.UNASSIGNED_DIRECTORY),
            6: partition((ME, OTHER), OTHER),
        }
        topic = TopicImage("t", TOPIC, parts)
        image.topics.put(topic)
        controller = Controller(image)
        loop = asyncio.get_running_loop()
        reports = DirectoryReports(ME, OWN, controller, loop, lambda: image, lambda: 30)
        reports.apply(ImageDelta([TopicDelta(None, topic)], [], [], []), image)
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0.01)
        assert controller.asked == [[0, 6], [0, 6]]
        # A stop ends a report that is under way.
        image.topics.put(topic)
        reports.apply(ImageDelta([TopicDelta(None, topic)], [], [], []), image)
        await reports.stop()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(work)
