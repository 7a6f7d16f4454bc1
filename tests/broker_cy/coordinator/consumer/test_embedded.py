"""Partitions by topic name in subscriptions and assignments of the classic protocol."""

from __future__ import annotations

import random
from uuid import UUID

import pytest

from broker_cy.coordinator.consumer import embedded
from broker_cy.wire import codec, messages
from tests.broker_cy.coordinator.consumer_harness import Topics, topic_id

NAMES = [f"t{number}" for number in range(6)]
KNOWN = NAMES[:5]
ROUNDS = 40


def encoded(places: list[tuple[str, list[int]]]) -> bytes:
    kind = messages.ConsumerProtocolAssignment
    parts = [kind.TopicPartition(topic=name, partitions=partitions) for name, partitions in places]
    return codec.encode_versioned(kind(assigned_partitions=parts), 1)


@pytest.mark.parametrize("seed", range(4))
def test_the_partitions_of_an_assignment(seed: int) -> None:
    """If this fails, a member of a converted group has partitions that it does not read, or not those that it reads."""
    draw = random.Random(seed)
    image = Topics(**dict.fromkeys(KNOWN, 3)).image
    for _ in range(ROUNDS):
        # A topic may occur twice, be unknown, or have no partitions.
        names = draw.sample(NAMES, 3) if draw.random() < 0.5 else draw.choices(NAMES, k=4)
        places = [(name, draw.choice([[], [0], [1, 2], [0, 1]])) for name in names]
        expected: dict[UUID, frozenset[int]] = {}
        for name, partitions in places:
            if name in KNOWN and partitions:
                expected[topic_id(name)] = expected.get(topic_id(name), frozenset()) | frozenset(partitions)
        data = encoded(places)
        assert embedded.assignment_of(data, image.topics) == expected
        assert embedded.assigned_names(data) == names
        found = embedded.FoundTopics({topic.name: topic for topic in image.topics})
        assert embedded.assignment_of(data, found) == expected
        back = embedded.encode_assignment(expected, 1, image)
        assert embedded.assignment_of(back, image.topics) == expected


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x01\x00\x00\x00\x09"])
def test_an_assignment_that_cannot_be_read_names_nothing(data: bytes) -> None:
    """If this fails, a worker fails at a group with foreign metadata, and the group is never refused."""
    assert embedded.assigned_names(data) == []


def test_what_a_member_owns() -> None:
    """If this fails, a partition goes on to another member while its owner still reads it, or it never does."""
    image = Topics(a=3, b=1).image
    kind = messages.ConsumerProtocolSubscription
    places = [("unknown", [0]), ("b", []), ("a", [0, 2]), ("b", [0])]
    parts = [kind.TopicPartition(topic=name, partitions=partitions) for name, partitions in places]
    data = codec.encode_versioned(kind(topics=["b", "a"], owned_partitions=parts, rack_id="r"), 3)
    found = embedded.subscription_of(data, image)
    assert (found.topics, found.rack_id) == embedded.subscribed(data) == (["b", "a"], "r")
    assert list(found.owned) == [topic_id("a"), topic_id("b")]
    assert len(found.owned) == 2
    assert list(found.owned.items()) == [(topic_id("a"), [0, 2]), (topic_id("b"), [0])]
