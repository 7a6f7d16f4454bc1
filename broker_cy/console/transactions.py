"""The transactions of a cluster, as the consoles show them: open ones, hanging ones, and the producers of a topic.

`now_ms` returns the wall clock time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker_cy.admin import AdminClient
from broker_cy.admin.configs import ConfigResource, ResourceType
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.transactions import MAX_TIMEOUT_MS, HangingTransaction, ProducerState
from broker_cy.console.feed_values import OpenTransaction

_TRANSACTION_TIMEOUT: Final = "transaction.max.timeout.ms"


async def open_transactions(client: AdminClient, now_ms: Callable[[], int]) -> tuple[OpenTransaction, ...]:
    """Return all transactional ids; those with an unended transaction have its facts. Raises ClientError."""
    listed = [each for part in (await client.transactions.list_all()).whole().values() for each in part]
    unended = [each.transactional_id for each in listed if each.state in ("Ongoing", "PrepareCommit", "PrepareAbort")]
    described = (await client.transactions.describe(unended)).found if unended else {}
    at_ms = now_ms()
    rows = []
    for each in listed:
        reported = described.get(each.transactional_id)
        start = None if reported is None else reported.start_ms
        rows.append(
            OpenTransaction(
                each,
                None if start is None else max(0, at_ms - start),
                None if reported is None else reported.timeout_ms,
                () if reported is None else reported.partitions,
            )
        )
    return tuple(rows)


async def hanging_transactions(client: AdminClient, now_ms: Callable[[], int]) -> tuple[HangingTransaction, ...]:
    """Return the transactions of all partitions that no coordinator will end. Raises ClientError."""
    topics = await client.topics.list_all()
    keys = [TopicPartition(topic.name, part.partition) for topic in topics for part in topic.partitions]
    return await client.transactions.find_hanging(keys, now_ms(), max_timeout_ms=await _timeout_max_ms(client))


async def _timeout_max_ms(client: AdminClient) -> int:
    """Return the longest transaction timeout that the brokers allow; Kafka's default if they do not report it."""
    brokers = [ConfigResource(ResourceType.BROKER, str(node)) for node in client.caller.metadata.nodes]
    reported = await client.configs.describe(brokers, names=[_TRANSACTION_TIMEOUT])
    values = [entry.value for entries in reported.found.values() for entry in entries if entry.value]
    return max((int(value) for value in values if value.isdecimal()), default=MAX_TIMEOUT_MS)


async def producers_of(client: AdminClient, topic: str) -> tuple[tuple[TopicPartition, ProducerState], ...]:
    """Return the producers that the leaders of a topic know. Raises ClientError."""
    keys = await client.records.partitions(topic)
    found = (await client.transactions.producers(keys)).found
    return tuple((key, producer) for key, producers in found.items() for producer in producers)
