"""The topics of a flow: the scenarios of MirrorMaker 2's MirrorSourceConnectorTest, as rows."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from broker_cy.admin.configs import AlterOp, ConfigChange, ConfigEntry
from broker_cy.core.configs import ConfigSource
from broker_mirror.filters import NameFilter, pattern_of
from broker_mirror.tasks.topics import ClusterTopics, TopicPlan, configs_of_new, plan_configs, plan_topics
from tests.broker_mirror.tasks.flow_rows import IDENTITY, entry, flow_of

Counts = Mapping[str, int]
SET, DELETE = AlterOp.SET, AlterOp.DELETE
DEFAULT, STATIC = ConfigSource.DEFAULT_CONFIG, ConfigSource.STATIC_BROKER_CONFIG


def planned(source: Counts, target: Counts, **settings: str) -> TopicPlan:
    return plan_topics(flow_of(**settings), ClusterTopics(source), ClusterTopics(target))


@pytest.mark.parametrize(
    ("source", "target", "create", "grow"),
    [
        pytest.param({"t": 3}, {}, {"A.t": ("t", 3)}, {}, id="a new topic is created with its partitions"),
        pytest.param({"t": 3}, {"t": 3}, {"A.t": ("t", 3)}, {}, id="a topic of the target itself is another one"),
        pytest.param({"t": 3}, {"A.t": 3}, {}, {}, id="an equal topic stays"),
        pytest.param({"t": 3}, {"A.t": 1}, {}, {"A.t": 3}, id="new partitions are added"),
        pytest.param({"t": 1}, {"A.t": 3}, {}, {}, id="a topic never shrinks"),
        pytest.param({}, {"A.t": 3}, {}, {}, id="a topic that was deleted in the source stays"),
        pytest.param({"B.t": 1}, {"t": 1}, {}, {}, id="a topic that comes from the target is not copied back"),
        pytest.param({"C.t": 1}, {}, {"A.C.t": ("C.t", 1)}, {}, id="a topic of a third cluster is passed on"),
        pytest.param({"C.B.t": 1}, {}, {}, {}, id="a topic that comes from the target over a third is not copied"),
        pytest.param({"__consumer_offsets": 50}, {}, {}, {}, id="internal topics are not copied"),
        pytest.param({"mm2-offsets.B.internal": 25}, {}, {}, {}, id="offsets of flows are not copied"),
        pytest.param({"B.checkpoints.internal": 1}, {}, {}, {}, id="checkpoints are not copied"),
        pytest.param({"heartbeats": 1}, {}, {"A.heartbeats": ("heartbeats", 1)}, {}, id="heartbeats are copied"),
    ],
)
def test_remote_topics(source: Counts, target: Counts, create: dict[str, tuple[str, int]], grow: Counts) -> None:
    """If this fails, topics are missing in the target, or topics of others are changed."""
    plan = planned(source, target)
    assert (plan.create, plan.grow) == (create, grow)


def test_partitions_to_copy_are_those_of_the_source() -> None:
    """If this fails, partitions are not copied."""
    plan = planned({"a": 2, "b": 1, "c": 1}, {}, topics="a,b")
    assert [str(each) for each in plan.partitions] == ["a-0", "a-1", "b-0"]
    assert plan.topics == ("a", "b")


def test_problems_name_the_topic_and_both_numbers() -> None:
    """If this fails, a user cannot see why a topic is not as in the source."""
    plan = plan_topics(
        flow_of(),
        ClusterTopics({"t": 1, "u": 1}, {"v": "TOPIC_AUTHORIZATION_FAILED"}),
        ClusterTopics({"A.t": 3}, {"A.u": "TOPIC_AUTHORIZATION_FAILED"}),
    )
    assert plan.problems == {
        "t": "topic A.t of the target has 3 partitions, and its source has 1",
        "u": "the target answers for the topic A.u: TOPIC_AUTHORIZATION_FAILED",
        "v": "the source answers for the topic v: TOPIC_AUTHORIZATION_FAILED",
    }
    assert plan.create == {}


def test_named_topics_that_the_source_does_not_show_are_problems() -> None:
    """A cluster hides topics that the principal may not describe. If this fails, a user does not learn why they are
    missing.
    """
    plan = planned({"a": 1, "eu-x": 1, "cut": 1}, {}, topics="a,b,eu.x,c.*,d.e,__f")
    texts = {name: f"the source has no topic {name}, or denies DESCRIBE on it" for name in ("b", "d.e")}
    assert plan.problems == texts


def test_loops_are_named() -> None:
    """If this fails, a circle of flows fills both clusters, or is not seen."""
    assert planned({"B.t": 1, "t": 1}, {}).cycles == ("B.t",)
    back = NameFilter(pattern_of("topics", ["t.*"]), None)
    flow = flow_of(replication__policy__class=IDENTITY)
    plan = plan_topics(flow, ClusterTopics({"t": 1, "u": 1, "heartbeats": 1}), ClusterTopics({}), back)
    assert plan.topics == ("heartbeats", "u")
    assert plan.cycles == ("t",)
    assert plan.problems == {"t": "B->A copies the topic t back: it is not copied"}
    # Without the flow back, the topic keeps its name.
    assert plan_topics(flow, ClusterTopics({"t": 1}), ClusterTopics({})).create == {"t": ("t", 1)}


@pytest.mark.parametrize(
    ("source", "new"),
    [
        pytest.param(entry("retention.ms", "100"), True, id="a setting of the topic"),
        pytest.param(entry("retention.ms", "100", DEFAULT), False, id="a default, which is the target's"),
        pytest.param(entry("retention.ms", "100", STATIC), False, id="a setting of a broker's file"),
        pytest.param(
            entry("retention.ms", "100", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            True,
            id="a setting of all brokers",
        ),
        pytest.param(entry("min.insync.replicas", "2"), False, id="an excluded setting"),
        pytest.param(entry("x", "2", read_only=True), False, id="a setting that cannot be changed"),
        pytest.param(entry("x", "2", sensitive=True), False, id="a secret"),
    ],
)
def test_settings_of_new_topics(source: ConfigEntry, *, new: bool) -> None:
    """If this fails, records of a remote topic are deleted too early, or settings of the target are overruled."""
    assert configs_of_new(flow_of(), [source]) == ({source.name: source.value} if new else {})


def test_defaults_of_the_source_become_settings() -> None:
    """If this fails, use.defaults.from=source has no effect."""
    flow = flow_of(use__defaults__from="source")
    defaults = [entry("retention.ms", "100", DEFAULT)]
    assert configs_of_new(flow, defaults) == {"retention.ms": "100"}
    assert plan_configs(flow, defaults, []) == (ConfigChange("retention.ms", SET, "100"),)


@pytest.mark.parametrize(
    ("source", "target", "changes"),
    [
        pytest.param([entry("a", "1")], [], [("a", SET, "1")], id="a new setting is set"),
        pytest.param([entry("a", "1")], [entry("a", "2")], [("a", SET, "1")], id="another value is replaced"),
        pytest.param([entry("a", "1")], [entry("a", "1")], [], id="an equal value stays"),
        pytest.param([entry("a", "1")], [entry("a", "1", DEFAULT)], [("a", SET, "1")], id="a default becomes own"),
        pytest.param([entry("a", "1", DEFAULT)], [entry("a", "2")], [("a", DELETE, None)], id="a default deletes"),
        pytest.param([entry("a", "1", DEFAULT)], [entry("a", "2", DEFAULT)], [], id="two defaults may differ"),
        pytest.param([], [entry("b", "2")], [], id="a setting that the source does not know stays"),
        pytest.param([entry("unclean.leader.election.enable", "true")], [], [], id="an excluded setting stays"),
    ],
)
def test_changed_settings(
    source: list[ConfigEntry], target: list[ConfigEntry], changes: list[tuple[str, AlterOp, str | None]]
) -> None:
    """If this fails, remote topics lose settings or keep old ones."""
    assert list(plan_configs(flow_of(), source, target)) == [ConfigChange(*each) for each in changes]
