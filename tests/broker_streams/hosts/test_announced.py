"""The topology as the group gets it, and the settings of hosts."""

from __future__ import annotations

from typing import Any

import pytest

from broker_streams.hosts.announced import announced, changelog_config
from broker_streams.hosts.settings import HostSettings
from broker_streams.plan.steps.stateless import PassThrough
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.plan.topology import InternalTopic, ProcessorNode, Sink, Source, TopologyBuilder


def test_internal_topics_are_announced_with_kafkas_settings() -> None:
    """If this fails, the coordinator makes topics that lose state, or refuses the topology."""
    made = TopologyBuilder()
    made.add_source(Source("in", ("orders",)))
    made.add_repartition_topic(InternalTopic("counts-repartition", 4, {"segment.ms": "1000"}))
    made.add_sink(Sink("sink", ("in",), "counts-repartition"))
    made.add_source(Source("back", ("counts-repartition",)))
    made.add_source(Source("other", ("rates",)))
    made.add_processor(ProcessorNode("count", ("back", "other"), PassThrough()))
    made.add_store(
        Store("counts", StoreKind.TIMESTAMPED_KEY_VALUE, topic_config={"cleanup.policy": "delete"}), ["count"]
    )
    made.add_store(Store("scratch", StoreKind.KEY_VALUE, logging=False), ["count"])
    made.add_store(Store("rows", StoreKind.TIMESTAMPED_KEY_VALUE, source_topic="rates"), ["count"])
    made.copartition(["back", "other"])
    found = announced(made.build(), "app", replication_factor=3, topic_config={"min.insync.replicas": "2"})
    first, second = found.subtopologies
    assert (first.subtopology_id, first.source_topics, first.repartition_sink_topics) == (
        "0",
        ["orders"],
        ["app-counts-repartition"],
    )
    assert (second.subtopology_id, second.source_topics) == ("1", ["rates"])
    (repartition,) = second.repartition_source_topics
    assert (repartition.name, repartition.partitions, repartition.replication_factor) == (
        "app-counts-repartition",
        4,
        3,
    )
    assert {each.key: each.value for each in repartition.topic_configs} == {
        "cleanup.policy": "delete",
        "message.timestamp.type": "CreateTime",
        "min.insync.replicas": "2",
        "retention.ms": "-1",
        "segment.bytes": "52428800",
        "segment.ms": "1000",
    }
    (changelog,) = second.state_changelog_topics
    assert (changelog.name, changelog.partitions) == ("app-counts-changelog", 0)
    assert {each.key: each.value for each in changelog.topic_configs}["cleanup.policy"] == "delete"
    (group,) = second.copartition_groups
    assert (group.source_topics, group.repartition_source_topics) == ([0], [0])


@pytest.mark.parametrize(
    ("store", "expected"),
    [
        (Store("s", StoreKind.KEY_VALUE), {"cleanup.policy": "compact"}),
        # Records that wait for a partner are needed however long that takes.
        (Store("s", StoreKind.JOIN_OUTER), {"cleanup.policy": "compact"}),
        (
            Store("s", StoreKind.TIMESTAMPED_WINDOW, retention_ms=1_000),
            {"cleanup.policy": "compact,delete", "retention.ms": "86401000"},
        ),
        (
            Store("s", StoreKind.VERSIONED_KEY_VALUE, history_ms=5),
            {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400005"},
        ),
    ],
    ids=lambda each: each.kind.value if isinstance(each, Store) else "",
)
def test_changelogs_lose_only_what_a_store_does_not_need(store: Store, expected: dict[str, str]) -> None:
    """If this fails, a restored store lacks rows, or its changelog grows for ever."""
    assert changelog_config(store, {}) == {"message.timestamp.type": "CreateTime", **expected}


def test_settings_have_kafkas_names() -> None:
    """If this fails, settings of users' files have no effect."""
    found = HostSettings.of(
        {
            "application.id": "app",
            "processing.guarantee": "at_least_once",
            "topic.retention.bytes": 7,
            "client.tag.zone": "a",
            "replication.factor": "3",
            "transaction.timeout.ms": "5000",
        }
    )
    assert (found.application_id, found.is_exactly_once, found.commit_interval_ms) == ("app", False, 30_000)
    assert (found.topic_config, found.client_tags) == ({"retention.bytes": "7"}, {"zone": "a"})
    assert (found.replication_factor, found.transaction_timeout_ms) == (3, 5_000)
    assert HostSettings.of({"application.id": "app"}).commit_interval_ms == 100


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("processing.guarantee", "exactly_once", "one of: at_least_once, exactly_once_v2"),
        ("commit.interval.ms", "soon", "soon for configuration commit.interval.ms: Not a number of type LONG"),
        ("commit.interval.ms", -1, "-1 for configuration commit.interval.ms: Value must be at least 0"),
        ("auto.offset.reset", "first", "must be either 'earliest', 'latest', 'none' or of the format 'by_duration:"),
        ("auto.offset.reset", "by_duration:1h", "by_duration:1h for configuration auto.offset.reset"),
    ],
)
def test_wrong_settings_are_named(name: str, value: Any, text: str) -> None:
    """If this fails, an application runs with another setting than its user wrote."""
    with pytest.raises(ValueError, match=r".") as refused:
        HostSettings.of({"application.id": "app", name: value})
    assert text in str(refused.value)
