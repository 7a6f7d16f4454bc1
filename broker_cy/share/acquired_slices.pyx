"""From a read of a log to the batches that a member can acquire, and from the acquired ranges to the bytes to send.

The bytes are whole batches, in any number of pieces: batches that others hold, and those of aborted transactions, are left out. Kafka
sends everything between the first and the last acquired batch.
"""

from libc.stdint cimport int64_t

from broker_cy.share.read_batches cimport ReadBatch, ReadBatches
from broker_cy.storage.log cimport Log
from broker_cy.storage.log_slice cimport LogSlice
from broker_cy.storage.segment cimport Segment
from broker_cy.wire.batch cimport ATTRIBUTE_CONTROL, ATTRIBUTE_TRANSACTIONAL, BatchHeader, batch_bytes

from broker_cy.storage.lookups import aborted_in_slice


def batches_of(Log log not None, LogSlice part not None, int64_t offset, int64_t bound, int64_t enough, bint is_read_committed):
    """(ReadBatches, LogSlice with exactly these batches) of `part`, which was read from `offset` on and below `bound`.

    No batch that begins after `enough` is added, except the first one. Batches of aborted transactions are marked if
    `is_read_committed`. Raises ColdRead while reads are confined (disk.confine_reads), StorageError.
    """
    cdef ReadBatches found = ReadBatches()
    cdef Segment segment = <Segment>part.segment
    cdef BatchHeader header
    cdef int64_t position = part.position, end = part.position + part.size, at = 0
    cdef list aborted = None
    cdef Py_ssize_t begun = 0
    cdef set producers = None
    cdef bint is_aborted = False
    if is_read_committed:
        aborted = sorted(aborted_in_slice(log, part, offset, bound), key=first_offset)
        producers = set()
    while position < end and segment.find_batch(0, position, segment.size, &at, &header):
        if found.count and (header.base_offset > enough or position + batch_bytes(&header) > end):
            break
        if aborted:
            while begun < len(aborted) and aborted[begun][1] <= header.base_offset + header.last_offset_delta:
                producers.add(aborted[begun][0])
                begun += 1
            is_aborted = False
            if producers and header.attributes & ATTRIBUTE_TRANSACTIONAL and header.producer_id in producers:
                if header.attributes & ATTRIBUTE_CONTROL:
                    # The marker that ends the aborted transaction.
                    producers.discard(header.producer_id)
                else:
                    is_aborted = True
        found.add(
            header.base_offset, header.base_offset + header.last_offset_delta, position, batch_bytes(&header), is_aborted
        )
        position += batch_bytes(&header)
    if position != end:
        part = part.piece(part.position, <Py_ssize_t>(position - part.position), part.first_offset)
    return found, part


def first_offset(tuple aborted):
    """Return the first offset of an aborted transaction (producer id, first offset)."""
    return aborted[1]


def slices(LogSlice part not None, ReadBatches read not None, list acquired not None):
    """The pieces of `part` with the batches of `read` that have records of the `acquired` ranges, which are in ascending order."""
    cdef list found = []
    cdef Py_ssize_t index, at = 0, begin = -1
    cdef ReadBatch* batch
    for index in range(read.count):
        batch = read.items + index
        while at < len(acquired) and <int64_t>acquired[at][1] < batch.base_offset:
            at += 1
        if at < len(acquired) and <int64_t>acquired[at][0] <= batch.last_offset:
            if begin < 0:
                begin = index
        elif begin >= 0:
            add_piece(found, part, read, begin, index)
            begin = -1
    if begin >= 0:
        add_piece(found, part, read, begin, read.count)
    return found


cdef int add_piece(list found, LogSlice part, ReadBatches read, Py_ssize_t begin, Py_ssize_t end) except -1:
    """Add the batches from `begin` up to, but not including, `end`."""
    cdef int64_t position = read.items[begin].position
    cdef int64_t size = read.items[end - 1].position + read.items[end - 1].size - position
    if size == part.size:
        found.append(part)
    else:
        found.append(part.piece(position, <Py_ssize_t>size, read.items[begin].base_offset))
    return 0


def is_in_memory(LogSlice part not None):
    """Whether the bytes can be sent without waiting for the disk."""
    return (<Segment>part.segment).in_memory(part.position, part.size)
