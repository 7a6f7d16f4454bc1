"""The right to write: the timeout of its transactions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from broker_cy.admin import AdminClient
from broker_cy.client.errors import ClientError, Failure
from broker_cy.core.errors import ErrorCode
from broker_registry.rights import TRANSACTION_MS, FencingRight
from broker_registry.service import Service, ServiceSettings
from tests.broker_registry.test_writer import TIMEOUT_S, adding
from tests.support.broker import QUICK, BrokerProcess

BOUND_MS = 6_000


def test_brokers_with_a_small_bound_of_transactions_take_registrations(tmp_path: Path) -> None:
    """If this fails, all registrations are refused where transaction.max.timeout.ms is below that of the registry."""
    assert BOUND_MS < TRANSACTION_MS
    broker = BrokerProcess(tmp_path, {**QUICK, "transaction.max.timeout.ms": str(BOUND_MS)})
    settings = ServiceSettings(timeout_s=TIMEOUT_S)

    async def register() -> None:
        async with Service(lambda: AdminClient(broker.bootstrap, timeout_s=TIMEOUT_S), settings) as service:
            for number in range(3):
                assert (await service.write(adding(f"s{number}", '"int"'))).value.id == 1

    try:
        broker.start()
        asyncio.run(register())
    finally:
        broker.close()


class Producer:
    """Begins transactions of `bound_ms` at most."""

    def __init__(self, timeout_ms: int, bound_ms: int) -> None:
        self.timeout_ms, self.bound_ms = timeout_ms, bound_ms

    async def begin(self) -> None:
        if self.timeout_ms > self.bound_ms:
            raise ClientError(Failure.REFUSED, "too long", code=ErrorCode.INVALID_TRANSACTION_TIMEOUT)

    async def abort(self) -> None:
        """Nothing is open."""


class Client:
    """Makes such producers; `asked_ms` has their timeouts."""

    def __init__(self, bound_ms: int) -> None:
        self.bound_ms = bound_ms
        self.asked_ms: list[int] = []

    def transactional_producer(self, name: str, *, timeout_ms: int) -> Any:
        self.asked_ms.append(timeout_ms)
        return Producer(timeout_ms, self.bound_ms)


def test_the_accepted_timeout_is_kept() -> None:
    """If this fails, each takeover asks many times, or a cluster with a bound of a second takes no schemas."""
    client = Client(1_000)
    right = FencingRight(cast(AdminClient, client), "_schemas")

    async def take_twice() -> None:
        await right.take()
        await right.take()

    asyncio.run(take_twice())
    assert client.asked_ms == [10_000, 5_000, 2_500, 1_250, 625, 625]


def test_a_bound_that_no_timeout_fits_is_an_error() -> None:
    """If this fails, a registry asks for ever."""
    client = Client(0)
    with pytest.raises(ClientError, match="too long"):
        asyncio.run(FencingRight(cast(AdminClient, client), "_schemas").take())
    assert client.asked_ms[-1] == 1
