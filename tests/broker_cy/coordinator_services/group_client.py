"""A client for conversations about groups: it makes the requests and records the responses."""

from __future__ import annotations

import asyncio
import json
import re
import struct
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import codec, messages
from broker_cy.wire import frame as wire_frame
from broker_cy.wire.frame import ApiKey, request_header_version, response_header_version

ANSWER_S = 20.0
LOADED_S = 60.0
_GENERATED = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

m = messages


class Connection:
    """One client; a request that waits can be left waiting while others send requests."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def call(self, request: Any, version: int) -> Any:
        key = next(key for key in ApiKey if wire_frame.request_class(key) is type(request))
        header = struct.pack(">hhih", key, version, 1, 4) + b"test"
        if request_header_version(key, version) >= 2:
            header += b"\0"
        body = codec.encode(request, version)
        self.writer.write(struct.pack(">i", len(header) + len(body)) + header + body)
        async with asyncio.timeout(ANSWER_S):
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            data = await self.reader.readexactly(size)
        skip = 5 if response_header_version(key, version) >= 1 else 4
        response_class: Any = getattr(messages, type(request).__name__.replace("Request", "Response"))
        return codec.decode(response_class, version, data[skip:])

    async def described(self, request: Any, version: int) -> Any:
        """The group that a describe request names, once the coordinator has loaded it."""
        async with asyncio.timeout(LOADED_S):
            while (found := (await self.call(request, version)).groups[0]).error_code:
                assert found.error_code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
                await asyncio.sleep(0.1)
        return found


class Script:
    """Sends requests and records the responses, with generated ids replaced by their order of appearance."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.told: list[list[Any]] = []
        self.names: dict[str, str] = {}
        self.connections: list[Connection] = []

    async def connect(self) -> Connection:
        connection = Connection(*await asyncio.open_connection(self.host, self.port))
        self.connections.append(connection)
        return connection

    async def close(self) -> None:
        for connection in self.connections:
            connection.writer.close()

    def note(self, label: str, response: Any) -> Any:
        self.told.append([label, self.plain(response)])
        return response

    def plain(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return sorted((self.plain(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
        if isinstance(value, bytes):
            return value.hex()
        if isinstance(value, UUID):
            return "-" if value.int == 0 else self.name(str(value))
        if isinstance(value, str):
            return _GENERATED.sub(lambda found: self.name(found.group()), value)
        if hasattr(value, "__slots__"):
            fields = [name for name in type(value).__slots__ if not name.startswith("_")]
            told = [name for name in fields if name not in ("throttle_time_ms", "port")]
            return {name: self.plain(getattr(value, name)) for name in told}
        return value

    def name(self, generated: str) -> str:
        return self.names.setdefault(generated, f"<{len(self.names)}>")

    async def ask(self, label: str, request: Any, version: int, connection: Connection | None = None) -> Any:
        connection = connection or self.connections[0]
        return self.note(f"{label} v{version}", await connection.call(request, version))

    async def until_coordinated(self, group_ids: Iterable[str]) -> None:
        for group_id in group_ids:
            async with asyncio.timeout(ANSWER_S):
                while True:
                    found = await self.connections[0].call(m.FindCoordinatorRequest(coordinator_keys=[group_id]), 4)
                    listed = await self.connections[0].call(m.ListGroupsRequest(), 4)
                    ready = found.coordinators[0].error_code == 0 and listed.error_code == 0
                    if ready and await self.answers(group_id):
                        break
                    await asyncio.sleep(0.05)

    async def answers(self, group_id: str) -> bool:
        group = m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=[])
        answer = await self.connections[0].call(m.OffsetFetchRequest(groups=[group]), 8)
        return bool(answer.groups[0].error_code == 0)


# ---- requests in short form ----


def join(group_id: str, member_id: str = "", **how: Any) -> Any:
    protocols = how.pop("protocols", (("range", subscription("t")),))
    fields = {"session_timeout_ms": 60_000, "rebalance_timeout_ms": 60_000, "protocol_type": "consumer", **how}
    return m.JoinGroupRequest(
        group_id=group_id,
        member_id=member_id,
        protocols=[m.JoinGroupRequest.JoinGroupRequestProtocol(name=n, metadata=d) for n, d in protocols],
        **fields,
    )


def subscription(*topics: str) -> bytes:
    out = struct.pack(">hi", 0, len(topics))
    for topic in topics:
        out += struct.pack(">h", len(topic)) + topic.encode()
    return out + struct.pack(">i", -1)


def sync(group_id: str, member_id: str, generation: int, assignment: dict[str, bytes] | None = None, **how: Any) -> Any:
    return m.SyncGroupRequest(
        group_id=group_id,
        member_id=member_id,
        generation_id=generation,
        assignments=[
            m.SyncGroupRequest.SyncGroupRequestAssignment(member_id=i, assignment=a)
            for i, a in (assignment or {}).items()
        ],
        **how,
    )


def heartbeat(group_id: str, member_id: str, generation: int, **how: Any) -> Any:
    return m.HeartbeatRequest(group_id=group_id, member_id=member_id, generation_id=generation, **how)


def leave(group_id: str, *members: tuple[str, str | None]) -> Any:
    return m.LeaveGroupRequest(
        group_id=group_id,
        members=[m.LeaveGroupRequest.MemberIdentity(member_id=i, group_instance_id=s) for i, s in members],
    )


def commit(group_id: str, *offsets: tuple[str, int, int], metadata: str | None = "", **how: Any) -> Any:
    return m.OffsetCommitRequest(
        group_id=group_id,
        topics=[
            m.OffsetCommitRequest.OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    m.OffsetCommitRequest.OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offset, committed_metadata=metadata
                    )
                ],
            )
            for topic, index, offset in offsets
        ],
        **how,
    )


def fetch(group_id: str, topics: dict[str, list[int]] | None, **how: Any) -> Any:
    asked = None
    if topics is not None:
        asked = [
            m.OffsetFetchRequest.OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
            for name, indexes in topics.items()
        ]
    group = m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=asked, **how)
    return m.OffsetFetchRequest(groups=[group])


def old_fetch(group_id: str, topics: dict[str, list[int]] | None) -> Any:
    asked = None
    if topics is not None:
        asked = [
            m.OffsetFetchRequest.OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
            for name, indexes in topics.items()
        ]
    return m.OffsetFetchRequest(group_id=group_id, topics=asked)


def delete_offsets(group_id: str, topics: dict[str, list[int]]) -> Any:
    return m.OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            m.OffsetDeleteRequest.OffsetDeleteRequestTopic(
                name=name,
                partitions=[m.OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=i) for i in indexes],
            )
            for name, indexes in topics.items()
        ],
    )
