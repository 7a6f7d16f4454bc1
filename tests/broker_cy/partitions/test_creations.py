"""Topics with many partitions, whose logs are created some at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.partitions import creations
from broker_cy.partitions.creations import Creations
from broker_cy.replica.partition import Partition
from broker_cy.storage.errors import StorageError
from broker_cy.storage.log_manager import LogManager
from broker_cy.wire import messages as m
from tests.broker_cy.coordinator_services.group_broker import GroupBroker, run, until
from tests.broker_cy.partitions.test_unopened import connected, offsets, produce

PARTITIONS = 9
AT_ONCE = 2


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of logs that are not created yet, after each turn that created some."""
    found: list[int] = []
    right = Creations._create_some

    def create_some(self: Creations) -> None:
        right(self)
        found.append(len(self._waiting))

    monkeypatch.setattr(creations, "AT_ONCE", AT_ONCE)
    monkeypatch.setattr(Creations, "_create_some", create_some)
    return found


async def create(broker: GroupBroker) -> None:
    topic = m.CreateTopicsRequest.CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1)
    answer = await broker.call(m.CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
    assert answer.topics[0].error_code == ErrorCode.NONE


def last_of(broker: GroupBroker) -> Partition:
    found = broker.server.broker.partitions.get("t", PARTITIONS - 1)
    assert found is not None
    return found


def test_a_broker_answers_while_it_creates_logs(tmp_path: Path, turns: list[int]) -> None:
    """If this fails, the creation of a large topic blocks a broker for seconds, or its last partitions reject the first
    records.
    """

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await create(broker)
            # AT_ONCE logs exist immediately. The client produces to the last partition before its log exists.
            assert last_of(broker).unopened
            async with connected(broker) as (client,):
                answer = await client.call(produce(("t", PARTITIONS - 1)), 9)
                assert offsets(answer) == [(0, 0)]
            await until(lambda: turns[-1:] == [0])
            assert turns == [5, 3, 1, 0]
            partitions = [broker.server.broker.partitions.get("t", index) for index in range(PARTITIONS)]
            assert all(each is not None and each.log is not None for each in partitions)

    run(work)


def test_a_topic_that_is_deleted_meanwhile_leaves_nothing(tmp_path: Path, turns: list[int]) -> None:
    """If this fails, logs of a deleted topic are created, and occupy the disk forever."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await create(broker)
            gone = await broker.call(m.DeleteTopicsRequest(topic_names=["t"], timeout_ms=10_000), 5)
            assert gone.responses[0].error_code == ErrorCode.NONE
            await until(lambda: turns[-1:] == [0])
            logs: Any = broker.server.broker.log_manager
            assert not [key for key in logs.logs if key[0] == "t"]

    run(work)


def test_a_log_that_cannot_be_created_is_tried_again(
    tmp_path: Path, turns: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a partition without room on the disk stays offline after there is some."""
    right = LogManager.create
    fails = [True]

    def create_log(self: LogManager, topic: str, index: int, *more: Any) -> Any:
        if fails[0] and index == PARTITIONS - 1:
            raise StorageError("no space left on device")
        return right(self, topic, index, *more)

    monkeypatch.setattr(LogManager, "create", create_log)

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await create(broker)
            await until(lambda: turns[-1:] == [0])
            last = last_of(broker)
            assert last.offline is not None
            assert "no space left on device" in last.offline
            fails[0] = False
            service: Any = broker.server._partitions
            service._last_retry_s = -1e9
            service.retry()
            assert last.offline is None

    run(work)
