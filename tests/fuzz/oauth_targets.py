"""Logins by tokens: OAUTHBEARER with its JSON Web Tokens, the sets of keys of a provider, and SCRAM with delegation
tokens.
"""

from __future__ import annotations

import base64
import binascii
import functools

from broker_cy.core import scram
from broker_cy.security.jwt import KEYS_MAX, JwtSettings, JwtValidator, KeySet, KeySetError
from broker_cy.security.sasl.exchange import Challenge, Done, Failed, Login
from broker_cy.security.sasl.oauthbearer import OAuthBearerClient, OAuthBearerServer
from broker_cy.security.sasl.scram import Credential, Decoys, SaltedPasswords, ScramClient, ScramServer, Token
from tests.broker_cy.security.exchanges import CREDENTIALS, MORE, NONCE, USERS, mechanism
from tests.fuzz.mutator import Mutator
from tests.fuzz.sasl_targets import SEPARATOR, Refusal
from tests.fuzz.target import Target, text_mutation
from tests.support.oauth_provider import AUDIENCE, ISSUER, claims, ec_key, key_set, rsa_key, token

NOW_S = 1_800_000_000
SETTINGS = JwtSettings(frozenset({AUDIENCE}), ISSUER, "scope", "sub", 30)
# Words that the parsers look for, and headers and claims that an attacker could try.
WORDS = (
    b"n,", b"a=alice,", b"\x01", b"\x01\x01", b"auth=Bearer ", b"bearer ", b".", b"..", b"=2C", b"=3D", b"host=x\x01",
    b"auth=", b"e30.", b"W10.", b"=", b"-", b"_", b"eyJhbGciOiJub25lIn0.", b"eyJhbGciOiJIUzI1NiJ9.",
    b"eyJhbGciOiJSUzI1NiIsImNyaXQiOltdfQ.", b",tokenauth=true", b",tokenauth=TRUE",
)  # fmt: skip


def mutate_words(mutator: Mutator, data: bytes, other: bytes) -> bytes:
    """Insert a word, or replace bytes by it; otherwise mutate the bytes or the text."""
    r = mutator.bits(48)
    if r & 3 == 0:
        return text_mutation(mutator, data, other)
    if r & 3 == 1:
        return bytes(mutator.mutate(data, other))
    at = (r >> 8 & 0xFFFF) % (len(data) + 1)
    word = WORDS[(r >> 24 & 0xFF) % len(WORDS)]
    return data[:at] + word + data[at + (len(word) if r & 4 else 0) :]


# --- OAUTHBEARER: the client's messages

KEYS = KeySet([])


@functools.cache
def tokens() -> list[str]:
    """Signed, valid tokens; the elliptic curve is the fastest."""
    times = {"iat": NOW_S - 10, "exp": NOW_S + 10_000}
    keys = ec_key("ec"), rsa_key("rsa")
    KEYS.keys[:] = KeySet.parse(key_set(*keys)).keys
    return [
        token(keys[0], claims("alice", **times), "ES256"),
        token(keys[0], claims("J\xfcrgen", **times, nbf=NOW_S, aud=[AUDIENCE, "else"]), "ES256"),
        token(keys[1], claims("bob", **times, scope=["a", "b"]), "RS256"),
    ]


OWNERS = ("alice", "J\xfcrgen", "bob")


def exchange_corpus() -> list[bytes]:
    found = [OAuthBearerClient(each).first() for each in tokens()]
    with_more = found[0].replace(b"n,,", b"n,a=alice,").replace(b"\x01\x01", b"\x01traceId=7\x01\x01")
    return [*found, with_more, found[1] + SEPARATOR + b"\x01"]


def decoded(text: str) -> list[bytes] | None:
    """The parts of a token: base64 has several texts for the same bytes."""
    try:
        return [base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in text.split(".")]
    except (binascii.Error, ValueError):
        return None


def run_exchange(data: bytes) -> None:
    """A client that is logged in has a token signed by the provider, and is the user that it names."""
    validator = JwtValidator(SETTINGS, lambda: KEYS, lambda key_id: None, lambda: NOW_S * 1_000)
    at_server = OAuthBearerServer(validator.validate)
    for message in data.split(SEPARATOR)[:3]:
        step = at_server.step(message)
        if isinstance(step, Challenge):
            assert step.token == b'{"status":"invalid_token"}'
            assert isinstance(at_server.step(b"\x01"), Failed)
            raise Refusal
        if isinstance(step, Failed):
            raise Refusal
        assert isinstance(step, Done)
        assert step.user in OWNERS
        text = message.decode("latin-1")
        sent = text[text.lower().index("bearer ") + len("bearer ") :].partition("\x01")[0].strip(" ")
        assert decoded(sent) == decoded(tokens()[OWNERS.index(step.user)])
        assert isinstance(at_server.step(message), Failed)
        return


# --- sets of keys


def keys_corpus() -> list[bytes]:
    return [
        key_set(ec_key("a"), rsa_key("b")),
        key_set(ec_key("a", "P-384"), use="sig"),
        key_set(ec_key("a", "P-521"), alg="ES512"),
    ]


def run_keys(data: bytes) -> None:
    """A key set that is read has keys that can check signatures."""
    found = KeySet.parse(data)
    assert 0 < len(found.keys) <= KEYS_MAX
    for key in found.keys:
        assert key.algorithms
        assert found.has(key.key_id) if key.key_id is not None else True


# --- SCRAM with delegation tokens

TOKEN_ID, HMAC = "7Rq6fX1sQ0aXm2v3", "c2VjcmV0LW9mLXRoZS10b2tlbg=="
SHA_256 = mechanism("SCRAM-SHA-256")


@functools.cache
def token_credential(salt: bytes) -> Credential:
    salted = scram.salted_password(SHA_256, HMAC, salt, 4_096)
    return Credential(salt, 4_096, scram.keys_of(SHA_256, salted))


def find_token(token_id: str, salt: bytes) -> Token | None:
    return Token(token_credential(salt), "owner", NOW_S * 1_000) if token_id == TOKEN_ID else None


def scram_server() -> ScramServer:
    return ScramServer(
        SHA_256, lambda user: CREDENTIALS.get((SHA_256.name, user)), Decoys(b"cluster"), MORE, find_token
    )


def scram_corpus() -> list[bytes]:
    found = []
    for user, password, is_token in ((TOKEN_ID, HMAC, True), ("alice", USERS["alice"], False), ("alice", HMAC, True)):
        login = Login(SHA_256.name, user, password, is_token=is_token)
        at_client = ScramClient(SHA_256, SaltedPasswords(login), NONCE)
        first = at_client.first()
        step = scram_server().step(first)
        assert isinstance(step, Challenge)
        final = at_client.step(step.token)
        assert final is not None
        found.append(first + SEPARATOR + final)
    return found[:2] * 2 + found[2:]


def run_scram(data: bytes) -> None:
    """A token logs in its owner, and a password its user; never one as the other."""
    at_server = scram_server()
    messages = data.split(SEPARATOR)[:3]
    for message in messages:
        step = at_server.step(message)
        if isinstance(step, Failed):
            raise Refusal
        if isinstance(step, Done):
            is_token = b"tokenauth=true" in messages[0].lower()
            assert (step.user, step.expires_ms) == (("owner", NOW_S * 1_000) if is_token else ("alice", None))
            assert MORE.encode() in message
            assert isinstance(at_server.step(message), Failed)
            return


TARGETS = {
    target.name: target
    for target in (
        Target("oauth_exchange", exchange_corpus, run_exchange, (Refusal,), 6_000, mutate_words),
        Target("oauth_keys", keys_corpus, run_keys, (KeySetError,), 3_000, text_mutation),
        Target("sasl_token", scram_corpus, run_scram, (Refusal,), 10_000, mutate_words),
    )
}
