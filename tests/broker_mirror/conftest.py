"""Two clusters of one broker each, and a job with a client of both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.support.broker import QUICK, BrokerProcess


class Clusters(NamedTuple):
    """The brokers of the clusters A and B."""

    a: BrokerProcess
    b: BrokerProcess

    def properties(self, **more: str) -> dict[str, str]:
        """Return a file with both clusters and the flow A->B; `__` in a name stands for a dot."""
        given = {name.replace("_to_", "->").replace("__", "."): text for name, text in more.items()}
        return {
            "clusters": "A,B",
            "A.bootstrap.servers": self.a.bootstrap,
            "B.bootstrap.servers": self.b.bootstrap,
            "A->B.enabled": "true",
            "emit.heartbeats.enabled": "false",
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "checkpoints.topic.replication.factor": "1",
            "heartbeats.topic.replication.factor": "1",
            "offset.storage.replication.factor": "1",
            **given,
        }


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    """Both clusters, for the tests of one file."""
    found = Clusters(*(BrokerProcess(tmp_path_factory.mktemp(name), QUICK) for name in "ab"))
    try:
        for each in found:
            each.start()
        yield found
    finally:
        for each in found:
            each.close()
