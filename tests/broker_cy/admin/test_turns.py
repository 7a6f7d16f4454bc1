"""Long computations of the admin core do not block a console's keys."""

from __future__ import annotations

import asyncio

import pytest

from broker_cy.admin.address import Address
from broker_cy.admin.metadata import Metadata, PartitionInfo, TopicInfo, TopicPartition, _Cached
from broker_cy.client import pool
from broker_cy.client.errors import ClientError
from broker_cy.client.turns import URGENT, Turns
from broker_cy.core.errors import WireError
from broker_cy.core.uuid import ZERO
from broker_cy.wire import codec, messages
from tests.support.loop_turns import counted_turns


def test_a_turn_ends_only_when_its_time_is_over() -> None:
    """If this fails, a list of 10,000 partitions blocks the keyboard; or each of its parts waits for all other
    tasks.
    """

    async def others_ran(turn_s: float) -> int:
        turns = Turns(turn_s)
        with counted_turns() as others:
            for _ in range(10):
                await turns.pause()
        return others.count

    assert asyncio.run(others_ran(0.0)) == 10
    assert asyncio.run(others_ran(1e9)) == 0


def test_a_computation_waits_for_what_is_urgent() -> None:
    """If this fails, each computation runs a part between the twenty iterations of the loop that a key takes."""

    async def job() -> None:
        parts = 0

        async def compute() -> None:
            nonlocal parts
            turns = Turns(0.0)
            for _ in range(1_000):
                await turns.pause()
                parts += 1

        task = asyncio.create_task(compute())
        with URGENT.under_way():
            await asyncio.sleep(0)
            before = parts
            for _ in range(20):
                await asyncio.sleep(0)
            # At most those whose wait has ended: they continue even if there is always something urgent.
            assert parts - before <= 2
            while parts < 2:
                await asyncio.sleep(0.001)
        await task
        assert parts == 1_000

    asyncio.run(job())


def test_leaders_are_found_where_partitions_are_left_out() -> None:
    """If this fails, a request goes to the leader of another partition."""
    metadata = Metadata(None, [Address("127.0.0.1", 1)])  # type: ignore[arg-type]
    parts = tuple(PartitionInfo(number, 10 + number, 0, (1,), (1,), ()) for number in (0, 1, 3))
    metadata._topics["t"] = _Cached(TopicInfo("t", ZERO, False, parts), 1e18)
    found = [metadata.leader_of(TopicPartition("t", number)) for number in (0, 1, 2, 3, 4, -1)]
    assert found == [10, 11, None, 13, None, None]
    assert metadata.leader_of(TopicPartition("u", 0)) is None


def test_others_run_while_a_large_answer_is_decoded() -> None:
    """If this fails, a dashboard of 200,000 partitions answers no request for a tenth of a second every five
    seconds.
    """
    answer = messages.MetadataResponse
    parts = [answer.MetadataResponsePartition(partition_index=number) for number in range(20_000)]
    whole = answer(topics=[answer.MetadataResponseTopic(name="t", partitions=parts)])
    data = memoryview(codec.encode(whole, 12))

    async def job() -> int:
        with counted_turns() as others:
            assert await pool._decoded_in_turns(answer, 12, data, "1", "Metadata", Turns(0.0)) == whole
            with pytest.raises(ClientError, match=r"answer in version 12 is malformed: MetadataResponse"):
                await pool._decoded_in_turns(answer, 12, data[:-1], "1", "Metadata", Turns(0.0))
        return others.count

    assert asyncio.run(job()) >= 40


def test_an_answer_may_have_more_elements_than_a_request() -> None:
    """If this fails, no console shows a cluster of 200,000 partitions with three replicas."""
    answer = messages.MetadataResponse
    replicas = list(range(1_000))
    parts = [answer.MetadataResponsePartition(replica_nodes=replicas) for _ in range(1_001)]
    data = memoryview(codec.encode(answer(topics=[answer.MetadataResponseTopic(name="t", partitions=parts)]), 12))
    with pytest.raises(WireError, match="more than 1000000 elements"):
        codec.decode(answer, 12, data)
    found = asyncio.run(pool._decoded_in_turns(answer, 12, data, "1", "Metadata", Turns()))
    assert len(found.topics[0].partitions) == 1_001


def test_a_topic_that_has_not_changed_is_the_same_object() -> None:
    """If this fails, everything that is known of a large cluster is made and freed at each refresh, which blocks."""
    answer = messages.MetadataResponse

    def topics(*leaders: int) -> messages.MetadataResponse:
        return answer(
            topics=[
                answer.MetadataResponseTopic(
                    name=f"t{number}", partitions=[answer.MetadataResponsePartition(leader_id=leader)]
                )
                for number, leader in enumerate(leaders)
            ]
        )

    async def job() -> None:
        metadata = Metadata(None, [Address("127.0.0.1", 1)])  # type: ignore[arg-type]
        first, _ = await metadata._remember(topics(1, 1), None, "1")
        second, _ = await metadata._remember(topics(1, 2), None, "1")
        assert list(second) == ["t0", "t1"]
        assert second["t0"] is first["t0"]
        assert [each.partitions[0].leader_id for each in second.values()] == [1, 2]

    asyncio.run(job())
