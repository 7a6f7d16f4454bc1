"""This node as a member of its cluster, from its start to its controlled shutdown: the registrations of its broker and
its controller, heartbeats, and data directories whose disks have failed.

A single node is a cluster of one: it registers with itself, as the active controller, and sends itself heartbeats.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from broker_cy.control.membership import tiered_topics
from broker_cy.control.membership.broker_membership import BrokerMembership, Runner
from broker_cy.control.membership.controller_membership import ControllerMembership
from broker_cy.control.membership.directory_reports import DirectoryReports
from broker_cy.control.membership.failed_directories import FailedDirectories

if TYPE_CHECKING:
    from broker_cy.config import BrokerConfig
    from broker_cy.metadata.image import Endpoint, ImageDelta, MetadataImage
    from broker_cy.quorum.voters import Endpoint as VoterEndpoint


class Node(Runner, Protocol):
    """The node, as its membership sees it (ControllerService)."""

    @property
    def image(self) -> MetadataImage: ...
    @property
    def missing_records(self) -> int: ...
    @property
    def unreached(self) -> str: ...
    @property
    def refused(self) -> Mapping[int, int]: ...
    def subscribe(self, listener: Callable[[ImageDelta, MetadataImage], None]) -> None: ...


class NodeMembership:
    """`register` first, then `run`; `leave` and `stop` at the end. A node that is only a controller has no broker to
    register.
    """

    def __init__(
        self,
        config: BrokerConfig,
        node: Node,
        loop: asyncio.AbstractEventLoop,
        cluster_id: str,
        directories: Mapping[UUID, str],
        place_of: Callable[[str, int], UUID | None],
        found_topic_id: Callable[[str, int], UUID | None],
        end: Callable[[str], None],
    ) -> None:
        """`directories` are the data directories that are online, by id, and `place_of(topic, index)` is the id of the
        one with the log of a partition, if any. `found_topic_id(topic, index)` is the id of the topic whose log the
        start has found, if any. `end(reason)` ends the node, because its disks failed.
        """
        self._config = config
        self._node = node
        self._loop = loop
        self._cluster_id = cluster_id
        self._directories = directories
        self._place_of = place_of
        self._found_topic_id = found_topic_id
        self._end = end
        self._broker: BrokerMembership | None = None
        self._controller: ControllerMembership | None = None
        self._directory_reports: DirectoryReports | None = None
        self._failed_directories: FailedDirectories | None = None

    @property
    def epoch(self) -> int:
        """The epoch of the broker's current registration, -1 without one."""
        return -1 if self._broker is None else self._broker.epoch

    def register_controller(self, incarnation_id: UUID, endpoints: tuple[VoterEndpoint, ...]) -> None:
        """Register the controller, which others reach at `endpoints`, as soon as metadata.version allows it."""
        listeners = self._config.network.controller_listeners
        self._controller = ControllerMembership(
            self._config.node_id,
            self._node,
            self._loop,
            incarnation_id,
            endpoints,
            {each.name: each.protocol_id for each in listeners},
        )
        self._node.subscribe(self._controller.apply)

    async def register(self, incarnation_id: UUID, listeners: dict[str, Endpoint], previous_epoch: int) -> None:
        """Register the broker, and wait until its registration is in the image. Arguments and exceptions as
        BrokerMembership.register.
        """
        config, node = self._config, self._node
        self._directory_reports = DirectoryReports(
            config.node_id,
            self._directories,
            self._place_of,
            node,
            self._loop,
            lambda: node.image,
            lambda: self.epoch,
            has_several=len(config.log_dirs) > 1,
        )
        node.subscribe(self._directory_reports.apply)
        self._failed_directories = FailedDirectories(
            self._loop,
            tuple(self._directories),
            config["log.dir.failure.timeout.ms"] / 1000,
            self.hurry,
            self._end,
        )
        self._broker = BrokerMembership(
            config,
            node,
            self._loop,
            self._cluster_id,
            incarnation_id,
            lambda: node.image,
            lambda: node.refused,
            lambda: node.unreached,
            self._failed_directories,
            lambda: node.missing_records,
            self._is_whole,
        )
        await self._broker.register(listeners, self._directories, previous_epoch)
        # Topics that became tiered while this broker was away. It is fenced, and stays so.
        tiered_topics.refuse(config.node_id, node.image)

    def _is_whole(self) -> bool:
        """Whether this is the only broker, and the start has found the logs of all its replicas."""
        node_id, image = self._config.node_id, self._node.image
        return all(each == node_id for each in image.brokers) and all(
            self._found_topic_id(topic.name, index) == topic.topic_id
            for topic, index, _ in image.topics.with_replica(node_id)
        )

    def run(self) -> None:
        """Send heartbeats: the broker is ready for clients."""
        if self._broker is not None:
            self._broker.run()

    async def unfenced(self) -> None:
        """Wait until the cluster sends clients to the broker."""
        if self._broker is not None:
            await self._broker.unfenced()

    def hurry(self) -> None:
        """Send a heartbeat now (BrokerMembership.hurry)."""
        if self._broker is not None:
            self._broker.hurry()

    def report_end(self, broker_id: int, epoch: int) -> None:
        """Report the end of another broker to the active controller (BrokerMembership.report_end)."""
        if self._broker is not None:
            self._broker.report_end(broker_id, epoch)

    def placed(self, topic: str, index: int) -> None:
        """The log of a partition is created, or in another data directory than before."""
        if self._directory_reports is not None:
            self._directory_reports.placed(topic, index)

    def directory_failed(self, directory_id: UUID, reason: str) -> None:
        """The disk of a data directory has failed, for `reason`."""
        if self._failed_directories is not None:
            self._failed_directories.add(directory_id, reason)
        else:
            self._end(reason)

    async def leave(self) -> None:
        """Let other brokers lead the partitions of this one, and be fenced."""
        if self._broker is not None:
            await self._broker.leave()

    async def stop(self) -> None:
        """Send nothing more."""
        for each in (self._controller, self._directory_reports):
            if each is not None:
                await each.stop()
