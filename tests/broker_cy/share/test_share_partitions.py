"""The share partitions of a node, and the fetches that wait for their records."""

from __future__ import annotations

from uuid import UUID

from broker_cy.share.sessions import Closed, SessionKey, TopicPartition
from broker_cy.share.share_partitions import ShareKey, SharePartitions
from tests.broker_cy.share.partitions import acquire, partition

TOPIC, OTHER = TopicPartition(UUID(int=1), 0), TopicPartition(UUID(int=2), 0)
KEYS = [ShareKey("g", TOPIC), ShareKey("h", TOPIC), ShareKey("g", OTHER)]


def table() -> SharePartitions:
    made = SharePartitions()
    for key in KEYS:
        made.add(key, partition())
    return made


def test_a_fetch_is_woken_once_by_the_first_cause() -> None:
    """If this fails, a fetch waits although there are records, or is answered twice."""
    partitions = table()
    assert partitions.wait("first", [KEYS[0], KEYS[2]])
    assert partitions.wait("second", [KEYS[0]])
    assert partitions.wait("third", [KEYS[1]])
    assert partitions.wake(KEYS[0]) == ["first", "second"]
    assert partitions.wake(KEYS[2]) == []
    assert partitions.wake_topic(TOPIC) == ["third"]
    assert partitions.wait("fourth", [KEYS[0]])
    partitions.forget("fourth")
    assert partitions.wake(KEYS[0]) == []


def test_a_partition_that_has_another_leader_is_fenced_and_its_fetches_are_woken() -> None:
    """If this fails, a fetch waits for a share partition that another broker serves (KAFKA-19567)."""
    partitions = table()
    fenced = [partitions.get(key) for key in KEYS[:2]]
    partitions.wait("first", [KEYS[0]])
    partitions.wait("second", [KEYS[1], KEYS[2]])
    assert partitions.drop_topic(TOPIC) == ["first", "second"]
    assert [each.status_name for each in fenced if each is not None] == ["FENCED", "FENCED"]
    assert [partitions.get(key) is None for key in KEYS] == [True, True, False]
    assert partitions.drop_topic(TOPIC) == []


def test_a_group_without_sessions_leaves_nothing() -> None:
    """If this fails, the node keeps the share partitions of groups that no longer use it."""
    partitions = table()
    partitions.wait("first", [KEYS[2]])
    assert partitions.drop_group("g") == ["first"]
    assert [partitions.get(key) is None for key in KEYS] == [True, False, True]


def test_a_session_that_ends_releases_what_its_member_holds() -> None:
    """If this fails, the records of a member that leaves stay locked (KAFKA-17396)."""
    partitions = table()
    share = partitions.get(KEYS[0])
    assert share is not None
    acquire(share, (0, 9))
    missing = TopicPartition(UUID(int=3), 0)
    ((key, write),) = partitions.release(Closed(SessionKey("g", "a"), (TOPIC, OTHER, missing), True))
    assert key == KEYS[0]
    assert write.batches == ((0, 9, 1, 0),)


def test_the_number_of_fetches_that_wait_is_limited() -> None:
    """If this fails, clients exhaust the memory of the broker with fetches that wait."""
    partitions = SharePartitions(waiting_max=1)
    assert partitions.wait("first", [KEYS[0]])
    assert not partitions.wait("second", [KEYS[0]])
    assert not SharePartitions().wait("third", [])
