"""Users that perform administrative operations: `admin-churn`. Each operation is chosen at random from the possible
ones.

A user acts only on its own topics, whose names have the run's id, and deletes them at the end. A topic counts as its
own once its creation is requested, so that a topic whose creation was not answered is deleted, too.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import gevent

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from loadgen.net.cluster import LATEST, RETRY_S, Cluster, Refused, check
from loadgen.net.connection import NetError
from loadgen.users.base import LoadUser
from loadgen.users.settings import Administering, settings_of

# Partitions of a topic that operations add at most.
PARTITIONS_MAX = 100
# Topics of one DeleteTopics request at the end.
DELETED_AT_ONCE = 100
# Version 6 of DeleteTopics gives topics by name or id, earlier ones by name.
DELETE_BY_NAME = 5
TOPIC = 2  # resource type
SET = 0  # operation of IncrementalAlterConfigs
NOTHING = "admin: nothing to do"
_GONE = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class AdminChurn(LoadUser):
    """Creates, changes, describes and deletes topics."""

    abstract = True
    cluster: Cluster

    def connect(self) -> None:
        self._settings = settings_of(Administering, self.spec)
        plan = self.load.plan
        self._random = random.Random(f"admin {plan.scenario.seed} {self.spec.name} {self.place}")
        self._timeout_ms = int(plan.scenario.timeout_s * 1000)
        self._prefix = f"{self._settings.prefix}-{plan.run:016x}-{self.spec.name}-{self.place}"
        self._next = 0
        # The topics of this user, with their partitions.
        self._topics: dict[str, int] = {}
        self.cluster = self.new_cluster()
        self.cluster.refresh([])

    def perform(self, due_ns: int) -> None:
        possible = [each for each in self._settings.operations if self._is_possible(each)]
        if not possible:
            self.load.book.count(NOTHING)
            gevent.sleep(RETRY_S)
            return
        api, act = _OPERATIONS[self._random.choice(possible)]
        meter = self.meter(api)
        sent_ns = time.monotonic_ns()
        try:
            act(self)
        except (NetError, Refused) as error:
            meter.failed(error.name, due_ns, sent_ns, time.monotonic_ns())
            # Another broker may be the controller now.
            self.cluster.controller_id = -1
            gevent.sleep(RETRY_S)
        else:
            meter.done(due_ns, sent_ns, time.monotonic_ns())

    def _is_possible(self, operation: str) -> bool:
        if operation == "create-topic":
            return len(self._topics) < self._settings.topics
        if operation == "create-partitions":
            return any(count < PARTITIONS_MAX for count in self._topics.values())
        return operation in ANYWHERE or bool(self._topics)

    def _own(self) -> str:
        return self._random.choice(list(self._topics))

    def _ask(self, request: Any, answer: type[Any], at_most: int = 32767) -> Any:
        return self.cluster.controller().call(request, answer, at_most=at_most)

    # ------------------------------------------------------------------------------------------------ operations

    def create_topic(self) -> None:
        name = f"{self._prefix}-{self._next}"
        self._next += 1
        self._topics[name] = self._settings.partitions
        topic = messages.CreateTopicsRequest.CreatableTopic(
            name=name, num_partitions=self._settings.partitions, replication_factor=-1
        )
        request = messages.CreateTopicsRequest(topics=[topic], timeout_ms=self._timeout_ms)
        answer = self._ask(request, messages.CreateTopicsResponse)
        code = answer.topics[0].error_code
        if code and code != ErrorCode.REQUEST_TIMED_OUT:
            del self._topics[name]
        check(code, f"CreateTopics {name}", answer.topics[0].error_message)

    def delete_topic(self) -> None:
        name = self._own()
        request = messages.DeleteTopicsRequest(topic_names=[name], timeout_ms=self._timeout_ms)
        answer = self._ask(request, messages.DeleteTopicsResponse, DELETE_BY_NAME)
        code = answer.responses[0].error_code
        if code in _GONE:
            del self._topics[name]
        check(code, f"DeleteTopics {name}")

    def describe_topic(self) -> None:
        name = self._own()
        wanted = [messages.MetadataRequest.MetadataRequestTopic(name=name)]
        request = messages.MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        answer = self._ask(request, messages.MetadataResponse, 12)
        check(answer.topics[0].error_code, f"Metadata {name}")

    def create_partitions(self) -> None:
        name = self._random.choice([each for each, count in self._topics.items() if count < PARTITIONS_MAX])
        topic = messages.CreatePartitionsRequest.CreatePartitionsTopic(
            name=name, count=self._topics[name] + 1, assignments=None
        )
        request = messages.CreatePartitionsRequest(topics=[topic], timeout_ms=self._timeout_ms)
        result = self._ask(request, messages.CreatePartitionsResponse).results[0]
        if result.error_code in (ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS):
            # An earlier, unanswered request may have added it.
            self._topics[name] += 1
        check(result.error_code, f"CreatePartitions {name}", result.error_message)

    def alter_config(self) -> None:
        name = self._own()
        alter = messages.IncrementalAlterConfigsRequest
        config = alter.AlterableConfig(
            name="retention.ms", config_operation=SET, value=str(self._random.randrange(3_600_000, 604_800_000))
        )
        resource = alter.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=[config])
        result = self._ask(alter(resources=[resource]), messages.IncrementalAlterConfigsResponse).responses[0]
        check(result.error_code, f"IncrementalAlterConfigs {name}", result.error_message)

    def describe_config(self) -> None:
        name = self._own()
        resource = messages.DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=TOPIC, resource_name=name, configuration_keys=None
        )
        result = self._ask(
            messages.DescribeConfigsRequest(resources=[resource]), messages.DescribeConfigsResponse
        ).results[0]
        check(result.error_code, f"DescribeConfigs {name}", result.error_message)

    def list_groups(self) -> None:
        check(self._ask(messages.ListGroupsRequest(), messages.ListGroupsResponse).error_code, "ListGroups")

    def describe_cluster(self) -> None:
        answer = self._ask(messages.DescribeClusterRequest(), messages.DescribeClusterResponse)
        check(answer.error_code, "DescribeCluster", answer.error_message)

    def list_offsets(self) -> None:
        topic = self.load.plan.scenario.topic.name
        self.cluster.offsets(topic, range(self.load.plan.partitions), LATEST)

    # ------------------------------------------------------------------------------------------------ the end

    def disconnect(self) -> None:
        """Delete the topics of this user; for at most the request timeout if the cluster is unavailable."""
        if hasattr(self, "cluster"):
            self._delete_all()
            self.cluster.close()

    def _delete_all(self) -> None:
        until_s = time.monotonic() + self.load.plan.scenario.timeout_s
        while self._topics and time.monotonic() < until_s:
            names = list(self._topics)[:DELETED_AT_ONCE]
            request = messages.DeleteTopicsRequest(topic_names=names, timeout_ms=self._timeout_ms)
            try:
                answer = self._ask(request, messages.DeleteTopicsResponse, DELETE_BY_NAME)
            except (NetError, Refused):
                self.cluster.controller_id = -1
                gevent.sleep(RETRY_S)
                continue
            gone = [each.name for each in answer.responses if each.error_code in _GONE]
            for name in gone:
                self._topics.pop(name, None)
            if not gone:
                gevent.sleep(RETRY_S)


# The operations by name, with the API that each is counted as.
_OPERATIONS: dict[str, tuple[str, Callable[[AdminChurn], None]]] = {
    "create-topic": ("CreateTopics", AdminChurn.create_topic),
    "delete-topic": ("DeleteTopics", AdminChurn.delete_topic),
    "describe-topic": ("Metadata", AdminChurn.describe_topic),
    "create-partitions": ("CreatePartitions", AdminChurn.create_partitions),
    "alter-config": ("IncrementalAlterConfigs", AdminChurn.alter_config),
    "describe-config": ("DescribeConfigs", AdminChurn.describe_config),
    "list-groups": ("ListGroups", AdminChurn.list_groups),
    "describe-cluster": ("DescribeCluster", AdminChurn.describe_cluster),
    "list-offsets": ("ListOffsets", AdminChurn.list_offsets),
}
# Operations that need no topic of this user.
ANYWHERE = ("list-groups", "describe-cluster", "list-offsets")
