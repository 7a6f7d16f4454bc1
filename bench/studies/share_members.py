"""Members of one share group (KIP-932) in one thread, each with a connection of its own. Each acknowledges what a fetch
has brought with its next one. The study of share consumers drives them.
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections.abc import Callable
from uuid import UUID

from bench.targets.brokers import Address, TargetError
from bench.wire import protocol
from bench.wire.framing import exactly, frame
from broker_cy.wire import codec, messages

HEARTBEAT, HEARTBEAT_VERSION = 76, 1
FETCH, FETCH_VERSION = 78, 2
JOIN_EPOCH, LEAVE_EPOCH = 0, -1
RETRIABLE = (14, 15, 16)  # COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
JOIN_S, JOIN_PAUSE_S, STALL_S = 60.0, 0.2, 30.0
# The defaults of Kafka's consumers, apart from the wait: at the end of a topic, the members wait for each other.
RECORDS_MAX, BYTES_MAX = 500, 50 << 20
WAIT_MS = 100
ACCEPT = 1
# The reader of an answer starts after the size, the correlation id, and the tags of its header.
HEAD_BYTES = 5
Request = messages.ShareFetchRequest
Records = Callable[[bytes], None]


class Member:
    """`held` are the acquired ranges, by partition, that its next fetch acknowledges; `told` those of its last one."""

    def __init__(self, member_id: str, address: Address) -> None:
        self.member_id = member_id
        self.epoch = JOIN_EPOCH
        self.session_epoch = 0
        self.owned: dict[UUID, list[int]] = {}
        self.held: dict[tuple[UUID, int], list[tuple[int, int]]] = {}
        self.told: dict[tuple[UUID, int], int] = {}
        self.socket = socket.create_connection(address[:2], STALL_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def partitions(self) -> int:
        return sum(map(len, self.owned.values()))

    def ask(self, key: int, version: int, body: bytes) -> None:
        self.socket.sendall(frame(key, version, body))

    def answer(self) -> memoryview:
        size = struct.unpack(">i", exactly(self.socket, 4))[0]
        data = bytearray(size)
        view = memoryview(data)
        while view:
            view = view[self.socket.recv_into(view) or _ended() :]
        return memoryview(data)[HEAD_BYTES:]


def _ended() -> int:
    raise TargetError("the broker closed the connection of a member")


class Members:
    """`acknowledged` counts records since the members were made. `on_records` gets the batches of each answer."""

    def __init__(self, address: Address, group: str, topic: str, count: int) -> None:
        self.acknowledged = 0
        self.on_records: Records | None = None
        self._group, self._topic = group, topic
        self._members = [Member(str(UUID(int=number + 1)), address) for number in range(count)]
        self.selector = selectors.DefaultSelector()
        for member in self._members:
            self.selector.register(member.socket, selectors.EVENT_READ, member)

    def close(self) -> None:
        for member in self._members:
            member.socket.close()
        self.selector.close()

    def join(self, owned: int) -> None:
        """Send heartbeats until the members have `owned` partitions in all; a partition may have several members."""
        end_s = time.monotonic() + JOIN_S
        while not all(member.partitions for member in self._members) or (
            sum(member.partitions for member in self._members) < owned
        ):
            if time.monotonic() > end_s:
                raise TargetError(f"share group {self._group}: no assignment after {JOIN_S:g} s")
            for member in self._members:
                self._beat(member)
            time.sleep(JOIN_PAUSE_S)

    def leave(self) -> None:
        for member in self._members:
            member.epoch = LEAVE_EPOCH
            self._beat(member)

    def _beat(self, member: Member) -> None:
        request = messages.ShareGroupHeartbeatRequest(
            group_id=self._group, member_id=member.member_id, member_epoch=member.epoch
        )
        if member.epoch == JOIN_EPOCH:
            request.subscribed_topic_names = [self._topic]
        else:
            request.subscribed_topic_names = None
        member.ask(HEARTBEAT, HEARTBEAT_VERSION, codec.encode(request, HEARTBEAT_VERSION))
        answer = codec.decode(messages.ShareGroupHeartbeatResponse, HEARTBEAT_VERSION, member.answer())
        if answer.error_code in RETRIABLE:
            return
        if answer.error_code:
            raise TargetError(f"ShareGroupHeartbeat: error {answer.error_code}: {answer.error_message}")
        member.epoch = answer.member_epoch
        if answer.assignment is not None:
            member.owned = {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}

    # ---- fetches

    def begin(self) -> None:
        """Each member sends its first fetch."""
        for member in self._members:
            self._fetch(member)

    def end(self) -> None:
        """Acknowledge what is held, end the sessions, and leave the group."""
        for member in self._members:
            self._take(member)
            member.session_epoch = -1
            self._fetch(member)
            self._take(member)
        self.leave()

    def serve(self, ready: list[tuple[selectors.SelectorKey, int]]) -> None:
        """Take the answers that have arrived, and fetch again."""
        for key, _ in ready:
            if isinstance(key.data, Member):
                self._take(key.data)
                self._fetch(key.data)

    def run(self, acknowledged: int) -> None:
        """Fetch until so many records are acknowledged. Raises TargetError if there is no progress for STALL_S."""
        at, stall_s = self.acknowledged, time.monotonic() + STALL_S
        while self.acknowledged < acknowledged:
            self.serve(self.selector.select(1.0))
            if self.acknowledged != at:
                at, stall_s = self.acknowledged, time.monotonic() + STALL_S
            elif time.monotonic() > stall_s:
                raise TargetError(f"{at} of {acknowledged} records were acknowledged, no more for {STALL_S:g} s")

    def _fetch(self, member: Member) -> None:
        is_last = member.session_epoch == -1
        request = Request(
            group_id=self._group,
            member_id=member.member_id,
            share_session_epoch=member.session_epoch,
            max_wait_ms=0 if is_last else WAIT_MS,
            min_bytes=0 if is_last else 1,
            max_bytes=0 if is_last else BYTES_MAX,
            max_records=0 if is_last else RECORDS_MAX,
            batch_size=0 if is_last else RECORDS_MAX,
        )
        if member.session_epoch == 0:
            wanted: dict[UUID, list[Request.FetchPartition]] = {
                topic_id: [Request.FetchPartition(partition_index=each) for each in partitions]
                for topic_id, partitions in member.owned.items()
            }
        else:
            wanted = {}
            for (topic_id, partition), ranges in member.held.items():
                batches = [
                    Request.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[ACCEPT])
                    for first, last in ranges
                ]
                wanted.setdefault(topic_id, []).append(
                    Request.FetchPartition(partition_index=partition, acknowledgement_batches=batches)
                )
        request.topics = [Request.FetchTopic(topic_id=each, partitions=parts) for each, parts in wanted.items()]
        member.told = {key: sum(last - first + 1 for first, last in ranges) for key, ranges in member.held.items()}
        member.held = {}
        member.ask(FETCH, FETCH_VERSION, codec.encode(request, FETCH_VERSION))
        if not is_last:
            member.session_epoch += 1

    def _take(self, member: Member) -> None:
        answer = codec.decode(messages.ShareFetchResponse, FETCH_VERSION, member.answer())
        protocol.check(answer.error_code, "ShareFetch", answer.error_message)
        for topic in answer.responses:
            for part in topic.partitions:
                key = topic.topic_id, part.partition_index
                protocol.check(part.error_code, "ShareFetch of a partition", part.error_message)
                protocol.check(part.acknowledge_error_code, "acknowledgement", part.acknowledge_error_message)
                self.acknowledged += member.told.pop(key, 0)
                if part.acquired_records:
                    ranges = [(each.first_offset, each.last_offset) for each in part.acquired_records]
                    member.held[key] = ranges
                    if self.on_records is not None:
                        self.on_records(part.records or b"")
        if member.told:
            raise TargetError(f"ShareFetch: no result of the acknowledgements of {len(member.told)} partitions")
