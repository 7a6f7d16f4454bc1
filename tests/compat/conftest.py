"""Fixtures of the tests with real clients."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from tests.support.broker import Target
from tests.support.confluent import close_consumer, new_consumer


@pytest.fixture
def admin(broker: Target) -> AdminClient:
    """confluent-kafka's admin client."""
    return AdminClient({"bootstrap.servers": broker.bootstrap})


@pytest.fixture
def group() -> str:
    """A separate group for the test."""
    return "group-" + uuid.uuid4().hex[:8]


@pytest.fixture
def make_consumer(broker: Target, group: str) -> Iterator[Callable[..., Consumer]]:
    """confluent-kafka consumers of the test's group, closed when it ends."""
    made: list[Consumer] = []

    def make(**settings: Any) -> Consumer:
        made.append(new_consumer(broker.bootstrap, group, **settings))
        return made[-1]

    yield make
    for consumer in made:
        close_consumer(consumer)
