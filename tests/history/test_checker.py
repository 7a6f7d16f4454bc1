"""Tests of the history checker: it passes clean histories, and finds each anomaly that is planted in one."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.history.checker import Anomaly, check
from tests.history.model import COMPACTED, Model
from tests.history.operations import (
    Assign,
    Compact,
    Delete,
    Fate,
    Operation,
    Outcome,
    Poll,
    Read,
    Send,
    Transaction,
    Unclean,
)

History = list[Operation]
PLACE = ("t", 0)
seeds = st.integers(0, 1 << 32)


@given(seed=seeds, steps=st.integers(0, 150))
@settings(max_examples=150)
def test_clean_histories_pass(seed: int, steps: int) -> None:
    """If this fails, the checker reports anomalies of a correct broker."""
    assert check(Model(seed).history(steps)) == []


# ---- planting: each takes a clean history and returns one with the anomaly, or None if it has no place for it ----


def _levels(history: History) -> dict[str, bool]:
    return {each.consumer: each.committed for each in history if isinstance(each, Assign)}


def _reads(history: History, committed: bool) -> list[Read]:
    levels = _levels(history)
    return [
        read
        for each in history
        if isinstance(each, Poll) and levels[each.consumer] is committed
        for read in each.records
    ]


def _change_polls(history: History, change: Callable[[Poll], Poll]) -> History:
    return [change(each) if isinstance(each, Poll) else each for each in history]


def _without(history: History, value: str) -> History:
    """The history as if no poll had returned this value."""
    return _change_polls(
        history, lambda poll: replace(poll, records=tuple(read for read in poll.records if read.value != value))
    )


def _superseded(history: History, record: Send | Read) -> bool:
    """Whether compaction may have removed the record."""
    if record.place != COMPACTED:
        return False
    sends = [each for each in history if isinstance(each, Send) and each.place == COMPACTED]
    key = next(each.key for each in sends if each.value == record.value)
    return any(each.key == key and each.value != record.value for each in sends)


def _kept(history: History, record: Send | Read) -> bool:
    """Whether the record must still exist: neither deleted nor superseded."""
    if _superseded(history, record):
        return False
    ends = [each.offset for each in history if isinstance(each, Delete) and each.place == record.place]
    return record.offset is not None and all(record.offset >= end for end in ends)


def _acked(history: History, rng: random.Random, *, last: bool) -> Send | None:
    """An acknowledged record without a transaction that is, or is not, the last one read in its partition."""
    reads = _reads(history, True)
    found = []
    for send in history:
        if isinstance(send, Send) and _kept(history, send) and send.transaction is None:
            behind = any(read.place == send.place and read.offset > (send.offset or 0) for read in reads)
            if behind is not last:
                found.append(send)
    return rng.choice(found) if found else None


def lost_write(history: History, rng: random.Random) -> History | None:
    send = _acked(history, rng, last=False)
    return _without(history, send.value) if send else None


def unseen(history: History, rng: random.Random) -> History | None:
    send = _acked(history, rng, last=True)
    if send is None or any(r.place == send.place and r.offset > (send.offset or 0) for r in _reads(history, False)):
        return None
    return _without(history, send.value)


def _last_poll(history: History, rng: random.Random, least: int) -> Poll | None:
    """A random poll with at least this many records of one partition."""
    found = []
    for each in history:
        if isinstance(each, Poll):
            places = [read.place for read in each.records]
            if any(places.count(place) >= least for place in places):
                found.append(each)
    return rng.choice(found) if found else None


def _of_one_place(poll: Poll, least: int) -> list[int]:
    """The indexes of the records of the first partition that has enough of them."""
    for place in {read.place for read in poll.records}:
        found = [at for at, read in enumerate(poll.records) if read.place == place]
        if len(found) >= least:
            return found
    raise AssertionError("no such partition")


def _replaced(history: History, old: Poll, records: tuple[Read, ...]) -> History:
    return [replace(old, records=records) if each is old else each for each in history]


def duplicate(history: History, rng: random.Random) -> History | None:
    poll = _last_poll(history, rng, 1)
    if poll is None:
        return None
    again = poll.records[-1]
    # At an offset that no other record has.
    copy = replace(again, offset=1_000_000)
    return _replaced(history, poll, (*poll.records, copy))


def inconsistent_offsets(history: History, rng: random.Random) -> History | None:
    poll = _last_poll(history, rng, 2)
    if poll is None:
        return None
    one, other = _of_one_place(poll, 2)[:2]
    if not _kept(history, poll.records[one]):
        return None  # compaction may have removed it, and nothing else shows which value its offset had
    records = list(poll.records)
    records[one] = replace(records[one], value=records[other].value)
    return _replaced(history, poll, tuple(records))


def poll_skip(history: History, rng: random.Random) -> History | None:
    """One poll omits the second of three records."""
    poll = _last_poll(history, rng, 3)
    if poll is None:
        return None
    gone = _of_one_place(poll, 3)[1]
    if not _kept(history, poll.records[gone]):
        return None
    return _replaced(history, poll, poll.records[:gone] + poll.records[gone + 1 :])


def nonmonotonic_poll(history: History, rng: random.Random) -> History | None:
    poll = _last_poll(history, rng, 2)
    if poll is None:
        return None
    one, other = _of_one_place(poll, 2)[:2]
    if not _kept(history, poll.records[one]):
        return None  # compaction may have removed it, and nothing else shows which value its offset had
    records = list(poll.records)
    records[one], records[other] = records[other], records[one]
    return _replaced(history, poll, tuple(records))


def _read_transactions(history: History) -> list[Transaction]:
    sends = {each.value: each for each in history if isinstance(each, Send)}
    seen = {sends[read.value].transaction for read in _reads(history, True)}
    return [each for each in history if isinstance(each, Transaction) and each.name in seen]


def aborted_read(history: History, rng: random.Random) -> History | None:
    """The owner of a transaction that was read received the response that it is aborted."""
    found = _read_transactions(history)
    if not found:
        return None
    one = rng.choice(found)
    return [replace(one, outcome=Outcome.ABORTED) if each is one else each for each in history]


def precommitted_read(history: History, rng: random.Random) -> History | None:
    """The commit was requested after all polls."""
    found = _read_transactions(history)
    if not found:
        return None
    one = rng.choice(found)
    return [replace(one, commit_began=1 << 40) if each is one else each for each in history]


def part_of_a_transaction(history: History, rng: random.Random) -> History | None:
    """In a transaction with an unreported outcome, one record was read and another was not."""
    sends = {each.value: each for each in history if isinstance(each, Send)}
    reads = _reads(history, True)
    last = {read.place: max(other.offset for other in reads if other.place == read.place) for read in reads}
    unknown = {t.name for t in _read_transactions(history) if t.outcome is Outcome.UNKNOWN}
    values = {
        read.value for read in reads if sends[read.value].transaction in unknown and _kept(history, sends[read.value])
    }
    for value in sorted(values):
        send = sends[value]
        if any(sends[v].transaction == send.transaction for v in values - {value}) and send.offset != last[send.place]:
            return _without(history, value)
    return None


PLANTERS = [
    (lost_write, Anomaly.LOST_WRITE),
    (part_of_a_transaction, Anomaly.LOST_WRITE),
    (duplicate, Anomaly.DUPLICATE),
    (aborted_read, Anomaly.ABORTED_READ),
    (inconsistent_offsets, Anomaly.INCONSISTENT_OFFSETS),
    (poll_skip, Anomaly.POLL_SKIP),
    (nonmonotonic_poll, Anomaly.NONMONOTONIC_POLL),
    (unseen, Anomaly.UNSEEN),
    (precommitted_read, Anomaly.PRECOMMITTED_READ),
]


@pytest.mark.parametrize(("plant", "anomaly"), PLANTERS, ids=lambda each: getattr(each, "__name__", None))
@given(seed=seeds)
# Not every history has a place for an anomaly.
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_planted_anomaly_is_found(
    plant: Callable[[History, random.Random], History | None], anomaly: Anomaly, seed: int
) -> None:
    """If this fails, the broker may have this defect, and every run with the checker passes."""
    planted = plant(Model(seed).history(120), random.Random(seed))
    assume(planted is not None)
    assert planted is not None
    assert anomaly in {finding.anomaly for finding in check(planted)}


def test_compaction_leaves_the_newest_record_of_a_key() -> None:
    """If this fails, the checker lets compaction remove any record, or reports every record that it removes."""
    keys = ("a", "b", "a")
    sends: History = [Send(f"v{offset}", PLACE, Fate.ACKED, offset, None, key) for offset, key in enumerate(keys)]
    read = {gone: tuple(_read(offset) for offset in range(3) if offset != gone) for gone in range(3)}
    for compacted in (True, False):
        for gone, anomaly in ((0, Anomaly.LOST_WRITE), (1, Anomaly.LOST_WRITE), (2, Anomaly.UNSEEN)):
            history = [*sends, Assign("c", False, {PLACE: 0}), Poll("c", 10, read[gone])]
            found = _anomalies([Compact(PLACE), *history] if compacted else history)
            assert (anomaly in found) is not (compacted and gone == 0)
            assert bool(found) is not (compacted and gone == 0)
    # A newer record that was refused or aborted does not supersede it.
    newer = [Send("n", PLACE, Fate.REFUSED, None, None, "a"), Send("n", PLACE, Fate.ACKED, 3, "T", "a")]
    aborted = Transaction("T", Outcome.ABORTED, None)
    for each in newer:
        history = [
            Compact(PLACE),
            aborted,
            *sends[:2],
            each,
            Assign("c", False, {PLACE: 0}),
            Poll("c", 10, (_read(1),)),
        ]
        assert _anomalies(history) & {Anomaly.LOST_WRITE, Anomaly.UNSEEN}


def test_what_was_refused_must_not_be_read() -> None:
    """If this fails, a program that received an error and resends its record stores it twice."""
    history: History = []
    for each in Model(1).history(60):
        if isinstance(each, Send) and each.transaction is None and each.offset == 0:
            each = replace(each, fate=Fate.REFUSED, offset=None)
        history.append(each)
    assert {finding.anomaly for finding in check(history)} == {Anomaly.ABORTED_READ}


def _three(*between: Operation) -> History:
    """Three records that two consumers read to the end, with the given operations before those polls."""
    sends: History = [Send(f"v{offset}", PLACE, Fate.ACKED, offset) for offset in range(3)]
    last: History = []
    for level in (False, True):
        last.append(Assign(f"last{level}", level, {PLACE: 0}))
        last.append(Poll(f"last{level}", 90, tuple(_read(offset) for offset in range(3))))
    return [*sends, *between, *last]


def _read(offset: int) -> Read:
    return Read(PLACE, offset, f"v{offset}")


def _anomalies(history: History) -> set[Anomaly]:
    return {finding.anomaly for finding in check(history)}


def test_what_may_be_deleted_may_be_gone_over() -> None:
    """If this fails, every DeleteRecords is reported as a loss, or conceals a loss after the deleted records."""
    over: History = [Assign("c", True, {PLACE: 0}), Poll("c", 10, (_read(2),))]
    assert _anomalies(_three(Delete(PLACE, 2, 5), *over)) == set()
    assert _anomalies(_three(Delete(PLACE, 1, 5), *over)) == {Anomaly.POLL_SKIP}
    # The deletion was requested after the poll.
    assert _anomalies(_three(*over, Delete(PLACE, 2, 11))) == {Anomaly.POLL_SKIP}
    gone: History = [Send("v0", PLACE, Fate.ACKED, 0), Send("v1", PLACE, Fate.ACKED, 1)]
    gone += [Assign("c", True, {PLACE: 0}), Poll("c", 10, (_read(1),))]
    assert _anomalies([Delete(PLACE, 1, 5), *gone]) == set()
    assert _anomalies(gone) == {Anomaly.LOST_WRITE, Anomaly.POLL_SKIP}


def test_unclean_elections_lose_records_and_keep_none_twice() -> None:
    """If this fails, every unclean election is reported as a loss, or conceals duplicated records."""
    elected = Unclean(PLACE, 50)
    before: History = [Assign("c", False, {PLACE: 0}), Poll("c", 10, (_read(0), _read(1)))]
    before += [Send(f"v{offset}", PLACE, Fate.ACKED, offset) for offset in range(3)]
    last = Assign("last", False, {PLACE: 0})

    def read(*values: str) -> Poll:
        return Poll("last", 90, tuple(Read(PLACE, offset, value) for offset, value in enumerate(values)))

    # v1 was written again, where v0 had been, and v2 is lost.
    assert _anomalies([elected, *before, last, read("v1")]) == set()
    assert _anomalies([*before, last, read("v1")]) >= {Anomaly.INCONSISTENT_OFFSETS, Anomaly.DUPLICATE}
    assert _anomalies([elected, *before, last, read("v1", "v2", "v1")]) == {Anomaly.DUPLICATE}
    refused: History = [*before[:-1], Send("v2", PLACE, Fate.REFUSED)]
    assert _anomalies([elected, *refused, last, read("v2")]) == {Anomaly.ABORTED_READ}


def test_only_a_rebalance_lets_a_member_go_back() -> None:
    """If this fails, normal rebalances are reported, or anomalies of group members are not."""
    member: History = [Assign("m", True, {PLACE: None}), Poll("m", 10, (_read(1),))]
    again = Poll("m", 20, (_read(1), _read(2)))
    assert _anomalies(_three(*member, Assign("m", True, {}), Assign("m", True, {PLACE: None}), again)) == set()
    assert _anomalies(_three(*member, again)) == {Anomaly.NONMONOTONIC_POLL}
    first: History = [Assign("m", True, {PLACE: None}), Poll("m", 10, (_read(0),))]
    assert _anomalies(_three(*first, Poll("m", 20, (_read(2),)))) == {Anomaly.POLL_SKIP}


def test_a_record_whose_offset_has_another_value_is_lost() -> None:
    """If this fails, a last record that was overwritten counts as one that was not read yet."""
    history = _three()
    history.append(Send("other", PLACE, Fate.ACKED, 2))
    assert _anomalies(history) == {Anomaly.LOST_WRITE, Anomaly.INCONSISTENT_OFFSETS}
