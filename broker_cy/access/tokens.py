"""The delegation tokens of this node: their logins, and the sessions that end with them.

The credential of a token is computed with its first login: a few milliseconds of SCRAM's iterations, once for each
token, mechanism and node. Kafka does that on each node for each new token.

Bounds: CREDENTIALS_MAX credentials are kept, the newest ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from broker_cy.core import scram as scram_keys
from broker_cy.core import tokens
from broker_cy.security.sasl.scram import Credential, Token

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker_cy.core.clock import Clock
    from broker_cy.core.scram import Mechanism
    from broker_cy.metadata.image import ImageDelta, MetadataImage

CREDENTIALS_MAX: Final = 10_000


class TokenSession(Protocol):
    """A connection that has logged in with a token."""

    def end_by(self, expires_ms: int | None) -> None:
        """Its token expires at this wall time; None: it is gone."""
        ...


class Tokens:
    """The tokens in the metadata image. `apply` has to be subscribed to it."""

    def __init__(self, secret_key: str | None, image: Callable[[], MetadataImage], clock: Clock) -> None:
        self._secret_key = secret_key
        self._image = image
        self._clock = clock
        self._credentials: dict[tuple[str, str, bytes], Credential] = {}
        # By the id of the token.
        self._sessions: dict[str, dict[TokenSession, None]] = {}

    def find(self, mechanism: Mechanism, token_id: str, salt: bytes) -> Token | None:
        """The token, if it has not expired."""
        record = self._image().tokens.get(token_id)
        if record is None or self._secret_key is None or record.expiration_timestamp <= self._clock.wall_ms():
            return None
        key = (mechanism.name, token_id, salt)
        credential = self._credentials.get(key)
        if credential is None:
            credential = _credential(mechanism, tokens.hmac_of(self._secret_key, token_id), salt)
            if len(self._credentials) >= CREDENTIALS_MAX:
                del self._credentials[next(iter(self._credentials))]
            self._credentials[key] = credential
        return Token(credential, record.owner.partition(":")[2], record.expiration_timestamp)

    def begin(self, token_id: str, session: TokenSession) -> None:
        """A client has logged in with the token, which may have changed meanwhile."""
        self._sessions.setdefault(token_id, {})[session] = None
        record = self._image().tokens.get(token_id)
        session.end_by(record.expiration_timestamp if record is not None else None)

    def ended(self, token_id: str, session: TokenSession) -> None:
        found = self._sessions.get(token_id)
        if found is not None:
            found.pop(session, None)
            if not found:
                del self._sessions[token_id]

    def apply(self, delta: ImageDelta, image: MetadataImage) -> None:
        """Take over the changes of a commit."""
        for before, after in delta.tokens:
            record = after or before
            for session in list(self._sessions.get(record.token_id, ())) if record is not None else ():
                session.end_by(after.expiration_timestamp if after is not None else None)


def _credential(mechanism: Mechanism, token_hmac: bytes, salt: bytes) -> Credential:
    iterations = scram_keys.ITERATIONS_MIN
    salted = scram_keys.salted_password(mechanism, tokens.password_of(token_hmac), salt, iterations)
    return Credential(salt, iterations, scram_keys.keys_of(mechanism, salted))
