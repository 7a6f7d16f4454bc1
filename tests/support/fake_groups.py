"""An in-memory cluster with groups of every type, in states that a real broker shows only for a moment: partitions that
wait for their release, tasks that move, share groups with offsets.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.share_in_flight import GroupInFlight, InFlightRun
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from broker_cy.wire.api_keys import ApiKey
from broker_cy.wire.codec import Message
from broker_cy.wire.share_operations import Changed, OperatorAction, changed_tags, read_operation
from tests.support.fake_cluster import VERSIONS, FakeCluster, Part

COORDINATOR = 1
BILLING, CHECKOUT, ENRICH, REPORTS = "billing", "checkout", "enrich", "reports"
ORDERS, PAYMENTS = "orders", "payments"
_TOPIC_IDS = {ORDERS: UUID(int=1), PAYMENTS: UUID(int=2)}

_Consumer = messages.ConsumerGroupDescribeResponse
_Share = messages.ShareGroupDescribeResponse
_Streams = messages.StreamsGroupDescribeResponse


def _assigned(**topics: list[int]) -> _Consumer.Assignment:
    return _Consumer.Assignment(
        topic_partitions=[
            _Consumer.TopicPartitions(topic_id=_TOPIC_IDS[name], topic_name=name, partitions=partitions)
            for name, partitions in topics.items()
        ]
    )


def consumer_group() -> _Consumer.DescribedGroup:
    """Two members moved to the consumer protocol, one did not. worker-1 waits for partition 2 of worker-0, which has
    not given it up; partition 4 is free.
    """
    return _Consumer.DescribedGroup(
        group_id=BILLING,
        group_state="Reconciling",
        group_epoch=7,
        assignment_epoch=7,
        assignor_name="uniform",
        members=[
            _Consumer.Member(
                member_id="m-0", member_epoch=6, client_id="worker-0", client_host="/10.0.0.1", rack_id="rack-a",
                subscribed_topic_names=[ORDERS], assignment=_assigned(orders=[0, 1, 2]),
                target_assignment=_assigned(orders=[0, 1]), member_type=1,
            ),
            _Consumer.Member(
                member_id="m-1", instance_id="pod-1", member_epoch=7, client_id="worker-1", client_host="/10.0.0.2",
                subscribed_topic_regex="ord.*", subscribed_topic_names=[], assignment=_assigned(orders=[3]),
                target_assignment=_assigned(orders=[2, 3]), member_type=1,
            ),
            _Consumer.Member(
                member_id="m-2", member_epoch=7, client_id="worker-2", client_host="/10.0.0.3",
                subscribed_topic_names=[ORDERS], assignment=_assigned(orders=[]),
                target_assignment=_assigned(orders=[4]), member_type=0,
            ),
        ],
    )  # fmt: skip


def share_group(members: int = 2) -> _Share.DescribedGroup:
    """Its members read the same partitions."""
    assignment = _Share.Assignment(
        topic_partitions=[_Share.TopicPartitions(topic_id=_TOPIC_IDS[ORDERS], topic_name=ORDERS, partitions=[0, 1])]
    )
    return _Share.DescribedGroup(
        group_id=CHECKOUT,
        group_state="Stable" if members else "Empty",
        group_epoch=4,
        assignment_epoch=4,
        assignor_name="simple",
        members=[
            _Share.Member(
                member_id=f"s-{n}", member_epoch=4, client_id=f"till-{n}", client_host=f"/10.0.1.{n}",
                subscribed_topic_names=[ORDERS], assignment=assignment,
            )
            for n in range(members)
        ],
    )  # fmt: skip


def _tasks(active: dict[str, list[int]], standby: dict[str, list[int]]) -> _Streams.Assignment:
    def ids(tasks: dict[str, list[int]]) -> list[_Streams.TaskIds]:
        return [_Streams.TaskIds(subtopology_id=name, partitions=numbers) for name, numbers in tasks.items()]

    return _Streams.Assignment(active_tasks=ids(active), standby_tasks=ids(standby), warmup_tasks=[])


def streams_group() -> _Streams.DescribedGroup:
    """Task 1_1 moves from node-a to node-b; task 1_0 has a standby copy, 1_1 has none yet."""
    info = _Streams.TopicInfo
    return _Streams.DescribedGroup(
        group_id=ENRICH,
        group_state="Reconciling",
        group_epoch=9,
        assignment_epoch=9,
        topology=_Streams.Topology(
            epoch=2,
            subtopologies=[
                _Streams.Subtopology(
                    subtopology_id="0", source_topics=[ORDERS], repartition_sink_topics=["enrich-by-key-repartition"],
                    state_changelog_topics=[], repartition_source_topics=[],
                ),
                _Streams.Subtopology(
                    subtopology_id="1", source_topics=[], repartition_sink_topics=[],
                    state_changelog_topics=[info(name="enrich-count-changelog", partitions=0)],
                    repartition_source_topics=[info(name="enrich-by-key-repartition", partitions=2)],
                ),
            ],
        ),
        members=[
            _Streams.Member(
                member_id="t-0", member_epoch=8, client_id="node-a", client_host="/10.0.2.1", topology_epoch=2,
                process_id="process-a", user_endpoint=_Streams.Endpoint(host="node-a", port=8080),
                client_tags=[_Streams.KeyValue(key="zone", value="a")], task_offsets=[], task_end_offsets=[],
                assignment=_tasks({"0": [0], "1": [0, 1]}, {}), target_assignment=_tasks({"0": [0], "1": [0]}, {}),
            ),
            _Streams.Member(
                member_id="t-1", member_epoch=9, client_id="node-b", client_host="/10.0.2.2", topology_epoch=2,
                process_id="process-b", user_endpoint=None, client_tags=[], task_offsets=[], task_end_offsets=[],
                assignment=_tasks({"0": [1]}, {"1": [0]}), target_assignment=_tasks({"0": [1], "1": [1]}, {"1": [0]}),
            ),
        ],
    )  # fmt: skip


class FakeGroups(FakeCluster):
    """One group of each type. The classic one has no members. `share` has the start offset and the lag of partitions
    of the share group; -1 is unknown.
    """

    versions = {  # noqa: RUF012 - never changed
        **VERSIONS, ApiKey.FIND_COORDINATOR: 6, ApiKey.LIST_GROUPS: 5, ApiKey.DESCRIBE_GROUPS: 6,
        ApiKey.CONSUMER_GROUP_DESCRIBE: 1, ApiKey.SHARE_GROUP_DESCRIBE: 1, ApiKey.STREAMS_GROUP_DESCRIBE: 0,
        ApiKey.OFFSET_FETCH: 9, ApiKey.LIST_OFFSETS: 9, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: 1,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: 0, ApiKey.DELETE_SHARE_GROUP_OFFSETS: 0, ApiKey.SHARE_ACKNOWLEDGE: 2,
    }  # fmt: skip

    def __init__(self) -> None:
        super().__init__({COORDINATOR: "a"})
        self.parts = {TopicPartition(ORDERS, n): Part((COORDINATOR,)) for n in range(5)}
        self.consumer = consumer_group()
        self.shared = share_group()
        self.streams = streams_group()
        self.share = {TopicPartition(ORDERS, 0): (40, 12), TopicPartition(ORDERS, 1): (-1, -1)}
        self.ends = 60
        self.changes_records = True
        # Changes of records in flight: (action, partition, ranges, member id).
        self.changed: list[tuple[OperatorAction, int, list[tuple[int, int]], str]] = []

    def on_ListGroups(self, request: messages.ListGroupsRequest) -> messages.ListGroupsResponse:
        listed = messages.ListGroupsResponse.ListedGroup
        every = [
            listed(group_id=BILLING, protocol_type="consumer", group_state="Reconciling", group_type="consumer"),
            listed(group_id=CHECKOUT, protocol_type="share", group_state=self.shared.group_state, group_type="share"),
            listed(group_id=ENRICH, protocol_type="streams", group_state="Reconciling", group_type="streams"),
            listed(group_id=REPORTS, protocol_type="connect", group_state="Empty", group_type="classic"),
        ]
        return messages.ListGroupsResponse(
            groups=[
                each
                for each in every
                if (not request.types_filter or each.group_type in request.types_filter)
                and (not request.states_filter or each.group_state in request.states_filter)
            ]
        )

    def on_FindCoordinator(self, request: messages.FindCoordinatorRequest) -> messages.FindCoordinatorResponse:
        coordinator = messages.FindCoordinatorResponse.Coordinator
        return messages.FindCoordinatorResponse(
            coordinators=[
                coordinator(key=key, node_id=COORDINATOR, host="127.0.0.1", port=COORDINATOR)
                for key in request.coordinator_keys
            ]
        )

    def on_DescribeGroups(self, request: messages.DescribeGroupsRequest) -> messages.DescribeGroupsResponse:
        group = messages.DescribeGroupsResponse.DescribedGroup
        return messages.DescribeGroupsResponse(
            groups=[
                group(group_id=key, group_state="Empty", protocol_type="consumer", members=[])
                if key == REPORTS
                else group(group_id=key, group_state="Dead", error_code=ErrorCode.GROUP_ID_NOT_FOUND, members=[])
                for key in request.groups
            ]
        )

    def on_ConsumerGroupDescribe(self, request: messages.ConsumerGroupDescribeRequest) -> Message:
        return _Consumer(groups=self._described(request.group_ids, self.consumer, _Consumer.DescribedGroup))

    def on_ShareGroupDescribe(self, request: messages.ShareGroupDescribeRequest) -> Message:
        return _Share(groups=self._described(request.group_ids, self.shared, _Share.DescribedGroup))

    def on_StreamsGroupDescribe(self, request: messages.StreamsGroupDescribeRequest) -> Message:
        return _Streams(groups=self._described(request.group_ids, self.streams, _Streams.DescribedGroup))

    def _described(self, group_ids: list[str], group: Any, kind: Any) -> list[Any]:
        return [
            group
            if key == group.group_id
            else kind(group_id=key, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=f"there is no group {key}")
            for key in group_ids
        ]

    def on_OffsetFetch(self, request: messages.OffsetFetchRequest) -> messages.OffsetFetchResponse:
        group = messages.OffsetFetchResponse.OffsetFetchResponseGroup
        return messages.OffsetFetchResponse(
            groups=[
                # Share groups have no committed offsets.
                group(group_id=each.group_id, topics=[])
                for each in request.groups
            ]
        )

    def on_ListOffsets(self, request: messages.ListOffsetsRequest) -> messages.ListOffsetsResponse:
        topic_of = messages.ListOffsetsResponse.ListOffsetsTopicResponse
        part_of = messages.ListOffsetsResponse.ListOffsetsPartitionResponse
        return messages.ListOffsetsResponse(
            topics=[
                topic_of(
                    name=topic.name,
                    partitions=[
                        part_of(partition_index=part.partition_index, offset=self.ends if part.timestamp == -1 else 0)
                        for part in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def on_DescribeShareGroupOffsets(self, request: messages.DescribeShareGroupOffsetsRequest) -> Message:
        answer = messages.DescribeShareGroupOffsetsResponse
        parts = [
            answer.DescribeShareGroupOffsetsResponsePartition(
                partition_index=key.partition, start_offset=start, lag=lag, leader_epoch=0
            )
            for key, (start, lag) in self.share.items()
        ]
        topic = answer.DescribeShareGroupOffsetsResponseTopic(
            topic_name=ORDERS, topic_id=_TOPIC_IDS[ORDERS], partitions=parts
        )
        group = answer.DescribeShareGroupOffsetsResponseGroup
        return answer(
            groups=[
                group(group_id=each.group_id, topics=[topic])
                if each.group_id == CHECKOUT
                else group(group_id=each.group_id, topics=[], error_code=ErrorCode.GROUP_ID_NOT_FOUND)
                for each in request.groups
            ]
        )

    def on_AlterShareGroupOffsets(self, request: messages.AlterShareGroupOffsetsRequest) -> Message:
        answer = messages.AlterShareGroupOffsetsResponse
        if self.shared.members:
            return answer(error_code=ErrorCode.NON_EMPTY_GROUP, responses=[])
        responses = []
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                self.share[TopicPartition(topic.topic_name, part.partition_index)] = (part.start_offset, -1)
                parts.append(
                    answer.AlterShareGroupOffsetsResponsePartition(partition_index=part.partition_index, error_code=0)
                )
            responses.append(
                answer.AlterShareGroupOffsetsResponseTopic(
                    topic_name=topic.topic_name, topic_id=_TOPIC_IDS[topic.topic_name], partitions=parts
                )
            )
        return answer(responses=responses)

    def on_DeleteShareGroupOffsets(self, request: messages.DeleteShareGroupOffsetsRequest) -> Message:
        answer = messages.DeleteShareGroupOffsetsResponse
        if self.shared.members:
            return answer(error_code=ErrorCode.NON_EMPTY_GROUP, responses=[])
        names = {topic.topic_name for topic in request.topics}
        self.share = {key: each for key, each in self.share.items() if key.topic not in names}
        return answer(
            responses=[
                answer.DeleteShareGroupOffsetsResponseTopic(topic_name=name, topic_id=_TOPIC_IDS[name], error_code=0)
                for name in sorted(names)
            ]
        )

    def on_ShareAcknowledge(self, request: messages.ShareAcknowledgeRequest) -> messages.ShareAcknowledgeResponse:
        """An operator's change: two records of each range in partitions 0 and 1, one of them at its last delivery."""
        answer = messages.ShareAcknowledgeResponse
        operation = read_operation(request._unknown_tags)
        if operation is None or not self.changes_records:
            return answer(error_code=ErrorCode.SHARE_SESSION_NOT_FOUND, responses=[], node_endpoints=[])
        responses = []
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                result = answer.PartitionData(partition_index=part.partition_index)
                ranges = [(batch.first_offset, batch.last_offset) for batch in part.acknowledgement_batches]
                if part.partition_index > 1:
                    result.error_code, result.error_message = ErrorCode.INVALID_RECORD_STATE, "nothing is in flight"
                else:
                    is_release = operation.action is OperatorAction.RELEASE
                    result._unknown_tags = changed_tags(Changed(2 * len(ranges), int(is_release)))
                    if not operation.is_preview:
                        self.changed.append((operation.action, part.partition_index, ranges, request.member_id or ""))
                parts.append(result)
            responses.append(answer.ShareAcknowledgeTopicResponse(topic_id=topic.topic_id, partitions=parts))
        return answer(responses=responses, node_endpoints=[])


def in_flight(brokers: tuple[int, ...] = (1,)) -> GroupInFlight:
    """The records of the share group in flight: a member and one that has left hold records, two of them for the last
    time. The available ones were delivered so often that they are throttled.
    """

    def run(partition: TopicPartition, offset: int, state: str, deliveries: int, member: str | None) -> InFlightRun:
        left_ms = None if member is None else 21_000
        is_throttled = state == "available" and deliveries >= 3
        is_last = deliveries == 5
        return InFlightRun(
            partition, offset, offset + 1, state, deliveries, member, left_ms, is_last, is_throttled, is_pending=False
        )

    orders, payments = TopicPartition(ORDERS, 0), TopicPartition(PAYMENTS, 1)
    runs = (
        run(orders, 40, "acquired", 1, "s-0"),
        run(orders, 42, "archived", 3, None),
        run(orders, 44, "available", 3, None),
        run(payments, 7, "acquired", 5, "gone"),
    )
    archived = {"reject": 3, "limit": 1, "missing": 0, "aborted": 0}
    returned = {"release": 40, "timeout": 0, "session": 0}
    return GroupInFlight(runs, 0, (payments,), archived, returned, brokers)
