"""Names of remote topics, internal topics and cycles: the scenarios of MirrorMaker 2's ReplicationPolicyTest and
MirrorSourceConnectorTest. tests/broker_mirror/test_like_mirror_maker.py compares random names.
"""

from __future__ import annotations

import pytest

from broker_mirror.policy import Policy

DEFAULT = Policy(source="A")
IDENTITY = Policy(is_identity=True, source="A")


def test_remote_topics_have_the_alias_of_their_source() -> None:
    """If this fails, consumers of a remote topic find no records."""
    assert DEFAULT.remote_topic("A", "orders") == "A.orders"
    assert DEFAULT.topic_source("A.orders") == "A"
    assert DEFAULT.upstream_topic("B.A.orders") == "A.orders"
    assert DEFAULT.original_topic("B.A.orders") == "orders"
    assert DEFAULT.topic_source("orders") is None
    assert DEFAULT.upstream_topic("orders") is None


def test_the_identity_policy_renames_heartbeats_only() -> None:
    """If this fails, topics change their names in a migration, or heartbeats of two sources mix."""
    assert IDENTITY.remote_topic("A", "orders") == "orders"
    assert IDENTITY.remote_topic("A", "heartbeats") == "A.heartbeats"
    assert IDENTITY.topic_source("orders") == "A"
    assert IDENTITY.upstream_topic("orders") == "orders"
    assert IDENTITY.original_topic("B.A.heartbeats") == "heartbeats"
    assert IDENTITY.is_heartbeats_topic("A.heartbeats")
    assert not IDENTITY.is_heartbeats_topic("A.heartbeats-x")


@pytest.mark.parametrize(
    ("topic", "is_internal"),
    [
        ("__consumer_offsets", True),
        (".hidden", True),
        ("mm2-offset-syncs.A.internal", True),
        ("mm2-configs.A.internal", True),
        ("A.checkpoints.internal", True),
        ("orders.internal", False),
        ("orders-internal", False),
        ("mm2-orders", False),
    ],
)
def test_internal_topics_of_kafka_4(topic: str, is_internal: bool) -> None:
    """If this fails, a topic of a user is not copied, or the state of a mirror is."""
    assert DEFAULT.is_internal_topic(topic) is is_internal


def test_a_separator_is_also_in_internal_topics_unless_disabled() -> None:
    """If this fails, an existing mirror with a separator loses its syncs and checkpoints."""
    policy = Policy("_", "_")
    assert policy.offset_syncs_topic("B") == "mm2-offset-syncs_B_internal"
    assert policy.checkpoints_topic("A") == "A_checkpoints_internal"
    assert policy.is_internal_topic("mm2-status_A_internal")
    older = Policy("_", ".")
    assert older.remote_topic("A", "t") == "A_t"
    assert older.offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"
    assert older.is_checkpoints_topic("A.checkpoints.internal")


@pytest.mark.parametrize(
    ("topic", "is_cycle"),
    [("orders", False), ("B.orders", True), ("C.orders", False), ("C.B.orders", True), ("A.A.orders", False)],
)
def test_a_topic_that_came_from_the_target_is_a_cycle(topic: str, is_cycle: bool) -> None:
    """If this fails, two clusters that mirror each other copy their copies without end."""
    assert DEFAULT.is_cycle(topic, "B") is is_cycle


def test_the_identity_policy_sees_cycles_of_heartbeats_only() -> None:
    """If this fails, a flow with the identity policy copies nothing, or heartbeats without end."""
    assert not IDENTITY.is_cycle("orders", "B")
    assert IDENTITY.is_cycle("B.heartbeats", "B")
    assert not IDENTITY.is_cycle("A.heartbeats", "B")
