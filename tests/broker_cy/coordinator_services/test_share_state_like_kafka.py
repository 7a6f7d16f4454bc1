"""The same conversation with the share coordinators of Apache Kafka 4.3.1 and of this broker, over sockets: the same
responses. The log that Kafka wrote in it opens in this broker.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import uvloop

from broker_cy.coordinator.share_state.settings import ShareStateSettings
from broker_cy.coordinator.share_state.share_state_machine import ShareStateMachine
from broker_cy.core.errors import ErrorCode
from broker_cy.core.uuid import to_text
from broker_cy.wire import messages as m
from broker_cy.wire.records import decode_batches
from tests.broker_cy.coordinator_services.group_broker import GroupBroker
from tests.broker_cy.coordinator_services.group_client import ANSWER_S, Script
from tests.support import needs, recorded
from tests.support.kafka_peer import KafkaPeer

TOPIC = "__share_group_state"
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "2",
}
PARTITIONS = 4
GROUP = "a:b"


class Conversation:
    """Requests about the share partitions of one topic."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.topic_id = UUID(int=0)

    async def run(self) -> None:
        await self.script.connect()
        await self._prepare()
        await self._uninitialized()
        await self._epochs()
        await self._batches()
        await self._deletion()
        await self._without_content()
        for index in range(PARTITIONS):
            await self.read(f"the end of {index}", index)

    async def _prepare(self) -> None:
        topic = m.CreateTopicsRequest.CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1)
        created = await self.script.connections[0].call(m.CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        assert created.topics[0].error_code == 0
        self.topic_id = created.topics[0].topic_id
        self.script.name(str(self.topic_id))
        async with asyncio.timeout(ANSWER_S):
            while not await self._coordinated():
                await asyncio.sleep(0.05)
        text = "t" * 22
        for key in ("a", "a:b", f":{text}:1", f"a:{text}:x", f"a:{text}"):
            request = m.FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
            found = (await self.script.connections[0].call(request, 6)).coordinators[0]
            self.script.told.append([f"find {key}", [found.error_code, found.node_id]])
        request = m.FindCoordinatorRequest(key_type=2, coordinator_keys=[f"a:{text}:1"])
        found = (await self.script.connections[0].call(request, 5)).coordinators[0]
        self.script.told.append(["find with version 5", [found.error_code, found.node_id]])

    async def _coordinated(self) -> bool:
        """Whether the coordinators of all share partitions answer."""
        for index in range(PARTITIONS):
            key = f"{GROUP}:{to_text(self.topic_id)}:{index}"
            request = m.FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
            found = (await self.script.connections[0].call(request, 6)).coordinators[0]
            if found.error_code:
                return False
            summary = (await self.script.connections[0].call(self._summary(index), 1)).results[0].partitions[0]
            if summary.error_code:
                return False
        return True

    async def _uninitialized(self) -> None:
        await self.write("write before the beginning", 0, (0, 4, 1, 2))
        await self.read("read before the beginning", 0)
        await self.summary("summary before the beginning", 0)
        await self.delete("delete before the beginning", 0)
        for index in (-1, PARTITIONS):
            await self.initialize(f"initialize {index}", index, 1)
            await self.write(f"write {index}", index)
            await self.read(f"read {index}", index)
            await self.summary(f"summary {index}", index)
            await self.delete(f"delete {index}", index)

    async def _epochs(self) -> None:
        await self.initialize("begin", 0, 5, 10)
        await self.initialize("begin with an old epoch", 0, 4, 10)
        await self.initialize("begin without an epoch", 0, -1, 10)
        await self.initialize("begin again", 0, 5, 10)
        await self.read("a leader", 0, 3)
        await self.read("an old leader", 0, 2)
        await self.write("a write of an old leader", 0, (10, 14, 1, 2), leader_epoch=2)
        await self.write("a write of an old state epoch", 0, (10, 14, 1, 2), state_epoch=4)
        await self.write("a write of both", 0, leader_epoch=2, state_epoch=4)
        await self.write("a write of the future", 0, leader_epoch=9, state_epoch=9)
        await self.write("a write of the leader", 0, (10, 14, 1, 2), leader_epoch=3, state_epoch=5)
        await self.summary("a summary", 0)
        await self.summary("a summary", 0, 0)

    async def _batches(self) -> None:
        await self.initialize("begin 1", 1, 0)
        for number in range(7):
            await self.write(f"write {number}", 1, (number * 2, number * 2 + 4, 1 + number % 3, (0, 2, 4)[number % 3]))
            await self.read(f"read {number}", 1)
        await self.write("write without a count", 1, (30, 31, 1, 0), version=0)
        await self.write("two that overlap", 1, (40, 49, 1, 0), (45, 54, 1, 2))
        await self.write("move the start", 1, start_offset=42, complete=3)
        await self.read("the result", 1)
        await self.summary("the result", 1)

    async def _deletion(self) -> None:
        await self.initialize("begin 2", 2, 3)
        await self.delete("delete 2", 2)
        await self.write("write after the end", 2)
        await self.initialize("begin 2 with an epoch before the deletion", 2, 1)
        await self.read("read 2", 2)

    async def _without_content(self) -> None:
        for request in (
            m.InitializeShareGroupStateRequest(group_id=GROUP),
            m.ReadShareGroupStateRequest(group_id=GROUP),
            m.WriteShareGroupStateRequest(group_id=GROUP),
            m.DeleteShareGroupStateRequest(group_id=GROUP),
            m.ReadShareGroupStateSummaryRequest(group_id=GROUP),
        ):
            await self.script.ask(f"{type(request).__name__} without topics", request, 0)
        topic = m.ReadShareGroupStateRequest.ReadStateData(topic_id=self.topic_id)
        await self.script.ask("no partitions", m.ReadShareGroupStateRequest(group_id=GROUP, topics=[topic]), 0)
        topic.partitions = [m.ReadShareGroupStateRequest.PartitionData(partition=0, leader_epoch=-1)]
        await self.script.ask("no group", m.ReadShareGroupStateRequest(group_id="", topics=[topic]), 0)
        unknown = m.ReadShareGroupStateRequest.ReadStateData(topic_id=UUID(int=77), partitions=topic.partitions)
        both = m.ReadShareGroupStateRequest(group_id=GROUP, topics=[topic, unknown])
        await self.script.ask("an unknown topic", both, 0)

    # ---- requests in short form ----

    async def initialize(self, label: str, index: int, state_epoch: int, start_offset: int = -1) -> None:
        request = m.InitializeShareGroupStateRequest
        partition = request.PartitionData(partition=index, state_epoch=state_epoch, start_offset=start_offset)
        topic = request.InitializeStateData(topic_id=self.topic_id, partitions=[partition])
        await self.script.ask(label, request(group_id=GROUP, topics=[topic]), 0)

    async def read(self, label: str, index: int, leader_epoch: int = -1) -> None:
        request = m.ReadShareGroupStateRequest
        partition = request.PartitionData(partition=index, leader_epoch=leader_epoch)
        topic = request.ReadStateData(topic_id=self.topic_id, partitions=[partition])
        await self.script.ask(label, request(group_id=GROUP, topics=[topic]), 0)

    async def write(
        self,
        label: str,
        index: int,
        *batches: tuple[int, int, int, int],
        leader_epoch: int = -1,
        state_epoch: int = -1,
        start_offset: int = -1,
        complete: int = -1,
        version: int = 1,
    ) -> None:
        request = m.WriteShareGroupStateRequest
        partition = request.PartitionData(
            partition=index,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=complete,
            state_batches=[
                request.StateBatch(first_offset=first, last_offset=last, delivery_count=count, delivery_state=state)
                for first, last, count, state in batches
            ],
        )
        topic = request.WriteStateData(topic_id=self.topic_id, partitions=[partition])
        await self.script.ask(label, request(group_id=GROUP, topics=[topic]), version)

    async def delete(self, label: str, index: int) -> None:
        request = m.DeleteShareGroupStateRequest
        topic = request.DeleteStateData(topic_id=self.topic_id, partitions=[request.PartitionData(partition=index)])
        await self.script.ask(label, request(group_id=GROUP, topics=[topic]), 0)

    def _summary(self, index: int) -> Any:
        request = m.ReadShareGroupStateSummaryRequest
        partition = request.PartitionData(partition=index, leader_epoch=-1)
        topic = request.ReadStateSummaryData(topic_id=self.topic_id, partitions=[partition])
        return request(group_id=GROUP, topics=[topic])

    async def summary(self, label: str, index: int, version: int = 1) -> None:
        await self.script.ask(label, self._summary(index), version)


async def talk(host: str, port: int) -> list[list[Any]]:
    script = Script(host, port)
    try:
        await Conversation(script).run()
    finally:
        await script.close()
    return script.told


def entries_of(logs: list[bytes]) -> dict[int, tuple[int, int, list[list[int]]]]:
    """The state epoch, start offset and batches of each partition, from the logs of the coordinator."""
    found = {}
    for data in logs:
        machine = ShareStateMachine(ShareStateSettings())
        for batch in decode_batches(data):
            assert batch.is_valid()
            for record in batch.records():
                assert record.key is not None
                machine.apply(record.offset, -1, record.key, record.value)
        assert machine.unknown_records == 0
        for key, entry in machine.entries.items():
            assert key.group_id == GROUP
            state = entry.state
            found[key.partition] = (state.state_epoch, state.start_offset, [list(each) for each in state.batches])
    return found


def last_reads(told: list[list[Any]]) -> dict[int, tuple[int, int, list[list[int]]]]:
    """The same, as the last reads were answered."""
    found = {}
    for label, answer in told:
        if label.startswith("the end of "):
            (partition,) = answer["results"][0]["partitions"]
            if partition["error_code"] == ErrorCode.NONE:
                names = ("first_offset", "last_offset", "delivery_count", "delivery_state")
                batches = sorted([each[name] for name in names] for each in partition["state_batches"])
                found[partition["partition"]] = (partition["state_epoch"], partition["start_offset"], batches)
    return found


def test_the_responses_are_kafkas(tmp_path: Path) -> None:
    """If this fails, Kafka's brokers and group coordinators do not work with this share coordinator."""

    async def run() -> None:
        async with GroupBroker(tmp_path, SETTINGS) as broker:
            host, port = "127.0.0.1", broker.server.listeners[0].port
            wanted = recorded.of_kafka("share_state_requests")
            told = recorded.as_recorded(await talk(host, port))
            assert [label for label, _ in told] == [label for label, _ in wanted]
            for (label, ours), (_, kafkas) in zip(told, wanted, strict=True):
                assert ours == kafkas, label

    uvloop.run(run())


def test_a_log_of_kafka_opens() -> None:
    """If this fails, a migration from Apache Kafka loses what share groups have consumed."""
    entries = entries_of([bytes.fromhex(log) for log in recorded.of_kafka("share_state_log")])
    assert len(entries) == 3
    assert entries == last_reads(recorded.of_kafka("share_state_requests"))


@pytest.mark.full
@needs.kafka
def test_the_recorded_responses_are_current(tmp_path: Path) -> None:
    """If this fails, the tests above compare with responses that Kafka does not give, or Kafka's log does not open."""
    kafka = KafkaPeer(tmp_path, SETTINGS)
    kafka.start()
    try:
        told = recorded.as_recorded(uvloop.run(talk(kafka.host, kafka.port)))
        kafka.stop()
        logs = [path.read_bytes() for path in sorted(kafka.data_dir.glob(f"{TOPIC}-*/00000000000000000000.log"))]
    finally:
        kafka.close()
    assert entries_of(logs) == last_reads(told)
    recorded.keep("share_state_log", [log.hex() for log in logs])
    recorded.check("share_state_requests", told)
