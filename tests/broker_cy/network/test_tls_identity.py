"""Listeners with TLS: the principal of a certificate, and the reports about rejected ones."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest

from tests.broker_cy.connections.harness import (
    DEADLINE_S,
)
from tests.support import needs
from tests.support.certificates import Authority

needs.require(needs.tls)
from tests.broker_cy.network.tls_harness import TlsHarness  # noqa: E402


def test_who_the_client_is(tmp_path: Path) -> None:
    """If this fails, a client has the rights of another, or one without a certificate is served."""
    rules = r"RULE:^CN=(.*?),.*$/$1/U"
    harness = TlsHarness(tmp_path, asks=True, requires=True, rules=rules)
    try:
        client = harness.client(holder=harness.authority.issue("alice"))
        harness.wait_until(lambda: [each.principal for each in harness.core.connections] == ["User:ALICE"])
        client.close()
        harness.wait_until(lambda: not harness.core.connections)
        # With TLS 1.3 a client learns of its refusal with its first read.
        with pytest.raises(ssl.SSLError):
            harness.client().is_closed()
        assert not harness.core.connections
    finally:
        harness.close()


def test_refused_handshakes_are_events(tmp_path: Path) -> None:
    """If this fails, an engineer searches the logs of all brokers for why a client cannot connect, or checks of health
    fill the topic of events.
    """
    harness = TlsHarness(tmp_path, asks=True, requires=True, oldest="TLSv1.3")
    try:
        for newest, holder in (
            ("TLSv1.3", None),
            ("TLSv1.3", Authority("Stranger").issue("alice")),
            ("TLSv1.2", harness.authority.issue("alice")),
        ):
            for _ in range(2):
                # With TLS 1.3 a client learns of its refusal with its first read.
                with pytest.raises((ssl.SSLError, ConnectionError)):
                    harness.client(newest, holder).is_closed()
        with socket.create_connection(("127.0.0.1", harness.listener.port), DEADLINE_S) as plain:
            distrustful = ssl.create_default_context(cadata=Authority("Stranger").pem)
            with pytest.raises(ssl.SSLError):
                distrustful.wrap_socket(plain, server_hostname="localhost")
        for sent in (b"", b"\x16\x03\x01"):
            with harness.connect() as check:
                check.sendall(sent)
        harness.wait_until(lambda: harness.counts.handshakes["PLAINTEXT", False] == 9)
        found = harness.refusals()
        wanted = {
            "peer did not return a certificate": 2,
            "certificate verify failed": 2,
            "unsupported protocol": 2,
            "alert unknown ca": 1,
        }
        assert len(found) == len(wanted), found
        for reason, times in wanted.items():
            assert [count for each, count in found.items() if reason in each] == [times], (reason, found)
        harness.client(holder=harness.authority.issue("alice")).close()
        assert harness.refusals() == found
    finally:
        harness.close()


def test_a_name_that_no_rule_knows(tmp_path: Path) -> None:
    """If this fails, a client that matches no rule gets a principal."""
    harness = TlsHarness(tmp_path, asks=True, rules="RULE:^CN=alice,.*$/alice/")
    try:
        client = harness.client(holder=harness.authority.issue("mallory"))
        assert client.is_closed()
        anonymous = harness.client()
        harness.wait_until(lambda: [each.principal for each in harness.core.connections] == ["User:ANONYMOUS"])
        anonymous.close()
        assert harness.counts.handshakes == {("PLAINTEXT", False): 1, ("PLAINTEXT", True): 1}
        ((reason, times),) = harness.refusals().items()
        assert "mallory" in reason
        assert times == 1
    finally:
        harness.close()
