"""The scenarios of the integration tests of MirrorMaker 2, with this mirror between two clusters. scenarios.tsv names
the tests that cover each of them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.reader import Reader
from broker_cy.admin.topics import NewTopic
from broker_cy.client.mirror_status import FlowStatus
from broker_mirror.formats import checkpoints
from broker_mirror.formats.checkpoints import Checkpoint
from tests.broker_mirror.conftest import Clusters
from tests.broker_mirror.mirror_process import STATE_S, running_mirror
from tests.broker_mirror.test_end_to_end import QUICK, both, has_copied, read, send, values
from tests.support.wait import until

HERE = Path(__file__).parent
TABLE = HERE / "scenarios.tsv"
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


async def checkpoints_of(client: AdminClient, group: str, topic: str = "A.checkpoints.internal") -> list[Checkpoint]:
    """Return all checkpoints of a group, in the order in which they were written."""
    key = TopicPartition(topic, 0)
    ends = (await client.offsets.latest([key])).whole()
    found = []
    async with Reader(client.caller, {key: 0}, ends=ends, isolation=Isolation.READ_COMMITTED) as reader:
        async for chunk in reader:
            found += [checkpoints.decode(each.key, each.value) for each in chunk.records if each.value is not None]
    return [each for each in found if each.group == group]


def has_reached(topic: str, position: int) -> Callable[[FlowStatus], bool]:
    def condition(flow: FlowStatus) -> bool:
        return any((each.topic, each.source_position) == (topic, position) for each in flow.partitions)

    return condition


def is_at(clusters: Clusters, side: int, group: str, expected: dict[TopicPartition, int]) -> Callable[[], bool]:
    """Whether a group has these offsets in the cluster A (0) or B (1)."""

    async def look(a: AdminClient, b: AdminClient) -> bool:
        found = (await (a, b)[side].group_offsets.fetch([group])).whole()[group]
        return {key: each.offset for key, each in found.items()} == expected

    return lambda: both(clusters, look)


def test_each_scenario_has_its_tests() -> None:
    """If this fails, the table names a test that does not exist, and a scenario of MirrorMaker 2 is not covered."""
    rows = [line.split("\t") for line in TABLE.read_text().splitlines()]
    names = [name for _, name, _ in rows]
    assert len(names) == len(set(zip([each for each, _, _ in rows], names, strict=True))) > 150
    functions: dict[str, set[str]] = {}
    for _, scenario, covered in rows:
        assert covered, scenario
        if covered.startswith("no: "):
            continue
        for test in covered.split(", "):
            file, _, name = test.partition("::")
            if file not in functions:
                tree = ast.parse((HERE / file).read_text())
                functions[file] = {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}
            assert name in functions[file], f"{scenario}: {test}"


@pytest.mark.full
def test_the_identity_policy_keeps_names(clusters: Clusters, tmp_path: Path) -> None:
    """If this fails, a migration gives topics other names, or groups do not find their places in them."""
    properties = clusters.properties(topics="kept", replication__policy__class=IDENTITY, **QUICK)

    async def begin(a: AdminClient, b: AdminClient) -> None:
        (await a.topics.create([NewTopic("kept", 1, 1, {"cleanup.policy": "compact"})])).whole()
        await send(a, "kept", range(100))
        (await a.group_offsets.alter("keeper", {TopicPartition("kept", 0): 60})).whole()

    both(clusters, begin)
    with running_mirror(properties, tmp_path) as mirror:
        mirror.until("A->B", has_copied(100), "the records to be copied")
        until(is_at(clusters, 1, "keeper", {TopicPartition("kept", 0): 60}), "the group to have its offset", STATE_S)

    async def check(a: AdminClient, b: AdminClient) -> None:
        assert await read(b, "kept") == values(range(100))
        assert "A.kept" not in await b.topics.names()

    both(clusters, check)


@pytest.mark.full
def test_without_offset_syncs_there_is_no_topic_of_them(clusters: Clusters, tmp_path: Path) -> None:
    """If this fails, a mirror writes into a source that it may only read, or waits for offset syncs that never come."""
    more = {"emit__offset-syncs__enabled": "false", "offset-syncs__topic__location": "source"}
    # Another alias of the target has another topic of offset syncs than the other tests of this file.
    properties = {
        name.replace("B.", "C.").replace("->B", "->C"): text
        for name, text in clusters.properties(topics="unsynced", **QUICK, **more).items()
    } | {"clusters": "A,C"}

    async def begin(a: AdminClient, b: AdminClient) -> None:
        (await a.topics.create([NewTopic("unsynced", 1, 1)])).whole()
        await send(a, "unsynced", range(50))
        (await a.group_offsets.alter("unsynced", {TopicPartition("unsynced", 0): 20})).whole()

    both(clusters, begin)
    with running_mirror(properties, tmp_path) as mirror:
        mirror.until("A->C", has_copied(50), "the records to be copied")

    async def check(a: AdminClient, b: AdminClient) -> None:
        assert await read(b, "A.unsynced") == values(range(50))
        assert not [name for name in await a.topics.names() if name.startswith("mm2-offset-syncs.C")]
        assert (await b.group_offsets.fetch(["unsynced"])).whole()["unsynced"] == {}

    both(clusters, check)


@pytest.mark.full
def test_offset_syncs_in_the_target_leave_the_source_as_it_is(clusters: Clusters, tmp_path: Path) -> None:
    """If this fails, a principal that may only read the source cannot run the mirror."""
    properties = clusters.properties(topics="far", **QUICK, **{"offset-syncs__topic__location": "target"})

    async def begin(a: AdminClient, b: AdminClient) -> frozenset[str]:
        (await a.topics.create([NewTopic("far", 1, 1)])).whole()
        await send(a, "far", range(80))
        (await a.group_offsets.alter("far", {TopicPartition("far", 0): 30})).whole()
        return frozenset(await a.topics.names())

    before = both(clusters, begin)
    with running_mirror(properties, tmp_path) as mirror:
        mirror.until("A->B", has_copied(80), "the records to be copied")
        until(is_at(clusters, 1, "far", {TopicPartition("A.far", 0): 30}), "the group to have its offset", STATE_S)

    async def check(a: AdminClient, b: AdminClient) -> None:
        assert "mm2-offset-syncs.A.internal" in await b.topics.names()
        # The group's own topic of offsets may be new.
        assert {name for name in await a.topics.names() if not name.startswith("__")} <= before

    both(clusters, check)


@pytest.mark.full
def test_a_topic_without_copied_records_has_no_checkpoint(clusters: Clusters, tmp_path: Path) -> None:
    """If this fails, a group begins in the target behind records that come later."""
    properties = clusters.properties(topics="full,empty", **QUICK)
    full, empty = TopicPartition("full", 0), TopicPartition("empty", 0)

    async def begin(a: AdminClient, b: AdminClient) -> None:
        (await a.topics.create([NewTopic("full", 1, 1), NewTopic("empty", 1, 1)])).whole()
        await send(a, "full", range(40))
        (await a.group_offsets.alter("both", {full: 40, empty: 0})).whole()

    async def fill(a: AdminClient, b: AdminClient) -> None:
        assert {each.topic for each in await checkpoints_of(b, "both")} == {"A.full"}
        await send(a, "empty", range(25))
        (await a.group_offsets.alter("both", {empty: 25})).whole()

    both(clusters, begin)
    with running_mirror(properties, tmp_path) as mirror:
        mirror.until("A->B", lambda flow: flow.groups.get("both") == 1, "one partition to have a checkpoint")
        both(clusters, fill)
        mirror.until("A->B", lambda flow: flow.groups.get("both") == 2, "both partitions to have checkpoints")
        expected = {TopicPartition("A.full", 0): 40, TopicPartition("A.empty", 0): 25}
        until(is_at(clusters, 1, "both", expected), "the group to have both offsets", STATE_S)


@pytest.mark.full
def test_checkpoints_grow_over_a_restart(clusters: Clusters, tmp_path: Path) -> None:
    """If this fails, a group of the target goes back when the mirror is started again."""
    properties = clusters.properties(topics="again", **QUICK)
    here, there = TopicPartition("again", 0), TopicPartition("A.again", 0)

    async def more(a: AdminClient, b: AdminClient) -> None:
        if "again" not in await a.topics.names():
            (await a.topics.create([NewTopic("again", 1, 1)])).whole()
        end = (await a.offsets.latest([here])).whole()[here]
        await send(a, "again", range(end, end + 60))
        (await a.group_offsets.alter("again", {here: end + 50})).whole()

    async def target_of(a: AdminClient, b: AdminClient) -> list[bytes]:
        """The record at which the group goes on in the target."""
        offset = (await b.group_offsets.fetch(["again"])).whole()["again"][there].offset
        ends = (await b.offsets.latest([there])).whole()
        found: list[bytes] = []
        async with Reader(b.caller, {there: offset}, ends=ends, isolation=Isolation.READ_COMMITTED) as reader:
            async for chunk in reader:
                found += [each.value or b"" for each in chunk.records]
        return found[:1]

    for turn in range(2):
        both(clusters, more)
        with running_mirror(properties, tmp_path, f"turn{turn}") as mirror:
            mirror.until("A->B", has_copied(60 * (turn + 1)), "the records to be copied")
            expected = values(range(60 * turn + 50, 60 * turn + 51))

            async def goes_on(a: AdminClient, b: AdminClient, expected: list[bytes] = expected) -> bool:
                committed = (await b.group_offsets.fetch(["again"])).whole()["again"]
                return bool(committed) and await target_of(a, b) == expected

            until(lambda check=goes_on: both(clusters, check), "the group to have its offset", STATE_S)  # type: ignore[misc]
    offsets = [each.target_offset for each in both(clusters, lambda a, b: checkpoints_of(b, "again"))]
    assert offsets == sorted(offsets)


@pytest.mark.full
def test_a_flow_begins_with_new_records_if_it_is_told_to(clusters: Clusters, tmp_path: Path) -> None:
    """If this fails, auto.offset.reset=latest copies years of records, or skips new ones."""
    properties = clusters.properties(topics="later", A__consumer__auto__offset__reset="latest", **QUICK)

    async def begin(a: AdminClient, b: AdminClient) -> None:
        (await a.topics.create([NewTopic("later", 1, 1)])).whole()
        await send(a, "later", range(30))

    async def more(a: AdminClient, b: AdminClient) -> None:
        await send(a, "later", range(30, 70))

    both(clusters, begin)
    with running_mirror(properties, tmp_path) as mirror:
        mirror.until("A->B", has_reached("later", 30), "the flow to begin at the end")
        both(clusters, more)
        mirror.until("A->B", has_copied(70), "the new records to be copied")
    assert both(clusters, lambda a, b: read(b, "A.later")) == values(range(30, 70))


@pytest.mark.full
def test_a_group_fails_over_and_back(clusters: Clusters, tmp_path: Path) -> None:
    """Two clusters that copy from each other, with heartbeats. If this fails, a group that has gone on in the other
    cluster reads its records again when it comes back, or a monitoring system does not see the way of the records.
    """
    properties = clusters.properties(
        B_to_A__enabled="true",
        topics=r"(.*\\.)?round",
        emit__heartbeats__enabled="true",
        emit__heartbeats__interval__seconds="1",
        **QUICK,
    )

    async def begin(a: AdminClient, b: AdminClient) -> None:
        for client, numbers in ((a, range(100)), (b, range(100, 200))):
            (await client.topics.create([NewTopic("round", 1, 1)])).whole()
            await send(client, "round", numbers)
        (await a.group_offsets.alter("round", {TopicPartition("round", 0): 90})).whole()

    async def fail_over(a: AdminClient, b: AdminClient) -> None:
        offsets = {TopicPartition("A.round", 0): 95, TopicPartition("round", 0): 70}
        (await b.group_offsets.alter("round", offsets)).whole()

    async def has_heartbeats(a: AdminClient, b: AdminClient) -> bool:
        names = [await a.topics.names(), await b.topics.names()]
        if "B.heartbeats" not in names[0] or "A.heartbeats" not in names[1]:
            return False
        return all([await read(a, "B.heartbeats"), await read(b, "A.heartbeats")])

    both(clusters, begin)
    with running_mirror(properties, tmp_path) as mirror:
        for name in ("A->B", "B->A"):
            mirror.until(name, has_reached("round", 100), f"{name} to copy")
        until(is_at(clusters, 1, "round", {TopicPartition("A.round", 0): 90}), "the group to be in B", STATE_S)
        both(clusters, fail_over)
        there = {TopicPartition("round", 0): 90, TopicPartition("B.round", 0): 70}
        until(is_at(clusters, 0, "round", there), "the group to be in A again", STATE_S)
        until(lambda: both(clusters, has_heartbeats), "heartbeats to be copied in both directions", STATE_S)
    assert both(clusters, lambda a, b: read(a, "B.round")) == values(range(100, 200))
