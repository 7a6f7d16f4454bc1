"""Finds the batches before the newest one of each producer, for a log whose producer state came from a snapshot."""

from collections import deque

from libc.stdint cimport int64_t, uint8_t

from broker_cy.storage.batch_reader cimport BatchReader
from broker_cy.storage.producer_state cimport BATCHES_RETAINED, ProducedBatch, Producer, ProducerState
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
    """Put batches before those in the ring of a producer whose sequences lead to them, as far as there is room.

    A ring that is not full begins at index 0, and `check` reads no other part of it. If a producer's state expired and the producer
    began again with sequence 0, its earlier batches are not among those that it may send again.
    """
    cdef Producer* producer = producers.find(producer_id)
    cdef ProducedBatch* batch
    cdef list older = []
    cdef int64_t next_sequence
    cdef int i, added
    if producer == NULL or not 0 < producer.count < BATCHES_RETAINED:
        return 0
    batch = &producer.batches[0]
    next_sequence = (batch.last_sequence - batch.offset_delta) & 0x7FFFFFFF
    for each in reversed(recent):
        epoch, base_sequence, delta, last_offset, _timestamp = each
        if last_offset >= producer.batches[0].last_offset:
            continue
        if epoch != producer.epoch or (base_sequence + delta + 1) & 0x7FFFFFFF != next_sequence:
            break
        if len(older) + producer.count == BATCHES_RETAINED:
            break
        older.append(each)
        next_sequence = base_sequence
    added = <int>len(older)
    for i in range(producer.count - 1, -1, -1):
        producer.batches[i + added] = producer.batches[i]
    for i in range(added):
        batch = &producer.batches[i]
        _epoch, base_sequence, delta, last_offset, timestamp = older[added - 1 - i]
        batch.last_offset = last_offset
        batch.timestamp = timestamp
        batch.offset_delta = delta
        batch.last_sequence = (base_sequence + delta) & 0x7FFFFFFF
    producer.newest += <uint8_t>added
    producer.count += <uint8_t>added
    return 0
