"""The bytes of the consumer protocol, and the assignors of a group's leader."""

from __future__ import annotations

import itertools

import pytest

from broker_cy.client.consumer_protocol import (
    ASSIGNORS,
    Partition,
    Parts,
    Subscriber,
    Subscription,
    assign_in_turn,
    assign_range,
    assign_sticky,
    assignment_bytes,
    assignment_of,
    subscription_bytes,
    subscription_of,
)
from broker_cy.core.errors import WireError


def member(name: str, topics: str = "t", owned: str = "", instance_id: str | None = None) -> Subscriber:
    """A member with topics of one letter, and owned partitions such as "t0 t1"."""
    parts = frozenset((each[0], int(each[1:])) for each in owned.split())
    return Subscriber(name, instance_id, Subscription(tuple(topics), parts))


def text(parts: Parts) -> dict[str, str]:
    return {name: " ".join(f"{topic}{number}" for topic, number in theirs) for name, theirs in parts.items()}


def test_range() -> None:
    """If this fails, members get other partitions than Kafka's RangeAssignor would give them."""
    abc = [member(each) for each in "cab"]
    assert text(assign_range(abc, {"t": 7})) == {"a": "t0 t1 t2", "b": "t3 t4", "c": "t5 t6"}
    assert text(assign_range([member("a"), member("b")], {"t": 1})) == {"a": "t0", "b": ""}
    two = [member("a", "tu"), member("b", "u")]
    assert text(assign_range(two, {"t": 2, "u": 3})) == {"a": "t0 t1 u0 u1", "b": "u2"}
    # Static members keep their place although their member ids change.
    static = [member("z", instance_id="i-1"), member("y", instance_id="i-2")]
    assert text(assign_range(static, {"t": 2})) == {"z": "t0", "y": "t1"}


def test_round_robin() -> None:
    """If this fails, members get other partitions than Kafka's RoundRobinAssignor would give them."""
    abc = [member(each) for each in "abc"]
    assert text(assign_in_turn(abc, {"t": 7})) == {"a": "t0 t3 t6", "b": "t1 t4", "c": "t2 t5"}
    two = [member("a", "tu"), member("b", "u")]
    assert text(assign_in_turn(two, {"t": 2, "u": 3})) == {"a": "t0 t1 u1", "b": "u0 u2"}


@pytest.mark.parametrize(
    ("members", "partitions", "expected"),
    [
        ([member("a"), member("b")], {"t": 4}, {"a": "t0 t2", "b": "t1 t3"}),
        # Owners keep their partitions.
        ([member("a", owned="t2 t3"), member("b", owned="t0 t1")], {"t": 4}, {"a": "t2 t3", "b": "t0 t1"}),
        # A partition that moves has no owner in this generation, and one in the next.
        ([member("a", owned="t0 t1 t2 t3"), member("b")], {"t": 4}, {"a": "t0 t1", "b": ""}),
        ([member("a", owned="t0 t1"), member("b")], {"t": 4}, {"a": "t0 t1", "b": "t2 t3"}),
        # A member that is gone leaves its partitions to the others at once.
        ([member("a", owned="t0 t1")], {"t": 4}, {"a": "t0 t1 t2 t3"}),
        # Deleted partitions, and topics that a member no longer reads.
        ([member("a", owned="t0 t9 u0"), member("b")], {"t": 2}, {"a": "t0", "b": "t1"}),
        # Two claims: one of them is late.
        ([member("a", owned="t0"), member("b", owned="t0")], {"t": 2}, {"a": "t0", "b": "t1"}),
        ([member("a", "t"), member("b", "u")], {"t": 3, "u": 1}, {"a": "t0 t1 t2", "b": "u0"}),
    ],
)
def test_cooperative_sticky(members: list[Subscriber], partitions: dict[str, int], expected: dict[str, str]) -> None:
    """If this fails, partitions move without need, move before their owner gave them up, or stay unread."""
    assert text(assign_sticky(members, partitions)) == expected


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_every_partition_has_one_reader(name: str) -> None:
    """If this fails, partitions are read by two members or by none, for some mixture of subscriptions."""
    for topics in itertools.product(("t", "u", "tu"), repeat=3):
        members = [member(each, theirs) for each, theirs in zip("abc", topics, strict=True)]
        counts = {"t": 5, "u": 3}
        found = ASSIGNORS[name](members, counts)
        given = sorted(itertools.chain(*found.values()))
        read = sorted(
            (topic, n) for topic in counts if any(topic in each for each in topics) for n in range(counts[topic])
        )
        assert given == read
        assert all(topic in theirs for each, theirs in zip("abc", topics, strict=True) for topic, _ in found[each])


def test_a_group_of_cooperative_members_settles() -> None:
    """If this fails, a cooperative group rebalances for ever, or stays unbalanced."""
    owned: dict[str, list[Partition]] = {"a": [("t", n) for n in range(10)], "b": [], "c": []}
    for _ in range(2):
        members = [Subscriber(name, None, Subscription(("t",), frozenset(theirs))) for name, theirs in owned.items()]
        owned = assign_sticky(members, {"t": 10})
    assert sorted(len(theirs) for theirs in owned.values()) == [3, 3, 4]
    assert set(owned["a"]) <= {("t", n) for n in range(10)}


def test_bytes_are_read_as_they_are_written() -> None:
    """If this fails, members of other clients read other topics and partitions than this one wrote."""
    subscription = Subscription(("t", "u"), frozenset({("t", 1), ("u", 0)}))
    assert subscription_of(subscription_bytes(subscription)) == subscription
    partitions = frozenset({("t", 3), ("t", 2), ("u", 0)})
    assert assignment_of(assignment_bytes(partitions)) == partitions
    assert assignment_of(b"") == frozenset()
    assert assignment_bytes([("t", 1)]) == bytes.fromhex("0000 00000001 0001 74 00000001 00000001 ffffffff")
    # Version 0 has no owned partitions; a later version adds fields at the end.
    assert subscription_of(bytes.fromhex("0000 00000001 0001 74 ffffffff")) == Subscription(("t",))
    newer = bytes.fromhex("0009") + assignment_bytes(partitions)[2:] + b"more"
    assert assignment_of(newer) == partitions


@pytest.mark.parametrize("data", [b"\0", b"\xff\xff", b"\0\0\0\0\0\5"])
def test_damaged_bytes_are_refused(data: bytes) -> None:
    """If this fails, a damaged assignment gives a member no partitions, without an error."""
    with pytest.raises(WireError):
        assignment_of(data)
    with pytest.raises(WireError):
        subscription_of(data)
