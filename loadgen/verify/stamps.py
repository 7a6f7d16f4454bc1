"""Finds the stamps of a run in record batches, and feeds them to a Reading."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker_cy.core.errors import WireError
from broker_cy.wire.records import Batch, Record
from loadgen.verify.ledger import of_batches
from loadgen.verify.prefix import HEADER, PREFIX, PREFIX_BYTES
from loadgen.verify.reading import Reading

# The decompressed size of one batch; a batch that claims more is damaged.
PAYLOAD_BYTES_MAX: Final = 256 << 20


def feed(reading: Reading, batch: Batch, run: int, start: int, note: Callable[[str], None]) -> None:
    """Feed the records of a data batch from offset `start` on. A damaged batch is counted and passed to `note`.

    A batch of an idempotent producer in the ledgers is taken by the sequences in its header alone.
    """
    if not batch.is_valid():
        reading.counts.damaged += 1
        note(f"offsets {batch.base_offset} to {batch.last_offset}: the checksum is wrong")
        return
    producer = of_batches(batch.producer_id)
    if batch.producer_id >= 0 and reading.has(producer):
        reading.feed_batch(batch.base_offset, producer, batch.base_sequence, batch.count)
        return
    try:
        records = batch.records(PAYLOAD_BYTES_MAX)
    except WireError as error:
        reading.counts.damaged += 1
        note(f"offsets {batch.base_offset} to {batch.last_offset}: {error}")
        return
    if batch.base_offset < start:
        records = [each for each in records if each.offset >= start]
    _feed_stamps(reading, records, run)


def _feed_stamps(reading: Reading, records: list[Record], run: int) -> None:
    """Feed consecutive sequences of one producer as one run of records."""
    unpack = PREFIX.unpack_from
    producer = first = first_offset = count = foreign = 0
    for record in records:
        value = record.value
        if value is not None and len(value) >= PREFIX_BYTES:
            of_run, of_producer, sequence, _ = unpack(value)
        else:
            of_run = of_producer = sequence = -1
        if of_run != run:
            of_run, of_producer, sequence = _header_stamp(record)
            if of_run != run:
                foreign += 1
                continue
        if count and sequence == first + count and of_producer == producer and record.offset == first_offset + count:
            count += 1
            continue
        if count:
            reading.feed(first_offset, producer, first, count)
        producer, first, first_offset, count = of_producer, sequence, record.offset, 1
    if count:
        reading.feed(first_offset, producer, first, count)
    if foreign:
        reading.foreign(foreign)


def _header_stamp(record: Record) -> tuple[int, int, int]:
    """Return run, producer and sequence of the record's header; -1 if it has none."""
    for name, content in record.headers:
        if name == HEADER and content is not None and len(content) == PREFIX_BYTES:
            run, producer, sequence, _ = PREFIX.unpack(content)
            return run, producer, sequence
    return -1, -1, -1
