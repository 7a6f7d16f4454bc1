"""The ends of locks in a share partition: acknowledgements, sessions that close, time, and the ends of the writes of them."""

from libc.stdint cimport INT64_MAX, int32_t, int64_t

from broker_cy.share.runs cimport ACKNOWLEDGED, ACQUIRED, ARCHIVED, AVAILABLE, EXPIRED, PENDING, STAYS, Run
from broker_cy.share.share_partition cimport SharePartition

from broker_cy.core.errors import ErrorCode
from broker_cy.share.state_write import AcknowledgeError, StateWrite

INVALID_RECORD_STATE = ErrorCode.INVALID_RECORD_STATE
INVALID_REQUEST = ErrorCode.INVALID_REQUEST


cpdef object acknowledge(SharePartition partition, str member_id, list batches, int64_t now_ms):
    """Give records the states of acknowledgements: (first offset, last offset, types), with one type or one for each record.

    Returns the StateWrite, or None if there is nothing to write. Raises AcknowledgeError, and then no state has changed; deadlines
    may have, as Kafka's do.
    """
    cdef list changed = []
    cdef int32_t holder = partition.holders.find(member_id)
    try:
        for first, last, types in batches:
            acknowledge_batch(partition, holder, first, last, types, now_ms, changed)
    except AcknowledgeError:
        for first, last, _deliveries, _state in changed:
            settle(partition, first, last, False)
        raise
    return made_write(partition, changed, False)


cdef int acknowledge_batch(
    SharePartition partition, int32_t holder, int64_t first, int64_t last, bytes types, int64_t now_ms, list changed
) except -1:
    """Apply the acknowledgements of one batch of a request, which need not be a batch that was acquired."""
    cdef Py_ssize_t index, count = len(types)
    cdef int64_t begin
    if last < first or count == 0 or count != 1 and count != last - first + 1:
        raise AcknowledgeError(INVALID_REQUEST, f"{count} acknowledge types do not fit offsets {first} to {last}")
    for index in range(count):
        if types[index] > RENEW:
            raise AcknowledgeError(INVALID_REQUEST, f"unknown acknowledge type {types[index]} for offset {first + index}")
    if last < partition.start_offset:
        # They were archived when the start of the log moved.
        return 0
    check_in_flight(partition, first, last)
    if count == 1:
        return acknowledge_records(partition, holder, first, last, types[0], now_ms, changed)
    begin = first
    for index in range(1, count + 1):
        if index == count or types[index] != types[index - 1]:
            acknowledge_records(partition, holder, begin, first + index - 1, types[index - 1], now_ms, changed)
            begin = first + index
    return 0


cdef int check_in_flight(SharePartition partition, int64_t first, int64_t last) except -1:
    """Raise AcknowledgeError unless the records are between the first and the last one in flight."""
    cdef Py_ssize_t index = partition.runs.floor(first)
    if index < 0:
        # The batches that began before the start offset may be gone. A gap may begin at the start offset.
        if not first < partition.start_offset or partition.runs.floor(partition.start_offset) < 0:
            raise AcknowledgeError(INVALID_RECORD_STATE, f"offsets {first} to {last} are not in flight")
    index = partition.runs.floor(last)
    if partition.runs.at(index).last < last:
        raise AcknowledgeError(INVALID_REQUEST, f"offsets {first} to {last} reach beyond the records that were acquired")
    return 0


cdef int acknowledge_records(
    SharePartition partition, int32_t holder, int64_t first, int64_t last, int kind, int64_t now_ms, list changed
) except -1:
    """Apply one type to all records from `first` to `last`; those before the start offset no longer matter."""
    cdef Py_ssize_t index
    cdef Run* run
    first = max(first, partition.start_offset)
    if first > last:
        return 0
    index = partition.runs.first_from(first)
    while index < partition.runs.count and partition.runs.at(index).first <= last:
        run = partition.runs.at(index)
        if run.state != ACQUIRED:
            raise AcknowledgeError(INVALID_RECORD_STATE, f"offset {max(run.first, first)} is not locked")
        if run.holder != holder:
            raise AcknowledgeError(INVALID_RECORD_STATE, f"offset {max(run.first, first)} is locked by another member")
        if kind == RENEW and not partition.is_renew_enabled:
            raise AcknowledgeError(INVALID_RECORD_STATE, "the group does not allow to renew locks")
        index = partition.runs.cut(index, first, last)
        run = partition.runs.at(index)
        if kind == RENEW:
            run.deadline_ms = now_ms + partition.lock_ms
            if run.deadline_ms < partition.next_deadline_ms:
                partition.next_deadline_ms = run.deadline_ms
        else:
            begin_change(partition, run, kind, changed)
        index += 1
    partition.runs.join(first, last)
    return 0


cdef int begin_change(SharePartition partition, Run* run, int kind, list changed) except -1:
    """Give a locked run a tentative state."""
    if kind == ACCEPT:
        partition.set_state(run, ACKNOWLEDGED)
    elif kind == RELEASE:
        partition.release_state(run)
    else:
        partition.set_state(run, ARCHIVED)
    run.flags |= PENDING
    return add_changed(changed, run)


cdef int add_changed(list changed, const Run* run) except -1:
    """Add the state of a run to those to write; neighbors with equal states become one."""
    cdef int64_t first = run.first
    if changed:
        before_first, before_last, deliveries, state = changed[len(changed) - 1]
        if before_last + 1 == first and deliveries == run.deliveries and state == run.state:
            changed[len(changed) - 1] = (before_first, run.last, deliveries, state)
            return 0
    changed.append((first, run.last, run.deliveries, run.state))
    return 0


cdef object made_write(SharePartition partition, list changed, bint is_timeout):
    if not changed:
        return None
    return StateWrite(
        partition.state_epoch, partition.leader_epoch, partition.start_offset, partition.delivery_complete_count, tuple(changed),
        is_timeout,
    )


cpdef object release(SharePartition partition, str member_id):
    """Release what a member has locked, at the end of its session: the StateWrite, or None if it holds nothing."""
    cdef list changed = []
    cdef int32_t holder = partition.holders.find(member_id)
    cdef Py_ssize_t index = 0
    cdef Run* run
    if holder == 0:
        return None
    while index < partition.runs.count:
        run = partition.runs.at(index)
        if run.holder == holder and run.state == ACQUIRED:
            index = cut_at_start(partition, index)
            begin_change(partition, partition.runs.at(index), RELEASE, changed)
        index += 1
    partition.runs.join(0, INT64_MAX - 1)
    return made_write(partition, changed, False)


cpdef object expire(SharePartition partition, int64_t now_ms):
    """End the locks whose time is over: the StateWrite, or None if there are none."""
    cdef list changed = []
    cdef Py_ssize_t index = 0
    cdef int64_t next_ms = 0
    cdef Run* run
    if partition.next_deadline_ms == 0 or now_ms < partition.next_deadline_ms:
        return None
    while index < partition.runs.count:
        run = partition.runs.at(index)
        if run.holder != 0 and not run.flags & EXPIRED:
            if run.deadline_ms > now_ms:
                if next_ms == 0 or run.deadline_ms < next_ms:
                    next_ms = run.deadline_ms
            elif run.flags & PENDING:
                # It is unknown whether its write succeeds. If it fails, the record is released.
                run.flags |= EXPIRED
            else:
                index = cut_at_start(partition, index)
                run = partition.runs.at(index)
                partition.unlock(run)
                partition.release_state(run)
                if run.state == AVAILABLE:
                    partition.may_have_available = True
                add_changed(changed, run)
        index += 1
    partition.next_deadline_ms = next_ms
    partition.runs.join(0, INT64_MAX - 1)
    return made_write(partition, changed, True)


cdef Py_ssize_t cut_at_start(SharePartition partition, Py_ssize_t index) except -1:
    """Cut a run that has records before and after the start offset; returns the index of the first part."""
    cdef Run* run = partition.runs.at(index)
    if run.first < partition.start_offset <= run.last:
        return partition.runs.cut(index, run.first, partition.start_offset - 1)
    return index


cpdef bint written(SharePartition partition, write) except -1:
    """The StateWrite is persisted. Returns whether fetches that wait should look again."""
    return end_write(partition, write, True)


cpdef bint failed(SharePartition partition, write) except -1:
    """The StateWrite could not be persisted: its records are locked again, unless their locks have ended. As `written`."""
    return end_write(partition, write, False)


cdef bint end_write(SharePartition partition, write, bint is_written) except -1:
    cdef bint wakes = False
    if not write.is_timeout:
        for first, last, _deliveries, _state in write.batches:
            if settle(partition, first, last, is_written):
                wakes = True
    # In Kafka 4.3.1 a write that failed moves nothing, although it may archive records whose last lock has ended.
    wakes = partition.advance() or wakes
    return wakes


cdef bint settle(SharePartition partition, int64_t first, int64_t last, bint is_written) except -1:
    """End the tentative states of the records from `first` to `last`; returns whether records became available."""
    cdef Py_ssize_t index = partition.runs.first_from(first)
    cdef bint has_any = False
    cdef Run* run
    while index < partition.runs.count and partition.runs.at(index).first <= last:
        if not partition.runs.at(index).flags & PENDING:
            index += 1
            continue
        index = partition.runs.cut(index, first, last)
        run = partition.runs.at(index)
        if run.flags & STAYS:
            pass
        elif is_written:
            partition.unlock(run)
        elif run.flags & EXPIRED:
            index = cut_at_start(partition, index)
            run = partition.runs.at(index)
            partition.unlock(run)
            partition.release_state(run)
        elif run.holder == 0:
            index = cut_at_start(partition, index)
            run = partition.runs.at(index)
            undo_operation(partition, run)
        else:
            partition.set_state(run, ACQUIRED)
            if partition.next_deadline_ms == 0 or run.deadline_ms < partition.next_deadline_ms:
                partition.next_deadline_ms = run.deadline_ms
        if run.state == AVAILABLE:
            partition.may_have_available = has_any = True
        run.flags &= ~(PENDING | EXPIRED | STAYS)
        index += 1
    partition.runs.join(first, last)
    return has_any


cdef void undo_operation(SharePartition partition, Run* run) noexcept:
    """Take back the tentative state that an operator gave to records without a lock (operating.operate)."""
    if run.state == AVAILABLE:
        run.deliveries -= 1
        partition.set_state(run, ARCHIVED)
    elif run.last >= partition.start_offset:
        partition.set_state(run, AVAILABLE)
