"""Changes that an operator makes to the records in flight of a share partition: release, reject and redrive."""

from libc.stdint cimport INT16_MAX, int32_t, int64_t

from broker_cy.share.acknowledging cimport REJECT, RELEASE, add_changed, begin_change, made_write
from broker_cy.share.runs cimport ACQUIRED, ARCHIVED, AVAILABLE, PENDING, Run, is_available
from broker_cy.share.share_partition cimport SharePartition

from broker_cy.wire.share_operations import OperatorAction

cdef enum:
    # OperatorAction has it beside acknowledge types.
    REDRIVE = 5

assert (OperatorAction.RELEASE, OperatorAction.REJECT, OperatorAction.REDRIVE) == (RELEASE, REJECT, REDRIVE)


cpdef tuple operate(SharePartition partition, int action, str member_id, list ranges, bint is_preview):
    """Change those of the records in `ranges`, which are (first offset, last offset), that are in a state for `action`:

    - RELEASE makes locked records available again, or archives them after their last delivery, as a member's release;
    - REJECT archives records that are locked or available;
    - REDRIVE makes archived records available again.

    With `member_id` only records that this member has locked. Records whose state is being written are left alone, and records that
    are not in flight. Returns the StateWrite or None, the number of records, and how many of those a RELEASE archives. The states
    are tentative until the write ends, as those of acknowledgements. `is_preview`: nothing changes.
    """
    cdef list changed = []
    cdef int32_t holder = 0 if member_id is None else partition.holders.find(member_id)
    cdef int64_t first, last, from_offset, records = 0, archived = 0, each
    cdef Py_ssize_t index
    cdef Run* run
    if member_id is not None and holder == 0:
        return None, 0, 0
    for first, last in ranges:
        from_offset = max(first, partition.start_offset)
        index = partition.runs.first_from(from_offset)
        while index < partition.runs.count and partition.runs.at(index).first <= last:
            run = partition.runs.at(index)
            if is_eligible(run, action, holder):
                each = min(run.last, last) - max(run.first, from_offset) + 1
                records += each
                if action == RELEASE and run.deliveries >= partition.delivery_limit:
                    archived += each
                if not is_preview:
                    index = partition.runs.cut(index, from_offset, last)
                    change(partition, partition.runs.at(index), action, changed)
            index += 1
        if not is_preview:
            partition.runs.join(from_offset, last)
    return made_write(partition, changed, False), records, archived


cdef bint is_eligible(const Run* run, int action, int32_t holder) noexcept:
    """Whether the action applies to the records of a run; `holder` 0 stands for any or none."""
    if run.flags & PENDING or holder != 0 and run.holder != holder:
        return False
    if action == RELEASE:
        return run.state == ACQUIRED
    if action == REJECT:
        return run.state == ACQUIRED or is_available(run)
    # A count that cannot grow: the share coordinator would keep the older state.
    return run.state == ARCHIVED and run.deliveries < INT16_MAX - 1


cdef int change(SharePartition partition, Run* run, int action, list changed) except -1:
    """Give a run the tentative state of an action."""
    if run.state == ACQUIRED:
        return begin_change(partition, run, action, changed)
    if action == REJECT:
        partition.set_state(run, ARCHIVED)
    else:
        # The share coordinator keeps the archived state if the delivery counts are equal.
        run.deliveries += 1
        partition.set_state(run, AVAILABLE)
    run.flags |= PENDING
    return add_changed(changed, run)
