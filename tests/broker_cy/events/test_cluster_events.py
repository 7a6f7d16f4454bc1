"""The events of failures: from changes of the metadata, and in a cluster, where each is written once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker_cy.controller.partition_change import RECOVERING
from broker_cy.core.mirror_settings import LINK, PAUSED, SOURCE_TOPIC, SOURCE_TOPIC_ID, mirror_settings
from broker_cy.events.cluster_changes import failures, writer
from broker_cy.events.event_log import config_changes, mirror_change
from broker_cy.metadata.fence_reasons import FenceReason
from broker_cy.metadata.image import BrokerImage, ImageDelta, MetadataImage, PartitionImage, TopicDelta
from broker_cy.metadata.topics import TopicImage
from broker_cy.metrics import sample
from broker_cy.metrics.events import BrokerFenced, BrokerUnfenced, Event, InSyncBelowMin, LeadersElected
from broker_cy.metrics.sample import Sample
from tests.broker_cy.commands.conftest import TIMEOUT_S, bare  # noqa: F401 (a fixture)
from tests.support.cluster import cluster, create_topic, in_sync, topics
from tests.support.wait import until

TOPIC = UUID(int=7)


def broker(
    broker_id: int,
    *,
    fenced: bool = False,
    stops: bool = False,
    incarnation: int = 1,
    reason: FenceReason = FenceReason.UNKNOWN,
) -> BrokerImage:
    return BrokerImage(
        broker_id, 10, UUID(int=incarnation), {}, {}, None, fenced, stops, (), None, fence_reason=reason
    )  # fmt: skip


def changed(
    old: PartitionImage, new: PartitionImage, brokers: list[BrokerImage], before: list[BrokerImage] | None = None
) -> list[Event]:
    image = MetadataImage()
    for each in brokers:
        image.brokers[each.broker_id] = each
    delta = ImageDelta(
        [TopicDelta(TopicImage("t", TOPIC, {0: old}), TopicImage("t", TOPIC, {0: new}))],
        [],
        [each.broker_id for each in brokers],
        [],
    )
    known = {each.broker_id: each for each in before or brokers}
    return failures(known, delta, image, lambda topic: 2)


def test_a_lost_broker_and_what_follows() -> None:
    """If this fails, the events do not show why produce requests failed, or which records were lost."""
    up = [broker(1), broker(2), broker(3)]
    down = [broker(1, fenced=True), broker(2), broker(3)]
    old = PartitionImage((1, 2, 3), (1, 2), 1, 5, 5)
    clean = old._replace(leader=2, isr=(2,), leader_epoch=6)
    assert changed(old, clean, down, up) == [
        BrokerFenced(1, 10, "lost"),
        LeadersElected("failure", ["t-0"], 1),
        InSyncBelowMin(["t-0"], 1),
    ]
    assert changed(clean, clean, up, down) == [BrokerUnfenced(1, 10)]
    gone = clean._replace(leader=-1)
    assert changed(clean, gone, down, down) == [LeadersElected("no_leader", ["t-0"], 1)]
    lossy = clean._replace(leader=3, isr=(3,), leader_recovery_state=RECOVERING)
    assert changed(gone, lossy, down) == [LeadersElected("unclean", ["t-0"], 1)]
    # Eligible leader replicas have every acknowledged record (KIP-966); a preferred election is not a failure.
    assert changed(gone._replace(elr=(3,)), clean._replace(leader=3), down) == [LeadersElected("failure", ["t-0"], 1)]
    assert changed(old, old._replace(leader=2), up) == []


def test_leaders_that_are_elected_before_the_broker_is_fenced() -> None:
    """If this fails, no event names the new leaders, which the first of the two changes after a failure elects."""
    up = [broker(1), broker(2), broker(3)]
    old = PartitionImage((1, 2, 3), (1, 2, 3), 1, 5, 5)
    new = old._replace(leader=2, isr=(2, 3), leader_epoch=6)
    assert changed(old, new, up) == [LeadersElected("failure", ["t-0"], 1)]
    assert changed(new, new, [broker(1, fenced=True), *up[1:]], up) == [BrokerFenced(1, 10, "lost")]


def test_the_end_of_a_reassignment_is_no_failure() -> None:
    """If this fails, a reassignment looks like a loss of acknowledged records: the new leader was not in sync."""
    up = [broker(1), broker(2), broker(3)]
    moving = PartitionImage((3, 1, 2), (1, 2), 1, 5, 5, adding_replicas=(3,), removing_replicas=(1,))
    ended = PartitionImage((3, 2), (2, 3), 3, 6, 6)
    assert changed(moving, ended, up) == []


def test_why_a_broker_was_fenced() -> None:
    """If this fails, a controlled restart looks like a crash, or the events do not show how a failure was detected."""
    part = PartitionImage((1,), (1,), 1, 0, 0)
    for after, cause, reason in (
        # By a controller of Apache Kafka.
        (broker(1, fenced=True, stops=True), "stopped", ""),
        (broker(1, fenced=True), "lost", ""),
        (broker(1, fenced=True, incarnation=2), "started_again", ""),
        # A broker that leads no partition has no controlled shutdown; one that is killed during it has one.
        (broker(1, fenced=True, reason=FenceReason.STOPPED), "stopped", ""),
        (broker(1, fenced=True, stops=True, reason=FenceReason.PROCESS_ENDED), "lost", "process_ended"),
        (broker(1, fenced=True, reason=FenceReason.SESSION_TIMEOUT), "lost", "session_timeout"),
        (broker(1, fenced=True, reason=FenceReason.STANDS_STILL), "lost", "stands_still"),
        (broker(1, fenced=True, reason=FenceReason.REFUSES_CONNECTIONS), "lost", "refuses_connections"),
        (broker(1, fenced=True, reason=FenceReason.REQUESTED), "lost", "requested"),
    ):
        assert changed(part, part, [after], [broker(1)]) == [BrokerFenced(1, 10, cause, reason)]


def test_one_broker_writes_the_events_of_a_change() -> None:
    """If this fails, every broker writes each event, or none does."""
    image = MetadataImage()
    assert writer(image) == -1
    for each in (broker(1, fenced=True), broker(2), broker(3)):
        image.brokers[each.broker_id] = each
    assert writer(image) == 2
    image.topics.put(TopicImage("__cluster_events", UUID(int=9), {0: PartitionImage((1, 3), (3,), 3, 1, 1)}))
    assert writer(image) == 3


def test_failures_of_a_cluster_are_written_once_and_survive(bare: Any, tmp_path: Path) -> None:  # noqa: F811
    """If this fails, the record of a failure is lost with the failed broker, or is written three times."""
    with cluster(tmp_path) as nodes:
        own = ("__cluster_events", "__broker_metrics")

        def replicated() -> bool:
            known = topics(nodes[0].port)
            return all(name in known and len(known[name].partitions[0].isr_nodes) == len(nodes) for name in own)

        until(replicated, "own topics with three replicas", TIMEOUT_S)
        assert create_topic(nodes[0].port, "t", 3, 3) == 0
        leader = topics(nodes[0].port)["__cluster_events"].partitions[0].leader_id
        for node in nodes:
            assert create_topic(node.port, f"at-{node.node_id}", 1, 1) == 0
        victim, other = nodes[leader - 1], nodes[leader % 3]
        where = ["--bootstrap", other.bootstrap, "--timeout", str(TIMEOUT_S)]

        def written() -> list[dict[str, Any]]:
            said = bare("consume", "__cluster_events", "-e", "-f", "%s\n", *where)
            return [json.loads(line) for line in said.out.splitlines()]

        def starts() -> list[dict[str, Any]]:
            return [each for each in written() if each["type"] == "broker_started"]

        # Each broker writes its own start event, and loses it if it is killed before.
        until(lambda: {each["broker"] for each in starts()} == {1, 2, 3}, "the events of the starts", TIMEOUT_S)
        victim.kill()

        def kinds() -> Counter[tuple[str, Any]]:
            return Counter((each["type"], each.get("node", each.get("cause"))) for each in written())

        until(lambda: kinds()["broker_fenced", leader], "the event", TIMEOUT_S)
        found = kinds()
        assert found["broker_fenced", leader] == 1
        (fenced,) = [each for each in written() if each["type"] == "broker_fenced"]
        # A killed process closes its listeners: no session has to end.
        assert (fenced["cause"], fenced["reason"]) == ("lost", "process_ended")
        assert found["leaders_elected", "failure"] >= 1
        assert sum(each["type"] == "topic_created" and each["topic"] == "t" for each in written()) == 1
        by = {each["topic"]: each["by"] for each in written() if each["type"] == "topic_created"}
        # A broker that does not know the author of a topic leaves it empty: it did not create these topics.
        assert all(
            each["client_id"] or not each["principal"] for each in (by[name] for name in ("at-1", "at-2", "at-3"))
        )
        assert {each["broker"] for each in starts()} == {1, 2, 3}
        # Their directories were formatted a moment ago: nothing crashed.
        assert all(each["clean"] for each in starts())
        victim.start()
        until(lambda: kinds()["broker_unfenced", leader], "the event of its return", TIMEOUT_S)
        assert victim.stop() == 0
        until(lambda: kinds()["broker_fenced", leader] == 2, "the event of its stop", TIMEOUT_S)
        last = [each for each in written() if each["type"] == "broker_fenced"][-1]
        assert (last["cause"], last["reason"]) == ("stopped", "")


def test_the_return_of_a_killed_broker_loses_nothing(bare: Any, tmp_path: Path) -> None:  # noqa: F811
    """If this fails, the only replica of a partition comes back from a kill with all its records, and consoles say that
    acknowledged ones may be lost; or it is not elected without permission at all.
    """
    with cluster(tmp_path) as nodes:
        victim, other = nodes[1], nodes[2]
        assert create_topic(nodes[0].port, "t", 6, 1) == 0
        until(lambda: "t" in topics(nodes[0].port), "the topic", TIMEOUT_S)
        led = {
            f"t-{part.partition_index}"
            for part in topics(nodes[0].port)["t"].partitions
            if part.leader_id == victim.node_id
        }
        assert led
        where = ["--bootstrap", other.bootstrap, "--timeout", str(TIMEOUT_S)]
        for number in range(6):
            bare("produce", "t", "-p", str(number), *where, stdin=f"record-{number}\n".encode())

        def events(kind: str) -> list[dict[str, Any]]:
            said = bare("consume", "__cluster_events", "-e", "-f", "%s\n", *where)
            return [found for line in said.out.splitlines() if (found := json.loads(line))["type"] == kind]

        until(lambda: in_sync(other.port, "__cluster_events", 3), "the topic of events with three replicas", TIMEOUT_S)
        victim.kill()

        def elections() -> dict[str, set[str]]:
            found: dict[str, set[str]] = {}
            for each in events("leaders_elected"):
                found.setdefault(each["cause"], set()).update(each["partitions"])
            return found

        until(lambda: elections().get("no_leader", set()) >= led, "partitions without a leader", TIMEOUT_S)
        victim.restart()
        until(lambda: elections().get("failure", set()) >= led, "their election", TIMEOUT_S)
        assert "unclean" not in elections()
        said = bare("consume", "t", "-e", "-f", "%s\n", *where)
        assert sorted(said.out.split()) == [f"record-{number}" for number in range(6)]


def test_each_broker_has_samples_that_add_up(bare: Any, tmp_path: Path) -> None:  # noqa: F811
    """If this fails, consoles show only the broker that leads the topic, or three times the records that were written.

    Samples are compressed, as are events of many partitions, and another broker takes them only if it checks them.
    """
    with cluster(tmp_path) as nodes:
        assert create_topic(nodes[0].port, "t", 6, 3) == 0
        where = ["--bootstrap", nodes[0].bootstrap, "--timeout", str(TIMEOUT_S)]

        def samples() -> list[Sample]:
            said = bare("consume", "__broker_metrics", "-e", "-f", "%s\n", *where)
            found = map(sample.decode, said.out.encode().splitlines())
            return [each for each in found if each is not None]

        def sampled(since: int) -> bool:
            """Whether each broker has written two samples after the first `since`."""
            counts = Counter(each.broker for each in samples()[since:])
            return len(counts) == len(nodes) and min(counts.values()) >= 2

        until(lambda: "__broker_metrics" in topics(nodes[0].port), "the topic", TIMEOUT_S)
        until(lambda: in_sync(nodes[0].port, "t", 3), "in-sync sets", TIMEOUT_S)
        bare("produce", "t", *where, stdin=b"x\n" * 300)
        assert bare("consume", "t", "-e", "-f", "%s\n", *where).out.count("x") == 300
        since = len(samples())
        until(lambda: sampled(since), "samples of each broker", TIMEOUT_S)
        counts = [each.topics["t"] for each in samples() if "t" in each.topics]
        assert sum(each.in_records for each in counts) == 300
        # One consumer read them; fetches of followers are not counted.
        assert sum(each.out_bytes for each in counts) == sum(each.in_bytes for each in counts)


@pytest.mark.parametrize(
    ("name", "is_of_broker", "is_hidden"),
    [
        ("ssl.keystore.password", True, True),
        ("listener.name.external.ssl.keystore.password", True, True),
        ("listener.name.external.plain.sasl.jaas.config", True, True),
        ("listener.name.external.ssl.keystore.location", True, False),
        ("my.own.setting", True, True),
        ("follower.replication.throttled.rate", True, False),
        ("retention.ms", False, False),
    ],
)
def test_events_have_no_secrets(name: str, is_of_broker: bool, is_hidden: bool) -> None:
    """If this fails, readers of __cluster_events get the passwords of replaced key stores."""
    (change,) = config_changes({name: "before"}, {name: "after"}, is_of_broker=is_of_broker)
    assert (change.before, change.after) == (("[hidden]",) * 2 if is_hidden else ("before", "after"))


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ({}, {LINK: "east"}, "began"),
        ({LINK: "east"}, {LINK: "east", SOURCE_TOPIC_ID: "GwdKkBAzTqmDQxlIqXGwKg"}, None),
        ({LINK: "east"}, {LINK: "east", PAUSED: "true"}, "paused"),
        ({LINK: "east", PAUSED: "true"}, {LINK: "east", PAUSED: "false"}, "resumed"),
        ({LINK: "east"}, {LINK: "west"}, "began"),
        ({LINK: "east"}, {LINK: "east", SOURCE_TOPIC: "other"}, "began"),
        ({LINK: "east"}, {SOURCE_TOPIC_ID: "GwdKkBAzTqmDQxlIqXGwKg"}, "promoted"),
        ({}, {}, None),
    ],
)
def test_changes_of_settings_tell_what_became_of_a_mirror(
    before: dict[str, str], after: dict[str, str], change: str | None
) -> None:
    """If this fails, the events do not show when a topic was promoted, or that a mirror was paused."""
    assert mirror_change(mirror_settings("t", before), mirror_settings("t", after)) == change
