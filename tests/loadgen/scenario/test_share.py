"""Users and operations of an entry are distributed to workers completely and evenly."""

from __future__ import annotations

from itertools import count, islice, takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.scenario.model import UserSpec
from loadgen.scenario.profile import RateProfile
from loadgen.scenario.share import Share, part_of_load, shares, worker_of

COUNTS = st.lists(st.integers(1, 30), min_size=1, max_size=6)


@given(COUNTS, st.integers(1, 7))
def test_each_user_has_one_worker(counts: list[int], workers: int) -> None:
    """If this fails, some users of an entry have no worker, such as the only reader of a partition."""
    of = [shares(counts, worker, workers) for worker in range(workers)]
    for entry, number in enumerate(counts):
        users = [[each[entry].user(own) for own in range(each[entry].users)] for each in of]
        assert sorted(user for theirs in users for user in theirs) == list(range(number))
        assert max(map(len, users)) - min(map(len, users)) <= 1
        assert all(user in users[worker_of(counts, entry, user, workers)] for user in range(number))
    totals = [sum(each.users for each in theirs) for theirs in of]
    assert max(totals) - min(totals) <= 1


@given(COUNTS, st.integers(1, 7))
def test_each_operation_is_performed_once_where_its_user_is(counts: list[int], workers: int) -> None:
    """If this fails, a worker without users of an entry gets a part of its operations, or an operation is performed
    twice.
    """
    of = [shares(counts, worker, workers) for worker in range(workers)]
    for entry, number in enumerate(counts):
        performed: list[int] = []
        for each in (theirs[entry] for theirs in of):
            mine = {each.user(own) for own in range(each.users)}
            numbers = list(takewhile(lambda at: at < 100, map(each.operation, count() if mine else ())))
            assert numbers == sorted(numbers)
            assert {at % number for at in numbers} <= mine
            performed += numbers
        assert sorted(performed) == list(range(100))


def test_the_part_of_the_load_follows_the_rates() -> None:
    """If this fails, the loss of an almost idle worker is reported as half of the load, or as no loss."""
    fast = UserSpec("producer", "fast", 1, rate=RateProfile.constant(900))
    slow = UserSpec("producer", "slow", 1, rate=RateProfile.constant(100))
    parts = [part_of_load((fast, slow), 10, shares([1, 1], worker, 3)) for worker in range(3)]
    assert parts == pytest.approx([0.9, 0.1, 0])
    unpaced = UserSpec("producer", "unpaced", 3)
    parts = [part_of_load((fast, unpaced), 10, shares([1, 3], worker, 2)) for worker in range(2)]
    assert parts == pytest.approx([0.5, 0.5])


def test_a_process_alone_has_everything() -> None:
    """If this fails, a run in one process is not the whole scenario."""
    assert list(islice(map(Share(count=3).operation, count()), 7)) == list(range(7))
    assert shares([4, 2], 0, 1) == [Share(0, 1, 4), Share(0, 1, 2)]
