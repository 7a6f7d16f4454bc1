"""OAUTHBEARER: the exchange, and the ways in which a token can be invalid."""

from __future__ import annotations

import base64
import hmac
import json
import time
from typing import Any

import pytest
from joserfc.jwk import ECKey, OctKey, RSAKey

from broker_cy.security.jwt import KEYS_MAX, SET_BYTES_MAX, JwtSettings, JwtValidator, KeySet, KeySetError
from broker_cy.security.sasl.exchange import Challenge, Done, Failed, LoginFailed
from broker_cy.security.sasl.oauthbearer import Accepted, OAuthBearerClient, OAuthBearerServer, Rejected
from tests.support.oauth_provider import AUDIENCE, ISSUER, claims, ec_key, key_set, rsa_key, token

RSA, EC, OTHER = rsa_key("rsa"), ec_key("ec"), rsa_key("rsa")
KEYS = KeySet.parse(key_set(RSA, EC))
SETTINGS = JwtSettings(frozenset({AUDIENCE, "else"}), ISSUER, "scope", "sub", 30)
INVALID = '{"status":"invalid_token"}'


def judge(text: str, settings: JwtSettings = SETTINGS, keys: KeySet = KEYS) -> Accepted | Rejected:
    missed: list[str] = []
    return JwtValidator(settings, lambda: keys, missed.append, lambda: int(time.time() * 1000)).validate(text)


def part(found: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(found).encode()).decode().rstrip("=")


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256"])
def test_a_signed_token_counts(algorithm: str) -> None:
    """If this fails, no client can log in."""
    found = claims("J\xfcrgen", 100)
    judged = judge(token(EC if algorithm[:2] == "ES" else RSA, found, algorithm))
    assert judged == Accepted("J\xfcrgen", found["exp"] * 1_000)


@pytest.mark.parametrize("curve", ["P-256", "P-384", "P-521"])
def test_curves(curve: str) -> None:
    """If this fails, tokens of some providers do not count, or count with the algorithm of another curve."""
    key = ec_key("x", curve)
    algorithm = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}[curve]
    assert isinstance(judge(token(key, algorithm=algorithm), keys=KeySet.parse(key_set(key))), Accepted)


def unsigned(algorithm: str, signature: str = "") -> str:
    return f"{part({'alg': algorithm, 'kid': 'rsa'})}.{part(claims('admin'))}.{signature}"


def with_public_key_as_secret() -> str:
    """CVE-2015-9235: signed with a key that is public."""
    signed = f"{part({'alg': 'HS256', 'kid': 'rsa'})}.{part(claims('admin'))}"
    signature = hmac.digest(RSA.as_pem(private=False), signed.encode(), "sha256")
    return f"{signed}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


def changed(text: str) -> str:
    header, _, signature = text.split(".")
    return f"{header}.{part(claims('admin'))}.{signature}"


FORGED = {
    "no algorithm": unsigned("none"),
    "no algorithm in capitals": unsigned("NoNe"),
    "no signature": unsigned("RS256"),
    "another signature": unsigned("RS256", "AAAA"),
    "the public key as a secret": with_public_key_as_secret(),
    "another key with the same id": token(OTHER, claims("admin")),
    "a key in the header": token(OTHER, claims("admin"), jwk=OTHER.as_dict(private=False)),
    "a URL in the header": token(OTHER, claims("admin"), jku="http://127.0.0.1/keys"),
    "the algorithm of another key": token(OTHER, claims("admin"), kid="ec"),
    "an unknown key": token(OTHER, claims("admin"), kid="unknown"),
    "no key": token(OTHER, claims("admin"), kid=None),
    "a key id that is no text": f"{part({'alg': 'RS256', 'kid': 1})}.{part(claims('admin'))}.AAAA",
    "changed claims": changed(token(RSA)),
    "critical": f"{part({'alg': 'RS256', 'kid': 'rsa', 'crit': ['b64'], 'b64': False})}.x.AAAA",
    "encrypted": "a.b.c.d.e",
    "two parts": "a.b",
    "no JSON": "a.b.c",
    "an array": f"{part([])}.{part([])}.AAAA",
    "deep JSON": base64.urlsafe_b64encode(b"[" * 30_000).decode() + ".b.c",
    "empty": "",
}


@pytest.mark.parametrize("what", FORGED)
def test_forged_tokens_are_rejected(what: str) -> None:
    """CVE-2026-33557, CVE-2026-110985. If this fails, any client can log in as any user."""
    assert isinstance(judge(FORGED[what]), Rejected)


# A number of seconds in `exp` and `nbf` counts from when the token is made: the test may run long after its collection.
WRONG: dict[str, dict[str, Any]] = {
    "expired": {"exp": -31},
    "no exp": {"exp": None},
    "exp is no number": {"exp": "tomorrow"},
    "exp is a truth": {"exp": True},
    "exp is infinite": {"exp": float("inf")},
    "no iat": {"iat": None},
    "later": {"nbf": 60},
    "nbf is no number": {"nbf": "x"},
    "no audience": {"aud": None},
    "another audience": {"aud": "kafk"},
    "other audiences": {"aud": ["a", "b"]},
    "audience of numbers": {"aud": [1]},
    "another issuer": {"iss": ISSUER + "/"},
    "no issuer": {"iss": None},
    "no subject": {"sub": None},
    "empty subject": {"sub": " "},
    "subject is no text": {"sub": 1},
    "empty scope": {"scope": ""},
    "scope twice": {"scope": ["a", "a"]},
    "scope of numbers": {"scope": [1]},
}


@pytest.mark.parametrize("what", WRONG)
def test_tokens_for_others_are_rejected(what: str) -> None:
    """If this fails, a token of another service, or one that has expired, is good enough."""
    fields: dict[str, Any] = {
        name: time.time() + int(value) if name in ("exp", "nbf") and type(value) is int else value
        for name, value in WRONG[what].items()
    }
    assert isinstance(judge(token(RSA, claims(**fields))), Rejected)


def test_what_may_be_in_a_token() -> None:
    """If this fails, tokens that Kafka takes are rejected."""
    every: list[dict[str, Any]] = [
        {"aud": [AUDIENCE, "x"]},
        {"scope": None},
        {"scope": ["a", "b"]},
        {"nbf": time.time() + 20},
        {"exp": time.time() - 20},
        {"more": {"x": []}},
    ]
    for fields in every:
        assert isinstance(judge(token(RSA, claims(**fields))), Accepted), fields
    only = KeySet.parse(key_set(RSA))
    assert isinstance(judge(token(RSA, kid=None), keys=only), Accepted)
    open_to_all = JwtSettings(frozenset(), None, "scp", "client_id", 0)
    found = claims(aud=None, iss=None, client_id="job")
    assert judge(token(RSA, found), open_to_all) == Accepted("job", found["exp"] * 1_000)
    # As in Kafka, an audience has to be expected.
    assert isinstance(judge(token(RSA, claims(client_id="job")), open_to_all), Rejected)


def test_keys_that_are_missing_are_asked_for() -> None:
    """If this fails, clients wait for an hour after the provider has changed its keys; or each wrong token asks it."""
    missed: list[str] = []
    validator = JwtValidator(SETTINGS, lambda: KEYS, missed.append, lambda: 0)
    validator.validate(token(OTHER, kid="new"))
    assert missed == ["new"]
    for text in (*(each for what, each in FORGED.items() if what != "an unknown key"), token(RSA)):
        validator.validate(text)
    assert missed == ["new"]


def test_keys_for_other_uses_are_not_taken() -> None:
    """If this fails, a key that is for encryption, weak or symmetric checks signatures."""
    weak = rsa_key("weak", 1_024)
    secret = OctKey.generate_key(256, {"kid": "secret"})
    usable = key_set(RSA)
    for data in (
        b"",
        b"[]",
        b"{}",
        b'{"keys": []}',
        b'{"keys": [1, {}, {"kty": "RSA"}, {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}]}',
        key_set(weak),
        json.dumps({"keys": [secret.as_dict()]}).encode(),
        key_set(RSA, use="enc"),
        key_set(RSA, alg="HS256"),
        b"[" * 100_000,
        b" " * SET_BYTES_MAX + usable,
        json.dumps({"keys": json.loads(usable)["keys"] * (KEYS_MAX + 1)}).encode(),
    ):
        with pytest.raises(KeySetError):
            KeySet.parse(data)
    only_384 = KeySet.parse(key_set(RSA, alg="RS384", use="sig"))
    assert isinstance(judge(token(RSA, algorithm="RS384"), keys=only_384), Accepted)
    assert isinstance(judge(token(RSA), keys=only_384), Rejected)


# --- the exchange


def server() -> OAuthBearerServer:
    return OAuthBearerServer(lambda text: Accepted("alice", 5) if text == "good" else Rejected("it is bad"))


def test_both_halves() -> None:
    """If this fails, clients and servers do not understand each other."""
    client = OAuthBearerClient("good")
    assert server().step(client.first()) == Done(b"", "alice", 5)
    assert client.step(b"") is None
    assert client.is_complete
    bad, at_server = OAuthBearerClient("bad"), server()
    challenge = at_server.step(bad.first())
    assert challenge == Challenge(INVALID.encode())
    answer = bad.step(INVALID.encode())
    assert answer == b"\x01"
    assert at_server.step(answer) == Failed("it is bad", "", INVALID)
    assert not bad.is_complete
    for text in ("", "a b", "a\x01b", "\xe4"):
        with pytest.raises(LoginFailed):
            OAuthBearerClient(text)
    assert "good" not in repr(client) + repr(server())


@pytest.mark.parametrize(
    "first",
    [
        b"n,,\x01auth=bearer good\x01\x01",
        b"n,,\x01auth=Bearer   good\x01\x01",
        b"n,a=alice,\x01auth=Bearer good\x01\x01",
        b"n,,\x01traceId=123\x01auth=Bearer good\x01logicalCluster=lkc a=b\x01\x01",
    ],
)
def test_first_messages(first: bytes) -> None:
    """If this fails, clients with extensions, or with a name, cannot log in."""
    assert server().step(first) == Done(b"", "alice", 5)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\x01",
        b"n,,",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer good\x01",
        b"n,,\x01auth=Bearer good",
        b"n,,\x01auth=Basic good\x01\x01",
        b"n,,\x01auth=good\x01\x01",
        b"n,,\x01auth=Bearer go od\x01\x01",
        b"n,,\x01auth=Bearer bad\x01auth=Bearer good\x01\x01",
        b"n,,\x01x=1\x01\x01",
        b"n,,\x01a1=1\x01auth=Bearer good\x01\x01",
        b"n,,\x01auth=Bearer good\x01x=\xff\x01\x01",
        b"y,,\x01auth=Bearer good\x01\x01",
        b"p=x,,\x01auth=Bearer good\x01\x01",
        b"n,a=admin,\x01auth=Bearer good\x01\x01",
        b"n,,\x01auth=Bearer " + b"g" * 70_000 + b"\x01\x01",
    ],
)
def test_other_first_messages_are_refused(first: bytes) -> None:
    """If this fails, a client can log in with a message that other programs parse differently."""
    at_server = server()
    assert isinstance(at_server.step(first), Failed)
    assert isinstance(at_server.step(b"n,,\x01auth=Bearer good\x01\x01"), Failed)


def test_after_an_error_only_the_failure_follows() -> None:
    """If this fails, one login tries many tokens."""
    at_server = server()
    at_server.step(b"n,,\x01auth=Bearer bad\x01\x01")
    assert isinstance(at_server.step(b"n,,\x01auth=Bearer good\x01\x01"), Failed)
    assert isinstance(at_server.step(b"n,,\x01auth=Bearer good\x01\x01"), Failed)


def keys_are_public(key: RSAKey | ECKey) -> bool:
    return not key.is_private


def test_private_parts_of_a_set_are_not_kept() -> None:
    """If this fails, a provider's mistake becomes ours."""
    data = json.dumps({"keys": [RSA.as_dict(private=True)]}).encode()
    assert all(keys_are_public(each.key) for each in KeySet.parse(data).keys)
