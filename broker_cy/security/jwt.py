"""JSON Web Tokens (RFC 7519): whether one of the provider's keys has signed a token, and whether it is meant for this
cluster and valid now, with the rules of Kafka's BrokerJwtValidator.

A signature is always checked, with a key from the provider and an algorithm of that key's type. ALGORITHMS has neither
`none` nor a symmetric algorithm, because everyone who knows the public key could sign with that. Kafka up to 4.1
accepted unsigned tokens if no keys were configured (CVE-2026-33557); here a validator always has keys.

As in Kafka, a token with an audience is refused if none is expected. Bounds: KEYS_MAX keys of a set.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeGuard

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

from broker_cy.core.classes import NamedTuple
from broker_cy.security.sasl.exchange import shown
from broker_cy.security.sasl.oauthbearer import Accepted, Rejected

KEYS_MAX: Final = 1_000
SET_BYTES_MAX: Final = 1 << 20
RSA_BITS_MIN: Final = 2_048
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
# The algorithms by the type of the key, and for elliptic curves by the curve.
ALGORITHMS: Final[Mapping[str, tuple[str, ...]]] = {
    "RSA": _RSA,
    "P-256": ("ES256",),
    "P-384": ("ES384",),
    "P-521": ("ES512",),
}
_MS: Final = 1_000
# Times beyond it are no times.
_TIME_S_MAX: Final = 1 << 40


class KeySetError(ValueError):
    """The text is not a set of keys (JWKS, RFC 7517)."""


class Key(NamedTuple):
    """A public key of the provider, and the algorithms that it is for."""

    key_id: str | None
    algorithms: tuple[str, ...]
    key: RSAKey | ECKey


class KeySet:
    """The keys that can check signatures; those of other kinds are left out."""

    def __init__(self, keys: list[Key]) -> None:
        self.keys = keys

    @classmethod
    def parse(cls, data: bytes) -> KeySet:
        """Raises KeySetError."""
        if len(data) > SET_BYTES_MAX:
            raise KeySetError(f"more than {SET_BYTES_MAX} bytes")
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise KeySetError("no JSON") from error
        listed = found.get("keys") if isinstance(found, dict) else None
        if not isinstance(listed, list) or len(listed) > KEYS_MAX:
            raise KeySetError(f"no list of at most {KEYS_MAX} keys")
        keys = [key for each in listed if isinstance(each, dict) and (key := _key(each)) is not None]
        if not keys:
            raise KeySetError("it has no key of RSA or of an elliptic curve for signatures")
        return cls(keys)

    def find(self, key_id: str | None, algorithm: str) -> Key | None:
        """The key that a token names, or the only one that fits it if it names none."""
        fitting = [each for each in self.keys if algorithm in each.algorithms]
        if key_id is None:
            return fitting[0] if len(fitting) == 1 else None
        return next((each for each in fitting if each.key_id == key_id), None)

    def has(self, key_id: str) -> bool:
        return any(each.key_id == key_id for each in self.keys)


def _key(found: dict[str, Any]) -> Key | None:
    key_id, use, algorithm = found.get("kid"), found.get("use"), found.get("alg")
    if use not in (None, "sig") or not isinstance(key_id, str | None):
        return None
    public: dict[str, Any] = {name: found[name] for name in ("kty", "n", "e", "crv", "x", "y") if name in found}
    try:
        if found.get("kty") == "RSA":
            key: RSAKey | ECKey = RSAKey.import_key(public)
            if key.public_key.key_size < RSA_BITS_MIN:
                return None
            algorithms = ALGORITHMS["RSA"]
        elif found.get("kty") == "EC":
            key = ECKey.import_key(public)
            algorithms = ALGORITHMS.get(str(found.get("crv")), ())
        else:
            return None
    except (JoseError, ValueError, TypeError, KeyError, binascii.Error):
        return None
    if algorithm is not None:
        algorithms = tuple(each for each in algorithms if each == algorithm)
    return Key(key_id, algorithms, key) if algorithms else None


class JwtSettings(NamedTuple):
    """A listener's requirements for a token. `audiences` may be empty, `issuer` None: then they are not checked."""

    audiences: frozenset[str]
    issuer: str | None
    scope_claim: str
    subject_claim: str
    skew_s: int


class JwtValidator:
    """`keys` are those known now; `missing` is called with the id of a key that is not among them; `wall_ms` is the
    time that tokens expire by.
    """

    def __init__(
        self,
        settings: JwtSettings,
        keys: Callable[[], KeySet],
        missing: Callable[[str], None],
        wall_ms: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._keys = keys
        self._missing = missing
        self._wall_ms = wall_ms

    def validate(self, token: str) -> Accepted | Rejected:
        """Judge a token in the compact form."""
        header = _header(token)
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or not isinstance(key_id, str | None):
            return Rejected("a token without a valid header")
        if not any(algorithm in each for each in ALGORITHMS.values()):
            return Rejected(f"a token with the algorithm {shown(algorithm)}")
        if "crit" in header:
            return Rejected("a token with critical extensions")
        keys = self._keys()
        key = keys.find(key_id, algorithm)
        if key is None:
            if key_id is not None and not keys.has(key_id):
                self._missing(key_id)
            return Rejected(f"no key of the provider fits the token: {shown(key_id) if key_id else 'it names none'}")
        try:
            payload = jws.deserialize_compact(token, key.key, algorithms=[algorithm]).payload
        except (JoseError, ValueError, TypeError):
            return Rejected("a token with a wrong signature")
        try:
            claims = json.loads(payload)
        except (ValueError, RecursionError):
            return Rejected("a token whose claims are no JSON")
        if not isinstance(claims, dict):
            return Rejected("a token whose claims are no object")
        return self._judge(claims)

    def _judge(self, claims: dict[str, Any]) -> Accepted | Rejected:
        settings, now_s = self._settings, self._wall_ms() / _MS
        expires_s, issued_s, not_before_s = (claims.get(name) for name in ("exp", "iat", "nbf"))
        if not _is_time(expires_s) or not _is_time(issued_s):
            return Rejected("a token without exp or iat")
        if now_s - settings.skew_s >= expires_s:
            return Rejected("a token that has expired")
        if not_before_s is not None and (not _is_time(not_before_s) or now_s + settings.skew_s < not_before_s):
            return Rejected("a token that does not count yet")
        if settings.issuer is not None and claims.get("iss") != settings.issuer:
            return Rejected("a token of another issuer")
        audience = claims.get("aud")
        found = [audience] if isinstance(audience, str) else audience
        if found is not None and not _is_texts(found):
            return Rejected("a token with an invalid audience")
        if (found is not None or settings.audiences) and not settings.audiences & set(found or ()):
            return Rejected("a token for another audience")
        scope = claims.get(settings.scope_claim)
        scopes = [scope] if isinstance(scope, str) else scope if isinstance(scope, list) else []
        if not _is_texts(scopes) or not all(each.strip() for each in scopes) or len(set(scopes)) < len(scopes):
            return Rejected("a token with an invalid scope")
        subject = claims.get(settings.subject_claim)
        if not isinstance(subject, str) or not subject.strip():
            return Rejected(f"a token without the claim {settings.subject_claim}")
        # Within the skew it counts a little longer.
        return Accepted(subject.strip(), int(max(expires_s, now_s + 1) * _MS))


def _header(token: str) -> dict[str, Any]:
    """The unverified header of a token; empty without one."""
    encoded = token.split(".")
    if len(encoded) != 3:
        return {}
    try:
        found = json.loads(base64.urlsafe_b64decode(encoded[0] + "=" * (-len(encoded[0]) % 4)))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_time(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _TIME_S_MAX


def _is_texts(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(each, str) for each in values)
