"""Two clusters of one broker each, for the tests of one file: ours, and in the full tier also Apache Kafka's."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import needs
from tests.support.both_brokers import running

PAIRS = [
    pytest.param(("broker-cy", "broker-cy"), id="ours"),
    *(
        pytest.param(pair, id="-to-".join(pair), marks=[pytest.mark.full, needs.kafka])
        for pair in (("kafka", "kafka"), ("kafka", "broker-cy"), ("broker-cy", "kafka"))
    ),
]
# Clients without a login may do what no ACL denies.
SECURED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@contextmanager
def both(kinds: tuple[str, str], directory: Path, settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Run a source and a target of these kinds."""
    source, target = (running(kind, directory / f"{kind}-{index}", settings) for index, kind in enumerate(kinds))
    with source as first, target as second:
        yield first.bootstrap, second.bootstrap


@pytest.fixture(scope="module", params=PAIRS)
def brokers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The addresses of two clusters of one broker."""
    with both(request.param, tmp_path_factory.mktemp("brokers"), {}) as addresses:
        yield addresses


@pytest.fixture(scope="module", params=PAIRS)
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The addresses of two clusters with ACLs."""
    with both(request.param, tmp_path_factory.mktemp("secured"), SECURED) as addresses:
        yield addresses


@pytest.fixture
def topic() -> str:
    return "t-" + uuid.uuid4().hex[:8]
