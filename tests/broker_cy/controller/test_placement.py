"""Where the replicas of new partitions go."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_cy.controller.placement import place
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.image import BrokerImage, Endpoint


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
