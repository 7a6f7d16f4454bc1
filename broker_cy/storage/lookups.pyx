"""Finding offsets: by timestamp, by largest timestamp (KIP-734), and the aborted transactions of a range."""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.errno cimport EAGAIN
from libc.stdint cimport INT64_MIN, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from broker_cy.core.cursor cimport Cursor
from broker_cy.storage.batch_reader cimport BatchReader
from broker_cy.storage.disk cimport confine_reads, pread_all, read_whole
from broker_cy.storage.log cimport Log, LogSlice
from broker_cy.storage.segment cimport Segment
from broker_cy.wire.batch cimport (
    ATTRIBUTE_CODEC_MASK, ATTRIBUTE_CONTROL, ATTRIBUTE_LOG_APPEND_TIME, BATCH_HEADER_BYTES, BatchHeader, batch_bytes
)

from broker_cy.storage import txn_index
from broker_cy.storage.errors import ColdRead, CorruptSegment, StorageError
from broker_cy.wire.compression import decompress, decompressed_limit


cdef extern from "<endian.h>" nogil:
    uint64_t be64toh(uint64_t)


cdef enum:
    # An entry of a .txnindex: see txn_index.
    ABORTED_BYTES = 34
    PRODUCER_ID_AT = 2
    FIRST_OFFSET_AT = 10
    LAST_OFFSET_AT = 18
    STABLE_OFFSET_AT = 26
    # A longer index is read for each request, so that a segment keeps at most about 120 transactions in memory.
    KEPT_BYTES = 4096


cdef object first_record_from(Segment segment, int64_t position, BatchHeader* header, int64_t timestamp, int64_t from_offset):
    """(timestamp, offset) of the first record of a batch with at least that timestamp and offset; None if there is none.

    Reads and decompresses the batch, unless its records all have the timestamp of the append.
    """
    cdef Cursor cursor
    cdef int64_t record_timestamp, offset
    cdef int32_t _i, length
    cdef Py_ssize_t end, got = 0
    cdef Py_ssize_t size = batch_bytes(header)
    cdef int failed
    cdef bytes data
    if header.attributes & ATTRIBUTE_LOG_APPEND_TIME:
        if header.max_timestamp < timestamp:
            return None
        return header.max_timestamp, max(header.base_offset, from_offset)
    data = PyBytes_FromStringAndSize(NULL, size)
    failed = pread_all(segment.descriptor(), PyBytes_AS_STRING(data), size, position, &got)
    if failed == EAGAIN:
        segment.needs_disk(position, size)
    if failed != 0:
        raise StorageError(f"cannot read {segment.path} at byte {position}: {os.strerror(failed)}")
    payload = memoryview(data)[BATCH_HEADER_BYTES:got]
    codec = header.attributes & ATTRIBUTE_CODEC_MASK
    try:
        if codec:
            payload = decompress(codec, payload, decompressed_limit(len(payload)))
        cursor = Cursor(payload)
        for _i in range(header.count):
            length = cursor.varint()
            end = cursor.position() + length
            cursor.i8()
            # A client's timestamps may wrap, as Kafka's do.
            record_timestamp = <int64_t>(<uint64_t>header.base_timestamp + <uint64_t>cursor.varlong())
            offset = header.base_offset + cursor.varint()
            if record_timestamp >= timestamp and offset >= from_offset:
                return record_timestamp, offset
            cursor.take(end - cursor.position())
    except ValueError as error:         # also those of core.errors and wire.compression
        raise CorruptSegment(segment.path, position, f"records of the batch at offset {header.base_offset}: {error}") from error
    return None


def offset_for_timestamp(Log log not None, int64_t timestamp):
    """(timestamp, offset) of the first record with at least this timestamp, among the written records that are not below the log
    start offset; None if there is none. Raises StorageError."""
    cdef Segment segment
    cdef BatchHeader header
    cdef int64_t position, offset, entry_timestamp = 0
    for segment in log.segments:
        segment.ensure_timestamps()
        if segment.max_timestamp < timestamp:
            continue
        offset = segment.times.lookup(timestamp, &entry_timestamp)
        if offset < log.log_start_offset:
            offset = log.log_start_offset
        position = segment.checked_start(offset)
        while segment.find_batch(log.log_start_offset, position, segment.size, &position, &header):
            if header.max_timestamp >= timestamp:
                found = first_record_from(segment, position, &header, timestamp, log.log_start_offset)
                if found is not None:
                    return found
            position += batch_bytes(&header)
    return None


def timestamp_at(Log log not None, int64_t offset):
    """(timestamp, offset) of the first record at or after `offset`, among the written records; None if there is none. Raises
    StorageError."""
    cdef Segment segment
    cdef BatchHeader header
    cdef int64_t position = 0
    cdef int64_t wanted = max(offset, log.log_start_offset)
    cdef Py_ssize_t number
    if wanted >= log.written_end_offset:
        return None
    for number in range(log.segment_number(wanted), len(log.segments)):
        segment = log.segments[number]
        position = segment.checked_start(wanted)
        while segment.find_batch(wanted, position, segment.size, &position, &header):
            if not header.attributes & ATTRIBUTE_CONTROL:
                found = first_record_from(segment, position, &header, INT64_MIN, wanted)
                if found is not None:
                    return found
            position += batch_bytes(&header)
    return None


class MaximumDeleted(Exception):
    """The record that had the largest timestamp of the first segment is deleted: `search()` finds the largest one of the batches that
    are left, for a second call of max_timestamp. It reads the headers up to the end of the segment, in any thread.
    """

    def __init__(self, str path, int64_t position, int64_t size, int64_t base_offset, int64_t from_offset):
        super().__init__(f"the largest timestamp before offset {from_offset} of {path} is deleted")
        self.path = path
        self.position = position
        self.size = size
        self.base_offset = base_offset
        self.from_offset = from_offset

    def search(self):
        """(timestamp, position) of the first batch with the largest timestamp that begins at `from_offset` or later; None if there is
        none. Raises OSError, CorruptSegment."""
        cdef BatchReader reader
        cdef int64_t from_offset = self.from_offset
        cdef int64_t timestamp = INT64_MIN, position = -1
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            reader = BatchReader(fd, self.position, self.size, self.base_offset, 0x7FFFFFFFFFFFFFFF)
            while reader.advance():
                if reader.header.base_offset >= from_offset and reader.header.max_timestamp > timestamp:
                    timestamp, position = reader.header.max_timestamp, reader.position
            if reader.problem:
                raise CorruptSegment(self.path, reader.position, reader.problem)
        finally:
            os.close(fd)
        return None if position < 0 else (timestamp, position)


cdef object largest_record(Segment segment, int64_t position, BatchHeader* header, int64_t from_offset):
    """(timestamp, offset) of the first record with the largest timestamp of those of a batch that are not below an offset."""
    cdef int64_t timestamp = INT64_MIN
    found = None
    while True:
        more = first_record_from(segment, position, header, timestamp, from_offset)
        if more is None or more[0] == header.max_timestamp or header.attributes & ATTRIBUTE_LOG_APPEND_TIME:
            return more if more is not None else found
        found = more
        timestamp, from_offset = more[0] + 1, more[1] + 1


cdef object largest_of_first(Log log, Segment segment, object searched):
    """The same of the first segment, whose first records may be deleted. Raises MaximumDeleted, unless it was `searched`."""
    cdef BatchHeader header
    cdef int64_t position = 0
    cdef int64_t start = log.log_start_offset
    found = None
    if segment.max_timestamp_offset >= start:
        position = segment.checked_start(segment.max_timestamp_offset)
        if segment.find_batch(segment.max_timestamp_offset, position, segment.size, &position, &header):
            if header.max_timestamp == segment.max_timestamp:
                found = first_record_from(segment, position, &header, header.max_timestamp, start)
                if found is not None:
                    return found
    position = segment.checked_start(start)
    if searched is None:
        raise MaximumDeleted(segment.path, position, segment.size, segment.base_offset, start)
    # The header of a batch that begins before the log start does not have enough information.
    if segment.find_batch(start, position, segment.size, &position, &header) and header.base_offset < start:
        found = largest_record(segment, position, &header, start)
    if searched[1] is not None and (found is None or searched[1][0] > found[0]):
        if segment.find_batch(start, searched[1][1], segment.size, &position, &header):
            found = first_record_from(segment, position, &header, searched[1][0], start) or found
    return found


def max_timestamp(Log log not None, searched=None):
    """(timestamp, offset) of the first record with the largest timestamp of all written records that are not deleted; None if there is
    no record. Raises StorageError, and MaximumDeleted if a part of the first segment has to be searched first: `searched` is then
    (its base offset, what `search` returned)."""
    cdef Segment segment, first, best = None
    cdef BatchHeader header
    cdef int64_t position = 0
    # Those before it are removed soon.
    cdef list segments = log.segments[log.segment_number(log.log_start_offset):]
    for segment in segments:
        segment.ensure_timestamps()
        if segment.size > 0 and (best is None or segment.max_timestamp > best.max_timestamp):
            best = segment
    if best is None:
        return None
    first = segments[0]
    if best is first:
        if searched is not None and searched[0] != first.base_offset:
            searched = None             # it was deleted since
        found = largest_of_first(log, first, searched)
        best = None
        for segment in segments[1:]:
            if segment.size > 0 and (best is None or segment.max_timestamp > best.max_timestamp):
                best = segment
        if best is None or (found is not None and found[0] >= best.max_timestamp):
            return found
    position = best.checked_start(best.max_timestamp_offset)
    while best.find_batch(log.log_start_offset, position, best.size, &position, &header):
        if header.max_timestamp == best.max_timestamp:
            return first_record_from(best, position, &header, header.max_timestamp, log.log_start_offset)
        position += batch_bytes(&header)
    return None


cdef inline int64_t be64(const uint8_t* p) noexcept nogil:
    cdef uint64_t value
    memcpy(&value, p, 8)
    return <int64_t>be64toh(value)


cdef bint collect_aborted(Segment segment, int64_t offset, int64_t end_offset, list found) except -1:
    """Add the segment's aborted transactions that overlap [offset, end_offset) to `found`. Return whether an entry shows that all
    transactions before `end_offset` were decided at its marker, so that later segments need not be searched."""
    cdef bytes data
    cdef const uint8_t* p
    cdef Py_ssize_t low = 0, high, middle, number
    data = segment.aborts
    if data is None:
        try:
            data = read_whole(txn_index.path_of(segment.directory, segment.base_offset))
        except FileNotFoundError:
            segment.without_aborts = True
            return False
        if len(data) <= KEPT_BYTES:
            segment.aborts = data
    p = <const uint8_t*>PyBytes_AS_STRING(data)
    if len(data) % ABORTED_BYTES:
        raise ValueError(f"the index of segment {segment.base_offset} has {len(data)} bytes, expected a multiple of {ABORTED_BYTES}")
    number = high = len(data) // ABORTED_BYTES
    # The entries are in the order of their markers: find the first whose marker is at or after `offset`.
    while low < high:
        middle = (low + high) // 2
        if be64(p + middle * ABORTED_BYTES + LAST_OFFSET_AT) < offset:
            low = middle + 1
        else:
            high = middle
    for middle in range(low, number):
        high = middle * ABORTED_BYTES
        if p[high] or p[high + 1] or be64(p + high + FIRST_OFFSET_AT) > be64(p + high + LAST_OFFSET_AT):
            raise ValueError(f"the index of segment {segment.base_offset}: entry {middle} is not a transaction of version 0")
        if be64(p + high + FIRST_OFFSET_AT) < end_offset:
            found.append((be64(p + high + PRODUCER_ID_AT), be64(p + high + FIRST_OFFSET_AT)))
        if be64(p + high + STABLE_OFFSET_AT) >= end_offset:
            return True
    return False


def aborted_transactions(Log log not None, int64_t offset, int64_t end_offset):
    """[(producer id, first offset)] of aborted transactions that overlap [offset, end_offset), for read_committed readers.

    Raises StorageError if a transaction index cannot be read or is damaged.
    """
    cdef Segment segment
    cdef Py_ssize_t number
    cdef list found = []
    # The marker of a transaction may be in a segment after end_offset, so all later segments are searched until an entry shows
    # that all transactions before end_offset were decided.
    for number in range(log.segment_number(offset), len(log.segments)):
        segment = <Segment>log.segments[number]
        if segment.without_aborts:
            continue
        try:
            if collect_aborted(segment, offset, end_offset, found):
                break
        except ColdRead:
            raise
        except (OSError, ValueError) as error:
            raise StorageError(f"transactions of {log.topic}-{log.partition} cannot be read: {error}") from error
    return found


def aborted_in_slice(Log log not None, LogSlice part not None, int64_t offset, int64_t max_offset):
    """aborted_transactions for a reader that gets `part`, read from `offset` on and below `max_offset`.

    The end of the records is taken from the offset index, as in Kafka: it may be a little too high, but not too low. Without a
    bound each response would contain every transaction that was aborted up to the log's end.
    """
    cdef Segment segment = <Segment>part.segment
    cdef Segment later
    cdef int64_t end = part.position + part.size
    cdef int64_t behind = -1
    cdef Py_ssize_t first = log.segment_number(offset), number
    for number in range(first, len(log.segments)):
        later = <Segment>log.segments[number]
        if not later.without_aborts:
            break
    else:
        return []
    if end < segment.size:
        behind = segment.offsets.offset_from(end, segment.size)
    if behind >= 0:
        max_offset = min(max_offset, behind)
    elif log.segments[first] is segment and first + 1 < len(log.segments):
        max_offset = min(max_offset, (<Segment>log.segments[first + 1]).base_offset)
    return aborted_transactions(log, offset, max_offset)


def confined(function, *arguments):
    """Call `function(*arguments)` without waiting for the disk; return its result, or a ColdRead with the bytes to read first."""
    confine_reads(True)
    try:
        return function(*arguments)
    except ColdRead as cold:
        return cold
    finally:
        confine_reads(False)
