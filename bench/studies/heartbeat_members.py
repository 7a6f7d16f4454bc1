"""Members of one consumer group (KIP-848) in one thread: each has a connection of its own, and reports its partitions
as a consumer does. The study of heartbeats drives them.
"""

from __future__ import annotations

import heapq
import selectors
import socket
import struct
import time
from collections.abc import Callable
from uuid import UUID

from bench.targets.brokers import Address, TargetError
from broker_cy.wire import codec, messages

KEY, VERSION = 68, 1
HEADER = struct.Struct(">ihhih")
CLIENT = b"heartbeats"
JOIN_EPOCH, LEAVE_EPOCH = 0, -1
REBALANCE_MS = 60_000
RETRIABLE = (14, 15, 16)  # COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
RETRY_S = 0.5
LOOK_S = 0.05
Request = messages.ConsumerGroupHeartbeatRequest


class Member:
    """The state of a consumer: its epoch and its partitions, and since when its request waits."""

    def __init__(self, member_id: str, address: Address) -> None:
        self.member_id = member_id
        self.epoch = JOIN_EPOCH
        self.owned: dict[UUID, list[int]] = {}
        self.sent_s = 0.0
        self.has_news = True
        """Its next heartbeat reports its partitions."""
        self.received = bytearray()
        self.socket = socket.create_connection(address[:2])
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def partitions(self) -> int:
        return sum(map(len, self.owned.values()))


class Members:
    """Bounded by the descriptors of the process: one for each member."""

    def __init__(self, address: Address, group: str, topic: str) -> None:
        self.members: list[Member] = []
        self.answered = 0
        self.latencies_s: list[float] = []
        self._address, self._group, self._topic = address, group, topic
        self._selector = selectors.DefaultSelector()
        self._made = 0
        # When each member without a request sends its next one: (time, number of its entry, member). The entry of a
        # member that has left finds it gone.
        self._due: list[tuple[float, int, Member]] = []
        self._entries = 0

    def join(self, count: int, over_s: float) -> None:
        """Members that join one after the other in so much time, after all are connected; `run` lets them."""
        made = [Member(str(UUID(int=self._made + number + 1)), self._address) for number in range(count)]
        self._made += count
        now = time.monotonic()
        for number, member in enumerate(made):
            self._wake(member, now + over_s * number / count)
            self._selector.register(member.socket, selectors.EVENT_READ, member)
        self.members += made

    def leave(self, count: int) -> None:
        """The oldest members leave, and their answers are not waited for."""
        gone, self.members = self.members[:count], self.members[count:]
        for member in gone:
            self._selector.unregister(member.socket)
            member.epoch = LEAVE_EPOCH
            self._send(member, time.monotonic())
            member.socket.shutdown(socket.SHUT_WR)
            while member.socket.recv(1 << 16):
                pass
            member.socket.close()

    def close(self) -> None:
        for member in self.members:
            member.socket.close()
        self._selector.close()

    def run(self, until: Callable[[], bool], limit_s: float) -> float:
        """Let members live until the condition holds, which is checked every LOOK_S; returns how long that took. Raises
        TargetError if it takes longer than `limit_s`, or if a member is refused.
        """
        began = look_s = time.monotonic()
        while True:
            now = time.monotonic()
            if now >= look_s:
                if until():
                    return now - began
                look_s = now + LOOK_S
            if now - began > limit_s:
                raise TargetError(f"{len(self.members)} members: not done after {limit_s:g} s")
            while self._due and self._due[0][0] <= now:
                member = heapq.heappop(self._due)[2]
                if member.epoch != LEAVE_EPOCH:
                    self._send(member, now)
            next_s = min(self._due[0][0], look_s) if self._due else look_s
            for key, _ in self._selector.select(max(0.0, next_s - time.monotonic())):
                self._receive(key.data)

    def is_stable(self, partitions: int) -> bool:
        """Whether all members are in one epoch, and have all partitions in equal shares. Members that have not joined
        yet, or are not assigned yet, have less.
        """
        # The newest members are the last to join: almost all looks end here.
        epoch = self.members[-1].epoch
        if epoch == JOIN_EPOCH or any(member.epoch != epoch for member in self.members):
            return False
        shares = [member.partitions for member in self.members]
        return sum(shares) == partitions and max(shares) - min(shares) <= 1

    def _wake(self, member: Member, at_s: float) -> None:
        self._entries += 1
        heapq.heappush(self._due, (at_s, self._entries, member))

    def _send(self, member: Member, now: float) -> None:
        request = Request(group_id=self._group, member_id=member.member_id, member_epoch=member.epoch)
        if member.epoch == JOIN_EPOCH:
            request.rebalance_timeout_ms = REBALANCE_MS
            request.subscribed_topic_names = [self._topic]
            request.topic_partitions = []
        elif member.has_news and member.epoch != LEAVE_EPOCH:
            request.topic_partitions = [
                Request.TopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in member.owned.items()
            ]
        member.has_news = False
        body = codec.encode(request, VERSION)
        head = HEADER.pack(11 + len(CLIENT) + len(body), KEY, VERSION, 1, len(CLIENT)) + CLIENT + b"\0"
        member.socket.sendall(head + body)
        member.sent_s = now

    def _receive(self, member: Member) -> None:
        data = member.socket.recv(1 << 16)
        if not data:
            raise TargetError("the broker closed the connection of a member")
        member.received += data
        if len(member.received) < 4 or len(member.received) < 4 + struct.unpack_from(">i", member.received)[0]:
            return
        # After the size, the correlation id and the tags of the header.
        answer = codec.decode(messages.ConsumerGroupHeartbeatResponse, VERSION, memoryview(bytes(member.received))[9:])
        member.received.clear()
        now = time.monotonic()
        self.answered += 1
        self.latencies_s.append(now - member.sent_s)
        if answer.error_code in RETRIABLE:
            member.has_news = True
            self._wake(member, now + RETRY_S)
            return
        if answer.error_code:
            raise TargetError(f"ConsumerGroupHeartbeat: error {answer.error_code}: {answer.error_message}")
        member.epoch = answer.member_epoch
        if answer.assignment is None:
            self._wake(member, now + answer.heartbeat_interval_ms / 1000)
            return
        member.owned = {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}
        # As consumers do: what was given up, or taken over, is reported at once.
        member.has_news = True
        self._wake(member, now)
