"""A conversation of members of a share group with a broker, whose answers are compared with Kafka's."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from broker_cy.coordinator.share_state.state import SharePartitionKey
from broker_cy.wire import messages as m
from broker_cy.wire.records import Record, encode_batch
from tests.broker_cy.coordinator_services.group_client import ANSWER_S, Connection
from tests.broker_cy.share_service.share_broker import ACCEPT, GAP, REJECT, RELEASE, RENEW, Member, ranges

GROUP, UNKNOWN_ID = "g", UUID(int=77)
WAIT_MS = 15_000
BATCHES, RECORDS = 60, 4


class Conversation:
    """`told` has the labels and the answers, without texts of errors, and without records: Kafka also sends the batches
    that others hold.
    """

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.told: list[list[Any]] = []
        self.topic = UUID(int=0)
        self._connections: list[Connection] = []

    async def run(self) -> None:
        try:
            await self._prepare()
            await self._refused_sessions()
            await self._acknowledgements()
            await self._limits()
            await self._renewals()
            await self._ends()
        finally:
            for connection in self._connections:
                connection.writer.close()

    # ---- sections

    async def _refused_sessions(self) -> None:
        a = await self.member("a")
        for epoch in (1, -1):
            await self.fetch(f"fetch without a session, epoch {epoch}", a, self.topic, epoch=epoch)
            await self.acknowledge(f"acknowledge without a session, epoch {epoch}", a, epoch=epoch)
        await self.acknowledge("acknowledge with epoch 0", a, epoch=0)
        await self.fetch("acknowledge with the first fetch", a, self.topic, acks=[(0, 0, [ACCEPT])])
        for name in ("", "x" * 37):
            await self.fetch(f"a member id of {len(name)}", await self.member(name), self.topic)
        stranger = await self.member("stranger")
        # Not a fetch of an unknown topic: Kafka's handler fails on it.
        await self.fetch("open", stranger, self.topic, max_bytes=0)
        await self.acknowledge("acknowledge an unknown topic", stranger, (0, 0, [ACCEPT]), topic=UNKNOWN_ID)
        await self.fetch("wrong epoch", stranger, epoch=9)
        await self.fetch("unknown partition", stranger, self.topic, partitions=[9], max_bytes=0)
        await self.fetch("no mode", stranger, self.topic, mode=7)
        await self.acknowledge("acknowledge without a share partition", stranger, (0, 0, [ACCEPT]))
        await self.fetch("close", stranger, epoch=-1)
        await self.fetch("closed", stranger, epoch=stranger.epoch)

    async def _acknowledgements(self) -> None:
        a, b = await self.member("a"), await self.member("b", version=1)
        await self.fetch("first fetch", a, self.topic, wait_ms=WAIT_MS, max_records=6)
        await self.fetch("first fetch of another member", b, self.topic, max_records=1)
        for label, batch in {
            "first after last": (3, 2, [ACCEPT]),
            "no types": (0, 3, []),
            "two types for four": (0, 3, [ACCEPT, ACCEPT]),
            "unknown type": (0, 0, [5]),
            "negative type": (0, 0, [-1]),
            "renewal without its flag": (0, 0, [RENEW]),
            "record of another member": (8, 8, [ACCEPT]),
            "record that nobody has": (13, 13, [ACCEPT]),
            "beyond the end": (0, 200, [ACCEPT]),
        }.items():
            await self.acknowledge(label, a, batch)
        await self.acknowledge("a renewal of version 1", b, (8, 8, [RENEW]))
        await self.acknowledge("out of order", a, (2, 3, [ACCEPT]), (0, 1, [ACCEPT]))
        await self.acknowledge("one is wrong", a, (0, 1, [ACCEPT]), (8, 8, [ACCEPT]))
        await self.acknowledge("mixed", a, (0, 3, [ACCEPT, RELEASE, REJECT, GAP]), (4, 5, [RELEASE]))
        await self.fetch("released ones", b, max_records=2)
        await self.acknowledge("again", a, (0, 0, [ACCEPT]))
        await self.acknowledge("released to another one", a, (1, 1, [ACCEPT]))
        await self.fetch("with acknowledgements", b, self.topic, acks=[(1, 1, [ACCEPT])], max_records=0)
        await self.fetch("with a wrong acknowledgement", b, self.topic, acks=[(1, 0, [ACCEPT])], max_records=0)
        await self.acknowledge("nothing", a)
        await self.acknowledge("the rest", a, (6, 7, [ACCEPT]))

    async def _limits(self) -> None:
        c = await self.member("c")
        await self.fetch("record limit", c, self.topic, max_records=3, mode=1)
        await self.fetch("record limit goes on", c, max_records=3, mode=1)
        await self.fetch("batch size", c, max_records=8, batch_size=4)
        await self.fetch("a large batch size", c, max_records=8, batch_size=100)
        await self.fetch("few bytes", c, max_bytes=1)
        await self.fetch("no records wanted", c, max_records=0)
        await self.fetch("no bytes wanted", c, max_bytes=0)
        await self.fetch("many bytes wanted", c, min_bytes=1 << 20, max_records=1)
        await self.fetch("all", c, max_records=40)

    async def _renewals(self) -> None:
        d = await self.member("d")
        await self.fetch("for renewals", d, self.topic, max_records=1)
        first = d.last.responses[0].partitions[0].acquired_records[0].first_offset
        await self.acknowledge("renew", d, (first, first, [RENEW]), renew=True)
        nothing: dict[str, Any] = {"max_records": 0, "min_bytes": 0, "max_bytes": 0}
        await self.fetch("renew with a fetch", d, self.topic, acks=[(first, first, [RENEW])], renew=True, **nothing)
        for name, value in (("max_records", 1), ("min_bytes", 1), ("max_bytes", 1), ("wait_ms", 1)):
            await self.fetch(f"renew with {name}", d, renew=True, **{**nothing, name: value})
        await self.acknowledge("renew and accept", d, (first, first + 1, [RENEW, ACCEPT]), renew=True)

    async def _ends(self) -> None:
        e, f = await self.member("e"), await self.member("f")
        await self.fetch("before the end", e, self.topic, max_records=1)
        first = e.last.responses[0].partitions[0].acquired_records[0].first_offset
        await self.acknowledge("the last acknowledgement", e, (first, first, [ACCEPT]), epoch=-1)
        await self.fetch("of the member that left", f, self.topic, wait_ms=WAIT_MS, max_records=3)
        await self.fetch("forget", f, self.topic, partitions=[], forget=[0])
        await self.fetch("after it", f)
        # Until the share partition of the other partition is loaded.
        await self.fetch("add both", f, self.topic, partitions=[0, 1], max_records=1, min_bytes=1 << 20, wait_ms=2000)
        await self.fetch("add both again", f, self.topic, partitions=[0, 1], max_records=1)
        await self.fetch("the last fetch", f, epoch=-1)
        await self.acknowledge("after the end", f)

    # ---- requests

    async def member(self, name: str, version: int = 2) -> Member:
        connection = Connection(*await asyncio.open_connection(self.host, self.port))
        self._connections.append(connection)
        return Member(connection, GROUP, name, version)

    async def fetch(self, label: str, member: Member, topic: UUID | None = None, **how: Any) -> None:
        await member.fetch(topic, **how)
        self._tell(label, member)

    async def acknowledge(
        self, label: str, member: Member, *acks: tuple[int, int, list[int]], topic: UUID | None = None, **how: Any
    ) -> None:
        await member.acknowledge(topic or self.topic, *acks, **how)
        self._tell(label, member)

    def _tell(self, label: str, member: Member) -> None:
        answer = member.last
        parts = [
            [
                part.partition_index,
                part.error_code,
                getattr(part, "acknowledge_error_code", 0),
                [part.current_leader.leader_id, part.current_leader.leader_epoch],
                sorted(map(list, ranges(part))) if hasattr(part, "acquired_records") else [],
            ]
            for topic in answer.responses
            for part in topic.partitions
        ]
        lock_ms = getattr(answer, "acquisition_lock_timeout_ms", 0)
        self.told.append([label, answer.error_code, lock_ms, sorted(parts), len(answer.node_endpoints)])

    async def _prepare(self) -> None:
        """Create the topic with its records, and the state of the group."""
        admin = (await self.member("admin")).connection
        topic = m.CreateTopicsRequest.CreatableTopic(name="t", num_partitions=2, replication_factor=1)
        created = await admin.call(m.CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        assert created.topics[0].error_code == 0
        self.topic = created.topics[0].topic_id
        batch = encode_batch([Record(timestamp=0, value=b"v" * 10)] * RECORDS)
        produce = m.ProduceRequest
        part = produce.PartitionProduceData(index=0, records=batch)
        data = produce.TopicProduceData(name="t", topic_id=self.topic, partition_data=[part])
        async with asyncio.timeout(ANSWER_S):
            for _ in range(BATCHES):
                while (
                    (await admin.call(produce(acks=-1, timeout_ms=10_000, topic_data=[data]), 13))
                    .responses[0]
                    .partition_responses[0]
                    .error_code
                ):
                    await asyncio.sleep(0.05)
            for index in range(2):
                while not await self._initialized(admin, index):
                    await asyncio.sleep(0.05)

    async def _initialized(self, admin: Connection, index: int) -> bool:
        key = SharePartitionKey(GROUP, self.topic, index).text
        found = await admin.call(m.FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 6)
        if found.coordinators[0].error_code:
            return False
        request = m.InitializeShareGroupStateRequest
        part = request.PartitionData(partition=index, state_epoch=1, start_offset=0)
        topic = request.InitializeStateData(topic_id=self.topic, partitions=[part])
        answer = await admin.call(request(group_id=GROUP, topics=[topic]), 0)
        return bool(answer.results[0].partitions[0].error_code == 0)
