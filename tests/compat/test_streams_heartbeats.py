"""Members of a streams group get the answers of Apache Kafka 4.3.1 to the same requests, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import TopicPartition

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import codec
from broker_cy.wire import messages as m
from broker_cy.wire.layout import Message
from tests.broker_cy.coordinator.streams_harness import STATELESS, WORD_COUNT, Part, topology
from tests.compat.differential.client import Client
from tests.support import needs, recorded
from tests.support.both_brokers import running
from tests.support.broker import Target
from tests.support.confluent import close_consumer, new_consumer
from tests.support.wait import until

NAME = "streams-heartbeats"
GROUP = "app"
# Each change is assigned at once, so that each answer depends only on the requests before it.
SETTINGS = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "1",
}
WAIT_S = 60.0
Request = m.StreamsGroupHeartbeatRequest
Tasks = Mapping[str, Iterable[int]]
COORDINATOR_CODES = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}


class Story:
    """The requests of two members A and B, and the answers in the form of JSON. Texts of errors are left out."""

    def __init__(self, target: Target) -> None:
        self.bootstrap = target.bootstrap
        self.client = Client((target.host, target.port))
        self.answers: list[list[Any]] = []

    def beat(self, title: str, member_id: str, epoch: int, *, owned: Tasks | None = None, **how: Any) -> Any:
        """`owned` are active tasks; with them, others are none."""
        roles: dict[str, Any] = {}
        if owned is not None:
            ids = [Request.TaskIds(subtopology_id=each, partitions=sorted(numbers)) for each, numbers in owned.items()]
            roles = {"active_tasks": ids, "standby_tasks": [], "warmup_tasks": []}
        fields = {"group_id": GROUP, "member_id": member_id, "member_epoch": epoch, **roles, **how}
        answer = self.client.ask(Request(**fields), 0)
        self.note(title, answer)
        return answer

    def await_tasks(self, title: str, member_id: str, epoch: int) -> None:
        """Send heartbeats until the member gets tasks: Kafka's coordinator learns of new topics a moment later."""
        request = Request(group_id=GROUP, member_id=member_id, member_epoch=epoch)
        found: list[Any] = []

        def has_tasks() -> bool:
            found[:] = [self.client.ask(request, 0)]
            return found[0].active_tasks is not None

        until(has_tasks, "tasks", WAIT_S)
        self.note(title, found[0])

    def join(self, title: str, member_id: str, of: Request.Topology = WORD_COUNT, **how: Any) -> Any:
        fields = {"rebalance_timeout_ms": 60_000, "process_id": f"p-{member_id}", **how}
        return self.beat(title, member_id, 0, owned={}, topology=of, **fields)

    def describe(self, title: str, group_id: str = GROUP) -> None:
        self.note(title, self.client.ask(m.StreamsGroupDescribeRequest(group_ids=[group_id]), 0))

    def list_groups(self, title: str, *states: str) -> None:
        self.note(title, self.client.ask(m.ListGroupsRequest(states_filter=list(states), types_filter=["streams"]), 5))

    def delete(self, title: str, group_id: str = GROUP) -> None:
        self.note(title, self.client.ask(m.DeleteGroupsRequest(groups_names=[group_id]), 2))

    def commit(self, title: str, member_id: str, epoch: int, partition: int, version: int = 9) -> None:
        part = m.OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=partition, committed_offset=1)
        topic = m.OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[part])
        request = m.OffsetCommitRequest(
            group_id=GROUP, member_id=member_id, generation_id_or_member_epoch=epoch, topics=[topic]
        )
        self.note(title, self.client.ask(request, version))

    def read_log(self, title: str) -> None:
        """Note the newest record of each key of streams groups in the coordinator's log."""
        consumer = new_consumer(self.bootstrap, "log", enable_partition_eof=True)
        consumer.assign([TopicPartition("__consumer_offsets", 0, 0)])
        newest: dict[bytes, bytes | None] = {}

        def read() -> bool:
            for message in consumer.consume(1000, 0.2):
                if message.error() is not None:
                    return True
                newest[message.key() or b""] = message.value()
            return False

        until(read, "the end of the log", WAIT_S)
        close_consumer(consumer)
        found = [_record(key, value) for key, value in newest.items() if int.from_bytes(key[:2], "big") in RECORDS]
        self.answers.append([title, sorted(found, key=str)])

    def note(self, title: str, answer: Any) -> None:
        self.answers.append([title, _json(answer)])

    def create(self, name: str, partitions: int) -> None:
        topic = m.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        assert self.client.ask(m.CreateTopicsRequest(topics=[topic]), 7).topics[0].error_code == ErrorCode.NONE
        self.await_topics(name)

    def await_topics(self, *names: str) -> None:
        topics = [m.MetadataRequest.MetadataRequestTopic(name=name) for name in names]

        def exist() -> bool:
            found = self.client.ask(m.MetadataRequest(topics=topics), 12).topics
            return all(each.error_code == 0 and all(p.leader_id >= 0 for p in each.partitions) for each in found)

        until(exist, f"the topics {names}", WAIT_S)

    def prepare(self) -> None:
        self.create("t", 4)

        def is_ready() -> bool:
            self.client.ask(m.FindCoordinatorRequest(coordinator_keys=[GROUP]), 6)
            answer = self.client.ask(Request(group_id=GROUP, member_id="x", member_epoch=1), 0)
            return answer.error_code not in COORDINATOR_CODES

        until(is_ready, "the coordinator", WAIT_S)


def _json(value: Any) -> Any:
    if isinstance(value, Message):
        return {name: _json(getattr(value, name)) for name in type(value).__slots__ if name not in LEFT_OUT}
    if isinstance(value, list):
        # Kafka has members, tasks and topics in no order.
        return sorted((_json(each) for each in value), key=str)
    return str(value) if isinstance(value, UUID) else value


def _record(key: bytes, value: bytes | None) -> Any:
    """A record in the form of JSON, without a time, and without the hash, which has the ids of topics."""
    names = RECORDS[int.from_bytes(key[:2], "big")]
    found = _json(codec.decode(getattr(m, f"{names}Key"), 0, key[2:]))
    if value is None:
        return [names, found, None]
    data, _ = codec.decode_versioned(getattr(m, f"{names}Value"), value)
    fields = _json(data)
    return [names, found, {name: each for name, each in fields.items() if name not in VARYING}]


RECORDS = {
    17: "StreamsGroupMetadata",
    19: "StreamsGroupMemberMetadata",
    20: "StreamsGroupTargetAssignmentMetadata",
    21: "StreamsGroupTargetAssignmentMember",
    22: "StreamsGroupCurrentMemberAssignment",
    23: "StreamsGroupTopology",
}
VARYING = {"metadata_hash", "assignment_timestamp"}
LEFT_OUT = {"error_message", "_unknown_tags", "throttle_time_ms"}
ALL = {"0": range(4), "1": range(4)}


def answers(target: Target) -> list[list[Any]]:
    story = Story(target)
    story.prepare()
    _refused(story)
    _joins(story)
    _handover(story)
    _ends(story)
    return story.answers


def _refused(story: Story) -> None:
    """Without a group."""
    story.beat("no group", "A", 1)
    story.beat("leave no group", "A", -1)
    story.describe("describe no group")
    story.describe("describe nothing", "")
    story.beat("static", "A", 1, instance_id="i")
    story.beat("static leave", "A", -2)
    story.beat("epoch", "A", -3)
    story.beat("blank member", " ", 1)
    story.beat("topology later", "A", 1, topology=STATELESS)
    story.beat("no topology", "A", 0, owned={}, rebalance_timeout_ms=1)
    story.join("no timeout", "A", rebalance_timeout_ms=-1)
    story.join("warm-ups", "A", warmup_tasks=[Request.TaskIds(subtopology_id="0", partitions=[0])])
    story.join("offsets", "A", task_offsets=[])
    story.join("internal", "A", topology(Part(["__consumer_offsets"])))
    story.join("invalid name", "A", topology(Part(["a/b"])))
    story.join("loop", "A", topology(Part(repartitions=["x"], sinks=["y"]), Part(repartitions=["y"], sinks=["x"])))
    story.join("no input", "A", topology(Part(sinks=["x"])))
    story.join("no source", "A", topology(Part([])))
    story.join("index", "A", topology(Part(["t"], copartitions=[([4], [])])))
    story.join("negative epoch", "A", topology(Part(["t"]), epoch=-1))
    story.describe("still no group")


def _joins(story: Story) -> None:
    story.join("A joins", "A")
    story.await_topics("words", "counts")
    story.await_tasks("A has tasks", "A", 2)
    story.beat("A again", "A", 3, owned=ALL)
    story.describe("one member")
    story.beat("unknown subtopology", "A", 3, owned={"7": [0]})
    story.beat("unknown task", "A", 3, owned={"0": [4]})
    story.beat("newer epoch", "A", 9)
    story.beat("older epoch", "A", 1)
    story.beat("unknown member", "B", 3)
    story.join("another topology", "B", STATELESS)
    story.join("A joins again", "A")


def _handover(story: Story) -> None:
    story.join("B joins", "B")
    story.describe("reconciling")
    answer = story.beat("A has to revoke", "A", 3, owned=ALL)
    kept = {each.subtopology_id: each.partitions for each in answer.active_tasks}
    gone = min(set(range(4)) - set(kept["0"]))
    story.beat("A has not revoked", "A", 3, owned=ALL)
    story.commit("A commits", "A", 3, kept["0"][0])
    story.commit("A commits while it revokes", "A", 3, gone)
    story.beat("A has revoked", "A", 3, owned=kept)
    story.commit("A commits with an older epoch", "A", 3, kept["0"][0])
    story.commit("A commits for a lost task", "A", 3, gone)
    story.commit("A commits with a newer epoch", "A", 9, kept["0"][0])
    story.commit("A commits by an old version", "A", 4, kept["0"][0], version=8)
    story.commit("nobody commits", "", -1, 0)
    story.beat("B gets them", "B", 4)
    story.describe("stable")
    story.list_groups("stable groups", "Stable")
    story.read_log("the log")


def _ends(story: Story) -> None:
    story.join("B has an endpoint", "B", user_endpoint=Request.Endpoint(host="h", port=1))
    story.beat("A has an old view", "A", 4, endpoint_information_epoch=-1)
    story.beat("B shuts down", "B", 5, shutdown_application=True)
    story.beat("A shuts down", "A", 5)
    story.delete("members")
    story.beat("B leaves", "B", -1)
    story.beat("B is gone", "B", 5)
    story.beat("A leaves", "A", -1)
    story.describe("empty")
    story.list_groups("empty groups", "empty")
    story.delete("deleted")
    story.describe("gone")
    story.read_log("the log of a deleted group")
    story.join("missing source", "A", topology(Part(["absent"])))
    story.describe("not ready")
    story.list_groups("unready groups", "not_ready")
    # With an endpoint, Kafka 4.3.1 fails on a group whose topics are missing.
    story.join("another one", "B", topology(Part(["absent"])))


@pytest.mark.full
@needs.kafka
def test_kafka_gives_the_recorded_answers(tmp_path: Path) -> None:
    """If this fails, our answers are compared with ones that Kafka does not give."""
    with running("kafka", tmp_path, SETTINGS) as target:
        recorded.check(NAME, answers(target))


def test_the_same_answers_as_kafka(tmp_path: Path) -> None:
    """If this fails, an application of Kafka Streams gets other tasks, epochs or errors than from Kafka."""
    with running("broker-cy", tmp_path, SETTINGS) as target:
        mine = recorded.as_recorded(answers(target))
    theirs = recorded.of_kafka(NAME)
    different = [
        f"{title}\n  Kafka {kafkas}\n  we    {answer}"
        for (title, answer), (_, kafkas) in zip(mine, theirs, strict=True)
        if answer != kafkas
    ]
    assert not different, "\n" + "\n".join(different)
