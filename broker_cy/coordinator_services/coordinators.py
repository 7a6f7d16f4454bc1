"""The coordinators of this broker, for groups, transactions and the state of share groups, with their requests to other
brokers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from broker_cy.coordinator.share.state_calls import DeleteState, InitializeState
from broker_cy.coordinator.streams.internal_topics import CreateInternalTopics
from broker_cy.coordinator_services.group_service import GroupService
from broker_cy.coordinator_services.internal_topics import CreateTopics, InternalTopics
from broker_cy.coordinator_services.marker_sender import MarkerSender
from broker_cy.coordinator_services.share_groups import ShareGroups
from broker_cy.coordinator_services.share_persister import SharePersister
from broker_cy.coordinator_services.share_state_service import ShareStateService
from broker_cy.coordinator_services.txn_markers import TxnMarkers
from broker_cy.coordinator_services.txn_service import TransactionService
from broker_cy.coordinator_services.txn_verifier import TxnVerifier
from broker_cy.network.broker_calls import BrokerCalls

if TYPE_CHECKING:
    from broker_cy.client.outgoing import Outgoing
    from broker_cy.coordinator_services.coordinator_service import ServiceContext
    from broker_cy.coordinator_services.share_state_runtime import DeleteBefore
    from broker_cy.core.randomness import Randomness
    from broker_cy.metadata.image import ImageDelta, MetadataImage
    from broker_cy.partitions.openings import Openings


class Coordinators:
    """`apply` follows the metadata, `stop` ends all of them in order."""

    def __init__(
        self,
        context: ServiceContext,
        openings: Openings,
        image: Callable[[], MetadataImage],
        outgoing: Outgoing,
        next_producer_id: Callable[[], Awaitable[int]],
        delete_before: DeleteBefore,
        create_topics: CreateTopics,
        randomness: Randomness,
    ) -> None:
        """`outgoing` has the connections to other brokers; `next_producer_id` as in TransactionService, `delete_before`
        as in ShareStateRuntime, `create_topics` as in InternalTopics. `randomness` spreads repeated requests.
        """
        config, loop, node_id = context.config, context.loop, context.config.node_id
        self.groups = GroupService(context)
        self.groups.add_service(CreateInternalTopics, InternalTopics(create_topics).create)
        self.txn_markers = TxnMarkers(
            context.partitions, self.groups, openings, context.clock, loop, config["request.timeout.ms"]
        )
        self._calls = BrokerCalls(node_id, config.network.inter_broker, image, outgoing)
        self.marker_sender = MarkerSender(node_id, loop, image, self.txn_markers, self._calls)
        self.verifier = TxnVerifier(loop, self._calls)
        self.transactions = TransactionService(context, self.marker_sender, next_producer_id, self.verifier)
        self.share_state = ShareStateService(context, delete_before)
        self.share_persister = SharePersister(loop, self.share_state, self._calls, randomness)
        self.share_groups = ShareGroups(node_id, image, context.partitions, openings, self.share_persister, self._calls)
        self.groups.add_service(InitializeState, self.share_groups.initialize)
        self.groups.add_service(DeleteState, self.share_groups.delete)

    def apply(self, delta: ImageDelta, image: MetadataImage) -> None:
        """The committed metadata have changed."""
        self.groups.apply(delta, image)
        self.transactions.apply(delta, image)
        self.share_state.apply(delta, image)
        self.marker_sender.apply(delta, image)
        self.verifier.apply(delta, image)
        self.share_persister.apply(delta, image)

    def partition_online(self, topic: str, index: int) -> None:
        """A partition that was offline is served now."""
        self.groups.partition_online(topic, index)
        self.transactions.partition_online(topic, index)
        self.share_state.partition_online(topic, index)

    def partition_led(self, topic: str) -> None:
        """This broker leads partitions of the topic later than the metadata say."""
        self.groups.partition_led(topic)
        self.transactions.partition_led(topic)
        self.share_state.partition_led(topic)

    async def stop(self) -> None:
        """End them in this order: the end of a transaction may wait for a group coordinator."""
        await self.transactions.stop()
        await self.marker_sender.close()
        await self.verifier.close()
        await self.share_persister.close()
        await self._calls.close()
        await self.groups.stop()
        await self.share_state.stop()
