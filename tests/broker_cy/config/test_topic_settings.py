"""Topic settings: a topic's log behaves according to the settings with which it was created."""

from __future__ import annotations

import pytest

from broker_cy.config import (
    BrokerConfig,
    ConfigError,
    NoEffectReporter,
    topic_settings,
    validate_topic_setting,
    validate_topic_settings,
)
from broker_cy.config.definitions import BROKER, TOPIC, TOPIC_SYNONYMS
from broker_cy.config.topic import CACHED_MAX
from tests.support.logs import fields_of


def test_defaults_come_from_the_broker() -> None:
    """A broker-wide default that does not reach the topics would be accepted and ignored."""
    config = BrokerConfig.from_properties(
        {"log.roll.hours": "2", "log.retention.minutes": "3", "log.retention.hours": "9"}
    )
    settings = topic_settings({}, config)
    assert settings["segment.ms"] == 2 * 3_600_000
    assert settings["retention.ms"] == 3 * 60_000
    assert settings["flush.ms"] == 2**63 - 1
    config.apply_dynamic({}, {"log.roll.ms": "77"})
    assert topic_settings({}, config)["segment.ms"] == 77
    assert topic_settings({"segment.ms": " 88 "}, config)["segment.ms"] == 88


def test_without_limit() -> None:
    """Kafka reads every negative retention as unlimited."""
    assert topic_settings({}, BrokerConfig.from_properties({"log.retention.hours": "-7"}))["retention.ms"] == -1


def test_cache_is_bounded() -> None:
    """Topics that each have a different setting must not fill the memory."""
    config = BrokerConfig.from_properties({})
    for value in range(CACHED_MAX + 10):
        assert topic_settings({"retention.ms": str(value)}, config)["retention.ms"] == value
    assert topic_settings({"retention.ms": "1"}, config) is topic_settings({"retention.ms": "1"}, config)
    assert sum(len(value) for key, value in config.derived.items() if key == "topic settings") <= CACHED_MAX


def test_tables_agree() -> None:
    """A synonym that names no broker setting would fail at the first topic."""
    assert set(TOPIC_SYNONYMS) == set(TOPIC)
    for synonyms in TOPIC_SYNONYMS.values():
        for synonym in synonyms:
            assert synonym.name in BROKER
    config = BrokerConfig.from_properties({})
    settings = topic_settings({}, config)
    for name, setting in TOPIC.items():
        assert settings[name] == setting.default, name
        if setting.validator is not None:
            setting.validator(name, settings[name])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("nope", "1", "Unknown topic config name: nope"),
        ("retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        ("segment.bytes", "99999999999", "segment.bytes: Not a number of type INT"),
        ("cleanup.policy", "delete,,compact", "Configuration 'cleanup.policy' values must not be empty."),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("min.cleanable.dirty.ratio", "nan", "Not a number of type DOUBLE"),
        ("retention.ms", "9" * 5000, "Not a number of type LONG"),
    ],
)
def test_invalid(name: str, text: str, message: str) -> None:
    """A user who creates a topic must learn which value is invalid, and why."""
    with pytest.raises(ConfigError) as caught:
        validate_topic_setting(name, text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "5"}, "conflict topic config setting"),
        ({"remote.storage.enable": "true"}, "Tiered Storage functionality is disabled in the broker."),
    ],
)
def test_contradictions(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        validate_topic_settings(overrides, BrokerConfig.from_properties({}))


def test_reported_once() -> None:
    """A setting without effect is reported in the log, but does not flood it."""
    reporter = NoEffectReporter()
    overrides = {
        "preallocate": "true",
        "retention.ms": "5",
        "segment.bytes": "1048576",
        "min.compaction.lag.ms": "5",
        "compression.type": "producer",
        "cleanup.policy": "compact",
    }
    assert reporter.events("topic", "t", overrides) == [
        ("setting has no effect yet", {"topic": "t", "setting": "preallocate", "value": "true"}),
    ]
    assert reporter.events("topic", "t", overrides) == []
    assert len(reporter.events("topic", "u", overrides)) == 1
    assert reporter.events("topic", "v", {"cleanup.policy": "compact", "preallocate": "false"}) == []


def test_stored_nonsense_does_not_stop_a_topic(caplog: pytest.LogCaptureFixture) -> None:
    """A metadata log of another version may have values that are no longer allowed (segment.bytes=14 in Kafka 3)."""
    config = BrokerConfig.from_properties({})
    settings = topic_settings({"segment.bytes": "14", "message.format.version": "3.0", "segment.ms": "9"}, config)
    assert settings["segment.bytes"] == 1 << 30
    assert settings["segment.ms"] == 9
    assert "message.format.version" not in settings
    assert "Invalid value 14 for configuration segment.bytes" in str(fields_of(caplog.records[0])["reason"])
