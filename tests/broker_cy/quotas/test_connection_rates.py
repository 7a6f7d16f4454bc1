"""How fast connections may begin."""

from __future__ import annotations

import pytest

from broker_cy.quotas.connections import AT_ONCE, UNLIMITED, ConnectionRates


def rates(broker: int = UNLIMITED, **listeners: int) -> ConnectionRates:
    made = ConnectionRates(11, 1000)
    made.limit(broker, listeners, 0)
    return made


def pauses(made: ConnectionRates, listener: str, count: int, *, is_exempt: bool = False) -> list[int]:
    return [made.arrive(listener, "10.0.0.1", 0, is_exempt=is_exempt).pause_ms for _ in range(count)]


def test_nothing_is_limited_by_default() -> None:
    """If this fails, brokers without limits accept slowly, or count for nothing."""
    made = rates()
    assert not made.is_on
    assert pauses(made, "A", 1000) == [0] * 1000


def test_a_listener_pauses_beyond_its_rate_and_that_of_the_broker() -> None:
    """If this fails, a storm of connections uses up the broker, or one listener's storm stops another one."""
    made = rates(A=2)
    assert made.is_on
    assert pauses(made, "A", 21)[19:] == [0, 500]
    # One window at most.
    assert pauses(made, "A", 10)[-1] == 1000
    assert pauses(made, "B", 50) == [0] * 50
    made = rates(broker=2)
    assert pauses(made, "A", 20) == [0] * 20
    assert pauses(made, "B", 1) == [500]
    assert pauses(made, "C", 5, is_exempt=True) == [0] * 5
    made.limit(UNLIMITED, {}, 0)
    assert not made.is_on


def test_connections_beyond_the_rate_of_their_address_do_not_count() -> None:
    """If this fails, one address that connects again and again locks others out, or itself forever."""
    made = rates(broker=10)
    made.limit_address("10.0.0.1", 1.0)
    found = [made.arrive("A", "10.0.0.1", 0) for _ in range(200)]
    assert found[:10] == [AT_ONCE] * 10
    assert all(each.close_ms == 1000 for each in found[10:])
    assert [made.arrive("A", f"10.0.0.{n}", 0).pause_ms for n in range(2, 92)] == [0] * 90
    # Ten connections, over eleven seconds.
    assert made.arrive("A", "10.0.0.1", 999).close_ms > 0
    assert made.arrive("A", "10.0.0.1", 11_000).close_ms == 0


def test_quotas_of_addresses_and_their_default() -> None:
    """If this fails, an address has another limit than the operator set, as when it is written in another way."""
    made = rates()
    made.limit_address(None, 1.0)
    made.limit_address("0:0:0:0:0:0:0:1", 3.0)

    def allowed(address: str, now_ms: int) -> int:
        return [made.arrive("A", address, now_ms).close_ms > 0 for _ in range(100)].index(True)

    assert allowed("::1", 0) == 30
    assert allowed("10.0.0.1", 0) == 10
    made.limit_address("0:0:0:0:0:0:0:1", None)
    assert allowed("::1", 20_000) == 10
    made.limit_address(None, None)
    assert not made.is_on
    with pytest.raises(ValueError, match="example"):
        made.limit_address("host.example", 1.0)


def test_a_rate_of_zero() -> None:
    """Kafka accepts it in the file: each connection waits for a window."""
    assert pauses(rates(broker=0), "A", 2) == [1000, 1000]
