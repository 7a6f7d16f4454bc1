"""The events of a broker: each rebalance with its cause, each change with its client, and commits with the time of the
record that a group reads next.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from broker_cy.admin import AdminClient as Admin
from broker_cy.admin.caller import Outcome
from broker_cy.admin.commit_notes import CommitTail, EventTimestamps
from broker_cy.admin.group_lag import PartitionLag
from broker_cy.admin.metadata import TopicPartition as Partition
from broker_cy.launch.processes import Child, run
from broker_cy.metrics import events, sample
from broker_cy.metrics.events import (
    BrokerStarted,
    BrokerStopped,
    Commits,
    ConfigChanged,
    Event,
    PartitionsAdded,
    Rebalance,
    RecordsDeleted,
    Stamped,
    StaticReplacement,
    TopicCreated,
    TopicDeleted,
    TransactionTimedOut,
)
from tests.support.broker import BrokerProcess
from tests.support.confluent import close_consumer, send
from tests.support.group_member import SESSION_MS
from tests.support.topics import create_topic
from tests.support.wait import until

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 60.0
E = TypeVar("E", bound=Event)


class EventReader:
    """The events of a broker, read like any topic."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.auto.commit": False}
        )
        self._consumer.assign([TopicPartition("__cluster_events", 0, 0)])
        self.all: list[Stamped] = []

    def read(self) -> None:
        for message in self._consumer.consume(1000, 0.1):
            assert message.error() is None
            found = events.decode(message.value() or b"")
            assert found is not None
            assert message.key() == found.key.encode()
            self.all.append(found)

    def of(self, kind: type[E]) -> list[E]:
        return [each.event for each in self.all if isinstance(each.event, kind)]

    def wait_for(self, kind: type[E], count: int = 1, key: str | None = None) -> list[E]:
        """Return the events of a type (and about `key`), once `count` of them exist."""

        def enough() -> list[E]:
            self.read()
            found = [event for event in self.of(kind) if key is None or event.key == key]
            return found if len(found) >= count else []

        return until(enough, f"{count} of {kind.TYPE}", TIMEOUT_S)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path, {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "500"})
    process.start()
    yield process
    process.close()


def member(broker: BrokerProcess, tmp_path: Path, group: str, topic: str, name: str) -> Child:
    argv: list[str | Path] = [
        sys.executable,
        "-m",
        "tests.support.group_member",
        broker.bootstrap,
        group,
        topic,
        tmp_path / name,
    ]
    return Child(argv, tmp_path, name, cwd=ROOT)


@pytest.mark.full
def test_each_rebalance_of_a_scripted_group(broker: BrokerProcess, tmp_path: Path) -> None:
    """If this fails, an operator cannot find out why a group stopped: which members joined, left or were lost, which
    partitions moved, and how long each had no reader.
    """
    create_topic(broker.bootstrap, "t", 6)
    reader = EventReader(broker)
    killed = member(broker, tmp_path, "g", "t", "killed")
    first = reader.wait_for(Rebalance)[0]
    assert (first.group, first.generation, first.result) == ("g", 1, "stable")
    assert [trigger.reason for trigger in first.triggers] == ["join"]
    assert (first.members_before, first.members_after) == (0, 1)
    assert {(move.topic, move.partition, move.source, move.stall_ms) for move in first.moves} == {
        ("t", index, None, -1) for index in range(6)
    }
    owner = first.moves[0].target
    assert owner is not None

    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": "g",
        # The static member's session has to outlive the start of its successor.
        "session.timeout.ms": 30_000,
        "heartbeat.interval.ms": 200,
    }
    static = Consumer({**settings, "group.instance.id": "fixed", "client.id": "the static one"})
    static.subscribe(["t"])

    def polled(count: int) -> bool:
        static.poll(0.05)
        reader.read()
        return len(reader.of(Rebalance)) >= count

    until(lambda: polled(2), "the static member's rebalance", TIMEOUT_S)
    second = reader.of(Rebalance)[1]
    trigger = second.triggers[0]
    assert (trigger.reason, trigger.instance_id, trigger.client_id, trigger.host) == (
        "join",
        "fixed",
        "the static one",
        "127.0.0.1",
    )
    assert (second.members_before, second.members_after) == (1, 2)
    moved = [move for move in second.moves if move.source != move.target]
    assert {move.source for move in moved} == {owner}
    assert {move.target for move in moved} == {trigger.member_id}
    assert len(moved) == 3
    assert second.moves_total + second.kept == 6
    assert second.total_ms == pytest.approx(second.join_ms + second.sync_ms, abs=2)

    # A static member is replaced: its successor takes its place without a rebalance.
    del static
    static = Consumer({**settings, "group.instance.id": "fixed", "client.id": "its successor"})
    static.subscribe(["t"])

    def replaced() -> list[StaticReplacement]:
        static.poll(0.05)
        reader.read()
        return reader.of(StaticReplacement)

    change = until(replaced, "the replacement", TIMEOUT_S)[0]
    assert (change.group, change.instance_id, change.old_member_id) == ("g", "fixed", trigger.member_id)
    assert change.generation == second.generation

    # A member is killed: its partitions are stalled from the time when it was last heard from.
    killed.kill()
    until(lambda: polled(3), "the rebalance without it", TIMEOUT_S)
    third = reader.of(Rebalance)[2]
    assert [(each.reason, each.member_id) for each in third.triggers] == [("session_timeout", owner)]
    assert (third.members_before, third.members_after) == (2, 1)
    lost = [move for move in third.moves if move.source == owner]
    assert len(lost) == 3
    for move in lost:
        assert move.target == change.new_member_id
        # Heartbeats extended its session every 200 ms.
        assert SESSION_MS <= move.stall_ms <= SESSION_MS + 1000 * TIMEOUT_S

    # A member leaves (a static member does not announce it; an administrator or a dynamic member does).
    leaver = Consumer({**settings, "client.id": "leaver"})
    leaver.subscribe(["t"])

    def both(count: int) -> bool:
        leaver.poll(0.05)
        return polled(count)

    until(lambda: both(4), "the leaver's rebalance", TIMEOUT_S)
    close_consumer(leaver)
    until(lambda: polled(5), "the rebalance without the leaver", TIMEOUT_S)
    last = reader.of(Rebalance)[4]
    assert [(each.reason, each.client_id) for each in last.triggers] == [("leave", "leaver")]
    assert sum(move.target == change.new_member_id for move in last.moves) + last.kept == 6
    close_consumer(static)


def test_changes_are_reported_with_who_made_them(broker: BrokerProcess) -> None:
    """If this fails, the events do not show what was changed, and by whom."""
    reader = EventReader(broker)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "client.id": "night shift"})
    create_topic(broker.bootstrap, "other")
    from confluent_kafka.admin import NewTopic

    admin.create_topics([NewTopic("t", 2, 1, config={"retention.ms": "1000000"})])["t"].result(TIMEOUT_S)
    entry = ConfigEntry("retention.ms", "2000000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "t", incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(TIMEOUT_S)
    for future in admin.create_partitions([NewPartitions("t", 5)]).values():
        future.result(TIMEOUT_S)
    send(broker, "t", [b"x"] * 10)
    for future in admin.delete_records([TopicPartition("t", 0, 4)]).values():
        future.result(TIMEOUT_S)
    admin.delete_topics(["t"])["t"].result(TIMEOUT_S)

    created = reader.wait_for(TopicCreated, key="t")[0]
    assert (created.partitions, created.replication_factor) == (2, 1)
    assert created.configs == {"retention.ms": "1000000"}
    changed = reader.wait_for(ConfigChanged, key="t")[0]
    assert changed.resource_type == "topic"
    assert [(each.name, each.before, each.after) for each in changed.changes] == [
        ("retention.ms", "1000000", "2000000")
    ]
    added = reader.wait_for(PartitionsAdded, key="t")[0]
    assert (added.before, added.after) == (2, 5)
    deleted_records = reader.wait_for(RecordsDeleted, key="t")[0]
    assert (deleted_records.partition, deleted_records.before, deleted_records.after) == (0, 0, 4)
    deleted = reader.wait_for(TopicDeleted, key="t")[0]
    assert (deleted.topic_id, deleted.partitions) == (created.topic_id, 5)
    for event in (created, changed, added, deleted_records, deleted):
        assert (event.by.client_id, event.by.host) == ("night shift", "127.0.0.1")


def test_start_stop_and_what_was_cut_off(broker: BrokerProcess) -> None:
    """After a crash, an operator sees how many bytes were truncated."""
    reader = EventReader(broker)
    assert reader.wait_for(BrokerStarted)[0].clean
    create_topic(broker.bootstrap, "t")
    send(broker, "t", [b"x" * 100] * 10)
    assert broker.stop() == 0
    broker.restart()
    reader = EventReader(broker)
    assert reader.wait_for(BrokerStopped)[0].uptime_ms > 0
    assert reader.wait_for(BrokerStarted, 2)[1].clean
    broker.kill()
    with (broker.data_dir / "t-0" / "00000000000000000000.log").open("ab") as log:
        log.write(b"\0" * 37)
    broker.restart()
    reader = EventReader(broker)
    crashed = reader.wait_for(BrokerStarted, 3)[2]
    assert not crashed.clean
    assert (crashed.truncated, crashed.truncated_bytes) == ({"t-0": 37}, 37)


def time_lags(broker: BrokerProcess, group: str, now_ms: int, *, by_events: bool) -> dict[int, int | None]:
    """Return the group's time lag by partition, from the admin core; `by_events`: from events alone, else from records
    alone.
    """

    class Nothing:
        async def unread_timestamps(
            self, group_id: str, parts: Collection[PartitionLag]
        ) -> Outcome[Partition, int | None]:
            raise AssertionError(f"no event has {group_id}'s commits of {parts}")

    async def ask() -> dict[int, int | None]:
        async with Admin(broker.bootstrap) as client:
            lag = (await client.lag.of([group])).whole()[group]
            behind = {part.partition for part in lag.partitions if part.lag}
            calls = client.lag
            if by_events:
                calls = calls.using(EventTimestamps(CommitTail(client.timestamps.notes), client.events, Nothing()))
            found = (await calls.times(lag, now_ms)).whole()
            assert client.timestamps.notes.exact(lag) == (behind if by_events else frozenset())
            return {key.partition: ms for key, ms in found.items()}

    return asyncio.run(ask())


def test_time_lag_is_exact(broker: BrokerProcess) -> None:
    """A known schedule of records, and commits in between, also in compressed batches: checks the events, and the admin
    core's lag from them, and from the records if no event describes the commit.
    """
    create_topic(broker.bootstrap, "t", 2)
    base_ms = int(time.time() * 1000) - 1_000_000
    now_ms = base_ms + 1_000_000

    def write(first: int, count: int) -> None:
        for codec, partition in (("none", 0), ("zstd", 1)):
            producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": codec, "linger.ms": 100})
            for number in range(first, first + count):
                producer.produce("t", b"x" * 50, partition=partition, timestamp=base_ms + number * 1000)
            assert producer.flush(TIMEOUT_S) == 0

    def lags_match(offset: int, *, by_events: bool) -> None:
        found = time_lags(broker, "g", now_ms, by_events=by_events)
        assert set(found) == {0, 1}
        for each in found.values():
            assert each == (now_ms - (base_ms + offset * 1000) if offset < 1000 else 0)

    write(0, 1000)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "enable.auto.commit": False})
    reader = EventReader(broker)

    def commit(offset: int) -> None:
        consumer.commit(offsets=[TopicPartition("t", each, offset) for each in (0, 1)], asynchronous=False)

    for offset in (0, 499, 999, 1000):
        commit(offset)

        def seen(offset: int = offset) -> list[events.Committed]:
            reader.read()
            found = [each for commits in reader.of(Commits) for each in commits.offsets if each.offset == offset]
            return found if len(found) >= 2 else []

        for each in until(seen, f"the commits of offset {offset}", TIMEOUT_S):
            assert (each.topic, each.end) == ("t", 1000)
            assert each.record_time_ms == (base_ms + offset * 1000 if offset < 1000 else -1)
        lags_match(offset, by_events=True)
    # Records after the last commit with an event; then commits without events.
    write(1000, 1)
    assert time_lags(broker, "g", base_ms + 1_000_500, by_events=False) == {0: 500, 1: 500}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    entry = ConfigEntry("brokercy.events.enable", "false", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(TIMEOUT_S)
    commit(250)
    lags_match(250, by_events=False)
    close_consumer(consumer)
    assert all(
        len({(each.topic, each.partition) for each in commits.offsets}) == len(commits.offsets)
        for commits in reader.of(Commits)
    )


@pytest.mark.full
def test_a_transaction_that_takes_too_long(broker: BrokerProcess) -> None:
    create_topic(broker.bootstrap, "t")
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": "slow", "transaction.timeout.ms": 1000}
    )
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce("t", b"x", partition=0)
    producer.flush(TIMEOUT_S)
    event = EventReader(broker).wait_for(TransactionTimedOut)[0]
    assert (event.transactional_id, event.timeout_ms) == ("slow", 1000)
    assert (event.partitions, event.partitions_total) == (["t-0"], 1)
    assert event.open_ms >= 1000


def test_samples_add_up(broker: BrokerProcess) -> None:
    """A chart drawn from the samples shows every record."""
    create_topic(broker.bootstrap, "t", 3)
    for partition in range(3):
        send(broker, "t", [b"x" * 100] * 50, partition=partition)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition("__broker_metrics", 0, 0)])
    samples: list[sample.Sample] = []

    def complete() -> bool:
        for message in consumer.consume(100, 0.2):
            found = sample.decode(message.value() or b"")
            assert found is not None
            samples.append(found)
        return sum(each.topics["t"].in_records for each in samples if "t" in each.topics) >= 150

    until(complete, "samples with every record", TIMEOUT_S)
    assert sum(each.topics["t"].in_records for each in samples if "t" in each.topics) == 150
    produced = [each.apis["Produce"] for each in samples if "Produce" in each.apis]
    assert sum(api.requests for api in produced) >= 3
    assert sum(api.phases["total"].count for api in produced) == sum(api.requests for api in produced)
    assert all(api.phases["total"].p50_us <= api.phases["total"].max_us for api in produced)
    assert all(each.interval_ms > 0 and each.resident_bytes > 0 and each.disks for each in samples)
    assert sum(each.cpu_us for each in samples) > 0
    assert [each.time_ms for each in samples] == sorted(each.time_ms for each in samples)
    close_consumer(consumer)


def test_no_client_writes_to_them_and_they_can_be_turned_off(tmp_path: Path) -> None:
    process = BrokerProcess(
        tmp_path, {"brokercy.events.enable": "false", "brokercy.metrics.sample.interval.ms": "0"}
    ).start()
    try:
        create_topic(process.bootstrap, "t")
        topics = AdminClient({"bootstrap.servers": process.bootstrap}).list_topics(timeout=TIMEOUT_S).topics
        assert set(topics) == {"t"}
        for command in ("events", "metrics"):
            shell = [sys.executable, "-m", "broker_cy.cli", command, "--bootstrap", process.bootstrap]
            said = run(shell, cwd=ROOT, check=False)
            assert said.returncode == 1
            assert b"the cluster does not have this topic: broker-cy writes it, unless brokercy." in said.stderr
    finally:
        process.close()
    process = BrokerProcess(tmp_path / "on").start()
    try:
        EventReader(process).wait_for(BrokerStarted)
        errors: list[object] = []
        producer = Producer({"bootstrap.servers": process.bootstrap})
        producer.produce("__cluster_events", b"forged", on_delivery=lambda error, _: errors.append(error))
        producer.flush(TIMEOUT_S)
        assert "INVALID" in str(errors[0]).upper() or "_TOPIC" in str(errors[0]).upper()
    finally:
        process.close()
