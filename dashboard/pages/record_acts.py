"""Acts on records: produce one; produce marked ones again, to any topic and with other headers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.records import Start
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.plan import Command, Plan, Report
from broker_cy.console.acts.records import plan_produce, plan_reproduce, produce_form, reproduce_form
from broker_cy.console.fields import Form
from broker_cy.reporting.numbers import plural, size
from broker_cy.wire.records import Record
from dashboard.acts import Act, Call, act
from dashboard.security.roles import Need, Role

# Limits of one act that produces records again: records and bytes.
RECORDS_MAX: Final = 1_000
BYTES_MAX: Final = 32 << 20
# Records of a partition that are further apart are read separately.
_GAP_MAX: Final = 1_000


@act("produce-record", Role.OPERATOR)
class ProduceRecord(Act):
    """Produces one record to `topic`."""

    HAS_SECRETS = True

    async def form(self, call: Call) -> Form | None:
        topic = call.param("topic")
        form = produce_form(topic, len(await call.client.records.partitions(topic)))
        return replace(form, note="A file is read by the browser, and sent as base64.")

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_produce(call.client, call.command, call.param("topic"), values)


@dataclass(frozen=True, slots=True)
class _Again:
    """Produces records again. They are read when the plan is executed: a plan that waits for its user must not keep
    them.
    """

    command: Command
    topic: str
    places: tuple[tuple[int, int], ...]
    values: Mapping[str, Any]

    async def run(self, client: AdminClient) -> Report:
        records = await read_all(client, self.topic, self.places)
        return await (await plan_reproduce(client, self.command, records, self.values)).act.run(client)


@act("reproduce-records", Role.OPERATOR)
class ReproduceRecords(Act):
    """Produces records of `topic` again. `rows` are PARTITION-OFFSET, as the rows of the table of records."""

    HAS_SECRETS = True

    async def form(self, call: Call) -> Form | None:
        self._check(call)
        return reproduce_form(call.param("topic"), len(_places(call.rows)))

    def values_need(self, cluster: str, params: Mapping[str, str], values: Mapping[str, Any]) -> Need | None:
        return Need(self.role, cluster, (values["topic"],), ())

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        self._check(call)
        topic, places = call.param("topic"), _places(call.rows)
        records = await read_all(call.client, topic, places)
        plan = await plan_reproduce(call.client, call.command, records, values)
        return replace(plan, act=_Again(call.command, topic, places, values))

    @staticmethod
    def _check(call: Call) -> None:
        masking = call.hub.masking
        reason = "" if masking is None else masking.may_copy(call.identity.scope, call.param("topic"))
        if reason:
            raise ClientError(Failure.REFUSED, reason)


def _places(rows: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Return the partition and offset of each row. Raises ClientError."""
    if not rows:
        raise ClientError(Failure.INVALID, "no record is marked")
    if len(rows) > RECORDS_MAX:
        raise ClientError(
            Failure.INVALID, f"{len(rows):,} records are marked; at most {RECORDS_MAX:,} can be produced again at once"
        )
    found: dict[tuple[int, int], None] = {}
    for row in rows:
        partition, _, offset = row.partition("-")
        if not all(text.isascii() and text.isdecimal() and len(text) <= 19 for text in (partition, offset)):
            raise ClientError(Failure.INVALID, f"{row[:60]!r} is not a record: PARTITION-OFFSET is expected")
        found[int(partition), int(offset)] = None
    return tuple(found)


async def read_all(client: AdminClient, topic: str, places: Sequence[tuple[int, int]]) -> list[Record]:
    """Return the records at these places, in their order by time. Raises ClientError if one no longer exists."""
    wanted = defaultdict(list)
    for partition, offset in places:
        wanted[TopicPartition(topic, partition)].append(offset)
    known = set(await client.records.partitions(topic))
    for key in wanted:
        if key not in known:
            raise ClientError(
                Failure.INVALID, f"{topic} has no partition {key.partition}; it has 0 to {len(known) - 1}"
            )
    spans = await client.records.spans(wanted, Start.earliest())
    ranges = [
        (key, first, last)
        for key, offsets in wanted.items()
        for first, last in _ranges([each for each in offsets if spans[key].earliest <= each < spans[key].end])
    ]
    found: dict[tuple[int, int], Record] = {}
    size_bytes = 0
    for key, first, last in ranges:
        needed = set(wanted[key])
        async with client.records.reader({key: first}, ends={key: last + 1}) as reader:
            async for chunk in reader:
                for record in chunk.records:
                    if record.offset in needed:
                        found[key.partition, record.offset] = record
                        size_bytes += len(record.key or b"") + len(record.value or b"")
                if size_bytes > BYTES_MAX:
                    raise ClientError(
                        Failure.INVALID, f"the marked records have more than {size(BYTES_MAX)}: mark fewer"
                    )
    absent = [place for place in places if place not in found]
    if absent:
        partition, offset = absent[0]
        raise ClientError(
            Failure.INVALID,
            f"{plural(len(absent), 'marked record')} no longer there: it was deleted or compacted",
            what=f"partition {partition}, offset {offset}",
        )
    return sorted(found.values(), key=lambda record: record.timestamp)


def _ranges(offsets: list[int]) -> list[tuple[int, int]]:
    """Return the first and last offset of each range without large gaps."""
    parts: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        if parts and offset - parts[-1][1] <= _GAP_MAX:
            parts[-1] = (parts[-1][0], offset)
        else:
            parts.append((offset, offset))
    return parts
