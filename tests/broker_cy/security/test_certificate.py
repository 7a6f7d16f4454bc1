"""Parsing of certificates. If a name differs from Java's, a client gets no ACLs, or those of another principal."""

from __future__ import annotations

import ast
import datetime
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_cy.security.tls.certificate import CertificateError, name_of, read_certificate
from tests.support.certificates import Authority

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
# Each line has a name in DER, in hex, and what X500Principal.getName() of Java 17 gives for it, as a literal.
NAMES = [
    (der, ast.literal_eval(name))
    for der, _, name in (line.partition(" ") for line in (FIXTURES / "java_names.txt").read_text().splitlines())
]


@pytest.mark.parametrize(("der", "expected"), NAMES)
def test_names_are_those_of_java(der: str, expected: str) -> None:
    """If this fails, an ACL written for Kafka does not count for the client with this certificate."""
    assert name_of(bytes.fromhex(der)) == expected


def test_a_certificate() -> None:
    """If this fails, a change of the name, or the end of a certificate, is overlooked."""
    holder = Authority().issue("alice", hosts=("a.example", "10.0.0.1"), days=30)
    found = read_certificate(holder.der)
    assert found.subject == "CN=alice,OU=Tests,O=Broker"
    expected = holder.certificate.not_valid_after_utc.replace(tzinfo=datetime.UTC)
    assert found.not_after_ms == int(expected.timestamp()) * 1000
    assert found.alternative_names == {b"\x82\x09a.example", b"\x87\x04\x0a\x00\x00\x01"}
    assert name_of(found.issuer) == "CN=Test Authority,OU=Authority,O=Broker"
    assert read_certificate(Authority().issue("a", hosts=()).der).alternative_names == frozenset()


DER = Authority().issue("alice").der


@given(st.integers(0, len(DER) - 1), st.integers(0, 255), st.integers(0, len(DER)))
def test_a_damaged_certificate_is_refused(at: int, value: int, size: int) -> None:
    """If this fails, a client with a malformed certificate gets an internal error instead of a refusal."""
    damaged = bytearray(DER)
    damaged[at] = value
    with suppress(CertificateError):
        read_certificate(bytes(damaged[:size]))


@given(st.binary(max_size=64))
def test_any_bytes_are_refused(data: bytes) -> None:
    """If this fails, arbitrary bytes are accepted as a certificate."""
    with pytest.raises(CertificateError):
        read_certificate(data)
