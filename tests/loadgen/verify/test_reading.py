"""The comparison of the read records with the ledgers: it must find all planted faults, and nothing else."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.verify.ledger import ABORTED, ACKNOWLEDGED, REFUSED, UNKNOWN, Ledger, of_batches
from loadgen.verify.reading import Reading
from loadgen.verify.verification import Counts

TOPIC, PARTITION = "t", 3


@dataclass
class Log:
    """A sound log of some producers, and the faults planted in it."""

    records: list[tuple[int, int]]  # producer, sequence
    outcomes: dict[tuple[int, int], int]
    expected: dict[str, set[tuple[int, int]]] = field(default_factory=dict)

    def states(self) -> list[list[Any]]:
        ledger = Ledger()
        for producer, sequence in sorted(self.outcomes):
            track = ledger.track(producer, TOPIC, PARTITION)
            assert track.begin() == sequence
            if self.outcomes[producer, sequence] != UNKNOWN:
                track.settle(sequence, self.outcomes[producer, sequence])
        return ledger.state()

    def read(self) -> Reading:
        reading = Reading(TOPIC, PARTITION, self.states())
        for offset, (producer, sequence) in enumerate(self.records):
            reading.feed(100 + offset, producer, sequence)
        return reading


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Any interleaving of up to four producers, with losses, copies, reordering and outcomes planted anywhere."""
    source = random.Random(draw(st.integers(0, 1 << 30)))
    lengths = draw(st.lists(st.integers(1, 40), min_size=1, max_size=4))
    left = dict(enumerate(lengths))
    following = dict.fromkeys(left, 0)
    records = []
    while left:
        producer = source.choice(sorted(left))
        records.append((producer, following[producer]))
        following[producer] += 1
        left[producer] -= 1
        if not left[producer]:
            del left[producer]
    log = Log(records, dict.fromkeys(records, ACKNOWLEDGED))
    whole = sorted(records)
    some = st.lists(st.sampled_from(whole), unique=True, max_size=6)
    outcomes = draw(st.dictionaries(st.sampled_from(whole), st.sampled_from([REFUSED, UNKNOWN, ABORTED]), max_size=8))
    log.outcomes |= outcomes
    dropped = set(draw(some))
    log.records = [each for each in records if each not in dropped]
    log.expected["lost"] = {each for each in dropped if log.outcomes[each] == ACKNOWLEDGED}
    present = set(log.records)
    for name, outcome in (("unknown_present", UNKNOWN), ("refused_but_read", REFUSED), ("aborted_but_read", ABORTED)):
        log.expected[name] = {each for each in present if log.outcomes[each] == outcome}
    log.expected["unknown_absent"] = {each for each in dropped if log.outcomes[each] == UNKNOWN}
    # A record is delayed behind at least one later one of its producer.
    late = set()
    for each in draw(some):
        at = log.records.index(each) if each in present else -1
        behind = [i for i, (producer, _) in enumerate(log.records) if i > at and producer == each[0]]
        if at >= 0 and behind:
            log.records.insert(source.choice(behind), log.records.pop(at))
    highest: dict[int, int] = {}
    for producer, sequence in log.records:
        if sequence < highest.get(producer, -1):
            late.add((producer, sequence))
        highest[producer] = max(sequence, highest.get(producer, -1))
    # A request of a closed connection may arrive after one of the next connection: it was given up.
    log.expected["reordered"] = {each for each in late if log.outcomes[each] != UNKNOWN}
    copied = [each for each in draw(some) if each in present]
    for each in copied:
        log.records.insert(source.randint(log.records.index(each) + 1, len(log.records)), each)
    log.expected["duplicated"] = set(copied)
    return log


@given(logs())
def test_all_that_is_planted_is_found_and_nothing_else(log: Log) -> None:
    """If this fails, a run reports a loss, copy or reordering that did not happen, or misses one that did."""
    reading = log.read()
    counts = reading.verdict()
    found = {name: getattr(counts, name) for name in log.expected}
    assert found == {name: len(those) for name, those in log.expected.items()}
    assert counts.sent == len(log.outcomes)
    assert counts.acknowledged == sum(each == ACKNOWLEDGED for each in log.outcomes.values())
    assert counts.read == len(log.records)
    assert (counts.unclaimed, counts.foreign, counts.not_checkable) == (0, 0, 0)
    for name, examples in reading.examples.items():
        assert {(each.producer, each.sequence) for each in examples} <= log.expected[name]
        for each in examples:
            if each.offset is not None:
                assert log.records[each.offset - 100] == (each.producer, each.sequence)


@given(logs(), st.integers(1, 7))
def test_runs_of_records_are_judged_as_single_ones(log: Log, longest: int) -> None:
    """If this fails, the findings depend on how producers happened to fill their batches."""
    reading = Reading(TOPIC, PARTITION, log.states())
    at = 0
    while at < len(log.records):
        count = 1
        producer, first = log.records[at]
        while count < longest and log.records[at + count : at + count + 1] == [(producer, first + count)]:
            count += 1
        reading.feed(100 + at, producer, first, count)
        at += count
    single = log.read()
    assert reading.verdict() == single.verdict()
    assert reading.examples == single.examples


def test_what_retention_removed_is_not_lost() -> None:
    """If this fails, a long run on a topic with retention reports losses, and hides those after the removed part."""
    states = [[0, TOPIC, PARTITION, 10, []], [1, TOPIC, PARTITION, 4, []], [2, TOPIC, PARTITION, 6, []]]
    reading = Reading(TOPIC, PARTITION, states)
    reading.feed(0, 2, 0, 2)
    reading.skip()
    reading.feed(20, 0, 3, 2)
    reading.feed(22, 2, 4, 2)
    reading.feed(24, 0, 7, 3)
    counts = reading.verdict()
    assert counts.not_checkable == 3 + 4 + 2
    assert counts.lost == 2
    assert [(each.producer, each.sequence) for each in reading.examples["lost"]] == [(0, 5), (0, 6)]


def test_aborted_records_of_an_open_transaction_are_no_error() -> None:
    """If this fails, a hanging transaction makes correct data look wrong."""
    states = [[0, TOPIC, PARTITION, 4, [[1, 2, ABORTED]]]]
    reading = Reading(TOPIC, PARTITION, states)
    reading.feed(0, 0, 0, 2)
    reading.undecided()
    reading.feed(2, 0, 2, 2)
    assert reading.verdict() == Counts(sent=4, acknowledged=2, read=4, aborted_but_read=1)


def test_records_of_a_worker_that_died_are_counted_apart() -> None:
    """If this fails, a worker that dies during a run makes the cluster look wrong."""
    reading = Reading(TOPIC, PARTITION, [[0, TOPIC, PARTITION, 2, []], [5, TOPIC, PARTITION + 1, 1, []]])
    reading.feed(0, 0, 0, 4)
    reading.feed(4, 0, 9)
    reading.feed(5, 7, 0, 3)
    counts = reading.verdict()
    assert (counts.unclaimed, counts.defects, counts.read) == (6, 0, 8)


def test_sequences_of_batches_count_on_after_the_highest_int32() -> None:
    """If this fails, a producer of more than two billion records seems to have lost and repeated records."""
    first, wrap = (1 << 31) - 10, 1 << 31
    reading = Reading(TOPIC, PARTITION, [[of_batches(4), TOPIC, PARTITION, wrap + 20, []]])
    reading.feed(0, of_batches(4), 0, first)
    reading.feed_batch(first, of_batches(4), first, 10)
    reading.feed_batch(wrap, of_batches(4), 0, 10)
    reading.feed_batch(wrap + 10, of_batches(4), first, 10)  # a copy from before
    reading.feed_batch(wrap + 20, of_batches(4), 10, 10)
    counts = reading.verdict()
    assert (counts.lost, counts.duplicated, counts.reordered) == (0, 10, 0)
    assert reading.examples["duplicated"][0].by_batches


@pytest.mark.parametrize(
    "states",
    [
        [[0, TOPIC, PARTITION, 2, []], [0, TOPIC, PARTITION, 2, []]],
        [[0, TOPIC, PARTITION, 2, [[1, 2, UNKNOWN]]]],
    ],
)
def test_ledgers_that_contradict_each_other_are_refused(states: list[list[Any]]) -> None:
    """If this fails, two workers with the same producer number hide each other's losses."""
    with pytest.raises(ValueError, match="producer 0"):
        Reading(TOPIC, PARTITION, states)
