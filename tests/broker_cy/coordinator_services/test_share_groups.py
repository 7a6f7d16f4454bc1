"""The requests of share groups to the share coordinator, and the start offsets and lags of a group."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, cast

import pytest

from broker_cy.coordinator.share.state_calls import DeleteState, InitializeState
from broker_cy.coordinator.share_state.answers import Outcome, SummaryRead
from broker_cy.coordinator.share_state.state import SharePartitionKey
from broker_cy.coordinator_services.share_groups import ShareGroups
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.partition import PartitionImage
from broker_cy.metadata.topics import TopicImage
from broker_cy.wire import messages as m
from tests.broker_cy.coordinator.consumer_harness import Topics, topic_id

G = "sharers"
NODE_ID, LEADER_ID = 2, 1
AWAY = ErrorCode.COORDINATOR_NOT_AVAILABLE


class Persister:
    """Share partitions by index: their summaries, and what was asked."""

    def __init__(self) -> None:
        self.summaries: dict[int, SummaryRead] = {}
        self.asked: list[tuple[object, ...]] = []
        self.read: list[int] = []
        self.code = ErrorCode.NONE

    async def read_summary(self, key: SharePartitionKey) -> SummaryRead:
        self.read.append(key.partition)
        return self.summaries.get(key.partition, SummaryRead(start_offset=-1))

    async def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> Outcome:
        self.asked.append((key.partition, state_epoch, start_offset))
        return Outcome(self.code)

    async def delete(self, key: SharePartitionKey) -> Outcome:
        self.asked.append((key.group_id, key.partition))
        return Outcome(self.code)


class Calls:
    """The leader of all partitions: it has the end offsets `ends` by index."""

    def __init__(self) -> None:
        self.ends: dict[int, int] = {}
        self.error: KafkaError | None = None
        self.asked: list[tuple[int, m.ListOffsetsRequest]] = []

    async def ask(self, broker_id: int, request: Any, response: Any, **_: object) -> m.ListOffsetsResponse:
        self.asked.append((broker_id, request))
        if self.error is not None:
            raise self.error
        topic = m.ListOffsetsResponse.ListOffsetsTopicResponse
        part = m.ListOffsetsResponse.ListOffsetsPartitionResponse
        return m.ListOffsetsResponse(
            topics=[
                topic(
                    name=each.name,
                    partitions=[
                        part(partition_index=wanted.partition_index, offset=self.ends[wanted.partition_index])
                        if wanted.partition_index in self.ends
                        else part(partition_index=wanted.partition_index, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
                        for wanted in each.partitions
                    ],
                )
                for each in request.topics
            ]
        )


class NoOpenings:
    async def opened(self, partitions: Any) -> None:
        assert list(partitions) == []


class Fixture:
    def __init__(self) -> None:
        self.persister, self.calls, self.topics = Persister(), Calls(), Topics(t=4)
        parts = cast(Any, (NoOpenings(), self.persister, self.calls))
        self.groups = ShareGroups(NODE_ID, lambda: self.topics.image, cast(Any, {}), *parts)

    def lags(self, *partitions: int) -> dict[int, tuple[int, int, int, ErrorCode]]:
        """The start offset, leader epoch, lag and error of each partition."""
        (topic,) = run(self.groups.describe_offsets(G, {"t": partitions}))
        assert (topic.topic_name, topic.topic_id) == ("t", topic_id("t"))
        return {
            each.partition_index: (each.start_offset, each.leader_epoch, each.lag, ErrorCode(each.error_code))
            for each in topic.partitions
        }


def run(work: Awaitable[Any]) -> Any:
    async def whole() -> Any:
        return await work

    return asyncio.run(whole())


@pytest.fixture
def f() -> Fixture:
    return Fixture()


def test_the_lag_is_what_is_left_to_finish(f: Fixture) -> None:
    """If this fails, an operator sees a lag that no member can reduce, or none while records wait (KIP-1226)."""
    f.persister.summaries = {
        0: SummaryRead(state_epoch=2, leader_epoch=7, start_offset=10, delivery_complete_count=3),
        1: SummaryRead(state_epoch=2, leader_epoch=7, start_offset=10, delivery_complete_count=-1),
        2: SummaryRead(state_epoch=2, start_offset=-1),
        3: SummaryRead(AWAY, "away"),
    }
    f.calls.ends = {0: 25}
    assert f.lags(0, 1, 2, 3) == {
        0: (10, 7, 12, ErrorCode.NONE),
        1: (10, 7, -1, ErrorCode.NONE),
        2: (-1, 0, -1, ErrorCode.NONE),
        3: (-1, 0, -1, ErrorCode.NONE),
    }
    ((broker_id, request),) = f.calls.asked
    assert broker_id == LEADER_ID
    assert (request.replica_id, request.isolation_level) == (-1, 0)
    assert [(each.partition_index, each.timestamp) for each in request.topics[0].partitions] == [(0, -1)]


def test_an_end_that_is_not_known_is_an_error(f: Fixture) -> None:
    """If this fails, a partition whose leader is away has a lag of nothing."""
    f.persister.summaries = dict.fromkeys(
        range(4), SummaryRead(state_epoch=1, start_offset=0, delivery_complete_count=0)
    )
    assert f.lags(0)[0] == (0, 0, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    f.calls.error = KafkaError(ErrorCode.NETWORK_EXCEPTION)
    assert f.lags(0)[0][3] is ErrorCode.NETWORK_EXCEPTION
    f.calls.error = KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    assert f.lags(0)[0][3] is ErrorCode.UNKNOWN_SERVER_ERROR
    no_leader = PartitionImage((1,), (1,), -1, 0, 0)
    f.topics.image.topics.put(TopicImage("t", topic_id("t"), dict.fromkeys(range(4), no_leader)))
    assert f.lags(0)[0][3] is ErrorCode.LEADER_NOT_AVAILABLE


def test_missing_topics_have_no_offsets(f: Fixture) -> None:
    """If this fails, an administrator gets an error for a topic that was deleted."""
    (topic,) = run(f.groups.describe_offsets(G, {"missing": [3]}))
    assert (topic.topic_name, topic.topic_id.int) == ("missing", 0)
    assert [(each.partition_index, each.start_offset, each.lag) for each in topic.partitions] == [(3, -1, -1)]
    assert f.calls.asked == []


def test_missing_partitions_are_not_asked_for(f: Fixture) -> None:
    """If this fails, an administrator who names a partition that does not exist waits 15 s: the request to the share
    coordinator is repeated, since a partition that was just created may be unknown there.
    """
    f.persister.summaries[0] = SummaryRead(state_epoch=2, start_offset=10)
    assert f.lags(0, 4) == {0: (10, 0, -1, ErrorCode.NONE), 4: (-1, 0, -1, ErrorCode.NONE)}
    assert f.persister.read == [0]


def test_state_that_is_there_is_kept_if_that_is_asked_for(f: Fixture) -> None:
    """If this fails, a repeated initialization resets what was consumed (KAFKA-19204)."""
    f.persister.summaries = {
        0: SummaryRead(state_epoch=2, start_offset=9),
        1: SummaryRead(AWAY, "away"),
        3: SummaryRead(state_epoch=6, start_offset=9),
    }
    request = InitializeState(G, 5, {topic_id("t"): {0: -1, 1: -1, 2: -1, 3: -1}}, keeps=True)
    found = {key.partition: outcome.code for key, outcome in run(f.groups.initialize(request)).items()}
    # The state of partition 3 is that of an earlier group of this id.
    assert found == {0: ErrorCode.NONE, 1: AWAY, 2: ErrorCode.NONE, 3: ErrorCode.FENCED_STATE_EPOCH}
    assert f.persister.asked == [(2, 5, -1)]
    f.persister.asked.clear()
    run(f.groups.initialize(request._replace(keeps=False, start_offsets={topic_id("t"): {0: 30}})))
    assert f.persister.asked == [(0, 5, 30)]


def test_state_of_several_groups_is_deleted(f: Fixture) -> None:
    """If this fails, DeleteGroups leaves state of a group behind."""
    f.persister.code = AWAY
    partitions = {topic_id("t"): frozenset({1, 0})}
    found = run(f.groups.delete(DeleteState({"a": partitions, "b": partitions})))
    assert f.persister.asked == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert {outcome.code for outcome in found.values()} == {AWAY}
    assert {key.group_id for key in found} == {"a", "b"}
