"""The act that ends a hanging transaction."""

from __future__ import annotations

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.transactions import HangingTransaction, ProducerState
from broker_cy.console.acts.plan import Change, Command, Plan, Report
from broker_cy.core.classes import dataclass
from broker_cy.reporting.numbers import count, duration


@dataclass(frozen=True, slots=True)
class AbortTransaction:
    """Writes an abort marker on behalf of the coordinator."""

    partition: TopicPartition
    producer: ProducerState

    async def run(self, client: AdminClient) -> Report:
        await client.transactions.abort(self.partition, self.producer)
        said = f"aborted the transaction of producer {self.producer.producer_id} in {self.partition}"
        return Report(said, (str(self.partition),))


async def plan_abort(client: AdminClient, command: Command, hanging: HangingTransaction) -> Plan:
    """Plan aborting a transaction, with the number of offsets that it hides from consumers of committed records."""
    key, producer = hanging.partition, hanging.producer
    start = producer.txn_start_offset or 0
    end = (await client.offsets.latest([key])).whole()[key]
    return Plan(
        f"Abort in {key}",
        f"aborts the transaction of producer {producer.producer_id}, open since offset {count(start)}; "
        f"consumers of committed records can then read the following {count(end - start)} offsets",
        command("transactions", "abort", key.topic, key.partition, "--producer-id", producer.producer_id, "--yes"),
        AbortTransaction(key, producer),
        [
            Change("transactional id", note=hanging.transactional_id or "unknown to its coordinator"),
            Change("producer epoch", note=f"{producer.producer_epoch}, idle for {duration(hanging.idle_ms)}"),
        ],
        typed=key.topic,
        verb="Abort",
    )
