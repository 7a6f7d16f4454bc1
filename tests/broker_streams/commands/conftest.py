"""A broker for the commands of `broker-streams`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker_streams.brokers import SETTINGS
from tests.broker_streams.commands.cluster import Cluster
from tests.support.broker import BrokerProcess


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = BrokerProcess(tmp_path_factory.mktemp("streams-commands"), SETTINGS)
    try:
        yield Cluster(made.start().bootstrap, made.data_dir)
    finally:
        made.close()
