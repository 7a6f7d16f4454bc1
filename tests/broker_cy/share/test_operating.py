"""Changes of records in flight by an operator: release, reject and redrive."""

from __future__ import annotations

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.share import acknowledging
from broker_cy.share.operating import operate
from broker_cy.share.share_partition import SharePartition
from broker_cy.share.state_write import StateWrite
from broker_cy.wire.share_operations import OperatorAction
from tests.broker_cy.share.partitions import (
    ACCEPT,
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    LIMIT,
    LOCK_MS,
    REJECT,
    acknowledge,
    acquire,
    done,
    partition,
    refused,
    states,
    undone,
)

RELEASE, ARCHIVE, REDRIVE = OperatorAction.RELEASE, OperatorAction.REJECT, OperatorAction.REDRIVE


def change(
    share: SharePartition, action: OperatorAction, first: int, last: int, member: str | None = None
) -> StateWrite | None:
    """Change a range, after a preview that must count the same, and change nothing."""
    before = share.in_flight()
    preview = operate(share, action, member, [(first, last)], True)
    assert share.in_flight() == before
    assert preview[0] is None
    write, *numbers = operate(share, action, member, [(first, last)], False)
    assert numbers == list(preview[1:])
    assert numbers[0] == sum(batch[1] - batch[0] + 1 for batch in (write.batches if write else ()))
    return write


def test_released_records_go_to_another_member_before_their_lock_ends() -> None:
    """If this fails, records of a member that hangs stay locked for the whole lock time, whatever an operator does."""
    share = partition()
    acquire(share, (0, 9))
    write = change(share, RELEASE, 2, 4)
    assert write is not None
    assert write.batches == ((2, 4, 1, AVAILABLE),)
    assert acquire(share, (0, 9), member="b") == []
    assert done(share, write)
    assert acquire(share, (0, 9), member="b") == [(2, 4, 2)]
    refused(ErrorCode.INVALID_RECORD_STATE, share, (2, 4, ACCEPT))


def test_a_released_record_is_archived_after_its_last_delivery() -> None:
    """If this fails, an operator's release delivers a record more often than the group allows."""
    share = partition((0, 0, LIMIT - 1, AVAILABLE), (1, 1, 1, AVAILABLE))
    acquire(share, (0, 0))
    acquire(share, (1, 1), member="b")
    assert operate(share, RELEASE, None, [(0, 1)], True)[1:] == (2, 1)
    done(share, change(share, RELEASE, 0, 1))
    assert states(share) == [(1, 1, AVAILABLE, 2)]


def test_only_the_locks_of_the_named_member_end() -> None:
    """If this fails, releasing what one member holds takes records from others, which then process them twice."""
    share = partition()
    acquire(share, (0, 4), member="a")
    acquire(share, (5, 9), member="b")
    assert change(share, RELEASE, 0, 9, member="stranger") is None
    done(share, change(share, RELEASE, 0, 9, member="b"))
    assert states(share) == [(0, 4, ACQUIRED, 1), (5, 9, AVAILABLE, 1)]


def test_rejected_records_are_not_delivered_again() -> None:
    """If this fails, a record that no consumer can process comes back after an operator has rejected it."""
    share = partition((0, 4, 2, AVAILABLE))
    assert acquire(share, (0, 4), most=2, is_record_limit=True) == [(0, 0, 3)] or states(share)[0][2] == ACQUIRED
    write = change(share, ARCHIVE, 0, 2)
    assert write is not None
    assert {batch[3] for batch in write.batches} == {ARCHIVED}
    assert all(offset > 2 for first, _, _ in acquire(share, (0, 4), member="b") for offset in [first])
    done(share, write)
    assert share.start_offset == 3


def test_a_failed_rejection_changes_nothing() -> None:
    """If this fails, records are lost that the share coordinator still has, or a member loses its locks."""
    share = partition((0, 4, 1, AVAILABLE))
    acquire(share, (0, 1), member="a", most=2, is_record_limit=True)
    before = states(share)
    assert undone(share, change(share, ARCHIVE, 0, 4))
    assert states(share) == before
    done(share, acknowledge(share, 0, 1, ACCEPT))
    assert acquire(share, (0, 4), member="b") == [(2, 4, 2)]


def test_redriven_records_are_delivered_once_more_at_least() -> None:
    """If this fails, records that were archived at the limit of deliveries cannot be repaired, or the share coordinator
    keeps them archived, and the next leader does not deliver them.
    """
    share = partition((0, 0, 1, AVAILABLE), (1, 1, LIMIT, ARCHIVED), (2, 2, 1, ARCHIVED))
    write = change(share, REDRIVE, 0, 9)
    assert write is not None
    # The share coordinator keeps the higher delivery count, and of equal ones the archived state.
    assert write.batches == ((1, 1, LIMIT + 1, AVAILABLE), (2, 2, 2, AVAILABLE))
    assert acquire(share, (0, 2), member="b", most=1, is_record_limit=True) == [(0, 0, 2)]
    assert done(share, write)
    assert acquire(share, (0, 2), member="b", fetch=1) == [(1, 1, LIMIT + 2)]
    done(share, acknowledge(share, 1, 1, b"\x02", member="b"))
    assert states(share)[1][2] == ARCHIVED


def test_a_failed_redrive_leaves_the_records_archived() -> None:
    """If this fails, records are delivered whose state the share coordinator did not change."""
    share = partition((0, 0, 1, AVAILABLE), (1, 3, 2, ARCHIVED))
    before = states(share)
    undone(share, change(share, REDRIVE, 1, 2))
    assert states(share) == before
    assert share.delivery_complete_count == 3


def test_states_that_are_being_written_are_left_alone() -> None:
    """If this fails, an operator's change and a member's acknowledgement of the same record undo each other."""
    share = partition()
    acquire(share, (0, 3))
    accepted, rejected = acknowledge(share, 0, 0, ACCEPT), acknowledge(share, 1, 1, REJECT)
    assert change(share, REDRIVE, 0, 1) is None
    assert change(share, ARCHIVE, 0, 1) is None
    assert change(share, RELEASE, 0, 1) is None
    done(share, rejected)
    done(share, accepted)
    assert states(share) == [(0, 0, ACKNOWLEDGED, 1), (1, 1, ARCHIVED, 1), (2, 3, ACQUIRED, 1)]


def test_a_lock_may_end_while_a_release_is_written() -> None:
    """If this fails, a release whose write fails leaves a lock that never ends."""
    share = partition()
    acquire(share, (0, 3))
    write = change(share, RELEASE, 0, 3)
    assert acknowledging.expire(share, LOCK_MS) is None
    undone(share, write)
    assert states(share) == [(0, 3, AVAILABLE, 1)]


@pytest.mark.parametrize("action", [ARCHIVE, REDRIVE])
def test_the_log_may_lose_records_while_a_change_is_written(action: OperatorAction) -> None:
    """If this fails, records come back that the log no longer has, and the start offset never passes them."""
    state = AVAILABLE if action is ARCHIVE else ARCHIVED
    for end in (done, undone):
        share = partition((0, 1, 1, AVAILABLE), (2, 5, 1, state))
        write = change(share, action, 2, 5)
        share.move_log_start(4)
        end(share, write)
        assert share.start_offset >= 4
        assert all(first >= 4 for first, _, kind, _ in states(share) if kind == AVAILABLE)


def test_accepted_records_and_those_out_of_flight_are_left_alone() -> None:
    """If this fails, an operator makes a record come again that a member has processed, or fails for one offset of a
    range.
    """
    share = partition((5, 5, 1, AVAILABLE), (6, 6, 1, ACKNOWLEDGED), start=5)
    for action in (RELEASE, REDRIVE):
        assert operate(share, action, None, [(0, 100)], False) == (None, 0, 0)
    assert operate(share, ARCHIVE, None, [(6, 100)], False) == (None, 0, 0)
    done(share, change(share, ARCHIVE, 0, 100))
    assert share.start_offset == 7


def test_a_record_can_be_redriven_any_number_of_times() -> None:
    """If this fails, the delivery count of a record that is redriven again and again breaks the next fetch."""
    share = partition((0, 0, 1, AVAILABLE), (1, 4, LIMIT, ARCHIVED))
    for _ in range(200):
        done(share, change(share, REDRIVE, 1, 4))
        assert acquire(share, (0, 4), fetch=1)
        done(share, change(share, ARCHIVE, 1, 4))
    most = partition((0, 0, 1, AVAILABLE), (1, 4, 32_766, ARCHIVED))
    assert change(most, REDRIVE, 1, 4) is None
