"""The records that groups have read, and those ahead of them."""

from __future__ import annotations

from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.records import Span
from broker_registry.impact.groups import Group, Named, Range, last_read, to_look_up, unseen
from broker_registry.impact.sample import newest

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)
# Offsets 10 to 20 are in the log, and 15 to 20 in the sample.
RANGES = {ONE: Range(15, 20, 10, 20)}
NAMED = {ONE: Named([15, 17], [1, 2])}


def test_records_ahead_that_were_not_tried_are_counted() -> None:
    """If this fails, a group that is far behind seems safe."""

    def count(committed: int) -> int:
        return unseen(Group("g", {ONE: committed}), RANGES)

    assert [count(each) for each in (0, 10, 12, 15, 18, 20, 99)] == [5, 5, 3, 0, 0, 0, 0]
    # The sample did not reach the end.
    assert unseen(Group("g", {ONE: 16}), {ONE: Range(15, 18, 10, 20)}) == 2
    assert unseen(Group("g", {TWO: 0}), RANGES) == 0


def test_the_schema_before_the_committed_offset_was_read() -> None:
    """If this fails, present readers are tried with a schema that they do not have."""

    def read(committed: int) -> tuple[object, ...]:
        return last_read(Group("g", {ONE: committed}), NAMED, {(ONE, 12): 7})

    assert [read(each) for each in (12, 13, 15, 16, 17, 18, 20)] == [(7,), (), (), (1,), (1,), (2,), (2,)]
    both = Group("g", {TWO: 5, ONE: 18})
    assert last_read(both, {**NAMED, TWO: Named([0], [2])}, {}) == (2,)


def test_places_before_the_sample_are_looked_up_once() -> None:
    """If this fails, many groups at one place cost a request each, or deleted records are asked for."""
    groups = [Group(name, {ONE: 12}) for name in "abc"] + [Group("d", {ONE: 18}), Group("e", {ONE: 10, TWO: 3})]
    assert to_look_up(groups, NAMED, RANGES) == [(ONE, 12)]


def test_the_newest_records_are_of_all_partitions() -> None:
    """If this fails, a trial reads more records than were asked for, or only those of one partition."""
    keys = [TopicPartition("t", index) for index in range(4)]
    spans = dict(zip(keys, [Span(0, 2, 0), Span(5, 105, 5), Span(0, 0, 0), Span(0, 1_000, 0)], strict=True))
    starts = newest(spans, 100)
    assert starts == dict(zip(keys, [0, 105 - 49, 0, 1_000 - 49], strict=True))
    assert newest(spans, 10_000) == dict(zip(keys, [0, 5, 0, 0], strict=True))
    assert sum(span.end - newest(spans, 3)[key] for key, span in spans.items()) == 3
