"""Settings of groups: the broker's conditions between them, those of one group, and the values that take effect."""

from __future__ import annotations

import pytest

from broker_cy.config import BrokerConfig, ConfigError
from broker_cy.config.definitions import GROUP
from broker_cy.config.group import effective_group_settings, validate_group_settings


def config(**properties: str) -> BrokerConfig:
    return BrokerConfig.from_properties({name.replace("_", "."): text for name, text in properties.items()})


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        (
            {"group.consumer.min.heartbeat.interval.ms": "20000", "group.consumer.min.session.timeout.ms": "90000"},
            "group.consumer.max.heartbeat.interval.ms must be greater than or equal to "
            "group.consumer.min.heartbeat.interval.ms",
        ),
        (
            {"group.consumer.heartbeat.interval.ms": "4999"},
            "group.consumer.heartbeat.interval.ms must be greater than or equal to "
            "group.consumer.min.heartbeat.interval.ms",
        ),
        (
            {"group.consumer.session.timeout.ms": "60001"},
            "group.consumer.session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms",
        ),
        (
            {
                "group.consumer.min.session.timeout.ms": "1",
                "group.consumer.session.timeout.ms": "5000",
                "group.consumer.assignment.interval.ms": "20000",
            },
            "group.consumer.heartbeat.interval.ms must be less than group.consumer.session.timeout.ms",
        ),
        (
            {"group.streams.assignment.interval.ms": "15001"},
            "group.streams.assignment.interval.ms must be less than or equal to "
            "group.streams.max.assignment.interval.ms",
        ),
        (
            {"group.share.assignors": "simple,other"},
            "group.share.assignors must contain exactly one assignor, but found 2",
        ),
        (
            {"group.streams.num.standby.replicas": "3"},
            "group.streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
        ),
        (
            {"group.share.max.delivery.count.limit": "5", "group.share.delivery.count.limit": "6"},
            "group.share.max.delivery.count.limit must be greater than or equal to group.share.delivery.count.limit",
        ),
        (
            {"group.share.max.size": "300", "group.share.max.share.sessions": "299"},
            "group.share.max.share.sessions must be greater than or equal to group.share.max.size",
        ),
        (
            {"group.consumer.regex.refresh.interval.ms": "9999"},
            "Invalid value 9999 for configuration group.consumer.regex.refresh.interval.ms: "
            "Value must be at least 10000",
        ),
    ],
)
def test_the_broker_refuses_contradicting_settings_of_groups(properties: dict[str, str], message: str) -> None:
    """If this fails, a broker starts with limits that no group can keep. Messages and order are Kafka's."""
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.from_properties(properties)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"session.timeout.ms": "1"}, "Unknown group config name: session.timeout.ms"),
        (
            {"consumer.session.timeout.ms": "1", "consumer.heartbeat.interval.ms": "1"},
            "consumer.heartbeat.interval.ms must be greater than or equal to group.consumer.min.heartbeat.interval.ms",
        ),
        (
            {"consumer.session.timeout.ms": "60001", "consumer.assignment.interval.ms": "15001"},
            "consumer.session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms",
        ),
        (
            {"consumer.assignment.interval.ms": "15001", "share.session.timeout.ms": "1"},
            "consumer.assignment.interval.ms must be less than or equal to group.consumer.max.assignment.interval.ms",
        ),
        (
            {"share.delivery.count.limit": "11", "share.record.lock.duration.ms": "60001"},
            "share.record.lock.duration.ms must be less than or equal to group.share.max.record.lock.duration.ms",
        ),
        (
            {"streams.num.standby.replicas": "3"},
            "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas: "
            "3 is greater than 2",
        ),
        (
            {"share.heartbeat.interval.ms": "4999"},
            "share.heartbeat.interval.ms must be greater than or equal to group.share.min.heartbeat.interval.ms: "
            "4999 is less than 5000",
        ),
        (
            {"consumer.session.timeout.ms": "0"},
            "Invalid value 0 for configuration consumer.session.timeout.ms: Value must be at least 1",
        ),
        (
            {"share.auto.offset.reset": "none"},
            "Invalid value none for configuration share.auto.offset.reset: Invalid value `none` for configuration ",
        ),
    ],
)
def test_a_group_keeps_the_limits_of_the_broker(overrides: dict[str, str], message: str) -> None:
    """If this fails, a group gets a session timeout that the operator has excluded. Messages and order are Kafka's."""
    with pytest.raises(ConfigError) as caught:
        validate_group_settings(overrides, config())
    assert str(caught.value).startswith(message)


def test_session_and_heartbeat_of_a_group_are_compared_together() -> None:
    """If this fails, every member of a group is removed between two of its heartbeats."""
    broker = BrokerConfig.from_properties({"group.share.min.session.timeout.ms": "1"})
    validate_group_settings({"share.session.timeout.ms": "5001"}, broker)
    with pytest.raises(ConfigError, match=r"share.session.timeout.ms must be greater than share.heartbeat.interval.ms"):
        validate_group_settings({"share.session.timeout.ms": "5000"}, broker)


def test_stored_settings_of_a_group_take_effect_within_the_limits() -> None:
    """If this fails, a group keeps a timeout from before the operator changed the limits."""
    broker = BrokerConfig.from_properties({"group.consumer.max.session.timeout.ms": "50000"})
    stored = {
        "consumer.session.timeout.ms": "60000",
        "consumer.heartbeat.interval.ms": "1",
        "share.isolation.level": "read_committed",
        "streams.num.standby.replicas": "x",
        "unknown": "1",
    }
    found = effective_group_settings(stored, broker)
    assert (found["consumer.session.timeout.ms"], found["consumer.heartbeat.interval.ms"]) == (50_000, 5_000)
    assert (found["share.isolation.level"], found["streams.num.standby.replicas"]) == ("read_committed", 0)
    assert found["consumer.assignment.interval.ms"] == 1_000
    assert "unknown" not in found


def test_each_setting_is_documented() -> None:
    """If this fails, `configs describe group --docs` and the page of a group's settings do not say what one is for."""
    assert [name for name, setting in GROUP.items() if not setting.documentation] == []
