"""The share partition: acknowledgements, their writes, locks that end, and the start of the log."""

from __future__ import annotations

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.share import acknowledging
from broker_cy.share.state_write import StateWrite
from tests.broker_cy.share.partitions import (
    ACCEPT,
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    LIMIT,
    LOCK_MS,
    RELEASE,
    RENEW,
    acknowledge,
    acquire,
    done,
    partition,
    refused,
    states,
    undone,
)

# ---- acknowledgements and their writes ----


def test_a_write_has_the_start_offset_from_before_it() -> None:
    """If this fails, the share coordinator drops records whose state is not yet written."""
    share = partition()
    acquire(share, (0, 9))
    write = acknowledge(share, 0, 4, ACCEPT)
    assert write == StateWrite(2, 3, 0, 5, ((0, 4, 1, ACKNOWLEDGED),), is_timeout=False)
    assert share.start_offset == 0
    done(share, write)
    assert (share.start_offset, share.delivery_complete_count) == (5, 0)


def test_each_record_may_have_its_own_type() -> None:
    """If this fails, a consumer that releases one record of a batch releases others with it."""
    share = partition()
    acquire(share, (0, 3))
    write = acknowledge(share, 0, 3, bytes((1, 2, 3, 0)))
    assert write is not None
    assert write.batches == ((0, 0, 1, ACKNOWLEDGED), (1, 1, 1, AVAILABLE), (2, 3, 1, ARCHIVED))
    assert done(share, write)
    assert share.start_offset == 1
    assert acquire(share, (0, 3), member="b") == [(1, 1, 2)]


def test_the_last_delivery_archives_a_released_record() -> None:
    """If this fails, a record that no consumer can process is delivered for ever."""
    share = partition((0, 0, LIMIT - 1, AVAILABLE))
    assert acquire(share, (0, 0)) == [(0, 0, LIMIT)]
    done(share, acknowledge(share, 0, 0, RELEASE))
    assert share.start_offset == 1


def test_a_failed_write_locks_the_records_again() -> None:
    """If this fails, a record whose acknowledgement was refused is given to a second consumer at once."""
    share = partition()
    acquire(share, (0, 9))
    assert not undone(share, acknowledge(share, 0, 9, ACCEPT))
    assert states(share) == [(0, 9, ACQUIRED, 1)]
    assert share.delivery_complete_count == 0
    done(share, acknowledge(share, 0, 9, ACCEPT))
    assert share.start_offset == 10


@pytest.mark.parametrize(("deliveries", "start_offset", "next_offset"), [(0, 0, 0), (LIMIT - 1, 1, 1)])
def test_a_failed_write_releases_records_whose_lock_has_ended(
    deliveries: int, start_offset: int, next_offset: int
) -> None:
    """If this fails, a record stays locked for a consumer that is gone (KAFKA-19476)."""
    share = partition((0, 0, deliveries, AVAILABLE), (1, 1, 0, AVAILABLE))
    acquire(share, (0, 0))
    write = acknowledge(share, 0, 0, ACCEPT)
    assert acknowledging.expire(share, LOCK_MS) is None
    assert undone(share, write)
    assert (share.start_offset, share.next_fetch_offset()) == (start_offset, next_offset)


def test_a_failed_write_archives_what_left_the_log_while_the_lock_ended() -> None:
    """If this fails, each fetch of the partition begins before the log, which answers that with an error for ever."""
    share = partition()
    acquire(share, (0, 9))
    write = acknowledge(share, 0, 9, ACCEPT)
    assert acknowledging.expire(share, LOCK_MS) is None
    share.move_log_start(4)
    assert undone(share, write)
    assert (share.start_offset, share.next_fetch_offset()) == (4, 4)
    assert acquire(share, (0, 9), member="b") == [(4, 9, 2)]


def test_a_lock_that_ends_changes_the_state_even_if_its_write_fails() -> None:
    """If this fails, a partition whose share coordinator is away has its records locked for ever."""
    share = partition()
    acquire(share, (0, 9), now=50)
    assert acknowledging.expire(share, 50 + LOCK_MS - 1) is None
    write = acknowledging.expire(share, 50 + LOCK_MS)
    assert write is not None
    assert write.is_timeout
    assert write.batches == ((0, 9, 1, AVAILABLE),)
    undone(share, write)
    assert acquire(share, (0, 9), member="b") == [(0, 9, 2)]


def test_released_records_have_no_lock() -> None:
    """If this fails, the lock of the last holder takes a record from its new one (KAFKA-18918)."""
    share = partition()
    acquire(share, (0, 9), now=0)
    done(share, acknowledge(share, 0, 9, RELEASE))
    acquire(share, (0, 9), member="b", now=60)
    assert acknowledging.expire(share, LOCK_MS) is None
    assert share.next_deadline_ms == 60 + LOCK_MS


def test_a_lock_can_be_renewed_and_nothing_is_written() -> None:
    """If this fails, a record whose processing takes long goes to a second consumer."""
    share = partition()
    acquire(share, (0, 9))
    assert acknowledge(share, 2, 3, RENEW, now=90) is None
    write = acknowledging.expire(share, LOCK_MS)
    assert write is not None
    assert write.batches == ((0, 1, 1, AVAILABLE), (4, 9, 1, AVAILABLE))
    assert share.next_deadline_ms == 90 + LOCK_MS


def test_renewing_can_be_disabled_for_a_group() -> None:
    """If this fails, an operator cannot limit how long a consumer holds a record."""
    share = partition(is_renew_enabled=False)
    acquire(share, (0, 9))
    refused(ErrorCode.INVALID_RECORD_STATE, share, (0, 9, RENEW))


def test_one_bad_batch_undoes_all_acknowledgements_of_the_partition() -> None:
    """If this fails, a client that gets an error does not know which of its acknowledgements count."""
    share = partition()
    acquire(share, (0, 9), size=10)
    acquire(share, (10, 19), member="b", size=10)
    refused(ErrorCode.INVALID_RECORD_STATE, share, (0, 9, ACCEPT), (10, 19, ACCEPT))
    refused(ErrorCode.INVALID_RECORD_STATE, share, (0, 9, ACCEPT), (5, 5, ACCEPT))
    refused(ErrorCode.INVALID_REQUEST, share, (0, 4, ACCEPT), (5, 20, ACCEPT))
    refused(ErrorCode.INVALID_REQUEST, share, (30, 31, ACCEPT))
    refused(ErrorCode.INVALID_REQUEST, share, (0, 4, ACCEPT), (5, 6, b"\x09"))
    refused(ErrorCode.INVALID_REQUEST, share, (0, 4, b"\x01\x01"))
    refused(ErrorCode.INVALID_RECORD_STATE, share, (0, 9, ACCEPT), member="stranger")


def test_a_write_under_way_refuses_a_second_acknowledgement() -> None:
    """If this fails, two consumers' answers about one record may both count."""
    share = partition()
    acquire(share, (0, 9))
    write = acknowledge(share, 0, 9, RELEASE)
    refused(ErrorCode.INVALID_RECORD_STATE, share, (0, 9, ACCEPT))
    assert acquire(share, (0, 9), member="b", fetch=0) == []
    assert done(share, write)
    assert acquire(share, (0, 9), member="b") == [(0, 9, 2)]


def test_a_session_that_closes_releases_only_its_own_records() -> None:
    """If this fails, a consumer that leaves takes the records of another, or leaves its own locked (KAFKA-17396)."""
    share = partition()
    acquire(share, (0, 9), size=10)
    acquire(share, (10, 19), member="b", size=10)
    done(share, acknowledging.release(share, "a"))
    assert states(share) == [(0, 9, AVAILABLE, 1), (10, 19, ACQUIRED, 1)]
    assert acknowledging.release(share, "a") is None


# ---- the start of the log ----


def test_a_log_that_lost_its_start_archives_available_records_and_keeps_locks() -> None:
    """If this fails, the group waits for records that were deleted, or a consumer loses the ones that it works on."""
    share = partition()
    acquire(share, (0, 9), (10, 19), (20, 29), size=10)
    done(share, acknowledge(share, 0, 4, RELEASE))
    share.move_log_start(15)
    assert share.start_offset == 15
    assert states(share)[:2] == [(0, 4, ARCHIVED, 1), (5, 9, ACQUIRED, 1)]
    write = acknowledging.expire(share, LOCK_MS)
    assert write is not None
    assert write.batches == ((5, 14, 1, ARCHIVED), (15, 29, 1, AVAILABLE))
    done(share, write)
    assert states(share) == [(0, 9, ARCHIVED, 1), (10, 14, ARCHIVED, 1), (15, 19, AVAILABLE, 1), (20, 29, AVAILABLE, 1)]
    assert share.delivery_complete_count == 0


def test_the_start_offset_does_not_move_back() -> None:
    """If this fails, locks that outlive the start of the log send the next fetch to records that were deleted."""
    share = partition()
    acquire(share, (0, 9))
    share.move_log_start(15)
    assert (share.start_offset, share.next_fetch_offset()) == (15, 15)
    done(share, acknowledging.expire(share, LOCK_MS))
    assert (share.start_offset, share.next_fetch_offset()) == (15, 15)
    assert states(share) == []


@pytest.mark.parametrize("log_start", [5, 10, 15])
@pytest.mark.parametrize("is_written", [True, False])
def test_records_that_left_the_log_stay_archived_whatever_becomes_of_their_write(
    log_start: int, is_written: bool
) -> None:
    """If this fails, a record that no longer exists is available, and each fetch fails at it (KAFKA-19476)."""
    share = partition()
    acquire(share, (0, 9), (10, 19), size=10)
    write = acknowledge(share, 0, 9, RELEASE)
    share.move_log_start(log_start)
    (done if is_written else undone)(share, write)
    assert all(run[2] != AVAILABLE or run[0] >= log_start for run in share.in_flight())
    assert share.start_offset == log_start
    if log_start == 5 and is_written:
        assert acquire(share, (0, 9), member="b") == [(5, 9, 2)]


def test_an_acknowledgement_of_records_that_left_the_log_is_accepted() -> None:
    """If this fails, a consumer gets an error for records whose state no longer matters."""
    share = partition()
    acquire(share, (0, 9), (10, 19))
    share.move_log_start(15)
    assert acknowledge(share, 0, 9, ACCEPT) is None
    write = acknowledge(share, 0, 19, ACCEPT)
    assert write is not None
    assert write.batches == ((15, 19, 1, ACKNOWLEDGED),)


def test_a_failed_write_that_archives_records_moves_the_start_offset() -> None:
    """If this fails, a full share partition whose records were all archived stays full (Kafka 4.3.1)."""
    share = partition((0, 0, LIMIT - 1, AVAILABLE), records_max=1)
    acquire(share, (0, 0))
    write = acknowledge(share, 0, 0, ACCEPT)
    assert acknowledging.expire(share, LOCK_MS) is None
    assert undone(share, write)
    assert share.start_offset == 1
    assert share.can_acquire()
