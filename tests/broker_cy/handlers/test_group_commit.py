"""flush.messages: records are on disk before they are acknowledged or read, and other clients do not wait for that."""

import errno
import os
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.replica.group_commit import GroupCommit
from broker_cy.storage import disk, log_flush
from broker_cy.storage.errors import StorageError
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.moves.log_relocation import relocate
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from broker_cy.wire.records import Record, encode_batch
from tests.broker_cy.connections.harness import (
    CoreHarness,
    RawClient,
    fetch_from,
    fetch_request,
    produce_request,
    produce_to,
)

T = TypeVar("T")
GROUPS = messages.ListGroupsResponse()
SLOW = "slow"


class HeldJobs:
    """Runs the loop's jobs when the test requests it."""

    def __init__(self) -> None:
        self.held: list[Callable[[], None]] = []

    def run(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        self.held.append(lambda: done(work(), None))

    def later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        raise NotImplementedError


class Broker(CoreHarness):
    """A core with a topic `slow` (2 partitions, flush.messages=1), a topic `few` (flush.messages=3), and a topic
    `fast`.
    """

    def __init__(self) -> None:
        super().__init__({ApiKey.LIST_GROUPS: lambda ctx, request: GROUPS})
        self.jobs = HeldJobs()
        self.core.commit = GroupCommit(self.core, {"": self.jobs}, 4)
        self.topic(SLOW, 2, LogConfig(flush_messages=1))
        self.topic("few", 1, LogConfig(flush_messages=3))
        self.topic("fast")

    def partition(self, topic: str, index: int = 0) -> Any:
        return self.table.by_name[topic.encode()][index]

    def wait_for_jobs(self, count: int) -> None:
        self.wait_until(lambda: len(self.jobs.held) == count)

    def sync(self) -> None:
        """Let the running round end."""

        def end() -> None:
            held, self.jobs.held = self.jobs.held, []
            for job in held:
                job()

        self.on_loop(end)


@pytest.fixture
def broker() -> Iterator[Broker]:
    harness = Broker()
    yield harness
    harness.close()


def batch(count: int = 1, **producer: int) -> bytes:
    return encode_batch([Record(i, 1_000, b"k", b"v" * 100, []) for i in range(count)], **producer)  # type: ignore[arg-type]


def send(client: RawClient, topic: str, index: int = 0, acks: int = -1, records: int = 1) -> None:
    client.send(client.encode(produce_request(topic, index, batch(records), acks), ApiKey.PRODUCE, 9))


def result(client: RawClient) -> tuple[int, int]:
    """Return (error code, base offset) of the next response."""
    _, response = client.receive(ApiKey.PRODUCE, 9, messages.ProduceResponse)
    answer = response.responses[0].partition_responses[0]
    return answer.error_code, answer.base_offset


def nothing_came(client: RawClient) -> bool:
    client.socket.setblocking(False)
    try:
        client.socket.recv(1)
    except BlockingIOError:
        return True
    finally:
        client.socket.settimeout(20)
    return False


@pytest.mark.parametrize("acks", [1, -1])
def test_the_answer_and_the_records_come_after_the_sync(broker: Broker, acks: int) -> None:
    """If this fails, a record that was acknowledged, or that a consumer processed, is lost in a power cut."""
    client, reader = broker.client(), broker.client()
    send(client, SLOW, acks=acks)
    broker.wait_for_jobs(1)
    partition = broker.partition(SLOW)
    assert (partition.log.written_end_offset, partition.high_watermark) == (1, 0)
    assert fetch_from(reader, SLOW, 0).records in (None, b"")
    assert nothing_came(client)
    broker.sync()
    assert result(client) == (0, 0)
    assert fetch_from(reader, SLOW, 0).high_watermark == 1
    assert partition.log.synced_end_offset == 1


def test_one_round_serves_all_that_came_meanwhile(broker: Broker) -> None:
    """If this fails, with 64 producers each record requires its own sync, and the disk does some hundred a second."""
    clients = [broker.client() for _ in range(8)]
    send(clients[0], SLOW)
    broker.wait_for_jobs(1)
    for number, client in enumerate(clients[1:]):
        send(client, SLOW, number % 2)
    broker.wait_until(lambda: sum(broker.partition(SLOW, i).log.written_end_offset for i in (0, 1)) == 8)
    broker.sync()
    assert result(clients[0]) == (0, 0)
    assert all(nothing_came(client) for client in clients[1:])
    broker.wait_for_jobs(2)
    broker.sync()
    offsets = sorted(result(client) for client in clients[1:])
    assert offsets == [(0, 0), (0, 1), (0, 1), (0, 2), (0, 2), (0, 3), (0, 4)]
    assert broker.core.commit.rounds == 2
    assert broker.jobs.held == []


def test_a_slow_disk_delays_no_other_one(broker: Broker, tmp_path: Path) -> None:
    """If this fails, one slow disk of a broker makes all producers with flush.messages as slow as itself."""
    jobs = {"slow": HeldJobs(), "good": HeldJobs()}
    for name in jobs:
        (tmp_path / name).mkdir()
        broker.topic(f"on-{name}", 1, LogConfig(flush_messages=1), root=str(tmp_path / name))
    commit = GroupCommit(broker.core, {str(tmp_path / name): each for name, each in jobs.items()}, 4)
    broker.on_loop(lambda: setattr(broker.core, "commit", commit))
    waiting, served = broker.client(), broker.client()
    send(waiting, "on-slow")
    broker.wait_until(lambda: len(jobs["slow"].held) == 1)
    for offset in range(2):
        send(served, "on-good")
        broker.wait_until(lambda: len(jobs["good"].held) == 1)
        broker.on_loop(lambda: jobs["good"].held.pop()())
        assert result(served) == (0, offset)
    assert nothing_came(waiting)
    broker.on_loop(lambda: jobs["slow"].held.pop()())
    assert result(waiting) == (0, 0)
    assert (commit.rounds, commit.round_times.snapshot().count) == (3, 3)


@pytest.mark.parametrize("sent", [1, 2])
def test_a_log_that_moves_during_a_round_is_synced_at_its_goal(broker: Broker, tmp_path: Path, sent: int) -> None:
    """If this fails, a record is acknowledged as synced while the disk that its replica has moved to does not have it,
    or not the name of its directory: a power loss takes it.
    """
    jobs = {str(tmp_path / name): HeldJobs() for name in ("old", "new")}
    old, new = jobs
    for root in jobs:
        os.mkdir(root)
    broker.topic("moving", 1, LogConfig(flush_messages=1), root=old)
    commit = GroupCommit(broker.core, jobs, 4)
    broker.on_loop(lambda: setattr(broker.core, "commit", commit))
    clients = [broker.client() for _ in range(sent)]
    partition = broker.partition("moving")
    for written, client in enumerate(clients, 1):
        send(client, "moving")
        broker.wait_until(lambda written=written: partition.log.written_end_offset == written)  # type: ignore[misc]
    broker.wait_until(lambda: len(jobs[old].held) == 1)

    def move() -> None:
        shutil.copytree(f"{old}/moving-0", f"{new}/moving-0")
        relocate(partition.log, f"{new}/moving-0", 0)
        commit.moved(partition, old)

    broker.on_loop(move)
    # The old disk may hang.
    assert [len(each.held) for each in jobs.values()] == [1, 1]
    broker.on_loop(lambda: jobs[old].held.pop()())
    assert partition.high_watermark == 0
    assert all(nothing_came(client) for client in clients)
    broker.on_loop(lambda: jobs[new].held.pop()())
    assert sorted(result(client) for client in clients) == [(0, offset) for offset in range(sent)]
    assert partition.log.synced_end_offset == sent
    assert not partition.log.syncs.names_are_due
    assert [each.held for each in jobs.values()] == [[], []]
    send(clients[0], "moving")
    broker.wait_until(lambda: len(jobs[new].held) == 1)
    broker.on_loop(lambda: jobs[new].held.pop()())
    assert result(clients[0]) == (0, sent)


def test_other_topics_do_not_wait(broker: Broker) -> None:
    """If this fails, one topic with flush.messages makes every producer of the broker as slow as the disk."""
    client, other = broker.client(), broker.client()
    send(client, SLOW)
    broker.wait_for_jobs(1)
    assert produce_to(other, "fast", batch()).error_code == 0
    assert fetch_from(other, "fast", 0).high_watermark == 1
    # On one connection responses keep their order.
    send(client, "fast")
    broker.wait_until(lambda: broker.partition("fast").high_watermark == 2)
    assert nothing_came(client)
    broker.sync()
    assert [result(client), result(client)] == [(0, 0), (0, 1)]


def test_below_flush_messages_nothing_is_synced(broker: Broker) -> None:
    """If this fails, every record is synced although only each third should be; or those after a sync overtake it."""
    client = broker.client()
    for offset in (0, 1):
        send(client, "few")
        assert result(client) == (0, offset)
    send(client, "few")
    broker.wait_for_jobs(1)
    send(client, "few")
    broker.wait_until(lambda: broker.partition("few").log.written_end_offset == 4)
    assert broker.partition("few").high_watermark == 2
    assert nothing_came(client)
    broker.sync()
    assert [result(client), result(client)] == [(0, 2), (0, 3)]
    assert broker.partition("few").high_watermark == 4
    assert broker.jobs.held == []
    send(client, "few", records=2)
    broker.wait_for_jobs(1)
    broker.sync()
    assert result(client) == (0, 4)


def test_a_batch_sent_again_waits_for_the_sync_of_the_first(broker: Broker) -> None:
    """If this fails, a producer that retries gets success for records that a power cut then takes."""
    client, again = broker.client(), broker.client()
    data = batch(producer_id=7, producer_epoch=0, base_sequence=0)
    frame = client.encode(produce_request(SLOW, 0, data), ApiKey.PRODUCE, 9)
    client.send(frame)
    broker.wait_for_jobs(1)
    again.send(frame)
    broker.wait_until(lambda: broker.core.requests == 2)
    assert nothing_came(again)
    broker.sync()
    assert result(client) == result(again) == (0, 0)
    assert broker.partition(SLOW).log.written_end_offset == 1


def test_the_next_request_of_a_connection_finds_what_it_produced(broker: Broker) -> None:
    """If this fails, a producer with acks=0 that reads its records immediately afterwards does not find them, as it
    does with Kafka.
    """
    client = broker.client()
    send(client, SLOW, acks=0)
    client.send(client.encode(fetch_request(SLOW, 0, 0), ApiKey.FETCH, 11))
    client.send(client.encode(messages.ListGroupsRequest(), ApiKey.LIST_GROUPS, 0))
    broker.wait_for_jobs(1)
    assert nothing_came(client)
    broker.sync()
    _, response = client.receive(ApiKey.FETCH, 11, messages.FetchResponse)
    assert response.responses[0].partitions[0].high_watermark == 1
    client.receive(ApiKey.LIST_GROUPS, 0, messages.ListGroupsResponse)


def test_a_waiting_fetch_is_woken_by_the_sync(broker: Broker) -> None:
    """If this fails, a consumer at the end of the log gets synced records only after its max.wait."""
    client, reader = broker.client(), broker.client()
    reader.send(reader.encode(fetch_request(SLOW, 0, 0, max_wait_ms=60_000), ApiKey.FETCH, 11))
    broker.wait_until(lambda: broker.core.requests == 1)
    send(client, SLOW)
    broker.wait_for_jobs(1)
    assert nothing_came(reader)
    broker.sync()
    _, response = reader.receive(ApiKey.FETCH, 11, messages.FetchResponse)
    assert response.responses[0].partitions[0].records


def test_internal_appends_wait_for_the_sync(broker: Broker) -> None:
    """If this fails, a committed offset or a transaction's marker is acknowledged and then lost."""
    partition = broker.partition(SLOW)
    future = broker.on_loop(lambda: partition.append_records(batch(), 1))
    broker.wait_for_jobs(1)
    assert not future.done()
    broker.sync()
    assert broker.on_loop(future.result) == 0


def test_a_failed_sync_takes_the_partition_offline(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, records that a failed sync may have lost are acknowledged by the next sync, which succeeds."""
    client, other = broker.client(), broker.client()
    partition = broker.partition(SLOW)

    def fail(path: str) -> None:
        raise OSError(errno.EIO, "Input/output error", path)

    send(client, SLOW)
    broker.wait_for_jobs(1)
    send(other, SLOW)
    broker.wait_until(lambda: partition.log.written_end_offset == 2)
    future = broker.on_loop(lambda: partition.append_records(batch(), 1))
    broker.wait_until(lambda: partition.log.written_end_offset == 3)
    with monkeypatch.context() as patch:
        patch.setattr(disk, "sync_file", fail)
        broker.sync()
    assert result(client) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert broker.on_loop(lambda: future.exception()).code == ErrorCode.KAFKA_STORAGE_ERROR
    broker.wait_for_jobs(1)
    broker.sync()
    assert result(other) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert (partition.log.sync_failed, partition.high_watermark) == (True, 0)
    assert produce_to(client, SLOW, batch()).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert fetch_from(client, SLOW, 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    send(client, SLOW, 1)
    broker.wait_for_jobs(1)
    broker.sync()
    assert result(client) == (0, 0)


def test_a_partition_deleted_during_a_round_is_answered(broker: Broker) -> None:
    """If this fails, a producer waits forever for the response for a topic that was deleted."""
    client = broker.client()
    send(client, SLOW)
    broker.wait_for_jobs(1)
    send(client, SLOW)
    broker.wait_until(lambda: broker.partition(SLOW).log.written_end_offset == 2)
    broker.on_loop(broker.partition(SLOW).close)
    broker.sync()
    broker.wait_for_jobs(1)
    broker.sync()
    assert [result(client), result(client)] == [(0, 0), (0, 1)]


def test_a_client_that_left_does_not_disturb_the_round(broker: Broker) -> None:
    """If this fails, a producer that is killed while its records are synced makes others lose their responses."""
    gone, client = broker.client(), broker.client()
    send(gone, SLOW)
    gone.send(gone.encode(messages.ListGroupsRequest(), ApiKey.LIST_GROUPS, 0))
    broker.wait_for_jobs(1)
    gone.socket.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SO_LINGER: a reset
    gone.close()
    send(client, SLOW)
    broker.wait_until(lambda: broker.partition(SLOW).log.written_end_offset == 2)
    broker.sync()
    broker.wait_for_jobs(1)
    broker.sync()
    assert result(client) == (0, 1)


def test_an_append_that_is_staged_when_a_round_ends_waits_for_its_own(broker: Broker) -> None:
    """If this fails, a coordinator gets an error for its record and undoes the operation, although the record is in the
    log.
    """
    client = broker.client()
    send(client, SLOW)
    broker.wait_for_jobs(1)
    partition = broker.partition(SLOW)
    futures: list[Any] = []

    def stage_and_end_the_round() -> None:
        futures.append(partition.append_records(batch(), 1_000))
        held, broker.jobs.held = broker.jobs.held, []
        for job in held:
            job()

    broker.on_loop(stage_and_end_the_round)
    assert result(client) == (0, 0)
    broker.wait_for_jobs(1)
    assert not futures[0].done()
    broker.sync()
    assert futures[0].result() == 1


def fail_a_sync(log: Log) -> None:
    """Do what a flush does in its worker when the disk cannot write a page of the log."""

    def fail() -> None:
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        log.syncs.run(fail)


def test_a_flush_that_failed_during_a_round_refuses_its_records(broker: Broker) -> None:
    """If this fails, the flush of each minute gets the error of the lost page; the round's own sync succeeds, and
    acknowledges it.
    """
    client = broker.client()
    send(client, SLOW)
    broker.wait_for_jobs(1)
    partition = broker.partition(SLOW)
    fail_a_sync(partition.log)
    broker.sync()
    assert result(client) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert (partition.log.synced_end_offset, partition.high_watermark) == (0, 0)
    assert fetch_from(client, SLOW, 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_what_is_staged_when_a_flush_is_found_to_have_failed_is_refused(broker: Broker) -> None:
    """If this fails, a producer without flush.messages gets success for a record of a partition that is offline."""
    partition = broker.partition("fast")

    def stage_and_notice() -> Any:
        future = partition.append_records(batch(), 1_000)
        fail_a_sync(partition.log)
        with pytest.raises(StorageError, match="cannot sync"):
            log_flush.notice_failed_sync(partition.log)
        return future

    future = broker.on_loop(stage_and_notice)
    broker.wait_until(future.done)
    assert broker.on_loop(future.exception).code == ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.high_watermark == 0
