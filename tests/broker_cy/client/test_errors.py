"""The words for failed connections, which all programs share."""

from __future__ import annotations

import errno
import socket

import pytest

from broker_cy.client.errors import network_reason


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed"), "connection refused: no process"),
        (OSError(errno.EHOSTUNREACH, "Connect call failed ('10.0.0.1', 1)"), "no route to host"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "name or service not known"),
        (OSError("Multiple exceptions: a, b"), "Multiple exceptions: a, b"),
        (ConnectionResetError(), "ConnectionResetError"),
    ],
)
def test_the_reason_is_that_of_the_operating_system(error: OSError, reason: str) -> None:
    """If this fails, a user reads the address twice, or a number, instead of the reason."""
    assert network_reason(error).startswith(reason)
