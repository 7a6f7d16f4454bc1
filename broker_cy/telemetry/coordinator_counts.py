"""Counts of the coordinators' state, taken in slices so that the loop runs: SLICE groups or transactional ids at a
time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import field
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from broker_cy.core.classes import dataclass

if TYPE_CHECKING:
    from broker_cy.broker.broker import Broker
    from broker_cy.coordinator.txn.state import TxnState

SLICE = 2_000
T = TypeVar("T")


@dataclass(slots=True)
class Counts:
    """Numbers by state, with the state names of the protocol; groups by their type and state. `commits` counts since
    the groups were loaded; `oldest_start_ms` is -1 if no transaction is open.
    """

    groups: dict[tuple[str, str], int] = field(default_factory=dict)
    members: int = 0
    commits: int = 0
    transactions: dict[str, int] = field(default_factory=dict)
    oldest_start_ms: int = -1

    def groups_by_state(self) -> dict[str, int]:
        """The groups of all types."""
        found: Counter[str] = Counter()
        for (_, state), number in self.groups.items():
            found[state] += number
        return dict(found)


async def count(broker: Broker) -> Counts:
    """Return approximate counts: the coordinators continue to work while this runs."""
    counts = Counts()
    groups: Counter[tuple[str, str]] = Counter()
    for coordinator in broker.groups.machines_now():
        counts.commits += coordinator.offsets.commits
        for part in slices(list(coordinator.groups.values())):
            groups.update(Counter((group.group_type.value, group.state_name) for group in part))
            counts.members += sum(group.member_count for group in part)
            await asyncio.sleep(0)
    counts.groups = dict(groups)
    states: Counter[TxnState] = Counter()
    starts: list[int] = []
    for machine in broker.transactions.machines_now():
        for transactions in slices(list(machine.transactions.values())):
            states.update(Counter(map(attrgetter("state"), transactions)))
            await asyncio.sleep(0)
        for transactional_id in [*machine.ongoing, *machine.ending]:
            transaction = machine.transactions.get(transactional_id)
            if transaction is not None:
                starts.append(transaction.start_ms)
    counts.transactions = {state.label: number for state, number in states.items()}
    counts.oldest_start_ms = min(starts, default=-1)
    return counts


def slices(values: Iterable[T]) -> Iterator[list[T]]:
    """Return parts of at most SLICE elements."""
    rest = iter(values)
    while part := list(islice(rest, SLICE)):
        yield part
