"""SASL exchanges for tests: users, servers and clients that need no draw."""

from __future__ import annotations

from dataclasses import dataclass, field

from broker_cy.core import scram
from broker_cy.core.scram import Mechanism
from broker_cy.security.sasl.exchange import Challenge, ClientExchange, Login, Passwords, ServerExchange, ServerStep
from broker_cy.security.sasl.gssapi import GssError
from broker_cy.security.sasl.plain import PlainClient, PlainServer
from broker_cy.security.sasl.scram import Credential, Decoys, SaltedPasswords, ScramClient, ScramServer

USERS = {"alice": "alice-secret", "b=ob,by": "p\xe4ss,w=ord", "J\xfcrgen": "x"}
SALT = b"21q4xoc3w8tcd9tc8cugg9h56"
# The work of the iterations is done once for each login.
SALTED: dict[tuple[str, str, str], SaltedPasswords] = {}
NONCE = "fyko+d2lbbFgONRv9qkxdawL"
MORE = "3rfcNHYJY1ZVvWVs7jSERVER"


def mechanism(name: str) -> Mechanism:
    found = scram.of_name(name)
    assert found is not None
    return found


def credential(name: str, password: str, iterations: int = 4_096) -> Credential:
    kind = mechanism(name)
    return Credential(SALT, iterations, scram.keys_of(kind, scram.salted_password(kind, password, SALT, iterations)))


CREDENTIALS = {
    (name, user): credential(name, password)
    for name in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    for user, password in USERS.items()
}


def server(name: str, nonce: str = MORE) -> ServerExchange:
    if name == "PLAIN":
        return PlainServer(Passwords(USERS), b"key")
    return ScramServer(mechanism(name), lambda user: CREDENTIALS.get((name, user)), Decoys(b"cluster"), nonce)


def client(name: str, user: str, password: str, nonce: str = NONCE) -> ClientExchange:
    login = Login(name, user, password)
    if name == "PLAIN":
        return PlainClient(login)
    salted = SALTED.setdefault((name, user, password), SaltedPasswords(login))
    return ScramClient(mechanism(name), salted, nonce)


def run(at_server: ServerExchange, at_client: ClientExchange) -> ServerStep:
    """Both halves until the server is done."""
    step = at_server.step(at_client.first())
    while isinstance(step, Challenge):
        token = at_client.step(step.token)
        assert token is not None
        step = at_server.step(token)
    return step


@dataclass
class FakeContext:
    """Complete after `legs` tokens of the peer; a wrapped message has `proof` in front."""

    legs: int
    principal: str = "alice@X"
    speaks_last: bool = True
    is_complete: bool = False
    taken: list[bytes] = field(default_factory=list)

    def step(self, token: bytes) -> bytes:
        if not token.startswith(b"ctx") and token:
            raise GssError("Invalid token was supplied")
        self.taken.append(token)
        if token:
            self.legs -= 1
        self.is_complete = self.legs <= 0
        return b"" if self.is_complete and not self.speaks_last else b"ctx%d" % len(self.taken)

    def initiator(self) -> str:
        return self.principal

    def wrap(self, message: bytes) -> bytes:
        return b"proof" + message

    def unwrap(self, token: bytes) -> bytes:
        if not token.startswith(b"proof"):
            raise GssError("A token had an invalid Message Integrity Check (MIC)")
        return token[5:]
