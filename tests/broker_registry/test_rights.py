"""The right to write: the timeout of its transactions."""

from __future__ import annotations

import asyncio
from pathlib import Path

from broker_cy.admin import AdminClient
from broker_registry.rights import TRANSACTION_MS
from broker_registry.service import Service, ServiceSettings
from tests.broker_registry.test_writer import adding
from tests.support.broker import QUICK, BrokerProcess

BOUND_MS = 1_000


def test_brokers_with_a_small_bound_of_transactions_take_registrations(tmp_path: Path) -> None:
    """If this fails, all registrations are refused where transaction.max.timeout.ms is below that of the registry."""
    assert BOUND_MS < TRANSACTION_MS
    broker = BrokerProcess(tmp_path, {**QUICK, "transaction.max.timeout.ms": str(BOUND_MS)})

    async def register() -> None:
        async with Service(lambda: AdminClient(broker.bootstrap), ServiceSettings()) as service:
            for number in range(3):
                assert (await service.write(adding(f"s{number}", '"int"'))).value.id == 1
            assert service.takeovers == 1

    try:
        broker.start()
        asyncio.run(register())
    finally:
        broker.close()
