"""The running group coordinator: batches, failed writes, restarts, timers, and reactions to the metadata."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker_cy.coordinator.group_machine import GroupMachine
from broker_cy.coordinator.offset_record import encode_offset_key, encode_offset_value
from broker_cy.coordinator_services import coordinator_service
from broker_cy.coordinator_services.group_runtime import LoadState
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.wire import messages
from broker_cy.wire.records import Record, decode_batches, encode_batch
from tests.broker_cy.coordinator_services.group_broker import GROUP, GroupBroker, run, until

FIXTURE = Path(__file__).parents[2] / "fixtures/kafka-4.3.1/logdir"


def batches(broker: GroupBroker, group_id: str = GROUP) -> list[Any]:
    """Return the records in the log of the partition that coordinates the group."""
    log = broker.runtime(group_id).partition.log
    found: list[Any] = []
    at = log.log_start_offset
    while at < log.written_end_offset:
        part = log.read_slice(at)
        assert part is not None
        found += decode_batches(part.read())
        at = found[-1].last_offset + 1
    return found


def test_operations_of_one_turn_share_a_batch(tmp_path: Path) -> None:
    """If this fails, a thousand concurrent offset commits cost a thousand batches."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            codes = await asyncio.gather(*(broker.commit(i, partition=i % 2) for i in range(40)))
            assert set(codes) == {ErrorCode.NONE}
            found = batches(broker)
            assert sum(batch.count for batch in found) == 40
            assert len(found) <= 2
            assert await broker.committed() == 38
            assert broker.runtime().machine.next_offset == 40

    run(work)


def test_state_survives_a_restart(tmp_path: Path) -> None:
    """If this fails, every restart of the broker sets consumers back, and makes members join again."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            joined = await broker.member()
            sync = messages.SyncGroupRequest(
                group_id=GROUP,
                generation_id=1,
                member_id=joined.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[
                    messages.SyncGroupRequest.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"a")
                ],
            )
            await broker.call(sync, 5)
            assert await broker.commit(5, generation_id_or_member_epoch=1, member_id=joined.member_id) is ErrorCode.NONE
        async with GroupBroker(tmp_path) as broker:
            assert await broker.committed() == 5
            beat = messages.HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=joined.member_id)
            assert (await broker.call(beat, 4)).error_code == ErrorCode.NONE
            assert (await broker.call(sync, 5)).assignment == b"a"

    run(work)


def test_log_of_a_real_kafka_is_served(tmp_path: Path) -> None:
    """If this fails, a data directory that Kafka wrote loses its groups with this broker."""
    shutil.copytree(FIXTURE, tmp_path / "data")

    async def work() -> None:
        async with GroupBroker(tmp_path / "data") as broker:
            listed = (await broker.call(messages.ListGroupsRequest(), 5)).groups
            assert {(g.group_id, g.group_type, g.group_state) for g in listed} == {
                ("classic-sample", "classic", "Empty"),
                ("consumer-sample", "consumer", "Empty"),
            }
            assert await broker.committed("sample", 0, "classic-sample") == 100
            assert await broker.committed("compacted", 0, "consumer-sample") == 100

    run(work)


def test_session_ends_by_the_clock(tmp_path: Path) -> None:
    """If this fails, dead members stay in a running broker."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare()
            # An old version needs one request. A second one would have to come before the session of the first ends.
            await broker.member(version=3, session_timeout_ms=50)
            await until(lambda: not any(group.members for group in broker.runtime().machine.classic_groups()))

    run(work)


def test_retention_takes_effect_in_a_running_broker(tmp_path: Path) -> None:
    """If this fails, unused groups are only removed by a restart, if at all."""

    async def work() -> None:
        async with GroupBroker(tmp_path, {"offsets.retention.check.interval.ms": "20"}) as broker:
            await broker.prepare("t")
            left = await broker.member()
            leave = messages.LeaveGroupRequest(
                group_id=GROUP, members=[messages.LeaveGroupRequest.MemberIdentity(member_id=left.member_id)]
            )
            await broker.call(leave, 5)
            await broker.commit(1, group_id="kept")
            await until(lambda: GROUP not in broker.runtime().machine.groups)
            assert await broker.committed(group_id="kept") == 1

    run(work)


def test_write_that_fails_is_undone_and_the_next_one_succeeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, after a full disk, commits that failed are served or the coordinator stays broken."""

    class FailingOnce:
        """A partition whose first write fails, as with a full disk."""

        def __init__(self, partition: Any) -> None:
            self.partition = partition
            self.failures = 1

        def __getattr__(self, name: str) -> Any:
            return getattr(self.partition, name)

        def append_then(self, batch: bytes, now_ms: int, done: Callable[[KafkaError | None], None]) -> None:
            if not self.failures:
                self.partition.append_then(batch, now_ms, done)
                return
            self.failures -= 1
            error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left on device")
            asyncio.get_running_loop().call_soon(done, error)

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            await broker.commit(1)
            monkeypatch.setattr(broker.runtime(), "partition", FailingOnce(broker.runtime().partition))
            first, second = await asyncio.gather(broker.commit(2), broker.commit(3))
            assert (first, second) == (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR)
            assert await broker.committed() == 1
            assert await broker.commit(4) is ErrorCode.NONE
            assert await broker.committed() == 4
            assert broker.runtime().machine.next_offset == 2

    run(work)


def test_record_too_large_for_the_topic_is_refused(tmp_path: Path) -> None:
    """If this fails, one huge group stops every other group of its partition."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            joined = await broker.member()
            sync = messages.SyncGroupRequest(
                group_id=GROUP,
                generation_id=1,
                member_id=joined.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[
                    messages.SyncGroupRequest.SyncGroupRequestAssignment(
                        member_id=joined.member_id, assignment=bytes(2_000_000)
                    )
                ],
            )
            assert (await broker.call(sync, 5)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
            assert await broker.commit(1, group_id="other") is ErrorCode.NONE

    run(work)


@pytest.mark.parametrize("by_request", [False, True], ids=["sweep", "DeleteGroups"])
def test_many_tombstones_are_cut_into_batches(tmp_path: Path, by_request: bool) -> None:
    """If this fails, removing a group with many offsets fails because of the size of one batch, and it can never be
    removed.
    """

    async def work() -> None:
        async with GroupBroker(tmp_path, {"offsets.retention.check.interval.ms": "3600000"}) as broker:
            await broker.prepare("t")
            runtime = broker.runtime()
            now = runtime.now().wall_ms
            key_bytes = 0
            for i in range(3_000):
                key = encode_offset_key(GROUP, "x" * 400, i)
                key_bytes += len(key)
                runtime.machine.apply(i, -1, key, encode_offset_value(1, -1, "", 1, now - 1, bytes(16)))
            runtime.machine.loaded(runtime.now())
            runtime.machine.next_offset = 0
            assert key_bytes > 1_048_588
            if by_request:
                request = messages.DeleteGroupsRequest(groups_names=[GROUP])
                assert (await broker.call(request, 2)).results[0].error_code == ErrorCode.NONE
            else:
                runtime.sweep()
                await until(lambda: not runtime.is_writing)
            assert runtime.machine.offsets.count == 0
            assert len(batches(broker)) == 2

    run(work)


def test_deleted_topic_takes_its_offsets_along(tmp_path: Path) -> None:
    """If this fails, a topic that is created again is read from the old one's offsets."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t", "u")
            await broker.commit(1)
            await broker.commit(2, "u")
            named = messages.DeleteTopicsRequest.DeleteTopicState(name="t")
            await broker.call(messages.DeleteTopicsRequest(topics=[named], timeout_ms=10_000), 6)
            await until(lambda: broker.runtime().machine.offsets.get(GROUP, "t", 0) is None)
            assert await broker.committed("u") == 2
        async with GroupBroker(tmp_path) as broker:
            assert broker.runtime().machine.offsets.count == 1

    run(work)


def test_stop_answers_who_waits(tmp_path: Path) -> None:
    """If this fails, a stop of the broker waits for members that wait for others."""

    async def work() -> None:
        async with GroupBroker(tmp_path, {"group.initial.rebalance.delay.ms": "60000"}) as broker:
            await broker.prepare("t")
            waiting = asyncio.ensure_future(broker.join(version=3))
            committing = asyncio.ensure_future(broker.commit(1, group_id="other"))
            await until(lambda: GROUP in broker.runtime().machine.groups)
        assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR
        assert await committing is ErrorCode.NONE

    run(work)


def test_group_is_not_answered_while_it_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, consumers find no committed offsets right after a start, and start over or wait forever."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            monkeypatch.setattr(coordinator_service, "LOAD_WAIT_S", 0.01)
            runtime = broker.runtime()
            runtime.state = LoadState.LOADING
            assert (await broker.join("m")).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert await broker.commit(1) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert await broker.fetched() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert len(broker.server.broker.groups.waiters) == 0
            beat = messages.HeartbeatRequest(group_id=GROUP)
            assert (await broker.call(beat, 4)).error_code == ErrorCode.NONE
            listed = await broker.call(messages.ListGroupsRequest(), 5)
            assert listed.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            runtime.state = LoadState.ACTIVE

    run(work)


def test_a_defect_while_a_log_is_loaded_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, groups wait for a coordinator forever, because an unexpected record ended the loading of the
    logs.
    """
    right = GroupMachine.loaded

    def loaded(self: GroupMachine, now: Any) -> Any:
        if self.offsets.get(GROUP, "t", 0) is not None:
            raise LookupError("a defect")
        return right(self, now)

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            assert broker.runtime() is not broker.runtime("b")
            assert await broker.commit(1) is ErrorCode.NONE
            assert await broker.commit(3, group_id="b") is ErrorCode.NONE
        monkeypatch.setattr(coordinator_service, "LOADERS_MAX", 1)
        monkeypatch.setattr(GroupMachine, "loaded", loaded)
        async with GroupBroker(tmp_path) as broker:
            assert await broker.commit(1) is ErrorCode.NOT_COORDINATOR
            assert await broker.committed(group_id="b") == 3
        assert "loading __consumer_offsets failed" in caplog.text

    run(work)


def test_log_that_cannot_be_understood_is_not_guessed_at(tmp_path: Path) -> None:
    """If this fails, offsets of a newer Kafka count as never committed. Other partitions are served."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            await broker.commit(3, group_id="b")
            value = b"\x00\x63" + encode_offset_value(1, -1, "", 1, -1, bytes(16))[2:]
            batch = encode_batch([Record(key=encode_offset_key(GROUP, "t", 0), value=value)])
            await broker.runtime().partition.append_records(batch, 0)
            assert broker.runtime().partition is not broker.runtime("b").partition
        async with GroupBroker(tmp_path) as broker:
            assert await broker.commit(1) is ErrorCode.NOT_COORDINATOR
            assert await broker.committed(group_id="b") == 3

    run(work)


async def alter(broker: GroupBroker, kind: int, name: str, **settings: str) -> None:
    """Set settings of a resource; an underscore in a keyword stands for a dot."""
    request = messages.IncrementalAlterConfigsRequest
    changes = [
        request.AlterableConfig(name=key.replace("_", "."), config_operation=0, value=value)
        for key, value in settings.items()
    ]
    resource = request.AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    (answer,) = (await broker.call(request(resources=[resource]), 1)).responses
    assert answer.error_code == ErrorCode.NONE, answer.error_message


def test_settings_of_groups_reach_their_coordinator(tmp_path: Path) -> None:
    """If this fails, members learn of a changed heartbeat interval only after the coordinator has moved."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare()
            machine = broker.runtime().machine
            assert machine.consumer_config(GROUP) == (45_000, 5_000, 1_000)
            await alter(broker, 32, GROUP, consumer_heartbeat_interval_ms="6000")
            await alter(broker, 4, "", group_consumer_assignment_interval_ms="2000")
            await until(lambda: machine.consumer_config(GROUP) == (45_000, 6_000, 2_000))
            assert machine.consumer_config("other") == (45_000, 5_000, 2_000)
            await alter(broker, 32, GROUP, consumer_assignment_interval_ms="3000")
            await until(lambda: machine.consumer_config(GROUP) == (45_000, 6_000, 3_000))

    run(work)
