"""Finds the batches before the newest one of each producer, for a log whose producer state came from a snapshot."""

from collections import deque

from libc.stdint cimport int64_t

from broker_cy.storage.producer_state cimport BATCHES_RETAINED, ProducedBatch, Producer, ProducerState
from broker_cy.storage.recovery cimport BatchReader
from broker_cy.storage.segment cimport Segment

cdef enum:
    # How far back refill_producers reads: five batches of a megabyte, and others between them.
    REFILL_BYTES = 1 << 23


def refill_producers(list segments not None, ProducerState producers not None):
    """Find the batches before the newest one of producers whose state came from a snapshot, which has only the newest.

    A client may have five batches in flight when a broker stops, and resends those whose responses were lost: with the newest
    alone, all others would look out of order. Reads the batch headers in the last REFILL_BYTES; raises OSError, StorageError.
    """
    cdef Segment segment
    cdef BatchReader reader
    cdef Py_ssize_t first = len(segments)
    cdef int64_t left = REFILL_BYTES
    cdef int64_t start
    cdef dict found = {}
    producers.newest_only = False
    while first > 0 and left > 0:
        first -= 1
        left -= (<Segment>segments[first]).size
    for segment in segments[first:]:
        if segment.size == 0:
            continue
        start = batch_before(segment, -left) if left < 0 else 0
        left = 0
        reader = BatchReader(segment.descriptor(), start, segment.size, segment.base_offset, 0x7FFFFFFFFFFFFFFF)
        while reader.advance():
            if reader.header.producer_id >= 0 and reader.header.base_sequence >= 0:
                recent = found.setdefault(reader.header.producer_id, deque(maxlen=BATCHES_RETAINED))
                recent.append((
                    reader.header.producer_epoch, reader.header.base_sequence, reader.header.last_offset_delta,
                    reader.header.base_offset + reader.header.last_offset_delta, reader.header.max_timestamp,
                ))
    for producer_id, recent in found.items():
        put_older(producers, producer_id, recent)


cdef int64_t batch_before(Segment segment, int64_t position) except -1:
    """The newest indexed position at or before `position`; 0 if there is none."""
    cdef int64_t low = 0, high = segment.offsets.count(), middle
    while low < high:
        middle = (low + high) // 2
        if segment.offsets.entry_at(middle)[1] <= position:
            low = middle + 1
        else:
            high = middle
    return segment.checked_start(segment.offsets.entry_at(low - 1)[0]) if low > 0 else 0


cdef int put_older(ProducerState producers, int64_t producer_id, recent) except -1:
    """Add batches to the ring of a producer that are older than those in it, as far as there is room."""
    cdef Producer* producer = producers.find(producer_id)
    cdef ProducedBatch* batch
    if producer == NULL or producer.count == 0:
        return 0
    for epoch, base_sequence, delta, last_offset, timestamp in reversed(recent):
        batch = &producer.batches[(producer.newest + BATCHES_RETAINED + 1 - producer.count) % BATCHES_RETAINED]
        if producer.count == BATCHES_RETAINED or epoch != producer.epoch:
            return 0
        if last_offset >= batch.last_offset:
            continue
        batch = &producer.batches[(producer.newest + BATCHES_RETAINED - producer.count) % BATCHES_RETAINED]
        batch.last_offset = last_offset
        batch.timestamp = timestamp
        batch.offset_delta = delta
        batch.last_sequence = (base_sequence + delta) & 0x7FFFFFFF
        producer.count += 1
    return 0
