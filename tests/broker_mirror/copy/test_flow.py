"""Steps of the copy machine, beside its simulation (tests/sim/test_mirror_copy_simulation.py)."""

from __future__ import annotations

from dataclasses import dataclass

from broker_mirror.copy.actions import Announce, Begin, End, Produce, Stage, Write
from broker_mirror.copy.fetching import FETCH_BYTES_MAX, FetchSettings
from broker_mirror.copy.flow import TRANSACTION_MS, CopyMachine
from broker_mirror.copy.partition import Key
from broker_mirror.formats.offset_syncs import OffsetSync

KEY: Key = ("t", 0)
REMOTE: Key = ("A.t", 0)


@dataclass(frozen=True, slots=True)
class Piece:
    """A batch of `count` records."""

    first: int
    count: int
    size_bytes: int = 100
    max_timestamp: int = 0

    @property
    def last(self) -> int:
        return self.first + self.count - 1

    @property
    def next_offset(self) -> int:
        return self.first + self.count

    @property
    def runs(self) -> tuple[tuple[int, int, int], ...]:
        return ((self.first, 0, self.count),)


def opened(*, lag_max: int = 100, syncs_in_target: bool = False) -> CopyMachine:
    """A machine without transactions that copies from offset 0."""
    machine = CopyMachine(
        transactional=False, syncs_in_target=syncs_in_target, flush_interval_ms=1_000, lag_max=lag_max
    )
    machine.assign({KEY: REMOTE})
    machine.step(0)
    machine.initialized((5, 0))
    machine.step(0)
    machine.loaded({KEY: 0}, {}, 0)
    return machine


def copy(machine: CopyMachine, first: int, count: int, at: int, now_ms: int) -> list[OffsetSync]:
    """Copy records to the offset `at` of the target; return the syncs that are announced then."""
    assert machine.fetched(KEY, first, [Piece(first, count)], first + count, first + count)
    (action,) = machine.step(now_ms)
    assert isinstance(action, Produce)
    machine.stored(action, at)
    return [sync for each in machine.step(now_ms) if isinstance(each, Announce) for sync in each.syncs]


def stage_of(machine: CopyMachine) -> Stage:
    return machine.stage


def test_syncs_without_transactions_follow_the_lag() -> None:
    """If this fails, the syncs of such a flow are as old as its committed offsets, or there is one for each batch."""
    for in_target in (False, True):
        machine = opened(syncs_in_target=in_target)
        assert copy(machine, 0, 10, 0, 1) == [OffsetSync("t", 0, 9, 9, 10)]
        assert copy(machine, 10, 50, 10, 2) == []
        assert copy(machine, 60, 60, 60, 3) == [OffsetSync("t", 0, 119, 119, 120)]
        assert copy(machine, 120, 5, 120, 4) == []
        # The one that waits is written with the committed offsets.
        (write,) = machine.step(2_000)
        assert write == Write({KEY: 125}, ())
        machine.written()
        assert machine.step(2_000) == [Announce((OffsetSync("t", 0, 124, 124, 125),))]


def test_offset_lag_max_is_a_setting() -> None:
    """If this fails, offset.lag.max has no effect."""
    machine = opened(lag_max=0)
    assert len(copy(machine, 0, 1, 0, 1)) == len(copy(machine, 1, 1, 1, 2)) == 1


def test_records_that_transforms_leave_out_are_committed() -> None:
    """If this fails, a flow that starts again filters all records once more, and they count as its lag."""
    machine = opened()
    assert machine.fetched(KEY, 0, [], 10, 10, 8)
    assert machine.step(1) == []
    assert machine.partitions[KEY].committed == 0
    assert machine.step(2_000) == [Write({KEY: 10}, ())]
    machine.written()
    assert machine.partitions[KEY].committed == 10
    # Markers need no commit.
    assert machine.fetched(KEY, 10, [], 12, 12)
    assert machine.step(4_000) == []
    assert machine.partitions[KEY].committed == 12


def test_a_transaction_may_have_left_out_records_only() -> None:
    """If this fails, a flow whose transforms leave out all records of a topic does not note how far it has come."""
    machine = CopyMachine(transactional=True, syncs_in_target=True)
    machine.assign({KEY: REMOTE})
    machine.step(0)
    machine.initialized((5, 0))
    machine.step(0)
    machine.loaded({KEY: 0}, {}, 0)
    assert machine.fetched(KEY, 0, [], 10, 10, 8)
    assert machine.step(1) == [Begin()]
    machine.began((5, 0), 1)
    assert machine.fetched(KEY, 10, [], 20, 20, 20)
    assert machine.step(1 + TRANSACTION_MS) == [Write({KEY: 20}, ())]
    machine.written()
    assert machine.step(50) == [End(commit=True)]
    machine.ended(commit=True)
    assert machine.step(51) == []
    assert machine.partitions[KEY].committed == 20


def test_left_out_records_wait_for_the_batch_before_them() -> None:
    """If this fails, a record is lost whose batch had no answer when the flow failed."""
    machine = opened()
    assert machine.fetched(KEY, 0, [Piece(0, 3)], 3, 6)
    (action,) = machine.step(1)
    assert isinstance(action, Produce)
    assert machine.fetched(KEY, 3, [], 6, 6, 6)
    assert machine.partitions[KEY].reached == 0
    machine.stored(action, 0)
    assert machine.partitions[KEY].reached == 6


def test_a_partition_begins_again_after_its_last_commit() -> None:
    """If this fails, records of a topic that was created again are lost, or its old ones are."""
    machine = opened()
    assert machine.fetched(KEY, 0, [Piece(0, 3)], 3, 3)
    assert machine.begin_again([KEY])
    assert not machine.begin_again([KEY])
    (action,) = machine.step(1)
    assert isinstance(action, Produce)
    assert stage_of(machine) is Stage.OPEN
    machine.stored(action, 0)
    assert machine.step(2) == [Announce((OffsetSync("t", 0, 2, 2, 3),))]
    (write,) = machine.step(2_000)
    assert write == Write({KEY: 3}, ())
    machine.written()
    machine.step(2_001)
    assert machine.step(2_002) == []
    assert stage_of(machine) is Stage.LOADING
    machine.loaded({KEY: 0}, {}, 2_003)
    assert machine.fetches(2_004, [KEY]) == {KEY: 0}
    # A leader would take the same sequence for a batch that it has.
    assert machine.fetched(KEY, 0, [Piece(0, 3)], 3, 3)
    (action,) = machine.step(2_005)
    assert isinstance(action, Produce)
    assert action.sequence == 3


def test_a_partition_that_comes_back_continues_its_sequences() -> None:
    """If this fails, a leader takes new batches for old ones, and the records are lost."""
    machine = opened()
    copy(machine, 0, 5, 0, 1)
    machine.assign({})
    machine.step(2)
    machine.written()
    machine.step(3)
    assert machine.partitions == {}
    machine.loaded({}, {}, 4)
    machine.assign({KEY: REMOTE})
    machine.step(5)
    machine.loaded({KEY: 5}, {}, 6)
    assert machine.fetched(KEY, 5, [Piece(5, 5)], 10, 10)
    (action,) = machine.step(7)
    assert isinstance(action, Produce)
    assert action.sequence == 5


def test_a_fetch_has_at_most_the_bytes_of_a_second() -> None:
    """If this fails, a slow flow copies in bursts of megabytes."""
    values = {
        "fetch.max.bytes": 50 << 20,
        "max.partition.fetch.bytes": 1 << 20,
        "fetch.min.bytes": 1,
        "fetch.max.wait.ms": 500,
        "client.rack": None,
    }
    assert FetchSettings.of(values, None).bytes_max == FETCH_BYTES_MAX
    slow = FetchSettings.of(values, 70_000)
    assert (slow.bytes_max, slow.partition_bytes_max, slow.rate) == (70_000, 70_000, 70_000)
