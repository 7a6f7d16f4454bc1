"""The mirrors that this broker leads, by link, as committed metadata have them (docs/mirror.md, Link flows)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from broker_cy.controller import mirror_ops
from broker_cy.controller.config_ops import AlterConfigs, OpType, ResourceChange, SettingChange
from broker_cy.controller.partition_change import RECOVERED
from broker_cy.core import uuid as uuids
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.logs import facts
from broker_cy.core.mirror_settings import (
    SOURCE_TOPIC,
    SOURCE_TOPIC_ID,
    MirrorSettings,
    is_mirror,
    mirror_settings,
    source_topic_id,
)
from broker_cy.metadata.image import RESOURCE_TOPIC
from broker_cy.replica.mirror import Cause
from broker_cy.replica.replica import Role
from broker_cy.replica.throttle import LinkThrottle
from broker_cy.replication.broker_links import AlterLink
from broker_cy.replication.fetcher import Follower
from broker_cy.replication.links import LinkFailed
from broker_cy.replication.mirror_cluster import LinkSettings, SourceCluster, read_link
from broker_cy.replication.mirror_flows import LinkFlows
from broker_cy.replication.mirror_progress import RATE_WINDOW_MS, RATE_WINDOWS
from broker_cy.replication.mirror_view import MirrorView, State
from broker_cy.wire import messages

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Executor
    from uuid import UUID

    from broker_cy.client.outgoing import Outgoing
    from broker_cy.config import BrokerConfig
    from broker_cy.control.controller_service import ControllerService
    from broker_cy.core.clock import Clock
    from broker_cy.metadata.image import ImageDelta, MetadataImage
    from broker_cy.metrics.events import Event
    from broker_cy.replica.partition import Partition
    from broker_cy.replica.partition_table import PartitionTable
    from broker_cy.storage.log_manager import LogManager

LOGGER = logging.getLogger("broker_cy.server.replication")

CONTROLLER_S: Final = 10.0
CONSUMER: Final = -1


@dataclass(frozen=True)
class Parts:
    """The parts of a broker that mirrors need. `workers` read the files of links."""

    node_id: int
    broker_epoch: Callable[[], int]
    config: BrokerConfig
    clock: Clock
    loop: asyncio.AbstractEventLoop
    image: Callable[[], MetadataImage]
    partitions: PartitionTable
    logs: LogManager
    flush: Callable[[], int]
    controller: ControllerService
    outgoing: Outgoing
    workers: Executor
    note: Callable[[Event], None]


class MirrorManager:
    """`apply` follows the metadata, after the partitions have their roles; `refresh` is called for topics with a
    partition that was opened, or took its role, later.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._links: dict[str, LinkFlows] = {}
        self._flows: dict[str, dict[Partition, LinkFlows]] = {}  # by topic
        self._settled: dict[Partition, int] = {}  # promoted ones: the leader epoch in which transactions were aborted

    def apply(self, delta: ImageDelta) -> None:
        names = {each.name for topic in delta.topics for each in (topic.before, topic.after) if each is not None}
        names.update(name for kind, name in delta.configs if kind == RESOURCE_TOPIC)
        for name in sorted(names):
            self.refresh(name)

    def refresh(self, topic: str) -> None:
        """Begin, change or end the flows of a topic."""
        overrides = self._parts.image().configs.topic(topic)
        settings = mirror_settings(topic, overrides)
        known = self._flows.get(topic, {})
        led = [each for each in self._parts.partitions.topic(topic) if self._leads(each)]
        for partition, link in list(known.items()):
            if settings is None or partition not in led or link.cluster.name != settings.link:
                del known[partition]
                link.remove(partition)
        for partition in [each for each in self._settled if each.topic == topic and each not in led]:
            del self._settled[partition]
        if settings is not None:
            for partition in led:
                if partition.mirrors:
                    link = self._link(settings)
                    self._flows.setdefault(topic, {})[partition] = link
                    link.set(partition, settings)
        elif source_topic_id(overrides) is not None:
            for partition in led:
                self._end_transactions(partition)
        if not self._flows.get(topic):
            self._flows.pop(topic, None)
        for name, link in list(self._links.items()):
            if link.is_idle:
                del self._links[name]
                self._parts.loop.create_task(link.close())

    @staticmethod
    def _leads(partition: Partition) -> bool:
        return partition.replica.role == Role.LEADER and partition.offline is None and not partition.closed

    def _link(self, settings: MirrorSettings) -> LinkFlows:
        found = self._links.get(settings.link)
        if found is None:
            parts = self._parts
            directory = parts.config["brokercy.mirror.links.dir"]

            async def read() -> LinkSettings:
                return await parts.loop.run_in_executor(parts.workers, read_link, directory, settings.link)

            throttle = LinkThrottle(RATE_WINDOWS, RATE_WINDOW_MS)
            cluster = SourceCluster(settings.link, f"broker-{parts.node_id}-mirror", parts.outgoing, read, throttle)
            follower = Follower(
                CONSUMER,
                lambda: CONSUMER,
                parts.config,
                parts.clock,
                parts.loop,
                cluster,
                parts.logs,
                parts.flush,
                throttle,
            )
            found = self._links[settings.link] = LinkFlows(follower, cluster, self)
        return found

    async def close(self) -> None:
        for link in self._links.values():
            await link.close()
        self._links.clear()

    def views(self) -> Iterator[MirrorView]:
        """The mirrors that this broker leads, and those that were promoted. The loop may run between two of them."""
        now_ms = int(self._parts.clock.monotonic() * 1000)
        for link in list(self._links.values()):
            yield from link.views(now_ms)
        for partition in list(self._settled):
            if partition in self._settled:
                yield self._promoted(partition)

    def _promoted(self, partition: Partition) -> MirrorView:
        overrides = self._parts.image().configs.topic(partition.topic)
        topic_id = source_topic_id(overrides)
        return MirrorView(
            topic=partition.topic,
            partition=partition.index,
            link="",
            source_topic=overrides.get(SOURCE_TOPIC) or partition.topic,
            source_topic_id=None if topic_id is None else uuids.to_text(topic_id),
            state=State.PROMOTED.value,
            cause="",
            reason="",
            source_leader=None,
            source_epoch=None,
            source_end=None,
            end=partition.high_watermark,
            lag_records=None,
            lag_ms=None,
            records=0,
            bytes=0,
            records_per_s=0.0,
            bytes_per_s=0.0,
        )

    # --- a promoted partition

    def _end_transactions(self, partition: Partition) -> None:
        """Abort the transactions that were open at the promotion: their coordinators are in the other cluster, and no
        marker of theirs will arrive. Repeated by each new leader, which may be the first to get this far.
        """
        epoch = partition.leader_epoch
        if self._settled.get(partition) == epoch:
            return
        self._settled[partition] = epoch
        begin = mirror_ops.promotion_start(partition.log.epochs.entries)
        now_ms = self._parts.clock.wall_ms()
        for producer_id, producer_epoch, _, _, coordinator_epoch, first_offset in partition.log.producers.describe():
            if not 0 <= first_offset < begin:
                continue
            LOGGER.info(
                "aborting a transaction of the source, after a promotion",
                extra=facts(partition=f"{partition.topic}-{partition.index}", producer_id=producer_id),
            )
            try:
                # A marker of the first version has the epoch of its records.
                written = partition.append_marker(
                    producer_id, producer_epoch, max(coordinator_epoch, 0), False, now_ms, 1
                )
            except KafkaError as error:
                self._retry(partition, error)
                return
            written.add_done_callback(partial(self._ended, partition))

    def _ended(self, partition: Partition, written: asyncio.Future[int]) -> None:
        error = written.exception() if not written.cancelled() else None
        if error is not None:
            self._retry(partition, error)

    def _retry(self, partition: Partition, error: BaseException) -> None:
        LOGGER.warning(
            "cannot abort a transaction of the source; will retry",
            extra=facts(partition=f"{partition.topic}-{partition.index}", reason=str(error)),
        )
        self._settled.pop(partition, None)
        backoff_s = float(self._parts.config["replica.fetch.backoff.ms"]) / 1000
        self._parts.loop.call_later(backoff_s, self.refresh, partition.topic)

    # --- the controller (mirror_flows.Controller)

    def partitions(self, topic: str) -> int:
        """See mirror_flows.Controller."""
        found = self._parts.image().topics.by_name(topic)
        return 0 if found is None else len(found.partitions)

    def note(self, event: Event) -> None:
        self._parts.note(event)

    async def pin(self, topic: str, topic_id: UUID) -> None:
        """See mirror_flows.Controller."""
        if not is_mirror(self._parts.image().configs.topic(topic)):
            return
        text = uuids.to_text(topic_id)
        changes = [SettingChange(SOURCE_TOPIC_ID, OpType.SET, text)]
        kind = messages.IncrementalAlterConfigsRequest
        request = kind(
            resources=[
                kind.AlterConfigsResource(
                    resource_type=RESOURCE_TOPIC,
                    resource_name=topic,
                    configs=[kind.AlterableConfig(name=SOURCE_TOPIC_ID, config_operation=int(OpType.SET), value=text)],
                )
            ]
        )
        operation = AlterConfigs([ResourceChange(RESOURCE_TOPIC, topic, changes)], self._parts.config)
        outcomes = await self._parts.controller.run(
            operation, request, messages.IncrementalAlterConfigsResponse, _outcomes, CONTROLLER_S
        )
        for code, message in outcomes:
            if code != ErrorCode.NONE:
                raise KafkaError(ErrorCode(code), message or "")

    async def raise_epochs(self, wanted: dict[Partition, int]) -> None:
        """See mirror_flows.Controller."""
        topics: dict[UUID, list[messages.AlterPartitionRequest.PartitionData]] = {}
        for partition, leader_epoch in wanted.items():
            in_sync = partition.replica.in_sync
            if in_sync is None or in_sync.proposal is not None:
                continue  # a change of the set is under way
            current = in_sync.unchanged()
            topics.setdefault(partition.topic_id, []).append(
                messages.AlterPartitionRequest.PartitionData(
                    partition_index=partition.index,
                    leader_epoch=current.leader_epoch,
                    partition_epoch=current.partition_epoch,
                    leader_recovery_state=RECOVERED,
                    new_isr_with_epochs=[
                        messages.AlterPartitionRequest.BrokerState(broker_id=each, broker_epoch=epoch)
                        for each, epoch in current.isr
                    ],
                    _unknown_tags=mirror_ops.tag_of(leader_epoch),
                )
            )
        if not topics:
            return
        request = messages.AlterPartitionRequest(
            broker_id=self._parts.node_id,
            broker_epoch=self._parts.broker_epoch(),
            topics=[
                messages.AlterPartitionRequest.TopicData(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in topics.items()
            ],
        )
        response = await AlterLink(self._parts.controller).alter_partition(request)
        if response.error_code:
            raise LinkFailed(f"the controller answers {ErrorCode(response.error_code).name.lower()}")
        by_place = {(each.topic_id, each.index): (each, epoch) for each, epoch in wanted.items()}
        for topic in response.topics:
            for answer in topic.partitions:
                partition, leader_epoch = by_place[topic.topic_id, answer.partition_index]
                if answer.error_code == ErrorCode.NONE and answer.leader_epoch < leader_epoch:
                    self._refused(partition, leader_epoch)

    def _refused(self, partition: Partition, leader_epoch: int) -> None:
        link = self._flows.get(partition.topic, {}).get(partition)
        mirror = link.mirrors.get(partition) if link is not None else None
        if link is not None and mirror is not None:
            mirror.fail(
                Cause.CONTROLLER,
                f"the active controller does not raise the leader epoch to {leader_epoch}: it must be one of "
                f"broker-cy, and the epoch at most {mirror_ops.EPOCH_MAX}",
            )
            link.failed(partition)


def _outcomes(response: Any) -> list[Any]:
    return [(each.error_code, each.error_message) for each in response.responses]
