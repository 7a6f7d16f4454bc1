"""Shards of a host in one row."""

from __future__ import annotations

from collections.abc import Sequence

from broker_cy.admin.cluster import BrokerInfo, ClusterDescription
from broker_cy.console.hosts import address_text, by_host, id_text, state_of
from broker_cy.console.rows import broker_rows, host_rows


def infos(*places: tuple[int, str, int]) -> tuple[BrokerInfo, ...]:
    return tuple(BrokerInfo(number, host, port, None, False) for number, host, port in places)


FOUND = infos((1, "a", 9092), (2, "b", 9092), (3, "c", 9092), (1001, "a", 9093), (1002, "b", 9093), (2001, "a", 9094))


def groups(found: Sequence[BrokerInfo]) -> list[tuple[int, ...]]:
    return [tuple(each.broker_id for each in host) for host in by_host(found, lambda info: info)]


def test_groups() -> None:
    """If this fails, shards are shown as hosts, or brokers that only share a machine as shards of each other."""
    assert groups(FOUND) == [(1, 1001, 2001), (2, 1002), (3,)]
    # Separate processes of one machine, and a cluster whose ids only look like those of shards.
    assert groups(infos((1, "a", 9092), (2, "a", 9093))) == [(1,), (2,)]
    assert groups(infos((1, "a", 9092), (1001, "b", 9092))) == [(1,), (1001,)]
    assert by_host([1, 2], lambda _: None) == [(1,), (2,)]


def test_texts() -> None:
    """If this fails, the row of a host says something wrong about it."""
    assert (id_text([1]), id_text([1, 1001, 2001])) == ("1", "1 +2")
    assert address_text(FOUND[:1]) == "a:9092"
    assert address_text(infos((1, "a", 9092), (1001, "a", 9093))) == "a:9092-9093"
    assert state_of(["in service", "in service"]) == "in service"
    assert state_of(["in service", "fenced", "fenced"]) == "2 of 3 fenced"
    assert state_of(["fenced", "cordoned"]) == "1 of 2 fenced, 1 of 2 cordoned"


def test_rows_open_into_shards() -> None:
    """If this fails, a host of the terminal console cannot be opened, or its sums are wrong."""
    rows = broker_rows(ClusterDescription("id", 1, FOUND), [], None, [])
    closed = host_rows(rows, ())
    assert [(row.info.broker_id, len(row.shards), row.leads) for row in closed] == [(1, 3, 0), (2, 2, 0), (3, 0, 0)]
    opened = host_rows(rows, {2})
    assert [(row.info.broker_id, len(row.parts)) for row in opened] == [(1, 3), (2, 2), (2, 1), (1002, 1), (3, 1)]
    assert closed[0].is_controller
