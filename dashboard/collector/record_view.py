"""Records as a viewer may see them, and one record of a topic. Masking precedes everything else: see masking.py."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.records import Start
from broker_cy.client.decoded import Part, Seen
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.decoding import caption, shows_decoded
from broker_cy.console.payload import Format, detail
from broker_cy.reporting.numbers import count
from broker_cy.wire.records import Record
from dashboard.security.masking import Masking
from dashboard.security.roles import Scope

# Larger values are masked and formatted in a thread: parsing 1 MB of JSON takes 30 ms.
_THREAD_BYTES_MIN: Final = 64 << 10
# To read one record, one batch of a partition is read.
READ_S: Final = 10.0
# Says that a value was not decoded, to those from whom parts of it are hidden: the reason may quote it.
NOT_DECODED: Final = "not decoded"


class View(NamedTuple):
    """A record as a viewer may see it. Notes name the schema of the key and the value, or say what is wrong with
    them.
    """

    record: Record
    key_note: str
    value_note: str
    is_masked: bool


async def view_of(masking: Masking | None, scope: Scope, topic: str, whole: Record, seen: Seen, shown: Format) -> View:
    """Return a record, which was decoded, in a format as the scope may see it."""
    is_masked = masking is not None and masking.hides(scope, topic)
    record = await as_seen(masking, scope, topic, seen.record if shows_decoded(shown) else whole)
    return View(record, _note(seen.key, is_masked=is_masked), _note(seen.value, is_masked=is_masked), is_masked)


def _note(part: Part, *, is_masked: bool) -> str:
    if part.problem and is_masked:
        return NOT_DECODED
    return caption(part)


async def as_seen(masking: Masking | None, scope: Scope, topic: str, record: Record) -> Record:
    """Return the record as the scope may see it."""
    if masking is None or not masking.hides(scope, topic):
        return record
    if len(record.value or b"") >= _THREAD_BYTES_MIN:
        return await asyncio.to_thread(masking.record, scope, topic, record)
    return masking.record(scope, topic, record)


async def in_full(data: bytes | None, shown: Format) -> str:
    """Return the lines for a view of one record."""
    if len(data or b"") >= _THREAD_BYTES_MIN:
        return await asyncio.to_thread(detail, data, shown)
    return detail(data, shown)


async def read_record(client: AdminClient, key: TopicPartition, offset: int) -> Record:
    """Return the record at an offset. Raises ClientError, which says why there is none."""
    span = (await client.records.spans([key], Start.offset(offset)))[key]
    if offset < span.earliest:
        raise ClientError(
            Failure.INVALID,
            f"offset {count(offset)} was deleted: the log starts at {count(span.earliest)}",
            what=f"partition {key}",
        )
    if offset >= span.end:
        raise ClientError(
            Failure.INVALID,
            f"there is no offset {count(offset)} yet: the next one is {count(span.end)}",
            what=f"partition {key}",
        )
    try:
        async with asyncio.timeout(READ_S), client.records.reader({key: offset}, ends={key: offset + 1}) as reader:
            async for chunk in reader:
                for record in chunk.records:
                    return record
                if chunk.damage:
                    raise ClientError(Failure.MALFORMED, chunk.damage[0], what=f"partition {key}")
    except TimeoutError:
        raise ClientError(
            Failure.TIMED_OUT, f"not read within {READ_S:g} s", what=f"partition {key}, offset {offset}"
        ) from None
    raise ClientError(
        Failure.INVALID,
        f"there is no record at offset {count(offset)}: compaction removed it, or it is the marker of a transaction",
        what=f"partition {key}",
    )
