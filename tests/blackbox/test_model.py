"""Tests of the comparison with the model: it accepts correct contents and finds each kind of damage."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.blackbox.acts import Create, Delete, Plan
from tests.blackbox.model import (
    End,
    Fate,
    Found,
    Partition,
    Reading,
    Sent,
    Topic,
    Transaction,
    check,
    restarted,
    settle,
    stopped,
)

COUNT = 30


def topic_of(*, compacted: bool = False) -> tuple[Topic, list[Found]]:
    """Return a partition with a trimmed start, a record of each fate, a committed and an aborted transaction, and its
    log.
    """
    committed, aborted = Transaction(End.COMMITTED), Transaction(End.ABORTED)
    topic = Topic([Partition(5, 5)], compacted, [committed, aborted])
    log = []
    for offset in range(COUNT):
        transaction = {20: committed, 21: committed, 24: aborted, 25: aborted}.get(offset)
        if offset in (22, 26):
            continue  # their markers
        sent = Sent(f"r{offset}", b"k%d" % (offset % 4), b"v", 1, offset, transaction, Fate.ACKED, offset)
        topic.partitions[0].sent[sent.id] = sent
        log.append(Found(sent.id, offset, sent.key, sent.value))
    for name, fate in (("refused", Fate.REFUSED), ("unknown", Fate.UNKNOWN)):
        topic.partitions[0].sent[name] = Sent(name, b"k0", b"v", 2, 0, None, fate)
    return topic, [found for found in log if found.offset >= 5]


def reading(records: list[Found], *, committed: bool, start: int = 5) -> Reading:
    if committed:
        records = [found for found in records if found.offset not in (24, 25)]
    return Reading(committed, start, COUNT, records)


def findings(topic: Topic, records: list[Found], start: int = 5) -> list[str]:
    both = [reading(records, committed=committed, start=start) for committed in (False, True)]
    wrong = settle(topic, [(0, each) for each in both])
    return wrong + [each for one in both for each in check(topic, 0, one)]


def test_what_is_right_passes() -> None:
    """If this fails, a correct broker fails the test."""
    topic, log = topic_of()
    assert findings(topic, log) == []
    topic, log = topic_of(compacted=True)
    newest = {found.key: found for found in log if found.offset not in (24, 25)}
    assert findings(topic, sorted(newest.values(), key=lambda found: found.offset)) == []


def test_a_record_without_an_answer_may_be_there_and_then_stays() -> None:
    """If this fails, each lost response is reported as a loss, or hides one."""
    topic, log = topic_of()
    assert findings(topic, [*log, Found("unknown", COUNT, b"k0", b"v")]) == []
    assert any("unknown at 30" in each for each in findings(topic, log))
    topic, log = topic_of()
    assert findings(topic, log) == []
    assert any("refused" in each for each in findings(topic, [*log, Found("unknown", COUNT, b"k0", b"v")]))


DAMAGES: dict[str, Callable[[list[Found]], list[Found]]] = {
    "lost": lambda log: log[:3] + log[4:],
    "the end lost": lambda log: log[:-1],
    "twice": lambda log: [*log, replace(log[2], offset=COUNT)],
    "another offset": lambda log: [*log[:-1], replace(log[-1], offset=COUNT)],
    "another value": lambda log: [*log[:-1], replace(log[-1], value=b"w")],
    "another key": lambda log: [*log[:-1], replace(log[-1], key=b"w")],
    "another order": lambda log: [*log[:-2], log[-1], log[-2]],
    "refused": lambda log: [*log, Found("refused", COUNT, b"k0", b"v")],
    "of another topic": lambda log: [*log, Found("other", COUNT, b"k0", b"v")],
    "deleted": lambda log: [Found("r4", 4, b"k0", b"v"), *log],
    "aborted and gone": lambda log: [found for found in log if found.offset != 24],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found(damage: str) -> None:
    """If this fails, the broker may have this defect, and every run against it passes."""
    topic, log = topic_of()
    assert findings(topic, DAMAGES[damage](log)) != []


def test_aborted_records_are_found() -> None:
    """If this fails, consumers of committed records act on records that were never committed."""
    topic, log = topic_of()
    assert check(topic, 0, Reading(True, 5, COUNT, log)) != []


def test_another_log_start_is_found() -> None:
    """If this fails, records that DeleteRecords removed come back, or other records are removed."""
    for start in (0, 4, 6):
        topic, log = topic_of()
        assert findings(topic, log, start) != []


def test_a_kill_may_take_a_deletion_back() -> None:
    """If this fails, a loss within docs/architecture-durability.md is reported, or one after a clean stop is not."""
    for settled, start, wrong in ((0, 5, False), (5, 5, False), (0, 7, False), (6, 7, True), (0, 4, True)):
        topic, log = topic_of()
        topic.partitions[0].settled, topic.partitions[0].start = settled, start
        assert bool(findings(topic, log)) is wrong
    stopped(topic)
    assert topic.partitions[0].settled == topic.partitions[0].start
    restarted(topic, [(0, reading(log, committed=True))])
    assert (topic.partitions[0].settled, topic.partitions[0].start) == (5, 5)


def test_compaction_must_leave_the_newest() -> None:
    """If this fails, a table that is rebuilt from a compacted topic has old values, or deleted keys."""
    topic, log = topic_of(compacted=True)
    assert findings(topic, [found for found in log if found.offset != 29]) != []
    # A tombstone may be removed, and then the records that it deleted are also removed.
    topic, log = topic_of(compacted=True)
    topic.partitions[0].sent["r29"].value = None
    log = log[:-1]
    assert findings(topic, log) != []
    assert findings(topic, [found for found in log if found.key != b"k1"]) == []


def test_a_part_of_a_transaction_is_found() -> None:
    """If this fails, a part of a transaction is lost, and its owner, which got no response, cannot know it."""
    for gone, wrong in ((set(), False), ({20, 21}, False), ({20}, True)):
        topic, log = topic_of()
        topic.transactions[0].end = End.UNKNOWN
        found = [reading(log, committed=False)]
        found.append(reading([each for each in log if each.offset not in gone], committed=True))
        assert bool(settle(topic, [(0, each) for each in found])) is wrong
        assert topic.transactions[0].end is (End.ABORTED if len(gone) == 2 else End.COMMITTED)


def test_a_plan_is_a_function_of_its_seed() -> None:
    """If this fails, the command that a failure shows repeats other acts."""
    one, other = Plan(7), Plan(7)
    rounds = [one.round() for _ in range(50)]
    assert rounds == [other.round() for _ in range(50)]
    assert rounds != [Plan(8).round() for _ in range(50)]
    todo = [act for each in rounds for lane in each.lanes for act in lane]
    assert {type(act).__name__ for act in todo} == {
        *("Create", "Delete", "Trim", "Configure", "Grow", "Produce", "Transact", "Refuse")
    }
    existing: set[str] = set()
    for act in todo:
        assert (act.topic in existing) is not isinstance(act, Create)
        if isinstance(act, Create):
            existing.add(act.topic)
        elif isinstance(act, Delete):
            existing.remove(act.topic)


def test_damage_is_found_whatever_else_is_there() -> None:
    """If this fails, a loss is found only where the log is simple."""
    for seed in range(50):
        draw = random.Random(seed)
        topic, log = topic_of()
        log.pop(draw.randrange(len(log)))
        assert findings(topic, log) != []
