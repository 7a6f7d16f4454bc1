"""The keys of an OAuth provider (sasl.oauthbearer.jwks.endpoint.url): read at the start, and again at intervals and
when a token names a key that is not among them.

They are read from a file, or by HTTPS from a URL that the settings allow, in a worker thread. Redirections are not
followed, and at most jwt.SET_BYTES_MAX are read. If that fails, the keys stay as they were, and the read is repeated
with a growing pause.

Bounds: one request at a time, of at most fetch.TIMEOUT_S for each of its waits; a request for missing keys at most each
MISSING_S, for any number of unknown keys in tokens.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from broker_cy.core import fetch
from broker_cy.core.config_def.types import ConfigError
from broker_cy.core.logs import facts
from broker_cy.security.jwt import SET_BYTES_MAX, JwtSettings, JwtValidator, KeySet, KeySetError
from broker_cy.security.token_settings import URL, JwksEndpoint, OAuth

LOGGER = logging.getLogger("broker_cy.server.logins")

MISSING_S: Final = 10.0


class Jwks:
    """`keys` are those read last."""

    def __init__(
        self, endpoint: JwksEndpoint, loop: asyncio.AbstractEventLoop, read: Callable[[str], bytes] | None = None
    ) -> None:
        """Reads the keys for the first time, and blocks for that. Raises ConfigError."""
        self._endpoint = endpoint
        self._loop = loop
        self._read = read_url if read is None else read
        self._backoff_s = endpoint.backoff_s
        self._is_reading = False
        self._missed_s = -MISSING_S
        try:
            self.keys = KeySet.parse(self._read(endpoint.url))
        except (OSError, KeySetError, ValueError) as error:
            raise ConfigError(f"setting {URL}: could not read keys from {endpoint.url}: {error}") from None
        self._timer = loop.call_later(endpoint.refresh_s, self._refresh)

    def missing(self, key_id: str) -> None:
        """A token names a key that is not among `keys`: perhaps it is a new one."""
        now_s = self._loop.time()
        if now_s - self._missed_s >= MISSING_S:
            self._missed_s = now_s
            self._refresh()

    def _refresh(self) -> None:
        if self._is_reading:
            return
        self._is_reading = True
        self._timer.cancel()
        done = self._loop.run_in_executor(None, self._read, self._endpoint.url)
        done.add_done_callback(self._took)

    def _took(self, done: asyncio.Future[bytes]) -> None:
        self._is_reading = False
        if done.cancelled():
            return
        try:
            self.keys = KeySet.parse(done.result())
        except (OSError, KeySetError, ValueError) as error:
            wait_s = self._backoff_s
            self._backoff_s = min(2 * wait_s, self._endpoint.backoff_s_max)
            LOGGER.warning(
                "could not read the keys of the OAuth provider; those known before still count",
                extra=facts(url=self._endpoint.url, reason=error, retry_s=wait_s),
            )
        else:
            self._backoff_s = self._endpoint.backoff_s
            wait_s = self._endpoint.refresh_s
        self._timer = self._loop.call_later(wait_s, self._refresh)


def validator_of(oauth: OAuth, loop: asyncio.AbstractEventLoop, wall_ms: Callable[[], int]) -> JwtValidator:
    """Return the validator of a server's tokens. Reads the provider's keys, and blocks for that. Raises ConfigError."""
    keys = Jwks(oauth.endpoint, loop)
    return JwtValidator(
        JwtSettings(oauth.audiences, oauth.issuer, oauth.scope_claim, oauth.subject_claim, oauth.skew_s),
        lambda: keys.keys,
        keys.missing,
        wall_ms,
    )


def read_url(url: str) -> bytes:
    """The content of the URL. Raises OSError, ValueError."""
    return fetch.read(url, SET_BYTES_MAX)
