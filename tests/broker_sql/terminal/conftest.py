"""A server with fixed answers for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker_sql.client import SqlClient
from tests.broker_sql.terminal.fake_server import FakeServer


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer().running() as found:
        yield found


@pytest.fixture
def client(server: FakeServer) -> Iterator[SqlClient]:
    with SqlClient(server.server, timeout_s=20) as found:
        yield found
