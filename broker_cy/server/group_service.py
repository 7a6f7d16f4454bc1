"""The group coordinator of this broker: the shards of `__consumer_offsets`, as handlers see them.

The topic is created when somebody first asks for a coordinator. A shard is loaded from its log when its partition
appears; until that is done its groups are answered with COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from broker_cy.controller.create_topics import CreateTopics
from broker_cy.coordinator.routing import OFFSETS_TOPIC, partition_for
from broker_cy.coordinator.settings import GroupSettings
from broker_cy.coordinator.shard import Shard
from broker_cy.coordinator.step import Now, Step
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.logs import facts
from broker_cy.server.group_shard import GroupShard, LoadState
from broker_cy.server.internal_topics import creatable_topic
from broker_cy.wire import messages

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from broker_cy.config import BrokerConfig
    from broker_cy.core.clock import Clock
    from broker_cy.metadata.image import ImageDelta, MetadataImage
    from broker_cy.replica.partition_table import PartitionTable

LOGGER = logging.getLogger("broker_cy.server.groups")

# A write takes a turn or two of the loop; a disk that hangs must not hold up the stop.
STOP_WRITES_S = 0.5

Submit = Callable[[Any], Awaitable[Any]]
Operation = Callable[[Shard, Any, Now], Step]


class GroupService:
    """`apply` follows the metadata (subscribe it behind whatever opens the partitions); `stop` ends it."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        partitions: PartitionTable,
        submit: Submit,
        topic_settings: Callable[[str], Any],
        executor: Executor | None = None,
    ) -> None:
        """`submit` runs an operation of the controller, `topic_settings` gives a topic's typed settings by Kafka's
        names, `executor` reads logs (None: the loop's own).
        """
        self.settings = GroupSettings.from_config(config)
        self.shards: dict[int, GroupShard] = {}
        self.partition_count = 0
        """Partitions of `__consumer_offsets`; 0 while the topic does not exist."""
        self._config = config
        self._clock = clock
        self._loop = loop
        self._partitions = partitions
        self._submit = submit
        self._topic_settings = topic_settings
        self._executor = executor
        self._max_batch_bytes = 0
        self._loading: asyncio.Task[None] | None = None
        self._creating: asyncio.Task[None] | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._stopped = False

    # ---- following the metadata ----

    def apply(self, delta: ImageDelta, image: MetadataImage) -> None:
        """Open shards for new partitions of `__consumer_offsets`, and delete offsets of topics that are gone."""
        if self._stopped:
            return
        deleted: list[tuple[str, UUID]] = []
        for topic in delta.topics:
            if topic.before is not None and (topic.after is None or topic.after.topic_id != topic.before.topic_id):
                deleted.append((topic.before.name, topic.before.topic_id))
        if any(name == OFFSETS_TOPIC for name, _ in deleted):
            self._close_shards()
        offsets_topic = image.topics.by_name(OFFSETS_TOPIC)
        if offsets_topic is not None:
            self._max_batch_bytes = self._topic_settings(OFFSETS_TOPIC)["max.message.bytes"]
            self.partition_count = len(offsets_topic.partitions)
            self._open_shards()
        if deleted:
            for shard in self._active():
                shard.accept(shard.shard.topics_deleted(deleted))

    def _open_shards(self) -> None:
        fresh = []
        for index in range(self.partition_count):
            partition = self._partitions.get(OFFSETS_TOPIC, index)
            if partition is None or index in self.shards:
                continue
            shard = GroupShard(
                partition, self.settings, self._clock, self._loop, lambda: self._max_batch_bytes, self._executor
            )
            self.shards[index] = shard
            fresh.append(shard)
        if fresh:
            before = self._loading
            self._loading = self._loop.create_task(self._load(fresh, before))
        if self._sweeper is None:
            self._schedule_sweep()

    def partition_online(self, topic: str, index: int) -> None:
        """A partition is served that was offline before: coordinate its groups."""
        shard = self.shards.get(index)
        if topic == OFFSETS_TOPIC and shard is not None and shard.state is LoadState.FAILED and not self._stopped:
            del self.shards[index]
            self._open_shards()

    async def _load(self, fresh: list[GroupShard], before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await before
        for shard in fresh:
            await shard.load()

    async def loaded(self) -> None:
        """Wait until every shard there is has been loaded, or has failed to."""
        while self._loading is not None and not self._loading.done():
            await asyncio.shield(self._loading)

    def _active(self) -> list[GroupShard]:
        return [shard for shard in self.shards.values() if shard.state is LoadState.ACTIVE]

    def _close_shards(self) -> None:
        for shard in self.shards.values():
            shard.close()
        self.shards.clear()
        self.partition_count = 0

    async def stop(self) -> None:
        """Write what was accepted, answer all that waits on with NOT_COORDINATOR, and end every timer and task."""
        self._stopped = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        deadline = self._loop.time() + STOP_WRITES_S
        while any(shard.is_writing for shard in self._active()) and self._loop.time() < deadline:
            await asyncio.sleep(0)
        self._close_shards()
        for task in (self._loading, self._creating):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    # ---- expiry ----

    def _schedule_sweep(self) -> None:
        interval_s = self.settings.offsets_retention_check_interval_ms / 1000
        self._sweeper = self._loop.call_later(interval_s, self._sweep, None)

    def _sweep(self, left: list[GroupShard] | None) -> None:
        """One shard per turn of the loop, so that many offsets do not hold up everybody else."""
        if left is None:
            left = list(self.shards.values())
        if left:
            left.pop().sweep()
            self._sweeper = self._loop.call_later(0, self._sweep, left)
        else:
            self._schedule_sweep()

    # ---- the topic ----

    async def ensure_topic(self) -> ErrorCode:
        """Create `__consumer_offsets` if it does not exist; NONE where it does, in the end."""
        if self.partition_count:
            return ErrorCode.NONE
        if self._creating is None or self._creating.done():
            self._creating = self._loop.create_task(self._create_topic())
        await asyncio.shield(self._creating)
        return ErrorCode.NONE if self.partition_count else ErrorCode.COORDINATOR_NOT_AVAILABLE

    async def _create_topic(self) -> None:
        request = messages.CreateTopicsRequest(topics=[creatable_topic(OFFSETS_TOPIC, self._config)])
        reason = ""
        try:
            response = await self._submit(CreateTopics(request))
        except KafkaError as error:
            reason = str(error)
        else:
            for result in response.topics:
                if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    reason = f"{ErrorCode(result.error_code).name}: {result.error_message}"
        if reason:
            LOGGER.error("internal topic not created", extra=facts(topic=OFFSETS_TOPIC, reason=reason))

    # ---- for handlers ----

    def partition_for(self, group_id: str) -> int:
        """The partition of the group; only while `partition_count` is not 0."""
        return partition_for(group_id, self.partition_count)

    def shard_for(self, group_id: str) -> GroupShard:
        """The shard of the group, ready to be asked. Raises KafkaError: NOT_COORDINATOR,
        COORDINATOR_LOAD_IN_PROGRESS.
        """
        shard = self.shards.get(self.partition_for(group_id)) if self.partition_count else None
        if shard is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"this broker does not coordinate group {group_id!r}")
        code = shard.check()
        if code is not ErrorCode.NONE:
            raise KafkaError(code, f"the coordinator of group {group_id!r} is {shard.state.value}")
        return shard

    def run(self, group_id: str, operation: Operation) -> asyncio.Future[Any]:
        """Run `operation(shard, token, now)` on the group's shard; the future gets its answer. Raises as shard_for."""
        return self.shard_for(group_id).run(operation)

    def readable_shards(self) -> list[Shard]:
        """All shards there are. Raises KafkaError(COORDINATOR_LOAD_IN_PROGRESS) where one is not loaded yet."""
        if any(shard.state is LoadState.LOADING for shard in self.shards.values()):
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return [shard.shard for shard in self._active()]
