"""Placement plans keep their promises for arbitrary clusters."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.placement import BrokerSlot, Move, Placed, Placement, moves_to
from broker_cy.client.errors import ClientError

RACKS = ("a", "b", "c", None)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[BrokerSlot], list[Placed]]:
    """2 to 8 brokers in racks (some accept no replicas), and up to 30 partitions of different sizes."""
    count = draw(st.integers(2, 8))
    named = draw(st.booleans())
    brokers = [
        BrokerSlot(each, draw(st.sampled_from(RACKS[:3])) if named else None, draw(st.integers(0, 9)) < 9)
        for each in range(1, count + 1)
    ]
    placed = [
        Placed(
            TopicPartition("t", number),
            tuple(draw(st.permutations(range(1, count + 1)))[: draw(st.integers(1, min(3, count)))]),
            draw(st.integers(0, 1000)),
        )
        for number in range(draw(st.integers(0, 30)))
    ]
    return brokers, placed


def check(brokers: list[BrokerSlot], placed: list[Placed], moves: tuple[Move, ...]) -> dict[TopicPartition, Move]:
    """Assert the properties of every plan, and return its moves by partition."""
    before = {each.partition: each for each in placed}
    accepting = {each.broker_id for each in brokers if each.accepts}
    by_partition = {move.partition: move for move in moves}
    assert len(by_partition) == len(moves)
    for move in moves:
        assert move.before == before[move.partition].replicas
        assert len(set(move.after)) == len(move.after) == len(move.before), "no replica is lost"
        assert move.after != move.before
        assert set(move.added) <= accepting
        assert move.copied_bytes == before[move.partition].size_bytes * len(move.added)
    return by_partition


def racks_of(brokers: list[BrokerSlot], replicas: tuple[int, ...]) -> list[str | None]:
    rack = {each.broker_id: each.rack for each in brokers}
    return [rack[each] for each in replicas]


def unevenness(brokers: list[BrokerSlot], placed: list[Placed], moves: tuple[Move, ...]) -> float:
    """The sum of squares of what the accepting brokers hold, in shares of their average."""
    after = {move.partition: move.after for move in moves}
    held: Counter[int] = Counter()
    size: Counter[int] = Counter()
    for each in placed:
        for broker in after.get(each.partition, each.replicas):
            held[broker] += 1
            size[broker] += each.size_bytes
    all_held, all_size = sum(held.values()) or 1, sum(size.values()) or 1
    accepting = [each.broker_id for each in brokers if each.accepts]
    return sum((held[each] / all_held) ** 2 + (size[each] / all_size) ** 2 for each in accepting)


@given(clusters(), st.data())
@settings(max_examples=150, deadline=None)
def test_a_drain_ends_without_any_replica_on_the_broker(
    cluster: tuple[list[BrokerSlot], list[Placed]], data: st.DataObject
) -> None:
    """If this fails, a broker is switched off with the only copy of something, or replicas share a rack needlessly."""
    brokers, placed = cluster
    ids = [each.broker_id for each in brokers]
    leaving = set(data.draw(st.lists(st.sampled_from(ids), min_size=1, max_size=2)))
    targets = [each for each in brokers if each.accepts and each.broker_id not in leaving]
    placement = Placement(brokers, placed)
    needed = [(each, set(each.replicas) & leaving, set(each.replicas) - leaving) for each in placed]
    possible = all(len(gone) <= len([t for t in targets if t.broker_id not in kept]) for _, gone, kept in needed)
    if not possible:
        with pytest.raises(ClientError, match="add a broker first, or let them have fewer"):
            placement.drain(leaving)
        shrunk = Placement(brokers, placed)
        last = any(set(each.replicas) <= leaving and not targets for each in placed)
        if last:
            with pytest.raises(ClientError, match=r"add a broker first$"):
                shrunk.drain(leaving, shrink=True)
            return
        shrunk.drain(leaving, shrink=True)
        found = {move.partition: move.after for move in shrunk.moves()}
        for each, gone, kept in needed:
            after = found.get(each.partition, each.replicas)
            room = len([t for t in targets if t.broker_id not in kept])
            assert not set(after) & leaving
            assert len(after) == len(kept) + min(len(gone), room), "a replica is removed that has another place"
        return
    placement.drain(leaving)
    moves = placement.moves()
    by_partition = check(brokers, placed, moves)
    for each, gone, kept in needed:
        after = by_partition[each.partition].after if gone else each.replicas
        assert not set(after) & leaving
        # A replica takes the place of the one that it replaces: preferred leaders stay where they are.
        assert all(old == new for old, new in zip(each.replicas, after, strict=True) if old not in leaving)
        assert gone or each.partition not in by_partition, "nothing else moves"
        racks = racks_of(brokers, after)
        if gone and None not in racks:
            free = {t.rack for t in targets if t.broker_id not in kept}
            stay = set(racks_of(brokers, tuple(kept)))
            assert len(set(racks)) == len(stay) + min(len(gone), len(free - stay))


def leaders(placed: list[Placed], moves: tuple[Move, ...]) -> Counter[int]:
    """Return how many partitions prefer each broker as leader after the moves."""
    after = {move.partition: move.after for move in moves}
    return Counter(after.get(each.partition, each.replicas)[0] for each in placed)


@pytest.mark.parametrize(
    ("leaving", "replicas", "expected"),
    [
        ({1, 2}, [(1, 2)], {3: 20, 4: 20}),
        ({1, 2}, [(1, 2, 3)], {4: 20, 5: 20}),
        ({1}, [(1, 2), (2, 1)], {2: 20, 3: 10, 4: 10}),
    ],
)
def test_a_drain_spreads_the_preferred_leaders(
    leaving: set[int], replicas: list[tuple[int, ...]], expected: dict[int, int]
) -> None:
    """If this fails, one broker leads all partitions of the brokers that were drained, and is overloaded."""
    brokers = [BrokerSlot(each, None) for each in range(1, 3 + len(replicas[0]))]
    placed = [Placed(TopicPartition("t", number), replicas[number % len(replicas)], 100) for number in range(40)]
    placement = Placement(brokers, placed)
    placement.drain(leaving)
    assert leaders(placed, placement.moves()) == expected


@given(clusters(), st.data())
@settings(max_examples=150, deadline=None)
def test_no_other_order_of_new_replicas_spreads_leaders_better(
    cluster: tuple[list[BrokerSlot], list[Placed]], data: st.DataObject
) -> None:
    """If this fails, a drained broker's partitions are led by few brokers, although others have the same records."""
    brokers, placed = cluster
    leaving = set(data.draw(st.lists(st.sampled_from([each.broker_id for each in brokers]), min_size=1, max_size=3)))
    placement = Placement(brokers, placed)
    try:
        placement.drain(leaving)
    except ClientError:
        return
    led = leaders(placed, placement.moves())
    for move in placement.moves():
        if move.before[0] in leaving:
            assert led[move.after[0]] <= min(led[each] for each in move.added) + 1


@given(clusters(), st.one_of(st.none(), st.integers(1, 5)))
@settings(max_examples=150, deadline=None)
def test_a_balance_evens_out_in_a_bounded_number_of_moves(
    cluster: tuple[list[BrokerSlot], list[Placed]], moves_max: int | None
) -> None:
    """If this fails, balancing copies data without an effect, makes it worse, or puts replicas into one rack."""
    brokers, placed = cluster
    placement = Placement(brokers, placed)
    placement.balance(moves_max)
    moves = placement.moves()
    check(brokers, placed, moves)
    if moves_max is not None:
        assert len(moves) <= moves_max
    if moves:
        assert unevenness(brokers, placed, moves) < unevenness(brokers, placed, ())
    accepting = {each.broker_id for each in brokers if each.accepts}
    for move in moves:
        assert set(move.removed) <= accepting, "what is cordoned stays as it is"
        before, after = racks_of(brokers, move.before), racks_of(brokers, move.after)
        assert len(set(after)) >= len(set(before))
    if moves_max is None:
        # The plan ends at its target: from there, there is nothing left to do.
        after_all = {move.partition: move.after for move in moves}
        again = Placement(
            brokers, [Placed(p.partition, after_all.get(p.partition, p.replicas), p.size_bytes) for p in placed]
        )
        again.balance()
        assert unevenness(brokers, placed, moves) <= 1.02 * _after(brokers, placed, moves, again.moves())


def _after(brokers: list[BrokerSlot], placed: list[Placed], moves: tuple[Move, ...], more: tuple[Move, ...]) -> float:
    """The unevenness after two plans."""
    both = {move.partition: move for move in (*moves, *more)}
    return unevenness(brokers, placed, tuple(both.values()))


@given(clusters(), st.data())
@settings(max_examples=80, deadline=None)
def test_only_new_brokers_are_filled(cluster: tuple[list[BrokerSlot], list[Placed]], data: st.DataObject) -> None:
    """If this fails, adding a broker shuffles data between the old ones."""
    brokers, placed = cluster
    new = [each.broker_id for each in brokers if each.accepts]
    if not new:
        return
    chosen = data.draw(st.sampled_from(new))
    placement = Placement(brokers, placed)
    placement.fill([chosen])
    for move in check(brokers, placed, placement.moves()).values():
        assert move.added == (chosen,)


def test_a_balance_of_equal_partitions_is_even() -> None:
    """If this fails, a broker that was added gets much more, or much less, than its share."""
    brokers = [BrokerSlot(each, f"rack-{each}") for each in (1, 2, 3, 4)]
    placed = [Placed(TopicPartition("t", n), (1 + n % 3, 1 + (n + 1) % 3), 100) for n in range(60)]
    placement = Placement(brokers, placed)
    placement.balance()
    assert all(abs(placement.replicas[each] - 30) <= 1 for each in (1, 2, 3, 4)), placement.replicas
    # Not more than the share of the new broker moves.
    assert len(placement.moves()) <= 31


def test_the_first_moves_of_a_limited_balance_are_the_large_ones() -> None:
    """If this fails, `--max-moves 1` moves an empty partition from a full disk."""
    placed = [Placed(TopicPartition("t", n), (1,), size) for n, size in enumerate((1, 5, 900, 7, 100))]
    placement = Placement([BrokerSlot(1, None), BrokerSlot(2, None)], placed)
    placement.balance(moves_max=1)
    (move,) = placement.moves()
    assert move.partition.partition == 2


def test_a_broker_that_has_left_can_be_drained() -> None:
    """If this fails, replicas of a broker that burnt down cannot be placed elsewhere."""
    placement = Placement([BrokerSlot(1, None), BrokerSlot(2, None)], [Placed(TopicPartition("t", 0), (9, 1), 5)])
    placement.drain([9])
    assert [move.after for move in placement.moves()] == [(2, 1)]
    with pytest.raises(ClientError, match="no such broker; it has 1, 2, 9"):
        placement.drain([7])


@settings(max_examples=200, deadline=None)
@given(cluster=clusters(), factor=st.integers(1, 5))
def test_partitions_get_the_replicas_that_are_asked_for(
    cluster: tuple[list[BrokerSlot], list[Placed]], factor: int
) -> None:
    """If this fails, a change of the number of replicas loses the leader, or doubles up in a rack."""
    brokers, placed = cluster
    accepting = {each.broker_id for each in brokers if each.accepts}
    placement = Placement(brokers, placed)
    chosen = {each.partition for each in placed if each.partition.partition % 2}
    try:
        placement.resize(factor, lambda key: key in chosen)
    except ClientError:
        assert any(len(accepting | set(each.replicas)) < factor for each in placed if each.partition in chosen), (
            "there were enough brokers"
        )
        return
    moves = {move.partition: move for move in placement.moves()}
    assert set(moves) == {
        each.partition for each in placed if each.partition in chosen and len(each.replicas) != factor
    }
    for move in moves.values():
        assert len(set(move.after)) == len(move.after) == factor
        assert set(move.added) <= accepting
        assert not (move.added and move.removed), "a change of the number moves nothing else"
        if move.before[0] in accepting or not move.removed:
            assert move.after[0] == move.before[0]
        held = [each for each in move.after if each not in accepting]
        assert not (held and set(move.removed) & accepting), "a replica in service was given up for one that is not"
        racks = racks_of(brokers, move.after)
        others = {rack for each, rack in ((b.broker_id, b.rack) for b in brokers) if each in accepting} - {None}
        if move.added and None not in racks and len(set(racks)) < len(racks):
            twice = {rack for rack in racks_of(brokers, move.added) if racks.count(rack) > 1}
            assert not twice or others <= set(racks), "a rack without a replica was left out"
    for broker in placement.replicas:
        now = [moves[p.partition].after if p.partition in moves else p.replicas for p in placed]
        assert placement.replicas[broker] == sum(broker in each for each in now)


def test_a_list_of_moves_is_checked() -> None:
    """If this fails, a typing error in a file becomes a partition with one broker twice."""
    key = TopicPartition("t", 0)
    now = {key: Placed(key, (1, 2), 10)}
    assert moves_to({key: (1, 2)}, now) == ()
    assert moves_to({key: (2, 1)}, now) == (Move(key, (1, 2), (2, 1), 10),)
    assert moves_to({key: (2, 1)}, now)[0].copied_bytes == 0
    for wanted, message in (
        ({key: (1, 1)}, "different brokers"),
        ({TopicPartition("u", 0): (1,)}, "no such partition"),
    ):
        with pytest.raises(ClientError, match=message):
            moves_to(wanted, now)


def test_a_large_cluster_is_planned_in_a_bounded_number_of_passes() -> None:
    """If this fails, repeated plans never end: each pass must make fewer moves than the one before."""
    brokers = [BrokerSlot(each, f"rack-{each % 3}") for each in range(1, 13)]
    placed = [
        Placed(TopicPartition("t", n), (1 + n % 6, 1 + (n + 1) % 6, 1 + (n + 2) % 6), n * 7919 % 1000)
        for n in range(2_000)
    ]
    sums = []
    for passes in (1, 2, 10):
        placement = Placement(brokers, placed)
        placement._even_out(list(range(1, 13)), None, passes)
        sums.append(unevenness(brokers, placed, placement.moves()))
    assert all(later <= earlier for earlier, later in pairwise(sums))
    # Perfectly even would be 2 / 12.
    assert sums[-1] < 1.01 * 2 / 12


def test_shards_of_a_host() -> None:
    """If this fails, a drain puts two replicas of a partition on one host, whose loss then takes both."""
    brokers = [BrokerSlot(host + 1_000 * shard, None, host=f"host-{host}") for host in range(3) for shard in range(2)]
    placed = [Placed(TopicPartition("t", number), (0, 1 + number % 2 * 1_000), 5) for number in range(40)]
    placement = Placement(brokers, placed)
    placement.drain([0])
    for move in placement.moves():
        assert len({each % 1_000 for each in move.after}) == 2, move
    placement.balance()
    assert all(len({each % 1_000 for each in move.after}) == 2 for move in placement.moves())
    # Without another host it is better than nothing.
    alone = Placement(brokers[:2], [Placed(TopicPartition("t", 0), (5,), 5)])
    alone.drain([5])
    assert alone.moves()
