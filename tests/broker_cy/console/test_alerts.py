"""Each rule fires, and is resolved: on a real broker, or on one whose answers a proxy alters."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker_cy.admin.address import parse_addresses
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.client.clusters import ClusterEntry
from broker_cy.console.alerts.looks import LOOKS, Broken
from broker_cy.console.alerts.rules import BUILT_IN, AlertSettings, Rule
from broker_cy.console.alerts.watch import Alerting, Notice, Watch
from broker_cy.console.session import Session
from broker_cy.wire import messages
from broker_cy.wire.api_keys import ApiKey
from broker_cy.wire.records import Record
from tests.support import needs
from tests.support.altered_broker import Alter, AlteredBroker
from tests.support.broker import QUICK, BrokerProcess
from tests.support.confluent import assigned, close_consumer, new_consumer
from tests.support.hanging import leave_hanging
from tests.support.proxy import behind
from tests.support.small_disk import SmallDisk

WAIT_S = 30.0
NOT_CONTROLLER = 41
OLD_MS = 1_000_000_000_000
# Old records are not removed while a test reads them.
FOR_EVER = {"retention.ms": "-1"}


def built_in(kind: str) -> Rule:
    """Return the built-in rule of a kind."""
    (rule,) = (rule for rule in BUILT_IN if rule.kind == kind)
    return rule


class Looking:
    """A watch of some rules over a new session, with a clock that the test moves."""

    def __init__(self, bootstrap: str, rules: Sequence[Rule], timeout_s: float = 10.0) -> None:
        self.now_s = 100.0
        entry = ClusterEntry("test", parse_addresses(bootstrap), timeout_s)
        self.session = Session(entry, client_id="test", timeout_s=timeout_s)
        self.watch = Watch(rules, "test", clock=lambda: self.now_s, wall_ms=lambda: int(self.now_s * 1000))

    async def look(self, forward_s: float = 0.0) -> list[str]:
        """Let time pass; returns the alerts that a check of new responses announces."""
        self.now_s += forward_s
        # No response of the feeds is recent enough any more.
        self.session.refresh()
        return [str(notice) for notice in await self.watch.look(self.session)]

    @property
    def states(self) -> list[str]:
        return [finding.state for finding in self.watch.findings]

    @property
    def said(self) -> list[tuple[str, str]]:
        """Return the states with their texts, for a message."""
        return [(finding.state, finding.text) for finding in self.watch.findings]

    async def announces(self, text: str, forward_s: float = 0.0) -> None:
        """Check until an alert with `text` is announced."""
        async with asyncio.timeout(WAIT_S):
            while not (said := await self.look(forward_s)):
                await asyncio.sleep(0.02)
        assert any(text in each for each in said), said


def run(bootstrap: str, rules: Sequence[Rule], job: Callable[[Looking], Awaitable[None]], **options: Any) -> None:
    async def inside() -> None:
        looking = Looking(bootstrap, rules, **options)
        try:
            await job(looking)
        finally:
            await looking.session.close()

    asyncio.run(inside())


def test_lag_is_announced_once_and_resolved(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, a group that falls behind raises no alert, or one every five seconds."""

    async def job(looking: Looking) -> None:
        client = looking.session.client
        await client.topics.create([NewTopic(name, 1)])
        key = TopicPartition(name, 0)
        await client.records.producer().send(name, [Record(value=b"x")] * 5)
        await client.group_offsets.alter(name, {key: 5})
        assert await looking.look() == []
        assert looking.states == ["ok"]
        await client.group_offsets.alter(name, {key: 1})
        assert await looking.look() == []
        assert looking.states == ["pending"]
        assert await looking.look(11) == [f"behind: group {name} is 4 records behind (limit 3)"]
        assert await looking.look(11) == []
        assert looking.states == ["firing"]
        await client.group_offsets.alter(name, {key: 5})
        assert await looking.look() == [f"behind: resolved: group {name} is 4 records behind (limit 3)"]
        assert looking.states == ["ok"]

    run(broker_cy.bootstrap, [Rule("behind", "lag", for_s=10, group=name, records=3)], job)


def test_lag_in_time(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, a group with few old records in front of it counts as one that keeps up."""

    async def job(looking: Looking) -> None:
        client = looking.session.client
        await client.topics.create([NewTopic(name, 1, configs=FOR_EVER)])
        await client.records.producer().send(name, [Record(timestamp=OLD_MS, value=b"old")])
        await client.group_offsets.alter(name, {TopicPartition(name, 0): 0})
        (said,) = await looking.look()
        assert said.startswith(f"late: group {name} is ")
        assert said.endswith(" behind (limit 1.0 s)")

    run(broker_cy.bootstrap, [Rule("late", "lag", group=name, seconds=1)], job)


def test_a_stalled_and_then_stopped_group(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, a consumer that hangs or has ended raises no alert."""
    rules = [
        Rule(rule.name, rule.kind, rule.for_s, group=name)
        for rule in (built_in("stalled_group"), built_in("stopped_group"))
    ]

    async def job(looking: Looking) -> None:
        client = looking.session.client
        await client.topics.create([NewTopic(name, 1)])
        await client.records.producer().send(name, [Record(value=b"x")] * 5)
        await client.group_offsets.alter(name, {TopicPartition(name, 0): 1})
        consumer = new_consumer(broker_cy.bootstrap, name, **{"enable.auto.commit": False})
        try:
            consumer.subscribe([name])
            await assigned([consumer])
            assert await looking.look() == []
            # One check does not show whether it progresses.
            assert looking.states == ["unknown", "unknown"]
            async with asyncio.timeout(WAIT_S):
                while looking.states[0] != "pending":
                    assert await looking.look() == []
            expected = f"stalled groups: group {name} does not consume although it has members, 4 records behind"
            assert await looking.look(60) == [expected]
        finally:
            await asyncio.to_thread(close_consumer, consumer)
        await looking.announces(f"stalled groups: resolved: group {name}")
        await looking.announces(f"stopped groups: group {name} stopped committing, 4 records behind", 60)

    run(broker_cy.bootstrap, rules, job)


def test_a_hanging_transaction(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, consumers of committed records wait forever without an alert."""

    async def job(looking: Looking) -> None:
        await leave_hanging(looking.session.client, name)
        await looking.announces(f"hangs in {name}-0, idle for ")
        (hanging,) = [each for each in await looking.session.hanging().fresh(0.0) if each.partition.topic == name]
        await looking.session.client.transactions.abort(hanging.partition, hanging.producer)
        await looking.announces("hanging transactions: resolved: ")

    run(broker_cy.bootstrap, [Rule("hanging transactions", "hanging_transaction", topic=name)], job)


@needs.small_disk()
def test_a_disk_that_fills_up(tmp_path: Path) -> None:
    """If this fails, the disk is full before there is an alert."""
    disk = SmallDisk(tmp_path, 16 << 20)
    broker = BrokerProcess(tmp_path, QUICK, disk.path / "data")
    broker.wrapper = disk.wrapper
    try:
        broker.start()

        async def job(looking: Looking) -> None:
            assert await looking.look() == []
            assert looking.states == ["ok"]
            disk.fill(1 << 20)
            (said,) = await looking.look()
            assert said.startswith(f"low disk space: {disk.path / 'data'} of broker 1 has ")
            assert said.endswith("%) free")
            disk.make_room()
            (said,) = await looking.look()
            assert said.startswith("low disk space: resolved: ")

        run(broker.bootstrap, [built_in("disk")], job)
    finally:
        broker.close()
        disk.close()


def test_a_disk_that_failed(tmp_path: Path) -> None:
    """If this fails, a disk of several is dead, the broker serves the others, and there is no alert."""
    paths = tmp_path / "a", tmp_path / "b"
    broker = BrokerProcess(tmp_path / "broker", {**QUICK, "log.dirs": ",".join(map(str, paths))}, paths[0])
    broker.start()

    async def job(looking: Looking) -> None:
        assert await looking.look() == []
        assert looking.states == ["ok"]
        broker.stop()
        shutil.rmtree(paths[1])
        broker.restart()
        await looking.announces(f"failed disks: {paths[1]} of broker 1 is offline")
        assert looking.states == ["firing"]

    try:
        run(broker.bootstrap, [built_in("failed_disk")], job)
    finally:
        broker.close()


def test_a_broker_that_is_away_and_comes_back(tmp_path: Path) -> None:
    """If this fails, a broker is down, and the rules report that all is well; or an old problem is announced again."""
    broker = BrokerProcess(tmp_path, QUICK)
    broker.start()
    rules = [built_in("broker_away"), built_in("leaderless_quorum"), Rule("all", "disk", free_percent=100)]

    async def job(looking: Looking) -> None:
        (said,) = await looking.look()
        assert said.startswith("all: ")
        broker.kill()
        assert await looking.look() == []
        assert looking.states == ["pending", "unknown", "firing", "unknown"]
        (said,) = await looking.look(10)
        assert said.startswith("broker away: no broker can be reached: ")
        broker.restart()
        (said,) = await looking.look()
        assert said.startswith("broker away: resolved: ")
        assert looking.states == ["ok", "ok", "firing"]

    try:
        run(broker.bootstrap, rules, job, timeout_s=5.0)
    finally:
        broker.close()


def test_what_one_broker_cannot_show(tmp_path: Path, name: str) -> None:
    """If this fails, partitions without a leader, a fenced broker, or missing quorum voters raise no alert."""
    proxy = AlteredBroker()
    broker = behind(proxy, tmp_path)
    kinds = ("offline_partition", "under_replicated_partition", "broker_away", "leaderless_quorum", "voter_away")

    def alter_partition(number: int, **fields: object) -> Alter:
        def alter(answer: Any) -> None:
            for topic in answer.topics:
                if topic.name == name:
                    for field, value in fields.items():
                        setattr(topic.partitions[number], field, value)

        return alter

    offline, out_of_sync = alter_partition(1, leader_id=-1), alter_partition(0, replica_nodes=[1, 2])

    def fenced(answer: Any) -> None:
        answer.brokers[0].is_fenced = True

    def quorum(leader_id: int, error_code: int = 0, silent_ms: int = 0) -> Any:
        state = messages.DescribeQuorumResponse.ReplicaState
        voters = [
            state(replica_id=each, last_fetch_timestamp=at) for each, at in ((1, 90_000), (2, 90_000 - silent_ms))
        ]
        part = messages.DescribeQuorumResponse.PartitionData(leader_id=leader_id, current_voters=voters)
        topic = messages.DescribeQuorumResponse.TopicData(topic_name="__cluster_metadata", partitions=[part])
        return messages.DescribeQuorumResponse(error_code=error_code, topics=[topic])

    leader = {"id": 1, "error": 0, "silent_ms": 0}

    async def inside() -> None:
        async with proxy:
            # A quorum of one has a leader, and our broker does not describe it.
            proxy.answers = {ApiKey.DESCRIBE_QUORUM: lambda: quorum(*leader.values())}
            looking = Looking(proxy.bootstrap, [built_in(kind) for kind in kinds], timeout_s=5.0)
            try:
                await looking.session.client.topics.create([NewTopic(name, 2)])
                assert await looking.look() == []
                assert looking.states == ["ok"] * 5
                behind_by_one = f"under-replicated partitions: {name}-0 has 1 of 2 replicas in sync"
                cases: list[tuple[dict[ApiKey, Alter], dict[str, int], list[str]]] = [
                    (
                        {ApiKey.METADATA: offline},
                        {},
                        [f"offline partitions: {name}-1 is offline: it has no leader"],
                    ),
                    (
                        {ApiKey.METADATA: out_of_sync},
                        {},
                        [behind_by_one, "broker away: broker 2 is away: it has replicas"],
                    ),
                    (
                        {ApiKey.DESCRIBE_CLUSTER: fenced},
                        {},
                        [f"broker away: broker 1 (127.0.0.1:{proxy.port}) is fenced"],
                    ),
                    ({}, {"id": -1}, ["no quorum leader: the metadata quorum has no leader (voters 1, 2)"]),
                    (
                        {},
                        {"silent_ms": 20_000},
                        ["voter away: voter 2 of the metadata quorum is away: it has no leader once another"],
                    ),
                    ({}, {"error": NOT_CONTROLLER}, ["no quorum leader: the metadata quorum has no leader: "]),
                ]
                for alter, of_quorum, expected in cases:
                    proxy.alter = alter
                    leader.update(of_quorum)
                    assert await looking.look() == []
                    assert looking.states.count("pending") == len(expected), looking.said
                    said = await looking.look(60)
                    assert len(said) == len(expected), looking.said
                    assert all(each.startswith(text) for each, text in zip(said, expected, strict=True)), said
                    proxy.alter = {}
                    leader.update(id=1, error=0, silent_ms=0)
                    said = await looking.look()
                    assert [": resolved: " in each for each in said] == [True] * len(expected)
                    assert looking.states == ["ok"] * 5
            finally:
                await looking.session.close()

    try:
        asyncio.run(inside())
    finally:
        broker.close()
        proxy.close()


def test_many_broken_things_are_bounded(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, a thousand groups that fall behind together cause a thousand messages."""

    async def job(looking: Looking) -> None:
        client = looking.session.client
        await client.topics.create([NewTopic(name, 1)])
        await client.records.producer().send(name, [Record(value=b"x")] * 5)
        for n in range(55):
            await client.group_offsets.alter(f"{name}-{n}", {TopicPartition(name, 0): 1})
        assert len(await looking.look()) == 50
        assert looking.watch.findings[-1].text == "and 5 others"
        assert await looking.look() == []
        assert len(looking.watch.firing) == 51

    run(broker_cy.bootstrap, [Rule("behind", "lag", group=f"{name}-*", records=1)], job)


def test_an_alert_is_not_repeated_when_another_cluster_was_shown(broker_cy: BrokerProcess) -> None:
    """If this fails, each change of the cluster announces the same alerts again."""
    rules = (Rule("all", "disk", free_percent=100),)

    async def job() -> list[list[Notice]]:
        alerting = Alerting(AlertSettings(rules))
        said = []
        for name in ("a", "b", "a"):
            entry = ClusterEntry(name, parse_addresses(broker_cy.bootstrap))
            session = Session(entry, client_id="test")
            try:
                said.append(await alerting.look(session))
            finally:
                await session.close()
        return said

    first, second, third = asyncio.run(job())
    assert [notice.cluster for notice in first + second] == ["a", "b"]
    assert third == []


def test_a_defect_in_one_rule_hinders_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, one unexpected response ends all alerts."""

    async def defect(session: Session, rule: Rule) -> list[Broken]:
        raise KeyError("defect")

    async def well(session: Session, rule: Rule) -> list[Broken]:
        return []

    monkeypatch.setitem(LOOKS, "disk", defect)
    monkeypatch.setitem(LOOKS, "broker_away", well)
    session = Session(ClusterEntry("c", parse_addresses("127.0.0.1:1")), client_id="test")
    watch = Watch([built_in("disk"), built_in("broker_away")], "c")
    assert asyncio.run(watch.look(session)) == []
    assert [(finding.state, finding.text) for finding in watch.findings] == [
        ("unknown", "KeyError: 'defect'"),
        ("ok", ""),
    ]
