"""One broker for the tests of the registry; each test has a topic of its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.support.broker import QUICK, BrokerProcess
from tests.support.registry import RegistryProcess, running_registry


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    found = BrokerProcess(tmp_path_factory.mktemp("registry-broker"), QUICK)
    try:
        yield found.start()
    finally:
        found.close()


@pytest.fixture
def topic() -> str:
    return f"_schemas-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def registry(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    """One instance for the tests of a file, which use subjects of their own."""
    directory = tmp_path_factory.mktemp("registry")
    with running_registry(broker.bootstrap, directory, ["--topic", f"_schemas-{uuid.uuid4().hex[:8]}"]) as found:
        yield found


@pytest.fixture
def subject() -> str:
    return f"subject-{uuid.uuid4().hex[:8]}"
