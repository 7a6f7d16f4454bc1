"""A follower's fetch session against a leader that only remembers: after each request the leader has exactly the
partitions that can be fetched, whatever was added, paused and removed. The codec of the tables reads the requests and
writes the answers.
"""

from __future__ import annotations

import random
import uuid
from collections import deque
from pathlib import Path
from typing import Any, cast

import pytest

from broker_cy.core.clock import ManualClock
from broker_cy.metadata.image import PartitionImage
from broker_cy.replica.flush_group import FlushGroup
from broker_cy.replica.partition import Partition
from broker_cy.replica.throttle import ReplicaThrottle
from broker_cy.replication.fetch_session_handler import FetchSessionHandler
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.wire import codec, messages
from broker_cy.wire.records import Record, encode_batch
from tests.sim import power_loop

VERSION = 17
CONFIG = {
    "replica.fetch.max.bytes": 1 << 20,
    "replica.fetch.wait.max.ms": 500,
    "replica.fetch.min.bytes": 1,
    "replica.fetch.response.max.bytes": 10 << 20,
}
Asked = dict[tuple[uuid.UUID, int], tuple[int, int, int, int]]


def partitions(path: Path, draw: random.Random) -> list[Partition]:
    """Followers of two topics, which have records of several leader epochs."""
    clock = ManualClock()
    group = FlushGroup(cast(Any, power_loop.Loop(power_loop.Work(draw))), clock)
    found = []
    for topic in ("a", "b"):
        topic_id = uuid.UUID(int=draw.getrandbits(128), version=4)
        for index in (0, 1, 300):
            log = Log.create(str(path / f"{topic}-{index}"), topic, index, LogConfig(), 0)
            for offset in range(draw.randint(0, 3)):
                batch = bytearray(encode_batch([Record(0, 1_000, b"k", b"v", [])]))
                batch[0:8], batch[12:16] = offset.to_bytes(8), offset.to_bytes(4)
                log.append(bytes(batch), 0)
            partition = Partition(group, topic, index, topic_id, log, 0)
            partition.assign(PartitionImage((1, 2), (1, 2), 1, 7, 0), False, cast(Any, None), -1)
            found.append(partition)
    return found


def expected_of(partition: Partition) -> tuple[int, int, int, int]:
    log = partition.log
    return (partition.replica.leader_epoch, log.log_end_offset, log.epochs.latest_epoch, log.log_start_offset)


class Leader:
    """The leader's state of a session, and the requests that it has not answered."""

    def __init__(self, session: FetchSessionHandler) -> None:
        self.session = session
        self.known: Asked = {}
        # For each request, the partitions that it fetches, and whether it continues the session that the leader has.
        self.requests: deque[tuple[Asked, bool]] = deque()
        self.is_over = False  # it has answered without a session

    def receive(self, body: bytes, epoch: int) -> None:
        request = codec.decode(messages.FetchRequest, VERSION, body)
        assert (request.session_id, request.session_epoch) == (self.session.session_id, epoch)
        assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (2, 9)
        assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 10 << 20)
        if request.session_epoch == 0:
            assert not request.forgotten_topics_data
            self.known.clear()
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                del self.known[forgotten.topic_id, index]
        for topic in request.topics:
            for each in topic.partitions:
                assert each.partition_max_bytes == 1 << 20
                self.known[topic.topic_id, each.partition] = (
                    each.current_leader_epoch,
                    each.fetch_offset,
                    each.last_fetched_epoch,
                    each.log_start_offset,
                )
        self.requests.append((dict(self.known), False))

    def answer(self, draw: random.Random) -> tuple[bytes, int, Asked | None]:
        """The oldest answer, its error, and its partitions; None: the answer is of a session that has ended, and says
        nothing.
        """
        asked, is_stale = self.requests.popleft()
        if is_stale:
            return codec.encode(messages.FetchResponse(error_code=70), VERSION), 0, None
        error = draw.choice([0, 0, 0, 0, 71])
        session_id = draw.choice([5, 5, 5, 0]) if error == 0 else 0
        if session_id == 0:
            self.requests = deque((each, True) for each, _ in self.requests)
        topics = {topic_id: messages.FetchResponse.FetchableTopicResponse(topic_id=topic_id) for topic_id, _ in asked}
        for (topic_id, index), ask in asked.items():
            topics[topic_id].partitions.append(
                messages.FetchResponse.PartitionData(partition_index=index, high_watermark=ask[1], records=b"x" * index)
            )
        response = messages.FetchResponse(
            error_code=error, session_id=session_id, responses=list(topics.values()) if error == 0 else []
        )
        return codec.encode(response, VERSION), error, {} if error else asked


@pytest.mark.parametrize("seed", range(40))
def test_the_leader_has_what_can_be_fetched(tmp_path: Path, seed: int) -> None:
    """If this fails, partitions are no longer fetched, a fetch acknowledges records that a paused partition does not
    have, or an answer is mistaken for that to a later request of another leader epoch.
    """
    draw = random.Random(seed)
    all_of_them = partitions(tmp_path, draw)
    session = FetchSessionHandler(2, cast(Any, CONFIG), ReplicaThrottle(11, 1000))
    leader = Leader(session)
    fetched: dict[Partition, bool] = {}  # and whether it is paused
    for _ in range(80):
        for partition in draw.sample(all_of_them, draw.randint(0, 3)):
            match draw.choice(["add", "pause", "remove", "note", "epoch"]):
                case "add":
                    session.add(partition)
                    fetched[partition] = False
                case "pause":
                    session.pause(partition)
                    if partition in fetched:
                        fetched[partition] = True
                case "remove":
                    session.remove(partition)
                    fetched.pop(partition, None)
                case "note":
                    session.note(partition)
                case "epoch":
                    epoch = partition.replica.leader_epoch + 1
                    partition.assign(PartitionImage((1, 2), (1, 2), 1, epoch, 0), False, cast(Any, None), -1)
                    session.note(partition)
        if draw.random() < 0.1:
            session.restart()
            leader.requests.clear()
        if session.in_flight == 0 or (session.may_overtake and draw.random() < 0.5):
            wanted = {(each.topic_id, each.index): expected_of(each) for each, paused in fetched.items() if not paused}
            epoch = session.epoch
            body = session.request(9, 0)
            assert session.is_empty == (not fetched)
            if body is None:
                assert wanted == {}
            else:
                leader.receive(body, epoch)
                assert leader.known == wanted
        assert session.in_flight == len(leader.requests) <= 2
        if leader.requests and draw.random() < 0.7:
            body, error, asked = leader.answer(draw)
            code, found = session.take(memoryview(body))
            assert code == error
            served = {(each.topic_id, each.index) for each, paused in fetched.items() if not paused}
            expected = {key: (ask[:3], b"x" * key[1]) for key, ask in (asked or {}).items() if key in served}
            assert {
                (each.partition.topic_id, each.partition.index): (tuple(each.asked), bytes(each.records or b""))
                for each in found
            } == expected
