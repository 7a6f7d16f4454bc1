"""The placement of the replicas of new partitions."""

from __future__ import annotations

import itertools
from collections import Counter
from uuid import UUID

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from broker_cy.controller.create_topics import CreateTopics
from broker_cy.controller.placement import place
from broker_cy.controller.topic_ops import CreatePartitions
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.image import BrokerImage, Endpoint
from broker_cy.wire import messages
from tests.broker_cy.controller.brokers import Brokers
from tests.support.images import topic_in


def broker(
    broker_id: int,
    rack: str | None = None,
    host: str | None = None,
    fenced: bool = False,
    stops: bool = False,
    cordoned: bool = False,
) -> BrokerImage:
    directory = UUID(int=(1 << 100) + broker_id)
    return BrokerImage(
        broker_id,
        1,
        UUID(int=broker_id),
        {"A": Endpoint(host or f"host-{broker_id}", 9092, 0)},
        {},
        rack,
        fenced,
        stops,
        (directory,),
        (directory,) if cordoned else None,
    )


BROKERS = st.lists(
    st.tuples(
        st.sampled_from([None, "r1", "r2", "r3"]),
        st.sampled_from(["h1", "h2", "h3", "h4"]),
        st.booleans(),
        st.sampled_from([False, False, True]),
    ),
    min_size=1,
    max_size=8,
)


@given(BROKERS, st.integers(1, 4), st.integers(1, 30), st.integers(0, 2**45))
def test_any_cluster(found: list[tuple[str | None, str, bool, bool]], factor: int, count: int, start: int) -> None:
    """If this fails, a topic cannot be created, has a broker twice, a leader that is fenced, or replicas where none
    may be.
    """
    brokers = [broker(i, rack, host, fenced, cordoned=c) for i, (rack, host, fenced, c) in enumerate(found)]
    usable = [b for b in brokers if not b.cordoned_log_dirs]
    if all(b.fenced for b in usable) or factor > len(usable):
        with pytest.raises(KafkaError) as error:
            place(brokers, count, factor, start)
        assert error.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
        return
    placed = place(brokers, count, factor, start)
    assert len(placed) == count
    by_id = {b.broker_id: b for b in usable}
    hosts = {b.listeners["A"].host for b in usable}
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        assert not by_id[replicas[0]].fenced
        assert len({by_id[r].listeners["A"].host for r in replicas}) == min(factor, len(hosts))


class KafkasList:
    """A list of brokers as Kafka's placer goes through it: from an offset that grows with each partition that asks."""

    def __init__(self, brokers: list[int], start: int) -> None:
        self.brokers = sorted(brokers)
        self.offset = start
        self.partition = -1
        self.taken = 0

    def next(self, partition: int) -> int | None:
        if self.partition != partition:
            self.offset += self.partition >= 0
            self.partition, self.taken = partition, 0
        if self.taken >= len(self.brokers):
            return None
        self.taken += 1
        return self.brokers[(self.offset + self.taken - 1) % len(self.brokers)]


def kafkas_placement(brokers: list[BrokerImage], count: int, factor: int, start: int) -> list[tuple[int, ...]]:
    """Place replicas as Kafka's placer does with the same offsets, until it shuffles for the first time."""
    names = sorted({b.rack for b in brokers}, key=lambda rack: (rack is not None, rack or ""))
    lists = {
        (name, fenced): KafkasList([b.broker_id for b in brokers if b.rack == name and b.fenced is fenced], start)
        for name in names
        for fenced in (False, True)
    }
    placed = []
    for partition in range(count):
        turns = [names[(start + partition + i) % len(names)] for i in range(len(names))]
        leader_rack, replicas = turns[0], []
        for leader_rack in turns:
            if (leader := lists[leader_rack, False].next(partition)) is not None:
                replicas.append(leader)
                break
        followers = itertools.cycle(turns)
        is_passed_over = False
        while len(replicas) < factor:
            rack = next(followers)
            if rack == leader_rack and not is_passed_over:
                is_passed_over = True
                continue
            found = lists[rack, False].next(partition)
            if found is None:
                found = lists[rack, True].next(partition)
            if found is not None:
                replicas.append(found)
        placed.append(tuple(replicas))
    return placed


@given(BROKERS, st.integers(1, 5), st.integers(0, 50))
def test_as_kafka_where_each_broker_has_a_host_of_its_own(
    found: list[tuple[str | None, str, bool, bool]], factor: int, start: int
) -> None:
    """If this fails, partitions are spread less evenly than by Kafka, or over fewer racks, also beside fenced ones."""
    brokers = [broker(i, rack, fenced=fenced) for i, (rack, _, fenced, _) in enumerate(found)]
    active = sum(not b.fenced for b in brokers)
    assume(active and factor <= len(brokers))
    assert place(brokers, active, factor, start) == kafkas_placement(brokers, active, factor, start)


def test_leaders_are_spread_over_the_brokers_of_racks() -> None:
    """If this fails, the partitions of topics with few replicas are on one broker of each rack."""
    brokers = [broker(i, f"rack-{i % 3}") for i in range(9)]
    assert Counter(replicas[0] for replicas in place(brokers, 9, 1, 5)) == dict.fromkeys(range(9), 1)


def test_fenced_brokers_take_turns() -> None:
    """If this fails, one broker has all the replicas that fenced ones get, and does their work once it is back."""
    brokers = [broker(1), broker(2), broker(3, fenced=True), broker(4, fenced=True), broker(5, fenced=True)]
    counts = Counter(replicas[2] for replicas in place(brokers, 90, 3, 0))
    # Not exactly 30 each, because the order is mixed now and then.
    assert set(counts) == {3, 4, 5}
    assert max(counts.values()) - min(counts.values()) <= 6


def test_racks_take_turns() -> None:
    """If this fails, the loss of one rack takes several replicas of a partition."""
    brokers = [broker(i, f"rack-{i % 3}") for i in range(9)]
    for replicas in place(brokers, 50, 3, 7):
        assert {r % 3 for r in replicas} == {0, 1, 2}
    for replicas in place(brokers, 50, 6, 7):
        assert Counter(r % 3 for r in replicas) == {0: 2, 1: 2, 2: 2}


def test_load_is_even() -> None:
    """If this fails, some brokers lead or hold far more than others."""
    brokers = [broker(i) for i in range(5)]
    placed = place(brokers, 1_000, 3, 123)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {200}
    assert max(Counter(r for replicas in placed for r in replicas).values()) < 660
    # The followers of one leader are not always the same brokers.
    assert len({frozenset(replicas) for replicas in placed}) == 10


def test_shards_of_a_host() -> None:
    """If this fails, the loss of a machine takes several replicas, although there are enough machines."""
    brokers = [broker(host * 10 + shard, host=f"m{host}") for host in range(3) for shard in range(4)]
    placed = place(brokers, 240, 3, 5)
    assert all(len({r // 10 for r in replicas}) == 3 for replicas in placed)
    leaders = Counter(replicas[0] for replicas in placed)
    assert set(leaders.values()) == {20}
    # More replicas than hosts: that is not a reason to refuse.
    assert len(place(brokers, 1, 5, 5)[0]) == 5


def test_lanes() -> None:
    """If this fails, each shard replicates with all shards of other hosts, which multiplies connections."""
    brokers = [broker(host + 1_000 * shard, host=f"m{host}") for host in range(3) for shard in range(4)]
    for factor in (2, 3):
        placed = place(brokers, 240, factor, 5)
        assert all(len({r // 1_000 for r in replicas}) == 1 for replicas in placed)
        assert all(len({r % 1_000 for r in replicas}) == factor for replicas in placed)
        assert set(Counter(replicas[0] for replicas in placed).values()) == {20}
        counts = Counter(r for replicas in placed for r in replicas).values()
        assert max(counts) - min(counts) <= 12
    # A fenced broker in the lane is no reason to leave out an active one.
    gone = [broker(1, host="a"), broker(1_001, host="a"), broker(2, host="b", fenced=True), broker(1_002, host="b")]
    assert all(2 not in replicas for replicas in place(gone, 20, 2, 0))


def test_lanes_and_racks() -> None:
    """If this fails, lanes cost the spread over racks."""
    brokers = [broker(host + 1_000 * shard, f"rack-{host % 3}", f"m{host}") for host in range(6) for shard in range(2)]
    for replicas in place(brokers, 60, 3, 2):
        assert {r % 1_000 % 3 for r in replicas} == {0, 1, 2}
        assert len({r // 1_000 for r in replicas}) == 1


def test_fenced_brokers_only_if_needed() -> None:
    """If this fails, new partitions start without replicas in sync, although enough brokers are in service."""
    brokers = [broker(1), broker(2), broker(3, fenced=True)]
    assert all(3 not in replicas for replicas in place(brokers, 20, 2, 0))
    assert all(set(replicas) == {1, 2, 3} for replicas in place(brokers, 20, 3, 0))


def test_what_takes_no_replicas() -> None:
    """If this fails, a broker that stops, or whose disks are cordoned, gets new replicas."""
    brokers = [broker(1), broker(2, cordoned=True), broker(3, stops=True)]
    assert place(brokers, 3, 1, 0) == [(1,)] * 3
    with pytest.raises(KafkaError, match=r"because only 1 broker\(s\) are registered or some brokers have all"):
        place(brokers, 1, 2, 0)


def test_many_small_topics_of_one_request_are_spread() -> None:
    """If this fails, one broker leads all topics that are created together."""
    cluster = Brokers.of(1, 2, 3)
    topic = messages.CreateTopicsRequest.CreatableTopic
    names = [f"t{number}" for number in range(30)]
    request = messages.CreateTopicsRequest(
        topics=[
            topic(
                name=name,
                num_partitions=1,
                replication_factor=3,
                configs=[messages.CreateTopicsRequest.CreatableTopicConfig(name="retention.ms", value="1")],
            )
            for name in names
        ]
    )
    cluster.run(CreateTopics(request))
    leaders = Counter(cluster.partition(name).leader for name in names)
    assert leaders == {1: 10, 2: 10, 3: 10}
    grown = messages.CreatePartitionsRequest.CreatePartitionsTopic(name="t0", count=7, assignments=None)
    cluster.run(CreatePartitions([grown], validate_only=False))
    partitions = topic_in(cluster.image, "t0").partitions
    assert Counter(partitions[index].leader for index in range(1, 7)) == {1: 2, 2: 2, 3: 2}
    assert all(set(p.replicas) == set(p.isr) == {1, 2, 3} for p in partitions.values())
