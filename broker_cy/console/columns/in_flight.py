"""Columns of the records of a share group in flight, and their causes as facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from broker_cy.admin.group_values import GroupDescription
from broker_cy.admin.share_in_flight import GroupInFlight, InFlightRun
from broker_cy.console.figures import Fact
from broker_cy.console.members import holder_name
from broker_cy.core.classes import NamedTuple
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.numbers import count
from broker_cy.reporting.tone import Tone

_CAUSES: Final[Mapping[str, str]] = {
    "reject": "rejected",
    "limit": "at the limit of deliveries",
    "missing": "missing in the log",
    "aborted": "of aborted transactions",
    "release": "released",
    "timeout": "lock ended",
    "session": "session ended",
    "leader": "leader changed",
    "operator": "by operators",
    "redrive": "redriven",
}


class RunRow(NamedTuple):
    """Records, and the name of the member that holds them."""

    run: InFlightRun
    holder: str | None


def run_rows(flight: GroupInFlight, group: GroupDescription) -> Iterator[RunRow]:
    """Yield a row for each run that is not acknowledged. A member that has left is shown by its id."""
    names = {member.member_id: holder_name(member) for member in group.members}
    for run in flight.runs:
        if run.state != "acknowledged":
            yield RunRow(run, None if run.member_id is None else names.get(run.member_id, run.member_id))


def in_flight_facts(flight: GroupInFlight) -> list[Fact]:
    """Return the totals of a group. Causes that are not known are left out."""
    by_deliveries = flight.by_deliveries
    facts = [
        Fact("in flight", count(sum(by_deliveries.values()))),
        Fact("by deliveries", ", ".join(f"{each}: {count(number)}" for each, number in by_deliveries.items()) or "-"),
        Fact("last attempt", count(flight.last_attempts), Tone.WARN if flight.last_attempts else Tone.PLAIN),
    ]
    facts += [
        Fact(name, _causes(causes))
        for name, causes in (("archived", flight.archived), ("returned", flight.returned))
        if causes
    ]
    if flight.out_of_order:
        facts.append(Fact("finished out of order", count(flight.out_of_order)))
    if flight.throttled:
        facts.append(Fact("throttled", count(flight.throttled), Tone.WARN))
    if flight.blocked:
        facts.append(Fact("blocked partitions", ", ".join(map(str, flight.blocked)), Tone.BAD))
    return facts


def _causes(records: Mapping[str, int]) -> str:
    shown = [f"{count(number)} {_CAUSES.get(cause, cause)}" for cause, number in records.items() if number]
    return ", ".join(shown) or "0"


def _state(row: RunRow) -> str:
    detail = ", last attempt" if row.run.is_last_attempt else ", throttled" if row.run.is_throttled else ""
    pending = " (not persisted yet)" if row.run.is_pending else ""
    return f"{row.run.state}{detail}{pending}"


PARTITION: Final = Column[RunRow]("partition", "Partition", lambda row: row.run.partition, width=16)
FIRST: Final = Column[RunRow]("first", "First offset", lambda row: row.run.first_offset, Kind.COUNT, width=12)
LAST: Final = Column[RunRow]("last", "Last offset", lambda row: row.run.last_offset, Kind.COUNT, width=12)
RECORDS: Final = Column[RunRow]("records", "Records", lambda row: row.run.records, Kind.COUNT, width=8)
STATE: Final = Column[RunRow](
    "state",
    "State",
    _state,
    tone=lambda row: Tone.WARN if row.run.is_last_attempt else Tone.PLAIN,
    hint="Last attempt: archived without an acknowledgement; throttled: delivered in smaller parts",
    width=22,
)
DELIVERIES: Final = Column[RunRow]("deliveries", "Deliveries", lambda row: row.run.deliveries, Kind.COUNT)
HOLDER: Final = Column[RunRow]("holder", "Holder", lambda row: row.holder, hint="Client id of the member", width=16)
LOCK_LEFT: Final = Column[RunRow](
    "lock", "Lock left", lambda row: row.run.lock_left_ms, Kind.DURATION, hint="Then the records are available again"
)
COLUMNS: Final = (PARTITION, FIRST, LAST, RECORDS, STATE, DELIVERIES, HOLDER, LOCK_LEFT)
