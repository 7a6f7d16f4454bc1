"""Requests of brokers and operators to the controller, in every version that is served."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from broker_cy.broker.registry import ListenerKind, registrations
from broker_cy.control.controller_service import ControllerService
from broker_cy.controller.operation import Operation
from broker_cy.core.errors import ErrorCode
from broker_cy.handlers import load_handlers
from broker_cy.handlers.list_partition_reassignments import list_partition_reassignments
from broker_cy.metadata import features
from broker_cy.metadata.image import MetadataImage
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from tests.broker_cy.handlers.metadata_broker import MetadataBroker, create, with_broker
from tests.support.images import topic_in

load_handlers(ListenerKind.CONTROLLER)
OTHER = 2
DIRECTORY = UUID(int=1 << 90)


def registration(broker: MetadataBroker, version: int = 4, **fields: Any) -> messages.BrokerRegistrationRequest:
    request = messages.BrokerRegistrationRequest(
        broker_id=OTHER,
        cluster_id=broker.cluster_id,
        incarnation_id=UUID(int=1 << 80),
        listeners=[
            messages.BrokerRegistrationRequest.Listener(name="PLAINTEXT", host="b", port=9092, security_protocol=0)
        ],
        features=[
            messages.BrokerRegistrationRequest.Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in features.SUPPORTED.items()
        ],
    )
    if version >= 2:
        request.log_dirs = [DIRECTORY]
    for name, value in fields.items():
        setattr(request, name, value)
    return request


async def join(broker: MetadataBroker) -> int:
    epoch: int = (await broker.call(registration(broker), 4)).broker_epoch
    await broker.call(beat(broker, epoch), 2)
    assert not broker.image.brokers[OTHER].fenced
    return epoch


def beat(broker: MetadataBroker, epoch: int, **fields: Any) -> messages.BrokerHeartbeatRequest:
    return messages.BrokerHeartbeatRequest(
        broker_id=OTHER, broker_epoch=epoch, current_metadata_offset=broker.image.offset, **fields
    )


def test_each_api_is_served_where_it_belongs() -> None:
    """If this fails, a client could register brokers, or a broker does not find its controller."""
    controllers = set(registrations(ListenerKind.CONTROLLER))
    both = {
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.ALTER_CLIENT_QUOTAS,
    }
    only = {
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    }
    assert both | only <= controllers
    assert both <= set(registrations())
    assert not only & set(registrations())


@pytest.mark.parametrize("version", range(2, 5))
def test_a_broker_registers_and_is_unfenced(tmp_path: Path, version: int) -> None:
    """If this fails, a second broker cannot join the cluster."""

    async def work(broker: MetadataBroker) -> None:
        response = await broker.call(registration(broker, version), version)
        assert (response.error_code, response.broker_epoch) == (0, broker.image.brokers[OTHER].epoch)
        late = await broker.call(beat(broker, response.broker_epoch - 1), min(version - 2, 2))
        assert late.error_code == ErrorCode.STALE_BROKER_EPOCH
        reply = await broker.call(beat(broker, response.broker_epoch), min(version - 2, 2))
        assert (reply.is_caught_up, reply.is_fenced, reply.should_shut_down) == (True, False, False)
        stopped = await broker.call(beat(broker, response.broker_epoch, want_shut_down=True), 1)
        assert (stopped.is_fenced, stopped.should_shut_down) == (True, True)
        refused = await broker.call(registration(broker, version, cluster_id="other"), version)
        assert refused.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID

    with_broker(tmp_path, work)


def test_other_leaders_come_before_the_end_of_a_process_that_another_node_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, clients wait until every partition of a dead broker is changed, not only those that it led."""
    submitted: list[str] = []
    submit = ControllerService.submit

    def noted(service: ControllerService, operation: Operation[Any]) -> asyncio.Future[Any]:
        submitted.append(type(operation).__name__)
        return submit(service, operation)

    async def work(broker: MetadataBroker) -> None:
        epoch = await join(broker)
        monkeypatch.setattr(ControllerService, "submit", noted)
        stale = await broker.call(beat(broker, epoch - 1, want_fence=True, want_shut_down=True), 2)
        assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH
        assert not broker.image.brokers[OTHER].fenced
        submitted.clear()
        reply = await broker.call(beat(broker, epoch, want_fence=True, want_shut_down=True), 2)
        assert (reply.error_code, reply.is_fenced) == (0, True)
        assert submitted == ["ReplaceLeaders", "LeaveInSync", "Heartbeat"]
        assert broker.image.brokers[OTHER].fenced

    with_broker(tmp_path, work)


@pytest.mark.parametrize("version", [0, 1])
def test_a_registration_without_directories_is_refused(tmp_path: Path, version: int) -> None:
    """If this fails, a broker from before KIP-858 joins a cluster whose records it cannot read."""

    async def work(broker: MetadataBroker) -> None:
        response = await broker.call(registration(broker, version), version)
        assert response.error_code == ErrorCode.INVALID_REGISTRATION

    with_broker(tmp_path, work)


def test_in_sync_sets_and_directories(tmp_path: Path) -> None:
    """If this fails, followers never count, or the disk of a replica is not known."""

    async def work(broker: MetadataBroker) -> None:
        epoch = await join(broker)
        await create(broker, "t")
        topic_id = topic_in(broker.image, "t").topic_id
        await broker.call(reassignment("t", [1, OTHER]), 1)
        request = messages.AlterPartitionRequest
        part = request.PartitionData(
            partition_index=0,
            new_isr_with_epochs=[request.BrokerState(broker_id=b) for b in (1, OTHER)],
            leader_epoch=0,
            partition_epoch=1,
        )
        leader = topic_in(broker.image, "t").partitions[0].leader
        whole = request(
            broker_id=leader,
            broker_epoch=broker.image.brokers[leader].epoch,
            topics=[request.TopicData(topic_id=topic_id, partitions=[part])],
        )
        (topic,) = (await broker.call(whole, 3)).topics
        assert (topic.partitions[0].error_code, topic.partitions[0].isr) == (0, [1, OTHER])
        stale = request(broker_id=leader, broker_epoch=1, topics=[])
        assert (await broker.call(stale, 3)).error_code == ErrorCode.STALE_BROKER_EPOCH
        dirs = messages.AssignReplicasToDirsRequest
        moved = dirs(
            broker_id=OTHER,
            broker_epoch=epoch,
            directories=[
                dirs.DirectoryData(
                    id=DIRECTORY,
                    topics=[dirs.TopicData(topic_id=topic_id, partitions=[dirs.PartitionData(partition_index=0)])],
                )
            ],
        )
        answer = await broker.call(moved, 0)
        assert answer.directories[0].topics[0].partitions[0].error_code == 0
        moved.broker_epoch += 1
        assert (await broker.call(moved, 0)).error_code == ErrorCode.STALE_BROKER_EPOCH

    with_broker(tmp_path, work)


def reassignment(name: str, replicas: list[int] | None) -> messages.AlterPartitionReassignmentsRequest:
    request = messages.AlterPartitionReassignmentsRequest
    part = request.ReassignablePartition(partition_index=0, replicas=replicas)
    return request(topics=[request.ReassignableTopic(name=name, partitions=[part])])


@pytest.mark.parametrize("version", [0, 1])
def test_reassignments(tmp_path: Path, version: int) -> None:
    """If this fails, kafka-reassign-partitions cannot move a replica, show that, or cancel it."""

    async def work(broker: MetadataBroker) -> None:
        await join(broker)
        assignment = messages.CreateTopicsRequest.CreatableReplicaAssignment(partition_index=0, broker_ids=[1])
        topic = messages.CreateTopicsRequest.CreatableTopic(
            name="t", num_partitions=-1, replication_factor=-1, assignments=[assignment]
        )
        await broker.call(messages.CreateTopicsRequest(topics=[topic]), 7)
        response = await broker.call(reassignment("t", [OTHER]), version)
        assert response.responses[0].partitions[0].error_code == 0
        listed = messages.ListPartitionReassignmentsRequest
        for topics in (None, [listed.ListPartitionReassignmentsTopics(name="t", partition_indexes=[0, 1])]):
            (found,) = (await broker.call(listed(topics=topics), 0)).topics
            (part,) = found.partitions
            assert (part.replicas, part.adding_replicas, part.removing_replicas) == ([OTHER, 1], [OTHER], [1])
        await broker.call(reassignment("t", None), version)
        assert (await broker.call(listed(topics=None), 0)).topics == []
        again = await broker.call(reassignment("t", None), version)
        assert again.responses[0].partitions[0].error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS

    with_broker(tmp_path, work)


def test_reassignments_are_listed_as_the_active_controller_has_them() -> None:
    """If this fails, a reassignment that was just requested is considered complete."""
    kind = messages.ListPartitionReassignmentsResponse
    ongoing = kind(topics=[kind.OngoingTopicReassignment(name="t", partitions=[])])

    async def forward(*_: Any) -> Any:
        return ongoing

    async def here(*_: Any) -> None:
        return None

    controller = SimpleNamespace(forward=forward, is_active=False)
    ctx = cast(
        Any,
        SimpleNamespace(
            broker=SimpleNamespace(controller=controller, image=MetadataImage()), require_cluster=lambda _, **__: None
        ),
    )
    request = messages.ListPartitionReassignmentsRequest(topics=None)
    assert asyncio.run(list_partition_reassignments(ctx, request)) is ongoing
    controller.forward = here
    assert asyncio.run(list_partition_reassignments(ctx, request)).error_code == ErrorCode.NOT_CONTROLLER
    controller.is_active = True
    assert asyncio.run(list_partition_reassignments(ctx, request)) == kind(error_message=None, topics=[])


@pytest.mark.parametrize("version", range(3))
def test_elections(tmp_path: Path, version: int) -> None:
    """If this fails, kafka-leader-election cannot be used."""

    async def work(broker: MetadataBroker) -> None:
        await create(broker, "t")
        request = messages.ElectLeadersRequest
        asked = request(topic_partitions=[request.TopicPartitions(topic="t", partitions=[0, 7])])
        response = await broker.call(asked, version)
        codes = [ErrorCode(part.error_code).name for part in response.replica_election_results[0].partition_result]
        assert codes == ["ELECTION_NOT_NEEDED", "UNKNOWN_TOPIC_OR_PARTITION"]
        if version >= 1:
            asked.election_type = 9
            assert (await broker.call(asked, version)).error_code == ErrorCode.INVALID_REQUEST

    with_broker(tmp_path, work)


def test_the_rest(tmp_path: Path) -> None:
    """If this fails, transactional ids run out of producer ids, controllers are not known, or brokers never leave."""

    async def work(broker: MetadataBroker) -> None:
        epoch = await join(broker)
        block = await broker.call(messages.AllocateProducerIdsRequest(broker_id=OTHER, broker_epoch=epoch), 0)
        assert (block.error_code, block.producer_id_len) == (0, 1000)
        stale = await broker.call(messages.AllocateProducerIdsRequest(broker_id=OTHER, broker_epoch=epoch + 1), 0)
        assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH
        controller = messages.ControllerRegistrationRequest(controller_id=7, incarnation_id=UUID(int=1 << 70))
        assert (await broker.call(controller, 0)).error_code == 0
        assert 7 in broker.image.controllers
        assert (await broker.call(messages.UnregisterBrokerRequest(broker_id=OTHER), 0)).error_code == 0
        gone = await broker.call(messages.UnregisterBrokerRequest(broker_id=OTHER), 0)
        assert (gone.error_code, gone.error_message) == (
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            "Broker ID 2 is not currently registered",
        )

    with_broker(tmp_path, work)
