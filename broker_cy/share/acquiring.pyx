"""Acquiring records of a share partition for a member, out of the batches that a read of the partition found."""

from libc.stdint cimport int32_t, int64_t

from broker_cy.share.read_batches cimport ReadBatches
from broker_cy.share.runs cimport ACQUIRED, AVAILABLE, BATCH_START, Run, is_available
from broker_cy.share.share_partition cimport ACTIVE, SharePartition

cdef enum:
    # From this limit on, a record is delivered alone on its last attempt.
    ALONE_LIMIT_MIN = 3
    # Records that an operator redrives may have been delivered any number of times.
    SHIFT_MAX = 62


# One call of `acquire`.
cdef struct Request:
    bint is_record_limit
    int32_t batch_size
    int32_t holder
    int64_t deadline_ms
    int64_t first                   # base offset of the first batch that was read
    int64_t last                    # the last offset to acquire
    int64_t left                    # the number of records that may still be acquired


cpdef list acquire(
    SharePartition partition, str member_id, bint is_record_limit, int32_t batch_size, int64_t max_records, int64_t fetch_offset,
    ReadBatches read, int64_t now_ms,
):
    """Lock records of `read`, which was read from `fetch_offset` on, for a member: [(first, last, delivery count)].

    Without `is_record_limit` new batches are acquired as a whole, so that the records may be more than `max_records`; a new range
    has at least `batch_size` records, and ends with a batch that was read.
    """
    cdef list acquired = []
    cdef Request request
    cdef Py_ssize_t index
    cdef bint is_gap
    if partition.status != ACTIVE:
        return acquired
    if max_records > 0 and read.count > 0 and limit_request(partition, read, fetch_offset, max_records, &request):
        request.is_record_limit = is_record_limit
        request.batch_size = batch_size
        request.deadline_ms = now_ms + partition.lock_ms
        request.holder = partition.holders.number_of(member_id)
        if fetch_offset < request.first and partition.archive(fetch_offset, request.first - 1, AVAILABLE):
            # Compaction has removed them from the log.
            partition.may_have_available = True
        index = partition.runs.first_from(fetch_offset)
        is_gap = partition.has_gap() and index < partition.runs.count and partition.runs.at(index).first > fetch_offset
        acquire_read(partition, read, &request, acquired)
        if fetch_offset <= partition.start_offset < request.first and partition.runs.count:
            # The log has no records in a gap at the start offset. In Kafka 4.3.1 the start offset stays there for ever.
            partition.move_start(min(request.first, partition.runs.at(0).first))
        if is_gap and not acquired and request.left > 0:
            # The log has no records in a gap. In Kafka 4.3.1 each further fetch begins at it.
            partition.narrow_gap(request.last + 1)
        if acquired:
            partition.narrow_gap(acquired[len(acquired) - 1][1] + 1)
            for index in range(read.count):
                if read.items[index].is_aborted:
                    partition.archive(read.items[index].base_offset, read.items[index].last_offset, ACQUIRED)
                    cut_out(acquired, read.items[index].base_offset, read.items[index].last_offset)
        else:
            partition.close_gap()
        partition.holders.drop_unused(request.holder)
    partition.advance()
    return acquired


cdef bint limit_request(
    SharePartition partition, ReadBatches read, int64_t fetch_offset, int64_t max_records, Request* request
) except -1:
    """Set the offsets and the number of records to acquire; returns whether there may be any."""
    cdef int64_t room = partition.records_max - partition.records_in_flight()
    request.first = read.items[0].base_offset
    request.last = read.items[read.count - 1].last_offset
    request.left = min(max_records, room)
    if request.last < partition.start_offset:
        return False
    if request.left <= 0:
        # Too many records are in flight for new ones, but some of them may be available.
        request.left = min(max_records, partition.end_offset - fetch_offset + 1)
        request.last = min(request.last, partition.end_offset)
    return request.left > 0


cdef int acquire_read(SharePartition partition, ReadBatches read, Request* request, list acquired) except -1:
    """Acquire records of batches that are in flight, of gaps between them, and of new batches after them."""
    cdef Py_ssize_t index = partition.runs.floor(request.first), end
    cdef int64_t base = request.first, gap, batch_last
    cdef Run* run
    if index >= 0 and partition.runs.at(partition.runs.batch_end(index)).last >= base:
        index = partition.runs.batch_start(index)
        base = partition.runs.at(index).first
    else:
        if index < 0:
            base = max(base, partition.start_offset)
        index = partition.runs.floor(request.first - 1) + 1
    if index >= partition.runs.count or partition.runs.at(index).first > request.last:
        return acquire_new(partition, read, request, base, request.last, acquired)
    gap = base
    while index < partition.runs.count and partition.runs.at(index).first <= request.last and request.left > 0:
        run = partition.runs.at(index)
        batch_last = partition.runs.at(partition.runs.batch_end(index)).last
        if partition.has_gap():
            if gap < run.first:
                base = run.first
                acquire_new(partition, read, request, gap, base - 1, acquired)
                index = partition.runs.floor(base)
            gap = batch_last + 1
            if request.left <= 0:
                break
        if not acquire_batch(partition, request, index, acquired):
            request.left = 0
        index = partition.runs.floor(batch_last) + 1
    if request.left > 0:
        index = partition.runs.floor(request.last)
        end = partition.runs.batch_end(index)
        if partition.runs.at(end).last < request.last:
            acquire_new(partition, read, request, partition.runs.at(end).last + 1, request.last, acquired)
    return 0


cdef bint acquire_batch(SharePartition partition, Request* request, Py_ssize_t index, list acquired) except -1:
    """Acquire what is available of the batch whose first run is at `index`; returns whether to go on with the next batch."""
    cdef Py_ssize_t end = partition.runs.batch_end(index), each
    cdef int throttled_from = partition.throttled_from()
    cdef bint is_throttled = False
    cdef Run* run
    for each in range(index, end + 1):
        run = partition.runs.at(each)
        if is_available(run) and run.deliveries >= throttled_from and run.first <= request.last and run.last >= request.first:
            is_throttled = True
    if is_throttled and acquired:
        # It is delivered alone, by another fetch.
        return False
    run = partition.runs.at(index)
    if (
        is_throttled or index != end or run.first < request.first or run.last > request.last
        or request.is_record_limit and run.last - run.first + 1 > request.left
    ):
        return not (acquire_part(partition, request, index, throttled_from, acquired) and is_throttled)
    if is_available(run):
        partition.lock(run, request.holder, request.deadline_ms)
        acquired.append((run.first, run.last, run.deliveries))
        request.left -= run.last - run.first + 1
    return True


cdef bint acquire_part(
    SharePartition partition, Request* request, Py_ssize_t index, int throttled_from, list acquired
) except -1:
    """Acquire available records of a batch one by one, as far as the rules of throttling allow; returns whether there are any."""
    cdef int64_t batch_first = partition.runs.at(index).first
    cdef int64_t batch_last = partition.runs.at(partition.runs.batch_end(index)).last
    cdef int64_t last = min(batch_last, request.last), count = 0, most = -1, records, first
    cdef int64_t range_first = -1, range_last = -2
    cdef int range_deliveries = 0
    cdef int limit = partition.delivery_limit
    cdef bint is_full = False
    cdef Run* run
    while not is_full and index < partition.runs.count and partition.runs.at(index).first <= last:
        run = partition.runs.at(index)
        first = max(run.first, request.first)
        records = min(run.last, last) - first + 1
        if records <= 0 or not is_available(run):
            index += 1
            continue
        if limit >= ALONE_LIMIT_MIN and run.deliveries == limit - 1:
            if count > 0:
                break
            records = 1
            is_full = True
        if run.deliveries >= throttled_from and most < 0:
            # Each further attempt halves the number of records, from the batch's on.
            most = max(1, (batch_last - batch_first + 1) >> min(run.deliveries - throttled_from + 1, <int>SHIFT_MAX))
        # As in Kafka, records that were acquired before the first throttled one may exceed `most`, and then it is no limit.
        if count < most <= count + records:
            records = most - count
            is_full = True
        if request.is_record_limit and count + records >= request.left:
            records = request.left - count
            is_full = True
        index = partition.runs.cut(index, first, first + records - 1)
        run = partition.runs.at(index)
        partition.lock(run, request.holder, request.deadline_ms)
        if range_last + 1 == run.first and range_deliveries == run.deliveries:
            range_last = run.last
        else:
            if range_first >= 0:
                acquired.append((range_first, range_last, range_deliveries))
            range_first, range_last, range_deliveries = run.first, run.last, run.deliveries
        count += records
        index += 1
    if count == 0:
        return False
    acquired.append((range_first, range_last, range_deliveries))
    request.left -= count
    partition.runs.join(batch_first, batch_last)
    return True


cdef int acquire_new(
    SharePartition partition, ReadBatches read, Request* request, int64_t first, int64_t last, list acquired
) except -1:
    """Acquire records that were not in flight, from `first` on: whole batches, for which `last` may be too small."""
    cdef Py_ssize_t index
    cdef int64_t wanted = last, end
    if partition.runs.count == 0:
        first = max(first, partition.end_offset)
    if request.left < last - first + 1:
        last = read.last_offset_around(first + request.left - 1)
        if partition.has_gap():
            last = min(last, wanted)
    # Never over records that are in flight.
    index = partition.runs.first_from(first)
    if index < partition.runs.count:
        last = min(last, partition.runs.at(index).first - 1)
    if last < first:
        return 0
    if request.is_record_limit:
        end = min(last, first + request.left - 1)
        add_batch(partition, request, first, end, last, acquired)
        last = end
    else:
        add_batches(partition, read, request, first, last, acquired)
    if partition.runs.at(0).first == first and partition.start_offset < first:
        partition.start_offset = first
    partition.narrow_gap(last + 1)
    request.left -= last - first + 1
    return 0


cdef int add_batches(
    SharePartition partition, ReadBatches read, Request* request, int64_t first, int64_t last, list acquired
) except -1:
    """Acquire new records as batches that have at least batch_size records, if they do not fit into one."""
    cdef Py_ssize_t index
    cdef int64_t base
    if last - first + 1 > request.batch_size:
        for index in range(read.count):
            base = read.items[index].base_offset
            if base > last:
                break
            if base - first >= request.batch_size:
                add_batch(partition, request, first, base - 1, base - 1, acquired)
                first = base
    return add_batch(partition, request, first, last, last, acquired)


cdef int add_batch(
    SharePartition partition, Request* request, int64_t first, int64_t acquired_last, int64_t last, list acquired
) except -1:
    """Put a new batch into flight, and acquire its records up to `acquired_last`; the rest of them is available."""
    cdef Run run = Run(first, acquired_last, 0, 0, 0, AVAILABLE, BATCH_START)
    cdef Py_ssize_t index = partition.runs.floor(first) + 1
    partition.runs.insert(index, &run)
    partition.lock(partition.runs.at(index), request.holder, request.deadline_ms)
    acquired.append((first, acquired_last, 1))
    if acquired_last < last:
        run = Run(acquired_last + 1, last, 0, 0, 0, AVAILABLE, 0)
        partition.runs.insert(index + 1, &run)
        partition.may_have_available = True
    if last > partition.end_offset:
        partition.end_offset = last
    return 0


cdef int cut_out(list acquired, int64_t first, int64_t last) except -1:
    """Take the records from `first` to `last` out of acquired ranges."""
    cdef Py_ssize_t index = 0
    while index < len(acquired):
        range_first, range_last, deliveries = acquired[index]
        if range_last < first or range_first > last:
            index += 1
            continue
        kept = []
        if range_first < first:
            kept.append((range_first, first - 1, deliveries))
        if range_last > last:
            kept.append((last + 1, range_last, deliveries))
        acquired[index:index + 1] = kept
        index += len(kept)
    return 0
