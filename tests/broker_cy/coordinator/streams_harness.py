"""Streams groups in the harness of the group coordinator: topologies and heartbeats in short form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from broker_cy.coordinator.assignors.streams_spec import TaskAssignment
from broker_cy.coordinator.settings import StreamsGroupSettings
from broker_cy.coordinator.step import Call, CallFailed, ClientFacts, GroupStep
from broker_cy.coordinator.streams import heartbeat
from broker_cy.coordinator.streams.configure import Status
from broker_cy.coordinator.streams.group import StreamsGroup
from broker_cy.coordinator.streams.internal_topics import CreateInternalTopics, MemberRights, NotCreated, Requester
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.image import ImageDelta
from broker_cy.metrics.events import Event
from broker_cy.wire import messages
from tests.broker_cy.coordinator.consumer_harness import Topics
from tests.broker_cy.coordinator.harness import GROUP, Harness

Request = messages.StreamsGroupHeartbeatRequest
REBALANCE_MS = 20_000
REQUESTER = Requester("client", "127.0.0.1", "PLAINTEXT", "User:app", False)
# A task in short form: "0_1" is partition 1 of subtopology 0.
Tasks = Mapping[str, Iterable[int]]
AT_ONCE = StreamsGroupSettings(assignment_interval_ms=0, initial_rebalance_delay_ms=0)


class Part(NamedTuple):
    """A subtopology: names of its topics. Repartition topics that it reads may have a fixed number of partitions, as
    "name=4".
    """

    sources: Iterable[str] = ()
    changelogs: Iterable[str] = ()
    sinks: Iterable[str] = ()
    repartitions: Iterable[str] = ()
    copartitions: Iterable[tuple[list[int], list[int]]] = ()


def topology(*parts: Part, epoch: int = 0) -> Request.Topology:
    """The ids of the subtopologies are 0, 1 and so on."""
    return Request.Topology(
        epoch=epoch,
        subtopologies=[
            Request.Subtopology(
                subtopology_id=str(number),
                source_topics=list(part.sources),
                state_changelog_topics=[
                    Request.TopicInfo(
                        name=name, topic_configs=[Request.KeyValue(key="cleanup.policy", value="compact")]
                    )
                    for name in part.changelogs
                ],
                repartition_sink_topics=list(part.sinks),
                repartition_source_topics=[
                    Request.TopicInfo(name=name.partition("=")[0], partitions=int(name.partition("=")[2] or 0))
                    for name in part.repartitions
                ],
                copartition_groups=[
                    Request.CopartitionGroup(source_topics=sources, repartition_source_topics=repartitions)
                    for sources, repartitions in part.copartitions
                ],
            )
            for number, part in enumerate(parts)
        ],
    )


# Reads t, and keeps no state.
STATELESS = topology(Part(["t"]))
# Counts words: the first part writes into a repartition topic, the second one keeps its state in a changelog topic.
WORD_COUNT = topology(Part(["t"], sinks=["words"]), Part(changelogs=["counts"], repartitions=["words"]))


class StreamsHarness(Harness):
    """`topics` are in the metadata of the state machine. `calls` are requests to create internal topics."""

    def __init__(self, topics: Topics | None = None, **settings: Any) -> None:
        self.calls: list[Call] = []
        self.events: list[Event] = []
        self.may_create: Callable[[str], bool] | None = None
        super().__init__(**{"streams": AT_ONCE, **settings})
        self.topics = topics or Topics(t=4)
        self.machine.take_image(self.topics.image)

    def take(self, step: GroupStep) -> GroupStep:
        self.calls += step.calls
        self.events += step.events
        return super().take(step)

    def streams(self, group_id: str = GROUP) -> StreamsGroup:
        group = self.machine.groups.get(group_id)
        assert isinstance(group, StreamsGroup)
        return group

    def change(self, delta: ImageDelta) -> GroupStep:
        return self.take(self.machine.metadata_changed(delta, self.topics.image))

    def create(self, *failures: NotCreated) -> list[str]:
        """Create the topics that the coordinator has asked for, besides the failed ones; returns their names."""
        calls, self.calls = self.calls, []
        failed = {each.topic for each in failures}
        names = []
        for call in calls:
            request = call.request
            assert isinstance(request, CreateInternalTopics)
            for topic in request.topics:
                if topic.name not in failed:
                    names.append(topic.name)
                    self.change(self.topics.put(topic.name, topic.partitions))
            asked = {topic.name for topic in request.topics}
            self.run(call.then, *call.about, tuple(each for each in failures if each.topic in asked))
        return names

    def lose_calls(self) -> None:
        """The controller cannot be reached."""
        calls, self.calls = self.calls, []
        for call in calls:
            self.run(call.then, *call.about, CallFailed(ErrorCode.REQUEST_TIMED_OUT, "no active controller"))

    def beat(
        self,
        token: object,
        member_id: str,
        epoch: int,
        *,
        group_id: str = GROUP,
        owned: Tasks | None = None,
        standby: Tasks | None = None,
        topology: Request.Topology | None = None,
        process_id: str | None = None,
        endpoint: tuple[str, int] | None = None,
        endpoint_epoch: int = 0,
        rebalance_ms: int = -1,
        client_id: str = "client",
        shutdown: bool = False,
    ) -> Any:
        """Return the response, None while it is awaited. `owned` are active tasks; with them, others are none unless
        named.
        """
        active, others = (None, None) if owned is None else (_ids(owned), _ids(standby or {}))
        request = Request(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            endpoint_information_epoch=endpoint_epoch,
            rebalance_timeout_ms=rebalance_ms,
            topology=topology,
            active_tasks=active,
            standby_tasks=others,
            warmup_tasks=None if owned is None else [],
            process_id=process_id,
            user_endpoint=None if endpoint is None else Request.Endpoint(host=endpoint[0], port=endpoint[1]),
            shutdown_application=shutdown,
        )
        client = ClientFacts(client_id, "/127.0.0.1", 0)
        self.run(heartbeat.heartbeat, request, client, MemberRights(REQUESTER, self.may_create), token)
        return self.answers.get(token)

    def enter(self, token: object, member_id: str, of: Request.Topology = STATELESS, **how: Any) -> Any:
        """Join with a first heartbeat, in a process of its own."""
        how.setdefault("rebalance_ms", REBALANCE_MS)
        how.setdefault("process_id", f"process-{member_id}")
        return self.beat(token, member_id, 0, topology=of, owned={}, **how)

    def code(self, token: object) -> ErrorCode:
        return ErrorCode(self.answers[token].error_code)

    def tasks(self, token: object) -> TaskAssignment | None:
        """The tasks in an answer; None if it has none."""
        answer = self.answers[token]
        if answer.active_tasks is None:
            return None
        return TaskAssignment(
            *(
                {each.subtopology_id: frozenset(each.partitions) for each in ids}
                for ids in (answer.active_tasks, answer.standby_tasks, answer.warmup_tasks)
            )
        )

    def active(self, token: object) -> dict[str, set[int]] | None:
        """The active tasks in an answer."""
        tasks = self.tasks(token)
        return None if tasks is None else {each: set(numbers) for each, numbers in tasks.active.items()}

    def statuses(self, token: object) -> dict[Status, str]:
        """The details of the status codes in an answer."""
        return {Status(each.status_code): each.status_detail for each in self.answers[token].status}


def _ids(tasks: Tasks) -> list[Request.TaskIds]:
    return [Request.TaskIds(subtopology_id=each, partitions=sorted(numbers)) for each, numbers in tasks.items()]
