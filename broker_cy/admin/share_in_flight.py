"""The records of a share group in flight, from the leaders of its partitions. No Kafka API reports them: broker-cy does
at /share-groups of its metrics listener.
"""

from __future__ import annotations

import json
import ssl
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from broker_cy.admin.caller import Caller
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.metrics_listener import pages_of
from broker_cy.core.classes import NamedTuple


class InFlightRun(NamedTuple):
    """Neighboring records that have everything in common. `state` is `available`, `acquired`, `acknowledged` or
    `archived`; the last two wait for the records before them. `lock_left_ms` is None without a lock. `is_last_attempt`:
    without an acknowledgement the records are archived. `is_throttled`: they were delivered so often that fetches get
    them in smaller parts, and apart from other batches. `is_pending`: the state is being persisted.
    """

    partition: TopicPartition
    first_offset: int
    last_offset: int
    state: str
    deliveries: int
    member_id: str | None
    lock_left_ms: int | None
    is_last_attempt: bool
    is_throttled: bool
    is_pending: bool

    @property
    def records(self) -> int:
        return self.last_offset - self.first_offset + 1

    @property
    def is_unfinished(self) -> bool:
        return self.state in ("available", "acquired")


class GroupInFlight(NamedTuple):
    """`runs` are in the order of their partitions and offsets; `left_out` is the number of those that no broker listed.
    `blocked` are share partitions that give no records, because too many are in flight.

    `archived` and `returned` are records by cause, counted by the brokers since they started: those that are not
    delivered again although no member accepted them, and those that became available again. `brokers` answered.
    """

    runs: tuple[InFlightRun, ...]
    left_out: int
    blocked: tuple[TopicPartition, ...]
    archived: dict[str, int]
    returned: dict[str, int]
    brokers: tuple[int, ...]

    @property
    def by_deliveries(self) -> dict[int, int]:
        """Unfinished records by the number of their deliveries, in its order."""
        found: Counter[int] = Counter()
        for run in self.runs:
            if run.is_unfinished:
                found[run.deliveries] += run.records
        return dict(sorted(found.items()))

    @property
    def last_attempts(self) -> int:
        """Records that a member has got for the last time."""
        return sum(run.records for run in self.runs if run.is_last_attempt)

    @property
    def out_of_order(self) -> int:
        """Finished records. The start offset is before them, because it waits for unfinished ones."""
        return sum(run.records for run in self.runs if not run.is_unfinished)

    @property
    def throttled(self) -> int:
        """Records whose next delivery is in smaller parts."""
        return sum(run.records for run in self.runs if run.is_throttled)


async def in_flight_of(
    caller: Caller, group_id: str, token_file: Path | None = None, context: ssl.SSLContext | None = None
) -> GroupInFlight:
    """Return the reports of the brokers that can be asked; see `pages_of`."""
    pages = await pages_of(caller, f"/share-groups?group={quote(group_id, safe='')}", token_file, context)
    found: dict[int, Any] = {}
    for node, page in pages.items():
        try:
            found[node] = json.loads(page)
        except ValueError:
            # Another program answers at this address.
            continue
    return _joined(found)


def _joined(pages: dict[int, Any]) -> GroupInFlight:
    partitions: dict[TopicPartition, Any] = {}
    archived: Counter[str] = Counter()
    returned: Counter[str] = Counter()
    for page in pages.values():
        partitions |= {TopicPartition(each["topic"], each["partition"]): each for each in page["partitions"]}
        archived.update(page["archived"])
        returned.update(page["returned"])
    return GroupInFlight(
        tuple(run for key, each in sorted(partitions.items()) for run in _runs(key, each)),
        sum(each["left_out"] for each in partitions.values()),
        tuple(sorted(key for key, each in partitions.items() if each["is_blocked"])),
        dict(archived),
        dict(returned),
        tuple(sorted(pages)),
    )


def _runs(key: TopicPartition, partition: Any) -> Iterable[InFlightRun]:
    for run in partition["in_flight"]:
        is_last = run["member_id"] is not None and run["deliveries"] >= partition["delivery_limit"]
        yield InFlightRun(
            key,
            run["first_offset"],
            run["last_offset"],
            run["state"],
            run["deliveries"],
            run["member_id"],
            run["lock_left_ms"],
            is_last,
            run["state"] == "available" and run["deliveries"] >= partition["throttled_from"],
            run["is_pending"],
        )
