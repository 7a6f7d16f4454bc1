"""From where a client has its token for OAUTHBEARER, as Kafka's DefaultJwtRetriever: from a file, which is read for
each login, or from the provider (RFC 6749, client credentials), which is asked when the last token has lived for FRESH
of its time.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import urlencode

from broker_cy.core import fetch
from broker_cy.security.sasl.exchange import LoginFailed
from broker_cy.security.sasl.oauthbearer import MESSAGE_BYTES_MAX

# As Kafka's sasl.login.refresh.window.factor.
FRESH: Final = 0.8
ANSWER_BYTES_MAX: Final = 1 << 20


class TokenSource:
    """`client_id` and `secret` are for a provider. Neither the secret nor a token is in its `repr`."""

    def __init__(
        self,
        url: str,
        client_id: str = "",
        secret: str = "",
        scope: str = "",
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = url
        self._client_id = client_id
        self._secret = secret
        self._scope = scope
        self._now_s = now_s
        self._token = ""
        self._fresh_until_s = 0.0

    def __repr__(self) -> str:
        return f"TokenSource({self.url})"

    @property
    def is_fresh(self) -> bool:
        """Whether `token` need not ask anybody."""
        return bool(self._token) and self._now_s() < self._fresh_until_s

    def token(self) -> str:
        """The token for a login. Blocks unless it `is_fresh`. Raises LoginFailed."""
        if not self.is_fresh:
            try:
                self._renew()
            except (OSError, ValueError) as error:
                # What a server has answered is not shown: it may repeat what it was sent.
                reason = type(error).__name__ if isinstance(error, ValueError) else str(error)
                raise LoginFailed(f"could not get a token from {self.url}: {reason}") from None
        return self._token

    def _renew(self) -> None:
        asked_s = self._now_s()
        if fetch.is_file(self.url):
            self._token = fetch.read(self.url, MESSAGE_BYTES_MAX).decode().strip()
            return
        form = {"grant_type": "client_credentials"} | ({"scope": self._scope} if self._scope else {})
        basic = base64.b64encode(f"{self._client_id}:{self._secret}".encode()).decode()
        answer = fetch.read(
            self.url,
            ANSWER_BYTES_MAX,
            form=urlencode(form).encode(),
            headers={"Authorization": f"Basic {basic}", "Content-Type": "application/x-www-form-urlencoded"},
        )
        found = json.loads(answer)
        token = found.get("access_token") if isinstance(found, dict) else None
        if not isinstance(token, str):
            raise ValueError("no access_token")
        lifetime_s = found.get("expires_in")
        self._token = token
        self._fresh_until_s = asked_s + (lifetime_s if isinstance(lifetime_s, int | float) else 0) * FRESH
