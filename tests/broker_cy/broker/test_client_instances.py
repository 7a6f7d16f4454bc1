"""Clients that ask which of their metrics are wanted (KIP-714)."""

from __future__ import annotations

from uuid import UUID

from broker_cy.broker.client_instances import PUSH_INTERVAL_MS, ClientInstances
from broker_cy.core.clock import ManualClock


def test_a_client_asks_once_in_each_interval() -> None:
    """If this fails, a client is answered otherwise than by Kafka, and asks more often or no longer."""
    clock = ManualClock()
    clients = ClientInstances(clock)
    assert clients.may_ask(UUID(int=1))
    assert not clients.may_ask(UUID(int=1))
    assert clients.may_ask(UUID(int=2))
    clock.advance_ns(PUSH_INTERVAL_MS * 1_000_000)
    assert clients.may_ask(UUID(int=1))
    assert not clients.may_ask(UUID(int=1))


def test_clients_are_forgotten() -> None:
    """If this fails, clients that ask with another id each time take all memory."""
    clients = ClientInstances(ManualClock(), clients_max=2)
    assert all(clients.may_ask(UUID(int=each)) for each in (1, 2, 3, 1))
    assert not clients.may_ask(UUID(int=3))
