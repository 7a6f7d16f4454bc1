"""Reports the log directory of this broker's replicas (AssignReplicasToDirs, KIP-858).

A broker with several directories chooses the one of a new replica, and tells the controller. It also tells it if the
log is elsewhere than the metadata say: an operator has moved its files between two disks of this broker. Without the
report, the controller would not elect other leaders if that disk fails.

After a disk was replaced, the report has to wait. The controller lets no broker lead a partition whose replica is in a
directory that the broker does not have. That protects from a disk that lost all records. Once the leader has taken the
broker into the in-sync set again, its replica is complete, and the new directory is reported. An earlier report could
let the broker be elected with an empty log. (Kafka 4.3.1 reports at once.)

A replica whose log has a damaged file is reported as LOST, as long as others are in sync: they lead without it. Kafka
takes the whole directory offline. Once the log is served again, its directory is reported as after a replaced disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
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
    from broker_cy.metadata.topics import TopicImage

ANSWER_S: Final = 5.0
# The longest pause between two requests.
BACKOFF_S_MAX: Final = 10.0
# The limit of one request.
PARTITIONS_MAX: Final = 2_000
# These count as online, wherever the replica is.
_UNKNOWN: Final = frozenset({uuids.UNASSIGNED_DIRECTORY, uuids.MIGRATING_DIRECTORY})


class DirectoryReports:
    """`apply` looks at each change of the metadata, until `stop`.

    `directory_ids` are those of the data directories of this broker that are online; `has_several`: the broker has
    several, online or not. `place_of(topic, index)` is the id of the one that has the log of a partition, None if no
    log is known.
    """

    def __init__(
        self,
        node_id: int,
        directory_ids: Collection[UUID],
        place_of: Callable[[str, int], UUID | None],
        controller: Runner,
        loop: asyncio.AbstractEventLoop,
        image: Callable[[], MetadataImage],
        epoch: Callable[[], int],
        *,
        has_several: bool,
    ) -> None:
        self._node_id = node_id
        self._directory_ids = frozenset(directory_ids)
        self._has_several = has_several
        self._place_of = place_of
        self._controller = controller
        self._loop = loop
        self._image = image
        self._epoch = epoch
        # Partitions (topic id, index) that may have to be reported, in the order in which they were found. At most the
        # replicas of this broker.
        self._due: dict[tuple[UUID, int], None] = {}
        self._reporting: asyncio.Task[None] | None = None

    def apply(self, delta: ImageDelta, image: MetadataImage) -> None:
        """The committed metadata have changed, and the logs of new partitions are created."""
        if image.features.metadata_version < features.MV_DIRECTORIES:
            return
        for topic in delta.topics:
            if topic.after is None:
                continue
            before = topic.before.partitions if topic.before is not None else {}
            for index, part in topic.after.partitions.items():
                if before.get(index) is not part:
                    self._consider(topic.after, index, part)
        self._start()

    def placed(self, topic: str, index: int) -> None:
        """The log of a partition is in another directory than before, or was created after `apply`."""
        found = self._image().topics.by_name(topic)
        if found is not None and index in found.partitions:
            self._consider(found, index, found.partitions[index])
            self._start()

    def _consider(self, topic: TopicImage, index: int, part: PartitionImage) -> None:
        if self._place_to_report(topic, index, part) is not None:
            self._due[topic.topic_id, index] = None

    def _start(self) -> None:
        if self._due and self._reporting is None and self._epoch() >= 0:
            self._reporting = keep_running(self._loop, self._report, "reports of the directories of replicas")

    async def stop(self) -> None:
        """Stop the reports."""
        if self._reporting is not None:
            self._reporting.cancel()
            await asyncio.gather(self._reporting, return_exceptions=True)

    def _place_to_report(self, topic: TopicImage, index: int, part: PartitionImage) -> UUID | None:
        """The directory of this broker's replica, if the controller has to learn of it now."""
        if self._node_id not in part.replicas:
            return None
        recorded = directory_of(part, self._node_id)
        place = self._place_of(topic.name, index)
        if place is None or place == recorded:
            return None
        if place == uuids.LOST_DIRECTORY:
            return place if self._node_id in part.isr and len(part.isr) > 1 else None
        if recorded in _UNKNOWN:
            # The replica counts as online. With one directory, the controller knows where it is. If the others are
            # offline, they may have an older log, and a start with these has to know the newer one.
            return place if self._has_several else None
        if recorded in self._directory_ids:
            return place
        # The recorded directory is gone. A set without a leader may be from before that.
        is_complete = self._node_id in part.isr and part.leader not in (NO_LEADER, self._node_id)
        return place if is_complete else None

    def _found(self) -> dict[UUID, dict[UUID, list[int]]]:
        """The partitions to report by directory and topic; PARTITIONS_MAX at most."""
        found: dict[UUID, dict[UUID, list[int]]] = {}
        count = 0
        for topic_id, index in list(self._due):
            topic = self._image().topics.by_id(topic_id)
            part = topic.partitions.get(index) if topic is not None else None
            place = self._place_to_report(topic, index, part) if topic is not None and part is not None else None
            if place is None:
                del self._due[topic_id, index]
                continue
            found.setdefault(place, {}).setdefault(topic_id, []).append(index)
            count += 1
            if count == PARTITIONS_MAX:
                break
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

    def _request(self, found: dict[UUID, dict[UUID, list[int]]]) -> messages.AssignReplicasToDirsRequest:
        kind = messages.AssignReplicasToDirsRequest
        return kind(
            broker_id=self._node_id,
            broker_epoch=self._epoch(),
            directories=[
                kind.DirectoryData(
                    id=directory,
                    topics=[
                        kind.TopicData(
                            topic_id=topic_id,
                            partitions=[kind.PartitionData(partition_index=index) for index in indexes],
                        )
                        for topic_id, indexes in topics.items()
                    ],
                )
                for directory, topics in found.items()
            ],
        )


def _nothing(_: Any) -> None:
    """Do nothing: an assignment that failed is still due."""
