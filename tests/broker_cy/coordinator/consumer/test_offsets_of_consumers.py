"""Commits and fetches of members of consumer groups (KIP-848, KIP-1251)."""

from __future__ import annotations

import pytest

from broker_cy.coordinator import commit as transactions
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from tests.broker_cy.coordinator.consumer.test_heartbeat import T, two_members
from tests.broker_cy.coordinator.consumer_harness import ConsumerHarness, Topics
from tests.broker_cy.coordinator.harness import GROUP


@pytest.fixture
def h() -> ConsumerHarness:
    h = ConsumerHarness(Topics(t=4))
    h.settings = h.settings._replace(consumer=h.settings.consumer._replace(assignment_interval_ms=0))
    h.restart()
    return h


def commit(
    h: ConsumerHarness, token: object, member_id: str, epoch: int, partition: int = 0, version: int = 9
) -> ErrorCode:
    code = h.commit(token, 7, member_id=member_id, generation=epoch, topic_id=T, partition=partition, version=version)
    assert code is not None
    return code


def test_commits_by_the_epoch_of_a_member(h: ConsumerHarness) -> None:
    """If this fails, a consumer that lost a partition overwrites the offsets of its successor, or a rebalance refuses
    the commits of one that has it still.
    """
    h.enter("first", "A")
    first = h.consumers().members["A"].epoch
    assert commit(h, 1, "A", first, 3) is ErrorCode.NONE
    epoch = two_members(h)
    mine, other = (next(iter(h.consumers().members[each].assigned[T])) for each in "AB")
    assert commit(h, 2, "A", epoch, mine) is ErrorCode.NONE
    # Since `first` it has had the partition.
    assert commit(h, 3, "A", first, mine) is ErrorCode.NONE
    assert commit(h, 4, "A", first, other) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(h, 5, "A", epoch + 1, mine) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(h, 6, "C", epoch, mine) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(h, 7, "A", epoch, mine, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert commit(h, 8, "", -1, mine) is ErrorCode.UNKNOWN_MEMBER_ID
    h.beat("a leaves", "A", -1)
    h.beat("b leaves", "B", -1)
    assert commit(h, 9, "", -1, mine) is ErrorCode.NONE


def test_transactional_commits_of_a_producer_that_names_no_member(h: ConsumerHarness) -> None:
    """If this fails, a producer that does not send its consumer's membership cannot commit offsets in transactions
    (KAFKA-18060), or one of a member that is gone still can.
    """
    epoch = two_members(h)

    def code(token: object, member_id: str, generation: int) -> ErrorCode:
        kind = messages.TxnOffsetCommitRequest
        part = kind.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        request = kind(
            transactional_id="x",
            group_id=GROUP,
            producer_id=7,
            producer_epoch=0,
            generation_id=generation,
            member_id=member_id,
            topics=[kind.TxnOffsetCommitRequestTopic(name="t", partitions=[part])],
        )
        h.run(transactions.commit_transactional, request, token)
        return ErrorCode(h.answers[token].topics[0].partitions[0].error_code)

    assert code(1, "", -1) is ErrorCode.NONE
    assert code(2, "A", epoch) is ErrorCode.NONE
    assert code(3, "A", epoch + 1) is ErrorCode.ILLEGAL_GENERATION
    assert code(4, "C", epoch) is ErrorCode.UNKNOWN_MEMBER_ID


def test_fetches_by_the_epoch_of_a_member(h: ConsumerHarness) -> None:
    """If this fails, a consumer starts at an offset that is not its own."""
    epoch = two_members(h)
    assert h.fetch(member_id="A", member_epoch=epoch, topic_id=T).error_code == ErrorCode.NONE
    assert h.fetch(topic_id=T).error_code == ErrorCode.NONE
    assert h.fetch(member_id="A", member_epoch=epoch - 1, topic_id=T).error_code == ErrorCode.STALE_MEMBER_EPOCH
    assert h.fetch(member_id="C", member_epoch=epoch, topic_id=T).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_of_topics_that_are_read_stay(h: ConsumerHarness) -> None:
    """If this fails, a consumer starts at the beginning again."""
    epoch = two_members(h)
    mine = next(iter(h.consumers().members["A"].assigned[T]))
    commit(h, 1, "A", epoch, mine)
    assert h.delete_offsets("d", "t", mine).topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert h.delete_groups("g", "readers") == {"readers": ErrorCode.NON_EMPTY_GROUP}
