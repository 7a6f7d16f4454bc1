"""The requirements of a server for bearer tokens, by Kafka's settings (KIP-768): where the keys of the provider are,
and which claims a token must have. A listener of a broker has them, and so has a program that serves HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from broker_cy.core import fetch
from broker_cy.core.classes import NamedTuple
from broker_cy.core.config_def.types import ConfigError

URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
REFRESH: Final = "sasl.oauthbearer.jwks.endpoint.refresh.ms"
BACKOFF: Final = "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"
BACKOFF_MAX: Final = "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"
AUDIENCE: Final = "sasl.oauthbearer.expected.audience"
ISSUER: Final = "sasl.oauthbearer.expected.issuer"
SCOPE_CLAIM: Final = "sasl.oauthbearer.scope.claim.name"
SUBJECT_CLAIM: Final = "sasl.oauthbearer.sub.claim.name"
SKEW: Final = "sasl.oauthbearer.clock.skew.seconds"
NAMES: Final = (URL, REFRESH, BACKOFF, BACKOFF_MAX, AUDIENCE, ISSUER, SCOPE_CLAIM, SUBJECT_CLAIM, SKEW)


class JwksEndpoint(NamedTuple):
    """The place of an OAuth provider's keys, and the time between reads: an interval, and a growing pause after
    failures.
    """

    url: str
    refresh_s: float
    backoff_s: float
    backoff_s_max: float


class OAuth(NamedTuple):
    """The requirements for tokens (security.jwt.JwtSettings)."""

    endpoint: JwksEndpoint
    audiences: frozenset[str]
    issuer: str | None
    scope_claim: str
    subject_claim: str
    skew_s: int


def required_tokens(what: str, value: Callable[[str], Any], check_url: Callable[[str, str], None]) -> OAuth:
    """Return the requirements. `what` names the listener in errors; `value` returns the typed value of a setting;
    `check_url` raises ConfigError for a setting and its URL if it must not be read. Raises ConfigError.
    """
    url = (value(URL) or "").strip()
    if not url:
        raise ConfigError(f"{what}: setting {URL} is needed to check the signatures of tokens")
    check_url(URL, url)
    times_ms = {name: value(name) for name in (REFRESH, BACKOFF, BACKOFF_MAX)}
    for name, time_ms in times_ms.items():
        if time_ms <= 0:
            raise ConfigError(f"setting {name}={time_ms}: it must be at least 1")
    claims = [(value(name) or "").strip() for name in (SCOPE_CLAIM, SUBJECT_CLAIM)]
    if not all(claims) or value(SKEW) < 0:
        raise ConfigError(f"settings {SCOPE_CLAIM} and {SUBJECT_CLAIM} must not be empty, and {SKEW} not below 0")
    return OAuth(
        JwksEndpoint(url, *(each / 1000 for each in times_ms.values())),
        frozenset(each.strip() for each in value(AUDIENCE)),
        (value(ISSUER) or "").strip() or None,
        claims[0],
        claims[1],
        value(SKEW),
    )


def check_url(setting: str, url: str) -> None:
    """Raise ConfigError for a URL that is not one of a provider: an attacker on the way could change the answer."""
    if (wrong := fetch.wrong_with(url)) is not None:
        raise ConfigError(f"setting {setting}={url}: {wrong}")


def check_allowed_url(setting: str, url: str, allowed: Iterable[str], setting_of_allowed: str) -> None:
    """As `check_url`; as in Kafka since CVE-2025-27817, a URL has to be allowed as it is written, too."""
    check_url(setting, url)
    if url not in {each.strip() for each in allowed}:
        raise ConfigError(f"setting {setting}={url}: the URL is not allowed; {setting_of_allowed} has to contain it")
