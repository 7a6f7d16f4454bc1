"""The source of a client's token for OAUTHBEARER, as Kafka's DefaultJwtRetriever. The token comes from a file, which is
read for each login, or from the provider (RFC 6749, client credentials). The client requests a new token from the
provider after the fraction FRESH of the last token's lifetime. If that fails, the client uses the last token until it
expires, and asks the provider again after RETRY_S.

One thread at a time sends the request, for all connections that wait for the token.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import urlencode

from broker_cy.core import fetch
from broker_cy.security.sasl.exchange import LoginFailed
from broker_cy.security.sasl.oauthbearer import MESSAGE_BYTES_MAX, TokenEndpoint

# As Kafka's sasl.login.refresh.window.factor.
FRESH: Final = 0.8
RETRY_S: Final = 1.0
ANSWER_BYTES_MAX: Final = 1 << 20


class TokenSource:
    """Its `repr` contains neither the secret nor a token. `now_s` is a monotonic clock."""

    def __init__(self, endpoint: TokenEndpoint, now_s: Callable[[], float] = time.monotonic) -> None:
        self.endpoint = endpoint
        self._now_s = now_s
        self._lock = threading.Lock()
        self._token = ""
        self._fresh_until_s = self._expires_s = 0.0

    def __repr__(self) -> str:
        return f"TokenSource({self.endpoint.url})"

    def fresh(self) -> str | None:
        """The token for a login, unless the provider must be asked first."""
        return self._token if self._token and self._now_s() < self._fresh_until_s else None

    def token(self) -> str:
        """The token for a login. Blocks unless a fresh one exists. Raises LoginFailed."""
        with self._lock:
            if self.fresh() is None:
                try:
                    self._renew()
                except (OSError, ValueError) as error:
                    if self._now_s() >= self._expires_s:
                        # The server's answer is not shown: it may repeat the secret.
                        reason = type(error).__name__ if isinstance(error, ValueError) else str(error)
                        raise LoginFailed(f"could not get a token from {self.endpoint.url}: {reason}") from None
                    self._fresh_until_s = min(self._now_s() + RETRY_S, self._expires_s)
            return self._token

    def _renew(self) -> None:
        asked_s = self._now_s()
        url, client_id, secret, scope = self.endpoint
        if self.endpoint.is_file:
            self._token = fetch.read(url, MESSAGE_BYTES_MAX).decode().strip()
            return
        form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
        basic = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
        answer = fetch.read(
            url,
            ANSWER_BYTES_MAX,
            form=urlencode(form).encode(),
            headers={"Authorization": f"Basic {basic}", "Content-Type": "application/x-www-form-urlencoded"},
        )
        found = json.loads(answer)
        token = found.get("access_token") if isinstance(found, dict) else None
        if not isinstance(token, str):
            raise ValueError("no access_token")
        lifetime_s = found.get("expires_in")
        if not isinstance(lifetime_s, int | float):
            lifetime_s = 0
        self._token = token
        self._fresh_until_s, self._expires_s = asked_s + lifetime_s * FRESH, asked_s + lifetime_s
