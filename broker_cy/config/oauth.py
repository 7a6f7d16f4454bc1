"""The settings of OAUTHBEARER: a listener's requirements for the tokens of clients, and the source of the token that a
node logs in to other nodes with.

Invariant: only URLs and files that brokercy.sasl.oauthbearer.allowed.urls contains literally are read (CVE-2025-27817).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from broker_cy.core import fetch
from broker_cy.core.config_def.types import ConfigError
from broker_cy.security.sasl.oauthbearer import TokenEndpoint

HANDLER: Final = "sasl.server.callback.handler.class"
LOGIN_HANDLER: Final = "sasl.login.callback.handler.class"
ALLOWED_URLS: Final = "brokercy.sasl.oauthbearer.allowed.urls"
_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_REFRESH: Final = "sasl.oauthbearer.jwks.endpoint.refresh.ms"
_BACKOFF: Final = "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"
_BACKOFF_MAX: Final = "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"
_AUDIENCE: Final = "sasl.oauthbearer.expected.audience"
_ISSUER: Final = "sasl.oauthbearer.expected.issuer"
_SCOPE: Final = "sasl.oauthbearer.scope.claim.name"
_SUBJECT: Final = "sasl.oauthbearer.sub.claim.name"
_SKEW: Final = "sasl.oauthbearer.clock.skew.seconds"
_TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
_TOKEN_SCOPE: Final = "sasl.oauthbearer.scope"
_OF_PROVIDER: Final = (_CLIENT_ID, _CLIENT_SECRET, _TOKEN_SCOPE)
NAMES: Final = frozenset(
    {_URL, _REFRESH, _BACKOFF, _BACKOFF_MAX, _AUDIENCE, _ISSUER, _SCOPE, _SUBJECT, _SKEW, ALLOWED_URLS, _TOKEN_URL}
) | frozenset(_OF_PROVIDER)
OF_LISTENER: Final = NAMES - {ALLOWED_URLS}
# Kafka's validator of signed tokens, the only one served here; without it Kafka accepts unsigned tokens.
_VALIDATORS: Final = frozenset(
    {
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
    }
)
# Kafka's client of a provider, the only one served here.
_LOGIN_HANDLERS: Final = frozenset(
    {
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
    }
)
HANDLERS: Final = {HANDLER: _VALIDATORS, LOGIN_HANDLER: _LOGIN_HANDLERS}


class JwksEndpoint(NamedTuple):
    """The place of an OAuth provider's keys, and the time between reads: an interval, and a growing pause after
    failures.
    """

    url: str
    refresh_s: float
    backoff_s: float
    backoff_s_max: float


class OAuth(NamedTuple):
    """A listener's requirements for tokens (security.jwt.JwtSettings)."""

    endpoint: JwksEndpoint
    audiences: frozenset[str]
    issuer: str | None
    scope_claim: str
    subject_claim: str
    skew_s: int


def of_listener(listener: str, value: Callable[[str], Any], allowed: Iterable[str]) -> OAuth:
    """`value` returns the typed value of a setting for this listener. Raises ConfigError."""
    url = (value(_URL) or "").strip()
    if not url:
        raise ConfigError(
            f"listener {listener} has OAUTHBEARER: setting {_URL} is needed to check the signatures of tokens"
        )
    _check_url(_URL, url, allowed)
    times_ms = {name: value(name) for name in (_REFRESH, _BACKOFF, _BACKOFF_MAX)}
    for name, time_ms in times_ms.items():
        if time_ms <= 0:
            raise ConfigError(f"setting {name}={time_ms}: it must be at least 1")
    claims = [(value(name) or "").strip() for name in (_SCOPE, _SUBJECT)]
    if not all(claims) or value(_SKEW) < 0:
        raise ConfigError(f"settings {_SCOPE} and {_SUBJECT} must not be empty, and {_SKEW} not below 0")
    return OAuth(
        JwksEndpoint(url, *(each / 1000 for each in times_ms.values())),
        frozenset(each.strip() for each in value(_AUDIENCE)),
        (value(_ISSUER) or "").strip() or None,
        claims[0],
        claims[1],
        value(_SKEW),
    )


def _check_url(setting: str, url: str, allowed: Iterable[str]) -> None:
    """Raises ConfigError. As in Kafka since CVE-2025-27817, a URL has to be allowed as it is written."""
    if (wrong := fetch.wrong_with(url)) is not None:
        raise ConfigError(f"setting {setting}={url}: {wrong}")
    if url not in {each.strip() for each in allowed}:
        raise ConfigError(f"setting {setting}={url}: the URL is not allowed; {ALLOWED_URLS} has to contain it")


def of_node(listener: str, setting: str, value: Callable[[str], Any], allowed: Iterable[str]) -> TokenEndpoint:
    """The login of a node to the listener of other nodes, because `setting` says so. Raises ConfigError, without the
    secret.
    """
    url = (value(_TOKEN_URL) or "").strip()
    if not url:
        raise ConfigError(f"setting {setting}=OAUTHBEARER: setting {_TOKEN_URL} is needed for listener {listener}")
    _check_url(_TOKEN_URL, url, allowed)
    secret = value(_CLIENT_SECRET)
    found = TokenEndpoint(
        url,
        (value(_CLIENT_ID) or "").strip(),
        "" if secret is None else secret.value.strip(),
        (value(_TOKEN_SCOPE) or "").strip(),
    )
    if found.is_file:
        if any(found[1:]):
            raise ConfigError(f"settings {', '.join(_OF_PROVIDER)} do not belong to a file of {_TOKEN_URL}")
    elif not (found.client_id and found.secret):
        raise ConfigError(f"setting {_TOKEN_URL} needs {_CLIENT_ID} and {_CLIENT_SECRET}")
    return found
