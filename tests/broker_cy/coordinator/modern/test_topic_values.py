"""Looks at all topics of a member, compared with what they say in Python."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest

from broker_cy.coordinator.modern import topic_values
from broker_cy.wire import codec, messages

TOPICS = 12
ROUNDS = 60
Held = dict[UUID, Mapping[int, int]]


class Drawn:
    """Topics of a member. Values are few objects, and some are equal. Ids come from the wire, or from a constructor."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.topics = [UUID(int=self.draw.getrandbits(128)) for _ in range(TOPICS)]
        if seed % 2:
            self.topics = [_from_wire(each) for each in self.topics]
        self.values: list[Mapping[int, int]] = [{0: 5}, {0: 5}, {0: 7}, {0: 5, 1: 5}, {1: 6}]

    def held(self) -> Held:
        topics = self.draw.sample(self.topics, self.draw.randint(0, TOPICS))
        if self.draw.random() < 0.5:
            topics.sort()
        return {topic_id: self.draw.choice(self.values) for topic_id in topics}

    def changed(self, held: Held) -> Held:
        """Other topics of a member, often most of the same ones."""
        if self.draw.random() < 0.2:
            return self.held()
        share = self.draw.choice([0.0, 0.0, 0.1, 0.5])
        found = {topic_id: value for topic_id, value in held.items() if self.draw.random() >= share}
        if self.draw.random() < 0.5:
            others = self.values if self.draw.random() < 0.5 else []
            known = {id(value): self.draw.choice([value, {**value}, *others]) for value in self.values}
            found = {topic_id: known[id(value)] for topic_id, value in found.items()}
        if self.draw.random() < 0.5:
            found.update({topic_id: value for topic_id, value in self.held().items() if topic_id not in held})
        return found


def _from_wire(topic_id: UUID) -> UUID:
    record = messages.TopicRecord(name="t", topic_id=topic_id)
    return codec.decode(messages.TopicRecord, 0, codec.encode(record, 0)).topic_id


def is_entry(held: Held, topic_id: UUID, value: object) -> bool:
    return held.get(topic_id) is value


@pytest.mark.parametrize("seed", range(4))
def test_ids_in_order(seed: int) -> None:
    """If this fails, records list topics in another order on each node, and a page of them stands at a wrong place."""
    drawn = Drawn(seed)
    for _ in range(ROUNDS):
        ids = list(drawn.held())
        found = topic_values.in_order(dict.fromkeys(ids))
        assert [each.int for each in found] == sorted(each.int for each in ids)
        assert sorted(map(id, found)) == sorted(map(id, ids))


@pytest.mark.parametrize("other", [7, None, "id"])
def test_something_else_has_no_order(other: Any) -> None:
    """If this fails, a defect of the caller reads memory beside an object."""
    with pytest.raises(TypeError, match=r"a uuid\.UUID is expected"):
        topic_values.in_order([UUID(int=1), other])


@pytest.mark.parametrize("seed", range(4))
def test_each_value_is_made_once(seed: int) -> None:
    """If this fails, topics get the partitions of others, or encoding 10,000 topics holds producers up."""
    drawn = Drawn(seed)
    for _ in range(ROUNDS):
        values = list(drawn.held().values())
        asked: list[Mapping[int, int]] = []

        def make(value: Mapping[int, int], asked: list[Mapping[int, int]] = asked) -> list[int] | None:
            asked.append(value)
            return sorted(value) if len(value) > 1 else None

        found = topic_values.of_each(iter(values), make)
        assert found == [sorted(value) if len(value) > 1 else None for value in values]
        assert len(asked) == len(set(map(id, values)))
        lists: dict[int, set[int]] = {}
        for value, made in zip(values, found, strict=True):
            lists.setdefault(id(value), set()).add(id(made))
        assert all(len(each) == 1 for each in lists.values())


@pytest.mark.parametrize("seed", range(8))
def test_topics_that_were_added(seed: int) -> None:
    """If this fails, a member that gets its topics in pages seems to lose or to keep others."""
    drawn = Drawn(seed)
    several = 0
    for _ in range(ROUNDS):
        before = drawn.held()
        after = drawn.changed(before)
        keys, entries = list(before), list(after.items())
        first = entries[: len(before)]
        is_begin = [key for key, _ in first] == keys and all(is_entry(before, *entry) for entry in first)
        found = topic_values.added_to(before, after)
        assert found == (entries[len(before) :] if is_begin and len(after) >= len(before) else None)
        several += bool(found and before)
    assert several


@pytest.mark.parametrize("seed", range(8))
def test_topics_with_other_epochs(seed: int) -> None:
    """If this fails, partitions of a static member that leaves for a while have another owner, or none."""
    drawn = Drawn(seed)
    several = 0
    for _ in range(ROUNDS):
        before = drawn.held()
        after = drawn.changed(before)
        pairs = {(id(old), id(new)) for old, new in zip(before.values(), after.values(), strict=False)}
        expected = (
            list(before) == list(after)
            and len(pairs) == len({old for old, _ in pairs})
            and all(before[each].keys() == after[each].keys() for each in after)
        )
        assert topic_values.has_other_epochs(before, after) is expected
        several += expected and any(before[each] is not after[each] for each in after)
    assert several


@pytest.mark.parametrize("seed", range(8))
def test_topics_with_other_values(seed: int) -> None:
    """If this fails, a rebalance counts partitions that have not moved, or a partition keeps an owner that has left."""
    drawn = Drawn(seed)
    for _ in range(ROUNDS):
        held = drawn.held()
        others = drawn.changed(held)
        found, both = topic_values.other_values(held, others)
        expected = [topic_id for topic_id, value in held.items() if not is_entry(others, topic_id, value)]
        assert list(found) == expected
        assert all(is_entry(held, topic_id, value) for topic_id, value in found.items())
        assert both == [topic_id for topic_id in expected if topic_id in others]


@pytest.mark.parametrize("seed", range(4))
def test_counts(seed: int) -> None:
    """If this fails, a group misses the changes of a topic that another member still names."""
    draw = random.Random(seed)
    counts: dict[str, int] = {}
    expected: Counter[str] = Counter()
    for _ in range(ROUNDS):
        names = frozenset(draw.sample("abcdef", draw.randint(0, 6)))
        change = -1 if draw.random() < 0.5 and all(expected[name] for name in names) else 1
        topic_values.count(counts, names, change)
        for name in names:
            expected[name] += change
        assert counts == +expected


@pytest.mark.parametrize("seed", range(8))
def test_owners(seed: int) -> None:
    """If this fails, two members own a partition, or one that is free has an owner."""
    drawn = Drawn(seed)
    owners: dict[UUID, Mapping[int, str]] = {}
    expected: dict[tuple[UUID, int], str] = {}
    for _ in range(ROUNDS):
        member_id, held = drawn.draw.choice("AB"), drawn.held()
        before = {topic_id: (of, dict(of)) for topic_id, of in owners.items()}
        size = len(expected)
        places = [(topic_id, partition) for topic_id, value in held.items() for partition in value]
        if drawn.draw.random() < 0.5:
            added = topic_values.own(owners, member_id, held.items())
            expected.update(dict.fromkeys(places, member_id))
            assert added == len(expected) - size
        else:
            removed = topic_values.disown(owners, member_id, held)
            for place in places:
                if expected.get(place) == member_id:
                    del expected[place]
            assert removed == size - len(expected)
        assert {(topic_id, each): of for topic_id, found in owners.items() for each, of in found.items()} == expected
        assert all(owners.values())
        # A copy of the group has these values, too.
        assert all(known == copied for known, copied in before.values())


def test_owners_of_topics_that_have_one_value() -> None:
    """If this fails, the owners of 10,000 topics take 2 MB more, and each change of them holds producers up."""
    topics = [UUID(int=number) for number in range(TOPICS)]
    owners: dict[UUID, Mapping[int, str]] = {}
    values: dict[str, Mapping[int, int]] = {"A": {0: 5}, "B": {1: 5}}
    parts = {member_id: dict.fromkeys(topics, value) for member_id, value in values.items()}
    for member_id, part in parts.items():
        assert topic_values.own(owners, member_id, part.items()) == TOPICS
        assert len(set(map(id, owners.values()))) == 1
    assert topic_values.disown(owners, "A", parts["A"]) == TOPICS
    assert list(owners.values()) == [{1: "B"}] * TOPICS
    assert len(set(map(id, owners.values()))) == 1


@pytest.mark.parametrize("seed", range(4))
def test_topics_that_a_member_has_in_part(seed: int) -> None:
    """If this fails, a member never gets some partitions of its target."""
    drawn = Drawn(seed)
    for _ in range(ROUNDS):
        assigned = drawn.held()
        target = {topic_id: frozenset(value) for topic_id, value in drawn.changed(drawn.held()).items()}
        topic_ids, parts = topic_values.incomplete(target, assigned)
        assert list(zip(topic_ids, parts, strict=True)) == [
            (topic_id, partitions)
            for topic_id, partitions in target.items()
            if len(assigned.get(topic_id, ())) < len(partitions)
        ]


@pytest.mark.parametrize("seed", range(8))
def test_what_a_member_keeps(seed: int) -> None:
    """If this fails, a member goes on to read what it has to give up, or gives up what it is to keep."""
    drawn = Drawn(seed)
    for _ in range(ROUNDS):
        assigned = drawn.held()
        target = {topic_id: frozenset(value) for topic_id, value in drawn.changed(assigned).items()}
        kept, gone = topic_values.kept_of(assigned, target)
        places = {(topic_id, each, at) for topic_id, value in assigned.items() for each, at in value.items()}
        stays = {place for place in places if place[1] in target.get(place[0], ())}
        for found, expected in ((kept, stays), (gone, places - stays)):
            assert {(topic_id, each, at) for topic_id, value in found.items() for each, at in value.items()} == expected
            assert all(found.values())
            assert list(found) == [topic_id for topic_id in assigned if topic_id in found]
        assert all(kept[each] is assigned[each] for each in kept.keys() - gone.keys())
        assert all(gone[each] is assigned[each] for each in gone.keys() - kept.keys())


def test_topics_keep_values_in_common() -> None:
    """If this fails, a member that gives up a partition of each of 10,000 topics takes 5 MB more."""
    topics = [UUID(int=number) for number in range(TOPICS)]
    value: Mapping[int, int] = {0: 5, 1: 5}
    target = frozenset({1})
    kept, gone = topic_values.kept_of(dict.fromkeys(topics, value), dict.fromkeys(topics, target))
    assert (list(kept.values()), list(gone.values())) == ([{1: 5}] * TOPICS, [{0: 5}] * TOPICS)
    assert len(set(map(id, [*kept.values(), *gone.values()]))) == 2


@pytest.mark.parametrize("size", [0, 1, 2, 1_000])
def test_many_ids_in_order(size: int) -> None:
    """If this fails, the record of a member with 10,000 topics has some of them twice."""
    draw = random.Random(size)
    # Numbers that differ in their high half, in the low one, or in the sign bit of one.
    ids = [
        UUID(int=draw.choice([1, 1 << 63, 1 << 64, 1 << 127]) * draw.randint(0, 1) + number) for number in range(size)
    ]
    draw.shuffle(ids)
    found = topic_values.in_order(ids)
    assert [each.int for each in found] == sorted(each.int for each in ids)
    assert sorted(map(id, found)) == sorted(map(id, ids))
