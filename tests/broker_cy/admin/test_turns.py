"""Long computations of the admin core do not block a console's keys."""

from __future__ import annotations

import asyncio

from broker_cy.admin.address import Address
from broker_cy.admin.metadata import Metadata, PartitionInfo, TopicInfo, TopicPartition, _Cached
from broker_cy.admin.turns import URGENT, Turns
from broker_cy.core.uuid import ZERO
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
