"""SCRAM credentials against the example of RFC 7677, whose exchange a client and a server can check."""

from __future__ import annotations

import base64
import hashlib
import hmac

from broker_cy.core import scram

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
EXCHANGE = (
    b"n=user,r=rOprNGfwEbeRWgbNEkqO,"
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
)
PROOF = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
SIGNATURE = base64.b64decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_the_example_of_the_specification() -> None:
    """If this fails, no client can log in with a credential that we make."""
    mechanism = scram.of_name("SCRAM-SHA-256")
    assert mechanism is not None
    keys = scram.keys_of(mechanism, scram.salted_password(mechanism, "pencil", SALT, 4_096))
    assert hmac.digest(keys.server_key, EXCHANGE, "sha256") == SIGNATURE
    # A server verifies the proof of a client like this.
    client_signature = hmac.digest(keys.stored_key, EXCHANGE, "sha256")
    client_key = bytes(a ^ b for a, b in zip(PROOF, client_signature, strict=True))
    assert hashlib.sha256(client_key).digest() == keys.stored_key


def test_mechanisms_are_found_by_their_names_and_numbers() -> None:
    """If this fails, a credential of one mechanism is used for another one."""
    for mechanism in scram.MECHANISMS:
        assert scram.of_name(mechanism.name) is scram.of_type(mechanism.type) is mechanism
        assert len(scram.keys_of(mechanism, b"x").stored_key) == hashlib.new(mechanism.digest).digest_size
    assert scram.of_name("SCRAM-SHA-1") is None
    assert scram.of_type(0) is None
