"""Addresses that a program listens on. tests/dashboard/security has hosts, origins, proxies and paths."""

from __future__ import annotations

import pytest

from broker_cy.client.errors import ClientError
from broker_cy.http.addresses import parse_listen


def test_addresses_to_listen_on() -> None:
    """If this fails, a program cannot listen on a free port, or an error does not name the wrong option."""
    assert parse_listen("localhost:0", "x", 8081) == ("localhost", 0)
    assert parse_listen("[::1]:8081", "x", 8081) == ("::1", 8081)
    with pytest.raises(ClientError, match=r"--listen: .*HOST:PORT is expected, such as 127.0.0.1:8081"):
        parse_listen("localhost", "--listen", 8081)
