"""The topic of a run: created if it does not exist, examined before and after the run, and deleted if the run created
it.
"""

from __future__ import annotations

from uuid import UUID

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from loadgen.net.cluster import Cluster, check
from loadgen.scenario.model import Scenario
from loadgen.users.settings import Copying, settings_of


class Topics:
    """The topics of one run: the scenario's, and those that its copiers write to."""

    def __init__(self, cluster: Cluster, scenario: Scenario) -> None:
        self._cluster, self._spec = cluster, scenario.topic
        # The number of partitions of each topic that does not exist yet.
        self._wanted = {scenario.topic.name: scenario.topic.partitions}
        for each in scenario.users:
            if each.kind == "transactional-copier":
                copying = settings_of(Copying, each)
                self._wanted.setdefault(copying.target, copying.target_partitions)
        self._timeout_ms = int(scenario.timeout_s * 1000)
        self._created: dict[str, UUID] = {}
        self._partitions: dict[str, int] = {}

    def create(self) -> int:
        """Create the topics that do not exist; returns the number of partitions of the scenario's.

        Raises NetError and Refused.
        """
        spec = self._spec
        config = messages.CreateTopicsRequest.CreatableTopicConfig
        topics = [
            messages.CreateTopicsRequest.CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=spec.replication_factor,
                configs=[config(name=key, value=value) for key, value in spec.configs.items()],
            )
            for name, partitions in self._wanted.items()
        ]
        request = messages.CreateTopicsRequest(topics=topics, timeout_ms=self._timeout_ms)
        answer = self._cluster.controller().call(request, messages.CreateTopicsResponse)
        # All created topics are noted first: they must be deleted even if another topic was rejected.
        for result in answer.topics:
            if result.error_code == ErrorCode.NONE:
                self._created[result.name] = result.topic_id
        for result in answer.topics:
            if result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                check(result.error_code, f"CreateTopics {result.name}", result.error_message)
        for name in self._wanted:
            self._partitions[name] = len(self._cluster.partitions(name))
        return self._partitions[spec.name]

    def ends(self) -> dict[str, dict[int, int]]:
        """Return the end offset of each partition, by topic. Raises NetError and Refused."""
        return {name: self._cluster.offsets(name, range(count)) for name, count in self._partitions.items()}

    def delete(self, cluster: Cluster) -> None:
        """Delete the topics that this run created, unless the scenario keeps them. Raises NetError and Refused."""
        if not self._created or self._spec.keep:
            return
        # By id, so that a topic that was meanwhile created under the same name remains (KIP-516: brokers with ids in
        # CreateTopics have them in version 6 of DeleteTopics, too).
        names = {topic_id: name for name, topic_id in self._created.items()}
        if UUID(int=0) in names:
            request, at_most = messages.DeleteTopicsRequest(topic_names=list(self._created)), 5
        else:
            topic = messages.DeleteTopicsRequest.DeleteTopicState
            request = messages.DeleteTopicsRequest(topics=[topic(name=None, topic_id=each) for each in names])
            at_most = 6
        request.timeout_ms = self._timeout_ms
        answer = cluster.controller().call(request, messages.DeleteTopicsResponse, at_most=at_most)
        for result in answer.responses:
            if result.error_code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID):
                check(result.error_code, f"DeleteTopics {names.get(result.topic_id, result.name)}")
        self._created = {}
