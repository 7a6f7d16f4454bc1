"""One broker for the tests of the server; each test file has a server with a service id of its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.support.broker import QUICK, BrokerProcess
from tests.support.sql_server import SqlServerProcess, running_server

# A killed server leaves the groups of its queries within seconds.
SETTINGS = {
    **QUICK,
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "2000",
    "group.streams.min.heartbeat.interval.ms": "200",
    "group.streams.heartbeat.interval.ms": "200",
    # The transaction of a server that was killed ends soon.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    found = BrokerProcess(tmp_path_factory.mktemp("sql-broker"), SETTINGS)
    try:
        yield found.start()
    finally:
        found.close()


@pytest.fixture(scope="module")
def server(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlServerProcess]:
    directory = tmp_path_factory.mktemp("sql")
    with running_server(broker.bootstrap, directory, ["--service-id", f"s{uuid.uuid4().hex[:8]}_"]) as found:
        yield found


@pytest.fixture
def name() -> str:
    """A name for streams, tables and topics of one test."""
    return f"T{uuid.uuid4().hex[:8].upper()}"
