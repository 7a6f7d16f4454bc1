"""The plan of ending a transaction that hangs."""

from __future__ import annotations

from broker_cy.admin import AdminClient
from broker_cy.admin.text import clean, count, duration
from broker_cy.admin.transactions import HangingTransaction
from broker_cy.console.acts.plan import Command, Plan


async def plan_abort(client: AdminClient, command: Command, hanging: HangingTransaction) -> Plan:
    """An abort marker in its coordinator's place; what readers of committed records get by it."""
    key, producer = hanging.partition, hanging.producer
    start = producer.txn_start_offset or 0
    end = (await client.offsets.latest([key])).whole()[key]

    async def run() -> str:
        await client.transactions.abort(key, producer)
        return f"the transaction of producer {producer.producer_id} in {key} is aborted"

    return Plan(
        f"Abort in {key}",
        f"the transaction of producer {producer.producer_id} since offset {count(start)} ends; "
        f"readers of committed records wait before {count(end - start)} offsets for it",
        command("transactions", "abort", key.topic, key.partition, "--producer-id", producer.producer_id, "--yes"),
        run,
        [
            clean(f"transactional id {hanging.transactional_id or '(its coordinator knows none)'}"),
            f"producer epoch {producer.producer_epoch}, idle for {duration(hanging.idle_ms)}",
        ],
        typed=key.topic,
        verb="Abort",
    )
