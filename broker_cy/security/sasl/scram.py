"""SCRAM-SHA-256 and -512 (RFC 5802, RFC 7677) as Kafka has them (KIP-84): without channel binding and SASLprep.

    client: n,[a=authzid],n=user,r=NONCE[,extensions]
    server: r=NONCE+MORE,s=base64(salt),i=iterations
    client: c=base64(what preceded n=),r=NONCE+MORE[,extensions],p=base64(proof)
    server: v=base64(signature)

The proof covers all of it as it was sent. Kafka up to 3.9 did not compare the nonce of the third message with its own
(CVE-2024-56128); here the client must repeat exactly the server's nonce, and the first part of its first message.

With the extension `tokenauth=true` the user is the id of a delegation token, and its password the HMAC of that in
base64 (KIP-48): a client with both is the owner of the token until it expires.

A user or a token that does not exist gets the same answers as one with a wrong password: salt and iterations of a
Decoy, which are the same in each login, and a failure after the third message, with the same work in between.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable
from typing import Final

from broker_cy.core import scram
from broker_cy.core.classes import NamedTuple
from broker_cy.core.scram import ITERATIONS_DEFAULT, ITERATIONS_MIN, Keys, Mechanism
from broker_cy.security.sasl.exchange import Challenge, Done, Failed, Login, LoginFailed, ServerStep

# The limit of each message of a client and of a server.
MESSAGE_BYTES_MAX: Final = 8_192
# Iterations that a client computes for a server: a second of work at most. Kafka allows 16,384.
CLIENT_ITERATIONS_MAX: Final = 262_144
# Bytes that a nonce is made of.
NONCE_BYTES: Final = 18
# Salted passwords that a client keeps, because computing one costs all iterations. Several brokers have the same ones.
SALTED_MAX: Final = 8
# Kafka's salts are a random number of 130 bits in base 36, as text.
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_SALT_BITS: Final = 130
_GS2_NONE: Final = "n,"
_TOKEN_EXTENSION: Final = "tokenauth"
# In front of the ids of tokens in draws; no user has such a name.
_TOKEN_MARK: Final = "\0token "


class Credential(NamedTuple):
    """The stored form of a user's password at a server."""

    salt: bytes
    iterations: int
    keys: Keys

    def __repr__(self) -> str:
        return f"Credential({self.iterations} iterations)"


# Returns the credential of a user by name; None for an unknown user.
Lookup = Callable[[str], Credential | None]


class Token(NamedTuple):
    """A delegation token: its owner, and its end in wall time."""

    credential: Credential
    owner: str
    expires_ms: int


# Returns a token by its id, with a credential of the given salt; None for an unknown token.
TokenLookup = Callable[[str, bytes], Token | None]


def no_tokens(token_id: str, salt: bytes) -> Token | None:
    """The TokenLookup of a server without delegation tokens."""
    return None


class Decoys:
    """Credentials of users that do not exist. No password matches them.

    With the same `secret`, they are the same on each broker and after each restart, like those of real users; clients
    that are not logged in must not know it. `iterations` has the most common number of iterations by mechanism name.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = hashlib.sha256(b"scram decoys" + secret).digest()
        self.iterations: dict[str, int] = {}

    def of(self, mechanism: Mechanism, user: str) -> Credential:
        draw = self._draw(mechanism, b"salt", user)
        number = int.from_bytes(draw) & ((1 << _SALT_BITS) - 1)
        digits = []
        while number:
            number, digit = divmod(number, 36)
            digits.append(_DIGITS[digit])
        keys = Keys(self._draw(mechanism, b"stored", user), self._draw(mechanism, b"server", user))
        return Credential(
            "".join(reversed(digits)).encode(), self.iterations.get(mechanism.name, ITERATIONS_DEFAULT), keys
        )

    def _draw(self, mechanism: Mechanism, what: bytes, user: str) -> bytes:
        return hmac.digest(self._secret, b"\0".join((mechanism.name.encode(), what, user.encode())), mechanism.digest)


class ScramServer:
    """One login. `nonce` is drawn for it, and printable.

    Invariant: `_credential` is set between the first and the second message of the client, and only then.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        credentials: Lookup,
        decoys: Decoys,
        nonce: str,
        tokens: TokenLookup = no_tokens,
    ) -> None:
        self._mechanism = mechanism
        self._credentials = credentials
        self._decoys = decoys
        self._tokens = tokens
        self._token: Token | None = None
        self._more = nonce
        self._credential: Credential | None = None
        self._is_real = False
        self._is_over = False
        self._user = ""
        self._binding = ""
        self._nonce = ""
        self._bare = ""
        self._first = ""

    def __repr__(self) -> str:
        return f"ScramServer({self._mechanism.name})"

    def step(self, token: bytes) -> ServerStep:
        if self._is_over:
            return Failed("a token after the end of the exchange", self._user)
        text = _text(token)
        if text is None:
            found: ServerStep = Failed("a message that is too long or not UTF-8", self._user)
        elif self._credential is None:
            found = self._client_first(text)
        else:
            found = self._client_final(text, self._credential)
        self._is_over = not isinstance(found, Challenge)
        if self._is_over:
            self._credential = None
        return found

    def _client_first(self, text: str) -> ServerStep:
        fields = text.split(",")
        if len(fields) < 4 or fields[0] != "n" or not fields[2].startswith("n=") or not fields[3].startswith("r="):
            return Failed("an invalid client-first message")
        user, nonce = _name(fields[2][2:]), fields[3][2:]
        extensions = _extensions(fields[4:])
        # The client may name whom it wants to act as.
        acting = _name(fields[1][2:]) if fields[1].startswith("a=") else user if not fields[1] else None
        if user is None or acting is None or not _is_nonce(nonce) or extensions is None:
            return Failed("an invalid client-first message")
        self._user = user
        if acting != user:
            return Failed(
                "another authorization id",
                user,
                "Authentication failed: Client requested an authorization id that is different from username",
            )
        decoy, real = self._candidates(user, is_token=extensions.get(_TOKEN_EXTENSION, "").lower() == "true")
        self._is_real = real is not None and real.iterations >= ITERATIONS_MIN
        credential = real if real is not None and self._is_real else decoy
        self._credential = credential
        self._binding = base64.b64encode(f"{fields[0]},{fields[1]},".encode()).decode()
        self._bare = text[len(fields[0]) + len(fields[1]) + 2 :]
        self._nonce = nonce + self._more
        self._first = f"r={self._nonce},s={base64.b64encode(credential.salt).decode()},i={credential.iterations}"
        return Challenge(self._first.encode())

    def _candidates(self, user: str, *, is_token: bool) -> tuple[Credential, Credential | None]:
        """The decoy for an unknown user, and the credential of this one."""
        if not is_token:
            return self._decoys.of(self._mechanism, user), self._credentials(user)
        # The salt of a token is that of its decoy: so it is the same on each node, and reveals nothing.
        decoy = self._decoys.of(self._mechanism, _TOKEN_MARK + user)._replace(iterations=ITERATIONS_MIN)
        self._token = self._tokens(user, decoy.salt)
        return decoy, self._token.credential if self._token is not None else None

    def _client_final(self, text: str, credential: Credential) -> ServerStep:
        unproved, comma, last = text.rpartition(",")
        fields = unproved.split(",")
        proof = _decoded(last[2:]) if last.startswith("p=") else None
        if not comma or len(fields) < 2 or proof is None or _extensions(fields[2:]) is None:
            return Failed("an invalid client-final message", self._user)
        if not _same(fields[0], f"c={self._binding}"):
            return Failed("a channel binding other than that of the first message", self._user)
        if not _same(fields[1], f"r={self._nonce}"):
            return Failed("another nonce than that of this exchange", self._user)
        digest, keys = self._mechanism.digest, credential.keys
        everything = ",".join((self._bare, self._first, unproved)).encode()
        signature = hmac.digest(keys.stored_key, everything, digest)
        if len(proof) != len(signature):
            return Failed("a proof of another length", self._user)
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        is_equal = hmac.compare_digest(hashlib.new(digest, client_key).digest(), keys.stored_key)
        answer = b"v=" + base64.b64encode(hmac.digest(keys.server_key, everything, digest))
        if not (is_equal and self._is_real):
            return Failed("unknown user or wrong password", self._user)
        if self._token is not None:
            return Done(answer, self._token.owner, self._token.expires_ms, self._user)
        return Done(answer, self._user)


class SaltedPasswords:
    """The salted passwords of one login that were computed, the newest SALTED_MAX of them."""

    def __init__(self, login: Login) -> None:
        self.login = login
        self._found: dict[tuple[str, bytes, int], bytes] = {}

    def __repr__(self) -> str:
        return f"SaltedPasswords({len(self._found)})"

    def of(self, mechanism: Mechanism, salt: bytes, iterations: int) -> bytes:
        key = (mechanism.name, salt, iterations)
        found = self._found.get(key)
        if found is None:
            found = scram.salted_password(mechanism, self.login.password, salt, iterations)
            if len(self._found) >= SALTED_MAX:
                del self._found[next(iter(self._found))]
            self._found[key] = found
        return found


class ScramClient:
    """The half of the client. `nonce` is drawn for it, and printable."""

    blocks: Final = False

    def __init__(self, mechanism: Mechanism, salted: SaltedPasswords, nonce: str) -> None:
        self._mechanism = mechanism
        self._nonce = nonce
        self._salted = salted
        user = salted.login.user.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={user},r={nonce}" + (f",{_TOKEN_EXTENSION}=true" if salted.login.is_token else "")
        self._signature: bytes | None = None
        self.is_complete = False

    def first(self) -> bytes:
        return f"{_GS2_NONE},{self._bare}".encode()

    def step(self, token: bytes) -> bytes | None:
        text = _text(token)
        if text is None or self.is_complete:
            raise LoginFailed("the server sent an invalid SCRAM message")
        if self._signature is None:
            return self._client_final(text)
        if text.startswith("e="):
            raise LoginFailed("the server refused the login")
        found = _decoded(text.split(",")[0][2:]) if text.startswith("v=") else None
        if found is None or not hmac.compare_digest(found, self._signature):
            raise LoginFailed("the server did not prove that it knows the password: it is not the one it claims to be")
        self.is_complete = True
        return None

    def _client_final(self, first: str) -> bytes:
        fields = first.split(",")
        if len(fields) < 3 or [field[:2] for field in fields[:3]] != ["r=", "s=", "i="]:
            raise LoginFailed("the server sent an invalid SCRAM message")
        nonce, salt, count = fields[0][2:], _decoded(fields[1][2:]), fields[2][2:]
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce) or not _is_nonce(nonce):
            raise LoginFailed("the server answered with another nonce")
        if not salt or not (count.isascii() and count.isdigit() and len(count) <= 9):
            raise LoginFailed("the server sent an invalid SCRAM message")
        iterations = int(count)
        if not ITERATIONS_MIN <= iterations <= CLIENT_ITERATIONS_MAX:
            raise LoginFailed(
                f"the server asks for {iterations} iterations; {ITERATIONS_MIN} to {CLIENT_ITERATIONS_MAX} are allowed"
            )
        digest = self._mechanism.digest
        salted = self._salted.of(self._mechanism, salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", digest)
        unproved = f"c={base64.b64encode(f'{_GS2_NONE},'.encode()).decode()},r={nonce}"
        everything = ",".join((self._bare, first, unproved)).encode()
        signature = hmac.digest(hashlib.new(digest, client_key).digest(), everything, digest)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = hmac.digest(hmac.digest(salted, b"Server Key", digest), everything, digest)
        return f"{unproved},p={base64.b64encode(proof).decode()}".encode()


def nonce_of(drawn: bytes) -> str:
    """A printable nonce of NONCE_BYTES random bytes."""
    return base64.urlsafe_b64encode(drawn).decode()


def _text(token: bytes) -> str | None:
    if len(token) > MESSAGE_BYTES_MAX:
        return None
    try:
        return token.decode()
    except UnicodeDecodeError:
        return None


def _name(text: str) -> str | None:
    """A saslname without its escapes; None if it is not one."""
    if not text or "\0" in text:
        return None
    parts = text.split("=")
    if any(part[:2] not in ("2C", "3D") for part in parts[1:]):
        return None
    return parts[0] + "".join((("," if part[:2] == "2C" else "=") + part[2:]) for part in parts[1:])


def _is_nonce(text: str) -> bool:
    return bool(text) and all("!" <= sign <= "~" for sign in text)


def _extensions(fields: list[str]) -> dict[str, str] | None:
    """Extensions by their names, which are ignored but for one; None if they are malformed."""
    found = {}
    for field in fields:
        name, equals, value = field.partition("=")
        if not (name.isascii() and name.isalpha() and equals and value):
            return None
        found[name] = value
    return found


def _decoded(text: str) -> bytes | None:
    """Decode strict base64; None if it is not."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())
