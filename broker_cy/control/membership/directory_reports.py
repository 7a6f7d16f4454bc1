"""Reports the log directory of this broker's replicas (AssignReplicasToDirs, KIP-858) after its disk was replaced.

The controller lets no broker lead a partition whose replica is in a directory that the broker does not have. That
protects from a disk that lost all records. Once the leader has taken the broker into the in-sync set again, its replica
is complete, and the new directory is reported. An earlier report could let the broker be elected with an empty log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from broker_cy.control.membership.retries import Retries
from broker_cy.controller.directories import AssignReplicasToDirectories
from broker_cy.controller.rules import directory_of
from broker_cy.core import uuid as uuids
from broker_cy.core.supervision import keep_running
from broker_cy.metadata import features
from broker_cy.metadata.partition import NO_LEADER
from broker_cy.wire import messages

if TYPE_CHECKING:
    from broker_cy.control.membership.broker_membership import Runner
    from broker_cy.metadata.image import ImageDelta, MetadataImage, PartitionImage

ANSWER_S: Final = 5.0
# The longest pause between two requests.
BACKOFF_S_MAX: Final = 10.0
# The limit of one request.
PARTITIONS_MAX: Final = 2_000
# These need no report: they count as online.
_UNKNOWN: Final = frozenset({uuids.UNASSIGNED_DIRECTORY, uuids.MIGRATING_DIRECTORY})


class DirectoryReports:
    """`apply` looks at each image, until `stop`. `directory_id` is that of the only directory of this broker."""

    def __init__(
        self,
        node_id: int,
        directory_id: UUID,
        controller: Runner,
        loop: asyncio.AbstractEventLoop,
        image: Callable[[], MetadataImage],
        epoch: Callable[[], int],
    ) -> None:
        self._node_id = node_id
        self._directory_id = directory_id
        self._controller = controller
        self._loop = loop
        self._image = image
        self._epoch = epoch
        self._reporting: asyncio.Task[None] | None = None

    def apply(self, delta: ImageDelta, image: MetadataImage) -> None:
        """The committed metadata has changed."""
        if self._reporting is not None or image.features.metadata_version < features.MV_DIRECTORIES:
            return
        parts = (part for topic in delta.topics if topic.after is not None for part in topic.after.partitions.values())
        if any(self._is_to_report(part) for part in parts):
            self._reporting = keep_running(self._loop, self._report, "reports of the directories of replicas")

    async def stop(self) -> None:
        """Stop the reports."""
        if self._reporting is not None:
            self._reporting.cancel()
            await asyncio.gather(self._reporting, return_exceptions=True)

    def _is_to_report(self, part: PartitionImage) -> bool:
        """Whether another broker leads the partition and has this one in sync, with a directory that it does not have.
        A set without a leader may be from before the disk was replaced.
        """
        if self._node_id not in part.isr or part.leader in (NO_LEADER, self._node_id):
            return False
        directory = directory_of(part, self._node_id)
        return directory != self._directory_id and directory not in _UNKNOWN

    def _found(self) -> dict[UUID, list[int]]:
        """The partitions to report by topic; PARTITIONS_MAX at most."""
        every = self._image().topics.with_replica(self._node_id)
        found: dict[UUID, list[int]] = {}
        for topic, index, _ in islice((each for each in every if self._is_to_report(each[2])), PARTITIONS_MAX):
            found.setdefault(topic.topic_id, []).append(index)
        return found

    async def _report(self) -> None:
        await Retries("could not report the directory of replicas; will retry", BACKOFF_S_MAX).run(self._ask)
        self._reporting = None

    def _ask(self) -> Coroutine[Any, Any, object] | None:
        """Report some replicas; None if there are none to report."""
        if not (found := self._found()):
            return None
        request = self._request(found)
        return self._controller.run(
            AssignReplicasToDirectories(request), request, messages.AssignReplicasToDirsResponse, _nothing, ANSWER_S
        )

    def _request(self, found: dict[UUID, list[int]]) -> messages.AssignReplicasToDirsRequest:
        kind = messages.AssignReplicasToDirsRequest
        topics = [
            kind.TopicData(
                topic_id=topic_id, partitions=[kind.PartitionData(partition_index=index) for index in indexes]
            )
            for topic_id, indexes in found.items()
        ]
        return kind(
            broker_id=self._node_id,
            broker_epoch=self._epoch(),
            directories=[kind.DirectoryData(id=self._directory_id, topics=topics)],
        )


def _nothing(_: Any) -> None:
    """Do nothing: an assignment that failed is found again in the image."""
