"""Sends the in-sync sets that leaders propose to the controller (AlterPartition, KIP-497): one request at a time,
with all that were proposed until then. A request that fails is repeated after a backoff; the leaders decide by the
answers.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from broker_cy.controller.partition_change import RECOVERED
from broker_cy.core.errors import ErrorCode
from broker_cy.core.logs import facts
from broker_cy.core.supervision import keep_running
from broker_cy.replica.in_sync import Altered, Proposal
from broker_cy.replication.links import LinkFailed
from broker_cy.wire import messages

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from broker_cy.replica.partition import Partition

LOGGER = logging.getLogger("broker_cy.server.replication")

# As in Kafka: AlterPartitionManager waits as long before it sends again.
RETRY_S = 0.05


class ControllerLink(Protocol):
    """How to reach the active controller."""

    async def alter_partition(self, request: messages.AlterPartitionRequest) -> messages.AlterPartitionResponse:
        """Send an AlterPartition of version 3 to the active controller. Raises LinkFailed."""


class Alterations:
    """`add` is FlushGroup.on_alter. At most one proposal of each partition waits."""

    def __init__(
        self, node_id: int, broker_epoch: Callable[[], int], loop: asyncio.AbstractEventLoop, controller: ControllerLink
    ) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._loop = loop
        self._controller = controller
        self._waiting: dict[tuple[UUID, int], tuple[Partition, Proposal]] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, partition: Partition) -> None:
        """The partition has a new proposal, or wants to send it again."""
        in_sync = partition.replica.in_sync
        if in_sync is None or not in_sync.unsent:
            return
        self._waiting[partition.topic_id, partition.index] = (partition, in_sync.sent())
        if self._task is None:
            self._task = keep_running(self._loop, self._send, "changes of in-sync sets")

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _send(self) -> None:
        while self._waiting:
            # Let the turn end: other partitions may propose in it.
            await asyncio.sleep(0)
            sent, self._waiting = self._waiting, {}
            try:
                response = await self._controller.alter_partition(self._request(sent))
                # Otherwise the controller is not active, or does not know this broker's epoch yet.
                is_answered = response.error_code == ErrorCode.NONE
                if is_answered:
                    self._answered(sent, response)
            except LinkFailed as error:
                LOGGER.debug("AlterPartition failed", extra=facts(reason=str(error)))
                is_answered = False
            except Exception:
                # A defect. The leaders wait for answers to their proposals.
                self._keep(sent)
                raise
            if self._waiting or not is_answered:
                await asyncio.sleep(RETRY_S)
            if not is_answered:
                self._keep(sent)
        self._task = None

    def _keep(self, sent: dict[tuple[UUID, int], tuple[Partition, Proposal]]) -> None:
        """Repeat the current proposals."""
        for key, (partition, proposal) in sent.items():
            in_sync = partition.replica.in_sync
            if in_sync is not None and in_sync.proposal is proposal and not partition.closed:
                self._waiting.setdefault(key, (partition, proposal))

    def _request(self, sent: dict[tuple[UUID, int], tuple[Partition, Proposal]]) -> messages.AlterPartitionRequest:
        topics: dict[UUID, list[messages.AlterPartitionRequest.PartitionData]] = {}
        for (topic_id, index), (_, proposal) in sent.items():
            topics.setdefault(topic_id, []).append(
                messages.AlterPartitionRequest.PartitionData(
                    partition_index=index,
                    leader_epoch=proposal.leader_epoch,
                    partition_epoch=proposal.partition_epoch,
                    # After an unclean election, too: the log of the leader is the partition, so no further recovery is
                    # needed (KIP-704). The controller lets no replica join a set that is still recovering.
                    leader_recovery_state=RECOVERED,
                    new_isr_with_epochs=[
                        messages.AlterPartitionRequest.BrokerState(broker_id=each, broker_epoch=epoch)
                        for each, epoch in proposal.isr
                    ],
                )
            )
        return messages.AlterPartitionRequest(
            broker_id=self._node_id,
            broker_epoch=self._broker_epoch(),
            topics=[
                messages.AlterPartitionRequest.TopicData(topic_id=topic_id, partitions=each)
                for topic_id, each in topics.items()
            ],
        )

    def _answered(
        self,
        sent: dict[tuple[UUID, int], tuple[Partition, Proposal]],
        response: messages.AlterPartitionResponse,
    ) -> None:
        answers = {
            (topic.topic_id, each.partition_index): each for topic in response.topics for each in topic.partitions
        }
        for key, (partition, proposal) in sent.items():
            answer = answers.get(key)
            if answer is None:
                altered = Altered(ErrorCode.UNKNOWN_SERVER_ERROR)
            else:
                altered = Altered(
                    ErrorCode(answer.error_code), answer.leader_epoch, answer.partition_epoch, tuple(answer.isr)
                )
            if not partition.closed:
                partition.answered(proposal, altered)
