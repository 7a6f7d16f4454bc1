"""Coordinators whose partitions move to another broker, and back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker_cy.coordinator import commit
from broker_cy.coordinator_services import coordinator_service
from broker_cy.coordinator_services.coordinator_runtime import LoadState
from broker_cy.coordinator_services.coordinator_service import CoordinatorService
from broker_cy.coordinator_services.group_runtime import GroupRuntime
from broker_cy.coordinator_services.txn_runtime import TransactionRuntime
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.image import ImageDelta, MetadataImage
from broker_cy.wire import messages
from tests.broker_cy.coordinator_services.group_broker import GROUP, GroupBroker, commit_request, run, until
from tests.broker_cy.coordinator_services.other_brokers import broker_image, learn
from tests.broker_cy.coordinator_services.txn_broker import ID, P0, HeldMarkers, TxnBroker


class Cluster:
    """Moves the partitions of one internal topic between the broker, which is 1, and broker 2, as the controller
    would: by the metadata.
    """

    def __init__(self, broker: GroupBroker, service: CoordinatorService[Any, Any]) -> None:
        self.image: MetadataImage = broker.server.broker.image
        self.service = service
        self.table = broker.server.broker.partitions
        self.epoch = 0

    def elect(self, leader: int) -> None:
        """Let `leader` lead all partitions of the topic, in the next leader epoch."""
        self.epoch += 1
        above = self.image.branch()
        topic = above.topics.by_name(self.service.topic)
        assert topic is not None
        partitions = above.topics.partitions_for_write(topic.topic_id)
        for index, each in list(partitions.items()):
            partitions[index] = each._replace(
                replicas=(1, 2), isr=(1, 2), leader=leader, leader_epoch=self.epoch, partition_epoch=self.epoch
            )
            partition = self.table.get(self.service.topic, index)
            assert partition is not None
            partition.lead(self.epoch)
        self.service.apply(ImageDelta.of_branch(self.image, above), above)


def test_groups_and_offsets_survive_a_move(tmp_path: Path) -> None:
    """If this fails, the loss of a broker sets consumers back, and makes every member join again."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            groups = broker.server.broker.groups
            cluster = Cluster(broker, groups)
            member = (await broker.member()).member_id
            sync = messages.SyncGroupRequest(
                group_id=GROUP, generation_id=1, member_id=member, protocol_type="consumer", protocol_name="range"
            )
            sync.assignments = [messages.SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=b"a")]
            assert (await broker.call(sync, 5)).error_code == ErrorCode.NONE
            how = {"generation_id_or_member_epoch": 1, "member_id": member}
            assert await broker.commit(5, **how) is ErrorCode.NONE
            old = broker.runtime()
            cluster.elect(2)
            assert not groups.runtimes
            assert await broker.commit(6, **how) is ErrorCode.NOT_COORDINATOR
            listed = await broker.call(messages.ListGroupsRequest(), 5)
            assert (listed.error_code, listed.groups) == (ErrorCode.NONE, [])
            cluster.elect(1)
            assert groups.is_loading
            assert await broker.commit(6, **how) is ErrorCode.NONE  # it waits
            assert broker.runtime() is not old
            assert await broker.committed() == 6
            beat = messages.HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member)
            assert (await broker.call(beat, 4)).error_code == ErrorCode.NONE

    run(work)


def test_requests_that_wait_for_a_coordinator_learn_that_it_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a coordinator accepts a commit for a group that has moved to another one, or never answers it."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            groups = broker.server.broker.groups
            cluster = Cluster(broker, groups)
            end = broker.runtime().partition.log.log_end_offset
            cluster.elect(2)
            with monkeypatch.context() as patch:
                patch.setattr(GroupRuntime, "_replay_log", lambda self: asyncio.sleep(60))
                cluster.elect(1)
                await asyncio.sleep(0)
            asked = [asyncio.ensure_future(each) for each in (broker.commit(7), broker.fetched())]
            await until(lambda: len(groups.waiters) == 2)
            cluster.elect(2)
            assert len(groups.waiters) == 0
            assert await asyncio.gather(*asked) == [ErrorCode.NOT_COORDINATOR] * 2
            cluster.elect(1)
            await until(lambda: not groups.is_loading)
            assert broker.runtime().partition.log.log_end_offset == end

    run(work)


def test_clients_that_know_a_new_coordinator_before_it_does_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a client that another broker sends here asks, and is refused, until it gives up."""
    monkeypatch.setattr(coordinator_service, "BEHIND_WAIT_S", 60.0)

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            groups = broker.server.broker.groups
            cluster = Cluster(broker, groups)
            cluster.elect(2)
            # The former coordinator redirects clients that still ask it.
            assert await broker.commit(6) is ErrorCode.NOT_COORDINATOR
            monkeypatch.setattr(coordinator_service, "RESIGNED_S", -1.0)
            asked = asyncio.ensure_future(broker.commit(7))
            await until(lambda: len(groups.waiters) == 1)
            cluster.elect(1)
            assert await asked is ErrorCode.NONE
            monkeypatch.setattr(coordinator_service, "BEHIND_WAIT_S", 0.01)
            cluster.elect(2)
            assert await broker.commit(8) is ErrorCode.NOT_COORDINATOR
            asked = asyncio.ensure_future(broker.commit(9))
        assert await asked is ErrorCode.NOT_COORDINATOR

    run(work)


def test_waiting_members_learn_that_the_coordinator_moved(tmp_path: Path) -> None:
    """If this fails, a consumer waits for a broker that does not coordinate its group, until its own timeout."""

    async def work() -> None:
        async with GroupBroker(tmp_path, {"group.initial.rebalance.delay.ms": "60000"}) as broker:
            await broker.prepare()
            joining = asyncio.ensure_future(broker.join(version=3))
            await until(lambda: bool(broker.runtime().machine.groups))
            old = broker.runtime()
            Cluster(broker, broker.server.broker.groups).elect(2)
            assert (await joining).error_code == ErrorCode.NOT_COORDINATOR
            assert (old.state, old._timer) == (LoadState.CLOSED, None)

    run(work)


def test_commits_that_are_being_written_are_not_acknowledged_by_the_old_coordinator(tmp_path: Path) -> None:
    """If this fails, a client considers an offset committed that the next coordinator may not have."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            groups = broker.server.broker.groups
            request = _with_id(broker, commit_request(7))
            committing = broker.runtime().run(commit.commit, request, 9)
            assert not committing.done()
            Cluster(broker, groups).elect(2)
            answer = await committing
            assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR

    run(work)


def _with_id(broker: GroupBroker, request: messages.OffsetCommitRequest) -> messages.OffsetCommitRequest:
    topic = broker.server.broker.image.topics.by_name("t")
    assert topic is not None
    request.topics[0].topic_id = topic.topic_id
    return request


def test_coordinator_of_an_old_epoch_cannot_append(tmp_path: Path) -> None:
    """If this fails, two coordinators of one group write into its log, and commits are lost or come back."""

    async def work() -> None:
        async with TxnBroker(tmp_path) as broker:
            await broker.prepare_txn()
            runtime, txn_runtime = broker.runtime(), broker.txn_runtime()
            producer = await broker.producer()
            ends = [each.partition.log.log_end_offset for each in (runtime, txn_runtime)]
            # The partition is in another epoch already, and the coordinator does not know it yet.
            runtime.partition.lead(1)
            txn_runtime.partition.lead(1)
            assert await broker.commit(7) is ErrorCode.NOT_COORDINATOR
            assert await broker.add(producer) == {P0: "NOT_COORDINATOR"}
            place = ("__consumer_offsets", runtime.partition.index)
            written = await broker.server.broker.txn_markers.write(*producer, 0, True, [place], 2)
            assert written == {place: ErrorCode.NOT_LEADER_OR_FOLLOWER}
            assert [each.partition.log.log_end_offset for each in (runtime, txn_runtime)] == ends

    run(work)


class Behind:
    """A partition whose followers have nothing yet."""

    def __init__(self, partition: Any) -> None:
        self._partition = partition
        self.high_watermark = 0
        self.waiting: list[Any] = []

    def call_when_committed(self, end_offset: int, done: Any) -> None:
        self.waiting.append(done)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._partition, name)


def test_coordinator_waits_until_what_it_loaded_is_committed(tmp_path: Path) -> None:
    """If this fails, a coordinator commits a transaction because of a record that the next leader does not have, and
    that one aborts the rest of it.
    """

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            assert await broker.commit(5) is ErrorCode.NONE
            groups = broker.server.broker.groups
            behind: Any = Behind(broker.runtime().partition)
            runtime = GroupRuntime(behind, 0, groups._runtime_context, groups.settings)
            await runtime.load()
            assert runtime.check() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert runtime._timer is None, "it polls"
            behind.high_watermark = behind.log.log_end_offset
            (committed,) = behind.waiting
            committed(None)
            assert runtime.check() is ErrorCode.NONE
            assert runtime.machine.offsets.count == 1
            runtime.close()
            closed = GroupRuntime(Behind(behind), 0, groups._runtime_context, groups.settings)  # type: ignore[arg-type]
            await closed.load()
            closed.close()
            closed.partition.waiting[0](None)  # type: ignore[attr-defined]
            assert (closed.state, closed._timer) == (LoadState.CLOSED, None)

    run(work)


def test_a_producer_waits_for_a_coordinator_that_is_being_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, each move of a transaction coordinator costs producers an error and a pause."""

    async def work() -> None:
        async with TxnBroker(tmp_path) as broker:
            await broker.prepare_txn()
            producer_id, epoch = await broker.producer()
            await broker.add((producer_id, epoch))
            cluster, verify = Cluster(broker, broker.service), broker.service.verify
            may_load = asyncio.Event()
            right = TransactionRuntime._replay_log

            async def replay(self: TransactionRuntime) -> int:
                await may_load.wait()
                return await right(self)

            monkeypatch.setattr(TransactionRuntime, "_replay_log", replay)
            monkeypatch.setattr(coordinator_service, "LOAD_WAIT_S", 60.0)
            for adds in (False, True):
                may_load.clear()
                cluster.elect(2)
                cluster.elect(1)
                asked = verify(ID, producer_id, epoch, [P0], add=adds)
                await until(lambda: len(broker.service.waiters) == 1)
                assert not asked.done()
                may_load.set()
                assert await asked == {P0: ErrorCode.NONE}
            # A coordinator that is not loaded in time says so.
            may_load.clear()
            monkeypatch.setattr(coordinator_service, "LOAD_WAIT_S", 0.01)
            cluster.elect(2)
            cluster.elect(1)
            for adds in (False, True):
                late = await verify(ID, producer_id, epoch, [P0], add=adds)
                assert late == {P0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}

    run(work)


def test_markers_carry_the_epoch_of_the_new_coordinator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a transaction that was decided before a move stays open, or markers of the old coordinator are
    mistaken for those of the new one.
    """

    async def work() -> None:
        async with TxnBroker(tmp_path) as broker:
            await broker.prepare_txn()
            cluster = Cluster(broker, broker.service)
            markers = HeldMarkers()
            monkeypatch.setattr(broker.server.broker.txn_markers, "write", markers.write)
            producer = await broker.producer()
            await broker.add(producer)
            assert (await broker.end(producer)).error_code == ErrorCode.NONE
            old = broker.txn_runtime()
            cluster.elect(2)
            assert (await broker.init()).error_code == ErrorCode.NOT_COORDINATOR
            markers.answer()
            assert old.machine.transactions[ID].state.label == "PrepareCommit"
            cluster.elect(1)
            await broker.service.loaded()
            await until(lambda: len(markers.calls) == 2)
            assert [call[2] for call in markers.calls] == [0, 2]
            assert markers.calls[0][3:] == markers.calls[1][3:]
            markers.answer()
            await until(lambda: broker.state() == "CompleteCommit")

    run(work)


def test_producer_that_waits_for_the_transaction_before_is_sent_to_the_new_coordinator(tmp_path: Path) -> None:
    """If this fails, a Produce request waits for the end of a transaction that this broker no longer coordinates."""

    async def work() -> None:
        async with TxnBroker(tmp_path, {"add.partitions.to.txn.retry.backoff.max.ms": "60000"}) as broker:
            await broker.prepare_txn()
            markers = HeldMarkers()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(broker.server.broker.txn_markers, "write", markers.write)
                producer_id, epoch = await broker.producer()
                await broker.add((producer_id, epoch))
                await broker.end((producer_id, epoch))
                adding = broker.service.verify(ID, producer_id, epoch + 1, [P0], add=True)
                await until(lambda: bool(broker.txn_runtime()._waiting))
                Cluster(broker, broker.service).elect(2)
                assert await adding == {P0: ErrorCode.NOT_COORDINATOR}

    run(work)


def test_producer_that_waits_for_the_transaction_before_is_answered_at_the_stop(tmp_path: Path) -> None:
    """If this fails, a Produce request is never answered by a broker of a cluster that is being stopped."""

    async def work() -> None:
        settings = {"add.partitions.to.txn.retry.backoff.max.ms": "60000"}
        with pytest.MonkeyPatch.context() as patch:
            async with TxnBroker(tmp_path, settings) as broker:
                await broker.prepare_txn()
                learn(broker.server.broker.controller, [broker_image(2)], {})
                patch.setattr(broker.server.broker.txn_markers, "write", HeldMarkers().write)
                producer_id, epoch = await broker.producer()
                await broker.add((producer_id, epoch))
                await broker.end((producer_id, epoch))
                adding = broker.service.verify(ID, producer_id, epoch + 1, [P0], add=True)
                await until(lambda: bool(broker.txn_runtime()._waiting))
            assert len(broker.service._image.brokers) == 2
            assert adding.done()
            assert adding.result() == {P0: ErrorCode.NOT_COORDINATOR}

    run(work)
