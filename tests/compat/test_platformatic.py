"""Ordinary use of @platformatic/kafka, which only supports the newest versions."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.broker import Target
from tests.support.node import run_script

Live = Callable[[str], Any]
TOPIC_ALREADY_EXISTS, MESSAGE_TOO_LARGE, NON_EMPTY_GROUP = (
    "TOPIC_ALREADY_EXISTS",
    "MESSAGE_TOO_LARGE",
    "NON_EMPTY_GROUP",
)
STATIC_DEFAULT, DYNAMIC_TOPIC = 5, 1


@pytest.fixture
def live(broker: Target, topic: str, group: str) -> Live:
    """Run one scenario of tests/e2e/node/platformatic_life.mjs."""
    return lambda scenario: json.loads(
        run_script("platformatic_life.mjs", scenario, broker.bootstrap, topic, group).stdout
    )


def test_topics(live: Live, broker: Target, topic: str) -> None:
    """If this fails, a topic cannot be created, grown, or deleted."""
    assert live("topics") == {
        "made": {"name": topic, "partitions": 2, "replicas": 1, "retention": "100000"},
        "sameId": True,
        "again": TOPIC_ALREADY_EXISTS,
        "partitions": 4,
        "brokers": [broker.bootstrap],
        "listed": True,
    }


@pytest.mark.full
def test_settings(live: Live) -> None:
    """If this fails, a setting is not stored or not shown."""
    week_ms = "604800000"
    assert live("settings") == {
        "first": {"retention.ms": ["100000", DYNAMIC_TOPIC], "segment.ms": [week_ms, STATIC_DEFAULT]},
        "second": {"retention.ms": [week_ms, STATIC_DEFAULT], "segment.ms": ["50000", DYNAMIC_TOPIC]},
        # The older call replaces all settings.
        "third": {"retention.ms": ["77000", DYNAMIC_TOPIC], "segment.ms": [week_ms, STATIC_DEFAULT]},
    }


def test_records(live: Live) -> None:
    """If this fails, parts of a record are lost or changed on their way."""
    assert live("records") == [
        {"key": "k", "value": "v", "headers": [["a", "1"], ["empty", ""]], "after": 0, "offset": 0},
        {"key": None, "value": "no key", "headers": [], "after": 1, "offset": 1},
        {"key": "no value", "value": None, "headers": [], "after": 2, "offset": 2},
    ]


@pytest.mark.full
def test_large_messages(live: Live) -> None:
    """If this fails, a message larger than a fetch cannot be delivered."""
    assert live("large") == [True, "small"]


@pytest.mark.full
def test_too_large_messages(live: Live) -> None:
    """If this fails, the producer gets a success for a message that the topic refuses."""
    assert live("tooLarge") == [MESSAGE_TOO_LARGE, 0]


@pytest.mark.full
def test_idempotent(live: Live) -> None:
    """If this fails, an idempotent producer's records are stored twice or not at all."""
    assert live("idempotent") == [str(number) for number in range(300)]


@pytest.mark.full
def test_offsets(live: Live) -> None:
    """If this fails, offsets by time are wrong, or deleted records come back."""
    assert live("offsets") == {
        "earliest": 0,
        "latest": 3,
        "max": 1,
        "time": 1,
        "never": -1,
        "lowWatermark": 2,
        "afterDeletion": 2,
        "left": [2],
    }


@pytest.mark.full
def test_seek(live: Live) -> None:
    """If this fails, a consumer reads from another offset than the requested one."""
    assert live("seek") == ["7", "8", "9"]


def test_commit_and_go_on(live: Live) -> None:
    """If this fails, a restarted consumer does not continue where it stopped."""
    assert live("commitAndGoOn") == {"committed": [4], "rest": ["4", "5", "6", "7", "8", "9"]}


def test_groups(live: Live) -> None:
    """If this fails, a group cannot be found, described, given other offsets, or deleted."""
    assert live("groups") == {
        "listed": "classic",
        "state": "Stable",
        "clients": ["life"],
        "notEmpty": NON_EMPTY_GROUP,
        "offset": 2,
        "none": [],
        "gone": True,
    }


@pytest.mark.full
def test_members(live: Live) -> None:
    """If this fails, partitions are not read after a member leaves."""
    assert live("members") == [0, 1, 2, 3]


@pytest.mark.full
def test_log_directories(live: Live, broker: Target, topic: str) -> None:
    """If this fails, users cannot see what uses the disk space."""
    (found,) = live("logDirectories")
    size = (broker.data_dir / f"{topic}-0" / f"{0:020}.log").stat().st_size
    assert found == {"directory": str(broker.data_dir), "size": size}
