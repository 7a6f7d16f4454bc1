"""The check of records against the schema registry, built with the first topic that asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from broker_cy.metadata import topic_names

if TYPE_CHECKING:
    from broker_cy.broker.broker import Broker
    from broker_cy.network.broker_calls import BrokerCalls
    from broker_cy.record_schemas.checks import RecordSchemas
    from broker_cy.record_schemas.follower import Follower


class SchemaChecks:
    """Follows the topic of the registry while topics of this broker check the schemas of their records."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._follower: Follower | None = None
        self._calls: BrokerCalls | None = None
        # Those that check records.
        self._topics: set[str] = set()

    def of(self, topic: str, settings: Mapping[str, Any]) -> RecordSchemas | None:
        """Return the check that the settings of a topic ask for; None without one. The topic of the registry itself and
        the brokers' own topics are never checked: else nothing could be registered.
        """
        of_keys, of_values = settings["confluent.key.schema.validation"], settings["confluent.value.schema.validation"]
        is_own = topic == self._broker.config["brokercy.schema.topic"] or topic_names.is_protected(topic)
        if is_own or not (of_keys or of_values):
            self.forget(topic)
            return None
        from broker_cy.record_schemas.checks import RecordSchemas, Strategy

        self._topics.add(topic)
        if self._follower is None:
            self._follower = self._make()
        self._follower.start()
        return RecordSchemas(
            topic,
            Strategy(settings["confluent.key.subject.name.strategy"]) if of_keys else None,
            Strategy(settings["confluent.value.subject.name.strategy"]) if of_values else None,
            self._follower,
        )

    def forget(self, topic: str) -> None:
        """The topic was deleted, or its records are not checked."""
        self._topics.discard(topic)
        if not self._topics and self._follower is not None:
            self._follower.stop()

    def _make(self) -> Follower:
        from broker_cy.network.broker_calls import BrokerCalls
        from broker_cy.record_schemas.follower import Follower
        from broker_cy.record_schemas.sources import BrokerSource

        broker = self._broker
        listener = broker.config.network.to_brokers[0]
        self._calls = BrokerCalls(broker.node_id, listener, lambda: broker.image, broker.outgoing)
        source = BrokerSource(
            broker.config["brokercy.schema.topic"],
            broker.node_id,
            lambda: broker.image,
            broker.partitions,
            self._calls,
            broker.loop,
            broker.cold_reader,
        )
        return Follower(source, broker.loop, broker.cold_reader)

    async def stop(self) -> None:
        """End the task, and answer the requests that wait."""
        if self._follower is not None:
            self._follower.stop()
        if self._calls is not None:
            await self._calls.close()
