"""The share partition: acquiring records, persisted state, memory."""

from __future__ import annotations

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.share import acknowledging
from broker_cy.share.share_partition import SharePartition
from broker_cy.share.state_write import LoadError, client_error, is_fencing
from tests.broker_cy.share.partitions import (
    ACCEPT,
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    RELEASE,
    Batch,
    acknowledge,
    acquire,
    done,
    partition,
    refused,
    states,
)

# ---- acquiring ----


def test_whole_batches_are_acquired_although_they_are_more_than_the_limit() -> None:
    """If this fails, a consumer gets a part of a batch, and the rest of it is sent again for each part."""
    share = partition()
    assert acquire(share, (0, 9), (10, 19), (20, 29), most=15) == [(0, 19, 1)]
    assert share.next_fetch_offset() == 20


def test_a_record_limit_is_exact_and_the_rest_of_the_batch_is_available() -> None:
    """If this fails, a consumer that asks for five records holds more of them than it can process."""
    share = partition()
    assert acquire(share, (0, 9), most=5, is_record_limit=True) == [(0, 4, 1)]
    assert states(share) == [(0, 4, ACQUIRED, 1), (5, 9, AVAILABLE, 0)]
    assert acquire(share, (0, 9), member="b") == [(5, 9, 1)]


def test_acquired_ranges_are_cut_at_batches_that_were_read() -> None:
    """If this fails, a consumer cannot acknowledge its records in the pieces that it asked for."""
    assert acquire(partition(), (0, 3), (4, 7), (8, 11), (12, 15), size=6) == [(0, 7, 1), (8, 15, 1)]


def test_no_new_records_are_acquired_while_too_many_are_in_flight() -> None:
    """If this fails, consumers that never acknowledge exhaust the memory of the broker."""
    share = partition(records_max=20)
    acquire(share, (0, 9), (10, 19))
    assert not share.can_acquire()
    assert acquire(share, (20, 29)) == []
    done(share, acknowledge(share, 5, 5, RELEASE))
    assert share.can_acquire()
    assert share.next_fetch_offset() == 5
    assert acquire(share, (0, 9), (10, 19), (20, 29), member="b") == [(5, 5, 2)]


def test_a_batch_that_failed_often_is_delivered_in_smaller_pieces() -> None:
    """If this fails, one record that no consumer can process archives the whole batch around it."""
    share = partition()
    sizes = []
    for _ in range(4):
        (found,) = acquire(share, (0, 15))
        sizes.append(found[1] - found[0] + 1)
        done(share, acknowledging.release(share, "a"))
    assert sizes == [16, 16, 16, 8]
    assert acquire(share, (0, 15)) == [(0, 0, 5)]
    assert acquire(share, (0, 15), member="b") == [(1, 1, 5)]


def test_records_of_aborted_transactions_are_archived() -> None:
    """If this fails, a group with read_committed gets aborted records."""
    share = partition()
    assert acquire(share, (0, 9), (10, 19), (20, 29), aborted=(10,)) == [(0, 9, 1), (20, 29, 1)]
    assert states(share) == [(0, 9, ACQUIRED, 1), (10, 19, ARCHIVED, 1), (20, 29, ACQUIRED, 1)]


def test_a_share_partition_full_of_aborted_records_goes_on() -> None:
    """If this fails, no consumer of the group gets a record any more, as nothing is left to acknowledge."""
    share = partition(records_max=20)
    assert acquire(share, (0, 9), (10, 19), aborted=(0, 10)) == []
    assert share.start_offset == share.next_fetch_offset() == 20
    assert acquire(share, (20, 29)) == [(20, 29, 1)]


def test_records_that_compaction_removed_are_archived() -> None:
    """If this fails, a batch that no longer exists stays available, and the start offset never moves (KAFKA-17351)."""
    share = partition()
    acquire(share, (0, 9), (10, 19), size=10)
    done(share, acknowledging.release(share, "a"))
    assert acquire(share, (10, 19)) == [(10, 19, 2)]
    assert share.start_offset == 10
    assert states(share) == [(10, 19, ACQUIRED, 2)]


# ---- persisted state ----


def test_holes_of_the_persisted_state_are_fetched() -> None:
    """If this fails, records that the last leader had delivered and not settled are lost to the group."""
    share = partition((10, 19, 1, ACKNOWLEDGED), (25, 29, 1, ACKNOWLEDGED))
    assert (share.start_offset, share.next_fetch_offset()) == (0, 0)
    assert acquire(share, (0, 14), (15, 34)) == [(0, 9, 1), (20, 24, 1), (30, 34, 1)]
    done(share, acknowledge(share, 0, 9, ACCEPT))
    assert share.start_offset == 20


def test_the_start_offset_waits_for_a_hole() -> None:
    """If this fails, the start offset passes records that no consumer has had."""
    share = partition((0, 9, 1, AVAILABLE), (20, 29, 1, ACKNOWLEDGED))
    acquire(share, (0, 9))
    done(share, acknowledge(share, 0, 9, ACCEPT))
    assert (share.start_offset, share.next_fetch_offset()) == (10, 10)


def test_an_acknowledgement_below_a_hole_at_the_start_is_refused() -> None:
    """If this fails, such an acknowledgement ends in an exception instead of an answer."""
    share = partition((21, 30, 1, AVAILABLE), start=10)
    refused(ErrorCode.INVALID_RECORD_STATE, share, (5, 25, ACCEPT))
    refused(ErrorCode.INVALID_RECORD_STATE, share, (12, 15, ACCEPT))


def test_a_hole_that_left_the_log_is_not_fetched() -> None:
    """If this fails, each fetch of the group asks for deleted records, and none gets any."""
    share = partition((20, 29, 1, AVAILABLE))
    share.move_log_start(5)
    assert share.next_fetch_offset() == 5
    share.move_log_start(24)
    assert share.next_fetch_offset() == 24


@pytest.mark.parametrize(
    "batches",
    [
        ((5, 9, 1, AVAILABLE),),
        ((10, 12, 1, AVAILABLE), (12, 14, 1, AVAILABLE)),
        ((12, 11, 1, AVAILABLE),),
        ((10, 11, 1, ACQUIRED),),
    ],
)
def test_invalid_persisted_state_is_refused(batches: tuple[Batch, ...]) -> None:
    """If this fails, a damaged state topic makes a group skip or repeat records without a message."""
    with pytest.raises(LoadError, match="persisted batch"):
        partition(*batches, start=10)


def test_a_fenced_share_partition_gives_no_records() -> None:
    """If this fails, two brokers deliver one record after a change of the leader."""
    share = partition()
    share.fence()
    assert acquire(share, (0, 9)) == []
    assert not share.begin()
    late = SharePartition(1)
    assert late.begin()
    late.fence()
    late.load(0, 0, ())
    assert late.status_name == "FENCED"


def test_errors_of_the_share_coordinator_become_those_of_clients() -> None:
    """If this fails, a client gets an unknown error, or the broker keeps a share partition that it lost."""
    assert client_error(ErrorCode.FENCED_STATE_EPOCH) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert client_error(ErrorCode.NOT_COORDINATOR) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert client_error(ErrorCode.INVALID_REQUEST) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert is_fencing(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert not is_fencing(ErrorCode.COORDINATOR_NOT_AVAILABLE)


# ---- memory ----


def test_a_run_in_flight_takes_less_than_100_bytes() -> None:
    """If this fails, share groups with records in flight need more memory than documented."""
    share = partition(records_max=4000)
    acquire(share, (0, 3999))
    for offset in range(0, 4000, 2):
        acknowledge(share, offset, offset, ACCEPT)
    assert len(share.in_flight()) == 4000
    assert share.bytes_in_memory / 4000 < 100


def test_runs_become_one_again_and_members_are_forgotten() -> None:
    """If this fails, the memory of a share partition grows with each acknowledgement and each consumer."""
    share = partition(records_max=4000)
    acquire(share, (0, 999))
    writes = [acknowledge(share, offset, offset, ACCEPT) for offset in range(999, 500, -1)]
    for write in writes:
        done(share, write)
    assert states(share) == [(0, 500, ACQUIRED, 1), (501, 999, ACKNOWLEDGED, 1)]
    done(share, acknowledging.release(share, "a"))
    for number in range(300):
        acquire(share, (0, 999), member=f"m{number}", most=1, is_record_limit=True)
        done(share, acknowledge(share, share.start_offset, share.start_offset, ACCEPT, member=f"m{number}"))
    assert share.members_held == 0


def test_a_hole_at_the_start_that_the_log_does_not_have_is_passed() -> None:
    """If this fails, the start offset stays at such a hole until too many records are in flight (Kafka 4.3.1)."""
    share = partition((20, 29, 1, ACKNOWLEDGED), start=10)
    assert acquire(share, (20, 29), fetch=10) == []
    assert share.start_offset == share.next_fetch_offset() == 30


def test_a_hole_that_the_log_does_not_have_is_read_once() -> None:
    """If this fails, each fetch begins at the hole again, and the group gets no further records (Kafka 4.3.1)."""
    share = partition((0, 9, 1, ACKNOWLEDGED), (20, 29, 1, ACKNOWLEDGED), (40, 49, 1, AVAILABLE))
    assert share.next_fetch_offset() == 10
    assert acquire(share, (20, 29)) == []
    assert (share.start_offset, share.next_fetch_offset()) == (30, 30)
