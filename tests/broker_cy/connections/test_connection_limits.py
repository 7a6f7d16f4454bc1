"""Limits on connections: how many, on which listener, and how fast they begin."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from broker_cy.config import BrokerConfig, ConfigError
from broker_cy.connections import listener as listeners
from broker_cy.connections.listener import Admission, Listener
from broker_cy.network.sockets import Buffers, SocketNetwork
from broker_cy.quotas.connections import ConnectionRates
from tests.broker_cy.connections.harness import CoreHarness, RawClient
from tests.broker_cy.connections.test_quota_waits import QuotaBroker

RATE = "max.connection.creation.rate"


@contextmanager
def harness(admission: Admission) -> Iterator[CoreHarness]:
    core = CoreHarness(admission=admission)
    try:
        yield core
    finally:
        core.close()


def test_the_listener_between_brokers_takes_the_place_of_others() -> None:
    """If this fails, clients that use up max.connections keep the brokers from each other."""
    admission = Admission(2, 100, {})
    admission.exempt = "INNER"
    with harness(admission) as core:
        inner = core.on_loop(
            lambda: Listener(
                "INNER", SocketNetwork().listen("INNER", "127.0.0.1", 0, 128, Buffers(-1, -1)), core.core, admission
            )
        )
        core.on_loop(inner.start)
        clients = [core.client(), core.client()]
        core.wait_until(lambda: admission.total == 2)
        waiting = core.client()
        node = RawClient("127.0.0.1", inner.port)
        core.wait_until(lambda: admission.by_listener["INNER"] == 1 and admission.total == 2)
        # The one from which nothing came for the longest time.
        assert clients[0].is_closed()
        core.wait_until(lambda: not admission.has_room("PLAINTEXT") and admission.has_room("INNER"))
        for each in (*clients, waiting, node):
            each.close()
        core.on_loop(inner.close)


def test_a_limit_of_one_listener() -> None:
    """If this fails, listener.name.<name>.max.connections does not hold, or holds for another listener."""
    admission = Admission(10, 100, {})
    admission.listener_max = {"PLAINTEXT": 1, "OTHER": 5}
    with harness(admission) as core:
        first = core.client()
        core.wait_until(lambda: admission.total == 1)
        assert not admission.has_room("PLAINTEXT")
        assert admission.has_room("OTHER")
        second = core.client()
        first.close()
        # The harness does not start listeners again: the broker does that.
        core.wait_until(lambda: admission.has_room("PLAINTEXT"))
        core.on_loop(core.listener.start)
        core.wait_until(lambda: admission.by_listener["PLAINTEXT"] == 1)
        second.close()


def test_a_listener_accepts_again_after_its_pause() -> None:
    """If this fails, a storm of connections stops a listener forever."""
    rates = ConnectionRates(2, 1000)
    rates.limit(4, {}, 0)
    admission = Admission(100, 100, {}, rates)
    with harness(admission) as core:
        clients = [core.client() for _ in range(7)]
        core.wait_until(lambda: admission.total == len(clients))
        for each in clients:
            each.close()


def test_a_connection_beyond_the_rate_of_its_address_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, an address connects as fast as it likes, or its connections stay open forever."""
    rates = ConnectionRates(2, 1000)
    rates.limit_address("127.0.0.1", 1.0)
    monkeypatch.setattr(listeners, "DELAYED_MAX", 2)
    admission = Admission(100, 100, {}, rates)
    with harness(admission) as core:
        clients = [core.client() for _ in range(5)]
        core.wait_until(lambda: admission.delayed == 0 and admission.total == 1)
        assert [each.is_closed() for each in clients[1:]] == [True] * 4
        assert len(core.core.connections) == 1
        clients[0].close()


def test_the_end_of_a_listener_ends_what_waits_for_its_end() -> None:
    """If this fails, a broker that stops leaves connections open."""
    rates = ConnectionRates(2, 600_000)
    rates.limit_address(None, 1e-9)
    admission = Admission(100, 100, {}, rates)
    with harness(admission) as core:
        client = core.client()
        core.wait_until(lambda: admission.delayed == 1)
        core.on_loop(core.listener.close)
        assert client.is_closed()
        assert admission.delayed == 0


def test_the_limits_of_listeners_are_read_and_follow_changes(tmp_path: Path) -> None:
    """If this fails, a limit that an operator sets has no effect."""
    prefix = "listener.name.inner."
    config = BrokerConfig.from_properties(
        {
            "node.id": "1",
            "log.dirs": str(tmp_path),
            "listeners": "INNER://:9092,OUTER://:9093",
            "listener.security.protocol.map": "INNER:PLAINTEXT,OUTER:PLAINTEXT",
            "inter.broker.listener.name": "INNER",
            "max.connections": "50",
            RATE: "40",
            prefix + "max.connections": "7",
        }
    )
    assert not config.warnings
    changes: list[Any] = []
    config.on_change(changes.append, "max.connections", RATE)

    def limits() -> list[tuple[int, int]]:
        found = [
            (config.of_listener("max.connections", name), config.of_listener(RATE, name)) for name in ("INNER", "OUTER")
        ]
        return [(int(most), int(rate)) for most, rate in found]

    assert limits() == [(7, 40), (50, 40)]
    config.apply_dynamic({}, {prefix + RATE: "3"})
    assert limits() == [(7, 3), (50, 40)]
    config.apply_dynamic({prefix + RATE: "4", "max.connections": "60"}, {prefix + RATE: "3"})
    assert limits() == [(7, 4), (60, 40)]
    config.apply_dynamic({}, {})
    assert limits() == [(7, 40), (50, 40)]
    assert changes == [{RATE}, {RATE, "max.connections"}, {RATE, "max.connections"}]
    with pytest.raises(ConfigError, match="Invalid value"):
        config.validate_dynamic({prefix + RATE: "x"}, per_broker=False)


def test_quotas_of_addresses_come_from_the_metadata(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, kafka-configs.sh --entity-type ips has no effect. Kafka's controller accepts names of hosts."""
    broker = QuotaBroker(tmp_path)
    broker.quotas.connections = rates = ConnectionRates(2, 1000)
    key = "connection_creation_rate"
    broker.set(key, 1.0, ip="10.0.0.1")
    assert rates.is_on
    assert not broker.quotas.is_on
    broker.set(key, 1.0, ip="host.example")
    assert "not an address" in caplog.text
    broker.set(key, None, ip="10.0.0.1")
    assert not rates.is_on
