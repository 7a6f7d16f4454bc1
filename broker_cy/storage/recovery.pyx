"""Reading segments batch by batch: recovery after an unclean stop, index rebuilds, producer state, verification.

batch_reader walks a file; the functions here decide which part is read, and use what it finds.
"""

import os

from libc.stdint cimport int64_t, uint8_t, uint64_t

from broker_cy.storage.batch_reader cimport ANY_LENGTH, MAGIC, BatchReader, ScanResult, finish
from broker_cy.storage.disk cimport pread_all
from broker_cy.storage.producer_state cimport ProducerState
from broker_cy.storage.segment cimport Segment
from broker_cy.wire.batch cimport ATTRIBUTE_CONTROL, BATCH_HEADER_BYTES, BatchHeader, batch_bytes, parse_header

from broker_cy.core.errors import WireError
from broker_cy.storage import txn_index
from broker_cy.storage.epochs import LeaderEpochs
from broker_cy.storage.errors import CorruptSegment, StorageError

cdef enum:
    # A transaction marker is far smaller; of a larger control batch only this many bytes are read.
    CONTROL_BATCH_MAX_BYTES = 1 << 12


def next_offset(Segment segment not None, bint check=False):
    """Find the offset after the last batch of a segment that is known to be intact, by the index and the headers after its last
    entry.

    Returns a ScanResult whose `problem` is set if the end of the file is not the end of a batch, or with `check` if a checksum
    after the last index entry is wrong.
    """
    cdef int64_t batches = 0
    cdef int64_t start = segment.checked_start(segment.base_offset + 0x7FFFFFFF)
    cdef BatchReader reader
    if segment.size == 0:
        reader = BatchReader(-1, 0, 0, segment.base_offset, 0x7FFFFFFFFFFFFFFF)
        return finish(reader, 0)
    reader = BatchReader(segment.descriptor(), start, segment.size, segment.base_offset, 0 if check else 0x7FFFFFFFFFFFFFFF)
    while reader.advance():
        batches += 1
    return finish(reader, batches)


def index_need(Segment segment not None, int64_t index_interval_bytes):
    """(largest timestamp in the first index interval of a segment, whether a batch begins after that interval): they show whether
    its indexes must have an entry."""
    cdef BatchReader reader = BatchReader(segment.descriptor(), 0, segment.size, segment.base_offset, 0x7FFFFFFFFFFFFFFF)
    cdef int64_t timestamp = -1
    while reader.advance():
        if reader.position > index_interval_bytes:
            return timestamp, True
        if reader.header.max_timestamp > timestamp:
            timestamp = reader.header.max_timestamp
    return timestamp, False


def last_indexed_offset(Segment segment not None):
    """Offset of the newest entry of the offset index; the base offset if there is none."""
    cdef int64_t count = segment.offsets.count()
    return segment.offsets.entry_at(count - 1)[0] if count > 0 else segment.base_offset


def rebuild_indexes(
    Segment segment not None, int64_t from_offset, int64_t check_from, int64_t index_interval_bytes, epochs=None,
    int64_t limit=0x7FFFFFFFFFFFFFFF, bint may_have_gaps=True,
):
    """Read a segment and make its indexes agree with it. Changes the segment's index files; raises OSError, StorageError.

    Index entries below `from_offset` are kept if the last of them points to the right batch; everything after it is read again,
    with checksums from offset `check_from` on. With `epochs` (LeaderEpochs), new leader epochs are noted. The next segment begins
    at offset `limit`; without `may_have_gaps`, each batch that is read has to begin at the offset where the previous one ended.
    Returns the ScanResult; if that has a problem, the caller truncates the file there.
    """
    cdef BatchReader reader
    cdef int64_t start, last_entry, batches = 0, max_timestamp = -1, max_timestamp_offset = segment.base_offset
    cdef int64_t last_offset, checked = -1
    segment.rolling_timestamp = -2
    start = trusted_start(segment, from_offset)
    if start > 0:
        segment.times.truncate_to(from_offset)
        max_timestamp, max_timestamp_offset = segment.times.last
    else:
        segment.offsets.truncate_entries(0)
        segment.times.truncate_entries(0)
    segment.offsets.trim()
    segment.times.trim()
    last_entry = start
    reader = BatchReader(segment.descriptor(), start, segment.size, segment.base_offset, check_from, limit)
    # At an index entry, the end of the previous batch is not known.
    reader.may_have_gap = may_have_gaps or start > 0
    while reader.advance():
        reader.may_have_gap = may_have_gaps
        last_offset = reader.next_offset - 1
        if checked < 0 and last_offset >= check_from:
            checked = reader.position
        if reader.header.max_timestamp > max_timestamp:
            max_timestamp = reader.header.max_timestamp
            max_timestamp_offset = last_offset
        if reader.position - last_entry > index_interval_bytes:
            segment.offsets.append(last_offset, reader.position)
            segment.times.maybe_append(max_timestamp, max_timestamp_offset)
            last_entry = reader.position
            if segment.offsets.pending_count >= 4096:
                segment.offsets.write()
                segment.times.write()
        if epochs is not None and reader.header.leader_epoch > epochs.latest_epoch:
            epochs.assign(reader.header.leader_epoch, reader.header.base_offset)
        batches += 1
    segment.max_timestamp = max_timestamp
    segment.max_timestamp_offset = max_timestamp_offset
    segment.bytes_since_index = reader.position - last_entry
    if checked >= 0:
        segment.mark_verified(checked, reader.position)
    # The entry that a roll or a clean stop adds: without it the largest timestamp would be lost.
    segment.times.maybe_append(max_timestamp, max_timestamp_offset)
    segment.offsets.write()
    segment.times.write()
    segment.offsets.create()
    segment.times.create()
    return finish(reader, batches)


def mend_indexes(Segment segment not None):
    """Rebuild the indexes of a segment from its batch headers; raises CorruptSegment if these cannot be read to the end."""
    result = rebuild_indexes(segment, 0, 0x7FFFFFFFFFFFFFFF, segment.index_interval_bytes)
    if result.problem is not None:
        raise CorruptSegment(segment.path, result.position, result.problem)


def find_epochs(directory, segments, int64_t end_offset=0x7FFFFFFFFFFFFFFF):
    """LeaderEpochs of a log whose checkpoint is lost, from the headers of its batches that begin before `end_offset`.
    """
    cdef BatchReader reader
    cdef Segment segment
    epochs = LeaderEpochs(directory)
    for segment in segments:
        if segment.size == 0:
            continue
        reader = BatchReader(segment.descriptor(), 0, segment.size, segment.base_offset, 0x7FFFFFFFFFFFFFFF)
        while reader.advance():
            if reader.header.base_offset >= end_offset:
                return epochs
            if reader.header.leader_epoch > epochs.latest_epoch:
                epochs.assign(reader.header.leader_epoch, reader.header.base_offset)
    return epochs


def next_offset_of_file(path, int64_t base_offset, int64_t size):
    """Offset after the last batch of a file that has no index yet; raises OSError."""
    cdef BatchReader reader
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        reader = BatchReader(fd, 0, size, base_offset, 0x7FFFFFFFFFFFFFFF)
        while reader.advance():
            pass
    finally:
        os.close(fd)
    return reader.next_offset


cdef int64_t trusted_start(Segment segment, int64_t from_offset) except -1:
    """The position for a read of all records at or after `from_offset`: that of the newest index entry below it. Drops the index
    entries after that one. 0 without such an entry, or if it does not point to the right batch."""
    cdef uint8_t raw[12]
    cdef uint8_t raw_header[BATCH_HEADER_BYTES]
    cdef BatchHeader header
    cdef int64_t number, offset, position
    cdef Py_ssize_t got = 0
    if from_offset <= segment.base_offset or segment.size == 0:
        return 0
    number = segment.offsets.search(from_offset - 1 - segment.base_offset, raw)
    if number < 0:
        return 0
    offset, position = segment.offsets.entry_at(number)
    if position + BATCH_HEADER_BYTES > segment.size or position <= 0:
        return 0
    if pread_all(segment.descriptor(), raw_header, BATCH_HEADER_BYTES, position, &got) != 0 or got < BATCH_HEADER_BYTES:
        return 0
    if parse_header(raw_header, ANY_LENGTH, &header) != 0 or header.magic != MAGIC:
        return 0
    if <int64_t>(<uint64_t>header.base_offset + <uint64_t>header.last_offset_delta) != offset:
        return 0
    segment.offsets.truncate_entries(number + 1)
    return position


def replay_producers(Segment segment not None, ProducerState producers not None):
    """Apply the batches of the segment from `producers.end_offset` on to the producer state, and write the aborted transactions
    found to the transaction index; raises OSError, StorageError, CorruptSegment."""
    cdef BatchReader reader
    cdef int64_t start, from_offset = producers.end_offset
    cdef bytes body
    if segment.size == 0:
        return
    start = segment.checked_start(from_offset)
    reader = BatchReader(segment.descriptor(), start, segment.size, segment.base_offset, 0x7FFFFFFFFFFFFFFF)
    aborted = []
    while reader.advance():
        if reader.next_offset <= from_offset:
            continue
        # The first batch may begin before the log start offset: as in Kafka, it counts as a whole.
        body = b""
        if reader.header.producer_id >= 0 and reader.header.attributes & ATTRIBUTE_CONTROL:
            body = reader.body(CONTROL_BATCH_MAX_BYTES)
        try:
            entry = producers.update(&reader.header, body, len(body))
        except WireError as error:
            raise CorruptSegment(segment.path, reader.position, f"control batch: {error}") from error
        if entry is not None:
            aborted.append(entry)
    producers.commit()
    # With one replica everything in the log is below the high watermark.
    producers.forget_completed(producers.end_offset)
    if reader.problem is not None:
        raise CorruptSegment(segment.path, reader.position, reader.problem)
    segment.aborts = None
    txn_index.truncate_to(segment.directory, segment.base_offset, from_offset)
    if aborted:
        segment.without_aborts = False
        txn_index.append(segment.directory, segment.base_offset, aborted)


def cut(Segment segment not None, int64_t size):
    """Truncate a segment's file to `size` bytes; raises StorageError."""
    try:
        os.truncate(segment.path, size)
    except OSError as error:
        raise StorageError(f"cannot truncate {segment.path} to {size} bytes: {error.strerror}") from error
    segment.size = size
    segment.staged_size = size
    # Unverified parts that were cut off must not apply to the batches that will be written in their place.
    segment.mark_verified(size)


def is_torn(Segment segment not None, int64_t position):
    """Whether the bytes at `position` can be a batch whose write was interrupted: fewer than in its header, so no bytes follow it.
    Raises StorageError."""
    cdef uint8_t[BATCH_HEADER_BYTES] raw
    cdef BatchHeader header
    cdef Py_ssize_t got = 0
    cdef int64_t left = segment.size - position
    cdef int error = pread_all(segment.descriptor(), raw, BATCH_HEADER_BYTES, position, &got)
    if error != 0:
        raise StorageError(f"cannot read {segment.path}: {os.strerror(error)}")
    if got < BATCH_HEADER_BYTES:
        return True
    return parse_header(raw, ANY_LENGTH, &header) == 0 and batch_bytes(&header) > left


def verify_part(path, int64_t base_offset, int64_t start, int64_t stop, int64_t end, int64_t limit):
    """Check the batches of a segment file from `start`, where one begins, up to the first that begins at or after `stop`, and not
    past `end`, where one ends. All have to be before the offset `limit`, at which the next segment begins. Returns (position up to
    which they are valid, None or a CorruptSegment that says what is wrong there).

    Opens the file itself, so it may run in a worker thread while others append to the file. Raises OSError.
    """
    cdef BatchReader reader
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        reader = BatchReader(fd, start, end, base_offset, 0, limit)
        while reader.next_position < stop and reader.advance():
            pass
    finally:
        os.close(fd)
    if reader.problem is not None:
        return reader.position, CorruptSegment(path, reader.position, reader.problem)
    return reader.next_position, None


def verify_contiguous(path, int64_t base_offset, int64_t size):
    """Check every batch as verify_part does, and that each begins at the offset where the previous one ended. No checksum covers
    this, and it is true only of a log that is never compacted. Returns (ScanResult, whether it ended at a batch after a gap);
    raises OSError.
    """
    cdef BatchReader reader
    cdef ScanResult result
    cdef int64_t batches = 0, expected = base_offset
    cdef bint gap = False
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        reader = BatchReader(fd, 0, size, base_offset, 0)
        while reader.advance():
            if reader.header.base_offset != expected:
                gap = True
                break
            expected = reader.next_offset
            batches += 1
    finally:
        os.close(fd)
    result = finish(reader, batches)
    result.next_offset = expected
    return result, gap


def refresh_timestamps(Segment segment not None):
    """Find the largest timestamp of a segment whose end was cut off; raises StorageError, CorruptSegment."""
    cdef BatchReader reader
    cdef int64_t timestamp, offset
    timestamp, offset = segment.times.last
    segment.rolling_timestamp = -2
    segment.bytes_since_index = 0
    if segment.size > 0:
        reader = BatchReader(
            segment.descriptor(), segment.checked_start(offset), segment.size, segment.base_offset, 0x7FFFFFFFFFFFFFFF
        )
        while reader.advance():
            if reader.header.max_timestamp > timestamp:
                timestamp = reader.header.max_timestamp
                offset = reader.next_offset - 1
        if reader.problem is not None:
            raise CorruptSegment(segment.path, reader.position, reader.problem)
    segment.max_timestamp = timestamp
    segment.max_timestamp_offset = offset
