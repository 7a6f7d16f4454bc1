"""The flows of mirrors as consoles show them, from what processes and the cluster report."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from broker_cy.admin.address import parse_addresses
from broker_cy.admin.group_values import GroupListing
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.mirror_links import LinkPartition, MirrorTopic
from broker_cy.admin.topics import NewTopic
from broker_cy.client.address import Address
from broker_cy.client.clusters import ClusterEntry
from broker_cy.client.mirror_status import FlowStatus, MirrorStatus
from broker_cy.console import mirrors
from broker_cy.console.alerts.looks import LOOKS
from broker_cy.console.alerts.rules import BUILT_IN, Rule
from broker_cy.console.mirrors import MirrorFlow, Note, Reading, facts_of, flows_of, pair_of
from broker_cy.console.session import Session
from broker_cy.wire.records import Record
from tests.support.broker import BrokerProcess
from tests.support.mirror_page import LOOP_PROBLEM, flow_of, serving

AT_MS = 1_700_000_100_000


def group(name: str, state: str = "Stable", protocol: str = "mirror") -> GroupListing:
    return GroupListing(name, protocol, state, "classic")


def read(
    *statuses: FlowStatus,
    groups: Sequence[GroupListing] = (),
    topics: Sequence[str] = (),
    heartbeats: Mapping[str, int] | None = None,
    links: Sequence[MirrorTopic] = (),
    parts: Sequence[LinkPartition] = (),
) -> dict[str, MirrorFlow]:
    """Return the flows by name; each status is that of a process."""
    processes = {f"m{number}:8085": MirrorStatus("1.0", (each,)) for number, each in enumerate(statuses)}
    reported = {TopicPartition(each.topic, each.partition): each for each in parts}
    found = flows_of(Reading(AT_MS, processes, {}, groups, topics, heartbeats or {}, links, reported))
    return {each.name: each for each in found.flows}


def test_one_process_is_shown_whole() -> None:
    """If this fails, an operator does not see how far a flow is behind, or why it does not copy a topic."""
    flow = read(flow_of(checkpoint_at_ms=AT_MS - 500), heartbeats={"A.heartbeats": AT_MS - 1_000})["A->B"]
    assert (flow.kind, flow.state, flow.processes, flow.topics) == ("copy", "running", 1, 2)
    assert (flow.lag_records, flow.lag_ms, flow.groups, flow.restarts) == (14, 2_500, 1, 1)
    assert (flow.checkpoint_age_ms, flow.heartbeat_age_ms) == (500, 1_000)
    assert flow.notes == (
        Note("circle", "plans", LOOP_PROBLEM),
        Note("problem", "sync.topic.acls", "the source denies access"),
        Note("problem", "taxes-3", "the target has no partition 3"),
        Note("loop", "B.invoices", "it comes from B, and is not copied back"),
        Note("restart", "flow", "the target was away", 1_700_000_000_000),
    )
    assert (flow.problems, flow.loops) == (3, 2)
    assert [(each.id, each.state) for each in flow.partitions] == [
        ("A.orders-0", "running"),
        ("A.orders-1", "running"),
        ("A.taxes-3", "waiting"),
    ]
    facts = {fact.name: fact.value for fact in facts_of(flow)}
    assert (facts["lag"], facts["lag time"], facts["checkpoint"]) == ("14 records", "2.5 s", "500 ms ago")


def test_processes_of_one_flow_are_one_row() -> None:
    """If this fails, a flow that two processes divide is shown twice, or with the half of its partitions."""
    whole = flow_of()
    first = replace(whole, partitions=whole.partitions[:2], share="1 of 2")
    second = replace(whole, partitions=whole.partitions[2:], share="2 of 2", leads=False, problems={}, restarts=0)
    flow = read(first, replace(second, last_restarts=()))["A->B"]
    assert (flow.processes, len(flow.partitions), flow.records_per_s, flow.restarts) == (2, 3, 2_469.0, 1)
    assert [each.subject for each in flow.notes if each.kind in ("loop", "circle")] == ["plans", "B.invoices"]
    (problem,) = [each.text for each in flow.notes if each.subject == "taxes-3"]
    assert problem == "the target has no partition 3 (m1:8085)"
    waiting = flow_of(state="waiting", problems={"flow": "the source is away"}, partitions=(), loops=())
    assert read(first, waiting)["A->B"].state == "running"
    stopped = read(waiting)["A->B"]
    assert stopped.is_stopped
    assert stopped.trouble == "waiting: flow: the source is away"


def test_flows_are_known_without_a_process() -> None:
    """If this fails, a console without addresses of processes shows no mirror, and none that has stopped."""
    groups = [
        group("broker-mirror-eu-west-B"),
        group("broker-mirror-A-B", "Empty"),
        group("broker-mirror-A-B", protocol="consumer"),
        group("billing"),
    ]
    found = read(
        groups=groups, topics=["mm2-offsets.eu-west.internal"], heartbeats={"eu-west.heartbeats": AT_MS - 3_000}
    )
    assert {name: (each.state, each.heartbeat_age_ms) for name, each in found.items()} == {
        "eu-west->B": ("running", 3_000),
        "A->B": ("no process", None),
    }
    assert found["eu-west->B"].processes is None
    assert pair_of(group("broker-mirror-A"), ()) is None


def test_links_are_flows_of_their_topics() -> None:
    """If this fails, an operator does not see the state of mirror topics."""
    topics = [
        MirrorTopic("orders", "east", "orders", None, 2),
        MirrorTopic("plans", "east", "p", None, 1, is_paused=True),
        MirrorTopic("old", None, "old", None, 1),
    ]
    parts = [
        LinkPartition("orders", 0, "east", "orders", "active", "", "", 10, 8, 2, 40, 5.0, 500.0),
        LinkPartition("orders", 1, "east", "orders", "failed", "source_recreated", "the id differs"),
    ]
    flow = read(links=topics, parts=parts)["east"]
    assert flow.is_link
    assert (flow.state, flow.lag_records, flow.lag_ms, flow.records_per_s) == ("running", 2, 40, 5.0)
    assert [(each.id, each.topic, each.state) for each in flow.partitions] == [
        ("orders-0", "orders", "running"),
        ("orders-1", "orders", "failed"),
        ("plans-0", "p", "paused"),
    ]
    assert flow.notes == (Note("problem", "orders-1", "the id differs"),)
    assert read(links=topics[:1], parts=parts[1:])["east"].state == "starting"
    assert read(links=topics[1:])["east"].state == "paused"


def test_notes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a flow with a problem in each of its partitions makes a console slow."""
    monkeypatch.setattr(mirrors, "NOTES_MAX", 3)
    notes = read(flow_of())["A->B"].notes
    assert [each.subject for each in notes] == ["plans", "sync.topic.acls", "taxes-3", "others"]
    assert notes[-1].text == "2 more"


def built_in(kind: str) -> Rule:
    (rule,) = (rule for rule in BUILT_IN if rule.kind == kind)
    return rule


def test_a_session_finds_mirrors_and_alerts_tell_their_faults(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, consoles show no mirrors, or a mirror that stands still raises no alert."""

    async def job(address: Address) -> None:
        addresses = (address, Address("127.0.0.1", 1))
        entry = ClusterEntry("test", parse_addresses(broker_cy.bootstrap), 10.0, mirrors=addresses)
        session = Session(entry, client_id="test")
        try:
            topics = [NewTopic("A.heartbeats", 1), NewTopic(name, 2, configs={"brokercy.mirror.link": "east"})]
            await session.client.topics.create(topics)
            await session.client.records.producer().send("A.heartbeats", [Record(timestamp=AT_MS, value=b"beat")])
            found = await session.mirrors().fresh(0.0)
            assert list(found.failed) == ["127.0.0.1:1"]
            assert "127.0.0.1:1 does not answer" in found.remark
            copying, link = found.flow("A->B"), found.flow("east")
            assert copying is not None
            assert link is not None
            assert copying.heartbeat_at_ms == AT_MS
            assert {f"{name}-0", f"{name}-1"} <= {each.id for each in link.partitions}

            async def broken(rule: Rule) -> list[str]:
                return [each.text for each in await LOOKS[rule.kind](session, rule)]

            (away,) = [each for each in await broken(built_in("mirror_stopped")) if "127.0.0.1:1" in each]
            assert away.startswith("the mirror at 127.0.0.1:1 does not answer: ")
            assert await broken(replace(built_in("mirror_stopped"), flow="A->B")) == []
            assert await broken(replace(built_in("mirror_problem"), flow="A->B")) == [
                "mirror A->B, sync.topic.acls: the source denies access",
                "mirror A->B, taxes-3: the target has no partition 3",
            ]
            assert await broken(built_in("mirror_circle")) == [f"mirror A->B, plans: {LOOP_PROBLEM}"]
            assert await broken(replace(built_in("mirror_lag"), flow="A->B")) == []
            assert await broken(Rule("r", "mirror_lag", seconds=2, flow="A->B")) == [
                "mirror A->B is 2.5 s behind (limit 2.0 s)"
            ]
            assert await broken(Rule("r", "mirror_lag", records=13, flow="A->B")) == [
                "mirror A->B is 14 records behind (limit 13)"
            ]
            assert await broken(Rule("r", "mirror_lag", records=14, flow="A->B")) == []
        finally:
            await session.client.topics.delete([name, "A.heartbeats"])
            await session.close()

    with serving(flow_of()) as address:
        asyncio.run(job(address))
