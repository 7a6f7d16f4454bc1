"""SCRAM credentials (RFC 5802, RFC 7677): the keys that a server stores for a password, as in Kafka (KIP-84).

A password is its UTF-8 bytes, without SASLprep, as in Kafka. The salted password suffices to log in; the stored key and
the server key only let a server check that a client has it.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from broker_cy.core.classes import NamedTuple


class Mechanism(NamedTuple):
    """A SCRAM mechanism; `type` stands for it in records and requests, `digest` is the name of its hash function."""

    type: int
    name: str
    digest: str


MECHANISMS: Final = (Mechanism(1, "SCRAM-SHA-256", "sha256"), Mechanism(2, "SCRAM-SHA-512", "sha512"))
# Kafka's limits, which are those of both mechanisms. The most bound the work of a client that logs in.
ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 16_384
ITERATIONS_DEFAULT: Final = 4_096


class Keys(NamedTuple):
    """The keys that a server stores."""

    stored_key: bytes
    server_key: bytes


def of_type(number: int) -> Mechanism | None:
    """The mechanism that a record or a request names by its number; None for an unknown number."""
    return next((each for each in MECHANISMS if each.type == number), None)


def of_name(name: str) -> Mechanism | None:
    return next((each for each in MECHANISMS if each.name == name), None)


def salted_password(mechanism: Mechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """RFC 5802's SaltedPassword := Hi(password, salt, i)."""
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)


def keys_of(mechanism: Mechanism, salted: bytes) -> Keys:
    """RFC 5802's StoredKey := H(HMAC(SaltedPassword, "Client Key")) and ServerKey."""
    client_key = hmac.digest(salted, b"Client Key", mechanism.digest)
    stored_key = hashlib.new(mechanism.digest, client_key).digest()
    return Keys(stored_key, hmac.digest(salted, b"Server Key", mechanism.digest))
