"""Ordinary use of kafkajs, which only supports old, not flexible versions, is no longer maintained, and is used
everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.broker import Target
from tests.support.node import run_script

Live = Callable[[str], Any]


@pytest.fixture
def live(broker: Target, topic: str, group: str) -> Live:
    """Run one scenario of tests/e2e/node/kafkajs_life.mjs."""
    return lambda scenario: json.loads(run_script("kafkajs_life.mjs", scenario, broker.bootstrap, topic, group).stdout)


def test_topics(live: Live, broker: Target) -> None:
    """If this fails, a topic cannot be created, grown, or deleted."""
    assert live("topics") == {"made": True, "again": False, "listed": True, "brokers": [broker.bootstrap]}


def test_settings(live: Live) -> None:
    """If this fails, a setting is not stored or not shown."""
    assert live("settings") == {"before": [["retention.ms", "100000"]], "wrong": "INVALID_CONFIG"}


def test_records(live: Live) -> None:
    """If this fails, parts of a record are lost or changed on their way."""
    assert live("records") == [
        {"key": "k", "value": "v", "headers": [["a", ["1", "2"]], ["b", [""]]], "after": 0, "offset": "0"},
        {"key": None, "value": "no key", "headers": [], "after": 1, "offset": "1"},
        {"key": "no value", "value": None, "headers": [], "after": 2, "offset": "2"},
    ]


def test_gzip(live: Live) -> None:
    """If this fails, records compressed with the only codec of kafkajs are lost."""
    assert live("gzip") is True


def test_idempotent(live: Live) -> None:
    """If this fails, an idempotent producer's records are stored twice or not at all."""
    assert live("idempotent") == [str(number) for number in range(300)]


def test_too_large(live: Live) -> None:
    """If this fails, the producer gets a success for a message that the topic refuses."""
    assert live("tooLarge") == ["MESSAGE_TOO_LARGE", None]


def test_offsets(live: Live) -> None:
    """If this fails, offsets by time are wrong, or a consumer reads from another position than requested."""
    assert live("offsets") == {"ends": [["0", "10"]], "byTime": "2", "low": "4", "sought": ["7", "8"]}


def test_commit_and_go_on(live: Live) -> None:
    """If this fails, a restarted consumer does not continue where it stopped."""
    assert live("commitAndGoOn") == ["4", "5", "6", "7", "8", "9"]


def test_pause(live: Live) -> None:
    """If this fails, a paused topic still delivers, or a resumed one loses its place."""
    assert live("pause") == {"paused": ["0", "1"], "resumed": ["0", "1", "2"]}


def test_groups(live: Live) -> None:
    """If this fails, a group cannot be found, described, given other offsets, or deleted; or its members do not
    share.
    """
    assert live("groups") == {
        "listed": True,
        "state": "Stable",
        "protocol": "RoundRobinAssigner",
        "hosts": ["/127.0.0.1"],
        "assigned": [0, 1],
        "notEmpty": "NON_EMPTY_GROUP",
        "offset": "1",
        "gone": True,
    }
