"""Brokers that are shards of one host (`broker-cy start --shards`), which lists show in one row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from broker_cy.admin.cluster import BrokerInfo
from broker_cy.core import shard_ids

T = TypeVar("T")


def by_host(brokers: Iterable[T], info_of: Callable[[T], BrokerInfo | None]) -> list[tuple[T, ...]]:
    """Return the brokers in groups: the shards of one node, by number, or one broker that has no others. Shards
    advertise the same host, and their ids differ by multiples of shard_ids.STEP.
    """
    groups: dict[tuple[str, int] | int, list[tuple[int, T]]] = {}
    for place, broker in enumerate(brokers):
        info = info_of(broker)
        key = -1 - place if info is None else (info.host, shard_ids.node_of(info.broker_id))
        groups.setdefault(key, []).append((-1 if info is None else info.broker_id, broker))
    return [tuple(broker for _, broker in sorted(each, key=lambda one: one[0])) for each in groups.values()]


def address_text(infos: Sequence[BrokerInfo]) -> str:
    """`host:9092`, or `host:9092-9095` for shards."""
    first, last = infos[0], infos[-1]
    return f"{first.host}:{first.port}" + (f"-{last.port}" if len(infos) > 1 else "")


def id_text(ids: Sequence[int]) -> str:
    """`1`, or `1 +3` for a host of four shards."""
    return str(ids[0]) + (f" +{len(ids) - 1}" if len(ids) > 1 else "")


def state_of(states: Sequence[str]) -> str:
    """The state of a host: that of all its shards, or the number of those in each other state."""
    if len(set(states)) == 1:
        return states[0]
    counts = {state: states.count(state) for state in states if state != "in service"}
    return ", ".join(f"{count} of {len(states)} {state}" for state, count in counts.items())
